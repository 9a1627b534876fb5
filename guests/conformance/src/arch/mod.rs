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
#[path = "aarch64/mod.rs"]
mod this;
#[cfg(target_arch = "arm")]
#[path = "arm/mod.rs"]
mod this;

pub use this::*;
