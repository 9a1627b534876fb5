//! Builds the image that a board boots: the hypervisor's flat binary, padded to the memory it
//! needs, then the payload. The payload is the system's tree, and each blob at a multiple of 4 KiB.
//! Bytes that several VMs begin with, such as one kernel for all of them, are in it once.
//!
//! The binary begins with the header of an arm64 Linux Image (Documentation/arch/arm64/booting.rst)
//! or of a 32-bit zImage (Documentation/arch/arm/booting.rst). Its size is set to that of the whole
//! image, so that boot loaders leave the payload alone. Behind the header, the information block
//! says where the payload is.

use crate::backend::Backend;
use crate::binary::{Binary, BuildKey, Told};
use crate::channels::Channel;
use crate::description::Description;
use crate::devices::{self, VmDevices};
use crate::diagnostic::{Diagnostic, Mark, Words};
use crate::kernel::{Part, Protocol};
use crate::layout::{self, Layout};
use crate::linux_sources::LinuxSource;
use crate::recognise;
use crate::source::Boot;
use crate::vm::{Files, Vm};
use crate::{flash, rules, size};
use hanok_config::guest::{GuestBackEnd, GuestChannel, GuestDevice, GuestScreen, GuestTree};
use hanok_config::{Blob, BlobKind, CorePolicy, NOR, System, VmConfig, sum};
use hanok_types::{Address, Ipa, MAX_CPUS, PAGE_SIZE, Span, platform};
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

impl Description {
    /// [`Self::image`] in one piece.
    pub fn build(
        &self,
        hypervisor: &[u8],
        files: &[Files],
        board_tree: Option<&[u8]>,
        key: &BuildKey,
    ) -> Result<Vec<u8>, Vec<Diagnostic>> {
        let image = self.image(hypervisor, files, board_tree, key)?;
        let mut bytes = Vec::with_capacity(image.len() as usize);
        for part in image.parts() {
            bytes.extend_from_slice(part);
        }
        Ok(bytes)
    }

    /// The image of `hypervisor` (its flat binary), the system's tree and the guests' images. `files` are what
    /// [`Self::artifacts`] asked for, in its order. `board_tree` is the board's own tree, needed where
    /// [`Self::needs_board_tree`]. Equal inputs and an equal `key` give equal images.
    pub fn image<'a>(
        &self,
        hypervisor: &[u8],
        files: &'a [Files],
        board_tree: Option<&[u8]>,
        key: &BuildKey,
    ) -> Result<Image<'a>, Vec<Diagnostic>> {
        let binary = Binary::of(hypervisor).map_err(|words| vec![self.whole(words)])?;
        if files.len() != self.vms.len() {
            let what = format!("{} sets of files for {} VMs", files.len(), self.vms.len());
            return Err(vec![self.whole(Words::new(
                what,
                "",
                "resolve every artifact",
            ))]);
        }
        let devices = devices::of(self, board_tree)?;
        let payload = self.payload(files, &devices)?;
        let total = binary.memory() + payload.len;
        self.check_total(total).map_err(|found| vec![found])?;
        let told = Told {
            payload_len: payload.len,
            console: self.board.serial.port(self.board.console),
            system_sum: sum(&payload.tree),
            key,
            at_pl1: self.backend == Backend::Deprivileged,
        };
        let head = binary.told(&told);
        Ok(Image { head, payload })
    }

    fn whole(&self, words: Words) -> Diagnostic {
        Diagnostic::of_file(&self.path, words)
    }

    /// Checks that the VMs, the hypervisor and the image fit the board together: the image stays in
    /// memory, so that a VM can be started again.
    fn check_total(&self, image: u64) -> Result<(), Diagnostic> {
        let vms: u64 = self.vms.iter().map(|vm| vm.memory()).sum();
        let needed = vms + image + rules::HYPERVISOR_MEMORY;
        if needed <= self.usable_memory() {
            return Ok(());
        }
        let why = format!(
            "VMs {}, image {} and {} for the hypervisor are more than the board's {}",
            size::show(vms),
            size::show(image),
            size::show(rules::HYPERVISOR_MEMORY),
            size::show(self.usable_memory()),
        );
        let mark = self
            .vms
            .last()
            .map_or(Mark::default(), |vm| vm.marks.memory);
        let remedy = self.board.or_more_memory(self.memory, "give the VMs less");
        let words = Words::new("too much memory", why, remedy);
        Err(Diagnostic::at(&self.path, mark, words))
    }

    /// All faults of those of the files that are there (an entry for each VM, in the description's
    /// order): everything that [`Self::build`] would say of them.
    pub fn check_files(&self, files: &[Option<Files>]) -> Vec<Diagnostic> {
        let pairs = self.vms.iter().zip(files);
        let there = pairs.filter_map(|(vm, files)| Some((vm, files.as_ref()?)));
        let refused = there.filter_map(|(vm, files)| Boots::of(self, vm, files).err());
        refused.collect()
    }

    fn payload<'a>(
        &self,
        files: &'a [Files],
        devices: &[VmDevices],
    ) -> Result<Payload<'a>, Vec<Diagnostic>> {
        let mut guests = Vec::new();
        let mut found = Vec::new();
        let mut blobs = Blobs::default();
        for ((vm, files), devices) in self.vms.iter().zip(files).zip(devices) {
            match Guest::new(self, vm, files, devices, &mut blobs) {
                Ok(guest) => guests.push(guest),
                Err(diagnostic) => found.push(diagnostic),
            }
        }
        if !found.is_empty() {
            return Err(found);
        }
        let frame = System {
            vms: Vec::new(),
            promises: self.promises.clone(),
            groups: self.groups.clone(),
            gic: self.board.gic,
            slice: self.slice,
            switch_cost: self.switch_cost,
            trace: self.trace,
            policies: self.policies.unwrap_or([CorePolicy::RoundRobin; MAX_CPUS]),
        };
        Payload::of(&frame, guests, blobs).map_err(|words| vec![self.whole(words)])
    }
}

