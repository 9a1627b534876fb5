//! Reads descriptions of systems and of schedules. All faults of one are told at once, in the order
//! of its lines.

use crate::backend::{A_BACKEND, Backend};
use crate::board::{self, Cores};
use crate::channels::{self, ChannelDraft};
use crate::consoles::{self, ConsoleDraft};
use crate::description::Description;
use crate::diagnostic::{Diagnostic, Report, Words, read};
use crate::directories::{self, DirectoryDraft};
use crate::disks::{self, DiskDraft};
use crate::draft::Draft;
use crate::networks::{self, NetworkDraft};
use crate::pcie::{self, PcieDraft};
use crate::schedule::draft::Whole;
use crate::schedule::{self, Schedule, carts, enforce};
use crate::screen_members;
use crate::screens::ScreenDraft;
use crate::table::{self, Reader};
use crate::transports::Transports;
use crate::{backend_rules, cores, image_rules, links, rules, trace, watchdog};
use hanok_types::{GICV2_CPUS, GicVersion, MAX_VCPUS};
use std::path::Path;

/// Reads and checks the description in `path`, whose board is looked for in `boards_dir`. The error
/// has all faults, in the order of its lines. Files that it names by path are read; names such as
/// `debian:...` or `busybox` are not resolved. [`crate::check_devices`] checks whether the board
/// has the devices that it names.
pub fn load(path: &Path, boards_dir: &Path) -> Result<Description, Vec<Diagnostic>> {
    let text = read(path).map_err(|diagnostic| vec![diagnostic])?;
    parse(path, &text, boards_dir)
}

/// As [`load`], from a `text` that is reported as the content of `path`.
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

/// Sorts the diagnostics by line; those about other files come last.
fn sort(report: &mut Report, path: &Path) {
    report
        .found
        .sort_by_key(|found| (found.file != path, found.line, found.column));
}

/// What a description is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// For a system that can run: it must have a VM.
    System,
    /// For its schedule, which must be there, and may have groups alone.
    Schedule,
}

fn system(
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
    let backend = reader.get(report, "backend", A_BACKEND, Backend::of_value);
    let cpu = reader.get(report, "cpu", "a CPU model", table::word);
    let cores = reader.get(report, "cores", "a number from 1", table::number);
    let memory = reader.get(report, "memory", table::A_SIZE, table::size);
    let slice = reader.get(report, "slice", table::A_TIME, table::time);
    let whole = reader.span.clone();
    let drafts: Option<Vec<Draft>> = reader.tables(report, "vm", Draft::read);
    let disks = reader.tables(report, "disk", DiskDraft::read);
    let networks = reader.tables(report, "network", NetworkDraft::read);
    let directories = reader.tables(report, "directory", DirectoryDraft::read);
    let consoles = reader.tables(report, "console", ConsoleDraft::read);
    let pcie = reader.tables(report, "pcie", PcieDraft::read);
    let screens = reader.tables(report, "screen", ScreenDraft::read);
    let mut channels: Vec<ChannelDraft> = reader
        .tables(report, "channel", ChannelDraft::read)
        .unwrap_or_default();
    let traced = reader.optional_table(report, "trace", trace::read);
    let schedule = reader.optional_table(report, "schedule", Whole::read);
    if let Some(drafts) = &drafts
        && (asked == Asked::System || !drafts.is_empty())
    {
        rules::count(report, &whole, drafts);
    }
    let (board, mut drafts) = (board?, drafts?);
    let mut transports = Transports::of(&board);
    let disks = disks::resolve(report, &mut transports, &disks.unwrap_or_default());
    let networks = networks::resolve(report, &mut transports, &networks.unwrap_or_default());
    let directories = directories.unwrap_or_default();
    let directories = directories::resolve(report, &mut transports, &directories);
    let consoles = consoles::resolve(report, &mut transports, &consoles.unwrap_or_default());
    let displays = (&board, &mut transports);
    let screens = screens.unwrap_or_default();
    let screens = screen_members::resolve(report, displays, &screens, &drafts);
    screen_members::add_inputs(&screens, &mut drafts);
    screen_members::add_displays(&mut drafts);
    channels.extend(screens.into_iter().map(ChannelDraft::of_screen));
    let mut description = Description {
        path: report.path.clone(),
        backend: backend_rules::used(report, &board, backend),
        cpu: rules::cpu(report, &board, cpu),
        cores: rules::cores(report, &board, cores),
        memory: rules::memory(report, &board, memory),
        slice: rules::slice(report, slice),
        vms: Vec::new(),
        disks,
        networks,
        directories,
        consoles,
        pcie: pcie::resolve(report, &board, &pcie.unwrap_or_default()),
        channels: Vec::new(),
        policies: None,
        promises: Vec::new(),
        groups: Vec::new(),
        switch_cost: 0,
        trace: traced.unwrap_or_default(),
        found: Vec::new(),
        schedule_notes: Vec::new(),
        board,
        terminal: None,
    };
    rules::names(report, &drafts);
    let traced = trace::memory(description.trace, description.cores);
    let board = (&description.board, description.memory, traced);
    rules::total(report, board, &drafts, &channels);
    channels::check(report, &channels, &drafts);
    rules::devices(report, &drafts);
    let there = Cores {
        count: description.cores,
        most: description.board.cores.max,
    };
    let vcpus = match description.board.gic {
        GicVersion::V2 => GICV2_CPUS,
        GicVersion::V3 => MAX_VCPUS,
    };
    let checked = cores::check(report, there, vcpus, &drafts);
    let model = schedule::build(report, schedule.as_ref(), &drafts, there);
    let known = model.as_ref().map(|schedule| &schedule.model);
    let switch_cost = known.map(|model| model.cost.per_period().get());
    enforce::refuse_without(report, schedule.as_ref(), &drafts);
    let enforced = match asked {
        Asked::System => enforce::enforced(report, schedule.as_ref(), &drafts, model.as_ref()),
        // Whether the schedule can be kept is the question.
        Asked::Schedule => None,
    };
    let board = &description.board;
    enforce::global::refuse_on(report, board, schedule.as_ref(), enforced.as_ref());
    let left = |draft: &Draft| enforce::is_wanted(schedule.as_ref()) && draft.schedule.is_some();
    let placed: Vec<_> = match &enforced {
        Some(enforced) => enforced.cores.clone(),
        None => drafts
            .iter()
            .map(|draft| left(draft).then(Vec::new))
            .collect(),
    };
    let moving = enforced.as_ref().map(enforce::Enforced::pool_cores);
    let moving = moving.unwrap_or_default();
    let placed = (&placed[..], &moving[..]);
    let cores = cores::assign(report, there, checked, placed, &drafts);
    if asked == Asked::Schedule && model.is_none() && report.found.is_empty() {
        report.refuse(&whole, no_schedule());
    }
    let shares = links::resolve(report, &drafts);
    for ((draft, cpus), shares) in drafts.into_iter().zip(cores).zip(shares) {
        let architecture =
            rules::files(report, boards_dir, &draft, description.board.architecture());
        rules::guest(report, boards_dir, &draft);
        image_rules::refuse_without_pages(report, &draft, architecture, &shares.back_ends);
        let (board, backend) = (&description.board, description.backend);
        backend_rules::rewrite(report, board, backend, &draft);
        backend_rules::deprivileged(report, board, backend, &draft);
        let in_pool = cpus.iter().any(|cpu| moving.contains(&u64::from(*cpu)));
        watchdog::refuse_without_use(report, draft.watchdog.as_ref(), &shares.back_ends, in_pool);
        let vm = draft.finish(cpus, architecture, shares, report);
        description.vms.extend(vm);
    }
    description.channels = channels::assign(channels, &mut description.vms);
    if let Some(enforced) = enforced {
        description.promises = enforced.promises;
        description.groups = enforced.groups;
        let cost = switch_cost.unwrap_or_default();
        description.switch_cost = u32::try_from(cost).unwrap_or(u32::MAX);
        description.policies = Some(enforced.policies);
        description.found = enforced.found;
        description.schedule_notes = enforced.notes;
    }
    Some((description, model))
}

