//! What an emulator does not show: cycles of the operations that it counts, on two CPUs without virtualization extensions.
//!
//! An estimate, and no measurement of this project's: nobody ran it on such a CPU. Few of the costs are published, so
//! each is a range. Its lower end is the least that the pipeline makes certain, its upper end takes what the operation
//! makes slower later for as bad as can be said. [`SOURCES`] names what is published, [`COSTS`] says how each range
//! comes from it. An instruction itself counts as one cycle: both CPUs begin two at best, and fewer where caches miss;
//! no figure for kernels is published.

use std::collections::BTreeMap;

use crate::model::Operations;

/// A CPU that is estimated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// Cortex-A8.
    CortexA8,
    /// Cortex-A9.
    CortexA9,
}

impl Cpu {
    /// Both.
    pub const ALL: [Self; 2] = [Self::CortexA8, Self::CortexA9];

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::CortexA8 => "Cortex-A8",
            Self::CortexA9 => "Cortex-A9",
        }
    }
}

/// The least and the most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl Range {
    const fn new(low: u32, high: u32) -> Self {
        Self {
            low: low as f64,
            high: high as f64,
        }
    }

    fn plus(self, other: Self, times: f64) -> Self {
        Self {
            low: self.low + other.low * times,
            high: self.high + other.high * times,
        }
    }
}

/// The cycles beyond its own one of operations of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// For people.
    pub title: &'static str,
    /// The operations, by their names in results.
    pub operations: &'static [&'static str],
    /// On a Cortex-A8.
    pub cortex_a8: Range,
    /// On a Cortex-A9.
    pub cortex_a9: Range,
    /// How the ranges come from [`SOURCES`], whose numbers stand in brackets.
    pub why: &'static str,
}

impl Cost {
    /// On `cpu`.
    pub fn on(&self, cpu: Cpu) -> Range {
        match cpu {
            Cpu::CortexA8 => self.cortex_a8,
            Cpu::CortexA9 => self.cortex_a9,
        }
    }
}

/// What is published, with numbers from 1 on.
pub const SOURCES: [&str; 6] = [
    "ARM DDI 0344 (Cortex-A8 TRM), 5.6: invalidating branch predictions is a NOP; its table of memory effects, as printed in \
     W. Stallings, Computer Organization and Architecture, table 14.2: 24 cycles for a data TLB miss whose tables are in the L2 \
     cache, 8 for an L1 miss that finds its data there at once",
    "Cortex-A8: 13 stages of its integer pipeline (ARM; Wikipedia, ARM Cortex-A8), so 13 cycles to fill it again; Cortex-A9: 8 to 11 stages \
     (ARM's white paper on it, not looked up again)",
    "J. Hennessy, D. Patterson, Computer Architecture, 5th ed., 2.6: on a Cortex-A8 at 1 GHz 11 cycles for an L1 miss, 60 for \
     an L2 miss",
    "ARM DDI 0388 (Cortex-A9 TRM): a unified main TLB of 64 to 512 entries (4.3.2) behind micro TLBs (6.2); no cycles are \
     given for TLBs, caches or CP15",
    "Cortex-A5 as in Microchip's data sheet of the SAMA5, 14.6.3.1: TLB maintenance and writes of CONTEXTIDR, DACR, PRRR, NMRR, \
     TTBR0 and TTBR1 flush the micro TLBs; taken for the Cortex-A9, whose TLBs have the same two levels",
    "ARM DDI 0458 (Cortex-R7 TRM), A.6.1, of a core of the Cortex-A9's kind: SVC, undefined instructions, aborts, exception returns, \
     MSR of control bits, CPS, DSB and each MCR of CP15 are serializing",
];

