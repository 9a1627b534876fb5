//! Counts what a migration takes: a vCPU of a global pool gives up the rest of its budget in each period, and when it has
//! the next one, runs on the other core, or on the same one again. Two other vCPUs never sleep. All of the hypervisor's
//! instructions on both cores are counted. Budgets and periods are the same in both cases, so that the difference is the
//! migration's own.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hanok_artifacts::cargo::Variant;
use hanok_bench_runner::counting::Counting;
use hanok_profile::report::Stretch;
use hanok_system::Architecture;

use crate::profile::{self, Course};
use crate::step::{Tally, TestStep};
use hanok_base::repo;

/// The steps, which are slow.
pub const SLOW_STEPS: &[TestStep] = &[
    TestStep {
        name: "pool-migration-gicv3",
        run: |root| Tally::told(counted(root, "qemu-virt")),
    },
    TestStep {
        name: "pool-migration-gicv2",
        run: |root| Tally::told(counted(root, "qemu-virt-gicv2")),
    },
];

/// The time limit, on a PC that does other work as well.
const PATIENCE: Duration = Duration::from_secs(300);
/// The row of guests/conformance in which a vCPU gives up its turns, and the call by which it does.
const ROW: &str = "budgets, turns given up";
const WAIT: u64 = 0xc600_0015;
/// The fewest rounds: the row lasts 40 periods of a millisecond.
const ROUNDS: u64 = 35;
/// The function that hands a vCPU over: each of its calls is one that moves.
const HAND_OVER: &str = "hand_over";
/// The most instructions that a migration may take.
const MOST: f64 = 2_400.0;

/// The vCPU that gives up its turns, and two that are busy.
const VMS: [&str; 3] = [
    "kernel = \"guest:conformance\"\n\
     cmdline = \"conformance.run=bounds conformance.host=hanok bounds.part=budgets\"\n\
     [vm.schedule]\nperiod = \"1ms\"\ndeadline = \"500us\"\nbudget = \"200us\"\n",
    "kernel = \"guest:bench\"\ncmdline = \"bench.role=spin\"\n\
     [vm.schedule]\nperiod = \"2ms\"\ndeadline = \"1500us\"\nbudget = \"1300us\"\n",
    "kernel = \"guest:bench\"\ncmdline = \"bench.role=spin\"\n\
     [vm.schedule]\nperiod = \"1ms\"\nbudget = \"1ms\"\n",
];
/// The orders of the description in which it moves, and does not. Periods begin a few instructions apart, in this order.
/// Where the first one's begin last, the others' deadlines are those of their new periods then: in every other one of its
/// periods the second one's is the latest, and in between the third one's, each on its own core. Where they begin first,
/// that is always the second one's, or its core has nothing to run.
const MOVES: [usize; 3] = [1, 2, 0];
const STAYS: [usize; 3] = [0, 1, 2];

/// What was counted in a run.
struct Counts {
    /// How often the vCPU gave up its turn, and how often a vCPU moved.
    rounds: u64,
    moves: u64,
    /// The hypervisor's instructions on both cores.
    instructions: u64,
}

impl Counts {
    fn a_round(&self) -> f64 {
        self.instructions as f64 / self.rounds as f64
    }
}

fn counted(root: &Path, board: &str) -> Result<String> {
    let counting = Counting::prepare_variant(root, Architecture::Arm64, Variant::Pools)?;
    let moves = run(root, &counting, board, MOVES)?;
    let stays = run(root, &counting, board, STAYS)?;
    for counts in [&moves, &stays] {
        let rounds = counts.rounds;
        ensure!(rounds >= ROUNDS, "{rounds} rounds alone");
    }
    let said = format!(
        "{:.0} instructions a round where it moves ({} moves in {} rounds), {:.0} where it stays ({} in {}): a \
         migration takes {:.0} more\n",
        moves.a_round(),
        moves.moves,
        moves.rounds,
        stays.a_round(),
        stays.moves,
        stays.rounds,
        moves.a_round() - stays.a_round()
    );
    ensure!(
        10 * moves.moves >= 9 * moves.rounds,
        "too few moves: {said}"
    );
    ensure!(10 * stays.moves <= stays.rounds, "too many moves: {said}");
    ensure!(moves.a_round() - stays.a_round() <= MOST, "{said}");
    Ok(said)
}

fn run(root: &Path, counting: &Counting, board: &str, order: [usize; 3]) -> Result<Counts> {
    let dir = repo::target_dir(root).join(format!("hanok/test/pool-migration-{board}"));
    fs::create_dir_all(&dir)?;
    let course = Course {
        until: Some("bounds: done"),
        ..Course::default()
    };
    let described = described(board, order);
    let report = profile::count(root, counting, &dir, &described, course, PATIENCE);
    let report = report.map_err(|failure| failure.error)?;
    let file = if order == STAYS {
        "vm.console"
    } else {
        "vm3.console"
    };
    let console = String::from_utf8_lossy(&fs::read(dir.join(file))?).into_owned();
    let rows = console
        .lines()
        .filter_map(|line| line.split_once("bounds: row "));
    let at = rows
        .map(|(_, name)| name.trim())
        .position(|name| name == ROW);
    let stretch = at.and_then(|at| report.stretches.get(at));
    let stretch = stretch.context("no turn was given up")?;
    Ok(Counts {
        rounds: given_up(stretch),
        moves: counting.calls(std::slice::from_ref(stretch), HAND_OVER)?,
        instructions: stretch.cpus.iter().map(|cpu| cpu.hypervisor).sum(),
    })
}

/// How often a turn was given up.
fn given_up(stretch: &Stretch) -> u64 {
    let exits = stretch.cpus.iter().flat_map(|cpu| &cpu.exits);
    let waits = exits.filter(|exit| exit.reason.detail == Some(WAIT));
    let costs = waits.flat_map(|exit| &exit.costs);
    costs.map(|(_, times)| times).sum()
}

fn described(board: &str, order: [usize; 3]) -> String {
    let mut text = format!(
        "board = \"{board}\"\ncores = 2\n[schedule]\nenforce = true\n\
         [[schedule.pool]]\nname = \"both\"\ncores = [0, 1]\nmode = \"global\"\n"
    );
    for vm in order {
        let keys = VMS[vm];
        text += &format!(
            "[[vm]]\nname = \"vm{vm}\"\nmemory = \"64M\"\nvcpus = 1\n{keys}pool = \"both\"\n"
        );
    }
    text
}
