//! Turns counts of addresses into counts of functions, lines and reasons.

use std::collections::{BTreeMap, BTreeSet};

use crate::reason;
use crate::report::{Cpu, Stretch};
use crate::symbols::{Frame, Line, Symbols};

/// Where the instructions of one or more stretches went.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// By CPU of the board.
    pub cpus: Vec<Total>,
    /// By function; the one with the most instructions first.
    pub functions: Vec<Function>,
    /// By line of source, likewise.
    pub lines: Vec<(Line, String, u64)>,
    /// Which function is inlined into which.
    pub tree: Node,
    /// By reason of the exit.
    pub exits: Vec<Exits>,
}

/// How much was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// By the hypervisor.
    pub hypervisor: u64,
    /// By guests and everything else.
    pub others: u64,
    /// How many exits ended.
    pub exits: u64,
}

/// A function's instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The lowest address of it that was executed.
    pub place: Option<Line>,
    /// Its own instructions, wherever it is inlined.
    pub own: u64,
    /// Its own instructions and those of the functions inlined into it.
    pub with_inlined: u64,
}

/// A function, and those inlined into it there.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its instructions, with those inlined into it.
    pub count: u64,
    /// By name.
    pub inlined: BTreeMap<String, Node>,
}

/// The exits of one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exits {
    /// The reason, as [`crate::reason`] words it.
    pub reason: String,
    /// How many exits.
    pub number: u64,
    /// The instructions of all of them.
    pub total: u64,
    /// The instructions of the shortest one.
    pub least: u64,
    /// The median.
    pub median: u64,
    /// The instructions of the longest one.
    pub most: u64,
}

impl Profile {
    /// The profile of all `stretches` together.
    pub fn of(stretches: &[Stretch], symbols: &Symbols) -> Self {
        let mut profile = Self {
            cpus: totals(stretches),
            exits: exits(stretches),
            ..Self::default()
        };
        let mut functions = BTreeMap::new();
        let mut lines = BTreeMap::new();
        for (address, count) in addresses(stretches) {
            let frames = symbols.frames(address);
            profile.tree.add(&frames, count);
            add_functions(&mut functions, &frames, count);
            if let Some(Frame {
                function,
                line: Some(line),
            }) = frames.first()
            {
                *lines.entry((line.clone(), function.clone())).or_default() += count;
            }
        }
        profile.functions = functions.into_values().collect();
        profile
            .functions
            .sort_by(|a, b| b.own.cmp(&a.own).then_with(|| a.name.cmp(&b.name)));
        profile.lines = lines
            .into_iter()
            .map(|((line, name), count)| (line, name, count))
            .collect();
        profile
            .lines
            .sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
        profile
    }

    /// The counts of all CPUs together.
    pub fn total(&self) -> Total {
        self.cpus.iter().fold(Total::default(), |sum, cpu| Total {
            hypervisor: sum.hypervisor + cpu.hypervisor,
            others: sum.others + cpu.others,
            exits: sum.exits + cpu.exits,
        })
    }
}

impl Node {
    fn add(&mut self, frames: &[Frame], count: u64) {
        self.count += count;
        if let Some((outermost, inlined)) = frames.split_last() {
            let node = self.inlined.entry(outermost.function.clone());
            node.or_default().add(inlined, count);
        }
    }
}

/// How often each instruction ran, whatever the CPU.
fn addresses(stretches: &[Stretch]) -> BTreeMap<u64, u64> {
    let mut addresses = BTreeMap::new();
    for cpu in stretches.iter().flat_map(|stretch| &stretch.cpus) {
        for (address, count) in &cpu.counts {
            *addresses.entry(*address).or_default() += count;
        }
    }
    addresses
}

fn totals(stretches: &[Stretch]) -> Vec<Total> {
    let number = stretches.iter().map(|stretch| stretch.cpus.len()).max();
    let mut totals = vec![Total::default(); number.unwrap_or(0)];
    for stretch in stretches {
        for (total, cpu) in totals.iter_mut().zip(&stretch.cpus) {
            total.hypervisor += cpu.hypervisor;
            total.others += cpu.others;
            total.exits += ended(cpu);
        }
    }
    totals
}

fn ended(cpu: &Cpu) -> u64 {
    let costs = cpu.exits.iter().flat_map(|exit| &exit.costs);
    costs.map(|(_, number)| number).sum()
}

