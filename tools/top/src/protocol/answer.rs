//! Takes an answer's line apart.

use super::{
    CoreLine, Doing, ExitsLine, GroupLine, Heard, Item, Kind, Policy, Promise, RanLine, Slack,
    VcpuId, VcpuLine, Verdict,
};

/// The largest index of a VM, vCPU, core or group that is believed.
const LARGEST: u32 = 4095;
/// The largest length of a name or of a cause in characters.
const LONGEST: usize = 48;

/// What a line says; `None` if it is no line of the protocol.
pub fn parse(line: &str) -> Option<Heard> {
    let mut fields = Fields(line.split(' ').collect::<Vec<_>>().into_iter());
    let word = fields.next()?;
    let item = match word {
        "changed" => {
            let (id, at) = (fields.id()?, fields.number()?);
            return fields.done(Heard::Verdict(Verdict::Changed { id, at }));
        }
        "refused" => return refused(fields),
        "unknown" => {
            let word = fields.next().unwrap_or_default();
            let word = word.chars().take(LONGEST).collect();
            return Some(Heard::Verdict(Verdict::Unknown(word)));
        }
        "vm" => return vm(line),
        "board" => board(&mut fields)?,
        "core" => Item::Core(core(&mut fields)?),
        "group" => Item::Group(group(&mut fields)?),
        "vcpu" => Item::Vcpu(vcpu(&mut fields)?),
        "exits" => Item::Exits(exits(&mut fields)?),
        "ran" => Item::Ran(ran(&mut fields)?),
        "end" => Item::End,
        "unanswered" => Item::Unanswered,
        _ => return None,
    };
    let number = fields.number()?;
    fields.done(Heard::Item(number, item))
}

/// A name may have spaces: it is what stands between the index and the last field.
fn vm(line: &str) -> Option<Heard> {
    let (rest, number) = line.rsplit_once(' ')?;
    let mut parts = rest.splitn(3, ' ').skip(1);
    let (vm, name) = (index(parts.next()?)?, parts.next()?);
    let name = name.chars().take(LONGEST).collect();
    Some(Heard::Item(number.parse().ok()?, Item::Vm(vm, name)))
}

fn refused(mut fields: Fields<'_>) -> Option<Heard> {
    let id = fields.id()?;
    let reason = fields.next()?.chars().take(LONGEST).collect();
    let verdict = Verdict::Refused {
        id,
        reason,
        instant: fields.number()?,
        demand: fields.number()?,
        supply: fields.number()?,
    };
    fields.done(Heard::Verdict(verdict))
}

fn board(fields: &mut Fields<'_>) -> Option<Item> {
    let board = Item::Board {
        frequency: fields.number().filter(|frequency| *frequency > 0)?,
        now: fields.number()?,
        cores: fields.index()?,
        vcpus: fields.index()?,
    };
    Some(board)
}

fn core(fields: &mut Fields<'_>) -> Option<CoreLine> {
    Some(CoreLine {
        cpu: fields.index()?,
        policy: match fields.next()? {
            "turns" => Policy::Turns,
            "deadline" => Policy::Deadline,
            "priority" => Policy::Priority,
            _ => return None,
        },
        slack: match fields.next()? {
            "idle" => Slack::Idle,
            "share" => Slack::Share,
            "reclaim" => Slack::Reclaim,
            "-" => Slack::None,
            _ => return None,
        },
        now: fields.number()?,
        idle: fields.number()?,
        switches: fields.number()?,
        switch_ticks: fields.number()?,
        decisions: fields.number()?,
    })
}

fn group(fields: &mut Fields<'_>) -> Option<GroupLine> {
    Some(GroupLine {
        cpu: fields.index()?,
        group: fields.index()?,
        parent: fields.index_or_none()?,
        promise: promise(fields)?,
        left: fields.number()?,
        used: fields.number()?,
    })
}

fn vcpu(fields: &mut Fields<'_>) -> Option<VcpuLine> {
    Some(VcpuLine {
        id: fields.id()?,
        cpu: fields.index()?,
        group: fields.index_or_none()?,
        doing: match fields.next()? {
            "runs" => Doing::Runs,
            "ready" => Doing::Ready,
            "waits" => Doing::Waits,
            "paused" => Doing::Paused,
            "off" => Doing::Off,
            _ => return None,
        },
        promise: promise(fields)?,
        left: fields.number()?,
        used: fields.number()?,
        extra: fields.number()?,
        throttled: fields.number()?,
        late: fields.number()?,
        switches: fields.number()?,
        stolen: fields.number()?,
    })
}

fn promise(fields: &mut Fields<'_>) -> Option<Promise> {
    Some(Promise {
        kind: match fields.next()? {
            "periodic" => Kind::Periodic,
            "polling" => Kind::Polling,
            "deferrable" => Kind::Deferrable,
            "bandwidth" => Kind::Bandwidth,
            "soft-bandwidth" => Kind::SoftBandwidth,
            "credit" => Kind::Credit,
            "turn" => Kind::Turn,
            _ => return None,
        },
        period: fields.number()?,
        budget: fields.number()?,
        deadline: fields.number()?,
        priority: fields.number()?,
    })
}

