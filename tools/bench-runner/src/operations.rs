//! From what the plugin counted of a row to what one operation of the row does.
//!
//! A row is run with one round and again with more. What the second stretch has more than the first is of rounds
//! alone: the start of the program, its search for how often its loop must run, and its end are in both. (Where that search
//! takes longer than the rounds, it is that loop, too, and the second stretch counts as a whole. A row that takes half a second
//! and more with one round is counted once, as a whole: some programs of lmbench make each round a second long.) How many operations
//! that is follows from the time: under icount an instruction is a nanosecond, and the row itself says how
//! long an operation takes.

use std::collections::BTreeMap;

use hanok_bench::{Figure, Operations, Side, Unit};
use hanok_profile::report::Stretch;

use super::counting::{Counted, KERNEL_TO_SHELL};
use super::rows::Found;

/// What a boot gave whose operations were counted.
#[derive(Default)]
pub struct Given {
    /// The figures that come from counts: the kernel's way to a shell.
    pub values: Vec<(&'static str, f64)>,
    /// What it should have given and did not, with the reasons.
    pub lacking: Vec<String>,
    /// The operations of each row.
    pub operations: Vec<Operations>,
}

/// What a boot on `side` gave of `figures`.
pub fn given(side: Side, found: &Found, figures: &[&'static Figure], counted: &[Counted]) -> Given {
    let mut given = Given::default();
    for figure in figures {
        let of: Vec<_> = counted
            .iter()
            .filter(|one| one.figure == figure.id)
            .flat_map(|one| &one.stretches)
            .collect();
        if figure.id == KERNEL_TO_SHELL {
            match of[..] {
                [all] => {
                    let total = Totals::of(all);
                    given.values.push((figure.id, total.instructions() as f64));
                }
                _ => given.lacking.push(format!(
                    "{KERNEL_TO_SHELL}: where the unpacked kernel starts is not known"
                )),
            }
            continue;
        }
        match row(side, found, figure, &of) {
            Ok(row) => given.operations.push(row),
            Err(why) => given.lacking.push(format!("{}: {why}", figure.id)),
        }
    }
    given
}

/// What the stretches `of` one row come to.
fn row(
    side: Side,
    found: &Found,
    figure: &Figure,
    of: &[&Stretch],
) -> Result<Operations, &'static str> {
    let (few, more) = match of {
        [] => return Err("its operations were not counted"),
        [all] => (None, all),
        [few, .., more] => (Some(few), more),
    };
    let value = found
        .values
        .get(figure.id)
        .ok_or("the row gave no value where its operations were counted")?;
    let (few, more) = (few.map(|few| Totals::of(few)), Totals::of(more));
    let rounds = match &few {
        Some(few) => more.rounds(few),
        None => more,
    };
    let overhead = found.overheads.get(figure.id).copied();
    let each = Each::of(figure, *value, overhead);
    let instructions = (rounds.hypervisor + rounds.others) as f64;
    if instructions == 0.0 {
        return Err("no instruction was counted");
    }
    Ok(Operations {
        figure: figure.id.to_owned(),
        side,
        of: each.of.to_owned(),
        times: instructions * each.share / each.instructions,
        hypervisor: rounds.hypervisor,
        others: rounds.others,
        counts: rounds.counts,
    })
}

/// One operation of a row.
struct Each {
    /// What it is.
    of: &'static str,
    /// How many instructions it takes.
    instructions: f64,
    /// The share of the row's rounds that does it.
    share: f64,
}

impl Each {
    /// Of a row whose value is `value`.
    fn of(figure: &Figure, value: f64, overhead: Option<f64>) -> Self {
        let (of, instructions) = match figure.unit {
            Unit::MegabytesPerSecond => ("a megabyte", 1e9 / value),
            Unit::Nanoseconds => ("a thousand", value * 1000.0),
            _ => ("one", value * 1000.0),
        };
        match (figure.id, overhead) {
            // lat_ctx takes off what a turn takes without a switch, which it measures for as long before.
            (_, Some(overhead)) => Self {
                of,
                instructions: instructions + overhead * 1000.0,
                share: 0.5,
            },
            // lat_pagefault measures mapping and unmapping for as long before.
            ("pagefault", _) => Self {
                of,
                instructions,
                share: 0.5,
            },
            _ => Self {
                of,
                instructions,
                share: 1.0,
            },
        }
    }
}

/// What all CPUs did in a stretch.
struct Totals {
    hypervisor: u64,
    others: u64,
    counts: BTreeMap<String, u64>,
}

impl Totals {
    fn of(stretch: &Stretch) -> Self {
        let mut totals = Self {
            hypervisor: 0,
            others: 0,
            counts: BTreeMap::new(),
        };
        for cpu in &stretch.cpus {
            totals.hypervisor += cpu.hypervisor;
            totals.others += cpu.others;
            for (operation, count) in &cpu.operations {
                let all = totals.counts.entry(operation.id().to_owned());
                *all.or_default() += count;
            }
        }
        totals
    }

