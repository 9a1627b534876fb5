//! Single mechanisms: what a hypervisor adds to one event.

use crate::figure::{Better, Figure, Group, Limit, Published, PublishedAs, Unit};
use crate::machine::Side;

/// Published values that were measured on an emulator as this bench's is.
const SAME_EMULATOR: &str = "measured on QEMU 10.0.2, one CPU, 1 instruction = 1 ns";
/// Counts from the systems' own publications.
const BY_THEIR_AUTHORS: &str =
    "instructions from exception entry to return, as published for this system";

const XEN: Published = Published {
    system: "Xen 4.17, Cortex-A57",
    side: Some(Side::Xen),
    bits: Some(64),
    given: PublishedAs::Value,
    low: 0.0,
    high: 0.0,
    source: SAME_EMULATOR,
};
const XEN_32: Published = Published {
    system: "Xen 4.17 armhf, Cortex-A15",
    bits: Some(32),
    ..XEN
};
const KVM: Published = Published {
    system: "KVM, Cortex-A57 (no VHE)",
    side: Some(Side::Kvm),
    ..XEN
};
const KVM_VHE: Published = Published {
    system: "KVM, Cortex-A76 (VHE)",
    ..KVM
};

const fn value(of: Published, value: f64) -> Published {
    Published {
        low: value,
        high: value,
        ..of
    }
}

const fn ratio(of: Published, times: f64) -> Published {
    Published {
        given: PublishedAs::Ratio,
        ..value(of, times)
    }
}

const fn beyond(system: &'static str, side: Option<Side>, count: f64) -> Published {
    Published {
        system,
        side,
        bits: None,
        given: PublishedAs::BeyondNative,
        low: count,
        high: count,
        source: BY_THEIR_AUTHORS,
    }
}

const fn cycles(system: &'static str, count: f64) -> Published {
    Published {
        system,
        side: None,
        bits: None,
        given: PublishedAs::Other("cycles"),
        low: count,
        high: count,
        source: "published for a yield hypercall on x86 (Core i7-920)",
    }
}

const COUNT: Figure = Figure {
    id: "",
    title: "",
    about: "",
    group: Group::Micro,
    unit: Unit::Instructions,
    shown_in: None,
    better: Better::Lower,
    limit: Limit::None,
    published: &[],
};

pub(super) const HYPERCALL: Figure = Figure {
    id: "hypercall",
    title: "Null hypercall",
    about: "Round trip of the cheapest call into the hypervisor, from the guest's HVC to the \
            instruction after it. KVM has no null hypercall: see SMCCC version.",
    limit: Limit::AtMost(120.0),
    published: &[
        value(XEN, 423.0),
        Published {
            high: 552.0,
            ..value(XEN_32, 487.0)
        },
    ],
    ..COUNT
};

pub(super) const SMCCC_VERSION: Figure = Figure {
    id: "smccc-version",
    title: "SMCCC version call",
    about: "Round trip of SMCCC_VERSION by HVC, which every hypervisor answers.",
    published: &[
        value(XEN, 459.0),
        value(XEN_32, 542.0),
        value(KVM, 1542.0),
        value(KVM_VHE, 1029.0),
    ],
    ..COUNT
};

pub(super) const GICD_READ: Figure = Figure {
    id: "gicd-read",
    title: "Emulated register read",
    about: "Round trip of a load from a register of the GIC's distributor, which no hypervisor \
            can leave to the hardware.",
    limit: Limit::AtMost(250.0),
    published: &[
        value(XEN, 596.0),
        value(XEN_32, 723.0),
        value(KVM, 2336.0),
        value(KVM_VHE, 1839.0),
    ],
    ..COUNT
};

pub(super) const TIMER_INTERRUPT: Figure = Figure {
    id: "timer-interrupt",
    title: "Timer interrupt",
    about: "A counted loop that one timer interrupt breaks, the guest's handler included. What \
            it takes beyond the same loop natively is the hypervisor's.",
    limit: Limit::BeyondNative(188.0),
    published: &[
        beyond("Bao", None, 188.0),
        beyond("Jailhouse", None, 225.0),
        Published {
            bits: Some(64),
            ..beyond("Xen", Some(Side::Xen), 1418.0)
        },
        beyond("seL4 VMM", None, 7680.0),
    ],
    ..COUNT
};

pub(super) const IPI: Figure = Figure {
    id: "ipi",
    title: "Interrupt between vCPUs",
    about: "A vCPU sends an SGI to one on another core: the hypervisor's instructions on both \
            cores, counted by an emulator plugin between two markers.",
    limit: Limit::AtMost(300.0),
    ..COUNT
};