/// The costs, by kind of operation.
pub const COSTS: [Cost; 15] = [
    Cost {
        title: "exception taken",
        operations: &[
            "taken-undefined",
            "taken-call",
            "taken-fetch",
            "taken-access",
            "taken-interrupt",
        ],
        cortex_a8: Range::new(13, 24),
        cortex_a9: Range::new(8, 24),
        why: "the pipeline fills again [2], on a Cortex-A9 its 8 to 11 stages; at most the vector also misses in L1 [3]",
    },
    Cost {
        title: "exception return",
        operations: &["return"],
        cortex_a8: Range::new(13, 24),
        cortex_a9: Range::new(8, 24),
        why: "as an exception that is taken [2, 3, 6]",
    },
    Cost {
        title: "ISB",
        operations: &["isb"],
        cortex_a8: Range::new(13, 24),
        cortex_a9: Range::new(8, 24),
        why: "the pipeline fills again [2]; at most what follows misses in L1 [3]",
    },
    Cost {
        title: "status registers written",
        operations: &["status-write"],
        cortex_a8: Range::new(0, 13),
        cortex_a9: Range::new(0, 11),
        why: "serializing [6]; not published: between nothing and filling the pipeline again",
    },
    Cost {
        title: "other system registers written, thread registers",
        operations: &["system-write", "thread-register", "translation"],
        cortex_a8: Range::new(0, 13),
        cortex_a9: Range::new(0, 11),
        why: "serializing [6]; not published: between nothing and filling the pipeline again",
    },
    Cost {
        title: "system registers read",
        operations: &["system-read"],
        cortex_a8: Range::new(0, 13),
        cortex_a9: Range::new(0, 11),
        why: "not published: between nothing and filling the pipeline again",
    },
    Cost {
        title: "DACR written",
        operations: &["dacr"],
        cortex_a8: Range::new(0, 13),
        cortex_a9: Range::new(0, 35),
        why: "as other registers; on a Cortex-A9 the micro TLBs are flushed [5]: at most one walk's cycles more [1]",
    },
    Cost {
        title: "table base, TTBCR, CONTEXTIDR written",
        operations: &["table-base", "context-id"],
        cortex_a8: Range::new(0, 13),
        cortex_a9: Range::new(0, 35),
        why: "as DACR: with ASIDs the main TLB keeps its entries [4, 5]",
    },
    Cost {
        title: "TLB, all of it or an ASID",
        operations: &["tlb-all", "tlb-asid"],
        cortex_a8: Range::new(48, 1536),
        cortex_a9: Range::new(48, 3072),
        why: "at least one instruction and one data entry are walked for again, at most all 64 of a Cortex-A8, and 128 of a \
              Cortex-A9 (of 64 to 512 [4]); 24 cycles each [1], on a Cortex-A9 too, for which nothing is published",
    },
    Cost {
        title: "TLB, an address",
        operations: &["tlb-address"],
        cortex_a8: Range::new(0, 24),
        cortex_a9: Range::new(0, 35),
        why: "at most one entry is walked for again [1]; on a Cortex-A9 the micro TLBs are flushed, too [5]",
    },
    Cost {
        title: "instruction cache, all of it",
        operations: &["icache-all"],
        cortex_a8: Range::new(11, 5632),
        cortex_a9: Range::new(11, 11_264),
        why: "at least one line is fetched again from L2, at most all 32 KB, in lines of 64 and of 32 bytes; 11 cycles each [3]",
    },
    Cost {
        title: "cache, a line",
        operations: &["icache-address", "dcache-address", "dcache-set"],
        cortex_a8: Range::new(0, 60),
        cortex_a9: Range::new(0, 60),
        why: "not published: at most it goes to memory and is fetched again [3]",
    },
    Cost {
        title: "branch predictions",
        operations: &["branch-predictor"],
        cortex_a8: Range::new(0, 0),
        cortex_a9: Range::new(0, 11),
        why: "a NOP on a Cortex-A8 [1]; on a Cortex-A9 serializing [6]; branches that are predicted wrongly later are not in it",
    },
    Cost {
        title: "DSB, DMB",
        operations: &["dsb", "dmb"],
        cortex_a8: Range::new(0, 60),
        cortex_a9: Range::new(0, 60),
        why: "not published: it waits for accesses that are under way, at most for one to memory [3]",
    },
    Cost {
        title: "shadow fill",
        operations: &["shadow-fill"],
        cortex_a8: Range::new(24, 84),
        cortex_a9: Range::new(24, 84),
        why: "the access that is done again walks for the new entry [1], at most from memory [3]; the abort and its return count by themselves",
    },
];

/// Operations that stand for others that count by themselves.
const UNCOSTED: [&str; 5] = [
    "exit-undefined",
    "exit-call",
    "exit-fetch",
    "exit-access",
    "exit-interrupt",
];

