//! Cases about instructions and registers of ARMv7-A.

mod exceptions;
mod holes;

use crate::case::Case;

/// All of them.
pub const TOPICS: [&[Case]; 2] = [holes::CASES, exceptions::CASES];
