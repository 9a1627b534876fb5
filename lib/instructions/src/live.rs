//! Computes which registers and flags may still be read after a place in the code.
//!
//! A rewritten instruction needs somewhere to put values. Most often a register or the flags are
//! free there, because they are written again before anything reads them. This module finds those
//! that certainly are. It follows the code forwards, both ways at a branch, for a bounded number of
//! instructions and branches. Whatever is undecided then counts as live. So the result may be too
//! careful but is not wrong, as long as the code is what the caller says and [`Calls`] holds.

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
    /// The address of the instruction there.
    pub address: u32,
    /// The instruction set there.
    pub isa: Isa,
    /// The place in an IT block.
    pub it: ItState,
}

impl CodePosition {
    /// A place outside of IT blocks.
    pub const fn new(address: u32, isa: Isa) -> Self {
        Self {
            address,
            isa,
            it: ItState::NONE,
        }
    }

    /// The instruction there. `read` returns the halfword at an address, the lower one of a word
    /// first, or `None` where no code is known.
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

/// What may be assumed of functions that are called and returned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Calls {
    /// Nothing: everything is live at a call and at a return.
    Unknown,
    /// They keep the procedure call standard (AAPCS32, 6.1.1): R0 to R3 carry arguments and
    /// results, R12 and the flags are not preserved. Assembly with conventions of its own does not
    /// keep it.
    Standard,
}

/// How far the code is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reach {
    /// The largest number of instructions in all.
    pub instructions: u16,
    /// What is assumed of functions.
    pub calls: Calls,
}

/// What may still be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Live registers. The stack pointer and the PC always are.
    pub registers: Registers,
    /// Live flags of N, Z, C, V, Q and GE.
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

    /// The registers that are free.
    pub const fn dead(self) -> Registers {
        Registers::ALL.without(self.registers)
    }
}

/// The registers that are always live.
const FIXED: Registers = Register::SP.set().with(Register::PC.set());
/// R0 to R3: the arguments of a function.
const ARGUMENTS: Registers = Registers::from_bits(0x000f);
/// R12: the scratch register.
const SCRATCH: Registers = Registers::from_bits(0x1000);
/// The number of paths that can wait to be followed.
const PATHS: usize = 8;
/// The number of jump targets that are remembered.
const SEEN: usize = 16;

/// A path through the code, and what is undecided at its end.
#[derive(Clone, Copy)]
struct Path {
    place: CodePosition,
    open: Live,
}

/// Computes what may be read from `place` on before it is written. `read` is as for
/// [`CodePosition::fetch`].
pub fn live(place: CodePosition, reach: Reach, read: impl Fn(u32) -> Option<u16>) -> Live {
    let open = Live::ALL.without(Live {
        registers: FIXED,
        flags: Flags::NONE,
    });
    let mut search = LivenessSearch {
        live: Live {
            registers: FIXED,
            flags: Flags::NONE,
        },
        paths: [None; PATHS],
        seen: [None; SEEN],
        left: reach.instructions,
        calls: reach.calls,
    };
    search.push(Path { place, open });
    while let Some(path) = search.pop() {
        search.follow(path, &read);
    }
    search.live
}

struct LivenessSearch {
    live: Live,
    paths: [Option<Path>; PATHS],
    /// The places that paths reached, and what was undecided there. A path that reaches such a
    /// place with no more undecided, as around a loop, finds nothing new.
    seen: [Option<Path>; SEEN],
    left: u16,
    calls: Calls,
}

/// What follows an instruction.
enum Successor {
    /// The end of the path: these are live.
    End(Live),
    /// One or two places where the path goes on.
    Go(Option<Path>, Option<Path>),
}

impl LivenessSearch {
    /// Keeps a path for later. If there is no space for it, everything undecided on it is live.
    fn push(&mut self, path: Path) {
        match self.paths.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => *slot = Some(path),
            None => self.live = self.live.with(path.open),
        }
    }

    fn pop(&mut self) -> Option<Path> {
        self.paths.iter_mut().find_map(Option::take)
    }

    fn follow(&mut self, mut path: Path, read: &impl Fn(u32) -> Option<u16>) {
        loop {
            // What another path found to be live needs no decision here.
            path.open = path.open.without(self.live);
            if path.open.is_empty() {
                return;
            }
            let instruction = match path.place.fetch(read) {
                Some(found) if self.left > 0 && found.definition == Definition::Defined => found,
                _ => break,
            };
            self.left -= 1;
            match self.step(path, &instruction) {
                Successor::End(live) => {
                    self.live = self.live.with(live);
                    return;
                }
                Successor::Go(Some(next), other) => {
                    if let Some(other) = other {
                        self.push(other);
                    }
                    path = next;
                }
                Successor::Go(None, _) => return,
            }
        }
        self.live = self.live.with(path.open);
    }

    fn step(&mut self, path: Path, instruction: &Instruction) -> Successor {
        let effects = instruction.effects;
        let reads = Live {
            registers: effects.reads,
            flags: effects.flags_read,
        };
        self.live = self.live.with(path.open.common(reads));
        let kills = Live {
            registers: instruction.kills(),
            flags: instruction.kills_flags(),
        };
        let open = path.open.without(kills);
        let behind = Path {
            place: path.place.after(instruction),
            open,
        };
        let skipped = instruction.falls_through().then_some(behind);
        match instruction.flow {
            Flow::Next => Successor::Go(Some(behind), None),
            Flow::Jump { target, .. } => {
                let place = CodePosition::new(target.from(path.place.address), path.place.isa);
                let jumped = self.arrive(Path { place, open });
                match (jumped, skipped) {
                    (None, skipped) => Successor::Go(skipped, None),
                    (jumped, skipped) => Successor::Go(jumped, skipped),
                }
            }
            Flow::Call { .. } | Flow::CallRegister(_) => {
                self.call(behind, instruction.condition.is_always())
            }
            Flow::Register(_) | Flow::Loaded => self.leave(open, skipped),
            _ => Successor::End(open),
        }
    }

    /// `path`, unless what it would find was found already.
    fn arrive(&mut self, path: Path) -> Option<Path> {
        let mut earlier = self
            .seen
            .iter()
            .flatten()
            .filter(|seen| seen.place == path.place);
        if earlier.any(|seen| path.open.without(seen.open).is_empty()) {
            return None;
        }
        if let Some(slot) = self.seen.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(path);
        }
        Some(path)
    }

    /// The code goes on behind the call, whether or not the call is made. If it is made, the values
    /// that a callee may destroy are lost.
    fn call(&mut self, behind: Path, made: bool) -> Successor {
        if self.calls == Calls::Unknown {
            return Successor::End(behind.open);
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
        Successor::Go(Some(Path { open, ..behind }), None)
    }

    /// A return, or a jump to another function: everything that the other function may read is
    /// live.
    fn leave(&mut self, open: Live, skipped: Option<Path>) -> Successor {
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
            Some(skipped) => Successor::Go(Some(skipped), None),
            None => Successor::End(Live::NONE),
        }
    }
}
