//! Boards: what `boards/NAME.toml` says.

use crate::backend::{A_BACKEND, Architecture, Backend};
use crate::diagnostic::{Diagnostic, Report, Words, nearest, read};
use crate::size;
use crate::source::DtbRef;
use crate::table::{self, At, Reader};
use hanok_config::SerialKind;
use hanok_types::{GICV2_CPUS, GicVersion, MAX_CPUS};
use std::path::Path;

/// A default and the range it may be changed in, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The value where the description gives none.
    pub default: u64,
    /// The smallest allowed value.
    pub min: u64,
    /// The largest allowed value.
    pub max: u64,
}

impl Limits {
    /// Whether `value` may be chosen.
    pub fn allow(&self, value: u64) -> bool {
        (self.min..=self.max).contains(&value)
    }
}

/// The number of cores that a board has, and the largest it may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores {
    pub(crate) count: u64,
    pub(crate) most: u64,
}

impl Cores {
    /// The remedy where there are too few cores: `remedy`, and that the board may have more, if it
    /// may.
    pub(crate) fn or_more(self, remedy: &str) -> String {
        if self.count < self.most {
            format!("{remedy}, or raise `cores`, up to {}", self.most)
        } else {
            format!("{remedy}; the board has no more cores")
        }
    }
}

/// How QEMU emulates a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// The program's name, which is looked for in PATH.
    pub binary: String,
    /// The machine, as in the argument of `-M`.
    pub machine: String,
    /// Further arguments.
    pub args: Vec<String>,
    /// The board's tree, where QEMU makes none.
    pub dtb: Option<DtbRef>,
    /// Whether that tree gets as many CPUs as the board has cores, whatever its own number is.
    pub dtb_cpus: bool,
    /// The names of the board's second serial port in its tree: a node's name, path or alias. QEMU connects it
    /// to something where a VM has it; a board whose tree QEMU makes has it only then.
    pub second_serial: Vec<String>,
    /// The address of the first of its 32 virtio-mmio transports, if it has any.
    pub virtio_mmio: Option<u64>,
    /// The name, in the board's tree, of the controller of its slot for an SD card, if it has one that QEMU puts a card into.
    pub sd_card: Option<String>,
    /// QEMU's name of its PCIe bus, on which a description may have devices.
    pub pcie: Option<String>,
    /// Whether the hypervisor can switch the board off. Otherwise QEMU runs until it is ended.
    pub poweroff: bool,
}

/// A board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Board {
    /// The board's name, which is that of its file.
    pub name: String,
    /// A description in one line.
    pub description: String,
    /// The CPU backend that makes the most of its CPUs. A description may ask for another one:
    /// [`Description::backend`](crate::Description::backend).
    pub backend: Backend,
    /// The CPU model where the description names none.
    pub cpu: String,
    /// The CPU models that it may have.
    pub cpus: Vec<String>,
    /// The number of cores.
    pub cores: Limits,
    /// The memory in bytes.
    pub memory: Limits,
    /// The memory in bytes that its firmware leaves to others; `None` if it leaves all.
    pub usable: Option<u64>,
    /// The address at which its RAM begins.
    pub ram: u64,
    /// The address of the serial port that the hypervisor writes to before it has read the board's tree.
    pub console: u64,
    /// The kind of that port.
    pub serial: SerialKind,
    /// The version of its interrupt controller.
    pub gic: GicVersion,
    /// How QEMU emulates it.
    pub qemu: Qemu,
}

/// Every board of `boards_dir`, by name. The error has all faults of their files.
pub fn boards(boards_dir: &Path) -> Result<Vec<Board>, Vec<Diagnostic>> {
    let names = names(boards_dir).map_err(|diagnostic| vec![diagnostic])?;
    let mut boards = Vec::new();
    let mut found = Vec::new();
    for name in names {
        match load(boards_dir, &name) {
            Ok(board) => boards.push(board),
            Err(more) => found.extend(more),
        }
    }
    if found.is_empty() {
        Ok(boards)
    } else {
        Err(found)
    }
}

