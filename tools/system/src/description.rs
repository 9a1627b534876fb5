//! The description of a system: its model, and reading it from `systems/NAME.toml`.

use crate::board::{self, Board};
use crate::diagnostic::{Diagnostic, Mark, Report, Words, read};
use crate::rules;
use crate::source::{InitramfsRef, KernelRef, Modules};
use crate::table::{self, At, Reader};
use std::path::{Path, PathBuf};
use toml::de::DeValue;

/// What must be found for one VM before an image can be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifacts {
    /// The VM's name.
    pub vm: String,
    /// Its kernel.
    pub kernel: KernelRef,
    /// Its initramfs.
    pub initramfs: Option<InitramfsRef>,
}

/// The bytes of what [`Artifacts`] asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The kernel as it was delivered: an arm64 Image, plain, in gzip or in EFI zboot.
    pub kernel: Vec<u8>,
    /// The initramfs.
    pub initramfs: Option<Vec<u8>>,
}

/// One VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// Its name.
    pub name: String,
    /// Its kernel.
    pub kernel: KernelRef,
    /// Its initramfs.
    pub initramfs: Option<InitramfsRef>,
    /// The kernel's command line.
    pub cmdline: String,
    /// Memory in bytes, a multiple of 2 MiB.
    pub memory: u64,
    /// The core of each vCPU.
    pub cpus: Vec<u8>,
    pub(crate) marks: Marks,
}

/// Where a VM's keys stand, for what is found out only when the image is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) kernel: Mark,
    pub(crate) initramfs: Mark,
    pub(crate) memory: Mark,
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
    /// The VMs.
    pub vms: Vec<Vm>,
}

/// Reads and checks the description in `path`, whose board is looked for in `boards_dir`;
/// or all that is wrong with it, in the order of its lines. Files that it names by path are
/// looked at, what it names as `debian:...` or `busybox` is not.
pub fn load(path: &Path, boards_dir: &Path) -> Result<Description, Vec<Diagnostic>> {
    let text = read(path).map_err(|diagnostic| vec![diagnostic])?;
    parse(path, &text, boards_dir)
}

/// As [`load`], of a `text` that `path` is said to hold.
pub fn parse(path: &Path, text: &str, boards_dir: &Path) -> Result<Description, Vec<Diagnostic>> {
    let mut report = Report::new(path, text);
    let description = table::document(text, &mut report, |reader, report| {
        system(reader, report, boards_dir)
    });
    report
        .found
        .sort_by_key(|found| (found.file != path, found.line, found.column));
    match description {
        Some(description) if report.found.is_empty() => Ok(description),
        _ => Err(report.found),
    }
}

fn system(
    reader: &mut Reader<'_, '_>,
    report: &mut Report,
    boards_dir: &Path,
) -> Option<Description> {
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
    let whole = reader.span.clone();
    let drafts: Option<Vec<Draft>> = reader.tables(report, "vm", draft);
    if let Some(drafts) = &drafts {
        rules::count(report, &whole, drafts);
    }
    let (board, drafts) = (board?, drafts?);
    let mut description = Description {
        path: report.path.clone(),
        cpu: rules::cpu(report, &board, cpu),
        cores: rules::cores(report, &board, cores),
        memory: rules::memory(report, &board, memory),
        vms: Vec::new(),
        board,
    };
    rules::names(report, &drafts);
    rules::total(report, description.memory, &drafts);
    let cores = rules::assign(report, description.cores, &drafts);
    for (draft, cpus) in drafts.into_iter().zip(cores) {
        rules::files(report, &draft);
        rules::guest(report, boards_dir, &draft);
        description.vms.extend(finish(draft, cpus, report));
    }
    Some(description)
}

/// A VM as it was written.
pub(crate) struct Draft {
    pub(crate) span: std::ops::Range<usize>,
    pub(crate) name: Option<At<String>>,
    pub(crate) kernel: Option<At<KernelRef>>,
    pub(crate) initramfs: Option<At<InitramfsRef>>,
    pub(crate) cmdline: Option<At<String>>,
    pub(crate) memory: Option<At<u64>>,
    pub(crate) vcpus: Option<At<u64>>,
    pub(crate) cpus: Option<At<Vec<u64>>>,
}

