//! Which registers and flags may still be read after a place in the code.
//!
//! A rewritten instruction needs somewhere to put things. Most often a register or the flags
//! are free there, being written again before anything reads them; this says which surely are.
//! It follows the code forwards, both ways at a branch, for a bounded number of instructions
//! and branches, and takes for live whatever is not decided then, so that it can be too careful
//! but not wrong, as far as the code is what the caller says and [`Calls`] holds.

use crate::a32::decode_a32;
use crate::effects::Flags;
use crate::instruction::{Definition, Flow, Instruction};
use crate::t32::decode_t32;
use hanok_decode::aarch32::ItState;
use hanok_decode::aarch32::{Isa, is_wide};
use hanok_decode::aarch32::{Register, Registers};

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodePosition {
    /// Its address.
    pub address: u32,
    /// The instruction set there.
    pub isa: Isa,
    /// Where in an IT block.
    pub it: ItState,
}

impl CodePosition {
    /// A place in no IT block.
    pub const fn new(address: u32, isa: Isa) -> Self {
        Self {
            address,
            isa,
            it: ItState::NONE,
        }
    }

    /// The instruction there. `read` gives the halfword at an address, the lower one of a word
    /// first, or `None` where there is no code that is known.
    pub fn fetch(self, read: impl Fn(u32) -> Option<u16>) -> Option<Instruction> {
        let first = read(self.address)?;
        let second = || read(self.address.wrapping_add(2));
        match self.isa {
            Isa::A32 => Some(decode_a32(u32::from(second()?) << 16 | u32::from(first))),
            Isa::T32 if is_wide(first) => Some(decode_t32(first, second()?, self.it)),
            Isa::T32 => Some(decode_t32(first, 0, self.it)),
        }
    }

    /// The place right behind `instruction`, which stands here.
    pub const fn after(self, instruction: &Instruction) -> Self {
        Self {
            address: self.address.wrapping_add(instruction.bytes()),
            isa: self.isa,
            it: instruction.it_after(self.it),
        }
    }
}

/// What may be supposed of functions that are called and returned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Calls {
    /// Nothing: all is live at a call and at a return.
    Unknown,
    /// They keep the procedure call standard (AAPCS32, 6.1.1): R0 to R3 carry arguments and
    /// results, R12 and the flags are nobody's. Assembly with conventions of its own does not.
    Standard,
}

/// How far to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reach {
    /// Instructions in all.
    pub instructions: u16,
    /// What is supposed of functions.
    pub calls: Calls,
}

/// What may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Registers; the stack pointer and the PC always.
    pub registers: Registers,
    /// Of N, Z, C, V, Q and GE.
    pub flags: Flags,
}

impl Live {
    const ALL: Self = Self {
        registers: Registers::ALL,
        flags: Flags::APPLICATION,
    };
    const NONE: Self = Self {
        registers: Registers::NONE,
        flags: Flags::NONE,
    };

    const fn with(self, other: Self) -> Self {
        Self {
            registers: self.registers.with(other.registers),
            flags: self.flags.and(other.flags),
        }
    }

    const fn without(self, other: Self) -> Self {
        Self {
            registers: self.registers.without(other.registers),
            flags: self.flags.without(other.flags),
        }
    }

    const fn common(self, other: Self) -> Self {
        Self {
            registers: self.registers.common(other.registers),
            flags: self.flags.common(other.flags),
        }
    }

    const fn is_empty(self) -> bool {
        self.registers.is_empty() && self.flags.is_empty()
    }

    /// Registers that are free.
    pub const fn dead(self) -> Registers {
        Registers::ALL.without(self.registers)
    }
}

/// Always live.
const FIXED: Registers = Register::SP.set().with(Register::PC.set());
/// R0 to R3.
const ARGUMENTS: Registers = Registers::from_bits(0x000f);
/// R12.
const SCRATCH: Registers = Registers::from_bits(0x1000);
/// Ways that wait to be followed.
const WAYS: usize = 8;
/// Targets of jumps that are remembered.
const SEEN: usize = 16;

/// A way through the code, and what is not decided at its end.
#[derive(Clone, Copy)]
struct Way {
    place: CodePosition,
    open: Live,
}

/// What may be read from `place` on before it is written. `read` is as for [`Place::fetch`].
pub fn live(place: CodePosition, reach: Reach, read: impl Fn(u32) -> Option<u16>) -> Live {
    let open = Live::ALL.without(Live {
        registers: FIXED,
        flags: Flags::NONE,
    });
    let mut search = Search {
        live: Live {
            registers: FIXED,
            flags: Flags::NONE,
        },
        ways: [None; WAYS],
        seen: [None; SEEN],
        left: reach.instructions,
        calls: reach.calls,
    };
    search.push(Way { place, open });
    while let Some(way) = search.pop() {
        search.follow(way, &read);
    }
    search.live
}

