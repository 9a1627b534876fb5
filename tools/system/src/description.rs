//! The description of a system: its model, and reading it from `systems/NAME.toml`.

use crate::board::{self, Architecture, Board, Cores};
use crate::diagnostic::{Diagnostic, Mark, Report, Words, read};
use crate::draft::Draft;
use crate::schedule::draft::Whole;
use crate::schedule::{self, Schedule};
use crate::source::{Boot, InitramfsRef};
use crate::table::{self, Reader};
use crate::{cores, rules};
use std::path::{Path, PathBuf};

/// What must be found for one VM before an image can be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifacts {
    /// The VM's name.
    pub vm: String,
    /// Its kernel or firmware.
    pub boot: Boot,
    /// What its CPUs execute.
    pub architecture: Architecture,
    /// Its initramfs.
    pub initramfs: Option<InitramfsRef>,
}

/// The bytes of what [`Artifacts`] asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The kernel as it was delivered: an arm64 Image, plain, in gzip or in EFI zboot; or
    /// the firmware.
    pub boot: Vec<u8>,
    /// The initramfs.
    pub initramfs: Option<Vec<u8>>,
}

/// One VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// Its name.
    pub name: String,
    /// Its kernel or firmware.
    pub boot: Boot,
    /// What its CPUs execute: the board's own, or 32-bit code on a 64-bit board.
    pub architecture: Architecture,
    /// Its initramfs.
    pub initramfs: Option<InitramfsRef>,
    /// The kernel's command line.
    pub cmdline: String,
    /// Memory in bytes, a multiple of 2 MiB.
    pub memory: u64,
    /// The core of each vCPU; one that is named twice is shared.
    pub cpus: Vec<u8>,
    /// Devices of the board that it has for itself, each by its node's name, path or alias
    /// in the board's tree.
    pub devices: Vec<String>,
    /// Whether it may have a device that could reach all memory.
    pub trusted: bool,
    /// Whether it begins by itself.
    pub autostart: bool,
    pub(crate) marks: Marks,
}

/// Where a VM's keys stand, for what is found out only when the image is built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) boot: Mark,
    pub(crate) initramfs: Mark,
    pub(crate) memory: Mark,
    /// Each device's.
    pub(crate) devices: Vec<Mark>,
    /// Its schedule's, where it has one.
    pub(crate) schedule: Option<Mark>,
}

/// A key of a VM, for what is found out about it elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `kernel` or `firmware`.
    Boot,
    /// `initramfs`, and what goes into it.
    Initramfs,
}

/// A checked description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The file it came from.
    pub path: PathBuf,
    /// The board.
    pub board: Board,
    /// The board's CPU model.
    pub cpu: String,
    /// The board's number of cores.
    pub cores: u64,
    /// The board's memory in bytes.
    pub memory: u64,
    /// For how long in microseconds a vCPU runs before another one of its core has its turn.
    pub slice: u32,
    /// The VMs.
    pub vms: Vec<Vm>,
    /// Rows and columns of the terminal at which a person sits, for guests that want to know. It is
    /// not described: who builds for a person says it.
    pub terminal: Option<(u16, u16)>,
}

/// Reads and checks the description in `path`, whose board is looked for in `boards_dir`;
/// or all that is wrong with it, in the order of its lines. Files that it names by path are
/// looked at, what it names as `debian:...` or `busybox` is not. Whether the board has the
/// devices that it names is for [`crate::check_devices`] to see.
pub fn load(path: &Path, boards_dir: &Path) -> Result<Description, Vec<Diagnostic>> {
    let text = read(path).map_err(|diagnostic| vec![diagnostic])?;
    parse(path, &text, boards_dir)
}

/// As [`load`], of a `text` that `path` is said to hold.
pub fn parse(path: &Path, text: &str, boards_dir: &Path) -> Result<Description, Vec<Diagnostic>> {
    let mut report = Report::new(path, text);
    let found = table::document(text, &mut report, |reader, report| {
        system(reader, report, boards_dir, Asked::System)
    });
    sort(&mut report, path);
    match found {
        Some((description, _)) if report.found.is_empty() => Ok(description),
        _ => Err(report.found),
    }
}

/// Puts what was found in the order of the lines, what is in other files last.
pub(crate) fn sort(report: &mut Report, path: &Path) {
    report
        .found
        .sort_by_key(|found| (found.file != path, found.line, found.column));
}

/// What somebody wants of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A system that can run: it has a VM.
    System,
    /// Its schedule, which may be of groups alone, and must be there.
    Schedule,
}

