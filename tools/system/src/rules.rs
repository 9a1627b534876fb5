//! The rules of a description that go beyond the form of its values.

use crate::backend::Architecture;
use crate::board::Board;
use crate::channels::ChannelDraft;
use crate::diagnostic::{Report, Words, nearest};
use crate::draft::Draft;
use crate::files::{self, Named};
use crate::source::{BUSYBOX, Boot, FirmwareRef, InitramfsRef, KernelRef, VariablesRef};
use crate::table::At;
use crate::{flash, kernel, layout, recognise, size, time};
use hanok_config::{DEFAULT_SLICE, MAX_DEVICES, MAX_MEMORY, SLICES};
use hanok_types::MAX_VMS;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The memory in bytes that the hypervisor takes for itself, besides the image.
pub(crate) const HYPERVISOR_MEMORY: u64 = 64 << 20;
/// The size in bytes of a stage-2 block: memory is given out in these.
const BLOCK: u64 = 2 << 20;
/// arm64 Linux's COMMAND_LINE_SIZE, its final NUL included.
const COMMAND_LINE: usize = 2048;

pub(crate) fn count(report: &mut Report, whole: &Range<usize>, drafts: &[Draft]) {
    if drafts.is_empty() {
        let remedy = "add a [[vm]] with name, kernel and memory";
        let words = Words::new("the system has no VM", "there is nothing to run", remedy);
        report.refuse(whole, words);
    }
    if let Some(first) = drafts.get(MAX_VMS) {
        let what = format!("more than {MAX_VMS} VMs");
        let why = "the hypervisor has no room for them";
        let words = Words::new(what, why, "remove those from here on");
        report.refuse(&first.span, words);
    }
}

pub(crate) fn names(report: &mut Report, drafts: &[Draft]) {
    for (index, draft) in drafts.iter().enumerate() {
        let Some(name) = &draft.name else { continue };
        if name.value == "hanok" {
            let what = "a VM is called \"hanok\"";
            let why = "lines with that name before them are the hypervisor's";
            report.refuse(&name.span, Words::new(what, why, "give it another name"));
        }
        let mut earlier = drafts[..index]
            .iter()
            .filter_map(|draft| draft.name.as_ref());
        if earlier.any(|other| other.value == name.value) {
            let what = format!("a second VM is called \"{}\"", name.value);
            let why = "consoles and messages name VMs";
            report.refuse(&name.span, Words::new(what, why, "give it another name"));
        }
    }
}

pub(crate) fn cpu(report: &mut Report, board: &Board, cpu: Option<At<String>>) -> String {
    let Some(cpu) = cpu else {
        return board.cpu.clone();
    };
    if !board.cpus.contains(&cpu.value) {
        let what = format!("board {} has no CPU \"{}\"", board.name, cpu.value);
        let why = format!("its models are {}", board.cpus.join(", "));
        let known = nearest(&cpu.value, board.cpus.iter().map(String::as_str));
        let remedy = match known {
            Some(known) => format!("did you mean \"{known}\"?"),
            None => "choose one of them".to_owned(),
        };
        report.refuse(&cpu.span, Words::new(what, why, remedy));
    }
    cpu.value
}

pub(crate) fn cores(report: &mut Report, board: &Board, cores: Option<At<u64>>) -> u64 {
    let Some(cores) = cores else {
        return board.cores.default;
    };
    let limits = board.cores;
    if !limits.allow(cores.value) {
        let what = format!("board {} cannot have {} cores", board.name, cores.value);
        let (why, remedy) = if limits.min == limits.max {
            (format!("it has {}, always", limits.max), "remove `cores`")
        } else {
            (
                format!("it has from {} to {}", limits.min, limits.max),
                "choose a number in between",
            )
        };
        report.refuse(&cores.span, Words::new(what, why, remedy));
    }
    // The intended number is not known: nothing else is refused because of it.
    if limits.allow(cores.value) {
        cores.value
    } else {
        limits.max
    }
}

