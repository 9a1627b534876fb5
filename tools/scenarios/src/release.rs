//! How late an RTOS releases its tasks beside hostile VMs on the same core, measured, and the bound that `hanok sched
//! check` prints for the same description.
//!
//! The RTOS guest's tasks have periods that have nothing in common with its budget's period, so that releases fall into all
//! of its phases. The others have all the rest of the core, and do what costs the hypervisor most. Time is a count of
//! instructions. What the RTOS measured (`jitter-max`) must be at most the bound, and its kernel's own way from the
//! vector to the look at the clock. The budget is left open in the description, so that it boots only if all
//! deadlines are proven.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use hanok_base::repo;
use hanok_boot::overrides::Overrides;
use hanok_boot::system;
use hanok_console::script::ScriptStep;
use hanok_paths::List;
use hanok_paths::latency::{self, SPEED, nanos};

use crate::reported::{boot, read};
use crate::step::{Tally, TestStep};

/// The steps.
pub const STEPS: &[TestStep] = &[
    TestStep {
        name: "release-gicv3",
        run: |root| Tally::told(beside(root, "qemu-virt", QUICK)),
    },
    TestStep {
        name: "release-gicv2",
        run: |root| Tally::told(beside(root, "qemu-virt-gicv2", QUICK)),
    },
    TestStep {
        name: "release-arm",
        run: |root| Tally::told(beside(root, "qemu-virt-arm", QUICK)),
    },
];
/// The steps that are slow.
pub const SLOW_STEPS: &[TestStep] = &[
    TestStep {
        name: "release-storms",
        run: |root| Tally::told(beside(root, "qemu-virt", STORMS)),
    },
    TestStep {
        name: "release-linux",
        run: |root| Tally::told(beside(root, "qemu-virt", &[Hostile::Linux])),
    },
    TestStep {
        name: "release-linux-arm",
        run: |root| Tally::told(beside(root, "qemu-virt-arm", &[Hostile::Linux])),
    },
];

/// The tasks: name, period and execution in microseconds. The execution times of the description have 15 us more, for the
/// RTOS's own kernel.
const TASKS: [(&str, u64, u64); 2] = [("control", 2_030, 200), ("supervise", 10_070, 1_000)];
const KERNEL_EXTRA: u64 = 15;
/// What the RTOS's kernel takes from its vector until it looks at the clock, in nanoseconds: beside nobody, releases are
/// so late.
const KERNEL_NS: u64 = 5_000;
/// Nanoseconds in a microsecond.
const MICRO: u64 = 1_000;
/// The fewest jobs of the first task.
const JOBS: u64 = 300;
/// How often the RTOS reports while Linux is busy, once a second.
const REPORTS: usize = 3;

/// Who shares the core.
#[derive(Clone, Copy, Debug)]
enum Hostile {
    /// A VM with a budget and one that is promised nothing, each of two vCPUs, with an attack of the conformance guest's.
    Storm(&'static str),
    /// A stock Linux that is promised nothing; it forks, sleeps, writes and reads in loops.
    Linux,
}

const QUICK: &[Hostile] = &[Hostile::Storm("wfi-storm")];
const STORMS: &[Hostile] = &[
    Hostile::Storm("wfi-storm"),
    Hostile::Storm("timer-resets"),
    Hostile::Storm("sgi-storm"),
    Hostile::Storm("mask"),
    Hostile::Storm("mmio-storm"),
    Hostile::Storm("hypercall-storm"),
    Hostile::Storm("console-storm"),
];
/// What is typed at Linux.
const LOAD: &str = "while :; do dd if=/dev/urandom of=/tmp/x bs=4k count=64 2>/dev/null; done & \
     while :; do (true); done & while :; do usleep 50; done & \
     while :; do cat /proc/interrupts >/dev/null; done & echo load-$((1))\n";

impl Hostile {
    const fn name(self) -> &'static str {
        match self {
            Self::Storm(attack) => attack,
            Self::Linux => "linux",
        }
    }

