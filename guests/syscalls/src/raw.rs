//! The architecture's own part under one name, and answers as results.

use crate::error::{Errno, Result};

#[cfg(target_arch = "arm")]
pub use crate::arm::*;
#[cfg(target_arch = "aarch64")]
pub use crate::arm64::*;
#[cfg(target_arch = "x86_64")]
pub use crate::x86_64::*;

/// [`call`], whose negative answers are errors.
///
/// # Safety
///
/// As of [`call`].
pub unsafe fn checked(number: usize, arguments: [usize; 6]) -> Result<usize> {
    // SAFETY: the caller's promise.
    let answer = unsafe { call(number, arguments) };
    usize::try_from(answer).map_err(|_| Errno(answer.unsigned_abs() as u16))
}
