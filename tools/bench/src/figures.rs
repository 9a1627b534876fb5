//! The catalogue: what is measured, the limits, and published values.
//!
//! Limits are those that the project set itself. Published values have their source and conditions,
//! since few were measured on the machine of this bench. They are shown beside our own figures,
//! which are never judged by them.

use crate::figure::Figure;

mod in_user_mode;
mod lmbench;
mod micro;

impl Figure {
    /// The figure named `id`.
    pub fn find(id: &str) -> Option<&'static Self> {
        FIGURES.iter().copied().find(|figure| figure.id == id)
    }
}

/// Every figure as it is judged on a machine, in the order in which they are shown. `extensions` says whether the
/// machine's CPU has the virtualization extensions ([`Machine::extensions`](crate::Machine::extensions)).
pub const fn figures_on(extensions: bool) -> &'static [&'static Figure] {
    if extensions {
        FIGURES
    } else {
        in_user_mode::FIGURES
    }
}

/// Every figure, in the order in which they are shown.
pub const FIGURES: &[&Figure] = &[
    &micro::HYPERCALL,
    &micro::SMCCC_VERSION,
    &micro::GICD_READ,
    &micro::TIMER_INTERRUPT,
    &micro::IPI,
    &micro::SWITCH,
    &micro::SWITCH_BUDGETS,
    &micro::NANOSLEEP,
    &micro::BOOT,
    &micro::KERNEL_TO_SHELL,
    &micro::IMAGE,
    &lmbench::SYSCALL_NULL,
    &lmbench::SYSCALL_READ,
    &lmbench::SYSCALL_WRITE,
    &lmbench::SYSCALL_STAT,
    &lmbench::SYSCALL_OPEN,
    &lmbench::SIG_INSTALL,
    &lmbench::SIG_CATCH,
    &lmbench::PIPE,
    &lmbench::SELECT_100,
    &lmbench::SEM,
    &lmbench::FCNTL,
    &lmbench::FORK,
    &lmbench::EXEC,
    &lmbench::SHELL,
    &lmbench::PAGEFAULT,
    &lmbench::MMAP,
    &lmbench::BW_MEM_RD,
    &lmbench::BW_MEM_WR,
    &lmbench::BW_MEM_RDWR,
    &lmbench::BW_MEM_CP,
    &lmbench::BW_MEM_BZERO,
    &lmbench::BW_MEM_BCOPY,
    &lmbench::BW_PIPE,
    &lmbench::MEM_RD,
    &lmbench::INTEGER,
    &lmbench::CTX_2,
    &lmbench::CTX_4,
    &lmbench::CTX_8,
    &lmbench::CTX_16,
    &lmbench::CTX_32,
    &micro::PENDING_4,
    &micro::PENDING_200,
    &micro::BURST_200,
    &micro::WAKE_BESIDE,
];
