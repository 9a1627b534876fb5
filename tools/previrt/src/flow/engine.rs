//! Follows code from its roots.
//!
//! There are two kinds of lines. A line that is reached from certain code, by branches or by
//! running straight on, is code. Every other line is a *guess* that names its origin: the address
//! from which it was followed first. A guess is wrong if it runs into data, into the middle of an
//! instruction, out of the text or into an instruction that nobody would have written, or if better
//! code loads it as data. A wrong origin is blocked, and all guesses are made again without it,
//! until none is wrong.

use super::jump::Before;
use super::marks::{DataOverlap, Mark, Marks};
use super::memory::Memory;
use super::pointer::Pointer;
use super::step::{FlowStep, Jump, Next, step};
use super::{Root, Start};
use crate::sweep::advance;
use hanok_decode::aarch32::{Isa, ItState, Register};
use std::collections::{HashSet, VecDeque};
use std::ops::Range;

/// How often all guesses are made again. Guesses that are wrong after that stay unproven.
const MAX_PASSES: usize = 10;

/// Why a line is thought to be code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It is certain.
    Proven,
    /// Code or data names, calls or points to it: the address.
    Named(u32),
    /// It stands behind a call, or a guessed table names it: the address.
    Guessed(u32),
}

impl Origin {
    const fn address(self) -> Option<u32> {
        match self {
            Self::Proven => None,
            Self::Named(address) | Self::Guessed(address) => Some(address),
        }
    }
}

/// A jump whose targets are not all known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unresolved {
    at: u32,
    isa: Isa,
    by: Jump,
    origin: Origin,
}

/// Whether a line of code goes on at the next instruction.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Continuation {
    /// The next instruction may be executed.
    Falls,
    /// The line ends.
    Ends,
}

impl Continuation {
    /// After a branch: the next instruction is executed if the branch has a condition that fails.
    const fn if_conditional(conditional: bool) -> Self {
        if conditional { Self::Falls } else { Self::Ends }
    }
}

/// A line of code that is only a guess.
struct GuessedLine {
    addresses: Range<u32>,
    origin: Origin,
}

/// Follows the code of an image: certain code once, and guesses as often as there are new ones.
pub struct Follower<'a> {
    walk: Pass<'a>,
    /// The marks of what is certain.
    base: Marks,
    /// The branches of certain code whose targets are not all known.
    unresolved: Vec<Unresolved>,
    /// The places behind calls of certain code.
    behind: VecDeque<(Root, Origin)>,
    /// The places where code probably begins.
    likely: Vec<Root>,
    /// Whether nothing was wrong in the last pass, so that the next one continues from its result.
    settled: bool,
}

impl<'a> Follower<'a> {
    /// Follows what is certain of the code of `memory` within `text`. `data` are the marks of what
    /// is known to be data.
    pub fn new(memory: Memory<'a>, text: &'a [(u32, u32)], starts: &'a Start, data: Marks) -> Self {
        let certain = starts.certain.iter();
        let mut walk = Pass {
            memory,
            text,
            marks: data,
            named: &starts.named,
            areas: &starts.areas,
            proven: certain.map(|root| (*root, Origin::Proven)).collect(),
            later: VecDeque::new(),
            lines: Vec::new(),
            clashes: Vec::new(),
            blocked: HashSet::new(),
            wrong: Vec::new(),
            odd: Vec::new(),
            unresolved: Vec::new(),
            understood: true,
        };
        walk.run_proven();
        walk.resolve(false);
        Self {
            base: walk.marks.clone(),
            unresolved: walk.unresolved.clone(),
            behind: std::mem::take(&mut walk.later),
            likely: Vec::new(),
            settled: false,
            walk,
        }
    }

