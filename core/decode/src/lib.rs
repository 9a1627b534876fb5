//! Decodes the causes of exits: syndromes, system registers, instructions.
//!
//! Every function here is total, since a guest may have chosen its argument: any value has an
//! answer, and none panics. Encodings that the architecture reserves decode to a variant of their
//! own, because later CPUs will use them.
//!
//! An access to a device is described by the syndrome of its data abort ([`DataAbort::access`]),
//! or, for the accesses that the syndrome does not describe (pairs, write-back, SIMD: DDI 0487
//! D24.2, ESR_EL2, ISV = 0), by the instruction itself, which must be read and decoded
//! ([`decode_load_store`]).

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod a64;
pub mod aarch32;
mod abort;
mod class;
mod coprocessor;
mod exception;
mod features;
mod frequent;
mod inject;
mod loadstore;
mod psr;
mod structures;
mod syndrome;
mod sysreg;
mod sysreg_names;

pub use a64::decode_load_store;

pub use abort::{Access, DataAbort, Fault, InstructionAbort};
pub use class::{Class, Condition, Esr, Origin};
pub use coprocessor::{Coprocessor, CoprocessorPair, CoprocessorTransfer};
pub use exception::{Control, fault_status, offset};
pub use features::has_mpam;
pub use frequent::{
    Frequent, is_store, operand_of_write, register_of_narrow_load, register_of_narrow_store,
    register_of_word_load, register_of_word_store,
};
pub use inject::{data_abort, instruction_abort, undefined};
pub use loadstore::{
    Addressing, Atomic, Data, Exclusive, Extend, General, LoadStore, Resolved, Structures, Transfer,
};
pub use psr::{Psr, banked_register, mode, syndrome_register};
pub use syndrome::{Debug, Eret, SError, Syndrome, SystemRegister, Wait, WaitTimeout};
pub use sysreg::SysReg;