    /// What this has more than `less`, of fewer rounds, if that is at least half of it, else all of it. An operation that
    /// came less often, by chance, counts as none.
    fn rounds(self, less: &Self) -> Self {
        let (all, before) = (self.instructions(), less.instructions());
        if before * 2 > all {
            return self;
        }
        let counts = self.counts.iter().map(|(name, count)| {
            let before = less.counts.get(name).copied().unwrap_or_default();
            (name.clone(), count.saturating_sub(before))
        });
        Self {
            hypervisor: self.hypervisor.saturating_sub(less.hypervisor),
            others: self.others.saturating_sub(less.others),
            counts: counts.filter(|(_, count)| *count > 0).collect(),
        }
    }

    fn instructions(&self) -> u64 {
        self.hypervisor + self.others
    }
}

#[cfg(test)]
mod tests {
    use hanok_profile::operations::Operation;
    use hanok_profile::report::Cpu;

    use super::*;
    use crate::rows;

    fn stretch(hypervisor: u64, others: u64, flushes: u64) -> Stretch {
        Stretch {
            cpus: vec![Cpu {
                hypervisor,
                others,
                operations: vec![(Operation::TlbAll, flushes), (Operation::Dsb, 5)],
                ..Cpu::default()
            }],
            ..Stretch::default()
        }
    }

    fn counted(figure: &str, stretch: Stretch) -> Counted {
        Counted {
            figure: figure.to_owned(),
            rounds: None,
            stretches: vec![stretch],
        }
    }

    fn figures(ids: &[&str]) -> Vec<&'static Figure> {
        ids.iter().filter_map(|id| Figure::find(id)).collect()
    }

    #[test]
    fn what_is_in_both_stretches_is_no_operations() {
        let found = rows::read(
            "bench: begin pipe\nPipe latency: 2.0 microseconds\nbench: end pipe 0\n\
             bench: begin bw-pipe\nPipe bandwidth: 500.0 MB/sec\nbench: end bw-pipe 0\n\
             bench: begin sem\nSemaphore latency: 1.0 microseconds\nbench: end sem 0\n\
             bench: begin ctx-2\n\"size=32k ovr=1.00\n2 4.00\nbench: end ctx-2 0\n",
        );
        let counted = [
            counted("kernel-to-shell", stretch(700, 300, 0)),
            counted("pipe", stretch(1_000, 9_000, 2)),
            counted("bw-pipe", stretch(0, 10, 0)),
            counted("ctx-2", stretch(0, 0, 0)),
            counted("pipe", stretch(5_000, 25_000, 12)),
            counted("bw-pipe", stretch(0, 20_000_010, 3)),
            counted("ctx-2", stretch(10_000, 10_000, 4)),
            counted("sem", stretch(0, 5_000, 0)),
        ];
        let wanted = figures(&["kernel-to-shell", "pipe", "bw-pipe", "ctx-2", "sem"]);
        let given = given(Side::Hanok, &found, &wanted, &counted);
        assert_eq!(given.lacking, Vec::<String>::new());
        assert_eq!(given.values, [("kernel-to-shell", 1000.0)]);
        let [pipe, bandwidth, switch, search] = &given.operations[..] else {
            panic!("{:?}", given.operations)
        };
        // 20,000 instructions more, of 2,000 each.
        assert_eq!((pipe.times, pipe.hypervisor), (10.0, 4_000));
        assert_eq!(pipe.counts, [("tlb-all".to_owned(), 10)].into());
        // A megabyte at 500 MB/s takes 2 ms.
        assert_eq!((bandwidth.times, &*bandwidth.of), (10.0, "a megabyte"));
        // It took so long with one round that it was counted once.
        assert_eq!(search.times, 5.0);
        // Half of the rounds are of turns without a switch; one with it takes 5 us.
        assert_eq!(switch.times, 2.0);
    }

    #[test]
    fn what_was_not_counted_is_said() {
        let found =
            rows::read("bench: begin pipe\nPipe latency: 2.0 microseconds\nbench: end pipe 0\n");
        let wanted = figures(&["kernel-to-shell", "pipe", "fork"]);
        let twice = |first, second| [counted("pipe", first), counted("pipe", second)];
        let given = given(
            Side::Hanok,
            &found,
            &wanted,
            &twice(stretch(0, 0, 0), stretch(0, 0, 0)),
        );
        assert!(given.values.is_empty() && given.operations.is_empty());
        let said: Vec<_> = given.lacking.iter().map(|why| &why[..6]).collect();
        assert_eq!(said, ["kernel", "pipe: ", "fork: "]);
    }

    #[test]
    fn each_operation_that_is_counted_has_a_cost() {
        for operation in Operation::ALL {
            let known = hanok_bench::is_costed(operation.id());
            assert!(known, "{} has no cost", operation.id());
        }
    }
}
