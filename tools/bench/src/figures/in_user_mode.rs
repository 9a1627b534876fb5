//! The same figures on a machine without virtualization extensions, where the guest's kernel runs in User mode: other
//! limits, and other systems beside.

use super::{lmbench, micro};
use crate::figure::{Figure, Limit, Published, PublishedAs};

const XEN_ON_ARM: Published = Published {
    system: "Xen on ARM, paravirtualized",
    side: None,
    bits: Some(32),
    given: PublishedAs::Ratio,
    low: 0.0,
    high: 0.0,
    source: "lmbench 3.0-a9, as compared in 2013 with a VMM for ARMv7-A without virtualization extensions",
};
const VMM: Published = Published {
    system: "Full virtualization by traps, Cortex-A8",
    source: "lmbench 3.0-a9, Linux 3.4.4, BeagleBoard-xM, 2013",
    ..XEN_ON_ARM
};
const XVISOR: Published = Published {
    system: "Xvisor without VE, Cortex-A9",
    source: "lmbench 3.0-a9, Linux 6.1 with software PAN, vexpress-a9, QEMU, 1 instruction = 1 ns",
    ..XEN_ON_ARM
};

const fn times(of: Published, ratio: f64) -> Published {
    Published {
        low: ratio,
        high: ratio,
        ..of
    }
}

/// What was published of another program of the same kind.
const fn of_dhrystone(of: Published) -> Published {
    Published {
        source: "Dhrystone 2.1 itself, which is another program than ours of the same kind; native over virtualized",
        ..of
    }
}

/// A figure of which others reach this as a multiple of native's cost.
const fn figure(of: Figure, most: f64, published: &'static [Published]) -> Figure {
    Figure {
        limit: Limit::RatioToNative(most),
        published,
        ..of
    }
}

/// A figure that has no limit here.
const fn open(of: Figure) -> Figure {
    Figure {
        limit: Limit::None,
        published: &[],
        ..of
    }
}

