//! Cases about instructions and registers of ARMv7-A.

mod debug;
mod exceptions;
mod forms;
mod fp;
mod holes;
mod modes;
mod short;
mod sysregs;
mod undescribed;

use crate::case::Case;

/// All of them.
pub const TOPICS: [&[Case]; 8] = [
    holes::CASES,
    exceptions::CASES,
    short::CASES,
    modes::CASES,
    forms::CASES,
    sysregs::CASES,
    debug::CASES,
    fp::CASES,
];

/// Those that are run by name alone.
pub const EXTRA: &[Case] = undescribed::CASES;
