//! Makes the table's rows from what the boots gave.

use super::cases::{BESIDE, Case, IDLE_DOMAINS, Who};
use super::systems::{LARGE_MIB, MEMORY_MIB, Neighbours};
use std::collections::BTreeMap;

/// What was measured.
#[derive(Debug, Default)]
pub struct Found {
    /// What each boot's console gave, by the figure's name.
    pub boots: BTreeMap<Case, BTreeMap<String, f64>>,
    /// What the building of images gave.
    pub images: Option<Images>,
}

/// What the building of images gave, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Images {
    /// The image of one VM.
    pub one: f64,
    /// That of eight with the same files.
    pub all: f64,
    /// The PC's memory that the making of the second took at most.
    pub memory: f64,
}

/// By how much an image that has each file once may be larger for its description of eight VMs.
const ONCE: f64 = 1.01;

/// The name of the bytes of a boot's image.
pub const IMAGE: &str = "image";
/// The name of what a boot's hypervisor said of its memory: the bytes that nobody has.
pub const FREE: &str = "free";

/// What cannot be had of Xen, for people.
pub const NOT_HAD: &str = "\
Xen: its first domain measures, beside up to 7 idle ones of 16 MiB with one vCPU each that it begins by itself
  (dom0less). Not had of it: domains that are never started (all that the tree names are) or always busy (how long a
  turn is, is its scheduler's), more vCPUs than domains; a burst of interrupts (the payload came to no end there); a
  device of one's own (its first domain has all of the board's); start and memory of a domain (nothing says them);
  bytes (a domain's port is a hypercall, or a program in Linux).
";

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The row's name.
    pub what: &'static str,
    /// The row's unit.
    pub unit: &'static str,
    /// The value before the executive kept masks and trees instead of going through all its vCPUs.
    pub before: Option<f64>,
    /// The value now; `None` if it was not measured.
    pub now: Option<f64>,
    /// The largest value that is wanted; where more is better, the smallest. `None` of what is only told.
    pub wanted: Option<f64>,
    /// The same of Xen, where it can be had.
    pub xen: Option<f64>,
    /// Whether more is better.
    pub high: bool,
}

impl Row {
    /// Whether what is wanted is reached; `None` where it was not measured, or nothing is wanted.
    pub fn is_reached(&self) -> Option<bool> {
        let (now, wanted) = (self.now?, self.wanted?);
        Some(if self.high {
            now >= wanted
        } else {
            now <= wanted
        })
    }
}

/// The value of a figure.
pub fn value(found: &Found, case: Case, figure: &str) -> Option<f64> {
    found.boots.get(&case)?.get(figure).copied()
}

/// A point of a curve: how many vCPUs there are beside the one that measures, and the cost.
pub type Point = (f64, f64);

/// The cost of `figure` over the number of neighbours, from none on.
pub fn course(found: &Found, neighbours: Neighbours, figure: &str) -> Vec<Point> {
    let alone = value(found, Case::Alone(Who::Hanok), figure).map(|cost| (0.0, cost));
    let beside = BESIDE.iter().filter_map(|&(vms, each)| {
        let case = Case::Beside {
            neighbours,
            vms,
            each,
        };
        Some(((vms * each) as f64, value(found, case, figure)?))
    });
    alone.into_iter().chain(beside).collect()
}

/// The cost of `figure` over the number of idle domains that Xen has beside its first.
pub fn domains(found: &Found, figure: &str) -> Vec<Point> {
    let at = |idle| Some((idle as f64, value(found, Case::Xen(idle), figure)?));
    IDLE_DOMAINS.filter_map(at).collect()
}

/// The cost of each further neighbour, from the first on.
fn slope(course: &[Point]) -> Option<f64> {
    let (from, to) = (
        course.iter().find(|(count, _)| *count >= 1.0)?,
        course.last()?,
    );
    (to.0 > from.0).then(|| (to.1 - from.1) / (to.0 - from.0))
}

/// Figures of those who measure alone.
impl Found {
    fn hanok(&self, figure: &str) -> Option<f64> {
        value(self, Case::Alone(Who::Hanok), figure)
    }

    /// What a figure costs more than natively.
    fn beyond(&self, figure: &str) -> Option<f64> {
        Some(self.hanok(figure)? - value(self, Case::Alone(Who::Native), figure)?)
    }

    /// The same of Xen.
    fn xen_beyond(&self, figure: &str) -> Option<f64> {
        let native = value(self, Case::Alone(Who::Native), figure)?;
        Some(value(self, Case::XenAlone, figure)? - native)
    }

    /// A wake beside so many idle vCPUs.
    fn wake(&self, count: f64) -> Option<f64> {
        let course = course(self, Neighbours::Idle, "wake");
        let at = course.iter().find(|(there, _)| *there == count);
        at.map(|(_, cost)| *cost)
    }

    fn xen_wake(&self, idle: usize) -> Option<f64> {
        value(self, Case::Xen(idle), "wake")
    }

