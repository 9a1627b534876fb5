//! What is booted, and what is measured there.

use clap::ValueEnum;
use hanok_bench::Side;

/// Where the guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// On the machine itself.
    Native,
    /// In a client whose driver VM shares its core.
    Hanok,
    /// In a client whose driver VM has a core for itself.
    HanokApart,
    /// In a KVM guest of QEMU's.
    Kvm,
    /// In a domain of Xen's whose devices are the first domain's.
    Xen,
}

impl System {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 5] = [
        Self::Native,
        Self::Hanok,
        Self::HanokApart,
        Self::Kvm,
        Self::Xen,
    ];

    /// The side of the bench that it belongs to.
    pub const fn side(self) -> Side {
        match self {
            Self::Native => Side::Native,
            Self::Hanok | Self::HanokApart => Side::Hanok,
            Self::Kvm => Side::Kvm,
            Self::Xen => Side::Xen,
        }
    }

    /// For files.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Hanok => "hanok",
            Self::HanokApart => "hanok-2-cores",
            Self::Kvm => "kvm",
            Self::Xen => "xen",
        }
    }

    /// For people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Hanok => "Hanok",
            Self::HanokApart => "2 cores",
            Self::Kvm => "KVM",
            Self::Xen => "Xen",
        }
    }

    /// The cores of the board.
    pub const fn cores(self) -> u32 {
        match self {
            Self::HanokApart => 2,
            _ => 1,
        }
    }
}

/// What is measured in one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Work {
    /// Requests to disks.
    Disks,
    /// Frames of networks.
    Networks,
    /// Frames that come from outside the board.
    Incoming,
    /// Clips on the LCD of a Versatile Express with a Cortex-A15.
    Screens,
    /// Clips on the LCD of one with a Cortex-A9, without virtualization extensions.
    ScreensPl1,
    /// Requests to disks while the driver VM is killed. Nothing is counted there.
    Kills,
}

impl Work {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Disks,
        Self::Networks,
        Self::Incoming,
        Self::Screens,
        Self::ScreensPl1,
        Self::Kills,
    ];

    /// Those with rows, in the order of the table.
    pub const ROWS: [Self; 5] = [
        Self::Disks,
        Self::Networks,
        Self::Incoming,
        Self::Screens,
        Self::ScreensPl1,
    ];

    /// Whether it is measured on the boards with an LCD.
    pub const fn is_screen(self) -> bool {
        matches!(self, Self::Screens | Self::ScreensPl1)
    }

    /// By what the first program in Linux knows it: for those with rows, the program that does it.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Disks => "disk-work",
            Self::Networks | Self::Incoming => "frame-work",
            Self::Screens | Self::ScreensPl1 => "clip-work",
            Self::Kills => "kill-work",
        }
    }

    /// The package of that program.
    pub const fn package(self) -> &'static str {
        match self {
            Self::Disks | Self::Kills => "hanok-disk-work",
            Self::Networks | Self::Incoming => "hanok-frame-work",
            Self::Screens | Self::ScreensPl1 => "hanok-clip-work",
        }
    }

    /// The name of the files about its boot in `system`.
    pub fn name(self, system: System) -> String {
        match self {
            Self::Disks => system.id().to_owned(),
            Self::Networks => format!("{}-networks", system.id()),
            Self::Incoming => format!("{}-incoming", system.id()),
            Self::Screens => format!("{}-screens", system.id()),
            Self::ScreensPl1 => format!("{}-screens-pl1", system.id()),
            Self::Kills => format!("{}-kills", system.id()),
        }
    }
}

/// What is to be reached with one row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Goal {
    /// Requests a second over native ones, where client and driver VM share a core.
    pub shared: Option<f64>,
    /// The same where they do not.
    pub apart: Option<f64>,
    /// Exits of the client for each request, by its accesses to the device.
    pub exits: Option<f64>,
}

/// A row of one of the programs that measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// In which boot it is.
    pub work: Work,
    /// Its name, which no other row has.
    pub id: &'static str,
    /// For people.
    pub title: &'static str,
    /// How many requests are under way.
    pub depth: u32,
    /// What is to be reached.
    pub goal: Goal,
}

/// What is to be reached with 4 KiB reads, and with 128 KiB.
const SMALL: Goal = Goal {
    shared: Some(0.6),
    apart: Some(0.85),
    exits: Some(1.0),
};
const LARGE: Goal = Goal {
    shared: Some(0.95),
    apart: Some(0.95),
    exits: Some(1.0),
};
/// The exits of many requests at once.
const FEW: Option<f64> = Some(0.1);

const fn row(id: &'static str, title: &'static str, depth: u32, goal: Goal) -> Row {
    let exits = if depth == 1 { goal.exits } else { FEW };
    let goal = Goal { exits, ..goal };
    Row {
        work: Work::Disks,
        id,
        title,
        depth,
        goal,
    }
}

/// What is to be reached with frames.
const FRAMES: Goal = Goal {
    shared: Some(0.8),
    apart: Some(0.8),
    exits: None,
};

const fn frames(work: Work, id: &'static str, title: &'static str) -> Row {
    Row {
        work,
        id,
        title,
        depth: 32,
        goal: FRAMES,
    }
}

/// What the row of the other board has behind its name.
const PL1: &str = "-pl1";

impl Row {
    /// As the program calls it.
    pub fn told(&self) -> &'static str {
        self.id.strip_suffix(PL1).unwrap_or(self.id)
    }
}

/// What is to be reached with frames of clips: nobody copies them once more.
const CLIPS: Goal = Goal {
    shared: Some(1.0),
    apart: None,
    exits: None,
};