/// A VM's configuration, and the indices of its blobs in [`Blobs`], in the same order.
struct Guest {
    config: VmConfig,
    blobs: Vec<usize>,
}

/// The bytes of all VMs' blobs, each once: the board copies them to the VMs, and changes none in
/// place.
#[derive(Default)]
struct Blobs<'a>(Vec<(u64, Cow<'a, [u8]>)>);

impl<'a> Blobs<'a> {
    /// The index of the blob with these bytes, whose [`sum`] is `sum`. They are added where no blob
    /// has them.
    fn add(&mut self, sum: u64, bytes: Cow<'a, [u8]>) -> usize {
        let same = |(other, blob): &(u64, Cow<'_, [u8]>)| *other == sum && *blob == bytes;
        let known = self.0.iter().position(same);
        known.unwrap_or_else(|| {
            self.0.push((sum, bytes));
            self.0.len() - 1
        })
    }
}

/// What a VM is started with.
struct Boots<'a> {
    kind: BlobKind,
    parts: Vec<Part<'a>>,
    /// Whether its sensitive instructions were rewritten.
    rewritten: bool,
    /// Code that was added to it then.
    added: Option<Span<Ipa>>,
    initramfs: Option<&'a [u8]>,
    variables: Vec<u8>,
    layout: Layout,
    entry: Ipa,
    /// The value of X0 of vCPU 0; of R2 for 32 bits.
    argument: u64,
}

impl<'a> Boots<'a> {
    fn of(system: &Description, vm: &Vm, files: &'a Files) -> Result<Self, Diagnostic> {
        match vm.boot {
            Boot::Kernel(_) => Self::kernel(vm, files, &system.path),
            Boot::Firmware(_) => Self::firmware(vm, files, &system.path),
        }
    }

    fn kernel(vm: &Vm, files: &'a Files, path: &Path) -> Result<Self, Diagnostic> {
        let at = |mark, words| Diagnostic::at(path, mark, words);
        let kernel = match files.raw {
            Some(raw) => raw.kernel(&files.boot),
            None => recognise::recognise(&files.boot, vm.architecture()),
        };
        let kernel = kernel.map_err(|words| at(vm.marks.boot, words))?;
        let initramfs = files.initramfs.as_deref().map(Vec::as_slice);
        if let Some(words) = kernel.refuses_initramfs().filter(|_| initramfs.is_some()) {
            return Err(at(vm.marks.initramfs, words));
        }
        if initramfs.is_some_and(<[u8]>::is_empty) {
            let words = Words::new("the initramfs is an empty file", "", "make it again");
            return Err(at(vm.marks.initramfs, words));
        }
        let len = initramfs.map(|bytes| bytes.len() as u64);
        let layout = layout::place(vm.memory(), &kernel, len)
            .map_err(|too_small| at(vm.marks.memory, too_small.words()))?;
        if !layout.initramfs_is_near(&kernel) {
            let why = "Linux wants it within 32G of the kernel";
            let words = Words::new("the initramfs is too large", why, "make it smaller");
            return Err(at(vm.marks.initramfs, words));
        }
        // A program in an ELF file expects the tree, if at all, at the start of RAM.
        let told = layout.tree.filter(|_| kernel.protocol != Protocol::Elf);
        Ok(Self {
            kind: BlobKind::Kernel,
            parts: kernel.parts,
            rewritten: files.raw.is_some(),
            added: files.raw.and_then(|raw| raw.added_at(kernel.entry)),
            initramfs,
            variables: variables(vm, files, path)?,
            layout,
            entry: kernel.entry,
            argument: told.map_or(0, Address::get),
        })
    }

