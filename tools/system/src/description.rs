//! The description of a system, `systems/NAME.toml`, after it was read and checked.

use crate::backend::Backend;
use crate::backend_rules;
use crate::board::Board;
use crate::channels::Channel;
use crate::consoles::Console;
use crate::diagnostic::{Diagnostic, Words};
use crate::directories::Directory;
use crate::disks::Disk;
use crate::networks::Network;
use crate::pcie::PcieDevice;
use crate::schedule::FoundInterface;
use crate::screens::Screen;
use crate::source::{Boot, KernelRef};
use crate::vm::{Artifacts, Key, Vm};
use hanok_config::{CorePolicy, Group, Promise, Trace};
use hanok_types::MAX_CPUS;
use std::path::PathBuf;

/// A checked description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The file that it was read from.
    pub path: PathBuf,
    /// The board.
    pub board: Board,
    /// The backend by which the board runs it: the board's own one, or the one that the description asks for.
    pub backend: Backend,
    /// The board's CPU model.
    pub cpu: String,
    /// The board's number of cores.
    pub cores: u64,
    /// The board's memory in bytes.
    pub memory: u64,
    /// The time slice in microseconds: how long a vCPU runs before the next one of its core gets
    /// its turn.
    pub slice: u32,
    /// The VMs.
    pub vms: Vec<Vm>,
    /// The board's disks that QEMU makes.
    pub disks: Vec<Disk>,
    /// The board's network interfaces that QEMU makes.
    pub networks: Vec<Network>,
    /// The folders of the PC that QEMU gives the board.
    pub directories: Vec<Directory>,
    /// The board's consoles that QEMU makes.
    pub consoles: Vec<Console>,
    /// The devices that QEMU puts on the board's PCIe bus.
    pub pcie: Vec<PcieDevice>,
    /// The channels between them, by their number.
    pub channels: Vec<Channel>,
    /// The policy of each core, where the board enforces the schedule.
    pub policies: Option<[CorePolicy; MAX_CPUS]>,
    /// What vCPUs are promised then, in the VMs' order.
    pub promises: Vec<Promise>,
    /// What a server costs beyond its budget in each of its periods, in nanoseconds.
    pub switch_cost: u32,
    /// What the board traces, and in how much memory.
    pub trace: Trace,
    /// The groups of vCPUs then.
    pub groups: Vec<Group>,
    /// Budgets, periods and cores that the description leaves open, as the analysis found them.
    pub found: Vec<FoundInterface>,
    /// Notes about what is enforced.
    pub(crate) schedule_notes: Vec<Diagnostic>,
    /// Rows and columns of the terminal at which a person sits, for guests that want to know. It is
    /// not described: who builds for a person says it.
    pub terminal: Option<(u16, u16)>,
}

impl Description {
    /// Whether the board has a global pool to enforce, for which its hypervisor must be made.
    pub fn has_pools(&self) -> bool {
        let global = |policy: &CorePolicy| matches!(policy, CorePolicy::Global { .. });
        self.policies.is_some_and(|all| all.iter().any(global))
    }

    /// The part of the board's memory, in bytes, that a system can use.
    pub fn usable_memory(&self) -> u64 {
        self.board.usable(self.memory)
    }

    /// Whether it names devices of the board. Then [`crate::check_devices`] and [`Self::build`]
    /// need the board's own tree.
    pub fn needs_board_tree(&self) -> bool {
        self.vms.iter().any(|vm| !vm.devices.is_empty())
    }

    /// The VM that has the board's second serial port for itself, and the port's name there.
    pub fn second_serial(&self) -> Option<(&Vm, &str)> {
        let names = &self.board.qemu.second_serial;
        let devices = self.vms.iter();
        let mut devices = devices.flat_map(|vm| vm.devices.iter().map(move |device| (vm, device)));
        let found = devices.find(|(_, device)| names.contains(&device.name));
        found.map(|(vm, device)| (vm, device.name.as_str()))
    }

    /// Whether the board's own tree is to be checked: it is needed, or a person chose it, so that
    /// its content is not known yet.
    pub fn looks_at_board_tree(&self) -> bool {
        self.needs_board_tree() || self.board.qemu.dtb.is_some()
    }