struct Search {
    live: Live,
    ways: [Option<Way>; WAYS],
    /// Where ways came, and with what: a way that comes there with no more than that, as
    /// around a loop, finds nothing new.
    seen: [Option<Way>; SEEN],
    left: u16,
    calls: Calls,
}

/// What comes after an instruction.
enum Onward {
    /// These are decided: live.
    End(Live),
    /// There, and elsewhere.
    Go(Option<Way>, Option<Way>),
}

impl Search {
    /// Keeps a way for later; with no room for it, all that is open there is live.
    fn push(&mut self, way: Way) {
        match self.ways.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => *slot = Some(way),
            None => self.live = self.live.with(way.open),
        }
    }

    fn pop(&mut self) -> Option<Way> {
        self.ways.iter_mut().find_map(Option::take)
    }

    fn follow(&mut self, mut way: Way, read: &impl Fn(u32) -> Option<u16>) {
        loop {
            // What another way found live needs no decision here.
            way.open = way.open.without(self.live);
            if way.open.is_empty() {
                return;
            }
            let instruction = match way.place.fetch(read) {
                Some(found) if self.left > 0 && found.definition == Definition::Defined => found,
                _ => break,
            };
            self.left -= 1;
            match self.step(way, &instruction) {
                Onward::End(live) => {
                    self.live = self.live.with(live);
                    return;
                }
                Onward::Go(Some(next), other) => {
                    if let Some(other) = other {
                        self.push(other);
                    }
                    way = next;
                }
                Onward::Go(None, _) => return,
            }
        }
        self.live = self.live.with(way.open);
    }

    fn step(&mut self, way: Way, instruction: &Instruction) -> Onward {
        let effects = instruction.effects;
        let reads = Live {
            registers: effects.reads,
            flags: effects.flags_read,
        };
        self.live = self.live.with(way.open.common(reads));
        let kills = Live {
            registers: instruction.kills(),
            flags: instruction.kills_flags(),
        };
        let open = way.open.without(kills);
        let behind = Way {
            place: way.place.after(instruction),
            open,
        };
        let skipped = instruction.falls_through().then_some(behind);
        match instruction.flow {
            Flow::Next => Onward::Go(Some(behind), None),
            Flow::Jump { target, .. } => {
                let place = CodePosition::new(target.from(way.place.address), way.place.isa);
                let jumped = self.arrive(Way { place, open });
                match (jumped, skipped) {
                    (None, skipped) => Onward::Go(skipped, None),
                    (jumped, skipped) => Onward::Go(jumped, skipped),
                }
            }
            Flow::Call { .. } | Flow::CallRegister(_) => {
                self.call(behind, instruction.condition.is_always())
            }
            Flow::Register(_) | Flow::Loaded => self.leave(open, skipped),
            _ => Onward::End(open),
        }
    }

    /// `way`, unless what it would find has been found.
    fn arrive(&mut self, way: Way) -> Option<Way> {
        let mut earlier = self
            .seen
            .iter()
            .flatten()
            .filter(|seen| seen.place == way.place);
        if earlier.any(|seen| way.open.without(seen.open).is_empty()) {
            return None;
        }
        if let Some(slot) = self.seen.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(way);
        }
        Some(way)
    }

    /// Whether or not the call is made, the code goes on behind it; if it is, nothing is left
    /// of what a callee may destroy.
    fn call(&mut self, behind: Way, made: bool) -> Onward {
        if self.calls == Calls::Unknown {
            return Onward::End(behind.open);
        }
        let arguments = Live {
            registers: ARGUMENTS,
            flags: Flags::NONE,
        };
        self.live = self.live.with(behind.open.common(arguments));
        let destroyed = Live {
            registers: SCRATCH,
            flags: Flags::APPLICATION,
        };
        let open = if made {
            behind.open.without(destroyed)
        } else {
            behind.open
        };
        Onward::Go(Some(Way { open, ..behind }), None)
    }

    /// A return, or a jump to another function: what it may want is live.
    fn leave(&mut self, open: Live, skipped: Option<Way>) -> Onward {
        let wanted = match self.calls {
            Calls::Unknown => open,
            Calls::Standard => {
                let nobody_s = Live {
                    registers: SCRATCH,
                    flags: Flags::APPLICATION,
                };
                open.without(nobody_s)
            }
        };
        self.live = self.live.with(wanted);
        match skipped {
            Some(skipped) => Onward::Go(Some(skipped), None),
            None => Onward::End(Live::NONE),
        }
    }
}
