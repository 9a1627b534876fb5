//! Checks the devices of the board that VMs are to have for themselves: whether the board has them,
//! whether a VM may have them, and what the VM is given with them.
//!
//! A device that accesses memory by itself (a bus master) reaches all of it unless an SMMU is set
//! up in between. One is in front of a PCIe host bridge; any other bus master only goes to a VM that the
//! description trusts.

use crate::description::Description;
use crate::diagnostic::{Diagnostic, Mark, Words, nearest};
use crate::rules;
use crate::vm::Vm;
use hanok_config::{
    DeviceError, HostDevice, HostTree, MAX_BOARD_LINES, MAX_DEVICES, PassThrough, assign,
};
use hanok_types::GicVersion;

/// All faults of the devices of `description`, on the board whose own tree is `board_tree`. Without
/// devices, nothing is checked.
pub fn check_devices(description: &Description, board_tree: &[u8]) -> Vec<Diagnostic> {
    match of(description, Some(board_tree)) {
        Ok(_) => Vec::new(),
        Err(found) => found,
    }
}

/// The devices that one VM is given.
#[derive(Default)]
pub(crate) struct VmDevices {
    pub(crate) host: Vec<HostDevice>,
    pub(crate) given: heapless::Vec<PassThrough, MAX_DEVICES>,
}

/// The devices that each VM is given. The error has all faults.
pub(crate) fn of(
    description: &Description,
    board_tree: Option<&[u8]>,
) -> Result<Vec<VmDevices>, Vec<Diagnostic>> {
    if !description.needs_board_tree() {
        let none = description.vms.iter().map(|_| VmDevices::default());
        return Ok(none.collect());
    }
    let whole = |words| vec![Diagnostic::of_file(&description.path, words)];
    let Some(bytes) = board_tree else {
        let why = "the description names devices of the board";
        let remedy = "give the device tree of the board";
        return Err(whole(Words::new(
            "the board's tree is missing",
            why,
            remedy,
        )));
    };
    let tree = HostTree::parse(bytes).map_err(|error| {
        let remedy = "give the tree that the board's firmware hands over";
        whole(Words::new(
            "the board's tree cannot be used",
            error.to_string(),
            remedy,
        ))
    })?;
    let mut search = Search {
        description,
        tree: &tree,
        taken: Vec::new(),
        found: Vec::new(),
    };
    search.gic();
    let all: Vec<VmDevices> = description.vms.iter().map(|vm| search.vm(vm)).collect();
    if search.found.is_empty() {
        Ok(all)
    } else {
        Err(search.found)
    }
}

/// A device that was given to a VM.
struct Taken<'d> {
    device: HostDevice,
    /// The VM that has it.
    vm: &'d Vm,
}

struct Search<'d> {
    description: &'d Description,
    tree: &'d HostTree<'d>,
    taken: Vec<Taken<'d>>,
    found: Vec<Diagnostic>,
}

impl<'d> Search<'d> {
    fn refuse(&mut self, mark: Mark, words: Words) {
        let path = &self.description.path;
        self.found.push(Diagnostic::at(path, mark, words));
    }

    /// Checks that the board's file and its tree have the same interrupt controller.
    fn gic(&mut self) {
        let board = &self.description.board;
        let version = self.tree.board().gic_version();
        if version != board.gic {
            let word = |version| match version {
                GicVersion::V2 => "v2",
                GicVersion::V3 => "v3",
            };
            let what = format!(
                "board {} is said to have GIC{}",
                board.name,
                word(board.gic)
            );
            let why = format!("its tree has GIC{}", word(version));
            let remedy = format!("write gic = \"{}\" in the board's file", word(version));
            self.refuse(Mark::default(), Words::new(what, why, remedy));
        }
    }

    fn vm(&mut self, vm: &'d Vm) -> VmDevices {
        let mut host = Vec::new();
        let marks = vm.marks.devices.iter().copied();
        for (device, mark) in vm.devices.iter().zip(marks) {
            match self.device(vm, &device.name) {
                Ok(device) => host.push(device),
                Err(words) => self.refuse(mark, words),
            }
        }
        self.not_both(vm, &host);
        self.not_in_a_pool(vm, &host);
        let Some(mut given) = assign(&host) else {
            self.do_not_fit(vm, &host);
            return VmDevices::default();
        };
        // Where one was refused, nothing comes of the others.
        for (given, device) in given.iter_mut().zip(&vm.devices) {
            given.trapped = device.trapped;
        }
        VmDevices { host, given }
    }

