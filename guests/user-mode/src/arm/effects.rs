//! Compares what ordinary instructions read and write with what the decoder says.

use super::board::Console;
use super::mmu::OPEN;
use super::run::{Exception, MASKS, State, USER, run};
use core::fmt::Write;
use hanok_decode::aarch32::{Encoding, ItState, Register};
use hanok_instructions::{Definition, Flags, Flow, Instruction, decode_a32, decode_t32};

/// Pseudo-random numbers, the same on every run (Knuth's MMIX generator).
pub struct Random(pub u64);

impl Random {
    /// The next one.
    pub fn next(&mut self) -> u32 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }
}

/// The comparison and its counts.
pub struct Effects<'a> {
    console: &'a mut Console,
    random: Random,
    run: u32,
    aborted: u32,
    wrong: u32,
}

/// How many wrong instructions are printed.
const SHOWN: u32 = 40;
/// Tries words with each combination of A32's selecting bits.
const CHOICES: u32 = 16;
/// How many second halfwords are tried for each first one of T32.
const SECONDS: u32 = 12;

/// Runs all of them.
pub fn all(console: &mut Console) {
    let mut effects = Effects {
        console,
        random: Random(1),
        run: 0,
        aborted: 0,
        wrong: 0,
    };
    effects.a32();
    effects.t32();
    let Effects {
        console,
        run,
        aborted,
        wrong,
        ..
    } = effects;
    let _ = writeln!(
        console,
        "user-mode: registers and flags of {run} instructions, {wrong} wrong; {aborted} more \
         were not executed"
    );
}

impl Effects<'_> {
    fn a32(&mut self) {
        for selected in 0..1u32 << 12 {
            for choice in 0..CHOICES {
                let bits = (selected >> 4) << 20 | (selected & 0xf) << 4;
                // The fixed fields of many are all ones or zeros.
                let fixed = [0, 0xf000, 0xf0f00, 0x0f00][choice as usize & 3];
                let rest = (self.random.next() | fixed) & 0x000f_ff0f;
                let condition = if choice & 4 == 0 {
                    0xe
                } else {
                    self.random.next() >> 28
                };
                self.one(decode_a32(condition << 28 | bits | rest));
            }
        }
    }

    fn t32(&mut self) {
        for half in 0..0xe800 {
            self.one(decode_t32(half, 0, ItState::NONE));
        }
        for first in 0xe800..=0xffff {
            for choice in 0..SECONDS {
                let fixed = if choice & 1 == 0 { 0xf000 } else { 0 };
                let second = self.random.next() as u16 | fixed;
                self.one(decode_t32(first, second, ItState::NONE));
            }
        }
    }

    fn one(&mut self, found: Instruction) {
        let ordinary = found.definition == Definition::Defined
            && found.flow == Flow::Next
            && found.sensitive.is_none()
            && !found.opens.is_inside();
        if !ordinary {
            return;
        }
        // With addresses in the registers, and with any values.
        for addresses in [true, false] {
            let before = self.state(addresses);
            let (exception, after) = run(found.encoding, before);
            if exception != Exception::Supervisor {
                self.aborted += 1;
                continue;
            }
            self.run += 1;
            let stays = stays(&found, &before, &after);
            if !(stays && self.register(&found, before, after) && self.flag(&found, before, after))
            {
                self.complain(found.encoding);
            }
        }
    }

    fn complain(&mut self, encoding: Encoding) {
        self.wrong += 1;
        if self.wrong <= SHOWN {
            let _ = writeln!(
                self.console,
                "FAIL: {encoding:x?} reads or writes more than is said"
            );
        }
    }

    fn value(&mut self, address: bool) -> u32 {
        let value = self.random.next();
        if address {
            OPEN | 0x8000 | value & 0x7ff8
        } else {
            value
        }
    }

    fn state(&mut self, addresses: bool) -> State {
        let registers = core::array::from_fn(|_| self.value(addresses));
        let flags = self.random.next() & APPLICATION;
        State {
            registers,
            status: USER | MASKS | flags,
        }
    }

    /// Returns whether nothing depends on a register that the decoder says is not read.
    fn register(&mut self, found: &Instruction, before: State, after: State) -> bool {
        let number = (self.random.next() % 15) as u8;
        let register = Register::from_bits(number);
        if found.effects.reads.contains(register) {
            return true;
        }
        let mut changed = before;
        let value = self.value(false);
        let mut expected = after;
        if let Some(place) = changed.registers.get_mut(usize::from(number)) {
            *place = value;
        }
        let (exception, outcome) = run(found.encoding, changed);
        let kept = !found.kills().contains(register);
        if kept && let Some(place) = expected.registers.get_mut(usize::from(number)) {
            // A register that is written on a condition may have either value.
            let written = found.effects.writes.contains(register);
            let same = outcome.registers.get(usize::from(number)) == Some(place);
            *place = if written && same { *place } else { value };
        }
        exception == Exception::Supervisor && outcome == expected
    }

    /// Returns whether nothing depends on a flag that the decoder says is not read.
    fn flag(&mut self, found: &Instruction, before: State, after: State) -> bool {
        let [flag, bits] = FLAGS[self.random.next() as usize % FLAGS.len()];
        let flag = Flags::from_bits(flag as u8);
        if !found.effects.flags_read.common(flag).is_empty() {
            return true;
        }
        let changed = State {
            status: before.status ^ bits,
            ..before
        };
        let (exception, outcome) = run(found.encoding, changed);
        let written = !found.effects.flags_written.common(flag).is_empty();
        let killed = !found.kills_flags().common(flag).is_empty();
        let other = outcome.status & !bits == after.status & !bits;
        let own = match (killed, written) {
            (true, _) => outcome.status & bits == after.status & bits,
            (false, true) => true,
            (false, false) => outcome.status & bits == changed.status & bits,
        };
        exception == Exception::Supervisor && outcome.registers == after.registers && other && own
    }
}

/// N, Z, C, V, Q and GE: as the decoder numbers them, and in the CPSR.
const FLAGS: [[u32; 2]; 6] = [
    [1, 1 << 31],
    [2, 1 << 30],
    [4, 1 << 29],
    [8, 1 << 28],
    [16, 1 << 27],
    [32, 0xf << 16],
];
/// All of these.
const APPLICATION: u32 = 0xf80f_0000;

/// Returns whether registers that the decoder says are not written keep their values.
fn stays(found: &Instruction, before: &State, after: &State) -> bool {
    let numbers = 0..15u8;
    let mut registers = numbers.zip(before.registers.iter().zip(&after.registers));
    let kept = registers.all(|(number, (old, new))| {
        old == new || found.effects.writes.contains(Register::from_bits(number))
    });
    kept && FLAGS.iter().all(|[flag, bits]| {
        let flag = Flags::from_bits(*flag as u8);
        let written = !found.effects.flags_written.common(flag).is_empty();
        written || before.status & bits == after.status & bits
    })
}
