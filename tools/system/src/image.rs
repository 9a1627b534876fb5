//! Builds the image that a board boots: the hypervisor's flat binary, padded to the memory it
//! needs, then the payload. The payload is the system's tree, and each blob at a multiple of 4 KiB.
//! Bytes that several VMs begin with, such as one kernel for all of them, are in it once.
//!
//! The binary begins with the header of an arm64 Linux Image (Documentation/arch/arm64/booting.rst)
//! or of a 32-bit zImage (Documentation/arch/arm/booting.rst). Its size is set to that of the whole
//! image, so that boot loaders leave the payload alone. Behind the header, the information block
//! says where the payload is.

use crate::bytes::{u32_at, u64_at};
use crate::description::Description;
use crate::devices::{self, VmDevices};
use crate::diagnostic::{Diagnostic, Mark, Words};
use crate::kernel::{Part, Protocol};
use crate::layout::{self, Layout};
use crate::recognise;
use crate::source::Boot;
use crate::vm::{Files, Vm};
use crate::{rules, size};
use hanok_config::guest::{GuestDevice, GuestTree};
use hanok_config::{Blob, BlobKind, CorePolicy, System, VmConfig, sum};
use hanok_types::{Address, Ipa, MAX_CPUS, PAGE_SIZE, platform};
use std::borrow::Cow;
use std::path::Path;

/// The two headers: offset and value of the magic number, offset of the size, and the size's number
/// of bytes.
const HEADERS: [Header; 2] = [
    Header {
        magic: (56, b"ARM\x64"),
        size: (16, 8),
    },
    Header {
        magic: (36, b"\x18\x28\x6f\x01"),
        size: (44, 4),
    },
];
const INFO_MAGIC: usize = 64;
const SUM: usize = 72;
/// The checksum covers everything from this offset to the binary's end.
const SUMMED: usize = 80;
const PAYLOAD_OFFSET: usize = 80;
const PAYLOAD_LEN: usize = 88;
const CONSOLE: usize = 96;
const SYSTEM_SUM: usize = 104;
const KEY: usize = 112;
const INFO_END: usize = 144;

/// Random bytes that only this image has. They are one of the sources of its guests' random
/// numbers; zeros where they are not to be.
pub type BuildKey = [u8; 32];

impl Description {
    /// Builds the image from `hypervisor` (its flat binary), the system's tree and the guests'
    /// images. `files` are what [`Self::artifacts`] asked for, in its order. `board_tree` is the
    /// board's own tree, needed where [`Self::needs_board_tree`]. Equal inputs and an equal `key`
    /// give equal images.
    pub fn build(
        &self,
        hypervisor: &[u8],
        files: &[Files],
        board_tree: Option<&[u8]>,
        key: &BuildKey,
    ) -> Result<Vec<u8>, Vec<Diagnostic>> {
        let sound = hypervisor_size(hypervisor).map_err(|words| vec![self.whole(words)]);
        let (header, room) = sound?;
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
        let total = room + payload.len;
        self.check_total(total).map_err(|found| vec![found])?;
        // The image has tens of megabytes: each byte is copied once, into memory that never moves.
        let mut image = Vec::with_capacity(total as usize);
        image.extend_from_slice(hypervisor);
        image.resize(room as usize, 0);
        let (at, bytes) = header.size;
        image[at..at + bytes].copy_from_slice(&total.to_le_bytes()[..bytes]);
        let fields = [
            (PAYLOAD_OFFSET, room),
            (PAYLOAD_LEN, payload.len),
            (CONSOLE, self.board.console),
            (SYSTEM_SUM, sum(&payload.tree)),
        ];
        for (at, value) in fields {
            image[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        image[KEY..INFO_END].copy_from_slice(key);
        let whole = sum(&image[SUMMED..hypervisor.len()]);
        image[SUM..SUMMED].copy_from_slice(&whole.to_le_bytes());
        payload.append_to(&mut image);
        Ok(image)
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
            gic: self.board.gic,
            slice: self.slice,
            policies: self.policies.unwrap_or([CorePolicy::RoundRobin; MAX_CPUS]),
        };
        Payload::of(&frame, guests, blobs).map_err(|words| vec![self.whole(words)])
    }
}

/// The header of a kernel's format.
struct Header {
    magic: (usize, &'static [u8]),
    size: (usize, usize),
}

/// The hypervisor's header, and the memory in bytes that its binary needs, rounded up to a page.
fn hypervisor_size(hypervisor: &[u8]) -> Result<(&'static Header, u64), Words> {
    let remedy = "build the hypervisor again, and pass its flat binary";
    let magic = |at: usize, magic: &[u8]| {
        hypervisor
            .get(at..)
            .is_some_and(|rest| rest.starts_with(magic))
    };
    let whole = hypervisor.len() >= INFO_END && magic(INFO_MAGIC, b"HANOKIMG");
    let header = HEADERS
        .iter()
        .find(|header| whole && magic(header.magic.0, header.magic.1));
    let Some(header) = header else {
        let why = "it lacks the Image header or the information block behind it";
        return Err(Words::new(
            "this is not the hypervisor's binary",
            why,
            remedy,
        ));
    };
    let size = match header.size {
        (at, 4) => u32_at(hypervisor, at).map_or(0, u64::from),
        (at, _) => u64_at(hypervisor, at).unwrap_or(0),
    };
    if size < hypervisor.len() as u64 || size > 1 << 30 {
        let why = format!("its header claims {size:#x} bytes of memory");
        return Err(Words::new(
            "the hypervisor's binary is damaged",
            why,
            remedy,
        ));
    }
    Ok((header, size.next_multiple_of(PAGE_SIZE)))
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
    initramfs: Option<&'a [u8]>,
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
        let kernel = recognise::recognise(&files.boot, vm.architecture());
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
            initramfs,
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
            bytes: Cow::Borrowed(&files.boot),
        };
        Ok(Self {
            kind: BlobKind::Firmware,
            parts: vec![part],
            initramfs: None,
            layout,
            entry: platform::FLASH,
            argument: 0,
        })
    }
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
        let tree = GuestTree {
            name: vm.name(),
            terminal: system.terminal,
            vcpus: vm.config.cpus.len(),
            memory: vm.config.memory,
            bootargs: &vm.cmdline,
            initramfs: layout.initramfs,
            gic: system.board.gic,
            slots: &vm.config.slots,
            devices: &pairs,
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

    /// Appends it to `image`, whose length is a multiple of a page.
    fn append_to(&self, image: &mut Vec<u8>) {
        image.extend_from_slice(&self.tree);
        pad(image);
        for (_, blob) in &self.blobs.0 {
            image.extend_from_slice(blob);
            pad(image);
        }
    }
}

fn system_of(frame: &System, guests: &[Guest]) -> System {
    System {
        vms: guests.iter().map(|guest| guest.config.clone()).collect(),
        ..frame.clone()
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(PAGE_SIZE as usize), 0);
}
