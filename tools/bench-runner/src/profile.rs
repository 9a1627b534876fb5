//! `hanok bench --profile`: shows where the instructions of one figure go.

use std::fs;
use std::path::Path;

use anyhow::Result;
use hanok_bench::{Figure, Side};
use hanok_profile::code::{A32, A64, Instructions};
use hanok_profile::table::{self, By, Shown};
use hanok_system::Architecture;

use super::boards::Boards;
use super::counting::{Counted, Counting, What};
use super::folders;
use super::job::{self, Ended, Prepared};
use super::materials::Materials;
use super::plan::{Job, Plan};
use crate::args::BenchArgs;
use hanok_artifacts::Store;
use hanok_artifacts::initramfs;
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::repo;
use hanok_base::ui::{self, LongStep};

/// The largest number of rows of a table.
const ROWS: usize = 40;

/// `hanok bench --profile FIGURE`.
pub fn run(root: &Path, args: &BenchArgs, figure: &'static Figure, yes: bool) -> Outcome {
    let plan = Plan {
        sides: vec![Side::Hanok],
        figures: vec![figure],
        rounds: 1,
        ..Plan::of(args)?
    };
    let jobs = plan.jobs();
    if jobs.is_empty() {
        let why = format!("{}: nothing is executed for this figure", figure.id);
        return Err(failure(Code::Usage, why));
    }
    plan.check(root)?;
    let store = Store::open(yes, false).blame(Code::Setup)?;
    let dir = repo::target_dir(root).join("hanok/profile");
    folders::fresh(&dir).blame(Code::Refused)?;
    let materials = Materials::gather(root, &store, &plan, &dir)?;
    if let (What::Stretches, Some(userland)) = (what(figure), &materials.userland) {
        add_markers(userland, plan.architecture).blame(Code::Refused)?;
    }
    let boards = Boards {
        root,
        store: &store,
        plan: &plan,
        materials: &materials,
        counting: Some(Counting::prepare(root, plan.architecture).blame(Code::Refused)?),
        images: Vec::new(),
        dir: &dir,
    };
    for job in jobs {
        one(&boards, job, figure, args)?;
    }
    Ok(Code::Success)
}

/// What is counted for a figure.
fn what(figure: &Figure) -> What {
    match figure.id {
        "boot" => What::Boot,
        _ => What::Stretches,
    }
}

/// Runs one board, and shows what was counted.
fn one(boards: &Boards, job: Job, figure: &'static Figure, args: &BenchArgs) -> Outcome<()> {
    let name = job.name();
    let sockets = folders::sockets().blame(Code::Output)?;
    let socket = sockets.path().join("gdb");
    let mut ready = boards.board(&job, &socket)?;
    let report = boards.count(&job, &mut ready, what(figure));
    let prepared = Prepared {
        job,
        ready,
        socket,
        figures: vec![figure],
        report,
    };
    let step = LongStep::new(format!("Running {name}"));
    let ended = job::run(prepared, boards.dir).blame(Code::TestsFailed)?;
    let Ended::Given(given) = ended else {
        return Err(failure(Code::Interrupted, "interrupted by a signal"));
    };
    step.done();
    if !given.lacking.is_empty() {
        return Err(failure(Code::TestsFailed, given.lacking.join("; ")));
    }
    let Some(counting) = &boards.counting else {
        return Ok(());
    };
    for counted in &given.counted {
        let value = given.values.iter().find(|(id, _)| *id == counted.figure);
        let (title, unit) = (figure.title, figure.unit.name());
        let machine = format!("{} with {}", boards.plan.cpu, job.gic.title());
        if let Some((_, value)) = value {
            ui::line(format_args!("{title} on {machine}: {value} {unit}"));
        }
        if let Some(least) = counted.a_round() {
            ui::line(format_args!("The hypervisor's own: {least:.1} a round\n"));
        }
        let profile = counting.profile(&counted.stretches);
        let shown = shown(counted, figure, args);
        let text = table::text(&profile.blame(Code::Refused)?, &shown);
        ui::line(format_args!("{text}"));
    }
    Ok(())
}