    /// Bytes of free RAM that a further VM of one vCPU takes besides what it is given, the image's part taken off;
    /// and those that a further vCPU takes.
    fn memory(&self) -> (Option<f64>, Option<f64>) {
        let beside = |vms, each| Case::Beside {
            neighbours: Neighbours::Idle,
            vms,
            each,
        };
        let taken = |from, to| {
            let of = |case| Some(value(self, case, FREE)? + value(self, case, IMAGE)?);
            Some(of(from)? - of(to)?)
        };
        let own = (MEMORY_MIB << 20) as f64;
        let of_vm = taken(beside(1, 1), beside(7, 1)).map(|bytes: f64| bytes / 6.0 - own);
        let of_vcpu = taken(beside(7, 1), beside(7, 8)).map(|bytes: f64| bytes / 49.0);
        (of_vm, of_vcpu)
    }
}

const COUNT: &str = "instructions";

/// A row of what is to be at most so much.
const fn row(what: &'static str, unit: &'static str, values: [Option<f64>; 3]) -> Row {
    let [before, now, wanted] = values;
    Row {
        what,
        unit,
        before,
        now,
        wanted,
        xen: None,
        high: false,
    }
}

impl Row {
    /// The same with what Xen has.
    fn beside(self, xen: Option<f64>) -> Self {
        Self { xen, ..self }
    }
}

/// All rows.
pub fn rows(found: &Found) -> Vec<Row> {
    let groups = [
        vcpus(found),
        interrupts(found),
        starts(found),
        bytes(found),
        memory(found),
    ];
    groups.into_iter().flatten().collect()
}

fn vcpus(found: &Found) -> Vec<Row> {
    let pass = |neighbours| slope(&course(found, neighbours, "physical-timer"));
    let most = BESIDE.last().map_or(0.0, |(vms, each)| (vms * each) as f64);
    let sleep = |who| value(found, Case::Sleep(who), "nanosleep");
    let ratio = || Some(sleep(Who::Hanok)? / sleep(Who::Native)?);
    let least = Some(5.0);
    let limit = Some(500.0);
    let of = |what, values| row(what, COUNT, values);
    vec![
        of(
            "scheduler's pass, each idle vCPU more",
            [Some(110.0), pass(Neighbours::Idle), least],
        )
        .beside(slope(&domains(found, "physical-timer"))),
        of(
            "scheduler's pass, each never started",
            [Some(77.0), pass(Neighbours::Off), least],
        ),
        of(
            "scheduler's pass, each runnable",
            [Some(46.0), pass(Neighbours::Runnable), least],
        ),
        of(
            "wake from WFI, alone",
            [Some(128.0), found.wake(0.0), limit],
        )
        .beside(found.xen_wake(0)),
        of(
            "wake from WFI, one idle neighbour",
            [Some(1040.0), found.wake(1.0), limit],
        )
        .beside(found.xen_wake(1)),
        of(
            "wake from WFI, 7 idle neighbours",
            [None, found.wake(7.0), limit],
        )
        .beside(found.xen_wake(7)),
        of(
            "wake from WFI, 56 idle neighbours",
            [Some(7856.0), found.wake(most), limit],
        ),
        row(
            "nanosleep beside an idle neighbour",
            "x native",
            [Some(1.22), ratio(), Some(1.05)],
        ),
    ]
}

fn interrupts(found: &Found) -> Vec<Row> {
    let of = |what, before, figure, wanted| {
        let values = [Some(before), found.beyond(figure), Some(wanted)];
        row(what, COUNT, values).beside(found.xen_beyond(figure))
    };
    vec![
        of("timer interrupt", 141.0, "timer-interrupt", 188.0),
        of("timer interrupt, 4 pending", 3214.0, "pending-4", 600.0),
        of(
            "timer interrupt, 200 pending",
            24_300.0,
            "pending-200",
            600.0,
        ),
        of("interrupt of a burst of 200", 4447.0, "burst-200", 400.0),
        of(
            "interrupt of a device of its own",
            1822.0,
            "device-interrupt",
            250.0,
        ),
    ]
}

fn starts(found: &Found) -> Vec<Row> {
    let start = |mib, others| value(found, Case::Start { mib, others }, "start");
    let after = |others| start(MEMORY_MIB, others).map(|ns| ns / 1e6);
    let zeroing = || {
        let more = start(LARGE_MIB, 0)? - start(MEMORY_MIB, 0)?;
        Some(((LARGE_MIB - MEMORY_MIB) << 20) as f64 / more)
    };
    let zeroes = [Some(12.2), zeroing(), Some(40.0)];
    vec![
        row("start of a VM", "ms", [Some(17.0), after(0), Some(20.0)]),
        row(
            "start of a VM beside 7 that load",
            "ms",
            [Some(91.0), after(7), Some(20.0)],
        ),
        Row {
            high: true,
            ..row("loading of zeroes", "bytes an instruction", zeroes)
        },
    ]
}

