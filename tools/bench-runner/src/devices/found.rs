//! What the plugin counted, for each request.

use std::collections::BTreeMap;

use hanok_profile::code::Entry;
use hanok_profile::report::{Cpu, Exit, Reason};

use super::cases::Row;
use crate::counting::Counted;

/// The counts of each row that ran.
pub type Found = BTreeMap<&'static str, Counts>;

/// What one request of a row took, in the mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// By core of the board.
    pub cores: Vec<Core>,
}

/// What it took on one core.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Core {
    /// Instructions of our hypervisor.
    pub hypervisor: f64,
    /// All other instructions.
    pub others: f64,
    /// Exits to our hypervisor, by kind.
    pub exits: BTreeMap<Kind, f64>,
}

/// Why a VM was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The client's access to a register of its device.
    Client,
    /// An access to any other device: the driver VM's, or one to the interrupt controller.
    Device,
    /// It waits for interrupts.
    Waits,
    /// An interrupt came.
    Interrupt,
    /// None: the hypervisor looked for interrupts between two pieces of its work.
    Look,
    /// Anything else.
    Other,
}

impl Kind {
    /// All that are exits, with words.
    pub const EXITS: [(Self, &'static str); 5] = [
        (Self::Client, "by the client's accesses to its device"),
        (Self::Device, "by other accesses to devices"),
        (Self::Waits, "by waiting"),
        (Self::Interrupt, "by interrupts"),
        (Self::Other, "others"),
    ];

    fn of(reason: &Reason) -> Self {
        match (reason.entry, reason.syndrome.map(class)) {
            (Entry::Interrupt, _) => Self::Interrupt,
            (Entry::Turn, _) => Self::Look,
            (_, Some(WAIT)) => Self::Waits,
            (_, Some(DATA_ABORT)) if reason.detail == Some(CLIENT_PAGE) => Self::Client,
            (_, Some(DATA_ABORT)) => Self::Device,
            _ => Self::Other,
        }
    }
}

/// Exception classes (ESR_ELx.EC, DDI 0487, D24.2.40; the same of HSR): WFI or WFE, and a data abort of a guest.
const WAIT: u64 = 0x01;
const DATA_ABORT: u64 = 0x24;
/// HPFAR_EL2 of the page with the first eight virtio transports of a VM, at 0xa00_0000: bits 47 to 12 from bit 4 on. The driver
/// VM has the board's last transport, on another page.
const CLIENT_PAGE: u64 = 0xa00_0000 >> 12 << 4;

fn class(syndrome: u64) -> u64 {
    syndrome >> 26 & 0x3f
}

impl Counts {
    /// Of one request; `None` where the program did not say how many there were.
    pub fn of(counted: &Counted) -> Option<Self> {
        let rounds = counted.all_rounds().filter(|rounds| *rounds > 0)? as f64;
        let mut cores = Vec::new();
        for stretch in &counted.stretches {
            cores.resize(cores.len().max(stretch.cpus.len()), Core::default());
            let both = cores.iter_mut().zip(&stretch.cpus);
            both.for_each(|(core, cpu)| core.add(cpu, rounds));
        }
        Some(Self { cores })
    }

    /// All instructions.
    pub fn instructions(&self) -> f64 {
        self.cores.iter().map(Core::instructions).sum()
    }

    /// Those of our hypervisor.
    pub fn hypervisor(&self) -> f64 {
        self.cores.iter().map(|core| core.hypervisor).sum()
    }

    /// Exits of one kind.
    pub fn exits(&self, kind: Kind) -> f64 {
        let of = |core: &Core| core.exits.get(&kind).copied().unwrap_or_default();
        self.cores.iter().map(of).sum()
    }

    /// How long a request takes if a disk takes no time, in instructions: with several under way cores work at the same time, and the busiest
    /// one decides; one request goes from core to core.
    pub fn takes(&self, row: &Row) -> f64 {
        if row.depth == 1 {
            return self.instructions();
        }
        let each = self.cores.iter().map(Core::instructions);
        each.fold(0.0, f64::max)
    }
}

impl Core {
    fn instructions(&self) -> f64 {
        self.hypervisor + self.others
    }

