//! What is measured on: the emulated machine, and whose guest runs there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where the guest ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// On the emulated machine itself.
    Native,
    /// In a VM of Hanok.
    Hanok,
    /// As Xen's dom0.
    Xen,
    /// In a VM of KVM.
    Kvm,
}

impl Side {
    /// Every side, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Native, Self::Hanok, Self::Xen, Self::Kvm];
    /// The hypervisors.
    pub const HYPERVISORS: [Self; 3] = [Self::Hanok, Self::Xen, Self::Kvm];

    /// The name as the JSON and the command line have it.
    pub fn id(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Hanok => "hanok",
            Self::Xen => "xen",
            Self::Kvm => "kvm",
        }
    }

    /// The name as a reader is shown it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Native => "Native",
            Self::Hanok => "Hanok",
            Self::Xen => "Xen",
            Self::Kvm => "KVM",
        }
    }
}

/// The emulated machine's interrupt controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Gic {
    /// GICv2.
    #[serde(rename = "gicv2")]
    V2,
    /// GICv3.
    #[serde(rename = "gicv3")]
    V3,
}

impl Gic {
    /// The name as the JSON has it.
    pub fn id(self) -> &'static str {
        match self {
            Self::V2 => "gicv2",
            Self::V3 => "gicv3",
        }
    }

    /// The name as a reader is shown it.
    pub fn title(self) -> &'static str {
        match self {
            Self::V2 => "GICv2",
            Self::V3 => "GICv3",
        }
    }
}

/// The emulated machine and what ran on it: equal on all sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The CPU as QEMU names it, such as `cortex-a57`.
    pub cpu: String,
    /// Whether it is a 64-bit or a 32-bit machine.
    #[serde(default = "sixty_four")]
    pub bits: u32,
    /// Whether the CPU has the virtualization extensions. On one without them the guest's kernel runs in User mode.
    #[serde(default = "with_extensions", skip_serializing_if = "bool::clone")]
    pub extensions: bool,
    /// The interrupt controller.
    pub gic: Gic,
    /// The guest's memory in MiB.
    pub memory_mib: u64,
    /// QEMU's version.
    pub qemu: String,
    /// The guest kernel's version.
    pub kernel: String,
    /// lmbench's version.
    pub lmbench: String,
    /// The version of each hypervisor compared with.
    #[serde(default)]
    pub peers: BTreeMap<Side, String>,
    /// Settings that a reader needs to judge or repeat the run, a sentence or option each.
    #[serde(default)]
    pub settings: Vec<String>,
}

/// What results say nothing about that were kept before there were 32-bit machines.
const fn sixty_four() -> u32 {
    64
}

const fn with_extensions() -> bool {
    true
}

impl Machine {
    /// The machine in a word that may name a file: `cortex-a57-gicv3`, `cortex-a15-pl1-gicv2`.
    pub fn id(&self) -> String {
        Self::id_of(&self.cpu, self.extensions, self.gic)
    }

    /// The [`Machine::id`] of a machine with `cpu`, which has the virtualization extensions or not, and `gic`.
    pub fn id_of(cpu: &str, extensions: bool, gic: Gic) -> String {
        let cpu = cpu.chars().map(|c| match c {
            c if c.is_ascii_alphanumeric() || c == '-' => c.to_ascii_lowercase(),
            _ => '-',
        });
        let without = if extensions { "" } else { "-pl1" };
        format!("{}{without}-{}", cpu.collect::<String>(), gic.id())
    }

    /// The machine as a reader is shown it.
    pub fn title(&self) -> String {
        let without = if self.extensions {
            ""
        } else {
            ", without virtualization extensions"
        };
        format!("{} with {}{without}", self.cpu, self.gic.title())
    }
}