fn add_functions(
    functions: &mut BTreeMap<(String, Option<String>), Function>,
    frames: &[Frame],
    count: u64,
) {
    // A function that is inlined into itself counts once.
    let mut seen = BTreeSet::new();
    for (depth, frame) in frames.iter().enumerate() {
        // Debug information has names without their modules: the file tells them apart.
        let file = frame.line.as_ref().map(|line| line.file.clone());
        let key = (frame.function.clone(), file);
        if !seen.insert(key.clone()) {
            continue;
        }
        let function = functions.entry(key).or_default();
        function.name.clone_from(&frame.function);
        function.with_inlined += count;
        if depth == 0 {
            function.own += count;
        }
        function.place = first(function.place.take(), frame.line.as_ref());
    }
}

/// The first known line of those that were executed.
fn first(known: Option<Line>, line: Option<&Line>) -> Option<Line> {
    let number = |line: &Line| line.number.wrapping_sub(1);
    match (known, line) {
        (Some(known), Some(line)) if number(line) < number(&known) => Some(line.clone()),
        (None, line) => line.cloned(),
        (known, _) => known,
    }
}

fn exits(stretches: &[Stretch]) -> Vec<Exits> {
    let mut reasons = BTreeMap::<String, BTreeMap<u64, u64>>::new();
    let all = stretches.iter().flat_map(|stretch| &stretch.cpus);
    for exit in all.flat_map(|cpu| &cpu.exits) {
        let costs = reasons.entry(reason::words(&exit.reason)).or_default();
        for (cost, number) in &exit.costs {
            *costs.entry(*cost).or_default() += number;
        }
    }
    let mut exits: Vec<_> = reasons
        .into_iter()
        .filter_map(|(reason, costs)| {
            let number = costs.values().sum();
            Some(Exits {
                reason,
                number,
                total: costs.iter().map(|(cost, number)| cost * number).sum(),
                least: *costs.first_key_value()?.0,
                median: median(&costs, number)?,
                most: *costs.last_key_value()?.0,
            })
        })
        .collect();
    exits.sort_by_key(|exits| std::cmp::Reverse(exits.total));
    exits
}

/// The lower one of two middle ones.
fn median(costs: &BTreeMap<u64, u64>, number: u64) -> Option<u64> {
    let mut before = 0;
    let middle = costs.iter().find(|(_, number_of)| {
        before += **number_of;
        before * 2 >= number
    });
    middle.map(|(cost, _)| *cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::report::{Exit, Reason};

    fn stretch(counts: &[(u64, u64)], costs: &[(u64, u64)]) -> Stretch {
        let reason = Reason {
            entry: crate::code::Entry::Interrupt,
            syndrome: None,
            detail: None,
        };
        let counts: Vec<_> = counts
            .iter()
            .map(|(at, count)| (fake::BASE + at, *count))
            .collect();
        Stretch {
            cpus: vec![Cpu {
                hypervisor: counts.iter().map(|(_, count)| count).sum(),
                others: 1,
                counts,
                exits: vec![Exit {
                    reason,
                    costs: costs.to_vec(),
                }],
                operations: Vec::new(),
            }],
            ..Stretch::default()
        }
    }

    #[test]
    fn nothing_is_lost() {
        let symbols = Symbols::parse(&fake::elf(), "/").unwrap();
        let stretches = [
            stretch(&[(0, 1), (4, 2), (64, 10)], &[(13, 1)]),
            stretch(&[(64, 10), (68, 5)], &[(5, 2), (9, 1)]),
        ];
        let profile = Profile::of(&stretches, &symbols);
        assert_eq!(
            (profile.total().hypervisor, profile.total().others),
            (28, 2)
        );
        let functions: Vec<_> = profile
            .functions
            .iter()
            .map(|f| (&*f.name, f.own))
            .collect();
        assert_eq!(functions, [("hanok_vectors", 25), ("start", 3)]);
        assert_eq!(profile.tree.count, 28);
        let exits = &profile.exits[0];
        assert_eq!((exits.number, exits.total), (4, 32));
        assert_eq!((exits.least, exits.median, exits.most), (5, 5, 13));
        assert_eq!(exits.reason, "interrupt");
    }

    #[test]
    fn the_lower_of_two_middle_ones() {
        let median_of = |costs: &[(u64, u64)]| {
            let costs: BTreeMap<_, _> = costs.iter().copied().collect();
            median(&costs, costs.values().sum())
        };
        assert_eq!(median_of(&[(1, 1), (2, 1)]), Some(1));
        assert_eq!(median_of(&[(1, 1), (2, 1), (3, 1)]), Some(2));
        assert_eq!(median_of(&[(1, 1), (2, 9)]), Some(2));
        assert_eq!(median_of(&[]), None);
    }
}
