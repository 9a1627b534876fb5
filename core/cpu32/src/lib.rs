//! The virtual CPU of a guest that runs in User mode on an ARMv7-A CPU without virtualization
//! hardware: the modes, banked registers and system registers that the guest's kernel believes in.
//!
//! The CPU itself holds what User mode can use: R0 to R14 of the guest's current mode, the PC, the
//! flags, GE, E, T and ITSTATE ([`Registers`]). All else is here ([`VirtualCpu`]). It is changed by a
//! sensitive instruction ([`VirtualCpu::execute`]), by an indirect branch that the guest may not make
//! itself ([`VirtualCpu::branch`]), by an exception ([`VirtualCpu::take`],
//! [`VirtualCpu::deliver`]), by a reset, by what trampolines wrote in the virtual CPU's page
//! ([`VirtualCpu::take_page`]), and by what the backend answers or tells it (PAR, a program's
//! TPIDRURW, which interrupts wait). Nothing here touches hardware: what an instruction means for
//! tables, caches, timers or other CPUs is its [`Outcome`], which the backend carries out.
//!
//! Kept true:
//! - The mode is always one of the seven that exist here; no value of a guest can make it another.
//! - An instruction that aborts, or that has to be done again, has changed no register, but that the
//!   abort is taken. So loads come before changes everywhere, and stores before registers. The words
//!   that it stored before the one that was refused stay stored, and are stored again when it is
//!   done again, as on a CPU (DDI 0406C, B1.9, Data Abort exception).
//! - Every function is total: the guest may have chosen each argument.
//!
//! # What the virtual CPU is
//!
//! An ARMv7-A CPU with the Multiprocessing Extensions and the generic timer, and without the
//! Security and Virtualization Extensions, LPAE, ThumbEE, Jazelle, performance monitors and debug.
//! [`Identity::offered`] makes the ID registers say so. As on the backend with virtualization
//! hardware, where only the ID registers hide the Security Extensions, VBAR is there, and A, F and
//! the PD bits of TTBCR can be written; SCR, NSACR and MVBAR are undefined.
//!
//! # How a backend uses it
//!
//! 1. The guest exits. If its kernel ran, the page is taken over ([`VirtualCpu::take_page`]); if a
//!    program ran, its TPIDRURW ([`VirtualCpu::set_tpidrurw`]).
//! 2. The cause is an instruction to be executed or an exception to be taken; the backend carries out
//!    the outcome.
//! 3. An interrupt that waits is delivered if it is not masked ([`VirtualCpu::set_lines`],
//!    [`VirtualCpu::deliver`]).
//! 4. The guest is entered with the rights of its mode ([`Mode::is_privileged`]) and with
//!    [`Registers::psr`] as CPSR; if it is the kernel, each field of the page is written before
//!    ([`VirtualCpu::page_word`]).
//!
//! # What is UNPREDICTABLE
//!
//! - An instruction whose operands the manual forbids is undefined, as is one that needs an SPSR
//!   in User or System mode.
//! - A mode that does not exist is not entered: MSR, CPS and exception returns leave the mode as it
//!   is, and write the other bits.
//! - A branch to an address that is aligned for neither instruction set is undefined, and has changed
//!   nothing. LDR of the PC from an address that is not aligned is an alignment fault.
//! - An exception return ignores J, and ITSTATE unless T is set.

#![no_std]
#![forbid(unsafe_code)]

mod banks;
mod block;
mod branch;
mod coprocessor;
mod crossing;
mod data;
mod exception;
mod execute;
mod floating_point;
mod identity;
mod maintenance;
mod memory;
mod mode;
mod name;
mod operations;
mod outcome;
mod page;
mod registers;
mod reset;
mod returns;
mod state;
mod status;
mod stop;
mod system;
mod timer;
mod unprivileged;

pub use crossing::CrossedBanks;
pub use exception::{Exception, Fault, FaultStatus, Interrupt, Lines, Vector};
pub use identity::{Identity, LEVELS};
pub use memory::{Access, GuestAccess, Refusal, Rights};
pub use mode::Mode;
pub use operations::{
    Barrier, CacheOperation, DataCacheAction, DataCachePlace, Reach, TlbOperation, TlbScope,
    TlbUnit, Translation,
};
pub use outcome::{Conduit, MmuOperation, Outcome, RegimeChange, Wait};
pub use page::Domains;
pub use registers::Registers;
pub use state::{Masks, VirtualCpu};
pub use system::{Changes, SystemRegister, sctlr};
pub use timer::{Destination, Movement, TimerAccess, TimerRegister};
