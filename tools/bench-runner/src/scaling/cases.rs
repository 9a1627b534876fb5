//! The cases of `--scaling`: what is booted, and what each boot gives.

use super::systems::{LARGE_MIB, MEMORY_MIB, Neighbours, System};
use hanok_bench::Side;

/// The number of other VMs, and of vCPUs of each: with seven VMs, up to what the limits allow.
pub const BESIDE: [(usize, usize); 5] = [(1, 1), (7, 1), (7, 2), (7, 4), (7, 8)];

/// How many idle domains Xen has beside the one that measures: eight in all at most.
pub const IDLE_DOMAINS: std::ops::RangeInclusive<usize> = 0..=7;

/// Words for Linux.
const SLEEPS: &str = "console=ttyAMA0 quiet panic=-1 norandmaps nokaslr kpti=off mitigations=off \
                      rdinit=/bench/init bench.rounds=1 bench.rows=nanosleep";

/// What one boot measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// The payload's figures that need no neighbour, natively and in a VM.
    Alone(Who),
    /// The wake and the scheduler's pass beside other VMs.
    Beside {
        /// What the others do.
        neighbours: Neighbours,
        /// How many VMs.
        vms: usize,
        /// How many vCPUs of each.
        each: usize,
    },
    /// A process in Linux that sleeps; with an idle neighbour where it is a VM.
    Sleep(Who),
    /// The start of a VM with `mib` MiB beside `others` that are being loaded.
    Start {
        /// Its memory.
        mib: u64,
        /// The number of other VMs, which have eight vCPUs, as it has.
        others: usize,
    },
    /// Bytes in.
    Receive,
    /// The wake and the timer's interrupt in Xen, beside so many idle domains.
    Xen(usize),
    /// What of [`Case::Alone`] Xen has: by itself, as interrupts that were pending stay with Xen's first domain.
    XenAlone,
}

/// What runs the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The machine itself.
    Native,
    /// Our hypervisor.
    Hanok,
}

impl Who {
    /// As the bench calls it.
    pub const fn side(self) -> Side {
        match self {
            Self::Native => Side::Native,
            Self::Hanok => Side::Hanok,
        }
    }
}

impl Case {
    /// All of them, the long ones first.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::Sleep(Who::Native), Self::Sleep(Who::Hanok)];
        for neighbours in Neighbours::ALL {
            all.extend(BESIDE.iter().rev().map(|&(vms, each)| Self::Beside {
                neighbours,
                vms,
                each,
            }));
        }
        all.extend(
            [(MEMORY_MIB, 7), (MEMORY_MIB, 0), (LARGE_MIB, 0)]
                .map(|(mib, others)| Self::Start { mib, others }),
        );
        all.extend(IDLE_DOMAINS.rev().map(Self::Xen));
        all.extend([
            Self::XenAlone,
            Self::Receive,
            Self::Alone(Who::Hanok),
            Self::Alone(Who::Native),
        ]);
        all
    }

    /// A name for files and people.
    pub fn name(self) -> String {
        match self {
            Self::Alone(who) => format!("alone-{}", who.side().id()),
            Self::Beside {
                neighbours,
                vms,
                each,
            } => format!("beside-{}-{}", neighbours.word(), vms * each),
            Self::Sleep(who) => format!("sleep-{}", who.side().id()),
            Self::Start { mib, others } => format!("start-{mib}-{others}"),
            Self::Receive => "receive".to_owned(),
            Self::Xen(idle) => format!("xen-beside-{idle}"),
            Self::XenAlone => "xen-alone".to_owned(),
        }
    }

    /// Whether the hypervisor's instructions are counted from outside.
    pub fn counts(self) -> bool {
        self == Self::Receive
    }

    /// How many idle domains there are beside the first, where Xen runs the guests.
    pub const fn idle_domains(self) -> Option<usize> {
        match self {
            Self::Xen(idle) => Some(idle),
            Self::XenAlone => Some(0),
            _ => None,
        }
    }

    /// Whether Linux is what is measured.
    pub fn is_linux(self) -> bool {
        matches!(self, Self::Sleep(_))
    }

    /// Whether it runs on the machine itself.
    pub fn is_native(self) -> bool {
        matches!(self, Self::Alone(Who::Native) | Self::Sleep(Who::Native))
    }

    /// The command line of the measuring guest.
    pub fn words(self, has_device: bool) -> String {
        let figures = match self {
            Self::Sleep(_) => return SLEEPS.to_owned(),
            Self::Alone(who) => {
                let own = "bench.repeat=4 bench.figures=timer-interrupt,pending-4,pending-200,\
                           burst-200,wake,physical-timer,send-polled,send-burst";
                let device = if has_device { ",device-interrupt" } else { "" };
                let place = match who {
                    Who::Native => " bench.device=9030000/39",
                    Who::Hanok => "",
                };
                return format!("{own}{device}{place}");
            }
            // Another vCPU's turn comes between: the measuring one wakes when that turn ends.
            Self::Beside {
                neighbours: Neighbours::Runnable,
                ..
            } => "physical-timer",
            Self::Beside { .. } => "wake,physical-timer",
            Self::Start { .. } => "start",
            Self::Receive => "receive",
            Self::XenAlone => "timer-interrupt,pending-4,pending-200",
            Self::Xen(_) => "wake,physical-timer",
        };
        format!("bench.repeat=4 bench.figures={figures}")
    }

    /// The system of a case in Hanok.
    pub fn system<'a>(
        self,
        (board, cpu): (&'a str, &'a str),
        words: &'a str,
        kernel: &'a str,
    ) -> System<'a> {
        let alone = System {
            board,
            cpu,
            words,
            vcpus: 1,
            memory: MEMORY_MIB,
            device: false,
            linux: None,
            neighbours: Neighbours::Idle,
            vms: 0,
            each: 1,
        };
        match self {
            Self::Alone(_) => System {
                device: words.contains("device-interrupt"),
                ..alone
            },
            Self::Beside {
                neighbours,
                vms,
                each,
            } => System {
                neighbours,
                vms,
                each,
                ..alone
            },
            Self::Sleep(_) => System {
                memory: 256,
                linux: Some(kernel),
                vms: 1,
                ..alone
            },
            Self::Start { mib, others } => System {
                vcpus: 8,
                memory: mib,
                vms: others,
                each: 8,
                ..alone
            },
            Self::Receive | Self::Xen(_) | Self::XenAlone => alone,
        }
    }
}
