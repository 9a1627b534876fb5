//! A machine for tests on a PC: registers that answer as a test says, memory in all other places, a clock that stands
//! still, and a console that keeps what is said. Each thread, so each test, has its own.

#[cfg(test)]
pub mod client;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Prints a line on the console.
macro_rules! println {
    ($($argument:tt)*) => {
        crate::fake::say(format!($($argument)*))
    };
}

/// Registers of a device.
pub trait Registers {
    /// What is read at an offset.
    fn read(&mut self, offset: u64) -> u32;
    /// A write at an offset.
    fn write(&mut self, offset: u64, value: u32);
}

/// Where registers are, and who answers.
type Place = (Range<u64>, Rc<RefCell<dyn Registers>>);

#[derive(Default)]
struct Machine {
    devices: Vec<Place>,
    /// The words of memory that were written, by their addresses.
    memory: BTreeMap<u64, u32>,
    said: Vec<String>,
    /// Microseconds since the test began.
    now: u64,
}

impl Machine {
    fn device(&self, at: u64) -> Option<Place> {
        let mut devices = self.devices.iter();
        devices.find(|(range, _)| range.contains(&at)).cloned()
    }
}

thread_local! {
    static MACHINE: RefCell<Machine> = RefCell::default();
}

fn with<T>(work: impl FnOnce(&mut Machine) -> T) -> T {
    MACHINE.with(|machine| work(&mut machine.borrow_mut()))
}

/// Keeps a line of the console.
pub fn say(line: String) {
    with(|machine| machine.said.push(line));
}

/// What was said since the last call.
#[cfg(test)]
pub fn said() -> Vec<String> {
    with(|machine| std::mem::take(&mut machine.said))
}

/// Another machine takes the place of this thread's.
#[cfg(test)]
pub fn renew() {
    with(|machine| *machine = Machine::default());
}

/// Puts registers at these addresses.
#[cfg(test)]
pub fn install(range: Range<u64>, device: Rc<RefCell<dyn Registers>>) {
    with(|machine| machine.devices.push((range, device)));
}

/// Accesses to devices.
pub mod mmio {
    use super::with;

    /// Reads a word.
    pub fn read32(at: u64) -> u32 {
        match with(|machine| machine.device(at)) {
            Some((range, device)) => device.borrow_mut().read(at - range.start),
            None => with(|machine| machine.memory.get(&at).copied().unwrap_or(0)),
        }
    }

    /// Reads a byte.
    pub fn read8(at: u64) -> u8 {
        (read32(at & !3) >> (8 * (at & 3))) as u8
    }

    /// Writes a word.
    pub fn write32(at: u64, value: u32) {
        match with(|machine| machine.device(at)) {
            Some((range, device)) => device.borrow_mut().write(at - range.start, value),
            None => with(|machine| {
                machine.memory.insert(at, value);
            }),
        }
    }

    /// Writes half a word.
    pub fn write16(at: u64, value: u16) {
        let (word, shift) = (at & !3, 8 * (at & 2));
        let others = read32(word) & !(0xffff << shift);
        write32(word, others | u32::from(value) << shift);
    }
}

/// The interrupt controller, which has none.
pub mod gic {
    /// The first number that is no interrupt.
    pub const SPECIAL: u64 = 1020;

    /// Lets an interrupt come.
    pub fn enable(_id: u32) {}

    /// Makes an interrupt edge or level triggered.
    pub fn set_edge(_id: u32, _edge: bool) {}

    /// The interrupt that has come.
    pub fn acknowledge() -> u64 {
        SPECIAL
    }

    /// An interrupt is done.
    pub fn end(_id: u64) {}
}

/// The clock, whose ticks are microseconds.
pub mod timer {
    use super::with;

    /// The time.
    pub fn now() -> u64 {
        with(|machine| machine.now)
    }

    /// Ticks in a second.
    pub fn frequency() -> u64 {
        1_000_000
    }

    /// Ticks in so many microseconds.
    pub fn microseconds(count: u64) -> u64 {
        count
    }

    /// Lets so many microseconds pass.
    pub fn spin(count: u64) {
        with(|machine| machine.now += count);
    }

    /// Waits until `done`, for at most ten seconds. Returns whether it is done.
    pub fn wait_until(done: impl FnMut() -> bool) -> bool {
        wait_until_us(10_000_000, done)
    }

    /// Waits until `done`, for at most `count` microseconds. Returns whether it is done.
    pub fn wait_until_us(count: u64, mut done: impl FnMut() -> bool) -> bool {
        const LOOKS: u64 = 100;
        (0..LOOKS).any(|_| {
            spin(count.div_ceil(LOOKS));
            done()
        })
    }

    /// The timer fires at that time: nobody looks.
    pub fn fire_at(_at: u64) {}

    /// The timer never fires.
    pub fn stop() {}
}

/// The firmware.
pub mod psci {
    /// Restarts the machine: the test ends, which has to expect it.
    pub fn system_reset() -> ! {
        panic!("the machine is reset")
    }
}

/// The CPU.
pub mod cpu {
    /// Nobody interrupts it.
    pub fn wait_for_interrupt() {}
}