pub(crate) fn memory(report: &mut Report, board: &Board, memory: Option<At<u64>>) -> u64 {
    let Some(memory) = memory else {
        return board.memory.default;
    };
    let limits = board.memory;
    if !limits.allow(memory.value) || memory.value % BLOCK != 0 {
        let shown = size::show(memory.value);
        let what = format!("board {} cannot have {shown} of memory", board.name);
        let (min, max) = (size::show(limits.min), size::show(limits.max));
        let (why, remedy) = if limits.min == limits.max {
            (format!("it has {max}, always"), "remove `memory`")
        } else {
            (
                format!("it has from {min} to {max}, in steps of 2M"),
                "choose a size in between",
            )
        };
        report.refuse(&memory.span, Words::new(what, why, remedy));
    }
    memory.value
}

/// The time slice in microseconds.
pub(crate) fn slice(report: &mut Report, slice: Option<At<u64>>) -> u32 {
    let Some(at) = slice else {
        return DEFAULT_SLICE;
    };
    let slice = u32::try_from(at.value).ok();
    slice
        .filter(|slice| SLICES.contains(slice))
        .unwrap_or_else(|| {
            let what = format!("a time slice cannot be {}", time::show(at.value));
            let [least, most] = [SLICES.start(), SLICES.end()].map(|end| time::show((*end).into()));
            let why = "below, switching takes more than the guests; above, each waits too long";
            let remedy = format!("choose from {least} to {most}");
            report.refuse(&at.span, Words::new(what, why, remedy));
            DEFAULT_SLICE
        })
}

/// Refuses a device that is named twice, and a VM with too many. Whether two names mean the same
/// device is checked with the board's tree.
pub(crate) fn devices(report: &mut Report, drafts: &[Draft]) {
    let mut earlier: Vec<(&str, usize)> = Vec::new();
    for (vm, draft) in drafts.iter().enumerate() {
        for device in &draft.devices {
            let name = device.value.name.as_str();
            if let Some((_, other)) = earlier.iter().find(|(other, _)| *other == name) {
                let other = drafts.get(*other).and_then(|draft| draft.name.as_ref());
                let other = other.map_or("another", |name| name.value.as_str());
                report.refuse(&device.span, given_twice(name, other));
            }
            earlier.push((name, vm));
        }
        if let Some(first) = draft.devices.get(MAX_DEVICES) {
            let what = format!("more than {MAX_DEVICES} devices for one VM");
            let why = "the hypervisor has no room for them";
            let remedy = "remove those from here on";
            report.refuse(&first.span, Words::new(what, why, remedy));
        }
    }
}

/// The refusal of a device that VM `owner` has already.
pub(crate) fn given_twice(name: &str, owner: &str) -> Words {
    let what = format!("device \"{name}\" is given twice: VM {owner} has it");
    let why = "two drivers at one device would disturb each other";
    Words::new(what, why, "remove it from one of the lists")
}

/// Checks each VM's memory alone, then all of it together, with the channels'.
pub(crate) fn total(
    report: &mut Report,
    (board, memory, traced): (&Board, u64, u64),
    drafts: &[Draft],
    channels: &[ChannelDraft],
) {
    let usable = board.usable(memory);
    let own = HYPERVISOR_MEMORY + traced;
    let memories = || drafts.iter().filter_map(|draft| draft.memory.as_ref());
    for memory in memories().filter(|memory| memory.value % BLOCK != 0) {
        let what = format!("a VM cannot have {} bytes of memory", memory.value);
        let why = "memory is mapped in blocks of 2M";
        let next = memory
            .value
            .checked_next_multiple_of(BLOCK)
            .unwrap_or(BLOCK);
        let remedy = format!("make it \"{}M\"", next >> 20);
        report.refuse(&memory.span, Words::new(what, why, remedy));
    }
    for memory in memories().filter(|memory| memory.value > MAX_MEMORY) {
        let what = format!("a VM cannot have {} of memory", size::show(memory.value));
        let why = format!(
            "the virtual platform's RAM ends after {}",
            size::show(MAX_MEMORY)
        );
        report.refuse(&memory.span, Words::new(what, why, "give it less"));
    }
    let shared = channels.iter().filter_map(ChannelDraft::memory);
    let all = memories().map(|memory| memory.value);
    let mut all = all.chain(shared.map(|(size, _)| size));
    let sum = all.try_fold(own, u64::checked_add);
    if let (true, Some(last)) = (sum.is_none_or(|sum| sum > usable), memories().next_back()) {
        let why = format!(
            "the VMs' memory and {} for the hypervisor are more than the board's {}",
            size::show(own),
            size::show(usable),
        );
        let room = size::show(usable.saturating_sub(own));
        let remedy = format!("give the VMs at most {room} together");
        let remedy = board.or_more_memory(memory, &remedy);
        report.refuse(&last.span, Words::new("too much memory", why, remedy));
    }
}

