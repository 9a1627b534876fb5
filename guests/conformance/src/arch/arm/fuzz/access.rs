//! Fuzzes loads and stores of every form to every address: each width, pairs, lists, SIMD,
//! exclusives, write-back, unprivileged, by System and User mode, in A32 and T32, aligned or not.

use super::forms::{self, Flags, Form, Operands, SP};
use super::trip::{End, Kind, MASKED, Start, THUMB, UNDEFINED, USER_MASKED};
use super::{code, space};
use crate::fuzz::Fuzzer;
use crate::fuzz::places::{self, Expectation, REACH, Spot};
use crate::fuzz::random::Random;

/// The size of the window through which an access reaches an address that is not mapped one to one.
const GIGABYTE: u64 = 1 << 30;

/// In which mode the access runs, and by which mapping it reaches the address.
struct View {
    base: u32,
    pc: u32,
    pstate: u32,
}

fn view(spot: Spot, random: &mut Random) -> View {
    let user = random.once_in(4);
    let seen = |base| View {
        base,
        pc: space::USER_CODE,
        pstate: USER_MASKED,
    };
    if user && spot.place == Expectation::Memory {
        return seen(space::USER_DATA + 0x800 + (spot.physical % 64) as u32);
    }
    if user && (REACH..space::USER_REACH - REACH).contains(&spot.physical) {
        return seen(space::USER_DEVICES + spot.physical as u32);
    }
    let identity =
        spot.place == Expectation::Memory || spot.physical < GIGABYTE && random.once_in(2);
    View {
        base: if identity {
            spot.physical as u32
        } else {
            space::everywhere(spot.physical)
        },
        pc: space::CODE.address() as u32,
        pstate: MASKED,
    }
}

/// Makes one access and checks it.
pub fn step(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    let form = forms::pick(random);
    let mut operands = Operands::any(random);
    if operands.base == SP && form.flags.contains(Flags::CACHE) {
        operands.base = operands.other;
    }
    let mut spot = places::spot(fuzzer.machine, random);
    let within = spot.physical % GIGABYTE;
    if !(REACH..GIGABYTE - REACH).contains(&within) {
        // A list at a window's end could reach what is mapped behind the window.
        spot.place = Expectation::Device;
    }
    let view = view(spot, random);
    code::put([form.instruction(&operands)]);
    let mut start = Start::NOWHERE;
    start.x.iter_mut().for_each(|x| *x = random.next() as u32);
    if form.flags.contains(Flags::INDEX) {
        start.x[usize::from(operands.other)] = random.below(9) as u32;
    }
    start.x[usize::from(operands.base)] = view.base;
    let thumb = form.flags.contains(Flags::THUMB);
    (start.pc, start.pstate) = (view.pc, view.pstate | if thumb { THUMB } else { 0 });
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
        let word = form.instruction(&operands);
        fuzzer.wrong(format_args!(
            "{what}: {word:#010x} at {:#x} ({:?}): {end:?}, value {:#x}",
            spot.physical,
            spot.place,
            end.x[usize::from(operands.data)],
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
        let known = match self.end.kind() {
            _ if self.end.arrived() => true,
            // User mode has no cache maintenance.
            Kind::Synchronous(UNDEFINED) => {
                self.form.flags.contains(Flags::CACHE) && self.end.was_user()
            }
            Kind::Synchronous(_) if self.end.is_abort() => self.is_known_abort(),
            _ => false,
        };
        if !known {
            return Err("an exception that cannot be");
        }
        if !self.end.arrived() && self.end.pc() != self.start.pc {
            return Err("an exception of another instruction");
        }
        let must_abort = self.form.flags.must_abort();
        match self.spot.place {
            Expectation::Nothing if self.end.arrived() && must_abort => Err("something answers"),
            Expectation::Flash => self.loaded(self.form.ones, "not erased"),
            Expectation::Quiet => self.loaded(0, "not zero"),
            Expectation::Memory if self.end.is_abort() => self.memory_aborts(),
            _ => Ok(()),
        }
    }

    /// An external abort, a misaligned one, or that of an exclusive access where there can be none
    /// (DDI 0406C, B3.13.3, long descriptors); a permission fault where System mode accesses as
    /// User mode would.
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

    /// Returns whether the registers hold what was loaded.
    fn is_data(&self, number: u8) -> bool {
        let flags = self.form.flags;
        let second = flags.contains(Flags::PAIR) && number == self.operands.second;
        let listed = flags.contains(Flags::LIST) && number == self.operands.other;
        flags.loads_general() && (number == self.operands.data || second || listed)
    }

    /// What a load's target registers must hold.
    fn loaded(&self, value: u32, what: &'static str) -> Result<(), &'static str> {
        if !self.end.arrived() || !self.form.flags.is_plain_load() {
            return Ok(());
        }
        let mut data = (0..13).filter(|number| self.is_data(*number));
        if data.any(|number| self.end.x[usize::from(number)] != value) {
            Err(what)
        } else {
            Ok(())
        }
    }

    /// Returns whether a load of two registers may have ended after the first of them: an abort
    /// restores the base, and leaves the others unknown (DDI 0406C, B1.9.8, "Effects of
    /// data-aborted instructions"). So a load at the end of a device may have loaded a part.
    fn is_half_loaded(&self, number: u8) -> bool {
        let flags = self.form.flags;
        let several = flags.contains(Flags::PAIR) || flags.contains(Flags::LIST);
        several && self.end.is_abort() && self.is_data(number) && number != self.operands.base
    }

    /// Registers that the instruction does not name, and all registers after an exception, are
    /// unchanged.
    fn others_unchanged(&self) -> Result<(), &'static str> {
        let flags = self.form.flags;
        let both = self.start.x.iter().zip(&self.end.x);
        for (number, (before, after)) in (0_u8..).zip(both) {
            let base = number == self.operands.base && flags.contains(Flags::WRITE_BACK);
            let status = number == self.operands.other && flags.contains(Flags::STATUS);
            let named = self.end.arrived() && (self.is_data(number) || base || status);
            if before != after && !named && !self.is_half_loaded(number) {
                return Err("another register changed");
            }
        }
        Ok(())
    }
}