/// The largest number of cores.
const MOST_CORES: u64 = 256;

/// The schedule of a description that names no board: it has as many cores as `cores` says, or as
/// its pools name. It cannot be built.
fn without_board(reader: &mut Reader<'_, '_>, report: &mut Report) -> Option<Schedule> {
    // Keys that only matter with a board are allowed.
    reader.get(report, "backend", A_BACKEND, Backend::of_value);
    reader.get(report, "cpu", "a CPU model", table::word);
    reader.get(report, "memory", table::A_SIZE, table::size);
    reader.get(report, "slice", table::A_TIME, table::time);
    let cores = reader.get(report, "cores", "a number from 1 to 256", |value| {
        table::number(value).filter(|cores| (1..=MOST_CORES).contains(cores))
    });
    let whole = reader.span.clone();
    let drafts: Vec<Draft> = reader.tables(report, "vm", Draft::read).unwrap_or_default();
    reader.tables(report, "channel", ChannelDraft::read);
    reader.optional_table(report, "trace", trace::read);
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

/// Reads the schedule of the description in `path`, whose board is looked for in `boards_dir`. The
/// error has all faults. A description without VMs is allowed if it has groups with tasks. One
/// without a board has as many cores as its `cores` says, or as its pools name. A file whose name
/// ends in `.xml` is read in the format of the tool CARTS (`carts.rs`).
pub fn load_schedule(path: &Path, boards_dir: &Path) -> Result<Schedule, Vec<Diagnostic>> {
    let text = read(path).map_err(|diagnostic| vec![diagnostic])?;
    if path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("xml"))
    {
        carts::parse(path, &text)
    } else {
        parse_schedule(path, &text, boards_dir)
    }
}

/// As [`load_schedule`], from a `text` that is reported as the content of `path`.
pub fn parse_schedule(
    path: &Path,
    text: &str,
    boards_dir: &Path,
) -> Result<Schedule, Vec<Diagnostic>> {
    let mut report = Report::new(path, text);
    let schedule = table::document(text, &mut report, |reader, report| {
        if reader.has("board") {
            let asked = Asked::Schedule;
            system(reader, report, boards_dir, asked)?.1
        } else {
            without_board(reader, report)
        }
    });
    sort(&mut report, path);
    match schedule {
        Some(schedule) if report.found.is_empty() => Ok(schedule),
        _ => Err(report.found),
    }
}
