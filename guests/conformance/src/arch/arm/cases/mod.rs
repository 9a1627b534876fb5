//! Cases about instructions and registers of ARMv7-A.

mod borders;
mod debug;
mod exceptions;
mod forms;
mod fp;
mod holes;
mod modes;
mod seams;
mod short;
mod sysregs;
mod undescribed;

use crate::case::Case;
pub use sysregs::feature_id;
pub use undescribed::PASS_THROUGH;

/// All cases of ARMv7-A.
pub const TOPICS: [&[Case]; 10] = [
    holes::CASES,
    exceptions::CASES,
    short::CASES,
    modes::CASES,
    forms::CASES,
    seams::CASES,
    sysregs::CASES,
    debug::CASES,
    fp::CASES,
    undescribed::CASES,
];

/// Those that run only when they are named.
pub const NAMED: [&[Case]; 2] = [borders::CASES, borders::LAST];
