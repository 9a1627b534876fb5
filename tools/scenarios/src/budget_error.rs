//! How exactly budgets are enforced: what vCPUs that never yield have in each period beyond their budgets, beside others
//! that make the hypervisor work.
//!
//! Two VMs of the bench payload read the counter all the while (figure `budget`), so that they know to some instructions
//! when they were taken off the core and when they came back; a third one makes the hypervisor work all the while
//! (`budget-exits`), and is judged by the board's account alone, as the end of its budget may fall into an exit. Beside
//! them others storm, within budgets of their own: once without sleep, and once with as many wakes as they can. Time is a
//! count of instructions, one in each nanosecond.
//!
//! What a vCPU has is less than its budget by the hypervisor's time that is charged to it: interrupts that come in its
//! turn, others' wakes among them. That is held against what `hanok sched check` says of it (`in_turns` of hanok-paths).
//!
//! The bound is a tick of the counter and the longest path with interrupts masked that a guest can cause
//! (`tools/paths/paths.toml`): the timer is set to the tick by which a budget is used up, and is served after that path
//! at the latest. What the account says has been spent when a VM asks contains more: the budget of each of the others
//! may be replenished between the beginning of its turn and its question, by an interrupt each.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use hanok_base::repo;
use hanok_boot::overrides::Overrides;
use hanok_boot::system;
use hanok_console::script::ScriptStep;
use hanok_paths::latency::{SPEED, in_turns};
use hanok_paths::{By, List, Machine};

use crate::reported::{boot, read};
use crate::step::{Tally, TestStep};

/// The steps.
pub const STEPS: &[TestStep] = &[
    TestStep {
        name: "budget-error-gicv3",
        run: |root| Tally::told(measured(root, "qemu-virt", SHORT)),
    },
    TestStep {
        name: "budget-error-gicv2",
        run: |root| Tally::told(measured(root, "qemu-virt-gicv2", SHORT)),
    },
    TestStep {
        name: "budget-error-arm",
        run: |root| Tally::told(measured(root, "qemu-virt-arm", SHORT)),
    },
];
/// The steps that are slow.
pub const SLOW_STEPS: &[TestStep] = &[
    TestStep {
        name: "budget-error-long-gicv3",
        run: |root| Tally::told(measured(root, "qemu-virt", LONG)),
    },
    TestStep {
        name: "budget-error-long-gicv2",
        run: |root| Tally::told(measured(root, "qemu-virt-gicv2", LONG)),
    },
    TestStep {
        name: "budget-error-long-arm",
        run: |root| Tally::told(measured(root, "qemu-virt-arm", LONG)),
    },
];

/// Periods of each VM that is measured.
const SHORT: u64 = 600;
const LONG: u64 = 4_000;
/// Of how many periods one may be doubtful: a piece may have ended in it unseen.
const DOUBTFUL: u64 = 5;
/// The VMs that are measured: name, figure, period and budget in microseconds.
const MEASURED: [(&str, &str, u64, u64); 3] = [
    ("quick", "budget", 500, 100),
    ("slow", "budget", 730, 140),
    ("exits", "budget-exits", 610, 90),
];
/// The others: in which mix, what they do, period and budget in microseconds.
const STORMS: [(Mix, &str, u64, u64); 6] = [
    (Mix::Exits, "mmio-storm", 1_130, 90),
    (Mix::Exits, "mask", 970, 60),
    (Mix::Exits, "hypercall-storm", 890, 60),
    (Mix::Wakes, "wfi-storm", 1_130, 90),
    (Mix::Wakes, "timer-resets", 970, 60),
    (Mix::Wakes, "hypercall-storm", 890, 60),
];

/// What the others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mix {
    /// They never sleep.
    Exits,
    /// They sleep and wake as often as they can.
    Wakes,
}

fn described(board: &str, mix: Mix, periods: u64) -> String {
    let mut text = format!(
        "board = \"{board}\"\ncores = 1\nmemory = \"1G\"\n[schedule]\nenforce = true\nswitch = \"5us\"\n"
    );
    let promise = |period, budget| {
        format!("[vm.schedule]\nperiod = \"{period}us\"\nbudget = \"{budget}us\"\n")
    };
    for (name, figure, period, budget) in MEASURED {
        let _ = write!(
            text,
            "[[vm]]\nname = \"{name}\"\nkernel = \"guest:bench\"\nmemory = \"64M\"\ncpus = [0]\n\
             cmdline = \"bench.figures={figure} bench.repeat={periods}\"\n{}",
            promise(period, budget)
        );
    }
    for (_, attack, period, budget) in STORMS.into_iter().filter(|(of, ..)| *of == mix) {
        let _ = write!(
            text,
            "[[vm]]\nname = \"{attack}\"\nkernel = \"guest:conformance\"\nmemory = \"32M\"\ncpus = [0]\n\
             cmdline = \"conformance.run={attack} conformance.host=hanok\"\n{}",
            promise(period, budget)
        );
    }
    text
}

/// The least, the mean and the most of a VM's periods, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Had {
    least: u64,
    mean: u64,
    most: u64,
}

