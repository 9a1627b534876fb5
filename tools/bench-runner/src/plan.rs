//! The plan: what is measured, and in which order.

use std::path::Path;

use hanok_bench::{Figure, Gic, Group, Side, figures_on};
use hanok_system::Architecture;

use crate::args::{BenchArgs, BenchBoard, Gics};
use crate::counting::What;
use hanok_base::exit::{Code, Outcome, failure};
use hanok_boot::system;

/// What a board boots; one boot gives several figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// Linux with lmbench.
    Linux,
    /// The bare-metal payload on one vCPU.
    Payload,
    /// Two VMs with the payload that yield to each other; only Hanok has that.
    Switch,
    /// The same where budgets are enforced.
    SwitchBudgets,
    /// The payload beside a VM that is always busy, where budgets are enforced.
    WakeBeside,
    /// The payload on two cores.
    Ipi,
    /// Linux with lmbench, whose operations are counted.
    Operations,
}

impl Load {
    const ALL: [Self; 7] = [
        Self::Operations,
        Self::Linux,
        Self::Payload,
        Self::Switch,
        Self::SwitchBudgets,
        Self::WakeBeside,
        Self::Ipi,
    ];

    /// A name for files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Payload => "payload",
            Self::Switch => "switch",
            Self::SwitchBudgets => "switch-budgets",
            Self::WakeBeside => "wake-beside",
            Self::Ipi => "ipi",
            Self::Operations => "operations",
        }
    }

    /// Whether the guest is Linux.
    pub fn is_linux(self) -> bool {
        matches!(self, Self::Linux | Self::Operations)
    }

    /// Whether a boot of this on `side` gives `figure`.
    pub fn gives(self, figure: &Figure, side: Side) -> bool {
        // Of the rows there, it is operations that are counted.
        if self == Self::Operations && figure.group == Group::Lmbench {
            return [Side::Native, Side::Hanok].contains(&side);
        }
        let (load, sides) = match (figure.id, figure.group) {
            ("nanosleep" | "boot", _) | (_, Group::Lmbench) => (Self::Linux, &Side::ALL[..]),
            // KVM has no hypercall that does nothing, and on the machine itself nothing answers
            // one.
            ("hypercall", _) => (Self::Payload, &[Side::Hanok, Side::Xen][..]),
            ("smccc-version", _) => (Self::Payload, &Side::HYPERVISORS[..]),
            ("gicd-read" | "timer-interrupt", _) => (Self::Payload, &Side::ALL[..]),
            ("pending-4" | "pending-200" | "burst-200", _) => {
                (Self::Payload, &[Side::Native, Side::Hanok][..])
            }
            ("switch", _) => (Self::Switch, &[Side::Hanok][..]),
            ("switch-budgets", _) => (Self::SwitchBudgets, &[Side::Hanok][..]),
            ("wake-beside", _) => (Self::WakeBeside, &[Side::Hanok][..]),
            ("kernel-to-shell", _) => (Self::Operations, &[Side::Native, Side::Hanok][..]),
            // The plugin only knows the instructions of our hypervisor.
            ("ipi", _) => (Self::Ipi, &[Side::Hanok][..]),
            _ => return false,
        };
        load == self && sides.contains(&side)
    }
}

/// One boot of one board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The interrupt controller.
    pub gic: Gic,
    /// The side that runs the guest.
    pub side: Side,
    /// What is booted.
    pub load: Load,
    /// Which repetition this is, from 0.
    pub round: u32,
}

impl Job {
    /// What QEMU's plugin counts. The hypervisor's instructions are counted one by one for the profile
    /// where the hypervisor is ours; Linux would take too long.
    pub fn counts(&self) -> Option<What> {
        match (self.load, self.side) {
            (Load::Operations, _) => Some(What::Operations),
            (Load::Linux, _) => None,
            (_, Side::Hanok) => Some(What::Stretches),
            _ => None,
        }
    }

    /// A name for files and people: `xen-gicv3-linux-1`.
    pub fn name(&self) -> String {
        let (side, gic, load) = (self.side.id(), self.gic.id(), self.load.name());
        format!("{side}-{gic}-{load}-{}", self.round + 1)
    }
}

/// Everything that is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of every machine, and of what runs on it.
    pub architecture: Architecture,
    /// Whether the CPUs have the virtualization extensions.
    pub extensions: bool,
    /// One machine each.
    pub gics: Vec<Gic>,
    /// The CPU model of all machines.
    pub cpu: String,
    /// In the order in which they are shown.
    pub sides: Vec<Side>,
    /// In the order in which they are shown.
    pub figures: Vec<&'static Figure>,
    /// How often.
    pub rounds: u32,
    /// The number of rounds of which lmbench itself takes the median. Some of its programs make
    /// each round a second long.
    pub inner_rounds: u32,
    /// Whether operations are counted, and with them `kernel-to-shell`.
    pub operations: bool,
    /// Whether devices are measured, which Xen's first domain serves where Xen is a side.
    pub devices: bool,
}

