//! `hanok sched paths`: the hypervisor's longest paths, and in `hanok sched check` what follows from them.

use std::path::Path;

use hanok_paths::latency::{self, Latency};
use hanok_paths::{List, table as paths};

use super::table::aligned;
use crate::args::SchedPathsArgs;
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::ui;
use hanok_boot::overrides::Overrides;
use hanok_boot::system;

/// `hanok sched paths`.
pub fn run(args: &SchedPathsArgs) -> Outcome {
    let list = List::own().blame(Code::Refused)?;
    let lines = if args.markdown {
        paths::markdown(&list)
    } else {
        aligned(&paths::rows(&list))
    };
    for line in lines {
        ui::line(format_args!("{line}"));
    }
    Ok(Code::Success)
}

/// How late interrupts of the vCPUs with promises can be, where the board enforces these and can boot the
/// description; nothing where it cannot.
pub fn latencies(root: &Path, file: &Path, speed: u64) -> Outcome<Vec<Latency>> {
    let Ok(system) = system::load(root, file, &Overrides::default()) else {
        return Ok(Vec::new());
    };
    let list = List::own().blame(Code::Refused)?;
    latency::of(&list, &system, speed).blame(Code::Refused)
}

/// The table of the latencies behind an empty line, in instructions and in time.
pub fn lines(latencies: &[Latency], speed: u64) -> Vec<String> {
    if latencies.is_empty() {
        return Vec::new();
    }
    let heading = [
        "interrupt of",
        "core",
        "at most",
        "instructions",
        "masked",
        "own",
        "wakes",
        "lives",
        "devices",
        "ahead",
        "budget",
        "a person more",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let mut unbounded = Vec::new();
    for Latency { name, core, bound } in latencies {
        match bound {
            Ok(bound) => {
                let total = bound.total();
                let nanos = latency::nanos(total, speed);
                let mut row = vec![name.clone(), core.to_string(), micros(nanos)];
                let parts = [
                    total,
                    bound.blocked,
                    bound.own,
                    bound.wakes,
                    bound.lives,
                    bound.devices,
                    bound.ahead,
                    bound.budget,
                    bound.person,
                ];
                row.extend(parts.map(|part| part.to_string()));
                rows.push(row);
            }
            Err(why) => unbounded.push(format!("{name}: no bound of its interrupts: {why}")),
        }
    }
    let table = match rows.len() {
        1 => Vec::new(),
        _ => aligned(&rows),
    };
    std::iter::once(String::new())
        .chain(table)
        .chain(unbounded)
        .collect()
}

/// Microseconds with a tenth, rounded up.
fn micros(nanos: u64) -> String {
    let tenths = nanos.div_ceil(100);
    format!("{}.{}us", tenths / 10, tenths % 10)
}
