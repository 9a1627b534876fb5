//! What differs between 64 and 32 bit, under the same names.
//!
//! | | |
//! |---|---|
//! | `access` | one load, store or jump that may fault |
//! | `code` | instructions that are made at run time |
//! | `crossing` | each register that can be read or written, to be filled and looked at |
//! | `fp` | the FP/SIMD registers |
//! | `hostile` | what takes instructions of its own to harm others |
//! | `cases` | cases about instructions and registers |
//! | `fuzz` | the guest that tries everything |

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "arm")]
mod arm;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "arm")]
pub use arm::*;
