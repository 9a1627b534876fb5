//! A change that a person asks for.

use anyhow::{Result, ensure};
use hanok_task_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::protocol::{Kind, VcpuId, Verdict};
use crate::text;
use crate::view::{VcpuView, View};

/// The largest weight, and the largest cap in percent, that a board knows.
pub const MOST_WEIGHT: u64 = 65_535;
const MOST_CAP: u64 = 100;

/// What a vCPU is to be promised. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Promised {
    /// A budget in each period.
    Interface {
        /// The period.
        period: u64,
        /// The budget.
        budget: u64,
        /// The deadline.
        deadline: u64,
    },
    /// A share by weight.
    Share {
        /// The weight.
        weight: u64,
        /// The cap in percent; 0: none.
        cap: u64,
    },
}

impl Promised {
    /// What a vCPU is promised now; `None` of one that takes turns.
    pub fn of(vcpu: &VcpuView) -> Option<Self> {
        match vcpu.kind {
            Kind::Turn => None,
            Kind::Credit => Some(Self::Share {
                weight: vcpu.weight,
                cap: vcpu.cap,
            }),
            _ => Some(Self::Interface {
                period: vcpu.period,
                budget: vcpu.budget,
                deadline: vcpu.deadline,
            }),
        }
    }

    /// The words for it.
    pub fn words(&self) -> String {
        match self {
            Self::Interface {
                period,
                budget,
                deadline,
            } => {
                let [budget, within, period_text] =
                    [budget, deadline, period].map(|nanos| text::time(*nanos));
                if deadline == period {
                    format!("{budget} in {period_text}")
                } else {
                    format!("{budget} within {within} in {period_text}")
                }
            }
            Self::Share { weight, cap: 0 } => format!("weight {weight}"),
            Self::Share { weight, cap } => format!("weight {weight}, cap {cap} %"),
        }
    }
}

/// A change of one vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The vCPU.
    pub id: VcpuId,
    /// What it is to be promised.
    pub to: Promised,
}

impl Change {
    /// Checks what no board can take: each answer says what would do.
    pub fn check(&self, view: &View) -> Result<()> {
        let vcpu = view.vcpu(self.id);
        let vcpu = vcpu.ok_or_else(|| anyhow::anyhow!("the board has no such vCPU now"))?;
        match (self.to, vcpu.kind) {
            (_, Kind::Turn) => {
                anyhow::bail!("{} takes turns: there is no promise to change", vcpu.name)
            }
            (
                Promised::Interface {
                    period,
                    budget,
                    deadline,
                },
                kind,
            ) if kind.is_server() => {
                let most = Nanos::MAX.get();
                ensure!(period > 0, "the period must be more than 0");
                ensure!(budget > 0, "the budget must be more than 0");
                ensure!(period <= most, "a period is at most {}", text::time(most));
                ensure!(budget <= deadline, "the budget must fit into the deadline");
                ensure!(deadline <= period, "the deadline is at most the period");
                ensure!(
                    !needs_period(kind) || deadline == period,
                    "the deadline of a {} server is its period",
                    kind.word()
                );
                Ok(())
            }
            (Promised::Share { weight, cap }, Kind::Credit) => {
                ensure!(
                    (1..=MOST_WEIGHT).contains(&weight),
                    "a weight is 1 to {MOST_WEIGHT}"
                );
                ensure!(
                    cap <= MOST_CAP,
                    "a cap is at most {MOST_CAP} percent; 0 is none"
                );
                Ok(())
            }
            (Promised::Interface { .. }, _) => anyhow::bail!("{} shares by weight", vcpu.name),
            (Promised::Share { .. }, _) => {
                anyhow::bail!("{} has a budget, not a weight", vcpu.name)
            }
        }
    }

    /// The line for the board.
    pub fn request(&self) -> String {
        let VcpuId { vm, vcpu } = self.id;
        match self.to {
            Promised::Interface {
                period,
                budget,
                deadline,
            } => format!("change {vm} {vcpu} {period} {budget} {deadline}"),
            Promised::Share { weight, cap } => format!("weight {vm} {vcpu} {weight} {cap}"),
        }
    }
}

/// Whether the deadline of a kind of server is always its period.
pub const fn needs_period(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Deferrable | Kind::Bandwidth | Kind::SoftBandwidth
    )
}

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The board has taken it: it holds from this tick of its counter on.
    Changed(u64),
    /// The board has not taken it.
    Refused,
    /// The board has not answered: it may have taken it all the same.
    Unanswered,
}

/// The reason that a run gives where its board says nothing.
const NO_ANSWER: &str = "unanswered";
/// What is said then.
pub(crate) const UNANSWERED: &str =
    "the board did not answer: look whether it has changed all the same";

/// How a change ended that was answered so.
pub fn fate(verdict: &Verdict) -> Fate {
    match verdict {
        Verdict::Changed { at, .. } => Fate::Changed(*at),
        Verdict::Refused { reason, .. } if reason == NO_ANSWER => Fate::Unanswered,
        Verdict::Refused { .. } | Verdict::Unknown(_) => Fate::Refused,
    }
}