/// What a VM has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    periods: u64,
    doubtful: u64,
    /// The mean time from one period to the next, and what it should be, in nanoseconds.
    length: u64,
    period: u64,
    promised: u64,
    /// By the counter.
    got: Had,
    /// By the board's account: the mean, and what was spent of each budget as the VM asked first.
    used: u64,
    spent: Had,
    /// Ticks of the counter in a second.
    frequency: u64,
}

impl Found {
    fn parse(said: &str, figure: &str) -> Result<Self> {
        let number = |what: &str| {
            let before = format!("bench: {figure}-{what} ");
            let rest = said.split_once(&before).map(|(_, rest)| rest);
            let word = rest.and_then(|rest| rest.split_whitespace().next());
            let number = word.and_then(|word| word.parse::<u64>().ok());
            number.with_context(|| format!("nobody said {what}: {said}"))
        };
        let had = |of: &str| {
            Ok::<_, anyhow::Error>(Had {
                least: number(&format!("{of}-least"))?,
                mean: number(&format!("{of}-mean"))?,
                most: number(&format!("{of}-most"))?,
            })
        };
        let rest = said.split_once("counter at ").map(|(_, rest)| rest);
        let word = rest.and_then(|rest| rest.split_whitespace().next());
        let frequency = word.and_then(|word| word.parse().ok());
        Ok(Self {
            periods: number("periods")?,
            doubtful: number("doubtful")?,
            length: number("length")?,
            period: number("period")?,
            promised: number("promised")?,
            got: had("got")?,
            used: number("used")?,
            spent: had("spent")?,
            frequency: frequency.context("nobody said the counter's frequency")?,
        })
    }

    /// A tick of the counter, in nanoseconds, rounded up.
    fn tick(&self) -> u64 {
        1_000_000_000_u64.div_ceil(self.frequency.max(1))
    }

    /// By how much it had too much at the most, by its own counter and by the account.
    fn over(&self) -> [u64; 2] {
        let own = self.got.most.saturating_sub(self.promised);
        // The least is the VM's own time until it asks.
        [own, self.spent.most.saturating_sub(self.spent.least)]
    }

    /// What is wrong, if the longest path takes so many nanoseconds, and others at most `others` of each budget. `exact`:
    /// it reads the counter all the while.
    fn fault(&self, wanted: u64, paths: Paths, exact: bool, others: u64) -> Option<String> {
        let bound = self.tick() + paths.longest;
        let seen = self.length.saturating_mul(self.periods) / self.period.max(1);
        let [own, account] = self.over();
        let mean = self.used.abs_diff(self.promised);
        let none = self.got.least > self.got.most || self.spent.least > self.spent.most;
        if none || self.periods < wanted || self.doubtful * DOUBTFUL > self.periods {
            return Some("periods are missing".to_owned());
        }
        if seen.abs_diff(self.periods) > 1 {
            return Some(format!("{seen} periods have passed"));
        }
        if account > bound + paths.own || mean > bound {
            return Some("OVER by the account".to_owned());
        }
        if exact && own > bound {
            return Some("OVER".to_owned());
        }
        // The timer is set to whole ticks, and the budget may have been rounded down to one.
        let less = self.promised.saturating_sub(self.got.least);
        (exact && less > others + 2 * self.tick()).then(|| "TOO LITTLE".to_owned())
    }
}

/// Less and more than promised, as it is printed.
fn beyond(value: u64, promised: u64) -> String {
    let sign = if value < promised { '-' } else { '+' };
    format!("{sign}{}", value.abs_diff(promised))
}

fn measured(root: &Path, board: &str, periods: u64) -> Result<String> {
    let (mut said, mut faults) = (String::new(), 0);
    for mix in [Mix::Exits, Mix::Wakes] {
        faults += row_by_row(root, board, mix, periods, &mut said)?;
    }
    ensure!(faults == 0, "{faults} are over the bound:\n{said}");
    Ok(said)
}

/// Adds a row for each VM that is measured; returns how many are wrong.
fn row_by_row(
    root: &Path,
    board: &str,
    mix: Mix,
    periods: u64,
    said: &mut String,
) -> Result<usize> {
    let name = format!("hanok/test/budget-error-{board}-{mix:?}-{periods}");
    let dir = repo::target_dir(root).join(name);
    fs::create_dir_all(&dir)?;
    let mut steps = Vec::new();
    for (name, ..) in MEASURED {
        steps.push(ScriptStep::Vm(name.to_owned()));
        steps.push(ScriptStep::Expect("bench: done".to_owned()));
    }
    steps.push(ScriptStep::End);
    boot(root, &dir, &described(board, mix, periods), steps, &[])?;
    let paths = paths(root, &dir)?;
    let mut faults = 0;
    for (at, (name, figure, ..)) in MEASURED.into_iter().enumerate() {
        let console = read(&dir.join(format!("{name}.console")))?;
        let found = Found::parse(&console, figure).with_context(|| name.to_owned())?;
        let exact = figure == "budget";
        let others = paths.others.get(at).copied().unwrap_or_default();
        let fault = found.fault(periods, paths, exact, others);
        faults += usize::from(fault.is_some());
        if at == 0 {
            writeln!(
                said,
                "{mix:?}, in ns; bound: {} + {}, until a VM asks {} more\n{:<6} {:>7} {:>5} {:>8} {:>22} {:>10} {:>17} {:>12}",
                found.tick(),
                paths.longest,
                paths.own,
                "VM",
                "periods",
                "doubt",
                "promised",
                "had: least/mean/most",
                "used: mean",
                "over: own/account",
                "others' most"
            )?;
        }
        let had = [found.got.least, found.got.mean, found.got.most];
        let had = had.map(|value| beyond(value, found.promised)).join(" ");
        let [own, account] = found.over();
        let own = if exact {
            own.to_string()
        } else {
            "-".to_owned()
        };
        writeln!(
            said,
            "{name:<6} {:>7} {:>5} {:>8} {had:>22} {:>10} {:>17} {others:>12} {}",
            found.periods,
            found.doubtful,
            found.promised,
            beyond(found.used, found.promised),
            format!("{own} {account}"),
            fault.unwrap_or_default()
        )?;
    }
    Ok(faults)
}

