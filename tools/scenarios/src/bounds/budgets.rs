//! The same where budgets are enforced, in a deep tree of groups, and while a program reads reports of a board with
//! as many vCPUs and groups as a core may have.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use hanok_bench_runner::counting::Counting;
use hanok_console::script::ScriptStep;
use hanok_profile::report::Report;

use super::paths::{Found, REPORT, WISH};
use super::profile::{self, Course};
use super::{Board, PATIENCE, judged, read};
use hanok_base::repo;

/// How deep the groups are nested, and how many vCPUs the VM that is looked at has.
const DEEP: usize = 4;
const VCPUS: usize = 8;
/// VMs beside it, in groups of each depth.
const NEIGHBOURS: usize = 8;
/// A core's largest number of groups, and of vCPUs; a board with a GICv2 has 8 vCPUs a VM.
const GROUPS: usize = 32;
const MOST: usize = 64;
/// Instructions of any piece of a report, at least, and the fewest pieces: of each line its making, and some to send.
const PIECE: u64 = 700;
const PIECES: u64 = 200;
/// Time for all pieces, of which there are at most 10,000 in a second.
const SAYING: Duration = Duration::from_millis(500);
/// The fewest rows of each part.
const ROWS: [(&str, usize); 3] = [("budgets", 6), ("report", 1), ("wish", 1)];

/// Counts both parts, and judges them.
pub fn bounded(root: &Path, board: &Board) -> Result<String> {
    let counting = Counting::prepare(root, board.architecture)?;
    let (mut rows, mut longest) = (Vec::new(), Found::default());
    for (part, least) in ROWS {
        let name = board.name;
        let dir = repo::target_dir(root).join(format!("hanok/test/bounds-{part}-{name}"));
        fs::create_dir_all(&dir)?;
        let described = match part {
            "budgets" => nested(name),
            _ => wide(name),
        };
        let course = Course {
            until: Some("bounds: done"),
            steps: match part {
                "report" => asked("report 1"),
                "wish" => asked("change 0 0 10000000 60000 0"),
                _ => Vec::new(),
            },
            ..Course::default()
        };
        let report = profile::count(root, &counting, &dir, &described, course, PATIENCE);
        let report = report.map_err(|failure| failure.error)?;
        let console = fs::read(dir.join("vm.console"))?;
        let mut console = String::from_utf8_lossy(&console).into_owned();
        if part == "wish" {
            // The guest does the same in both parts.
            console = console.replace(REPORT, WISH);
        }
        let found = read(&report, &console, &mut longest)?;
        if part == "report" {
            said(&report)?;
        }
        ensure!(found.len() >= least, "{part}: {} rows alone", found.len());
        rows.extend(found);
    }
    judged(rows, &longest, board.machine)
}

/// Fails if the report was not said in the row: of each line its making is an interrupt, and so is each piece that is
/// sent.
fn said(report: &Report) -> Result<()> {
    let exits = report.stretches.iter().flat_map(|stretch| &stretch.cpus);
    let costs = exits
        .flat_map(|cpu| &cpu.exits)
        .flat_map(|exit| &exit.costs);
    let lines = costs.filter(|(cost, _)| *cost > PIECE);
    let lines: u64 = lines.map(|(_, times)| times).sum();
    ensure!(lines >= PIECES, "{lines} pieces of a report alone");
    Ok(())
}

fn header(board: &str) -> String {
    format!(
        "board = \"{board}\"\ncores = 1\nmemory = \"2G\"\n[schedule]\nenforce = true\nswitch = \"1us\"\n"
    )
}

/// Each of `vcpus` vCPUs is promised something, and may ask for more.
fn promised(group: Option<&str>, period: &str, budget: &str, vcpus: usize) -> String {
    let group = group.map_or(String::new(), |group| format!("group = \"{group}\"\n"));
    let mut text = format!(
        "[vm.schedule]\n{group}period = \"{period}\"\nbudget = \"{budget}\"\nask = \"5 %\"\n\
         ask-period = \"100us\"\n"
    );
    if vcpus > 1 {
        for vcpu in 0..vcpus {
            let _ = write!(
                text,
                "[[vm.schedule.task]]\nname = \"t{vcpu}\"\nperiod = \"1s\"\nexecution = \"1us\"\nvcpu = {vcpu}\n"
            );
        }
    }
    text
}

/// A VM whose vCPUs are in no group, as those of one with several must be, and others in groups of each depth that
/// sleep and wake.
fn nested(board: &str) -> String {
    let mut text = header(board);
    for depth in 0..DEEP {
        let around = match depth {
            0 => String::new(),
            _ => format!("group = \"g{}\"\n", depth - 1),
        };
        let budget = 500 - 20 * depth;
        let _ = write!(
            text,
            "[[schedule.group]]\nname = \"g{depth}\"\n{around}period = \"1ms\"\nbudget = \"{budget}us\"\n"
        );
    }
    let _ = write!(
        text,
        "[[vm]]\nname = \"bounds\"\nkernel = \"guest:conformance\"\nmemory = \"64M\"\n\
         cmdline = \"conformance.run=bounds conformance.host=hanok bounds.part=budgets\"\ncpus = {:?}\n",
        [0; VCPUS]
    );
    text += &promised(None, "1ms", "40us", VCPUS);
    for neighbour in 0..NEIGHBOURS {
        let _ = write!(
            text,
            "[[vm]]\nname = \"n{neighbour}\"\nkernel = \"guest:conformance\"\nmemory = \"20M\"\n\
             cmdline = \"conformance.run=wfi-storm conformance.host=hanok\"\ncpus = [0]\n"
        );
        let group = format!("g{}", neighbour % DEEP);
        text += &promised(Some(&group), "2ms", "20us", 1);
    }
    text
}

/// Groups side by side, and a VM that never boots with as many vCPUs as there is room for.
fn wide(board: &str) -> String {
    let mut text = header(board);
    for group in 0..GROUPS {
        let _ = write!(
            text,
            "[[schedule.group]]\nname = \"g{group}\"\nperiod = \"10ms\"\nbudget = \"200us\"\n"
        );
    }
    text += "[[vm]]\nname = \"bounds\"\nkernel = \"guest:conformance\"\nmemory = \"64M\"\n\
             cmdline = \"conformance.run=bounds conformance.host=hanok bounds.part=report\"\ncpus = [0, 0, 0, 0]\n";
    text += &promised(None, "10ms", "50us", 4);
    let most = if board.contains("gicv2") || board.contains("arm") {
        8
    } else {
        MOST - 4
    };
    let _ = write!(
        text,
        "[[vm]]\nname = \"never\"\nkernel = \"guest:conformance\"\nmemory = \"20M\"\nautostart = false\n\
         cpus = {:?}\n",
        vec![0; most]
    );
    text
}

/// A program at the other end of the line makes a request, which is answered in pieces; then comes the key that ends
/// the guest's wait.
fn asked(request: &str) -> Vec<ScriptStep> {
    let raw = |text: &str| ScriptStep::Raw(text.as_bytes().to_vec());
    vec![
        ScriptStep::Expect("bounds: waits".to_owned()),
        // The report channel, and then the console of the first VM (tools/console/src/demux.rs).
        raw(&format!("\x10\x3d{request}\n")),
        ScriptStep::Wait(SAYING),
        raw("\x10\x40x"),
    ]
}
