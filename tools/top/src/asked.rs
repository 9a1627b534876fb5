//! A change in words: `linux.0 period=10ms budget=4ms`, `web weight=512 cap=40`.
//!
//! The vCPU's name is that of the table; times are as a person types them there. What is not named
//! stays as it is on the board, and a deadline that is the period goes with it.

use crate::change::{Change, Promised, needs_period};
use crate::text;
use crate::view::{VcpuView, View};

/// The words for what can be changed.
const WORDS: [&str; 5] = ["period", "budget", "deadline", "weight", "cap"];

/// A change that is asked for in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    who: String,
    /// Times are nanoseconds; in the order of [`WORDS`].
    values: [Option<u64>; 5],
}

impl Asked {
    /// The change that `text` asks for; the error says what would do.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<_> = text.split_whitespace().collect();
        let first = words.iter().position(|word| word.contains('='));
        let (who, settings) = words.split_at(first.unwrap_or(words.len()));
        let mut asked = Self {
            who: who.join(" "),
            ..Self::default()
        };
        if who.is_empty() || settings.is_empty() {
            return Err(
                "it is a vCPU, as the table names it, and what it is to be promised, such as \
                 \"linux.0 period=10ms budget=4ms\" or \"web weight=512 cap=40\""
                    .to_owned(),
            );
        }
        for setting in settings {
            let (word, value) = setting.split_once('=').unwrap_or((setting, ""));
            let place = WORDS.iter().position(|known| *known == word);
            let place = place.ok_or_else(|| {
                let (last, others) = WORDS.split_last().unwrap_or((&"", &[]));
                let others = others.join("=, ");
                format!("{setting}: what can be changed is {others}= and {last}=")
            })?;
            let value = if place < 3 {
                let time = text::parse_time(value);
                time.ok_or_else(|| format!("{setting}: a time is a number and ns, us, ms or s"))?
            } else {
                let number = value.parse();
                number.map_err(|_| format!("{setting}: it is a whole number"))?
            };
            if asked.values[place].replace(value).is_some() {
                return Err(format!("{word} is there twice"));
            }
        }
        let is_of = |values: &[Option<u64>]| values.iter().any(Option::is_some);
        if is_of(&asked.values[..3]) && is_of(&asked.values[3..]) {
            return Err("a vCPU has a budget in each period, or a weight: not both".to_owned());
        }
        Ok(asked)
    }

    /// The change of the board's vCPU that is meant; the error says why there is none.
    pub fn change(&self, view: &View) -> Result<Change, String> {
        let vcpu = self.vcpu(view)?;
        let now = Promised::of(vcpu)
            .ok_or_else(|| format!("{} takes turns: there is no promise to change", vcpu.name))?;
        let [period, budget, deadline, weight, cap] = self.values;
        let is_share = weight.or(cap).is_some();
        let to = match now {
            Promised::Interface { .. } if is_share => {
                return Err(format!("{} has a budget, not a weight", vcpu.name));
            }
            Promised::Share { .. } if !is_share => {
                return Err(format!("{} shares by weight", vcpu.name));
            }
            Promised::Interface {
                period: old,
                budget: given,
                deadline: until,
            } => {
                let period = period.unwrap_or(old);
                let goes_with = until == old || needs_period(vcpu.kind);
                Promised::Interface {
                    period,
                    budget: budget.unwrap_or(given),
                    deadline: deadline.unwrap_or(if goes_with { period } else { until }),
                }
            }
            Promised::Share {
                weight: old,
                cap: most,
            } => Promised::Share {
                weight: weight.unwrap_or(old),
                cap: cap.unwrap_or(most),
            },
        };
        let change = Change { id: vcpu.id, to };
        let checked = change.check(view).map_err(|error| error.to_string());
        checked.map(|()| change)
    }

    /// The vCPU of this name, or the only one of the VM of this name.
    fn vcpu<'a>(&self, view: &'a View) -> Result<&'a VcpuView, String> {
        let who = text::shown(&self.who);
        let full = |vcpu: &VcpuView| format!("{}.{}", vcpu.vm_name, vcpu.id.vcpu);
        let named = |vcpu: &&VcpuView| vcpu.name == who || full(vcpu) == who;
        let mut found: Vec<_> = view.vcpus.iter().filter(named).collect();
        if found.is_empty() {
            let of_vm = |vcpu: &&VcpuView| vcpu.vm_name == who;
            found = view.vcpus.iter().filter(of_vm).collect();
        }
        let list = |vcpus: &mut dyn Iterator<Item = &VcpuView>| {
            let names: Vec<_> = vcpus.map(|vcpu| vcpu.name.as_str()).collect();
            names.join(", ")
        };
        match found.as_slice() {
            [vcpu] => Ok(vcpu),
            [] => {
                let all = list(&mut view.vcpus.iter());
                Err(format!("no vCPU is called {who}: there are {all}"))
            }
            several => {
                let names = list(&mut several.iter().copied());
                Err(format!("{who} is not one vCPU, but {names}: name one"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Heard, VcpuId, parse};
    use crate::report::Report;

    /// A server with a deadline before its period, a bandwidth server, one that takes turns, and two that share.
    fn view() -> View {
        let mut report = Report::default();
        for line in [
            "board 1000000000 5 1 5 1",
            "vm 0 my axes 1",
            "vm 1 linux 1",
            "vm 2 hog 1",
            "vm 3 web 1",
            "vcpu 0 0 0 - runs periodic 5000000 1000000 4000000 0 0 1 0 0 0 0 0 1",
            "vcpu 1 0 0 - runs bandwidth 10000000 2000000 10000000 0 0 1 0 0 0 0 0 1",
            "vcpu 2 0 0 - runs turn 0 0 0 0 0 1 0 0 0 0 0 1",
            "vcpu 3 0 0 - runs credit 256 40 0 0 0 1 0 0 0 0 0 1",
            "vcpu 3 1 0 - runs credit 256 0 0 0 0 1 0 0 0 0 0 1",
        ] {
            match parse(line) {
                Some(Heard::Item(_, item)) => report.add(item),
                other => panic!("{line}: {other:?}"),
            }
        }
        View::of(None, &report)
    }

    fn line(text: &str) -> Result<String, String> {
        Ok(Asked::parse(text)?.change(&view())?.request())
    }

    #[test]
    fn what_is_not_named_stays() {
        for (text, request) in [
            ("my axes budget=1.5ms", "change 0 0 5000000 1500000 4000000"),
            ("my axes.0 period=6", "change 0 0 6000000 1000000 4000000"),
            (
                "my axes deadline=2ms budget=500us",
                "change 0 0 5000000 500000 2000000",
            ),
            // A deadline that is the period goes with it.
            ("linux period=5ms", "change 1 0 5000000 2000000 5000000"),
            ("web.0 weight=512", "weight 3 0 512 40"),
            (" web.1  cap=20 ", "weight 3 1 256 20"),
        ] {
            assert_eq!(line(text), Ok(request.to_owned()), "{text}");
        }
        let id = VcpuId { vm: 3, vcpu: 1 };
        let asked = Asked::parse("web.1 weight=1").unwrap();
        assert_eq!(asked.change(&view()).unwrap().id, id);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("", "it is a vCPU"),
            ("linux", "it is a vCPU"),
            ("period=5ms", "it is a vCPU"),
            ("linux period=5ms quickly", "what can be changed is period="),
            ("linux perod=5ms", "what can be changed is period="),
            ("linux period=", "a time is a number"),
            ("linux period=1h", "a time is a number"),
            ("web.0 weight=many", "whole number"),
            ("web.0 weight=-1", "whole number"),
            ("linux period=5ms period=6ms", "there twice"),
            ("linux period=5ms cap=5", "not both"),
            (
                "nobody period=5ms",
                "no vCPU is called nobody: there are my axes, linux, hog, web.0, web.1",
            ),
            ("web weight=5", "web is not one vCPU, but web.0, web.1"),
            ("hog budget=1ms", "takes turns"),
            ("linux weight=5", "has a budget"),
            ("web.1 budget=5ms", "shares by weight"),
            ("linux budget=0", "budget must be more"),
            ("linux budget=11ms", "must fit into the deadline"),
            ("my axes deadline=6ms", "at most the period"),
            ("web.1 cap=101", "at most 100"),
        ] {
            let said = line(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
