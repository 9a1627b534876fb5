//! `hanok bench`: native, Hanok, Xen and KVM side by side on the same emulated machine.
//!
//! Every side boots the same guest, with time as a count of instructions and every seed fixed. So
//! figures are the same on any PC, and two runs of one side are identical to the last bit. Two
//! boards run at the same time, which virtual time is not affected by. A side that fails is
//! reported with its console's end, and the others go on.
//!
//! [`hanok_bench`] defines the figures, judges and shows them; this crate measures them.

#![forbid(unsafe_code)]

mod apart;
pub mod args;
mod boards;
pub mod counting;
mod devices;
mod folders;
mod gdb;
mod history;
mod job;
mod markers;
mod materials;
mod operations;
mod plan;
mod profile;
mod progress;
mod report;
mod rows;
mod scaling;
mod schedulers;
mod xen;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use hanok_bench::Style;

use crate::args::BenchArgs;
use boards::Boards;
use counting::Counting;
use folders::{fresh, sockets, work_dir};
use hanok_artifacts::Store;
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::ui;
use job::{Ended, Given, Prepared};
use materials::Materials;
pub use materials::{fetch, wanted};
use plan::Plan;
pub use plan::sides_on;
use progress::Progress;
use report::Done;

/// How many boards run at the same time.
const BESIDE: usize = 2;

/// `hanok bench`.
pub fn run(root: &Path, args: &BenchArgs, yes: bool) -> Outcome {
    if let Some(figure) = args.profile {
        return profile::run(root, args, figure, yes);
    }
    if args.scaling {
        return scaling::run(root, args, yes);
    }
    if args.schedulers {
        return schedulers::run(root, args, yes);
    }
    if args.devices {
        return devices::run(root, args, yes);
    }
    if let Some(dir) = &args.show {
        return history::show(root, dir, args, style());
    }
    let plan = Plan::of(args)?;
    plan.check(root)?;
    let mut results = report::started(root);
    history::check(root, args, &plan, &results)?;
    output_is_ours(&args.output)?;
    let store = Store::open(yes, false).blame(Code::Setup)?;
    let dir = work_dir(root).blame(Code::Output)?;
    let materials = Materials::gather(root, &store, &plan, dir.path())?;
    let counting = plan.counts();
    let counting = counting.then(|| Counting::prepare(root, plan.architecture));
    let boards = Boards {
        root,
        store: &store,
        plan: &plan,
        materials: &materials,
        counting: counting.transpose().blame(Code::Refused)?,
        images: report::images(root, &plan, &materials).blame(Code::Refused)?,
        dir: dir.path(),
    };
    let consoles = args.output.join(report::CONSOLES);
    // These results mark the folder as ours from now on.
    report::write_so_far(&mut results, &boards, &[], &args.output)?;
    fresh(&consoles).blame(Code::Output)?;
    let interrupted = AtomicBool::new(false);
    let done = boot_all(&boards, &consoles, &interrupted, |done| {
        // A failure to write is reported at the end.
        let _ = report::write_so_far(&mut results, &boards, done, &args.output);
    })?;
    report::write_so_far(&mut results, &boards, &done, &args.output)?;
    if interrupted.into_inner() {
        eprintln!(
            "hanok: interrupted; what was measured is in {}",
            args.output.display()
        );
        return Ok(Code::Interrupted);
    }
    history::finish(root, &results, &args.output, args, style())
}

/// Refuses to write to a folder with other files in it, because consoles of a former bench are
/// removed.
fn output_is_ours(dir: &Path) -> Outcome<()> {
    let mut entries = fs::read_dir(dir).into_iter().flatten();
    if entries.next().is_none() || dir.join(report::RESULTS).is_file() {
        return Ok(());
    }
    let text = format!(
        "--output names {}, which holds something else than a bench's results\n  \
         why: files in it would be overwritten and removed\n  fix: name a new folder",
        dir.display()
    );
    Err(failure(Code::Usage, text))
}

/// Boots every board of the plan, [`BESIDE`] of them at a time; in the plan's order. `progress`
/// gets all that is done whenever that is more.
fn boot_all(
    boards: &Boards,
    consoles: &Path,
    interrupted: &AtomicBool,
    mut progress: impl FnMut(&[Done]),
) -> Outcome<Vec<Done>> {
    let jobs = boards.plan.jobs();
    let sockets = sockets().blame(Code::Output)?;
    let (mut done, mut waiting) = (Vec::new(), Vec::new());
    for (at, job) in jobs.iter().enumerate() {
        let socket = sockets.path().join(at.to_string());
        match boards.board(job, &socket) {
            Ok(mut ready) => waiting.push(Prepared {
                job: *job,
                report: job
                    .counts()
                    .and_then(|what| boards.count(job, &mut ready, what)),
                ready,
                socket,
                extensions: boards.plan.extensions,
                figures: boards.plan.of_boot(job.load, job.side),
            }),
            Err(failure) => done.push((*job, Err(format!("{:#}", failure.error)))),
        }
    }
    eprintln!("{} boots, {BESIDE} side by side ...", jobs.len());
    waiting.reverse();
    let waiting = Mutex::new(waiting);
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        for _ in 0..BESIDE {
            let (tell, waiting) = (tell.clone(), &waiting);
            scope.spawn(move || work(waiting, &tell, consoles, interrupted));
        }
        drop(tell);
        for one in told {
            done.push(one);
            progress(&done);
        }
    });
    done.sort_by_key(|(job, _)| jobs.iter().position(|other| other == job));
    Ok(done)
}

fn work(
    waiting: &Mutex<Vec<Prepared>>,
    tell: &Sender<Done>,
    consoles: &Path,
    interrupted: &AtomicBool,
) {
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
    while !interrupted.load(Ordering::Relaxed)
        && let Some(prepared) = next()
    {
        let job = prepared.job;
        eprintln!("{} ...", job.name());
        let progress = Progress::of(&job, consoles);
        let ended = job::run(prepared, consoles);
        drop(progress);
        let given = match ended {
            Ok(Ended::Interrupted) => {
                // The user wants all of it to end, not only this board.
                interrupted.store(true, Ordering::Relaxed);
                return;
            }
            Ok(Ended::Given(given)) => Ok(given),
            Err(error) => Err(format!("{error:#}")),
        };
        eprintln!("{}: {}", job.name(), told(&given));
        let _ = tell.send((job, given));
    }
}

fn told(given: &Result<Given, String>) -> String {
    match given {
        Ok(given) if given.lacking.is_empty() => ui::green("measured"),
        Ok(given) => format!("{}: {}", ui::red("lacks"), given.lacking.join("; ")),
        Err(why) => format!("{}: {why}", ui::red("failed")),
    }
}

/// As wide as the terminal, coloured where that is allowed.
fn style() -> Style {
    let width = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    Style {
        width: width.map(|size| size.ws_col).filter(|columns| *columns > 0),
        colour: width.is_some() && ui::colour(),
    }
}