/// The longest paths on a board, in instructions.
#[derive(Clone, Copy, Debug)]
struct Paths {
    /// Of all that a guest can cause.
    longest: u64,
    /// The interrupts that may come as a VM goes on and before it asks: one for each budget that is replenished.
    own: u64,
    /// What others take of each of the measured VMs' budgets, in nanoseconds.
    others: [u64; MEASURED.len()],
}

fn paths(root: &Path, dir: &Path) -> Result<Paths> {
    let system = system::load(root, &dir.join("system.toml"), &Overrides::default())
        .map_err(|failure| failure.error)?;
    let vcpus = MEASURED.len() + STORMS.len() / 2;
    let machine = Machine::of(&system, vcpus).context("no path was counted on such a board")?;
    let list = List::own()?;
    let all = in_turns(&list, &system, SPEED)?;
    let mut others = [0; MEASURED.len()];
    for ((name, ..), others) in MEASURED.into_iter().zip(&mut others) {
        let of = all.iter().find(|of| of.name == name);
        let bound = of.and_then(|of| of.bound.as_ref().ok());
        *others = bound
            .with_context(|| format!("{name} has no bound"))?
            .period;
    }
    Ok(Paths {
        others,
        longest: list.longest(machine, By::Guest),
        own: list.path("own")?.most(machine) * vcpus as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "bench-info: GICv3, 1 vCPUs, counter at 62500000 Hz, loaded at 0x40200000\n\
        bench: budget-periods 600\nbench: budget-doubtful 3\nbench: budget-length 500000\n\
        bench: budget-used 99990 ns\n\
        bench: budget-got-least 90000 ns\nbench: budget-got-mean 98000 ns\nbench: budget-got-most 100400 ns\n\
        bench: budget-spent-least 700 ns\nbench: budget-spent-mean 900 ns\n\
        bench: budget-spent-most 1800 ns\nbench: budget-promised 100000 ns\nbench: budget-period 500000 ns\n";

    const PATHS: Paths = Paths {
        longest: 4_900,
        own: 4_000,
        others: [0; MEASURED.len()],
    };
    const OTHERS: u64 = 40_000;

    fn found() -> Found {
        Found::parse(SAID, "budget").unwrap()
    }

    fn is_wrong(found: Found) -> bool {
        found.fault(600, PATHS, true, OTHERS).is_some()
    }

    #[test]
    fn what_is_said_is_read() {
        let found = found();
        assert_eq!((found.periods, found.doubtful, found.tick()), (600, 3, 16));
        assert_eq!(found.over(), [400, 1_100]);
        assert!(!is_wrong(found));
        assert!(Found::parse(SAID, "budget-exits").is_err());
    }

    /// What is over the bound by a nanosecond is found.
    #[test]
    fn the_bound_is_held() {
        let with = |change: fn(&mut Found)| {
            let mut found = found();
            change(&mut found);
            found
        };
        assert!(!is_wrong(with(|found| found.got.most = 104_916)));
        let over = with(|found| found.got.most = 104_917);
        assert!(is_wrong(over));
        assert_eq!(over.fault(600, PATHS, false, OTHERS), None);
        let spent = with(|found| found.spent.most = 9_617);
        assert!(spent.fault(600, PATHS, false, OTHERS).is_some());
        assert!(!is_wrong(with(|found| found.spent.most = 9_616)));
        assert!(is_wrong(with(|found| found.used = 104_917)));
        assert!(is_wrong(with(|found| found.used = 95_083)));
        let less = with(|found| found.got.least = 59_967);
        assert!(is_wrong(less));
        assert_eq!(less.fault(600, PATHS, false, OTHERS), None);
        assert!(!is_wrong(with(|found| found.got.least = 59_968)));
        assert!(is_wrong(with(|found| found.periods = 599)));
        assert!(is_wrong(with(|found| found.spent.least = u64::MAX)));
        assert!(is_wrong(with(|found| found.length = 503_000)));
        assert!(is_wrong(with(|found| found.doubtful = 200)));
    }
}
