//! Cases about instructions and registers of AArch64.

mod debug;
mod exceptions;
mod forms;
mod holes;
mod sysregs;

use crate::case::Case;
pub use sysregs::feature_id;

/// Cases about a device of the board that are of this architecture alone.
pub const PASS_THROUGH: &[Case] = &[];

/// All cases of AArch64.
pub const TOPICS: [&[Case]; 5] = [
    holes::CASES,
    exceptions::CASES,
    forms::CASES,
    sysregs::CASES,
    debug::CASES,
];

/// Those that run only when they are named.
pub const NAMED: [&[Case]; 0] = [];