    /// What must be found before [`Self::build`]: an entry for each VM, in the description's order.
    pub fn artifacts(&self) -> Vec<Artifacts> {
        let of = |vm: &Vm| {
            let kernel = matches!(
                vm.boot,
                Boot::Kernel(KernelRef::Debian { .. } | KernelRef::Path(_))
            );
            let examine = self.backend == Backend::Deprivileged && kernel;
            Artifacts {
                vm: vm.name().to_owned(),
                boot: vm.boot.clone(),
                architecture: vm.architecture(),
                initramfs: vm.initramfs.clone(),
                serves_by_linux: vm.back_ends.iter().any(|end| end.source.is_some()),
                variables: vm.variables.clone(),
                examine,
                rewrite: examine && vm.rewrite,
            }
        };
        self.vms.iter().map(of).collect()
    }

    /// Whether a VM has a schedule of its own.
    pub fn is_scheduled(&self) -> bool {
        self.vms.iter().any(|vm| vm.marks.schedule.is_some())
    }

    /// A diagnostic about a key of the VM with index `vm`: what is wrong, why, and the remedy.
    pub fn refusal(&self, vm: usize, key: Key, [what, why, remedy]: [&str; 3]) -> Diagnostic {
        let marks = self.vms.get(vm).map(|vm| &vm.marks);
        let mark = marks.map(|marks| match key {
            Key::Boot => marks.boot,
            Key::Initramfs => marks.initramfs,
        });
        let words = Words::new(what, why, remedy);
        Diagnostic::at(&self.path, mark.unwrap_or_default(), words)
    }

    /// The diagnostic about a kernel with long descriptors on a board that has none.
    pub fn long_descriptors(&self, vm: usize) -> Diagnostic {
        let mark = self.vms.get(vm).map(|vm| vm.marks.boot);
        let words = backend_rules::long_descriptors(&self.board, self.backend);
        Diagnostic::at(&self.path, mark.unwrap_or_default(), words)
    }

    /// Diagnostics about parts that are valid, but do not mean what a reader would take them for.
    pub fn notes(&self) -> Vec<Diagnostic> {
        let marks = self.vms.iter().find_map(|vm| vm.marks.schedule);
        let note = marks.filter(|_| self.policies.is_none());
        let note = note.map(|mark| {
            let words = Words::new(
                "[vm.schedule] is not enforced by the board",
                format!(
                    "the vCPUs of a core have their turns one after the other, of {} each",
                    crate::time::show(self.slice.into())
                ),
                "write `enforce = true` into [schedule], or give a VM with deadlines a core of its own; \
                 `hanok sched` says what its budgets need",
            );
            Diagnostic::at(&self.path, mark, words)
        });
        let notes = self.schedule_notes.iter().cloned();
        note.into_iter().chain(notes).collect()
    }

    /// The arguments of QEMU that make this board: machine, CPU, cores, memory and what the board's
    /// file adds; without the program's name, and without the image to boot.
    pub fn qemu_args(&self) -> Vec<String> {
        let size = format!("{}K", self.memory >> 10);
        let (cores, qemu) = (self.cores.to_string(), &self.board.qemu);
        let args = [
            "-M",
            &qemu.machine,
            "-cpu",
            &self.cpu,
            "-smp",
            &cores,
            "-m",
            &size,
        ];
        let args = args.into_iter().map(str::to_owned);
        let disks = self.disks.iter().enumerate();
        let disks = disks.flat_map(|(index, disk)| disk.qemu_args(index));
        let networks = self.networks.iter().enumerate();
        let networks = networks.flat_map(|(index, network)| network.qemu_args(index));
        let screens = self
            .channels
            .iter()
            .filter_map(|channel| channel.screen.as_ref());
        let screens = screens.flat_map(Screen::qemu_args);
        let directories = self.directories.iter().enumerate();
        let directories = directories.flat_map(|(index, directory)| directory.qemu_args(index));
        let consoles = self.consoles.iter().enumerate();
        let consoles = consoles.flat_map(|(index, console)| console.qemu_args(index));
        let transports: Vec<String> = disks
            .chain(networks)
            .chain(directories)
            .chain(consoles)
            .chain(screens)
            .collect();
        let pcie = self.pcie.iter().enumerate();
        let pcie = pcie.flat_map(|(index, device)| device.qemu_args(index));
        // Of the transports' two versions, the standard's own.
        let version = ["-global", "virtio-mmio.force-legacy=false"];
        let is_used = !transports.is_empty();
        let version = version.into_iter().filter(|_| is_used);
        args.chain(qemu.args.iter().cloned())
            .chain(version.map(str::to_owned))
            .chain(transports)
            .chain(pcie)
            .collect()
    }
}
