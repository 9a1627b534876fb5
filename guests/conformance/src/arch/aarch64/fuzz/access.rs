//! Fuzzes loads and stores of every form to every address: each width, pairs, SIMD, exclusives,
//! atomics, write-back, unprivileged, at EL1 and EL0, aligned or not.

use super::forms::{self, Flags, Form, Operands, SP};
use super::trip::{EL1_MASKED, EL1_ON_SP0, End, Kind, Start};
use super::{code, space};
use crate::fuzz::Fuzzer;
use crate::fuzz::places::{self, Expectation, Spot};
use crate::fuzz::random::Random;

/// The SPSR of EL0 with every interrupt masked.
const EL0_MASKED: u64 = 0x3c0;
/// At which exception level the access runs, and by which mapping it reaches the address.
struct View {
    base: u64,
    pc: u64,
    pstate: u64,
}

fn view(spot: Spot, operands: &Operands, random: &mut Random) -> View {
    let at_el0 = random.once_in(4);
    if at_el0 && spot.place == Expectation::Memory {
        return View {
            base: space::USER_DATA + 0x800 + spot.physical % 64,
            pc: space::USER_CODE,
            pstate: EL0_MASKED,
        };
    }
    if at_el0 && spot.physical < 0x4000_0000 {
        return View {
            base: space::USER_DEVICES + spot.physical,
            pc: space::USER_CODE,
            pstate: EL0_MASKED,
        };
    }
    let low = spot.physical < 0x4000_0000 && random.once_in(2);
    View {
        base: match spot.place {
            Expectation::Memory => spot.physical,
            _ if low => spot.physical,
            _ => space::everywhere(spot.physical),
        },
        pc: space::CODE.address(),
        pstate: if operands.base == SP {
            EL1_ON_SP0
        } else {
            EL1_MASKED
        },
    }
}

/// Makes one access and checks it.
pub fn step(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    let form = forms::pick(random);
    let mut operands = Operands::new(random, form.flags.contains(Flags::SIMD));
    if form.flags.contains(Flags::CACHE) && operands.base == SP {
        // With the zero register as its base, the access would go to address zero.
        operands.base = operands.other;
    }
    let spot = places::spot(fuzzer.machine, random);
    let view = view(spot, &operands, random);
    code::put([form.instruction(&operands)]);
    let mut start = Start::NOWHERE;
    start.x.iter_mut().for_each(|x| *x = random.next());
    if form.flags.contains(Flags::INDEX) {
        start.x[usize::from(operands.other)] = random.below(9);
    }
    match operands.base {
        SP => start.sp = view.base,
        base => start.x[usize::from(base)] = view.base,
    }
    (start.pc, start.pstate) = (view.pc, view.pstate);
    // SAFETY: a store reaches devices, nothing, or free memory alone; no register that matters
    // to the way back is written.
    let end = unsafe { fuzzer.travel(&start) };
    let seen = Seen {
        form,
        operands,
        spot,
        start: &start,
        end,
    };
    if let Err(what) = seen.judge() {
        let (word, kind) = (form.instruction(&operands), end.kind());
        fuzzer.wrong(format_args!(
            "{what}: {word:#010x} at {:#x} ({:?}, PSTATE {:#x}): {kind:?}, ESR {:#x}, value {:#x}",
            spot.physical,
            spot.place,
            start.pstate,
            end.esr,
            end.x[usize::from(operands.data.min(30))],
        ));
    }
    if spot.place == Expectation::Device && end.arrived() && form.flags.contains(Flags::STORE) {
        fuzzer.touched = true;
    }
}

struct Seen<'a> {
    form: Form,
    operands: Operands,
    spot: Spot,
    start: &'a Start,
    end: &'a End,
}

impl Seen<'_> {
    fn judge(&self) -> Result<(), &'static str> {
        self.others_unchanged()?;
        let flags = self.form.flags;
        let known = match self.end.kind() {
            _ if self.end.arrived() => true,
            // UNDEFINED: this CPU does not have the instruction.
            Kind::Synchronous(0) => flags.contains(Flags::LATER),
            Kind::Synchronous(0x26) => self.operands.base == SP,
            Kind::Synchronous(_) if self.end.is_abort() => self.is_known_abort(),
            _ => false,
        };
        if !known {
            return Err("an exception that cannot be");
        }
        if !self.end.arrived() && self.end.pc != self.start.pc {
            return Err("an exception of another instruction");
        }
        match self.spot.place {
            Expectation::Nothing if self.end.arrived() && flags.must_abort() => {
                Err("something answers")
            }
            Expectation::Flash => self.loaded(self.form.ones, "not erased"),
            Expectation::Quiet => self.loaded(0, "not zero"),
            Expectation::Memory if self.end.is_abort() => self.memory_aborts(),
            _ => Ok(()),
        }
    }

    /// An external abort, a misaligned one, or that of an exclusive access where there can be none
    /// (DDI 0487, ESR_EL1, DFSC); a permission fault where EL1 accesses as EL0 would.
    fn is_known_abort(&self) -> bool {
        match self.end.status() {
            0x10 | 0x21 | 0x35 => true,
            0x0c..=0x0f => self.form.flags.contains(Flags::UNPRIVILEGED),
            _ => false,
        }
    }

    /// Free memory accepts every aligned access.
    fn memory_aborts(&self) -> Result<(), &'static str> {
        match self.end.status() {
            0x10 | 0x35 => Err("memory does not answer"),
            _ => Ok(()),
        }
    }

    /// What a load's target registers must hold.
    fn loaded(&self, value: u64, what: &'static str) -> Result<(), &'static str> {
        let flags = self.form.flags;
        if !self.end.arrived() || !flags.is_plain_load() {
            return Ok(());
        }
        let second = flags.contains(Flags::PAIR).then_some(self.operands.second);
        let data = Some(self.operands.data).filter(|data| *data != SP);
        let wrong = |number: u8| self.end.x[usize::from(number)] != value;
        if data.into_iter().chain(second).any(wrong) {
            Err(what)
        } else {
            Ok(())
        }
    }

    /// Registers that the instruction does not name, and all registers after an exception, are
    /// unchanged.
    fn others_unchanged(&self) -> Result<(), &'static str> {
        let flags = self.form.flags;
        let both = self.start.x.iter().zip(&self.end.x);
        for (number, (before, after)) in (0_u8..).zip(both) {
            let data = number == self.operands.data && flags.loads_general();
            let second = number == self.operands.second && data_pair(flags);
            let base = number == self.operands.base && flags.contains(Flags::WRITE_BACK);
            let other = number == self.operands.other && flags.contains(Flags::STATUS);
            let named = self.end.arrived() && (data || second || base || other);
            if before != after && !named {
                return Err("another register changed");
            }
        }
        let sp = self.operands.base == SP && flags.contains(Flags::WRITE_BACK);
        if self.end.sp != self.start.sp && !(sp && self.end.arrived()) {
            return Err("the stack pointer changed");
        }
        Ok(())
    }
}

fn data_pair(flags: Flags) -> bool {
    flags.contains(Flags::PAIR) && flags.loads_general()
}