    fn add(&mut self, cpu: &Cpu, rounds: f64) {
        let ours = cpu.hypervisor.saturating_sub(frozen(cpu));
        self.hypervisor += ours as f64 / rounds;
        self.others += cpu.others as f64 / rounds;
        for exit in &cpu.exits {
            *self.exits.entry(Kind::of(&exit.reason)).or_default() += times(exit) / rounds;
        }
    }
}

/// No exit takes as many instructions (`hanok test` has a bound of 5,000). Where one does, its core has waited for a lock of another core's, which
/// the emulator let stand still meanwhile.
const LONGEST: u64 = 20_000;

/// The instructions of exits that are [`LONGEST`].
fn frozen(cpu: &Cpu) -> u64 {
    let costs = cpu.exits.iter().flat_map(|exit| &exit.costs);
    let frozen = costs.filter(|(cost, _)| *cost >= LONGEST);
    frozen.map(|(cost, times)| cost * times).sum()
}

/// How many exits there were of this reason.
fn times(exit: &Exit) -> f64 {
    exit.costs.iter().map(|(_, times)| *times as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::super::cases::ROWS;
    use super::*;
    use hanok_profile::report::Stretch;

    fn cpu(hypervisor: u64, others: u64, exits: &[(u64, u64, u64)]) -> Cpu {
        let exit = |(class, detail, times): &(u64, u64, u64)| Exit {
            reason: Reason {
                entry: Entry::Synchronous,
                syndrome: Some(class << 26 | 7),
                detail: Some(*detail),
            },
            costs: vec![(200, *times), (300, 1)],
        };
        Cpu {
            hypervisor,
            others,
            exits: exits.iter().map(exit).collect(),
            ..Cpu::default()
        }
    }

    fn counts() -> Counts {
        let client = cpu(400, 1600, &[(DATA_ABORT, 0xa_0000, 9), (WAIT, 0, 3)]);
        let driver = cpu(100, 500, &[(DATA_ABORT, 0xa_0030, 1)]);
        Counts::of(&Counted {
            figure: "read-4k-1".to_owned(),
            rounds: Some(4),
            stretches: vec![Stretch {
                cpus: vec![driver, client],
                ..Stretch::default()
            }],
        })
        .unwrap()
    }

    #[test]
    fn counts_are_of_one_request() {
        let counts = counts();
        assert!((counts.instructions() - 650.0).abs() < 1e-9);
        assert!((counts.hypervisor() - 125.0).abs() < 1e-9);
        let exits = Kind::EXITS.map(|(kind, _)| counts.exits(kind));
        assert_eq!(exits, [2.5, 0.5, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn a_core_that_waits_for_one_that_stands_still_is_no_cost() {
        let mut cpu = cpu(50_000_400, 0, &[]);
        cpu.exits.push(Exit {
            reason: Reason {
                entry: Entry::Turn,
                syndrome: None,
                detail: None,
            },
            costs: vec![(300, 1), (50_000_000, 1)],
        });
        let mut core = Core::default();
        core.add(&cpu, 1.0);
        assert!((core.hypervisor - 400.0).abs() < 1e-9);
    }

    #[test]
    fn the_busiest_core_decides_where_many_requests_are_under_way() {
        let counts = counts();
        assert!((counts.takes(&ROWS[0]) - 650.0).abs() < 1e-9);
        assert!((counts.takes(&ROWS[1]) - 500.0).abs() < 1e-9);
    }

    #[test]
    fn who_does_not_say_how_many_there_were_has_no_counts() {
        let counted = Counted {
            figure: String::new(),
            rounds: None,
            stretches: Vec::new(),
        };
        assert_eq!(Counts::of(&counted), None);
    }
}
