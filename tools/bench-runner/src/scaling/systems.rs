//! The systems that are booted: one core, the VM that measures, and those beside it.

use std::fmt::Write;

/// Bytes of the board's memory.
const BOARD: &str = "2G";
/// Of each VM with the payload.
pub const MEMORY_MIB: u64 = 64;
/// Of the one whose loading is compared with that of a smaller one.
pub const LARGE_MIB: u64 = 576;

/// What the vCPUs of the other VMs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Neighbours {
    /// They wait for an interrupt that never comes.
    Idle,
    /// Their VMs do not begin.
    Off,
    /// They always have work.
    Runnable,
}

impl Neighbours {
    /// All of them, in the order of the drawing.
    pub const ALL: [Self; 3] = [Self::Idle, Self::Off, Self::Runnable];

    /// For people and files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Off => "off",
            Self::Runnable => "runnable",
        }
    }
}

/// A system on one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System<'a> {
    /// As `boards/` has it.
    pub board: &'a str,
    /// The CPU model.
    pub cpu: &'a str,
    /// Words for the VM that measures.
    pub words: &'a str,
    /// vCPUs of the VM that measures.
    pub vcpus: usize,
    /// MiB of it.
    pub memory: u64,
    /// Whether it has the board's PL061 for itself.
    pub device: bool,
    /// Its kernel and what goes with it, where that is not the payload.
    pub linux: Option<&'a str>,
    /// What the others do.
    pub neighbours: Neighbours,
    /// How many other VMs there are.
    pub vms: usize,
    /// How many vCPUs each of these has.
    pub each: usize,
}

impl System<'_> {
    /// As a description.
    pub fn description(&self) -> String {
        let (board, cpu) = (self.board, self.cpu);
        let mut text =
            format!("board = \"{board}\"\ncpu = \"{cpu}\"\ncores = 1\nmemory = \"{BOARD}\"\n");
        let (kernel, more) = match self.linux {
            Some(kernel) => (kernel, "initramfs = \"busybox\"\ninitramfs-modules = []\n"),
            None => ("guest:bench", ""),
        };
        vm(
            &mut text,
            "bench",
            kernel,
            self.words,
            self.memory,
            self.vcpus,
        );
        text += more;
        if self.device {
            text += "devices = [\"pl061@9030000\"]\n";
        }
        let role = match self.neighbours {
            Neighbours::Runnable => "bench.role=spin",
            Neighbours::Idle | Neighbours::Off => "bench.role=sleep",
        };
        for other in 0..self.vms {
            let name = format!("other{other}");
            vm(&mut text, &name, "guest:bench", role, MEMORY_MIB, self.each);
            if self.neighbours == Neighbours::Off {
                text += "autostart = false\n";
            }
        }
        text
    }
}

fn vm(text: &mut String, name: &str, kernel: &str, words: &str, mib: u64, vcpus: usize) {
    let cpus = vec!["0"; vcpus].join(", ");
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\n[[vm]]\nname = \"{name}\"\nkernel = \"{kernel}\"\ncmdline = \"{words}\"\n\
         memory = \"{mib}M\"\ncpus = [{cpus}]\n"
    );
}