pub(crate) fn system(
    reader: &mut Reader<'_, '_>,
    report: &mut Report,
    boards_dir: &Path,
    asked: Asked,
) -> Option<(Description, Option<Schedule>)> {
    let board = reader.require(report, "board", "a board's name", table::word);
    let board = board.and_then(|name| match board::find(boards_dir, &name, report) {
        Ok(board) => board,
        Err(found) => {
            report.found.extend(found);
            None
        }
    });
    let cpu = reader.get(report, "cpu", "a CPU model", table::word);
    let cores = reader.get(report, "cores", "a number from 1", table::number);
    let memory = reader.get(report, "memory", table::A_SIZE, table::size);
    let slice = reader.get(report, "slice", table::A_TIME, table::time);
    let whole = reader.span.clone();
    let drafts: Option<Vec<Draft>> = reader.tables(report, "vm", Draft::read);
    let schedule = reader.optional_table(report, "schedule", Whole::read);
    if let Some(drafts) = &drafts
        && (asked == Asked::System || !drafts.is_empty())
    {
        rules::count(report, &whole, drafts);
    }
    let (board, drafts) = (board?, drafts?);
    let mut description = Description {
        path: report.path.clone(),
        cpu: rules::cpu(report, &board, cpu),
        cores: rules::cores(report, &board, cores),
        memory: rules::memory(report, &board, memory),
        slice: rules::slice(report, slice),
        vms: Vec::new(),
        board,
        terminal: None,
    };
    rules::names(report, &drafts);
    rules::total(report, (&description.board, description.memory), &drafts);
    rules::devices(report, &drafts);
    let there = Cores {
        count: description.cores,
        most: description.board.cores.max,
    };
    let cores = cores::assign(report, there, &drafts);
    let model = schedule::build(report, schedule.as_ref(), &drafts, there);
    if asked == Asked::Schedule && model.is_none() && report.found.is_empty() {
        report.refuse(&whole, no_schedule());
    }
    for (draft, cpus) in drafts.into_iter().zip(cores) {
        let architecture =
            rules::files(report, boards_dir, &draft, description.board.architecture());
        rules::guest(report, boards_dir, &draft);
        let vm = draft.finish(cpus, architecture, report);
        description.vms.extend(vm);
    }
    Some((description, model))
}

/// The most cores that can be numbered.
const MOST_CORES: u64 = 256;

/// The schedule of a description that names no board: on as many cores as it says, or as its
/// pools name. Nothing can be built of it.
pub(crate) fn without_board(reader: &mut Reader<'_, '_>, report: &mut Report) -> Option<Schedule> {
    // What only a board makes use of may be there.
    reader.get(report, "cpu", "a CPU model", table::word);
    reader.get(report, "memory", table::A_SIZE, table::size);
    reader.get(report, "slice", table::A_TIME, table::time);
    let cores = reader.get(report, "cores", "a number from 1 to 256", |value| {
        table::number(value).filter(|cores| (1..=MOST_CORES).contains(cores))
    });
    let whole = reader.span.clone();
    let drafts: Vec<Draft> = reader.tables(report, "vm", Draft::read).unwrap_or_default();
    let schedule = reader.optional_table(report, "schedule", Whole::read);
    rules::names(report, &drafts);
    let named = schedule.iter().flat_map(Whole::named_cores);
    let named = named.chain(drafts.iter().flat_map(Draft::named_cores));
    let needed = named.max().map_or(1, |last| last.saturating_add(1));
    let cores = Cores {
        count: cores.map_or(needed.min(MOST_CORES), |at| at.value),
        most: MOST_CORES,
    };
    let model = schedule::build(report, schedule.as_ref(), &drafts, cores);
    if model.is_none() && report.found.is_empty() {
        report.refuse(&whole, no_schedule());
    }
    model
}

fn no_schedule() -> Words {
    let what = "the system has no schedule";
    let why = "no VM has a [vm.schedule], and there is no [[schedule.group]]";
    let remedy = "say what a VM is promised and which tasks it has: docs/scheduling.md";
    Words::new(what, why, remedy)
}

impl Description {
    /// The board's memory in bytes, as far as a system can use it.
    pub fn usable_memory(&self) -> u64 {
        self.board.usable(self.memory)
    }

    /// Whether it names devices of the board, so that [`crate::check_devices`] and
    /// [`Self::build`] need the board's own tree.
    pub fn needs_board_tree(&self) -> bool {
        self.vms.iter().any(|vm| !vm.devices.is_empty())
    }

    /// Whether the board's own tree is to be looked at: it is needed, or a person chose it, so that
    /// nobody knows yet what is in it.
    pub fn looks_at_board_tree(&self) -> bool {
        self.needs_board_tree() || self.board.qemu.dtb.is_some()
    }

    /// What must be found before [`Self::build`], a VM each, in the description's order.
    pub fn artifacts(&self) -> Vec<Artifacts> {
        let of = |vm: &Vm| Artifacts {
            vm: vm.name.clone(),
            boot: vm.boot.clone(),
            architecture: vm.architecture,
            initramfs: vm.initramfs.clone(),
        };
        self.vms.iter().map(of).collect()
    }

    /// Whether a VM has a schedule of its own.
    pub fn is_scheduled(&self) -> bool {
        self.vms.iter().any(|vm| vm.marks.schedule.is_some())
    }

    /// What is wrong with a key of the VM of this place: what, why, and what mends it.
    pub fn refusal(&self, vm: usize, key: Key, [what, why, remedy]: [&str; 3]) -> Diagnostic {
        let marks = self.vms.get(vm).map(|vm| &vm.marks);
        let mark = marks.map(|marks| match key {
            Key::Boot => marks.boot,
            Key::Initramfs => marks.initramfs,
        });
        let words = Words::new(what, why, remedy);
        Diagnostic::at(&self.path, mark.unwrap_or_default(), words)
    }

    /// What is sound, and yet not what a reader would take it for.
    pub fn notes(&self) -> Vec<Diagnostic> {
        let marks = self.vms.iter().find_map(|vm| vm.marks.schedule);
        let note = marks.map(|mark| {
            let words = Words::new(
                "[vm.schedule] is not enforced by the board yet",
                format!(
                    "the vCPUs of a core have their turns one after the other, of {} each",
                    crate::time::show(self.slice.into())
                ),
                "give a VM with deadlines a core of its own; `hanok sched` says what its budgets need",
            );
            Diagnostic::at(&self.path, mark, words)
        });
        note.into_iter().collect()
    }

    /// The arguments of QEMU that make this board: machine, CPU, cores, memory and what the
    /// board's file adds; without the program's name and without what to boot.
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
        args.chain(qemu.args.iter().cloned()).collect()
    }
}
