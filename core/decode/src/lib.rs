//! What a guest was doing when it left: syndromes, system registers, instructions.
//!
//! Everything here is a total function of a number that a guest may have chosen: any value
//! has an answer, none panics. What the architecture reserves decodes to a variant that says
//! so, because a later CPU will use it.
//!
//! Two sources tell about an access to a device. The syndrome of a data abort does for most
//! ([`DataAbort::access`]); where it does not (pairs, write-back, SIMD: DDI 0487 D24.2, ESR_EL2,
//! ISV = 0) the instruction itself must be read and decoded ([`decode_load_store`]).

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
