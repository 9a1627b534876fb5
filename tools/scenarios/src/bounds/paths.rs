//! Which path of the list (`tools/paths/paths.toml`) an exit is, and whether one is longer than listed.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, ensure};
use hanok_paths::{List, Machine};
use hanok_profile::code::Entry;
use hanok_profile::reason;
use hanok_profile::report::{Reason, Stretch};

/// How the rows in which budgets are enforced begin.
pub const BUDGETS: &str = "budgets, ";
/// The rows in which a report is said, in which another interface is wished for, and in which a person uses the prompt.
pub const REPORT: &str = "a report";
pub const WISH: &str = "a wish";
const PROMPT: &str = "the prompt";
/// The pages of the interrupt controller, as [`reason::words`] shows them.
const CONTROLLER: &str = "0x08";

/// The longest exit of a path, and where it was.
#[derive(Clone, Debug)]
struct Longest {
    most: u64,
    row: String,
    reason: String,
}

/// The longest exit of each path, of all stretches that were added.
#[derive(Debug, Default)]
pub struct Found(BTreeMap<&'static str, Longest>);

impl Found {
    /// Adds the exits of a row.
    pub fn add(&mut self, row: &str, stretch: &Stretch) {
        for exit in stretch.cpus.iter().flat_map(|cpu| &cpu.exits) {
            let Some(most) = exit.costs.iter().map(|(cost, _)| *cost).max() else {
                continue;
            };
            let path = path_of(row, &exit.reason);
            let so_far = self.0.get(path).map_or(0, |longest| longest.most);
            if most > so_far {
                let longest = Longest {
                    most,
                    row: row.to_owned(),
                    reason: reason::words(&exit.reason),
                };
                self.0.insert(path, longest);
            }
        }
    }

    /// A line for each path; an error if one is longer than it is listed, or is not listed for the machine.
    ///
    /// # Errors
    /// Has the lines.
    pub fn judged(&self, machine: Machine) -> Result<String> {
        let list = List::own()?;
        let (mut said, mut over) = (String::new(), 0);
        for (name, longest) in &self.0 {
            let path = list.path(name).context(longest.row.clone())?;
            let listed = path.most(machine);
            let Longest { most, row, reason } = longest;
            let mark = if *most > listed { "  LONGER" } else { "" };
            over += usize::from(*most > listed);
            writeln!(
                said,
                "path {name}: {most} of {listed} listed ({row}, {reason}){mark}"
            )?;
        }
        ensure!(
            over == 0,
            "{over} paths are longer than tools/paths/paths.toml lists:\n{said}"
        );
        Ok(said)
    }
}

/// The name of the path that an exit of a row takes.
pub fn path_of(row: &str, reason: &Reason) -> &'static str {
    let budgets = row.starts_with(BUDGETS);
    let words = reason::words(reason);
    // A vCPU that sleeps in its own turn is woken by the line, which is served in the exit of its WFI.
    let served = matches!(reason.entry, Entry::Interrupt | Entry::Turn) || words.starts_with("WFI");
    match reason.entry {
        _ if served && row.ends_with(REPORT) => "report",
        _ if served && row.ends_with(WISH) => "wish",
        _ if served && row.ends_with(PROMPT) => "prompt",
        Entry::Interrupt if budgets => "own",
        Entry::Interrupt => "interrupt",
        Entry::Turn if budgets => "look",
        Entry::Turn => "life",
        _ => by_words(&words, row),
    }
}

fn by_words(words: &str, row: &str) -> &'static str {
    if words.starts_with("HVC") || words.starts_with("SMC") {
        return if row.ends_with("questions") {
            "question"
        } else {
            "call"
        };
    }
    let access = words.strip_prefix("read of ");
    let access = access.or_else(|| words.strip_prefix("write to "));
    match access {
        Some(page) if page.starts_with(CONTROLLER) => "register",
        Some(_) => "device",
        None if words.starts_with("WFI") => "wait",
        None => "trap",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanok_profile::report::{Cpu, Exit};

    fn reason(entry: Entry, syndrome: Option<u64>, detail: Option<u64>) -> Reason {
        Reason {
            entry,
            syndrome,
            detail,
        }
    }

    fn stretch(reason: Reason, cost: u64) -> Stretch {
        let exits = vec![Exit {
            reason,
            costs: vec![(cost, 1), (1, 9)],
        }];
        Stretch {
            cpus: vec![Cpu {
                exits,
                ..Cpu::default()
            }],
            ..Stretch::default()
        }
    }

    #[test]
    fn each_exit_has_its_path() {
        let sync = |syndrome, detail| reason(Entry::Synchronous, Some(syndrome), detail);
        let interrupt = reason(Entry::Interrupt, None, None);
        let turn = reason(Entry::Turn, None, None);
        for (row, reason, path) in [
            ("x", interrupt, "interrupt"),
            ("budgets, short waits", interrupt, "own"),
            ("budgets, a report", interrupt, "report"),
            ("budgets, a wish", turn, "wish"),
            ("the prompt", turn, "prompt"),
            ("budgets, SGIs", turn, "look"),
            ("a neighbour's lives", turn, "life"),
            ("x", sync(0x5a00_0000, Some(0xc600_0012)), "call"),
            ("budgets, questions", sync(0x5a00_0000, None), "question"),
            ("x", sync(0x0600_0000, None), "wait"),
            // The pages of GICD and of the PL011, and memory.
            ("x", sync(0x9000_0040, Some(0x8_0000)), "register"),
            ("x", sync(0x9000_0000, Some(0x9_0000)), "device"),
            ("x", sync(0x9000_0040, Some(0x40_0010)), "device"),
            ("x", sync(1_647_312_905, None), "trap"),
        ] {
            assert_eq!(path_of(row, &reason), path, "{row} {reason:?}");
            List::own().unwrap().path(path).unwrap();
        }
    }

    #[test]
    fn what_is_longer_than_listed_is_found() {
        let wait = reason(Entry::Synchronous, Some(0x0600_0000), None);
        let listed = List::own()
            .unwrap()
            .path("wait")
            .unwrap()
            .most(Machine::Arm);
        let mut found = Found::default();
        found.add("a", &stretch(wait, listed));
        found.add("b", &stretch(wait, 7));
        let said = found.judged(Machine::Arm).unwrap();
        assert!(said.contains("(a, WFI, WFE)"), "{said}");
        found.add("c", &stretch(wait, listed + 1));
        let said = format!("{:#}", found.judged(Machine::Arm).unwrap_err());
        assert!(said.contains("(c, WFI, WFE)  LONGER"), "{said}");
    }
}
