//! The board's keyboard, whose combinations choose who is shown: Ctrl, Alt and a digit.

mod ps2;

use crate::memory::ScreenMemory;
use crate::tree::{BoardDevice, Served};
use hanok_guest_runtime::gic;
use ps2::Ps2;

/// The digit that was pressed with Ctrl and Alt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination(pub usize);

/// Keys, by the numbers of Linux's input-event-codes.h, which are virtio's, too (virtio 1.2, 5.8).
mod key {
    pub const DIGIT_1: u16 = 2;
    pub const DIGIT_9: u16 = 10;
    pub const DIGIT_0: u16 = 11;
    pub const LEFT_CTRL: u16 = 29;
    pub const LEFT_ALT: u16 = 56;
    pub const RIGHT_CTRL: u16 = 97;
    pub const RIGHT_ALT: u16 = 100;
}

/// A keyboard.
pub struct Keyboard {
    device: Ps2,
    interrupt: u32,
    held: Held,
    chosen: Option<Combination>,
}

impl Keyboard {
    /// Starts it.
    pub fn start(
        device: &BoardDevice,
        _served: &Served,
        _memory: &'static ScreenMemory,
    ) -> Result<Self, &'static str> {
        let own = Self {
            device: Ps2::start(device.registers)?,
            interrupt: device.interrupt,
            held: Held::default(),
            chosen: None,
        };
        gic::enable(device.interrupt);
        Ok(own)
    }

    /// The combination that was pressed last.
    pub fn work(&mut self) -> Option<Combination> {
        self.chosen.take()
    }

    /// Interrupt `id` has come.
    pub fn interrupted(&mut self, id: u32) {
        if id != self.interrupt {
            return;
        }
        let Self { held, chosen, .. } = self;
        self.device.take(|code, down| {
            if let Some(combination) = held.changed(code, down) {
                *chosen = Some(combination);
            }
        });
    }
}

/// Which of the keys of a combination are held.
#[derive(Default)]
struct Held {
    ctrl: bool,
    alt: bool,
}

impl Held {
    /// A key was pressed or released.
    fn changed(&mut self, code: u16, down: bool) -> Option<Combination> {
        match code {
            key::LEFT_CTRL | key::RIGHT_CTRL => self.ctrl = down,
            key::LEFT_ALT | key::RIGHT_ALT => self.alt = down,
            _ if !down || !self.ctrl || !self.alt => {}
            key::DIGIT_0 => return Some(Combination(0)),
            key::DIGIT_1..=key::DIGIT_9 => {
                return Some(Combination(usize::from(code - key::DIGIT_1 + 1)));
            }
            _ => {}
        }
        None
    }
}