    /// Refuses a device behind an SMMU where the system has a global pool.
    fn not_in_a_pool(&mut self, vm: &Vm, host: &[HostDevice]) {
        let behind = host.iter().position(|device| device.bridge.is_some());
        let Some(index) = behind.filter(|_| self.description.has_pools()) else {
            return;
        };
        let what = "a PCIe host bridge in a system with a global pool";
        let why = "the hypervisor for global pools has no room for the SMMU's driver";
        let remedy = "give each core a policy of its own, or remove the device";
        let mark = vm.marks.devices.get(index);
        self.refuse(
            mark.copied().unwrap_or_default(),
            Words::new(what, why, remedy),
        );
    }

    /// Refuses a bus master without an SMMU beside one behind an SMMU: the first uses the board's addresses, the second
    /// the VM's, and a guest's tree has one rule for both.
    fn not_both(&mut self, vm: &Vm, host: &[HostDevice]) {
        let behind = host.iter().find(|device| device.bridge.is_some());
        let without = host.iter().position(|device| device.bus_master.is_some());
        let (Some(behind), Some(without)) = (behind, without) else {
            return;
        };
        let what = format!("VM {} has bus masters with and without an SMMU", vm.name());
        let why = format!(
            "\"{}\" is behind one, so that its addresses are the VM's",
            behind.name
        );
        let words = Words::new(what, why, "give them to two VMs");
        let mark = vm.marks.devices.get(without);
        self.refuse(mark.copied().unwrap_or_default(), words);
    }

    /// Refuses devices that do not fit: the one that would not fit alone, or all together.
    fn do_not_fit(&mut self, vm: &Vm, host: &[HostDevice]) {
        let why = "a VM has 32M for their registers, and 64 interrupts";
        let mut alone = vm.marks.devices.iter().zip(host);
        let large = alone.find(|(_, device)| assign(std::slice::from_ref(*device)).is_none());
        let (mark, words) = match large {
            Some((mark, device)) => {
                let what = format!(
                    "device \"{}\" does not fit the virtual platform",
                    device.name
                );
                (Some(mark), Words::new(what, why, "choose another device"))
            }
            None => {
                let what = "the VM's devices do not fit the virtual platform together";
                let mark = vm.marks.devices.first();
                (mark, Words::new(what, why, "give it fewer devices"))
            }
        };
        self.refuse(mark.copied().unwrap_or_default(), words);
    }

    /// The device `name` for `vm`.
    fn device(&mut self, vm: &'d Vm, name: &str) -> Result<HostDevice, Words> {
        let device = self.tree.device(name);
        let device = device.map_err(|error| self.refused(name, &error))?;
        self.not_twice(&device, vm, name)?;
        self.lines_suffice(&device, name)?;
        // Check first what trusting the VM would not mend, so that nobody trusts a VM in vain.
        self.neighbours(&device, vm, true)?;
        may_have(vm, &device)?;
        self.neighbours(&device, vm, vm.config.trusted)?;
        let taken = device.clone();
        self.taken.push(Taken { device: taken, vm });
        Ok(device)
    }

    /// Checks that the hypervisor can pass on the interrupts of all given devices and of one more.
    fn lines_suffice(&self, device: &HostDevice, name: &str) -> Result<(), Words> {
        let taken = self.taken.iter().map(|taken| taken.device.interrupts.len());
        let lines = taken.sum::<usize>() + device.interrupts.len();
        if lines <= MAX_BOARD_LINES {
            return Ok(());
        }
        let what = format!("with device \"{name}\" the VMs have {lines} interrupts of the board");
        let why = format!("the hypervisor hands on {MAX_BOARD_LINES}, for all VMs together");
        Err(Words::new(what, why, "give the VMs fewer devices"))
    }

