//! `hanok check`: finds everything that can be known of a description without booting it.
//!
//! Whatever `build` would refuse is refused here, because everything but writing the image is done.
//! Only steps that would need a download are left out, which is reported: whether a description is
//! valid does not depend on a network.

use std::path::Path;

use hanok_system::Description;

use super::find;
use hanok_artifacts::Store;
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::ui;
use hanok_base::ui::counted;
use hanok_boot::overrides::Overrides;
use hanok_boot::{board, key, system};

/// `hanok check`.
pub fn run(root: &Path, file: &Path, yes: bool) -> Outcome {
    let path = find(root, file);
    let system = system::load(root, &path, &Overrides::default())?;
    let store = Store::open(yes, false).blame(Code::Setup)?;
    let mut wanted = board::wanted_for_tree(&system);
    let tree = if store.missing(&wanted).is_empty() {
        board::tree(&store, &system)?
    } else {
        None
    };
    schedule(root, &path, &system)?;
    wanted.extend(system::wanted(&system.artifacts()));
    let missing = store.missing(&wanted);
    if missing.is_empty() {
        let resolved = system::resolve_of(root, &store, &system)?;
        // The image is thrown away, so that its key does not matter.
        system::build(root, &system, &resolved, tree.as_deref(), &key::NONE)?;
    } else {
        system::check_present(root, &store, &system)?;
    }
    system::print_notes(&system);
    system::print_found(&system);
    let vms = counted(system.vms.len() as u64, "VM");
    let (name, board) = (file.display(), &system.board.name);
    if missing.is_empty() {
        ui::line(format_args!("{name}: sound ({vms} on board {board})"));
    } else {
        let missing = missing.join(", ");
        ui::line(format_args!(
            "{name}: sound so far ({vms} on board {board}); not looked into, as it is not \
             downloaded: {missing} (`hanok build` downloads it)"
        ));
    }
    Ok(Code::Success)
}

/// Refuses a schedule that cannot be analysed, and reports one whose deadlines are not proven.
fn schedule(root: &Path, file: &Path, system: &Description) -> Outcome<()> {
    // What is enforced was analysed, and has its notes.
    if !system.is_scheduled() || system.policies.is_some() {
        return Ok(());
    }
    let schedule = hanok_system::load_schedule(file, &system::boards_dir(root));
    let schedule = schedule.map_err(system::refused)?;
    let analysis = hanok_analysis::analyse(&schedule.model).map_err(|faults| {
        let texts: Vec<_> = faults.iter().map(ToString::to_string).collect();
        let texts = texts.join("\n");
        failure(
            Code::Refused,
            format!("{}: the schedule: {texts}", file.display()),
        )
    })?;
    if analysis.certificate().is_none() {
        eprintln!(
            "note: {}: not every deadline is shown to be kept: `hanok sched check` says which",
            file.display()
        );
    }
    Ok(())
}