pub(super) const SWITCH: Figure = Figure {
    id: "switch",
    title: "Switch between VMs",
    about: "Two VMs on one core yield to each other in turn, neither using floating point: \
            what one switch takes, from the yield to the other VM's next instruction.",
    limit: Limit::AtMost(900.0),
    published: &[
        cycles("Xen 3.4.2, privileged guest to guest", 84_472.0),
        cycles("Xen 3.4.2, guest to privileged guest", 124_451.0),
    ],
    ..COUNT
};

pub(super) const SWITCH_BUDGETS: Figure = Figure {
    id: "switch-budgets",
    title: "Switch with budgets",
    about: "As `switch`, where budgets are enforced: each VM has a server, whose budget a yield gives \
            up, by earliest deadline.",
    ..SWITCH
};

pub(super) const WAKE_BESIDE: Figure = Figure {
    id: "wake-beside",
    title: "Wake beside a busy VM",
    about: "A VM with a budget sleeps by WFI while another one on its core is busy: what it takes from the \
            instant for which its timer was set until it goes on, an exit of the other VM, the decision \
            and the switch included.",
    limit: Limit::AtMost(1200.0),
    ..COUNT
};

pub(super) const PENDING_4: Figure = Figure {
    id: "pending-4",
    title: "Timer interrupt, 4 others pending",
    about: "The timer interrupt while four less urgent interrupts are pending: with it one more \
            than there are list registers.",
    limit: Limit::BeyondNative(600.0),
    ..COUNT
};

pub(super) const PENDING_200: Figure = Figure {
    id: "pending-200",
    title: "Timer interrupt, 200 others pending",
    about: "The timer interrupt while 200 less urgent interrupts are pending.",
    limit: Limit::BeyondNative(600.0),
    ..COUNT
};

pub(super) const BURST_200: Figure = Figure {
    id: "burst-200",
    title: "Interrupt of a burst",
    about: "200 device interrupts become pending together and are taken one after the other: what \
            each takes, the guest's handler included.",
    limit: Limit::BeyondNative(400.0),
    ..COUNT
};

pub(super) const NANOSLEEP: Figure = Figure {
    id: "nanosleep",
    title: "Nanosleep overshoot",
    about: "A real-time process in Linux sleeps for 200 us a thousand times (cyclictest): how much \
            too late it wakes, the least of all.",
    unit: Unit::Nanoseconds,
    limit: Limit::RatioToNative(1.15),
    published: &[
        value(XEN, 10_600.0),
        value(KVM, 7_760.0),
        ratio(XEN, 1.98),
        value(XEN_32, 18_300.0),
        ratio(XEN_32, 3.66),
        ratio(KVM_VHE, 1.41),
    ],
    ..COUNT
};

pub(super) const BOOT: Figure = Figure {
    id: "boot",
    title: "Reset to Linux init",
    about: "Virtual time from reset to the first instruction of init in a 256 MiB guest, the \
            hypervisor's own start, copies and zeroing included.",
    unit: Unit::Nanoseconds,
    shown_in: Some(("ms", 1e6)),
    limit: Limit::BeyondNative(50e6),
    published: &[
        Published {
            given: PublishedAs::BeyondNative,
            ..value(XEN, 199e6)
        },
        Published {
            given: PublishedAs::BeyondNative,
            ..value(XEN_32, 256e6)
        },
        Published {
            given: PublishedAs::BeyondNative,
            source: "measured on QEMU 10.0.2, one CPU, 1 instruction = 1 ns: \
                     0.886 s after 1.098 s of the host's own start, native 0.905 s",
            ..value(KVM, 1_079e6)
        },
    ],
    ..COUNT
};

pub(super) const KERNEL_TO_SHELL: Figure = Figure {
    id: "kernel-to-shell",
    title: "Stock kernel to a shell",
    about: "Instructions from the first one of the unpacked kernel to the first one of the first program that the \
            shell starts, the hypervisor's included. Counted by an emulator plugin; waiting is no instruction.",
    ..COUNT
};

pub(super) const IMAGE: Figure = Figure {
    id: "image",
    title: "Image of the hypervisor",
    about: "Bytes of the flat image that is loaded, without guests.",
    unit: Unit::Bytes,
    limit: Limit::AtMost(348_160.0),
    published: &[
        Published {
            source: "Debian's xen-hypervisor-4.17-arm64, decompressed",
            ..value(XEN, 983_048.0)
        },
        Published {
            source: "Debian's xen-hypervisor-4.17-armhf",
            ..value(XEN_32, 884_744.0)
        },
    ],
    ..COUNT
};