const fn clip(work: Work, id: &'static str, title: &'static str) -> Row {
    Row {
        work,
        id,
        title,
        depth: 1,
        goal: CLIPS,
    }
}

/// All rows, in the order of the table.
pub const ROWS: [Row; 15] = [
    row("read-4k-1", "4 KiB random read, depth 1", 1, SMALL),
    row("read-4k-32", "4 KiB random read, depth 32", 32, SMALL),
    row("read-128k-1", "128 KiB read, depth 1", 1, LARGE),
    row("read-128k-32", "128 KiB read, depth 32", 32, LARGE),
    row("write-128k-1", "128 KiB write, depth 1", 1, LARGE),
    row("write-128k-32", "128 KiB write, depth 32", 32, LARGE),
    frames(
        Work::Networks,
        "frames-between",
        "frame of 1,500 bytes, VM to VM",
    ),
    frames(
        Work::Networks,
        "frames-out",
        "frame of 1,500 bytes, VM to outside",
    ),
    frames(
        Work::Incoming,
        "frames-in",
        "frame of 1,500 bytes, outside to VM",
    ),
    clip(Work::Screens, "clip-320x256", "LCD, 320 by 256"),
    clip(Work::Screens, "clip-720x576", "LCD, 720 by 576"),
    clip(Work::Screens, "clip-160x128", "LCD, 160 by 128"),
    clip(
        Work::ScreensPl1,
        "clip-320x256-pl1",
        "LCD at PL1, 320 by 256",
    ),
    clip(
        Work::ScreensPl1,
        "clip-720x576-pl1",
        "LCD at PL1, 720 by 576",
    ),
    clip(
        Work::ScreensPl1,
        "clip-160x128-pl1",
        "LCD at PL1, 160 by 128",
    ),
];

/// A disk of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The number of the board's transport that has it. Eight are on a page, which a VM has as a whole.
    pub transport: u32,
    /// The address of that transport.
    address: u32,
    /// Its size in MiB, by which Linux knows it.
    pub mib: u32,
    /// How long a request takes, in nanoseconds of the PC's: long enough for the CPU to sleep before.
    pub latency: Option<u32>,
}

/// For rows with many requests under way, and for those with one.
pub const DISKS: [Disk; 2] = [
    Disk {
        transport: 31,
        address: 0xa00_3e00,
        mib: 64,
        latency: None,
    },
    Disk {
        transport: 23,
        address: 0xa00_2e00,
        mib: 128,
        latency: Some(500_000),
    },
];

impl Disk {
    /// What the disk is to QEMU, by number `index`: nothing is read, written or kept.
    pub fn drive(&self, index: usize) -> String {
        let latency = self.latency.map(|time| format!(",latency-ns={time}"));
        let latency = latency.unwrap_or_default();
        let mib = self.mib;
        format!("if=none,id=disk{index},driver=null-co,size={mib}M{latency}")
    }

    fn name(&self) -> String {
        format!("virtio_mmio@{:x}", self.address)
    }
}

/// The description of a client with a disk, and of its driver VM, on a board of this name.
pub fn description(board: &str, system: System, kernel: &str, cmdline: &str) -> String {
    let client = system.cores() - 1;
    let disk = |disk: &Disk| {
        let (name, mib) = (disk.name(), disk.mib);
        format!("[[disk]]\ndevice = \"{name}\"\nsize = \"{mib}M\"\n\n")
    };
    let disks: String = DISKS.iter().map(disk).collect();
    let had = |disk: &Disk| {
        let name = disk.name();
        format!("[[vm.disk]]\nfrom = \"drivers\"\ndevice = \"{name}\"\n\n")
    };
    let had: String = DISKS.iter().map(had).collect();
    let [first, second] = DISKS.each_ref().map(Disk::name);
    format!(
        "board = \"{board}\"
cores = {cores}

{disks}[[vm]]
name = \"linux\"
kernel = \"{kernel}\"
initramfs = \"busybox\"
initramfs-modules = []
cmdline = \"console=ttyAMA0 {cmdline}\"
memory = \"{memory}M\"
cpus = [{client}]

{had}[[vm]]
name = \"drivers\"
kernel = \"guest:driver\"
memory = \"32M\"
cpus = [0]
devices = [\"{first}\", \"{second}\"]
trusted = true
",
        cores = system.cores(),
        memory = crate::boards::GUEST_MEMORY >> 20,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_and_system_has_a_name_of_its_own() {
        let rows: std::collections::BTreeSet<_> = ROWS.iter().map(|row| row.id).collect();
        assert_eq!(rows.len(), ROWS.len());
        let systems: std::collections::BTreeSet<_> = System::ALL.map(System::id).into();
        assert_eq!(systems.len(), System::ALL.len());
    }

    #[test]
    fn a_driver_vm_apart_has_the_first_core() {
        let text = description("qemu-virt", System::HanokApart, "debian:6.1", "a=b");
        assert!(text.contains("cores = 2\n"), "{text}");
        assert!(
            text.contains("cpus = [1]") && text.contains("cpus = [0]"),
            "{text}"
        );
        let text = description("qemu-virt", System::Hanok, "debian:6.1", "a=b");
        assert_eq!(text.matches("cpus = [0]").count(), 2);
    }

    #[test]
    fn many_requests_at_once_are_to_have_few_exits() {
        let exits = ROWS.map(|row| row.goal.exits);
        assert_eq!(exits[..2], [Some(1.0), Some(0.1)]);
    }
}
