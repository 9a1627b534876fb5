//! The CPU: everything that differs between 64 and 32 bits, under the same names.
//!
//! | | |
//! |---|---|
//! | `boot` | from the loader's jump to [`crate::main`] with the MMU on |
//! | `vectors` | saves the interrupted context, calls [`crate::exception::exception`], and goes on
//! with the context that it returns |
//! | `Frame` | a context: what was saved, on its own stack |
//! | `cpu` | counter and timer, interrupt mask, WFI, calls, GICv3's registers |

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