/// The names of the boards in `boards_dir`, sorted.
fn names(boards_dir: &Path) -> Result<Vec<String>, Diagnostic> {
    let refuse = |error: std::io::Error| {
        let remedy = "give the folder that holds a NAME.toml for each board";
        let words = Words::new(
            "the boards' folder cannot be read",
            error.to_string(),
            remedy,
        );
        Diagnostic::of_file(boards_dir, words)
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(boards_dir).map_err(refuse)? {
        let path = entry.map_err(refuse)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            names.extend(
                path.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            );
        }
    }
    names.sort();
    Ok(names)
}

/// The board that a description names at `name`. A wrong name is noted in the description's
/// `report`; faults of the board's file are the result.
pub(crate) fn find(
    boards_dir: &Path,
    name: &At<String>,
    report: &mut Report,
) -> Result<Option<Board>, Vec<Diagnostic>> {
    let names = names(boards_dir).map_err(|diagnostic| vec![diagnostic])?;
    if names.contains(&name.value) {
        return load(boards_dir, &name.value).map(Some);
    }
    let what = format!("unknown board \"{}\"", name.value);
    let why = format!("the boards are {}", names.join(", "));
    let remedy = match nearest(&name.value, names.iter().map(String::as_str)) {
        Some(known) => format!("did you mean \"{known}\"?"),
        None => "name one of them, or add a file of this name to the boards".to_owned(),
    };
    report.refuse(&name.span, Words::new(what, why, remedy));
    Ok(None)
}

fn load(boards_dir: &Path, name: &str) -> Result<Board, Vec<Diagnostic>> {
    let path = boards_dir.join(format!("{name}.toml"));
    let text = read(&path).map_err(|diagnostic| vec![diagnostic])?;
    Board::parse(name, &path, &text)
}

impl Board {
    /// The architecture of the board's own guests.
    pub fn architecture(&self) -> Architecture {
        self.backend.architecture()
    }

    /// The part of `memory` bytes that a system can use.
    pub fn usable(&self, memory: u64) -> u64 {
        self.usable.map_or(memory, |usable| usable.min(memory))
    }

    /// The remedy where `memory` is too little: `remedy`, and that the board may have more, if it
    /// may.
    pub(crate) fn or_more_memory(&self, memory: u64, remedy: &str) -> String {
        let most = self.memory.max;
        if self.usable(memory) < self.usable(most) {
            format!(
                "{remedy}, or raise the board's `memory`, up to {}",
                size::show(most)
            )
        } else {
            format!("{remedy}; the board has no more memory")
        }
    }

    /// The board `name` from a `text` that is reported as the content of `path`. The error has all
    /// faults.
    pub fn parse(name: &str, path: &Path, text: &str) -> Result<Self, Vec<Diagnostic>> {
        let mut report = Report::new(path, text);
        let board = table::document(text, &mut report, |reader, report| {
            board(name, reader, report)
        });
        match board {
            Some(board) if report.found.is_empty() => Ok(board),
            _ => Err(report.found),
        }
    }
}

fn board(name: &str, reader: &mut Reader<'_, '_>, report: &mut Report) -> Option<Board> {
    let description = reader.require(report, "description", "one line of text", table::word);
    let backend = reader.require(report, "backend", A_BACKEND, Backend::of_value);
    let an_address = "an address such as 0x4000_0000";
    let ram = reader.require(report, "ram", an_address, table::number);
    let console = reader.require(report, "console", an_address, table::number);
    let serial = reader.get(
        report,
        "serial",
        "\"pl011\" or \"16550\"",
        |value| match table::word(value)?.as_str() {
            "pl011" => Some(SerialKind::Pl011),
            "16550" => Some(SerialKind::Ns16550),
            _ => None,
        },
    );
    let gic = reader.require(
        report,
        "gic",
        "\"v2\" or \"v3\"",
        |value| match table::word(value)?.as_str() {
            "v2" => Some(GicVersion::V2),
            "v3" => Some(GicVersion::V3),
            _ => None,
        },
    );
    let cpu = reader.table(report, "cpu", cpu);
    let cores = reader.table(report, "cores", |reader, report| {
        let limits = limits(reader, report, "a number from 1", |value| {
            table::number(value).filter(|cores| *cores > 0)
        })?;
        if let Some(gic) = &gic {
            most_cores(reader, report, gic.value, limits);
        }
        Some(limits)
    });
    let memory = reader.table(report, "memory", |reader, report| {
        let usable = reader.get(report, "usable", table::A_SIZE, table::size);
        let limits = limits(reader, report, table::A_SIZE, table::size)?;
        Some((limits, usable.map(|at| at.value)))
    });
    let qemu = reader.table(report, "qemu", qemu);
    let (cpu, cpus) = cpu??;
    let (memory, usable) = memory??;
    Some(Board {
        name: name.to_owned(),
        description: description?.value,
        backend: backend?.value,
        cpu,
        cpus,
        cores: cores??,
        memory,
        usable,
        ram: ram?.value,
        console: console?.value,
        serial: serial.map(|at| at.value).unwrap_or_default(),
        gic: gic?.value,
        qemu: qemu??,
    })
}