fn shown(counted: &Counted, figure: &Figure, args: &BenchArgs) -> Shown {
    let by = match (counted.all_rounds(), what(figure)) {
        (Some(rounds), _) => By::Rounds(rounds),
        (None, What::Stretches) => By::Exits,
        (None, What::Boot | What::Run) => By::Nothing,
    };
    Shown {
        by,
        rows: ROWS,
        lines: args.lines,
        tree: args.tree,
    }
}

/// Programs that execute a marker and end, for the script in Linux to run around a row.
fn add_markers(userland: &Path, architecture: Architecture) -> Result<()> {
    let program = |marker: fn(&Instructions) -> u32| match architecture {
        Architecture::Arm64 => program_64(marker(&A64)),
        Architecture::Arm => program_32(marker(&A32)),
    };
    let markers = [
        ("bench/mark-begin".to_owned(), program(|set| set.begin)),
        ("bench/mark-end".to_owned(), program(|set| set.end)),
    ];
    let mut bytes = fs::read(userland)?;
    bytes.extend(initramfs::archive_of(&markers));
    repo::write_whole(userland, &bytes)
}

/// A static 32-bit ELF file of four instructions: `marker`, then exit(0).
fn program_32(marker: u32) -> Vec<u8> {
    const HEADERS: u32 = 52 + 32;
    const PLACE: u32 = 0x1_0000;
    // mov r0, #0; mov r7, #1; svc #0
    let code = [marker, 0xe3a0_0000, 0xe3a0_7001, 0xef00_0000];
    let size = HEADERS + 4 * code.len() as u32;
    // ET_EXEC for EM_ARM, version, entry, program headers, no section headers.
    let first = [40 << 16 | 2, 1, PLACE + HEADERS, 52, 0];
    // EABI version 5; sizes of headers; one program header; no section headers.
    let second = [0x0500_0000, 32 << 16 | 52, 1, 0];
    // PT_LOAD, readable and executable: the whole file.
    let segment = [1, 0, PLACE, PLACE, size, size, 5, 4096];
    let mut file = b"\x7fELF\x01\x01\x01".to_vec();
    file.resize(16, 0);
    let words = [&first[..], &second, &segment, &code].concat();
    file.extend(words.into_iter().flat_map(u32::to_le_bytes));
    file
}

/// A static 64-bit ELF file of four instructions: `marker`, then exit(0).
fn program_64(marker: u32) -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    const PLACE: u64 = 0x40_0000;
    // mov x0, #0; mov x8, #93; svc #0
    let code = [marker, 0xd280_0000, 0xd280_0ba8, 0xd400_0001];
    let size = HEADERS + 4 * code.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let longs = |file: &mut Vec<u8>, values: &[u64]| {
        values
            .iter()
            .for_each(|value| file.extend(value.to_le_bytes()));
    };
    // ET_EXEC for EM_AARCH64; entry, program headers, no section headers.
    longs(
        &mut file,
        &[1 << 32 | 183 << 16 | 2, PLACE + HEADERS, 64, 0],
    );
    // No flags; sizes of headers; one program header.
    longs(&mut file, &[56 << 48 | 64 << 32, 1]);
    // PT_LOAD, readable and executable: the whole file.
    longs(&mut file, &[5 << 32 | 1, 0, PLACE, PLACE, size, size, 4096]);
    file.extend(code.into_iter().flat_map(u32::to_le_bytes));
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_programs_are_elf_files() {
        use object::{Object, ObjectSegment};
        for (bytes, marker, architecture) in [
            (program_64(A64.end), A64.end, object::Architecture::Aarch64),
            (program_32(A32.end), A32.end, object::Architecture::Arm),
        ] {
            let file = object::File::parse(&*bytes).unwrap();
            assert_eq!(file.architecture(), architecture);
            let segment = file.segments().next().unwrap();
            let offset = (file.entry() - segment.address()) as usize;
            let code = &segment.data().unwrap()[offset..];
            assert_eq!(code[..4], marker.to_le_bytes());
            assert_eq!(code.len(), 16);
        }
    }
}