    /// As by QEMU's `-bios`: the tree is at the start of RAM, and no register points to it.
    fn firmware(vm: &Vm, files: &'a Files, path: &Path) -> Result<Self, Diagnostic> {
        let at = |mark, words| Diagnostic::at(path, mark, words);
        layout::firmware(&files.boot).map_err(|words| at(vm.marks.boot, words))?;
        let layout = layout::place_firmware(vm.memory())
            .map_err(|too_small| at(vm.marks.memory, too_small.words()))?;
        let part = Part {
            at: platform::FLASH,
            bytes: Cow::Borrowed(flash::without_filling(&files.boot)),
        };
        Ok(Self {
            kind: BlobKind::Firmware,
            parts: vec![part],
            rewritten: false,
            added: None,
            initramfs: None,
            variables: variables(vm, files, path)?,
            layout,
            entry: platform::FLASH,
            argument: 0,
        })
    }
}

/// What the board has in its memory for the VM's variables at first.
fn variables(vm: &Vm, files: &Files, path: &Path) -> Result<Vec<u8>, Diagnostic> {
    let refused = |words| Diagnostic::at(path, vm.marks.variables, words);
    flash::stored(&files.variables).map_err(refused)
}

/// The number of free bytes behind a firmware's tree.
const ROOM: usize = 0x1_0000;

/// Extends a firmware's tree by free bytes. A firmware passes its tree on to a kernel, and adds to
/// it in place before that. QEMU leaves 1 MiB.
fn leave_room(tree: &mut Vec<u8>) {
    tree.resize(tree.len() + ROOM, 0);
    let total = (tree.len() as u32).to_be_bytes();
    // Devicetree Specification 0.4, 5.2: totalsize.
    if let Some(field) = tree.get_mut(4..8) {
        field.copy_from_slice(&total);
    }
}

impl Guest {
    fn new<'a>(
        system: &Description,
        vm: &Vm,
        files: &'a Files,
        devices: &VmDevices,
        blobs: &mut Blobs<'a>,
    ) -> Result<Self, Diagnostic> {
        let boots = Boots::of(system, vm, files)?;
        Ok(Self::laid_out(system, vm, boots, devices, blobs))
    }

    fn laid_out<'a>(
        system: &Description,
        vm: &Vm,
        boots: Boots<'a>,
        devices: &VmDevices,
        blobs: &mut Blobs<'a>,
    ) -> Self {
        let layout = &boots.layout;
        let pairs = devices.host.iter().zip(&devices.given);
        let pairs: Vec<GuestDevice<'_>> = pairs
            .map(|(host, given)| GuestDevice { host, given })
            .collect();
        let back_ends = vm.back_ends.iter();
        let back_ends: Vec<_> = back_ends
            .filter_map(|back_end| {
                Some(GuestBackEnd {
                    slot: vm.config.slots.get(back_end.slot)?,
                    client: &back_end.client,
                    kind: back_end.kind,
                    device: match back_end.device {
                        Some(device) => Some(pairs.get(device)?.address()?),
                        None => None,
                    },
                    cid: back_end.cid,
                    interface: back_end.interface.as_ref().map(|own| (own.mac, own.vlan)),
                    source: back_end.source.as_ref().map(LinuxSource::of_guest),
                })
            })
            .collect();
        let members: Vec<Vec<&str>> = system.channels.iter().map(Channel::names).collect();
        let ends = vm.config.channels.iter();
        let channels: Vec<GuestChannel<'_>> = ends
            .filter_map(|end| {
                let channel = system.channels.get(usize::from(end.number))?;
                let screen = channel.screen.as_ref();
                screen
                    .is_none_or(|screen| screen.is_frame_buffer(end.index))
                    .then_some(())?;
                Some(GuestChannel {
                    name: &channel.name,
                    members: members.get(usize::from(end.number))?,
                    end,
                    events: channel.events.iter().any(|name| name == vm.name()),
                    screen: screen.map(|screen| GuestScreen {
                        mode: screen.mode,
                        panel: screen.panel(vm, &pairs).filter(|_| end.index == 0),
                    }),
                })
            })
            .collect();
        let tree = GuestTree {
            name: vm.name(),
            terminal: system.terminal,
            vcpus: vm.config.cpus.len(),
            memory: vm.config.memory,
            bootargs: &vm.cmdline,
            initramfs: layout.initramfs,
            reserved: boots.added,
            gic: system.board.gic,
            slots: &vm.config.slots,
            channels: &channels,
            devices: &pairs,
            back_ends: &back_ends,
        };
        let mut tree = tree.write();
        if boots.kind == BlobKind::Firmware {
            leave_room(&mut tree.bytes);
        }
        let mut guest = Self {
            config: VmConfig {
                entry: boots.entry,
                argument: boots.argument,
                devices: devices.given.clone(),
                rewritten: boots.rewritten,
                trampolines: boots.added,
                ..vm.config.clone()
            },
            blobs: Vec::new(),
        };
        for part in boots.parts {
            guest.add(boots.kind, part.at, part.bytes, blobs);
        }
        if let (Some(bytes), Some(span)) = (boots.initramfs, layout.initramfs) {
            guest.add(
                BlobKind::Initramfs,
                span.start(),
                Cow::Borrowed(bytes),
                blobs,
            );
        }
        if !boots.variables.is_empty() {
            let bytes = Cow::Owned(boots.variables);
            guest.add(BlobKind::Variables, NOR, bytes, blobs);
        }
        let Some(at) = layout.tree else { return guest };
        guest.add(BlobKind::DeviceTree, at, Cow::Owned(tree.bytes), blobs);
        if let Some(blob) = guest.config.blobs.last_mut() {
            blob.seeds = tree.seeds.into_iter().collect();
            blob.host_address = tree.host_address;
        }
        guest
    }

    /// Adds a blob, whose place in the payload is not known yet. A VM never has more of them than
    /// fit, which `elf.rs` ensures.
    fn add<'a>(&mut self, kind: BlobKind, load: Ipa, bytes: Cow<'a, [u8]>, blobs: &mut Blobs<'a>) {
        let sum = sum(&bytes);
        let blob = Blob {
            kind,
            offset: 0,
            len: bytes.len() as u64,
            load,
            sum,
            seeds: heapless::Vec::new(),
            host_address: None,
        };
        if self.config.blobs.push(blob).is_ok() {
            self.blobs.push(blobs.add(sum, bytes));
        }
    }
}

