//! A vCPU asks for another interface while the board runs.
//!
//! One question is answered at a time on a pCPU, in steps that the asking vCPU makes in its own time. A yes is a
//! change at the end of one of the vCPU's periods; until then everybody has what they had.

use crate::admission::{Progress, Question, Refusal, Terms};
use crate::tree::Place;
use crate::{Budgets, Entity, Interface};

/// The one question of a core. It stays where it is: to move it takes some hundred instructions.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    /// Who asks, if somebody does.
    of: Option<Of>,
    question: Question,
}

impl Asking {
    /// Nobody asks.
    pub(crate) fn none() -> Self {
        Self {
            of: None,
            question: Question::none(),
        }
    }
}

/// By whom a question was asked, for what, and how far it is.
#[derive(Clone, Copy, Debug)]
struct Of {
    vcpu: Entity,
    wanted: Interface,
    asker: Asker,
    /// How many of the servers in the home are in the question.
    added: usize,
    /// The instant from which on all that others still change has taken effect.
    settled: u64,
    /// When it was asked first, and when it went on last.
    began: u64,
    touched: u64,
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// The question needs further steps.
    More,
    /// Yes: the interface takes effect at this instant.
    Yes(u64),
    /// No.
    No(Refusal),
    /// Another vCPU's question is under way, or a change of which nothing is proven beside another one.
    Busy,
}

/// How many times as long as it may rest a question may last, before others may ask in its place.
const LONGEST: u64 = 10;

/// The number of servers that are added to a question in one step: each costs a division of 128 bits or two. The one
/// that changes costs as much as two, and has a step of its own.
const FEW: usize = 2;

/// On whose behalf a question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The vCPU's guest, whose question gives way to a person's.
    Guest,
    /// A person, whose question no guest's takes the place of.
    Person,
}

impl Budgets<'_> {
    /// Makes a step of the question whether `vcpu` may have `wanted`. Other arguments than before begin another
    /// question. A question that has not gone on for `patience` ticks is given up, and so is one after ten times
    /// that, whatever its vCPU asks for meanwhile, if another one asks.
    pub fn ask(
        &mut self,
        vcpu: Entity,
        wanted: Interface,
        asker: Asker,
        patience: u64,
        now: u64,
    ) -> Answer {
        let cost = self.cost;
        let Some(place) = self.tree().place_of(vcpu) else {
            return Answer::No(Refusal::NothingThere);
        };
        let mut began = now;
        if let Some(asking) = &self.asking.of
            && (asking.vcpu, asking.wanted, asking.asker) != (vcpu, wanted, asker)
        {
            let heard_of = now.saturating_sub(asking.touched) < patience;
            let young = now.saturating_sub(asking.began) < patience.saturating_mul(LONGEST);
            let own = asking.vcpu == vcpu && asking.asker == asker;
            let gives_way = own || asker == Asker::Person && asking.asker == Asker::Guest;
            if heard_of && young && !gives_way {
                return Answer::Busy;
            }
            if own {
                began = asking.began;
            }
            self.asking.of = None;
        }
        let answer = self.step_of(place, (vcpu, wanted, asker), [cost, began, now]);
        let answer = answer.unwrap_or_else(Answer::No);
        if answer != Answer::More {
            self.asking.of = None;
        }
        answer
    }

    /// Whether this question of `vcpu`'s guest is under way.
    pub fn is_asking(&self, vcpu: Entity, wanted: Interface) -> bool {
        let asking = self.asking.of;
        let this = (vcpu, wanted, Asker::Guest);
        asking.is_some_and(|asking| (asking.vcpu, asking.wanted, asking.asker) == this)
    }

    fn step_of(
        &mut self,
        place: Place,
        (vcpu, wanted, asker): (Entity, Interface, Asker),
        [cost, began, now]: [u64; 3],
    ) -> Result<Answer, Refusal> {
        let Some(mut asking) = self.asking.of.take() else {
            let (order, supply) = self.tree().terms_of(place);
            let (_, own) = self
                .tree()
                .member(place, place.at)
                .ok_or(Refusal::NothingThere)?;
            own.kind.suits(wanted)?;
            let terms = Terms {
                order,
                supply,
                cost,
            };
            self.asking.question.begin(terms)?;
            self.asking.of = Some(Of {
                vcpu,
                wanted,
                added: 0,
                settled: now,
                asker,
                began,
                touched: now,
            });
            return Ok(Answer::More);
        };
        asking.touched = now;
        for added in 0..FEW {
            let at = Entity::new(asking.added);
            let member = at.and_then(|at| Some((at, self.tree().member(place, at)?)));
            let Some((at, (pending, server))) = member else {
                // All members are in.
                return Ok(self.conclude(asking, place, now));
            };
            let changes = at == place.at;
            if changes && added > 0 {
                break;
            }
            asking.added += 1;
            if changes {
                // Others may have been granted what this one gives back at that instant, also where it has come and
                // the server, which does not run, has not taken note of it: another change would take its place.
                if pending.is_some() {
                    return Ok(Answer::Busy);
                }
                self.asking.question.add_changed(server, wanted)?;
            } else {
                self.asking.question.add(server)?;
            }
            if let Some(until) = pending.filter(|until| *until > now) {
                asking.settled = asking.settled.max(until);
            }
            if changes {
                break;
            }
        }
        self.asking.of = Some(asking);
        Ok(Answer::More)
    }

    /// Makes a step of a question that has all servers.
    fn conclude(&mut self, asking: Of, place: Place, now: u64) -> Answer {
        if asking.settled > now && !self.asking.question.is_by_bandwidth() {
            return Answer::Busy;
        }
        match self.asking.question.step() {
            Progress::More => {
                self.asking.of = Some(asking);
                Answer::More
            }
            Progress::No(refusal) => Answer::No(refusal),
            Progress::Yes => match self.tree().change(place, asking.wanted, asking.settled) {
                Some(from) => Answer::Yes(from),
                None => Answer::No(Refusal::NothingThere),
            },
        }
    }
}

#[cfg(test)]
mod tests;