impl Plan {
    /// What the command line asks for.
    ///
    /// # Errors
    ///
    /// A side that does not exist on the board.
    pub fn of(args: &BenchArgs) -> Outcome<Self> {
        let architecture = match args.board {
            Some(BenchBoard::QemuVirtArm | BenchBoard::QemuVirtArmPl1) => Architecture::Arm,
            _ => Architecture::Arm64,
        };
        let extensions = args.board != Some(BenchBoard::QemuVirtArmPl1);
        let there = sides_on(architecture, extensions);
        if let Some(side) = args.sides.iter().find(|side| !there.contains(side)) {
            let name = side.title();
            let why = match side {
                Side::Kvm => format!(
                    "there is no {name} on a 32-bit board: Linux gave it up for 32-bit hosts in 5.7"
                ),
                _ => format!("there is no {name} on a board without virtualization extensions"),
            };
            return Err(failure(Code::Usage, why));
        }
        let sides: &[Side] = match (args.sides.is_empty(), args.quick) {
            (false, _) => &args.sides,
            (true, true) => &[Side::Native, Side::Hanok],
            (true, false) => there,
        };
        let wanted = |id| args.figures.is_empty() || args.figures.iter().any(|one| one.id == id);
        let cpu = args.cpu.as_deref().unwrap_or(default_cpu(architecture));
        Ok(Self {
            architecture,
            extensions,
            gics: gics(args),
            cpu: cpu.to_owned(),
            sides: Side::ALL
                .into_iter()
                .filter(|side| sides.contains(side))
                .collect(),
            figures: figures_on(extensions)
                .iter()
                .copied()
                .filter(|one| wanted(one.id))
                .collect(),
            rounds: args.repeat.unwrap_or(if args.quick { 1 } else { 2 }),
            inner_rounds: if args.quick { 1 } else { 3 },
            // On CPUs with the virtualization extensions, a guest does nearly all of them itself.
            operations: !extensions && (args.operations || !args.quick),
            devices: false,
        })
    }

    /// Refuses what the boards do not have, before anything is fetched for them.
    pub fn check(&self, root: &Path) -> Outcome<()> {
        let known = hanok_system::boards(&system::boards_dir(root)).map_err(system::refused)?;
        for gic in &self.gics {
            let name = self.board(*gic);
            let board = known.iter().find(|board| board.name == name);
            if let Some(board) = board.filter(|board| !board.cpus.contains(&self.cpu)) {
                let text = format!(
                    "--cpu: board {name} has no CPU \"{}\"\n  why: its models are {}\n  \
                     fix: choose one of them",
                    self.cpu,
                    board.cpus.join(", ")
                );
                return Err(failure(Code::Usage, text));
            }
        }
        Ok(())
    }

    /// The board of `boards/` with this interrupt controller.
    pub fn board(&self, gic: Gic) -> &'static str {
        match (self.architecture, gic) {
            (Architecture::Arm, _) if !self.extensions => "qemu-virt-arm-pl1",
            (Architecture::Arm, _) => "qemu-virt-arm",
            (Architecture::Arm64, Gic::V2) => "qemu-virt-gicv2",
            (Architecture::Arm64, Gic::V3) => "qemu-virt",
        }
    }

    /// Whether `side` is measured.
    pub fn wants(&self, side: Side) -> bool {
        self.sides.contains(&side)
    }

    /// Whether any boot's instructions are counted one by one.
    pub fn counts(&self) -> bool {
        self.jobs().iter().any(|job| job.counts().is_some())
    }

    /// The figures that a boot of `load` on `side` is to give.
    pub fn of_boot(&self, load: Load, side: Side) -> Vec<&'static Figure> {
        let figures = self.figures.iter().copied();
        figures.filter(|figure| load.gives(figure, side)).collect()
    }

    /// Whether Xen's first domain serves devices. Its programs are those of arm64.
    pub fn needs_xen_host(&self) -> bool {
        let arm64 = self.architecture == Architecture::Arm64;
        self.devices && arm64 && self.wants(Side::Xen)
    }

    /// Whether the bare-metal payload is booted anywhere.
    pub fn needs_payload(&self) -> bool {
        self.jobs().iter().any(|job| !job.load.is_linux())
    }

    /// Whether Linux is booted anywhere, with lmbench and the rest.
    pub fn needs_linux(&self) -> bool {
        self.jobs().iter().any(|job| job.load.is_linux())
    }

    /// Every boot, a machine after the other; the long ones of a machine first.
    pub fn jobs(&self) -> Vec<Job> {
        let mut all = Vec::new();
        for gic in &self.gics {
            for load in Load::ALL {
                for side in self.sides.iter().rev() {
                    let given = !self.of_boot(load, *side).is_empty();
                    let rounds = match load {
                        _ if !given => 0,
                        Load::Operations => self.operations.into(),
                        _ => self.rounds,
                    };
                    all.extend((0..rounds).map(|round| Job {
                        gic: *gic,
                        side: *side,
                        load,
                        round,
                    }));
                }
            }
        }
        all
    }
}