/// What follows the hypervisor in the image.
struct Payload<'a> {
    tree: Vec<u8>,
    blobs: Blobs<'a>,
    len: u64,
}

impl<'a> Payload<'a> {
    /// The payload of the system `frame` with these guests. Sets the places of their blobs.
    fn of(frame: &System, mut guests: Vec<Guest>, blobs: Blobs<'a>) -> Result<Self, Words> {
        // The tree's length does not depend on the numbers in it.
        let tree_len = system_of(frame, &guests).to_tree().len() as u64;
        let mut len = tree_len.next_multiple_of(PAGE_SIZE);
        let mut offsets = Vec::new();
        for (_, bytes) in &blobs.0 {
            offsets.push(len);
            len = (len + bytes.len() as u64).next_multiple_of(PAGE_SIZE);
        }
        for guest in &mut guests {
            for (blob, which) in guest.config.blobs.iter_mut().zip(&guest.blobs) {
                blob.offset = offsets[*which];
            }
        }
        let system = system_of(frame, &guests);
        let tree = system.to_tree();
        // The board will apply the same rules to the same bytes.
        match System::parse(&tree, len) {
            Ok(read) if read == system => {}
            Ok(_) => {
                let what = "the system's tree was written wrong";
                return Err(Words::new(what, "", "report this"));
            }
            Err(error) => {
                let why = "the board would refuse it";
                return Err(Words::new(error.to_string(), why, "report this"));
            }
        }
        Ok(Self { tree, blobs, len })
    }

    /// All its bytes in order, each part filled up to a multiple of a page.
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let blobs = self.blobs.0.iter().map(|(_, blob)| &**blob);
        let all = core::iter::once(&*self.tree).chain(blobs);
        all.flat_map(|part| [part, padding(part)])
    }
}

/// An image as the parts that it consists of. The guests' files are not copied for it: they have tens of megabytes.
pub struct Image<'a> {
    /// The hypervisor and the memory behind it.
    head: Vec<u8>,
    payload: Payload<'a>,
}

impl Image<'_> {
    /// The size in bytes.
    #[allow(clippy::len_without_is_empty, reason = "no image is empty")]
    pub fn len(&self) -> u64 {
        self.head.len() as u64 + self.payload.len
    }

    /// Writes the image.
    pub fn write_to(&self, to: &mut dyn Write) -> io::Result<()> {
        self.parts().try_for_each(|part| to.write_all(part))
    }

    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        core::iter::once(&*self.head).chain(self.payload.parts())
    }
}

fn system_of(frame: &System, guests: &[Guest]) -> System {
    System {
        vms: guests.iter().map(|guest| guest.config.clone()).collect(),
        ..frame.clone()
    }
}

/// The zeros between `part` and the next multiple of a page.
fn padding(part: &[u8]) -> &'static [u8] {
    const ZEROS: [u8; PAGE_SIZE as usize] = [0; PAGE_SIZE as usize];
    let len = part.len().next_multiple_of(ZEROS.len()) - part.len();
    &ZEROS[..len]
}
