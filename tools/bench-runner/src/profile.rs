//! `hanok bench --profile`: shows where the instructions of one figure go.

use std::fs;
use std::path::Path;

use hanok_bench::{Figure, Side};
use hanok_profile::table::{self, By, Shown};

use super::boards::Boards;
use super::counting::{Counted, Counting, What};
use super::folders;
use super::job::{self, Ended, Prepared};
use super::markers::with_markers;
use super::materials::Materials;
use super::plan::{Job, Plan};
use crate::args::BenchArgs;
use hanok_artifacts::Store;
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
        operations: false,
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
        let bytes = fs::read(userland).blame(Code::Refused)?;
        let bytes = with_markers(bytes, plan.architecture);
        repo::write_whole(userland, &bytes).blame(Code::Refused)?;
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
        extensions: boards.plan.extensions,
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
        (None, What::Boot | What::Run | What::Operations) => By::Nothing,
    };
    Shown {
        by,
        rows: ROWS,
        lines: args.lines,
        tree: args.tree,
    }
}