    fn refused(&self, name: &str, error: &DeviceError) -> Words {
        let why = error.to_string();
        let what = match error {
            DeviceError::Unknown(_) => format!("there is no device \"{name}\" on the board"),
            _ => format!("device \"{name}\" cannot be given to a VM"),
        };
        let (why, remedy) = match error {
            DeviceError::Unknown(_) => {
                let names = self.tree.names();
                let remedy = match nearest(name, names.iter().map(String::as_str)) {
                    Some(known) => format!("did you mean \"{known}\"?"),
                    None => "give a node's name, its path, or an alias".to_owned(),
                };
                ("the board's tree has no such node".to_owned(), remedy)
            }
            DeviceError::Ambiguous(paths) => {
                let path = paths.first().map_or("", String::as_str);
                (why, format!("give its path, such as \"{path}\""))
            }
            DeviceError::Off => {
                let remedy = "choose another, or let the firmware's tree switch it on";
                (why, remedy.to_owned())
            }
            DeviceError::Own(_) | DeviceError::OwnLine(_) => {
                let remedy = "remove it; each VM has a console, clock and timer of its own";
                (why, remedy.to_owned())
            }
            DeviceError::Bridge(_) => {
                let remedy = "choose a board with an SMMUv3, such as qemu-virt-smmu, or remove it";
                (why, remedy.to_owned())
            }
            DeviceError::Beside(_) => (why, "choose a device with pages of its own".to_owned()),
            DeviceError::NoRegisters
            | DeviceError::ManyRegisters
            | DeviceError::ManyLines
            | DeviceError::Line(_) => (why, "choose another device".to_owned()),
        };
        Words::new(what, why, remedy)
    }

    /// Checks that neither the device nor an interrupt or page of it was given before.
    fn not_twice(&self, device: &HostDevice, vm: &Vm, name: &str) -> Result<(), Words> {
        for Taken {
            device: other,
            vm: owner,
        } in &self.taken
        {
            if other.path == device.path {
                return Err(rules::given_twice(name, owner.name()));
            }
            let shared = device.interrupts.iter().find(|line| {
                let mut others = other.interrupts.iter();
                others.any(|other| other.id == line.id)
            });
            if let Some(line) = shared {
                let what = format!("interrupt {} is given twice", line.id);
                let why = format!(
                    "\"{name}\" of VM {} shares it with \"{}\" of VM {}",
                    vm.name(),
                    other.name,
                    owner.name()
                );
                let remedy = "remove one of the two devices";
                return Err(Words::new(what, why, remedy));
            }
        }
        Ok(())
    }

    /// Checks the devices that share a page with this one, as on many boards: the VM that gets a page
    /// gets all of them. A VM that is trusted with all memory may have further bus masters, which no other VM has.
    fn neighbours(&self, device: &HostDevice, vm: &Vm, trusted: bool) -> Result<(), Words> {
        let elsewhere = |path: &str| {
            let mut taken = self.taken.iter();
            taken.any(|taken| taken.device.path == path && taken.vm.name() != vm.name())
        };
        let own = |path: &str| {
            let mut taken = self.taken.iter();
            taken.any(|taken| taken.device.path == path && taken.vm.name() == vm.name())
        };
        let mut beside = device.neighbours.iter();
        if let Some(other) = beside.clone().find(|other| own(&other.path)) {
            let what = format!(
                "device \"{}\" cannot be given beside {}",
                device.name, other.path
            );
            let why = "their registers share a page of 4K, of which a VM has one device";
            let remedy = "choose one with pages of its own";
            return Err(Words::new(what, why, remedy));
        }
        let harmful = beside.find(|other| match (other.works, other.is_bus_master) {
            (works, true) if trusted => works && elsewhere(&other.path),
            (works, master) => works || (master && !trusted),
        });
        let Some(other) = harmful else {
            return Ok(());
        };
        let what = format!("device \"{}\" cannot be given alone", device.name);
        let why = format!(
            "its registers share a page of 4K with {}, and a VM is given whole pages",
            other.path
        );
        let remedy = if other.is_bus_master && !elsewhere(&other.path) {
            format!(
                "choose a device with pages of its own, or write `trusted = true` for VM {} if it may \
                 have that bus master, too",
                vm.name()
            )
        } else {
            "choose a device with pages of its own".to_owned()
        };
        Err(Words::new(what, why, remedy))
    }
}

/// Checks that a bus master goes to a trusted VM.
fn may_have(vm: &Vm, device: &HostDevice) -> Result<(), Words> {
    let Some(reason) = device.bus_master.as_ref().filter(|_| !vm.config.trusted) else {
        return Ok(());
    };
    let what = format!("device \"{}\" may be a bus master", device.name);
    let why = format!(
        "{reason}; no SMMU is in use for it, so that it could reach all memory, the \
         hypervisor's and other VMs' too"
    );
    let remedy = format!(
        "write `trusted = true` for VM {} if it may, or remove the device",
        vm.name()
    );
    Err(Words::new(what, why, remedy))
}
