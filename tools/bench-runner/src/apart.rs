//! What the benches with a table of their own have in common: `--scaling`, `--schedulers` and `--devices`.

use std::path::Path;

use crate::args::BenchArgs;
use crate::boards::Boards;
use crate::counting::Counting;
use crate::folders::{fresh, work_dir};
use crate::materials::Materials;
use crate::plan::Plan;
use crate::{output_is_ours, report};
use hanok_artifacts::Store;
use hanok_base::exit::{Blame, Code, Outcome, failure};

/// Gathers all that `plan` needs, with the plugin where `counts` says so, and calls `measure` with the boards and an empty folder for
/// consoles. What it answers went wrong; `None` where a signal asked for the end.
pub fn run(
    root: &Path,
    args: &BenchArgs,
    yes: bool,
    (plan, counts): (&Plan, bool),
    measure: impl FnOnce(&Boards, &Path) -> Outcome<Option<Vec<String>>>,
) -> Outcome {
    run_all(root, args, yes, (&[plan], counts), |boards, consoles| {
        measure(&boards[0], consoles)
    })
}

/// As [`run`], with the boards of several plans, of which there is one at least.
pub fn run_all(
    root: &Path,
    args: &BenchArgs,
    yes: bool,
    (plans, counts): (&[&Plan], bool),
    measure: impl FnOnce(&[Boards], &Path) -> Outcome<Option<Vec<String>>>,
) -> Outcome {
    plans.iter().try_for_each(|plan| plan.check(root))?;
    output_is_ours(&args.output)?;
    let store = Store::open(yes, false).blame(Code::Setup)?;
    let dir = work_dir(root).blame(Code::Output)?;
    let gather = |plan: &&Plan| {
        let mut materials = Materials::gather(root, &store, plan, dir.path())?;
        if let Some(other) = &args.xen {
            materials.xen = Some(other.clone());
        }
        Ok(materials)
    };
    let materials: Vec<_> = plans.iter().map(gather).collect::<Outcome<_>>()?;
    let both = plans.iter().zip(&materials);
    let boards: Vec<_> = both
        .map(|(plan, materials)| {
            let counting = counts.then(|| Counting::prepare(root, plan.architecture));
            Ok(Boards {
                root,
                store: &store,
                plan,
                materials,
                counting: counting.transpose().blame(Code::Refused)?,
                images: Vec::new(),
                dir: dir.path(),
            })
        })
        .collect::<Outcome<_>>()?;
    let consoles = args.output.join(report::CONSOLES);
    // These results mark the folder as ours from now on.
    report::write_so_far(&mut report::started(root), &boards[0], &[], &args.output)?;
    fresh(&consoles).blame(Code::Output)?;
    match measure(&boards, &consoles)? {
        None => Ok(Code::Interrupted),
        Some(failed) if failed.is_empty() => Ok(Code::Success),
        Some(failed) => Err(failure(Code::TestsFailed, failed.join("\n"))),
    }
}
