//! The CPU: what differs between 64 and 32 bit beside the runtime's, under the same names.
//!
//! | | |
//! |---|---|
//! | `vectors` | saves the interrupted context, calls [`crate::exception::exception`], and goes on with the context that it returns |
//! | `Frame` | a context: what was saved, on its own stack |
//! | `cpu` | a loop of known length, calls of the kernel |

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "arm")]
mod arm;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "arm")]
pub use arm::*;

/// Why the kernel was entered.
pub enum Cause {
    /// A task made a request.
    Call,
    /// An interrupt.
    Interrupt,
    /// Anything else: a fault of the image.
    Fault,
}