/// Checks files that are named by path, and finds from them what a VM's CPUs execute, on a board of
/// this architecture.
pub(crate) fn files(
    report: &mut Report,
    boards_dir: &Path,
    draft: &Draft,
    board: Architecture,
) -> Architecture {
    let mut architecture = if draft.aarch32 {
        Architecture::Arm
    } else {
        board
    };
    if let Some(cmdline) = &draft.cmdline
        && (cmdline.value.len() >= COMMAND_LINE || cmdline.value.contains('\0'))
    {
        let what = "the command line is too long or holds a NUL";
        let why = format!("Linux takes {} bytes", COMMAND_LINE - 1);
        report.refuse(&cmdline.span, Words::new(what, why, "shorten it"));
    }
    let initramfs = draft.initramfs.as_ref();
    let len = initramfs.and_then(|initramfs| match &initramfs.value {
        InitramfsRef::Path(path) => {
            let file = Named {
                what: "initramfs",
                path,
                span: &initramfs.span,
            };
            file.read(report, files::length, || vec![BUSYBOX.to_owned()])
        }
        InitramfsRef::Busybox { .. } => None,
    });
    if let (Some(initramfs), Some(len), Some(memory)) = (initramfs, len, &draft.memory)
        && len > memory.value
    {
        let what = format!("the initramfs has {}", size::show(len));
        let why = format!("the VM has {} of memory", size::show(memory.value));
        let remedy = "give another file, or the VM more memory";
        report.refuse(&initramfs.span, Words::new(what, why, remedy));
    }
    variables(report, draft);
    let Some(boot) = &draft.boot else {
        return architecture;
    };
    match &boot.value {
        Boot::Kernel(KernelRef::Path(path)) => {
            let file = Named {
                what: "kernel",
                path,
                span: &boot.span,
            };
            let known = || [KernelRef::stock(), guest_references(boards_dir)].concat();
            if let Some(kernel) = file.read(report, files::bytes, known) {
                architecture = recognise::architecture(&kernel, board);
                let recognised = recognise::recognise(&kernel, architecture);
                kernel_file(report, draft, boot, recognised, len);
            }
        }
        Boot::Kernel(KernelRef::Debian { .. } | KernelRef::Guest(_)) => {}
        Boot::Firmware(firmware) => {
            no_initramfs(report, draft);
            firmware_fits(report, draft);
            if let Some((arm, other)) = firmware.for_32_bits() {
                // A firmware for 32 bits makes the VM a 32-bit one, on either board.
                if arm {
                    architecture = Architecture::Arm;
                }
                firmware_is_for(report, &boot.span, (arm, other), architecture);
            }
            if let FirmwareRef::Path(path) = firmware
                && let Some(bytes) = (Named {
                    what: "firmware",
                    path,
                    span: &boot.span,
                })
                .read(report, files::bytes, FirmwareRef::stock)
                && let Err(words) = layout::firmware(&bytes)
            {
                report.refuse(&boot.span, words);
            }
        }
    }
    architecture
}

fn kernel_file(
    report: &mut Report,
    draft: &Draft,
    boot: &At<Boot>,
    kernel: Result<kernel::Kernel<'_>, Words>,
    initramfs: Option<u64>,
) {
    match kernel {
        Err(words) => report.refuse(&boot.span, words),
        Ok(kernel) => {
            if let (Some(words), Some(at)) = (kernel.refuses_initramfs(), &draft.initramfs) {
                report.refuse(&at.span, words);
            }
            if let Some(memory) = &draft.memory
                && let Err(too_small) = layout::place(memory.value, &kernel, initramfs)
            {
                report.refuse(&memory.span, too_small.words());
            }
        }
    }
}

/// The file of variables need not be there: it is made when the run ends.
fn variables(report: &mut Report, draft: &Draft) {
    let Some(at) = &draft.variables else { return };
    let VariablesRef::Kept(path) = &at.value else {
        return;
    };
    if !path.exists() && path.parent().is_some_and(Path::is_dir) {
        return;
    }
    let file = Named {
        what: "file of variables",
        path,
        span: &at.span,
    };
    let bytes = file.read(report, files::bytes, Vec::new);
    if let Some(Err(words)) = bytes.as_deref().map(flash::stored) {
        report.refuse(&at.span, words);
    }
}