fn bytes(found: &Found) -> Vec<Row> {
    let received = value(found, Case::Receive, "receive");
    let of = |what, before, now, wanted| row(what, COUNT, [Some(before), now, Some(wanted)]);
    vec![
        of(
            "serial port, a byte out, polled",
            1134.0,
            found.hanok("send-polled"),
            400.0,
        ),
        of(
            "serial port, a byte out, in bursts",
            716.0,
            found.hanok("send-burst"),
            400.0,
        ),
        of("serial port, a byte in", 1459.0, received, 600.0),
    ]
}

/// What is taken of free RAM, as the board says it; what is set aside whatever there is, counts for no VM.
/// Of a VM before: 10.6 KiB of state, and 188 KiB of frames for its stage 2. To reach: the state, and the five frames
/// that a VM of 64 MiB uses (two of the first level, two of the second, one of the third).
fn memory(found: &Found) -> Vec<Row> {
    let (of_vm, of_vcpu) = found.memory();
    let kibibytes = |bytes: Option<f64>| bytes.map(|bytes| bytes / 1024.0);
    let images = found.images.as_ref();
    let megabytes = |of: fn(&Images) -> f64| images.map(|images| of(images) / 1e6);
    let once = megabytes(|images| images.one * ONCE);
    vec![
        row(
            "memory of a VM besides its own",
            "KiB",
            [Some(198.6), kibibytes(of_vm), Some(30.6)],
        ),
        row(
            "memory of a vCPU more",
            "KiB",
            [None, kibibytes(of_vcpu), None],
        ),
        row(
            "image of 8 VMs with one kernel",
            "MB",
            [Some(395.0), megabytes(|all| all.all), once],
        ),
        row(
            "memory of the PC to make it",
            "MB",
            [Some(786.0), megabytes(|all| all.memory), once],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: &[(Case, &str, f64)]) -> Found {
        let mut found = Found::default();
        for (case, figure, value) in values {
            let of_case = found.boots.entry(*case).or_default();
            of_case.insert((*figure).to_owned(), *value);
        }
        found
    }

    fn beside(vms: usize, each: usize) -> Case {
        Case::Beside {
            neighbours: Neighbours::Idle,
            vms,
            each,
        }
    }

    #[test]
    fn each_further_neighbour_is_counted_from_the_first_on() {
        let found = found(&[
            (Case::Alone(Who::Hanok), "physical-timer", 100.0),
            (beside(1, 1), "physical-timer", 700.0),
            (beside(7, 8), "physical-timer", 810.0),
        ]);
        let all = rows(&found);
        assert_eq!(all[0].now, Some(2.0));
        assert_eq!(
            (all[0].is_reached(), all[1].is_reached()),
            (Some(true), None)
        );
        assert_eq!(course(&found, Neighbours::Idle, "physical-timer").len(), 3);
    }

    #[test]
    fn what_xen_has_stands_beside() {
        let of = |idle, cost| (Case::Xen(idle), "physical-timer", cost);
        let found = found(&[
            of(0, 100.0),
            of(1, 500.0),
            of(7, 1100.0),
            (Case::Xen(7), "wake", 9.0),
        ]);
        let all = rows(&found);
        assert_eq!((all[0].now, all[0].xen), (None, Some(100.0)));
        let wake = |text: &str| all.iter().find(|row| row.what.contains(text)).unwrap().xen;
        assert_eq!((wake("7 idle"), wake("alone")), (Some(9.0), None));
    }

    #[test]
    fn a_vm_s_memory_is_what_free_ram_lacks_besides_the_vms_own_and_the_image() {
        let own = (MEMORY_MIB << 20) as f64;
        let image = 50_000.0;
        let found = found(&[
            (beside(1, 1), FREE, 1e9),
            (beside(1, 1), IMAGE, 300_000.0),
            (beside(7, 1), FREE, 1e9 - 6.0 * (own + 30_000.0) - image),
            (beside(7, 1), IMAGE, 300_000.0 + image),
        ]);
        assert_eq!(found.memory(), (Some(30_000.0), None));
        assert!(
            rows(&found)
                .iter()
                .any(|row| row.unit == "KiB" && row.is_reached() == Some(true))
        );
    }

    #[test]
    fn of_bytes_an_instruction_more_is_better() {
        let start = |mib| Case::Start { mib, others: 0 };
        // 512 MiB more in as many instructions as a fiftieth of it.
        let more = f64::from(512 << 20) / 50.0;
        let found = found(&[
            (start(MEMORY_MIB), "start", 1e6),
            (start(LARGE_MIB), "start", 1e6 + more),
        ]);
        let zeroing = rows(&found).into_iter().find(|row| row.high).unwrap();
        assert_eq!(zeroing.is_reached(), Some(true));
        assert!((zeroing.now.unwrap() - 50.0).abs() < 1e-6);
    }
}