    fn described(self) -> String {
        match self {
            Self::Storm(attack) => ["promised", "rest"]
                .map(|name| {
                    let share = match name {
                        "rest" => "",
                        _ => {
                            "[vm.schedule]\nperiod = \"1700us\"\nbudget = \"300us\"\n\
                             [[vm.schedule.task]]\nname = \"t0\"\nperiod = \"100ms\"\nexecution = \"10us\"\nvcpu = 0\n\
                             [[vm.schedule.task]]\nname = \"t1\"\nperiod = \"100ms\"\nexecution = \"10us\"\nvcpu = 1\n"
                        }
                    };
                    format!(
                        "[[vm]]\nname = \"{name}\"\nkernel = \"guest:conformance\"\nmemory = \"32M\"\ncpus = [0, 0]\n\
                         cmdline = \"conformance.run={attack} conformance.host=hanok\"\n{share}"
                    )
                })
                .concat(),
            Self::Linux => {
                "[[vm]]\nname = \"linux\"\nkernel = \"debian:6.1\"\ninitramfs = \"busybox\"\n\
                 memory = \"256M\"\ncpus = [0]\ncmdline = \"console=ttyAMA0 quiet\"\n"
                    .to_owned()
            }
        }
    }

    /// How long the RTOS runs.
    const fn length(self) -> &'static str {
        match self {
            Self::Storm(_) => "rtos.millis=800",
            Self::Linux => "rtos.seconds=0 rtos.report=1",
        }
    }

    fn steps(self) -> Vec<ScriptStep> {
        let vm = |name: &str| ScriptStep::Vm(name.to_owned());
        let expect = |text: &str| ScriptStep::Expect(text.to_owned());
        let mut steps = Vec::new();
        let mut reports = 1;
        if matches!(self, Self::Linux) {
            steps.extend([vm("linux"), expect("linux:~# ")]);
            steps.push(ScriptStep::Send(LOAD.as_bytes().to_vec()));
            steps.push(expect("load-1"));
            reports += REPORTS;
        }
        steps.push(vm("rtos"));
        steps.extend((0..reports).map(|_| expect("rtos: total jobs ")));
        steps.push(ScriptStep::End);
        steps
    }
}

fn described(board: &str, hostile: Hostile) -> String {
    let tasks = TASKS.map(|(name, period, execution)| format!("{name}:{period}:{execution}"));
    let mut text = format!(
        "board = \"{board}\"\ncores = 1\nmemory = \"1G\"\n[schedule]\nenforce = true\nswitch = \"5us\"\n\
         slack = \"idle\"\n[[vm]]\nname = \"rtos\"\nkernel = \"guest:rtos\"\nmemory = \"64M\"\ncpus = [0]\n\
         cmdline = \"rtos.tasks={} rtos.policy=rm {} rtos.expect=none\"\n\
         [vm.schedule]\npolicy = \"rm\"\nperiod = \"500us\"\n",
        tasks.join(","),
        hostile.length()
    );
    for (name, period, execution) in TASKS {
        let _ = write!(
            text,
            "[[vm.schedule.task]]\nname = \"{name}\"\nperiod = \"{period}us\"\nexecution = \"{}us\"\n",
            execution + KERNEL_EXTRA
        );
    }
    text + &hostile.described()
}

/// What the RTOS says about a task.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    jobs: u64,
    misses: u64,
    /// In nanoseconds.
    jitter: u64,
}