/// A firmware by its name is for one of the two instruction sets.
fn firmware_is_for(
    report: &mut Report,
    span: &Range<usize>,
    (arm, other): (bool, &str),
    architecture: Architecture,
) {
    if arm != (architecture == Architecture::Arm) {
        let bits = |arm| if arm { 32 } else { 64 };
        let what = format!(
            "a firmware for {} bits in a {}-bit VM",
            bits(arm),
            bits(!arm)
        );
        let why = "a firmware's first instruction must be one of the CPU's";
        let remedy = format!("write \"{other}\"");
        report.refuse(span, Words::new(what, why, remedy));
    }
}

fn firmware_fits(report: &mut Report, draft: &Draft) {
    if let Some(memory) = &draft.memory
        && let Err(too_small) = layout::place_firmware(memory.value)
    {
        report.refuse(&memory.span, too_small.words());
    }
}

fn no_initramfs(report: &mut Report, draft: &Draft) {
    if let Some(initramfs) = &draft.initramfs {
        let what = "`initramfs` beside `firmware`";
        let why = "a firmware loads its kernel and initramfs by itself";
        let remedy = "remove it, or boot a kernel with `kernel`";
        report.refuse(&initramfs.span, Words::new(what, why, remedy));
    }
}

/// Checks that a program of the repository exists in the folder beside the boards'.
pub(crate) fn guest(report: &mut Report, boards_dir: &Path, draft: &Draft) {
    let Some(kernel) = &draft.boot else { return };
    let Boot::Kernel(KernelRef::Guest(name)) = &kernel.value else {
        return;
    };
    let guests = guests_dir(boards_dir);
    if is_name(name) && is_program(&guests.join(name)) {
        if !is_member(&boards_dir.join(".."), name) {
            let what = format!("the guest \"{name}\" is not built with the repository");
            let why = format!("guests/{name} is no member of the workspace in Cargo.toml");
            let remedy = format!("add \"guests/{name}\" to its `members`");
            report.refuse(&kernel.span, Words::new(what, why, remedy));
        }
        return;
    }
    let known = guest_names(&guests);
    let what = format!("there is no guest \"{name}\" in the repository");
    let why = format!("guests/ has {}", known.join(", "));
    let remedy = match nearest(name, known.iter().map(String::as_str)) {
        Some(known) => format!("did you mean \"guest:{known}\"?"),
        None => "choose one of them, or give a path".to_owned(),
    };
    report.refuse(&kernel.span, Words::new(what, why, remedy));
}

/// Whether the guest in `guests/NAME` is a member of the repository's workspace. If the workspace
/// cannot be read, cargo will say what is wrong.
fn is_member(root: &Path, name: &str) -> bool {
    let text = std::fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
    let Ok(manifest) = toml::from_str::<toml::Table>(&text) else {
        return true;
    };
    let members = manifest
        .get("workspace")
        .and_then(|all| all.get("members")?.as_array());
    let path = format!("guests/{name}");
    members.is_none_or(|members| {
        let mut members = members.iter().filter_map(toml::Value::as_str);
        members.any(|member| member == path || member == "guests/*")
    })
}

fn guests_dir(boards_dir: &Path) -> PathBuf {
    boards_dir.join("../guests")
}

/// Whether a guest may have this name, which becomes a part of a path.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.chars().all(plain)
}

/// The names of all guests, as they are written as kernels.
fn guest_references(boards_dir: &Path) -> Vec<String> {
    let names = guest_names(&guests_dir(boards_dir));
    names.iter().map(|name| format!("guest:{name}")).collect()
}

/// Whether a folder of `guests` holds a program, and not code that programs share.
fn is_program(folder: &Path) -> bool {
    folder.join("src/main.rs").is_file()
}

/// The folders in `guests` that hold a program.
fn guest_names(guests: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(guests).into_iter().flatten().flatten();
    let programs = entries.filter(|entry| is_program(&entry.path()));
    let names = programs.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

impl layout::TooSmall {
    pub(crate) fn words(&self) -> Words {
        let remedy = format!(
            "give the VM at least \"{}M\"",
            self.needed.div_ceil(1 << 20)
        );
        Words::new(
            "the VM's memory is too small for what it boots",
            &*self.why,
            remedy,
        )
    }
}
