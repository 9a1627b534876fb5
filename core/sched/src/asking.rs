//! A vCPU asks for another interface while the board runs.
//!
//! One question is answered at a time on a pCPU, in steps that the asking vCPU makes in its own time. A yes is a
//! change at the end of one of the vCPU's periods; until then everybody has what they had.

use crate::admission::{Progress, Question, Refusal, Terms};
use crate::tree::Place;
use crate::{Budgets, Entity, EntitySet, Interface};

/// The one question of a core, and whose turn is next. It stays where it is: to move it takes some hundred instructions.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    /// Who asks, if somebody does.
    of: Option<Of>,
    question: Question,
    /// The vCPUs whose guests were told to ask later, since somebody else asked.
    waiting: EntitySet,
    /// Who may begin a question next. Nobody else may, but for a person.
    turn: Option<Turn>,
}

impl Asking {
    /// Nobody asks.
    pub(crate) fn none() -> Self {
        Self {
            of: None,
            question: Question::none(),
            waiting: EntitySet::EMPTY,
            turn: None,
        }
    }
}

/// A vCPU, and who asks about it.
type Who = (Entity, Asker);

/// By whom a question was asked, for what, and how far it is.
#[derive(Clone, Copy, Debug)]
struct Of {
    who: Who,
    wanted: Interface,
    /// How many of the servers in the home are in the question.
    added: usize,
    /// The instant from which on all that others still change has taken effect.
    settled: u64,
    /// When it was asked first, and when it went on last.
    began: u64,
    touched: u64,
}

/// The right to begin the next question.
#[derive(Clone, Copy, Debug)]
struct Turn {
    who: Who,
    /// When the question began for which it is kept while earlier changes take effect; `None`: it has not begun.
    began: Option<u64>,
    /// When it ends, if it was not used.
    until: u64,
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
    /// The question was not taken, or was given up: ask again at this instant. Another vCPU's question is under way or is
    /// next, or an earlier change has not taken effect yet.
    Later(u64),
}

/// The part of the time that a question may last for which it may rest.
const REST: u64 = 8;

/// The part of that time after which somebody who found another one's question there asks again.
const AGAIN: u64 = 64;

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
    /// question. A question that has not gone on for an eighth of `longest` ticks is given up, and so is one after
    /// `longest`, whatever its vCPU asks for meanwhile, if another one asks.
    ///
    /// Guests that find another one's question there have the next turns, one after the other in the order of their
    /// vCPUs. A turn lasts until the vCPU begins a question, and at most an eighth of `longest`, or one of its periods, of
    /// which it may be awake at one instant alone; but never more than `longest`.
    // Kept out of line: a caller that is compiled for speed would have all of this compiled so.
    #[inline(never)]
    pub fn ask(
        &mut self,
        vcpu: Entity,
        wanted: Interface,
        asker: Asker,
        longest: u64,
        now: u64,
    ) -> Answer {
        let who = (vcpu, asker);
        let Some(place) = self.tree().place_of(vcpu) else {
            return Answer::No(Refusal::NothingThere);
        };
        let mut began = now;
        if let Some(of) = self.asking.of
            && (of.who, of.wanted) != (who, wanted)
        {
            let lasts = now.saturating_sub(of.touched) < longest / REST
                && now.saturating_sub(of.began) < longest;
            let own = of.who == who;
            if lasts && own {
                began = of.began;
            } else if lasts && (asker == Asker::Guest || of.who.1 == Asker::Person) {
                return self.later(who, longest, now);
            } else {
                if lasts {
                    self.asking.waiting.insert(of.who.0);
                }
                self.pass_on(of.who.0, longest, now);
            }
            self.asking.of = None;
        }
        if self.asking.of.is_none() {
            match self.take_turn(who, longest, now) {
                Some(kept) => began = kept.unwrap_or(began),
                None => return self.later(who, longest, now),
            }
        }
        let answer = self.step_of(place, (who, wanted), [longest, began, now]);
        let answer = answer.unwrap_or_else(Answer::No);
        if answer != Answer::More {
            self.asking.of = None;
            self.pass_on(vcpu, longest, now);
        }
        answer
    }

    /// Tells somebody who finds others asking to ask again, and notes that a guest waits.
    fn later(&mut self, (vcpu, asker): Who, longest: u64, now: u64) -> Answer {
        if asker == Asker::Guest {
            self.asking.waiting.insert(vcpu);
        }
        Answer::Later(now + longest / AGAIN)
    }

    /// Gives the next turn to the next vCPU after `last` that waits, unless somebody has it already.
    #[inline(never)]
    fn pass_on(&mut self, last: Entity, longest: u64, now: u64) {
        if self.asking.turn.is_some() {
            return;
        }
        self.asking.turn = self.asking.waiting.after(last).map(|next| {
            let period = self.tree.interface(next).map_or(0, Interface::period);
            Turn {
                who: (next, Asker::Guest),
                began: None,
                until: now + period.max(longest / REST).min(longest),
            }
        });
    }

    /// Takes the turn to begin a question, if `who` has it or nobody has. Returns when that question began, if it had to
    /// wait for earlier changes since.
    fn take_turn(&mut self, who: Who, longest: u64, now: u64) -> Option<Option<u64>> {
        if let Some(turn) = self.asking.turn.take_if(|turn| turn.until <= now) {
            self.asking.waiting.remove(turn.who.0);
            self.pass_on(turn.who.0, longest, now);
        }
        let own = self.asking.turn.take_if(|turn| turn.who == who);
        if who.1 == Asker::Guest {
            if self.asking.turn.is_some() {
                return None;
            }
            self.asking.waiting.remove(who.0);
        }
        Some(own.and_then(|turn| turn.began))
    }

    /// Whether this question of `vcpu`'s guest is under way.
    pub fn is_asking(&self, vcpu: Entity, wanted: Interface) -> bool {
        let asking = self.asking.of;
        let this = ((vcpu, Asker::Guest), wanted);
        asking.is_some_and(|asking| (asking.who, asking.wanted) == this)
    }

    fn step_of(
        &mut self,
        place: Place,
        (who, wanted): (Who, Interface),
        [longest, began, now]: [u64; 3],
    ) -> Result<Answer, Refusal> {
        let Some(mut asking) = self.asking.of.take() else {
            let (order, supply) = self.tree().terms_of(place);
            let (pending, own) = self
                .tree()
                .member(place, place.at)
                .ok_or(Refusal::NothingThere)?;
            own.kind.suits(wanted)?;
            // Others may have been granted what this one gives back at that instant, also where it has come and
            // the server, which does not run, has not taken note of it: another change would take its place.
            if let Some(until) = pending
                && !self.tree().take_note(place, now)
            {
                return Ok(Answer::Later(until.max(now + longest / AGAIN)));
            }
            let terms = Terms {
                order,
                supply,
                cost: self.cost,
            };
            self.asking.question.begin(terms)?;
            self.asking.of = Some(Of {
                who,
                wanted,
                added: 0,
                settled: now,
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
                return Ok(self.conclude(asking, place, longest, now));
            };
            let changes = at == place.at;
            if changes && added > 0 {
                break;
            }
            asking.added += 1;
            if changes {
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
    fn conclude(&mut self, asking: Of, place: Place, longest: u64, now: u64) -> Answer {
        if asking.settled > now && !self.asking.question.is_by_bandwidth() {
            // Its turn is kept until then, as others' changes would put it off again and again.
            let until = asking.settled.min(asking.began + longest);
            self.asking.turn = Some(Turn {
                who: asking.who,
                began: Some(asking.began),
                until: until + longest / REST,
            });
            return Answer::Later(asking.settled);
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