/// The interrupt controllers of the machines, one each.
fn gics(args: &BenchArgs) -> Vec<Gic> {
    match (args.board, args.gic, args.quick) {
        (Some(BenchBoard::QemuVirt), ..) => vec![Gic::V3],
        (
            Some(BenchBoard::QemuVirtGicv2 | BenchBoard::QemuVirtArm | BenchBoard::QemuVirtArmPl1),
            ..,
        ) => vec![Gic::V2],
        (None, Gics::Two, _) => vec![Gic::V2],
        (None, Gics::Three, _) | (None, Gics::Both, true) => vec![Gic::V3],
        (None, Gics::Both, false) => vec![Gic::V3, Gic::V2],
    }
}

/// The sides that there are: Linux 5.7 took KVM's 32-bit host out (its commit "arm: Remove 32bit
/// KVM host support"), and Debian's armhf kernels have none.
///
/// Without the virtualization extensions there is no other: Xen needs them, and its paravirtualized port is gone.
pub fn sides_on(architecture: Architecture, extensions: bool) -> &'static [Side] {
    match architecture {
        Architecture::Arm64 => &Side::ALL,
        Architecture::Arm if !extensions => &[Side::Native, Side::Hanok],
        Architecture::Arm => &[Side::Native, Side::Hanok, Side::Xen],
    }
}

fn default_cpu(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Arm64 => "cortex-a57",
        Architecture::Arm => "cortex-a15",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parsed;

    fn plan(line: &str) -> Plan {
        planned(line).map_err(|failure| failure.error).unwrap()
    }

    fn planned(line: &str) -> Outcome<Plan> {
        Plan::of(&parsed(line.split_whitespace()))
    }

    #[test]
    fn all_of_it_is_measured_twice_on_both() {
        let jobs = plan("").jobs();
        let linux = |job: &&Job| job.load == Load::Linux;
        assert_eq!(jobs.iter().filter(linux).count(), 2 * 4 * 2);
        let switch = |job: &&Job| job.load == Load::Switch;
        assert!(
            jobs.iter()
                .filter(switch)
                .all(|job| job.side == Side::Hanok)
        );
        assert!(jobs.iter().filter(switch).count() == 4);
    }

    #[test]
    fn quick_yields_to_what_is_said() {
        let quick = plan("--quick");
        assert_eq!((quick.gics.as_slice(), quick.rounds), (&[Gic::V3][..], 1));
        assert_eq!(quick.sides, [Side::Native, Side::Hanok]);
        let more = plan("--quick --gic 2 --sides xen,native --repeat 3");
        assert_eq!((more.gics.as_slice(), more.rounds), (&[Gic::V2][..], 3));
        assert_eq!(more.sides, [Side::Native, Side::Xen]);
    }

    #[test]
    fn devices_in_xen_need_programs_of_its_first_domain_in_64_bit() {
        let needs = |line: &str| {
            let devices = Plan {
                devices: true,
                ..plan(line)
            };
            devices.needs_xen_host()
        };
        assert!(needs("") && !plan("").needs_xen_host());
        assert!(!needs("--sides native,kvm") && !needs("--board qemu-virt-arm"));
    }

    #[test]
    fn a_32_bit_board_has_one_gic_and_no_kvm() {
        let arm = plan("--board qemu-virt-arm");
        assert_eq!(
            (arm.gics.as_slice(), &*arm.cpu),
            (&[Gic::V2][..], "cortex-a15")
        );
        assert_eq!(arm.architecture, Architecture::Arm);
        assert_eq!(arm.sides, [Side::Native, Side::Hanok, Side::Xen]);
        assert_eq!(
            plan("--board qemu-virt-arm --cpu cortex-a7").cpu,
            "cortex-a7"
        );
        let refused = planned("--board qemu-virt-arm --sides native,kvm").map(drop);
        assert_eq!(refused.unwrap_err().code, Code::Usage);
        let gicv2 = plan("--board qemu-virt-gicv2");
        assert_eq!(
            (gicv2.gics.as_slice(), &*gicv2.cpu),
            (&[Gic::V2][..], "cortex-a57")
        );
    }

    #[test]
    fn operations_are_counted_without_extensions_and_not_in_haste() {
        let counted = |line: &str| {
            let jobs = plan(line).jobs();
            let counted = jobs.iter().filter(|job| job.load == Load::Operations);
            counted.map(|job| job.side).collect::<Vec<_>>()
        };
        let both = [Side::Hanok, Side::Native];
        assert_eq!(counted("--board qemu-virt-arm-pl1"), both);
        assert_eq!(counted("--board qemu-virt-arm-pl1 --quick"), []);
        assert_eq!(
            counted("--board qemu-virt-arm-pl1 --quick --operations"),
            both
        );
        assert_eq!(counted("--board qemu-virt-arm"), []);
        assert_eq!(counted("--board qemu-virt-arm-pl1 --figures hypercall"), []);
    }

    #[test]
    fn nothing_boots_that_gives_nothing() {
        let plan = plan("--figures hypercall --gic 3 --repeat 1");
        let sides: Vec<_> = plan.jobs().iter().map(|job| job.side).collect();
        assert_eq!(sides, [Side::Xen, Side::Hanok]);
        assert!(plan.needs_payload() && !plan.needs_linux());
    }
}