/// Every figure, in the order of [`super::FIGURES`].
pub(super) const FIGURES: &[&Figure] = &[
    &open(micro::HYPERCALL),
    &open(micro::SMCCC_VERSION),
    &open(micro::GICD_READ),
    &open(micro::TIMER_INTERRUPT),
    &open(micro::IPI),
    &open(micro::SWITCH),
    &open(micro::SWITCH_BUDGETS),
    &open(micro::NANOSLEEP),
    &open(micro::BOOT),
    &figure(micro::KERNEL_TO_SHELL, 1.3, &[times(XVISOR, 2.35)]),
    &Figure {
        limit: Limit::AtMost(417_792.0),
        published: &[],
        ..micro::IMAGE
    },
    &figure(
        lmbench::SYSCALL_NULL,
        1.8,
        &[
            times(XEN_ON_ARM, 2.5),
            times(VMM, 274.54),
            times(XVISOR, 266.0),
        ],
    ),
    &figure(
        lmbench::SYSCALL_READ,
        1.25,
        &[
            times(XEN_ON_ARM, 1.9),
            times(VMM, 157.26),
            times(XVISOR, 168.0),
        ],
    ),
    &figure(
        lmbench::SYSCALL_WRITE,
        1.25,
        &[
            times(XEN_ON_ARM, 1.85),
            times(VMM, 166.85),
            times(XVISOR, 147.0),
        ],
    ),
    &open(lmbench::SYSCALL_STAT),
    &figure(
        lmbench::SYSCALL_OPEN,
        1.3,
        &[times(VMM, 80.99), times(XVISOR, 56.0)],
    ),
    &figure(
        lmbench::SIG_INSTALL,
        1.3,
        &[times(VMM, 140.28), times(XVISOR, 124.0)],
    ),
    &figure(
        lmbench::SIG_CATCH,
        1.5,
        &[
            times(XEN_ON_ARM, 1.82),
            times(VMM, 134.19),
            times(XVISOR, 81.0),
        ],
    ),
    &figure(
        lmbench::PIPE,
        1.2,
        &[
            times(XEN_ON_ARM, 1.735),
            times(VMM, 48.62),
            times(XVISOR, 36.0),
        ],
    ),
    &figure(
        lmbench::SELECT_100,
        1.3,
        &[times(VMM, 7.37), times(XVISOR, 10.0)],
    ),
    &figure(
        lmbench::SEM,
        1.3,
        &[times(XEN_ON_ARM, 1.77), times(VMM, 66.78)],
    ),
    &figure(lmbench::FCNTL, 1.3, &[times(VMM, 141.34)]),
    &figure(
        lmbench::FORK,
        1.4,
        &[
            times(XEN_ON_ARM, 3.465),
            times(VMM, 35.67),
            times(XVISOR, 16.0),
        ],
    ),
    &figure(
        lmbench::EXEC,
        1.4,
        &[
            times(XEN_ON_ARM, 3.385),
            times(VMM, 35.39),
            times(XVISOR, 17.0),
        ],
    ),
    &figure(
        lmbench::SHELL,
        1.4,
        &[times(VMM, 18.16), times(XVISOR, 22.0)],
    ),
    &figure(
        lmbench::PAGEFAULT,
        1.5,
        &[times(VMM, 134.52), times(XVISOR, 15.0)],
    ),
    &figure(lmbench::MMAP, 1.5, &[times(XVISOR, 32.0)]),
    &figure(
        lmbench::BW_MEM_RD,
        1.01,
        &[
            times(XEN_ON_ARM, 0.961),
            times(VMM, 1.11),
            times(XVISOR, 5.2),
        ],
    ),
    &figure(
        lmbench::BW_MEM_WR,
        1.01,
        &[
            times(XEN_ON_ARM, 1.015),
            times(VMM, 1.086),
            times(XVISOR, 9.1),
        ],
    ),
    &figure(
        lmbench::BW_MEM_RDWR,
        1.01,
        &[times(XEN_ON_ARM, 1.015), times(VMM, 1.098)],
    ),
    &figure(
        lmbench::BW_MEM_CP,
        1.01,
        &[times(VMM, 1.099), times(XVISOR, 9.4)],
    ),
    &figure(lmbench::BW_MEM_BZERO, 1.01, &[times(VMM, 1.096)]),
    &figure(lmbench::BW_MEM_BCOPY, 1.01, &[times(VMM, 1.11)]),
    &figure(
        lmbench::BW_PIPE,
        1.05,
        &[
            times(XEN_ON_ARM, 1.12),
            times(VMM, 4.95),
            times(XVISOR, 19.0),
        ],
    ),
    &figure(
        lmbench::MEM_RD,
        1.01,
        &[times(VMM, 1.06), times(XVISOR, 70.0)],
    ),
    &figure(
        lmbench::INTEGER,
        1.005,
        &[
            times(of_dhrystone(VMM), 1.064),
            times(of_dhrystone(XVISOR), 1.02),
        ],
    ),
    &figure(
        lmbench::CTX_2,
        1.2,
        &[
            times(XEN_ON_ARM, 1.44),
            times(VMM, 11.13),
            times(XVISOR, 32.0),
        ],
    ),
    &figure(
        lmbench::CTX_4,
        1.2,
        &[
            times(XEN_ON_ARM, 1.62),
            times(VMM, 9.17),
            times(XVISOR, 24.0),
        ],
    ),
    &figure(
        lmbench::CTX_8,
        1.2,
        &[
            times(XEN_ON_ARM, 1.39),
            times(VMM, 8.54),
            times(XVISOR, 32.0),
        ],
    ),
    &figure(
        lmbench::CTX_16,
        1.2,
        &[
            times(XEN_ON_ARM, 1.39),
            times(VMM, 7.84),
            times(XVISOR, 29.0),
        ],
    ),
    &figure(
        lmbench::CTX_32,
        1.2,
        &[times(XEN_ON_ARM, 1.41), times(VMM, 7.91)],
    ),
    &open(micro::PENDING_4),
    &open(micro::PENDING_200),
    &open(micro::BURST_200),
    &open(micro::WAKE_BESIDE),
];