/// What a board said about a change, in words. Ticks are of a counter with `frequency`.
pub fn words(verdict: &Verdict, frequency: u64, now: u64) -> String {
    let nanos = |ticks: u64| {
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(frequency.max(1));
        text::time(u64::try_from(nanos).unwrap_or(u64::MAX))
    };
    match verdict {
        Verdict::Changed { at, .. } => match at.saturating_sub(now) {
            0 => "changed".to_owned(),
            // What is known of the board's clock is a report old.
            later => format!("changed; it takes effect within {}", nanos(later)),
        },
        Verdict::Refused {
            reason,
            instant,
            demand,
            supply,
            ..
        } => {
            let why = match reason.as_str() {
                "overload" => "the core would be promised more than all of its time",
                "late" => "a promise would be late",
                "hopeless" => "its budget could never be given in time",
                "unproven" => "nothing is proven of this kind of server here",
                "undecided" => "the board's test would take too long",
                "busy" if *instant > 0 => {
                    let after = nanos(*instant);
                    return format!(
                        "not yet: an earlier change takes effect in {after}; try again"
                    );
                }
                "busy" => "another change is under way; try again",
                "invalid" => "the board does not take these values",
                "not-allowed" => "the board allows no changes of this vCPU",
                "transition" => {
                    "a promise could be late while this takes the place of what there is"
                }
                NO_ANSWER => return UNANSWERED.to_owned(),
                other => return format!("the board says no: {}", text::shown(other)),
            };
            if *instant > 0 {
                format!(
                    "the board says no: {why} ({} after the worst release {} are needed, {} there)",
                    nanos(*instant),
                    nanos(*demand),
                    nanos(*supply)
                )
            } else {
                format!("the board says no: {why}")
            }
        }
        Verdict::Unknown(word) => {
            format!("the board does not know the request {}", text::shown(word))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::protocol::{Heard, parse};
    use crate::report::Report;

    pub(crate) const ID: VcpuId = VcpuId { vm: 0, vcpu: 0 };

    /// A board with one vCPU of this kind.
    pub(crate) fn view(kind: &str) -> View {
        let mut report = Report::default();
        for line in [
            "board 1000000000 5 1 1 1".to_owned(),
            format!("vcpu 0 0 0 - runs {kind} 1000 500 1000 0 0 1 0 0 0 0 0 1"),
        ] {
            if let Some(Heard::Item(_, item)) = parse(&line) {
                report.add(item);
            }
        }
        View::of(None, &report)
    }

    fn interface(period: u64, budget: u64, deadline: u64) -> Change {
        let to = Promised::Interface {
            period,
            budget,
            deadline,
        };
        Change { id: ID, to }
    }

    #[test]
    fn only_what_a_board_can_take_is_asked() {
        let periodic = view("periodic");
        assert!(interface(10, 5, 10).check(&periodic).is_ok());
        assert!(interface(10, 5, 7).check(&periodic).is_ok());
        let refused = |change: Change, view: &View| change.check(view).unwrap_err().to_string();
        assert!(refused(interface(0, 0, 0), &periodic).contains("period must be"));
        assert!(refused(interface(10, 0, 10), &periodic).contains("budget must be"));
        assert!(refused(interface(10, 8, 7), &periodic).contains("fit into"));
        assert!(refused(interface(10, 8, 11), &periodic).contains("at most the period"));
        let huge = interface(u64::MAX, u64::MAX, u64::MAX);
        assert!(refused(huge, &periodic).contains("at most"));
        assert!(refused(interface(10, 5, 7), &view("bandwidth")).contains("its period"));
        assert!(refused(interface(10, 5, 10), &view("turn")).contains("takes turns"));
        let share = |weight, cap| Change {
            id: ID,
            to: Promised::Share { weight, cap },
        };
        let credit = view("credit");
        assert!(share(256, 0).check(&credit).is_ok());
        assert!(share(0, 0).check(&credit).is_err());
        assert!(share(65_536, 0).check(&credit).is_err());
        assert!(share(1, 101).check(&credit).is_err());
        assert!(share(256, 0).check(&periodic).is_err());
        let mut other = share(256, 0);
        other.id.vcpu = 1;
        assert!(other.check(&credit).is_err());
        let longest = interface(u64::MAX, u64::MAX, u64::MAX).request();
        assert!(longest.len() < 119, "{longest}");
    }

    #[test]
    fn answers_are_sentences() {
        let says = |line: &str| {
            let Some(Heard::Verdict(verdict)) = parse(line) else {
                panic!("{line}");
            };
            words(&verdict, 1_000_000, 1000)
        };
        assert_eq!(
            says("changed 0 0 3000"),
            "changed; it takes effect within 2ms"
        );
        assert_eq!(says("changed 0 0 5"), "changed");
        let no = says("refused 0 0 late 5000 3000 2000");
        assert!(no.contains("a promise would be late (5ms after"), "{no}");
        assert!(says("refused 0 0 busy 2000000000 0 0").contains("takes effect in 2"));
        assert!(says("refused 0 0 transition 0 0 0").contains("while this takes the place"));
        assert_eq!(says("refused 0 0 unanswered 0 0 0"), UNANSWERED);
        assert!(says("refused 0 0 moon\x1b 0 0 0").contains("moon\\x1b"));
        assert!(says("unknown change").contains("does not know"));
    }

    #[test]
    fn what_nobody_answered_was_not_refused() {
        let ended = |line: &str| match parse(line) {
            Some(Heard::Verdict(verdict)) => fate(&verdict),
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(ended("changed 0 0 3000"), Fate::Changed(3000));
        assert_eq!(ended("refused 0 0 busy 0 0 0"), Fate::Refused);
        assert_eq!(ended("unknown change"), Fate::Refused);
        assert_eq!(ended("refused 0 0 unanswered 0 0 0"), Fate::Unanswered);
    }
}