/// The last line about a task.
fn said(console: &str, task: &str) -> Result<Said> {
    let begin = format!("rtos: task {task} ");
    let mut lines = console.lines().filter(|line| line.contains(&begin));
    let line = lines
        .next_back()
        .with_context(|| format!("{task} is not there: {console}"))?;
    let word = |name: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).with_context(|| format!("no {name}: {line}"))
    };
    let jitter = word("jitter-max")?;
    let Some((whole, part)) = jitter.split_once('.') else {
        bail!("jitter-max {jitter}");
    };
    ensure!(part.len() == 3, "jitter-max {jitter}");
    Ok(Said {
        jobs: word("jobs")?.parse()?,
        misses: word("misses")?.parse()?,
        jitter: whole.parse::<u64>()? * MICRO + part.parse::<u64>()?,
    })
}

/// A row for each of `all` and each task, and an error if one is over its bound.
fn beside(root: &Path, board: &str, all: &[Hostile]) -> Result<String> {
    let mut rows = format!(
        "{:<16} {:<10} {:>6} {:>7} {:>12} {:>12}\n",
        "beside", "task", "jobs", "misses", "measured ns", "bound ns"
    );
    let mut faults = 0;
    for hostile in all {
        let name = hostile.name();
        let dir = repo::target_dir(root).join(format!("hanok/test/release-{board}-{name}"));
        fs::create_dir_all(&dir)?;
        boot(
            root,
            &dir,
            &described(board, *hostile),
            hostile.steps(),
            &[],
        )
        .context(name)?;
        let bound = bound(root, &dir)?;
        let console = read(&dir.join("rtos.console"))?;
        for (task, ..) in TASKS {
            let said = said(&console, task).context(name)?;
            let mark = fault(&said, bound);
            faults += usize::from(mark.is_some());
            writeln!(
                rows,
                "{name:<16} {task:<10} {:>6} {:>7} {:>12} {bound:>12} {}",
                said.jobs,
                said.misses,
                said.jitter,
                mark.unwrap_or_default()
            )?;
        }
        let jobs = said(&console, TASKS[0].0)?.jobs;
        ensure!(jobs >= JOBS, "{jobs} jobs alone:\n{rows}");
    }
    ensure!(faults == 0, "{faults} are wrong:\n{rows}");
    Ok(rows)
}

fn fault(said: &Said, bound: u64) -> Option<&'static str> {
    if said.jitter > bound + KERNEL_NS {
        Some("OVER")
    } else if said.misses > 0 {
        Some("MISSED")
    } else {
        None
    }
}

/// The bound of the RTOS's releases, in nanoseconds.
fn bound(root: &Path, dir: &Path) -> Result<u64> {
    let path = dir.join("system.toml");
    let system = system::load(root, &path, &Overrides::default());
    let system = system.map_err(|failure| failure.error)?;
    let all = latency::releases(&List::own()?, &system, SPEED)?;
    let of = all.into_iter().find(|latency| latency.name == "rtos");
    match of.context("the RTOS has no promise")?.bound {
        Ok(bound) => Ok(nanos(bound.total(), SPEED)),
        Err(why) => bail!(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "rtos: task control period 2030 budget 200 jobs 10 misses 0 jitter-max 7.120 response-max 900.000 overruns 3 start-max 7.500\r\n\
        rtos: task control period 2030 budget 200 jobs 394 misses 0 jitter-max 412.016 response-max 900.000 overruns 3 start-max 7.500\r\n";

    #[test]
    fn the_last_report_counts() {
        let said = said(SAID, "control").unwrap();
        let expected = Said {
            jobs: 394,
            misses: 0,
            jitter: 412_016,
        };
        assert_eq!(said, expected);
        assert!(super::said(SAID, "supervise").is_err());
        assert!(super::said(&SAID.replace("412.016", "412"), "control").is_err());
    }

    #[test]
    fn what_is_over_the_bound_is_found() {
        let said = said(SAID, "control").unwrap();
        assert_eq!(fault(&said, 412_016 - KERNEL_NS), None);
        assert_eq!(fault(&said, 412_015 - KERNEL_NS), Some("OVER"));
        let missed = Said { misses: 1, ..said };
        assert_eq!(fault(&missed, 1_000_000), Some("MISSED"));
    }
}