/// Refuses more cores than the hypervisor uses, or the board's interrupt controller reaches.
fn most_cores(reader: &Reader<'_, '_>, report: &mut Report, gic: GicVersion, cores: Limits) {
    let (most, why) = match gic {
        GicVersion::V2 => (GICV2_CPUS, "a GICv2 reaches no more"),
        GicVersion::V3 => (MAX_CPUS, "the hypervisor uses no more"),
    };
    if cores.max > most as u64 {
        let what = format!("more than {most} cores");
        let words = Words::new(what, why, format!("lower `max` of `cores` to {most}"));
        report.refuse(&reader.span.clone(), words);
    }
}

fn cpu(reader: &mut Reader<'_, '_>, report: &mut Report) -> Option<(String, Vec<String>)> {
    let default = reader.require(report, "default", "a CPU model", table::word);
    let models = reader.require(report, "models", "a list of CPU models", |value| {
        table::list(value, table::word)
    });
    let (default, models) = (default?, models?.value);
    if !models.contains(&default.value) {
        let what = format!(
            "the default CPU \"{}\" is none of the models",
            default.value
        );
        let words = Words::new(what, "", "add it to `models`, or choose another default");
        report.refuse(&default.span, words);
    }
    Some((default.value, models))
}

fn limits(
    reader: &mut Reader<'_, '_>,
    report: &mut Report,
    expected: &str,
    form: fn(&toml::de::DeValue<'_>) -> Option<u64>,
) -> Option<Limits> {
    let span = reader.span.clone();
    let [default, min, max] =
        ["default", "min", "max"].map(|key| reader.require(report, key, expected, form));
    let limits = Limits {
        default: default?.value,
        min: min?.value,
        max: max?.value,
    };
    if !limits.allow(limits.default) {
        let words = Words::new(
            "the default does not lie between min and max",
            "",
            "mend one of the three",
        );
        report.refuse(&span, words);
    }
    Some(limits)
}

fn qemu(reader: &mut Reader<'_, '_>, report: &mut Report) -> Option<Qemu> {
    let binary = reader.require(report, "binary", "a program's name", table::word);
    let machine = reader.require(report, "machine", "a machine as after -M", table::word);
    let args = reader.get(report, "args", "a list of strings", |value| {
        table::list(value, table::text)
    });
    let folder = report.path.parent().unwrap_or(Path::new("")).to_path_buf();
    let tree = "\"debian:6.1:FOLDER/NAME.dtb\" or a path";
    let dtb = reader.get(report, "dtb", tree, table::word);
    let dtb = dtb.and_then(|dtb| dtb.judged(report, |text| DtbRef::parse(&text, &folder)));
    let cpus = reader.get(report, "dtb-cpus", "true or false", table::truth);
    let serial = reader.get(report, "second-serial", "a list of names", |value| {
        table::list(value, table::word)
    });
    let virtio_mmio = reader.get(report, "virtio-mmio", "an address", table::number);
    let sd_card = reader.get(report, "sd-card", "a device's name", table::word);
    let pcie = reader.get(report, "pcie", "QEMU's name of a bus", table::word);
    let poweroff = reader.get(report, "poweroff", "true or false", table::truth);
    Some(Qemu {
        binary: binary?.value,
        machine: machine?.value,
        args: args.map(|at| at.value).unwrap_or_default(),
        dtb: dtb.map(|at| at.value),
        dtb_cpus: cpus.is_some_and(|at| at.value),
        second_serial: serial.map(|at| at.value).unwrap_or_default(),
        virtio_mmio: virtio_mmio.map(|at| at.value),
        sd_card: sd_card.map(|at| at.value),
        pcie: pcie.map(|at| at.value),
        poweroff: poweroff.is_none_or(|at| at.value),
    })
}