/// Whether the model knows the operation of this name.
pub fn is_costed(operation: &str) -> bool {
    let has = |cost: &Cost| cost.operations.contains(&operation);
    UNCOSTED.contains(&operation) || COSTS.iter().any(has)
}

/// The cycles beyond one for each instruction of so many of each operation, on `cpu`.
fn beyond(counts: &BTreeMap<String, u64>, cpu: Cpu) -> Range {
    let of = |cost: &Cost| {
        let counts = cost.operations.iter().filter_map(|name| counts.get(*name));
        counts.sum::<u64>() as f64
    };
    let all = COSTS.iter();
    all.fold(Range::default(), |sum, cost| {
        sum.plus(cost.on(cpu), of(cost))
    })
}

/// What one operation of a row is estimated to take on a CPU, natively and in Hanok.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Natively, beyond a cycle for each instruction.
    pub native: Range,
    /// In Hanok, likewise.
    pub ours: Range,
    /// All of ours over all of native's, with the low and with the high costs on both sides.
    pub ratio: Range,
}

impl Estimate {
    /// Of the same row on both sides; `None` where nothing was done.
    pub fn of(native: &Operations, ours: &Operations, cpu: Cpu) -> Option<Self> {
        let each = |side: &Operations| {
            let all = beyond(&side.counts, cpu);
            (side.times > 0.0).then(|| Range::default().plus(all, 1.0 / side.times))
        };
        let (extra, beyond) = (each(native)?, each(ours)?);
        let (base, own) = (native.instructions(), ours.instructions());
        let ratio = |native: f64, ours: f64| (own + ours) / (base + native);
        let ends = [ratio(extra.low, beyond.low), ratio(extra.high, beyond.high)];
        Some(Self {
            native: extra,
            ours: beyond,
            ratio: Range {
                low: ends[0].min(ends[1]),
                high: ends[0].max(ends[1]),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Side;

    fn operations(side: Side, times: f64, others: u64, counts: &[(&str, u64)]) -> Operations {
        Operations {
            figure: "pipe".into(),
            side,
            of: "one".into(),
            times,
            hypervisor: 0,
            others,
            counts: counts
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
        }
    }

    #[test]
    fn an_estimate_is_of_one_operation_and_has_both_ends() {
        let native = operations(Side::Native, 10.0, 1000, &[("return", 10)]);
        let ours = operations(
            Side::Hanok,
            5.0,
            1000,
            &[("return", 10), ("taken-call", 5), ("exit-call", 5)],
        );
        let found = Estimate::of(&native, &ours, Cpu::CortexA8).unwrap();
        assert_eq!(found.native, Range::new(13, 24));
        // Two returns and one exception; an exit costs what it does.
        assert_eq!(found.ours, Range::new(39, 72));
        let low = (200.0 + 39.0) / (100.0 + 13.0);
        let high = (200.0 + 72.0) / (100.0 + 24.0);
        assert_eq!(found.ratio, Range { low, high }.ordered());
        let none = operations(Side::Hanok, 0.0, 0, &[]);
        assert_eq!(Estimate::of(&native, &none, Cpu::CortexA9), None);
    }

    impl Range {
        fn ordered(self) -> Self {
            Self {
                low: self.low.min(self.high),
                high: self.low.max(self.high),
            }
        }
    }

    #[test]
    fn each_cost_is_a_range_with_a_reason_and_no_operation_counts_twice() {
        let mut seen = Vec::new();
        for cost in &COSTS {
            for cpu in Cpu::ALL {
                let range = cost.on(cpu);
                assert!(
                    0.0 <= range.low && range.low <= range.high,
                    "{}",
                    cost.title
                );
            }
            // Either a source is named, or that there is none.
            let named = (1..=SOURCES.len()).any(|source| cost.why.contains(&source.to_string()));
            assert!(
                named || cost.why.contains("not published"),
                "{}",
                cost.title
            );
            for operation in cost.operations {
                assert!(!seen.contains(operation), "{operation}");
                assert!(!UNCOSTED.contains(operation), "{operation}");
                seen.push(operation);
            }
        }
        assert!(is_costed("dacr") && is_costed("exit-call") && !is_costed("nothing"));
    }
}
