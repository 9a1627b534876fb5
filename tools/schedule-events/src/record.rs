//! Reads what a board has reported (docs/top.md, "The report channel").
//!
//! A core numbers its turns. A report says how many have begun, and the latest ones; the last line is the last
//! turn's. A turn that was written over before it was said is missing in between: the one before it does not end where
//! the one after it begins. So every turn is there, or it is known that one is not.

use std::collections::BTreeMap;

use crate::{Span, append};

use anyhow::{Context, Result, bail, ensure};

/// Who ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vcpu {
    /// The VM's number.
    pub vm: u32,
    /// The vCPU's number in the VM.
    pub vcpu: u32,
}

/// A turn of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Who ran; `None`: nobody.
    pub who: Option<Vcpu>,
    /// Its start.
    pub since: u64,
    /// Its end.
    pub until: u64,
}

/// What a core did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// Each turn that was said, by its number.
    pub turns: BTreeMap<u32, Turn>,
    /// How many switches between vCPUs there were.
    pub switches: u64,
    /// What these took.
    pub switch_ticks: u64,
}

/// A server, as the board has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Its period.
    pub period: u64,
    /// Its budget in each.
    pub budget: u64,
    /// After the period's start.
    pub deadline: u64,
}

/// What was reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Ticks of the counter in a second.
    pub frequency: u64,
    /// The names of VMs.
    pub names: BTreeMap<u32, String>,
    /// The cores.
    pub cores: BTreeMap<u32, Core>,
    /// The promises of vCPUs, by VM and vCPU.
    pub promises: BTreeMap<(u32, u32), Promise>,
    /// The ends of periods that the board has named, by VM and vCPU: each change of an interface takes effect at one.
    pub boundaries: Vec<((u32, u32), u64)>,
}

/// A report of which the end is still to come.
#[derive(Default)]
struct Open {
    number: Option<u64>,
    /// Of each core: how many turns have begun, and those that were said.
    cores: BTreeMap<u32, (u32, Vec<Turn>)>,
}

impl Core {
    /// Who had the core, by the names that `name` gives; it gives none to those who are not to be told apart.
    pub fn spans(&self, name: impl Fn(Vcpu) -> Option<String>) -> Vec<Span> {
        let mut spans = Vec::new();
        for turn in self.turns.values() {
            let span = Span {
                who: turn.who.and_then(&name),
                since: turn.since,
                until: turn.until,
            };
            append(&mut spans, span);
        }
        spans
    }
}

impl Record {
    /// Reads the text of a report channel.
    ///
    /// # Errors
    /// A line is not as it is to be, no report is complete, or a turn was lost.
    pub fn read(text: &str) -> Result<Self> {
        let mut record = Self::default();
        let mut open = Open::default();
        for line in text.lines() {
            record
                .line(line, &mut open)
                .with_context(|| format!("the report's line {line:?}"))?;
        }
        ensure!(record.frequency > 0, "there is no report");
        ensure!(open.number.is_none(), "the last report is not complete");
        for (core, said) in &record.cores {
            whole(&said.turns).with_context(|| format!("core {core}"))?;
        }
        Ok(record)
    }

    fn line(&mut self, line: &str, open: &mut Open) -> Result<()> {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["board", frequency, _, _, _, number] => {
                self.frequency = frequency.parse()?;
                *open = Open {
                    number: Some(number.parse()?),
                    ..Open::default()
                };
            }
            ["vm", vm, ref name @ .., _] => {
                self.names.insert(vm.parse()?, name.join(" "));
            }
            [
                "vcpu",
                vm,
                vcpu,
                _,
                _,
                _,
                kind,
                period,
                budget,
                deadline,
                ..,
            ] if !matches!(kind, "credit" | "turn") => {
                let promise = Promise {
                    period: period.parse()?,
                    budget: budget.parse()?,
                    deadline: deadline.parse()?,
                };
                self.promises.insert((vm.parse()?, vcpu.parse()?), promise);
            }
            ["core", core, _, _, _, _, switches, ticks, begun, number] => {
                ensure!(open.number == Some(number.parse()?), "of another report");
                let core = core.parse()?;
                let own = self.cores.entry(core).or_default();
                own.switches = switches.parse()?;
                own.switch_ticks = ticks.parse()?;
                open.cores.insert(core, (begun.parse()?, Vec::new()));
            }
            ["ran", core, vm, vcpu, since, until, number] => {
                ensure!(open.number == Some(number.parse()?), "of another report");
                let turn = Turn {
                    who: who(vm, vcpu)?,
                    since: since.parse()?,
                    until: until.parse()?,
                };
                let core = open.cores.get_mut(&core.parse()?);
                core.context("before its core's line")?.1.push(turn);
            }
            ["end", number] => {
                ensure!(open.number == Some(number.parse()?), "of another report");
                self.close(core::mem::take(open))?;
            }
            ["changed", vm, vcpu, at] => {
                let at = at.parse()?;
                self.boundaries.push(((vm.parse()?, vcpu.parse()?), at));
            }
            _ => {}
        }
        Ok(())
    }

    /// Numbers the turns of a report that is complete.
    fn close(&mut self, open: Open) -> Result<()> {
        for (core, (begun, turns)) in open.cores {
            let own = self.cores.entry(core).or_default();
            for (behind, turn) in (1..).zip(turns.into_iter().rev()) {
                let number = begun.wrapping_sub(behind);
                // One that went on when it was said before has come to its end since.
                let before = own.turns.insert(number, turn);
                if let Some(before) = before {
                    let same = (before.who, before.since) == (turn.who, turn.since);
                    ensure!(same, "core {core}'s turn {number} is said in two ways");
                }
            }
        }
        Ok(())
    }

    /// Who a vCPU is, as a description's components are called: the VM's name; of several vCPUs, with the number.
    pub fn name(&self, vcpu: Vcpu) -> [String; 2] {
        let name = self.names.get(&vcpu.vm).cloned().unwrap_or_default();
        let numbered = format!("{name}.{}", vcpu.vcpu);
        [name, numbered]
    }
}

