//! `hanok top` on a board that runs: changes that are granted and refused, seen in the next reports; two that watch
//! one board, of which one is stopped and killed; a board at a serial line; and the page, in a browser.

mod line;
mod page;
mod row;

use std::path::Path;
use std::thread;

use anyhow::{Context, Result, ensure};
use hanok_artifacts::cargo::cargo;
use hanok_base::exit::Code;
use hanok_base::process;
use serde_json::json;

use crate::running::{Running, Said};
use crate::step::{Tally, TestStep};
use line::AtLine;
use page::Page;
use row::Row;

/// The steps.
pub const STEPS: &[TestStep] = &[
    TestStep {
        name: "top-change",
        run: |root| Tally::told(changes(root)),
    },
    TestStep {
        name: "top-clients",
        run: |root| Tally::told(clients(root)),
    },
    TestStep {
        name: "top-line",
        run: |root| Tally::told(at_line(root)),
    },
];
/// The steps that are slow.
pub const SLOW_STEPS: &[TestStep] = &[TestStep {
    name: "top-page",
    run: |root| Tally::told(in_browser(root)),
}];

/// One core: a VM whose task's deadline is analysed, one that uses up all of its budget, one that has the rest.
pub(super) const DESCRIPTION: &str = r#"board = "qemu-virt"
cores = 1
memory = "1G"

[schedule]
enforce = true

[[vm]]
name = "loop"
kernel = "guest:rtos"
memory = "32M"
cmdline = "rtos.tasks=control:5000:500 rtos.seconds=0 rtos.expect=none"
cpus = [0]

[vm.schedule]
period = "1ms"
budget = "200us"
task = [{ name = "control", period = "5ms", execution = "500us" }]

[[vm]]
name = "hog"
kernel = "guest:rtos"
memory = "32M"
cmdline = "rtos.tasks=hog:1000000:3000000 rtos.seconds=0"
cpus = [0]

[vm.schedule]
period = "5ms"
budget = "1ms"

[[vm]]
name = "rest"
kernel = "guest:rtos"
memory = "32M"
cmdline = "rtos.tasks=rest:1000000:3000000 rtos.seconds=0"
cpus = [0]

[vm.share]
weight = 256
"#;
/// So far, in percent of the core, may what a busy VM had be from its promise: what its turns' borders cost, and a period
/// that is only partly between two reports.
const NEAR: f64 = 3.0;

/// So many reports are looked at: between two of them a slow PC's board may have only some periods.
const LOOKS: usize = 20;

/// Whether a busy VM has this promise, and has what it is promised.
fn follows(row: impl Fn() -> Result<Row>, promised: &str, share: f64) -> Result<()> {
    for look in 1.. {
        let row = row()?;
        ensure!(row.promised == promised, "it has {promised}: {row:?}");
        if (row.used - share).abs() < NEAR {
            break;
        }
        ensure!(look < LOOKS, "it had {share} %: {row:?}");
    }
    Ok(())
}

/// Waits until the board reports that its busy VM has run.
fn reports(board: &Running) -> Result<()> {
    board.awaits("a report", || {
        let said = board.says(&["top"], &["--once"])?;
        Ok(said.is(Code::Success) && Row::of(&said.ended(Code::Success)?, "hog")?.used > 15.0)
    })
}

/// What is granted, what the analysis refuses, what the board refuses, and what nobody can mean.
fn changes(root: &Path) -> Result<String> {
    let board = Running::start(root, DESCRIPTION)?;
    reports(&board)?;
    every_ending(&|words| board.says(&["top"], words), "in a run")
}

/// Each way in which a change ends, `top` being `hanok top` of the board with these arguments.
fn every_ending(top: &dyn Fn(&[&str]) -> Result<Said>, place: &str) -> Result<String> {
    let row = |vm: &str| Row::of(&top(&["--once"])?.ended(Code::Success)?, vm);
    let change = |words: &str, more: &[&str]| top(&[&["--once", "--change", words], more].concat());
    follows(|| row("hog"), "1ms in 5ms", 20.0).context("at first")?;

    // Only looked at.
    let said = change("hog budget=2ms", &["--dry-run"])?.ended(Code::Success)?;
    ensure!(said.contains("All deadlines are kept"), "{said}");
    ensure!(said.contains("1ms in 5ms  ->  2ms in 5ms"), "{said}");
    follows(|| row("hog"), "1ms in 5ms", 20.0).context("after a look")?;

    let said = change("hog budget=2ms", &[])?.ended(Code::Success)?;
    ensure!(said.contains("hog: changed"), "{said}");
    let had = |when: &str| -> Result<String> {
        let mut lines = said.lines();
        let line = lines.find(|line| line.starts_with(when));
        Ok(line.with_context(|| said.clone())?.to_owned())
    };
    let before = had("before")?;
    ensure!(before.contains("1ms in 5ms, promised 20.0 %"), "{before}");
    let after = had("after")?;
    ensure!(after.contains("2ms in 5ms, promised 40.0 %"), "{after}");
    follows(|| row("hog"), "2ms in 5ms", 40.0).context("after a yes")?;

    // Of another kind: a share, which is no promise.
    change("rest weight=512 cap=10", &[])?.ended(Code::Success)?;
    follows(|| row("rest"), "weight 512, cap 10 %", 10.0).context("with a cap")?;

    // The task would be late.
    let said = change("loop budget=50us", &[])?.failed(Code::Refused)?;
    ensure!(said.contains("task control of loop misses"), "{said}");
    ensure!(row("loop")?.promised == "200us in 1ms");
    // The board has the last word.
    let said = change("hog budget=4.9ms", &["--anyway"])?.failed(Code::Denied)?;
    let why = "hog: the board says no: the core would be promised more than all of its time";
    ensure!(said.contains(why), "{said}");
    follows(|| row("hog"), "2ms in 5ms", 40.0).context("after a no")?;
    // What the analysis refuses and the board does not.
    change("loop budget=50us", &["--anyway"])?.ended(Code::Success)?;
    ensure!(row("loop")?.promised == "50us in 1ms");

    for (words, why) in [
        (
            "nobody budget=1ms",
            "no vCPU is called nobody: there are loop, hog, rest",
        ),
        ("hog.1 budget=1ms", "no vCPU is called hog.1"),
        ("hog budget=6ms", "must fit into the deadline"),
        ("rest budget=1ms", "shares by weight"),
        ("hog budget=soon", "a time is a number"),
    ] {
        let said = change(words, &[])?.failed(Code::Usage)?;
        ensure!(said.contains(why), "{words}: {said}");
    }
    follows(|| row("hog"), "2ms in 5ms", 40.0).context("at last")?;
    Ok(format!("{place}: every ending of a change"))
}