    /// Follows likely roots and guesses, too, and `more` roots than the last time. A guess that was
    /// wrong before is not made again. Returns the places near which a guess was wrong to the end.
    pub fn guess(&mut self, more: &[Root]) -> Vec<u32> {
        let walk = &mut self.walk;
        let named = |root: &Root| (*root, Origin::Named(root.address));
        self.likely.extend(more);
        walk.later.extend(more.iter().map(named));
        for pass in 1.. {
            if !self.settled {
                walk.begin(&self.base, &self.unresolved);
                walk.later = self.likely.iter().map(named).collect();
                walk.later.extend(self.behind.iter().copied());
            }
            walk.run();
            walk.resolve(true);
            let wrong = walk.judge();
            let before = walk.blocked.len();
            walk.blocked
                .extend(wrong.iter().filter_map(|(_, origin)| origin.address()));
            self.settled = wrong.is_empty();
            if walk.blocked.len() == before || pass == MAX_PASSES {
                let places = wrong.iter().map(|(at, _)| *at);
                return places.chain(walk.odd.iter().copied()).collect();
            }
        }
        Vec::new()
    }

    /// The addresses of branches whose targets were not found, or not all of them.
    pub fn unresolved(&self) -> Vec<u32> {
        let jumps = self.walk.unresolved.iter();
        jumps.map(|jump| jump.at).collect()
    }

    /// What each halfword is.
    pub fn marks(&self) -> &Marks {
        &self.walk.marks
    }

    /// Ends the search, and returns what each halfword is.
    pub fn into_marks(self) -> Marks {
        self.walk.marks
    }
}

/// One pass over the image.
pub(super) struct Pass<'a> {
    pub(super) memory: Memory<'a>,
    text: &'a [(u32, u32)],
    pub(super) marks: Marks,
    /// The addresses at which functions begin.
    named: &'a HashSet<u32>,
    /// The areas that hold trampolines.
    areas: &'a [Range<u32>],
    /// The roots to follow at once.
    proven: Vec<(Root, Origin)>,
    /// The guesses to follow when no other root is left.
    later: VecDeque<(Root, Origin)>,
    lines: Vec<GuessedLine>,
    /// The ranges that code loads, and that had been marked as code before.
    clashes: Vec<Range<u32>>,
    /// The origins of lines that were wrong.
    blocked: HashSet<u32>,
    /// The places where a guess was wrong, and its origin.
    wrong: Vec<(u32, Origin)>,
    /// The places where proven code does something that code does not do.
    odd: Vec<u32>,
    /// The branches whose targets were not found, or not all of them.
    unresolved: Vec<Unresolved>,
    /// Whether the targets of the jump in hand were all found.
    pub(super) understood: bool,
}