fn exits(fields: &mut Fields<'_>) -> Option<ExitsLine> {
    Some(ExitsLine {
        id: fields.id()?,
        cause: fields.next()?.chars().take(LONGEST).collect(),
        count: fields.number()?,
        instructions: fields.number()?,
    })
}

fn ran(fields: &mut Fields<'_>) -> Option<RanLine> {
    let cpu = fields.index()?;
    let (vm, vcpu) = (fields.index_or_none()?, fields.index_or_none()?);
    let (since, until) = (fields.number()?, fields.number()?);
    let who = vm.zip(vcpu).map(|(vm, vcpu)| VcpuId { vm, vcpu });
    (since <= until).then_some(RanLine {
        cpu,
        who,
        since,
        until,
    })
}

fn index(field: &str) -> Option<u32> {
    field.parse().ok().filter(|index| *index <= LARGEST)
}

/// The fields of a line that are not read yet.
struct Fields<'a>(std::vec::IntoIter<&'a str>);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    fn number(&mut self) -> Option<u64> {
        self.next()?.parse().ok()
    }

    fn index(&mut self) -> Option<u32> {
        index(self.next()?)
    }

    /// An index, or the `-` of what has none; `None` where it is neither.
    fn index_or_none(&mut self) -> Option<Option<u32>> {
        match self.next()? {
            "-" => Some(None),
            field => index(field).map(Some),
        }
    }

    fn id(&mut self) -> Option<VcpuId> {
        let (vm, vcpu) = (self.index()?, self.index()?);
        Some(VcpuId { vm, vcpu })
    }

    /// `heard`, if nothing else stands in the line.
    fn done(mut self, heard: Heard) -> Option<Heard> {
        self.0.next().is_none().then_some(heard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_says_what_it_says() {
        let id = VcpuId { vm: 1, vcpu: 2 };
        let Some(Heard::Item(9, Item::Vcpu(vcpu))) =
            parse("vcpu 1 2 3 - runs deferrable 10 5 10 0 4 100 7 6 1 8 2 9")
        else {
            panic!("no vCPU");
        };
        assert_eq!((vcpu.id, vcpu.cpu, vcpu.group), (id, 3, None));
        assert_eq!(
            (vcpu.doing, vcpu.promise.kind),
            (Doing::Runs, Kind::Deferrable)
        );
        assert_eq!((vcpu.used, vcpu.extra, vcpu.throttled), (100, 7, 6));
        assert_eq!((vcpu.late, vcpu.switches, vcpu.stolen), (1, 8, 2));
        let ran = RanLine {
            cpu: 0,
            who: None,
            since: 5,
            until: 6,
        };
        assert_eq!(
            parse("ran 0 - - 5 6 1"),
            Some(Heard::Item(1, Item::Ran(ran)))
        );
        let name = Item::Vm(3, "a \u{1b}[31mname".to_owned());
        assert_eq!(parse("vm 3 a \u{1b}[31mname 8"), Some(Heard::Item(8, name)));
        let yes = Verdict::Changed { id, at: u64::MAX };
        let line = "changed 1 2 18446744073709551615";
        assert_eq!(parse(line), Some(Heard::Verdict(yes)));
        assert!(parse("refused 1 2 overload 5 6 7").is_some());
        assert!(parse("core 0 deadline - 1 2 3 4 5 6").is_some());
        assert!(parse("group 0 1 - periodic 5 1 5 0 1 9 6").is_some());
        assert!(parse("exits 0 0 timer 5 0 6").is_some());
        assert_eq!(parse("end 7"), Some(Heard::Item(7, Item::End)));
    }

    #[test]
    fn what_is_no_line_is_none() {
        for line in [
            "",
            " ",
            "board",
            "board 0 1 1 1 1",
            "board 1 1 99999999 1 1",
            "board 1 1 1 1 1 1",
            "board 1 1 1 -1 1",
            "board 18446744073709551616 1 1 1 1",
            "core 0 maybe - 1 1 1 1 1 1",
            "ran 0 0 0 6 5 1",
            "ran 0 0 0 5 6",
            "vcpu 1 2 3 - runs deferrable 10 5 10",
            "vm 1 2",
            "end",
            "end x",
            "changed 1 2",
            "\u{0}\u{10}",
        ] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn any_garbage_is_taken() {
        let mut seed = 1_u64;
        let words = [
            "vcpu",
            "core",
            "ran",
            "-",
            "9",
            "18446744073709551615",
            "runs",
            "\u{7f}",
            "",
        ];
        for _ in 0..20_000 {
            let mut line = String::new();
            for _ in 0..seed % 23 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                line += words[(seed >> 33) as usize % words.len()];
                line.push(' ');
            }
            seed = seed.wrapping_add(1);
            let _ = parse(line.trim_end());
        }
    }
}