fn who(vm: &str, vcpu: &str) -> Result<Option<Vcpu>> {
    Ok(match (vm, vcpu) {
        ("-", "-") => None,
        (vm, vcpu) => Some(Vcpu {
            vm: vm.parse()?,
            vcpu: vcpu.parse()?,
        }),
    })
}

/// Every turn between the first and the last one is there, and begins where the one before it ends.
fn whole(turns: &BTreeMap<u32, Turn>) -> Result<()> {
    for ((number, turn), (next, after)) in turns.iter().zip(turns.iter().skip(1)) {
        if number.wrapping_add(1) != *next {
            bail!("turns were lost: after number {number} comes {next}");
        }
        if turn.until != after.since {
            bail!(
                "turns were lost: number {number} ends at {}, and the next one that was said begins at {}",
                turn.until,
                after.since
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "board 62500000 99 1 2 7\nvm 0 axis x 7\n\
        vcpu 0 0 0 - off periodic 250 50 240 0 0 11 0 2 0 2 4 7\nvcpu 1 0 0 - waits credit 256 0 0 0 0 3 0 0 0 9 1 7\n\
        core 0 deadline idle 99 11 16 320 8 7\nran 0 0 0 10 20 7\nran 0 - - 20 35 7\nran 0 1 0 35 36 7\n\
        ran 0 0 0 36 40 7\nend 7\nchanged 0 0 1234\n";

    #[test]
    fn turns_are_numbered_from_the_last_one() {
        let record = Record::read(REPORT).unwrap();
        let core = &record.cores[&0];
        assert!(core.turns.keys().copied().eq(4..8));
        assert_eq!((core.switches, core.switch_ticks), (16, 320));
        assert_eq!(record.name(Vcpu { vm: 0, vcpu: 2 }), ["axis x", "axis x.2"]);
        assert_eq!(record.boundaries, [((0, 0), 1234)]);
        assert_eq!(record.promises.len(), 1);
        assert_eq!(record.promises[&(0, 0)].deadline, 240);
        let spans = core.spans(|vcpu| (vcpu.vm == 0).then(|| "axis".to_owned()));
        let axis = Some("axis".to_owned());
        let ends: Vec<_> = spans.iter().map(|span| (&span.who, span.until)).collect();
        assert_eq!(ends, [(&axis, 20), (&None, 36), (&axis, 40)]);
    }

    #[test]
    fn a_second_report_goes_on_where_the_first_one_ended() {
        let more = "board 62500000 150 1 2 8\ncore 0 deadline idle 150 11 16 320 9 8\n\
            ran 0 0 0 36 44 8\nran 0 - - 44 50 8\nend 8\n";
        let both = format!("{REPORT}{more}");
        let record = Record::read(&both).unwrap();
        assert!(record.cores[&0].turns.keys().copied().eq(4..9));
        assert_eq!(record.cores[&0].turns[&7].until, 44);
        // One that is said in two ways, and one that is missing between both.
        assert!(Record::read(&both.replace("36 44", "37 44")).is_err());
        let lost = both.replace("320 9 8", "320 10 8");
        assert!(Record::read(&lost).is_err());
    }

    #[test]
    fn a_turn_that_was_lost_is_an_error() {
        for lost in ["ran 0 - - 20 35 7\n", "ran 0 1 0 35 36 7\n"] {
            let why = Record::read(&REPORT.replace(lost, "")).unwrap_err();
            assert!(format!("{why:#}").contains("lost"), "{why:#}");
        }
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        for wrong in [
            "",
            "changed 0 0 1234\n",
            &REPORT.replace("ran 0 0 0 10 20 7", "ran 0 0 0 ten 20 7"),
            &REPORT.replace("ran 0 0 0 10 20 7", "ran 0 0 0 10 20 6"),
            &REPORT.replace("end 7", "end 6"),
            &REPORT.replace("end 7\n", ""),
        ] {
            assert!(Record::read(wrong).is_err(), "{wrong}");
        }
    }
}