impl Pass<'_> {
    fn run_proven(&mut self) {
        while let Some((root, origin)) = self.proven.pop() {
            self.line(root, origin);
        }
    }

    fn run(&mut self) {
        while let Some((root, origin)) = self.later.pop_front() {
            self.line(root, origin);
            self.run_proven();
        }
    }

    /// Examines again the jumps that were met before the code was known that tells where they go,
    /// as long as that resolves some. What guesses tell of a proven jump is a guess.
    fn resolve(&mut self, guesses: bool) {
        loop {
            let jumps = std::mem::take(&mut self.unresolved);
            let before = jumps.len();
            for jump in jumps {
                let origin = match jump.origin {
                    Origin::Proven if guesses => Origin::Guessed(jump.at),
                    origin => origin,
                };
                self.jump(jump.by, jump.at, jump.isa, origin);
            }
            self.run_proven();
            if guesses {
                self.run();
            }
            if self.unresolved.len() >= before {
                return;
            }
        }
    }

    /// Begins a new pass, in which only `base` and its `unresolved` jumps are known.
    fn begin(&mut self, base: &Marks, unresolved: &[Unresolved]) {
        self.marks.set_to(base);
        self.lines.clear();
        self.clashes.clear();
        self.unresolved.clear();
        self.unresolved.extend(unresolved);
    }

    /// Returns what was wrong in this pass: lines that ran into something that is no code, and
    /// lines that are loaded as data.
    fn judge(&mut self) -> Vec<(u32, Origin)> {
        let mut wrong = std::mem::take(&mut self.wrong);
        self.lines.sort_unstable_by_key(|line| line.addresses.start);
        for at in self.clashes.iter().cloned().flatten() {
            let after = self
                .lines
                .partition_point(|line| line.addresses.start <= at);
            let line = after.checked_sub(1).and_then(|n| self.lines.get(n));
            let Some(line) = line.filter(|line| line.addresses.contains(&at)) else {
                continue;
            };
            let offset = self.memory.offset(at).unwrap_or(usize::MAX);
            let loaded = match line.origin {
                Origin::Guessed(_) => self.marks.is_perhaps_loaded(offset),
                _ => self.marks.is_loaded(offset),
            };
            if loaded {
                wrong.push((at, line.origin));
            }
        }
        wrong
    }

    pub(super) fn fail(&mut self, at: u32, origin: Origin) {
        match origin {
            Origin::Proven => self.odd.push(at),
            _ => self.wrong.push((at, origin)),
        }
    }

    pub(super) fn in_text(&self, at: u32) -> bool {
        self.text
            .iter()
            .any(|(from, to)| (*from..*to).contains(&at))
    }

    /// Follows one line of code until it branches away or reaches known code.
    fn line(&mut self, root: Root, origin: Origin) {
        let Root {
            address: mut at,
            isa,
        } = root;
        if origin
            .address()
            .is_some_and(|address| self.blocked.contains(&address))
        {
            return;
        }
        let (mut it, mut links) = (ItState::NONE, false);
        let mut pointer = Pointer::default();
        while let Some((step, after)) = self.take(at, isa, it, origin) {
            let encoding = self.memory.fetch(at, isa);
            if let Some((place, len)) = encoding.and_then(|found| pointer.next(found, &step)) {
                self.data(place, len, origin);
            }
            let next = at.wrapping_add(step.len);
            let returns = std::mem::replace(&mut links, step.links);
            let continuation = self.note_targets(&step, at, isa, returns, origin);
            (at, it) = (next, after);
            if continuation == Continuation::Ends {
                break;
            }
        }
        if origin != Origin::Proven && at != root.address {
            self.lines.push(GuessedLine {
                addresses: root.address..at,
                origin,
            });
        }
    }

    /// Marks the instruction at `at`. `None` where there is none, or it was marked already.
    fn take(
        &mut self,
        at: u32,
        isa: Isa,
        it: ItState,
        origin: Origin,
    ) -> Option<(FlowStep, ItState)> {
        let found = self.memory.offset(at).filter(|_| self.in_text(at));
        let aligned = at & (isa.alignment() - 1) == 0;
        let Some(offset) = found.filter(|_| aligned) else {
            self.fail(at, origin);
            return None;
        };
        match self.marks.get(offset) {
            Mark::Start(found, _) if found == isa => return None,
            Mark::Unknown => {}
            // Proven code that loads itself stays code.
            Mark::Data if origin == Origin::Proven => self.odd.push(at),
            _ => {
                self.fail(at, origin);
                return None;
            }
        }
        let encoding = self.memory.fetch(at, isa)?;
        let step = step(encoding, at, it);
        // Zeros are padding: no compiler writes them as an instruction.
        let zero = self.memory.word(at).is_none_or(|word| word == 0);
        if (zero || !step.plausible) && origin != Origin::Proven {
            self.fail(at, origin);
            return None;
        }
        let len = step.len as usize;
        match origin {
            Origin::Proven => self.marks.code(offset, len, isa, it),
            _ => self.marks.soft_code(offset, len, isa, it),
        }
        if let Some((literal, len)) = step.literal {
            self.data(literal, len, origin);
        }
        Some((step, advance(encoding, it)))
    }

    pub(super) fn data(&mut self, at: u32, len: u32, origin: Origin) {
        if let Some(offset) = self.memory.offset(at) {
            let guessed = matches!(origin, Origin::Guessed(_));
            let overlap = self.marks.data(offset, len as usize, guessed);
            if overlap == DataOverlap::Code {
                self.clashes.push(at & !1..at.saturating_add(len));
            }
        }
    }

    /// Notes that code is at `address`, as sure as its `origin`.
    pub(super) fn push(&mut self, address: u32, isa: Isa, origin: Origin) {
        let seen = |offset| matches!(self.marks.get(offset), Mark::Start(found, _) if found == isa);
        if self.memory.offset(address).is_some_and(seen) {
            return;
        }
        let root = Root { address, isa };
        // A function is judged by itself: it may be code although its caller is a wrong guess.
        match origin {
            Origin::Proven => self.proven.push((root, origin)),
            _ if self.named.contains(&address) => {
                self.later.push_back((root, Origin::Named(address)));
            }
            _ => self.proven.push((root, origin)),
        }
    }

    /// Notes that code may be at `address`, behind a call or in a guessed table.
    pub(super) fn guess(&mut self, address: u32, isa: Isa) {
        let root = Root { address, isa };
        self.later.push_back((root, Origin::Guessed(address)));
    }

    /// Notes the other places where the code goes on.
    fn note_targets(
        &mut self,
        step: &FlowStep,
        at: u32,
        isa: Isa,
        returns: bool,
        origin: Origin,
    ) -> Continuation {
        let next = at.wrapping_add(step.len);
        // Code makes a return address for itself here. For every other address, the use that code
        // makes of it tells whether code or data is there ([`Pointer`]).
        if let Some((Register::LR, address)) = step.address {
            self.guess(address & !1, isa);
        }
        match step.next {
            Next::Falls => Continuation::Falls,
            // A trampoline does what the replaced instruction did, and returns behind it.
            Next::Branch { to, .. } if self.areas.iter().any(|area| area.contains(&to)) => {
                Continuation::Falls
            }
            Next::Branch { to, conditional } => {
                self.push(to, isa, origin);
                Continuation::if_conditional(conditional)
            }
            Next::Call(target) => {
                match target {
                    Some((address, isa)) if origin == Origin::Proven => {
                        self.push(address, isa, origin);
                    }
                    // A guess that calls out of the text is wrong.
                    Some((address, _)) if !self.in_text(address) => self.fail(at, origin),
                    Some((address, isa)) => {
                        let root = Root { address, isa };
                        self.later.push_back((root, Origin::Named(address)));
                    }
                    None => {}
                }
                self.guess(next, isa);
                Continuation::Ends
            }
            Next::Away { conditional, by } => {
                self.jump(by, at, isa, origin);
                if returns && !conditional {
                    self.guess(next, isa);
                }
                Continuation::if_conditional(conditional)
            }
            // A trap that marks a bug is handled by the kernel, and compilers put code behind it.
            Next::Stops => {
                if step.plausible {
                    self.guess(next, isa);
                }
                Continuation::Ends
            }
        }
    }

    fn jump(&mut self, by: Jump, at: u32, isa: Isa, origin: Origin) {
        self.understood = true;
        self.targets(by, at, isa, origin);
        if !self.understood {
            let jump = Unresolved {
                at,
                isa,
                by,
                origin,
            };
            self.unresolved.push(jump);
        }
    }

    fn targets(&mut self, by: Jump, at: u32, isa: Isa, origin: Origin) {
        match by {
            Jump::Back => {}
            Jump::Unknown => match self.before(isa).unrolled(at) {
                Some(place) => self.guess(place, isa),
                None => self.understood = false,
            },
            Jump::Register(register) => match self.before(isa).value(register, at) {
                Some(to) => self.pointed(to.value, isa),
                None if register == Register::LR => {}
                None => self.understood = false,
            },
            Jump::Literal(literal) => {
                let to = self.memory.word(literal).unwrap_or(0);
                self.pointed(to, isa);
            }
            Jump::Near(to) => {
                if self.before(isa).unrolled(at).is_none() {
                    self.understood = false;
                }
                self.guess(to, isa);
            }
            Jump::Switch(to) => self.push(to, Isa::A32, origin),
            Jump::Table(table) => self.table(table, at, isa, origin),
        }
    }

    pub(super) fn before(&self, isa: Isa) -> Before<'_> {
        Before {
            memory: self.memory,
            marks: &self.marks,
            isa,
        }
    }

    /// Notes code at an address that was read from memory, where bit 0 tells the instruction set.
    fn pointed(&mut self, to: u32, isa: Isa) {
        match (to & 1, isa) {
            (1, _) => self.guess(to & !1, Isa::T32),
            (_, Isa::A32) => self.guess(to, Isa::A32),
            // In a Thumb kernel's own tables, bit 0 is set except in those for LDR pc.
            _ => {}
        }
    }
}
