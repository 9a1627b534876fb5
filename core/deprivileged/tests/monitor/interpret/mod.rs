//! What instructions do that are not sensitive, from the manual (DDI 0406C, A8): the same in every
//! mode, so that both CPUs of a test use it. What it does not know ends the test's program.

mod a32;
mod alu;
mod memory;
mod t32;
mod t32_wide;

use hanok_cpu32::{Fault, Registers};
use hanok_decode::Psr;
use hanok_decode::aarch32::{Condition as Code, Encoding, ItState};

/// A data access that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort {
    pub address: u32,
    pub write: bool,
    /// The guest's own fault, where the CPU that refuses knows it.
    pub fault: Option<Fault>,
}

/// Why an instruction is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Undefined,
    SupervisorCall,
    Breakpoint,
    Data(Abort),
    /// It is UNPREDICTABLE, or not in the subset.
    Unknown,
}

/// The memory that loads and stores reach; `bytes` is 1, 2 or 4.
pub trait Bus {
    fn read(&mut self, address: u32, bytes: u32) -> Result<u32, Abort>;
    fn write(&mut self, address: u32, bytes: u32, value: u32) -> Result<(), Abort>;
}

type Done = Result<(), Stop>;

/// One instruction that is being executed.
struct Core<'a, B> {
    r: &'a mut Registers,
    bus: &'a mut B,
    /// The address of the next instruction.
    next: u32,
}

/// Executes the instruction at the PC. If it is stopped, no register has changed.
pub fn execute(registers: &mut Registers, encoding: Encoding, bus: &mut impl Bus) -> Done {
    let mut after = *registers;
    let next = registers.pc.wrapping_add(encoding.bytes());
    let it = ItState::from_bits(registers.psr.it());
    let condition = match encoding {
        Encoding::A32(word) => Code::from_bits((word >> 28) as u8),
        _ => it.condition(),
    };
    let always = matches!(encoding, Encoding::A32(word) if word >> 28 == 15);
    let passes = always
        || after
            .psr
            .passes(hanok_decode::Condition::Code(condition.into_bits()));
    let mut core = Core {
        r: &mut after,
        bus,
        next,
    };
    if passes {
        match encoding {
            Encoding::A32(word) => core.a32(word)?,
            Encoding::Narrow(half) => core.narrow(half.into(), it)?,
            Encoding::Wide(both) => core.wide(both, it)?,
        }
    }
    let next = core.next;
    let opened = matches!(encoding, Encoding::Narrow(half) if half >> 8 == 0xbf && half & 0xf != 0);
    // Also if it is a branch to A32, which ends a block.
    if !(matches!(encoding, Encoding::A32(_)) || opened && passes) {
        set_it(&mut after.psr, it.next());
    }
    after.pc = next;
    *registers = after;
    Ok(())
}

fn set_it(psr: &mut Psr, it: ItState) {
    let bits = it.into_bits();
    *psr = psr.with_it_high(bits >> 2).with_it_low(bits & 3);
}

const fn bit(word: u32, number: u32) -> bool {
    word >> number & 1 != 0
}

/// `word<high:low>`
const fn field(word: u32, high: u32, low: u32) -> u32 {
    word >> low & ((1 << (high - low + 1)) - 1)
}

const fn signed(value: u32, bits: u32) -> u32 {
    ((value << (32 - bits)) as i32 >> (32 - bits)) as u32
}

/// The low bytes of a value in the order of CPSR.E.
pub fn ordered(value: u32, bytes: u32, big_endian: bool) -> u32 {
    if big_endian {
        value.swap_bytes() >> (32 - 8 * bytes)
    } else {
        value
    }
}

fn require(condition: bool) -> Done {
    if condition {
        Ok(())
    } else {
        Err(Stop::Unknown)
    }
}

impl<B: Bus> Core<'_, B> {
    fn thumb(&self) -> bool {
        self.r.psr.thumb()
    }

    /// R0 to R15 as an instruction reads it.
    fn get(&self, number: u32) -> u32 {
        let ahead = if self.thumb() { 4 } else { 8 };
        let pc = self.r.pc.wrapping_add(ahead);
        self.r.general.get(number as usize).copied().unwrap_or(pc)
    }

    fn set(&mut self, number: u32, value: u32) {
        self.r.general[number as usize] = value;
    }

    /// BXWritePC.
    fn exchange(&mut self, target: u32) -> Done {
        if target & 3 == 2 {
            // UNPREDICTABLE, and undefined for a virtual CPU: the two CPUs of a test need not agree.
            return Err(Stop::Unknown);
        }
        self.r.psr.set_thumb(bit(target, 0));
        self.next = target & if bit(target, 0) { !1 } else { !3 };
        Ok(())
    }

    /// BranchWritePC.
    fn stay(&mut self, target: u32) {
        self.next = target & if self.thumb() { !1 } else { !3 };
    }

    fn load(&mut self, address: u32, bytes: u32) -> Result<u32, Stop> {
        let value = self.bus.read(address, bytes).map_err(Stop::Data)?;
        Ok(ordered(value, bytes, self.r.psr.big_endian()))
    }

    fn store(&mut self, address: u32, bytes: u32, value: u32) -> Done {
        let value = ordered(value, bytes, self.r.psr.big_endian());
        self.bus.write(address, bytes, value).map_err(Stop::Data)
    }
}