fn draft(reader: &mut Reader<'_, '_>, report: &mut Report) -> Draft {
    let folder = report.path.parent().unwrap_or(Path::new("")).to_path_buf();
    let name = "a name of up to 31 letters, digits and dashes";
    let kernel = "\"debian:6.1\", \"debian:6.12\", either with \"-rt\", \"guest:NAME\", or a path";
    let modules = "\"default\", \"all\" or a list of modules";
    let cpus = "a list of core numbers";
    Draft {
        span: reader.span.clone(),
        name: reader.require(report, "name", name, vm_name),
        kernel: reader.require(report, "kernel", kernel, |value| {
            KernelRef::parse(&table::word(value)?, &folder)
        }),
        initramfs: {
            let text = reader.get(report, "initramfs", "\"busybox\" or a path", table::word);
            let modules = reader.get(report, "initramfs-modules", modules, modules_of);
            initramfs(text, modules, &folder, report)
        },
        cmdline: reader.get(report, "cmdline", "a string", table::text),
        memory: reader.require(report, "memory", table::A_SIZE, table::size),
        vcpus: reader.get(report, "vcpus", "a number from 1", |value| {
            table::number(value).filter(|vcpus| *vcpus > 0)
        }),
        cpus: reader.get(report, "cpus", cpus, |value| {
            table::list(value, table::number)
        }),
    }
}

fn vm_name(value: &DeValue<'_>) -> Option<String> {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '-';
    table::word(value).filter(|name| name.len() < 32 && name.chars().all(sound))
}

fn modules_of(value: &DeValue<'_>) -> Option<Modules> {
    match table::text(value).as_deref() {
        Some("default") => Some(Modules::Default),
        Some("all") => Some(Modules::All),
        Some(_) => None,
        None => table::list(value, table::word).map(Modules::List),
    }
}

fn initramfs(
    text: Option<At<String>>,
    modules: Option<At<Modules>>,
    folder: &Path,
    report: &mut Report,
) -> Option<At<InitramfsRef>> {
    let busybox = text.as_ref().is_some_and(|text| text.value == "busybox");
    if let Some(modules) = modules.as_ref().filter(|_| !busybox) {
        let what = "`initramfs-modules` without `initramfs = \"busybox\"`";
        let why = "modules are put only into the initramfs that is made at build time";
        let remedy = "remove it, or write initramfs = \"busybox\"";
        report.refuse(&modules.span, Words::new(what, why, remedy));
    }
    let modules = modules.map_or(Modules::Default, |modules| modules.value);
    text.map(|text| {
        text.map(|text| match busybox {
            true => InitramfsRef::Busybox { modules },
            false => InitramfsRef::Path(folder.join(text)),
        })
    })
}

/// The VM, if everything it must have is there.
fn finish(draft: Draft, cpus: Vec<u8>, report: &Report) -> Option<Vm> {
    let (kernel, memory) = (draft.kernel?, draft.memory?);
    let initramfs_mark = draft.initramfs.as_ref().map(|at| report.mark(&at.span));
    Some(Vm {
        name: draft.name?.value,
        marks: Marks {
            kernel: report.mark(&kernel.span),
            initramfs: initramfs_mark.unwrap_or_default(),
            memory: report.mark(&memory.span),
        },
        kernel: kernel.value,
        initramfs: draft.initramfs.map(|at| at.value),
        cmdline: draft.cmdline.map(|at| at.value).unwrap_or_default(),
        memory: memory.value,
        cpus,
    })
}

impl Description {
    /// What must be found before [`Self::build`], a VM each, in the description's order.
    pub fn artifacts(&self) -> Vec<Artifacts> {
        let of = |vm: &Vm| Artifacts {
            vm: vm.name.clone(),
            kernel: vm.kernel.clone(),
            initramfs: vm.initramfs.clone(),
        };
        self.vms.iter().map(of).collect()
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