/// How often two ask at once.
const ROUNDS: usize = 8;

/// Two pages of one board.
fn clients(root: &Path) -> Result<String> {
    let board = Running::start(root, DESCRIPTION)?;
    reports(&board)?;
    let (one, other) = (Page::open(&board)?, Page::open(&board)?);
    let hog = |micros: usize| {
        (
            "hog",
            json!({ "interface": { "period": 5_000_000, "budget": micros * 1000, "deadline": 5_000_000 } }),
        )
    };
    let too_much = (
        "loop",
        json!({ "interface": { "period": 1_000_000, "budget": 990_000, "deadline": 1_000_000 } }),
    );
    let share = |weight: usize| ("rest", json!({ "share": { "weight": weight, "cap": 0 } }));
    for round in 1..=ROUNDS {
        // Of one the change is made, of the other it is refused, or both are made; each is told its own.
        let micros = 1000 + 100 * round;
        let (first, second) = (
            hog(micros),
            if round % 2 == 0 {
                too_much.clone()
            } else {
                share(round)
            },
        );
        let (yes, no) = thread::scope(|scope| {
            let yes = scope.spawn(|| one.change(&first));
            let no = other.change(&second);
            (yes.join(), no)
        });
        let yes = yes.map_err(|_| anyhow::anyhow!("a thread failed"))??;
        ensure!(yes.changed, "round {round}: {yes:?}");
        let no = no?;
        ensure!(no.changed == (round % 2 != 0), "round {round}: {no:?}");
        ensure!(
            no.changed || no.words.contains("more than all of its time"),
            "{no:?}"
        );
        // Both see it.
        let wanted = micros * 1000;
        for page in [&one, &other] {
            page.sees(|vcpu| vcpu["name"] == "hog" && vcpu["budget"] == wanted)?;
        }
        one.agrees_with(&other)?;
    }

    // One that takes nothing any more holds nobody up; nor does one that is killed while it asks.
    let stopped = Page::open(&board)?;
    stopped.signal(rustix::process::Signal::STOP)?;
    one.goes_on(20)?;
    ensure!(
        one.change(&hog(1000))?.changed,
        "beside one that is stopped"
    );
    let asks = thread::scope(|scope| {
        let asks = scope.spawn(|| other.change(&hog(1500)));
        let killed = other.signal(rustix::process::Signal::KILL);
        let _ = asks.join();
        killed
    });
    asks?;
    ensure!(one.change(&share(7))?.changed, "beside one that was killed");
    one.goes_on(10)?;
    stopped.signal(rustix::process::Signal::CONT)?;
    stopped.goes_on(2).context("after it was stopped")?;

    // The board's end is theirs, with a word.
    let mut all = [one, stopped];
    board.stop()?;
    for page in &mut all {
        let said = page.ends()?;
        ensure!(
            said.contains("hanok: the line to the board has ended"),
            "{said:?}"
        );
    }
    Ok(format!("{ROUNDS} rounds of two changes at once"))
}

/// QEMU's serial line at a pseudo terminal.
fn at_line(root: &Path) -> Result<String> {
    let board = AtLine::start(root)?;
    let said = every_ending(&|words| board.top(words), "at a line")?;
    board.ends_with_a_word()?;
    Ok(said)
}

/// The page of a running board in Debian's Chromium.
fn in_browser(root: &Path) -> Result<String> {
    process::run(std::process::Command::new("chromedriver").arg("--version"))
        .context("this test needs Debian's packages chromium and chromium-driver")?;
    let board = Running::start(root, DESCRIPTION)?;
    reports(&board)?;
    let page = Page::open(&board)?;
    let mut command = cargo(root);
    command.args([
        "test",
        "--color",
        "never",
        "-p",
        "hanok-top",
        "--test",
        "browser",
    ]);
    command.args(["--", "--ignored", "--exact", "a_change_on_a_running_board"]);
    command.env("HANOK_TOP_PAGE", page.url());
    let said = process::text(&mut command)?;
    ensure!(said.contains("1 passed"), "no test was run: {said}");
    let row = || {
        Row::of(
            &board.says(&["top"], &["--once"])?.ended(Code::Success)?,
            "hog",
        )
    };
    follows(row, "2ms in 5ms", 40.0)?;
    Ok("a change from the page to the board, and one that is refused".to_owned())
}
