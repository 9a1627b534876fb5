//! The board's keyboard and mouse. Combinations choose who is shown: Ctrl, Alt or Shift, and a digit. All else is for the client in
//! front. Those with Alt are what consoles commonly have, and so QEMU's windows and its server for VNC keep them for themselves:
//! those with Shift get through.

mod ps2;
mod virtio;

use crate::machine::{gic, mmio};
use crate::memory::EventMemory;
use crate::wanted::BoardDevice;
use heapless::Vec;
use ps2::Ps2;
use virtio::VirtioInput;

/// The most events that wait to be passed on.
const MOST: usize = 128;
/// The number of keys and buttons.
const CODES: usize = 0x300;

/// Types of events, by Linux's input-event-codes.h, which are virtio's, too (virtio 1.2, 5.8).
pub const SYNCHRONIZED: u16 = 0;
pub const KEY: u16 = 1;
pub const RELATIVE: u16 = 2;
pub const REPEAT: u16 = 0x14;

/// Keys, by the same.
mod key {
    pub const DIGIT_1: u16 = 2;
    pub const DIGIT_9: u16 = 10;
    pub const DIGIT_0: u16 = 11;
    pub const LEFT_CTRL: u16 = 29;
    pub const LEFT_SHIFT: u16 = 42;
    pub const RIGHT_SHIFT: u16 = 54;
    pub const LEFT_ALT: u16 = 56;
    pub const RIGHT_CTRL: u16 = 97;
    pub const RIGHT_ALT: u16 = 100;
    pub const LEFT_BUTTON: u16 = 0x110;
}

/// What a person did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: u16,
    pub code: u16,
    pub value: u32,
}

impl Event {
    /// The end of what belongs together.
    pub const END: Self = Self {
        kind: SYNCHRONIZED,
        code: 0,
        value: 0,
    };

    /// As virtio has it, in 8 bytes.
    pub fn word(self) -> u64 {
        u64::from(self.kind) | u64::from(self.code) << 16 | u64::from(self.value) << 32
    }

    /// The event of these 8 bytes.
    pub fn of_word(word: u64) -> Self {
        Self {
            kind: word as u16,
            code: (word >> 16) as u16,
            value: (word >> 32) as u32,
        }
    }

    /// A key is pressed, or released.
    pub fn key(code: u16, down: bool) -> Self {
        let (kind, value) = (KEY, down.into());
        Self { kind, code, value }
    }
}

/// The digit that was pressed with Ctrl, and Alt or Shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination(pub usize);

/// What comes of what a person did. The order decides who is told of an event: whoever is in front by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Something for the client in front.
    Event(Event),
    /// Another one comes to the front.
    Chosen(Combination),
}

/// What comes first in the registers of a virtio device.
const VIRTIO: u32 = u32::from_le_bytes(*b"virt");

/// The ways to a keyboard or a mouse.
enum Way {
    Ps2(Ps2),
    Virtio(VirtioInput),
}

/// A keyboard or a mouse.
struct Device {
    way: Way,
    interrupt: u32,
}

/// All that a person types and points with.
#[derive(Default)]
pub struct Keyboard {
    devices: Vec<Device, 2>,
    held: Held,
    /// What is to be done.
    heard: Vec<Heard, MOST>,
}

impl Keyboard {
    /// Starts one more device: a keyboard, or a mouse.
    pub fn add(
        &mut self,
        device: &BoardDevice,
        is_mouse: bool,
        (to_board, memory): (u64, &'static EventMemory),
    ) -> Result<(), &'static str> {
        let registers = device.registers;
        let way = if mmio::read32(registers) == VIRTIO {
            Way::Virtio(VirtioInput::start(registers, to_board, memory)?)
        } else {
            Way::Ps2(Ps2::start(registers, is_mouse))
        };
        let interrupt = device.interrupt;
        gic::enable(interrupt);
        let more = self.devices.push(Device { way, interrupt });
        more.map_err(|_| "it has too many keyboards")
    }

    /// What is to be done, in the order in which it was heard.
    pub fn take(&mut self) -> Vec<Heard, MOST> {
        core::mem::take(&mut self.heard)
    }

    /// Interrupt `id` has come.
    pub fn interrupted(&mut self, id: u32) {
        let Self {
            devices,
            held,
            heard,
        } = self;
        // A person does not type that fast: what is too much is lost.
        let mut hear = |event: Event| {
            if let Some(combination) = held.combination(event) {
                // Whoever is in front then does not know what is held.
                held.release(|event| {
                    let _ = heard.push(Heard::Event(event));
                });
                let _ = heard.push(Heard::Chosen(combination));
            } else if held.is_new(event) {
                let _ = heard.push(Heard::Event(event));
            }
        };
        for device in devices.iter_mut().filter(|device| device.interrupt == id) {
            match &mut device.way {
                Way::Ps2(way) => way.take(&mut hear),
                Way::Virtio(way) => way.take(&mut hear),
            }
        }
    }
}

/// Which keys the client in front has seen pressed, and which of a combination are held.
struct Held {
    ctrl: bool,
    alt: bool,
    shift: bool,
    keys: [u32; CODES / 32],
    /// Those of which it is known whether it has: an earlier life of this VM may have told it of others.
    known: [u32; CODES / 32],
}

impl Default for Held {
    fn default() -> Self {
        Self {
            ctrl: false,
            alt: false,
            shift: false,
            keys: [0; CODES / 32],
            known: [0; CODES / 32],
        }
    }
}

impl Held {
    /// The combination that is complete with an event.
    fn combination(&mut self, event: Event) -> Option<Combination> {
        let (code, down) = (event.code, event.value != 0);
        if event.kind != KEY {
            return None;
        }
        match code {
            key::LEFT_CTRL | key::RIGHT_CTRL => self.ctrl = down,
            key::LEFT_ALT | key::RIGHT_ALT => self.alt = down,
            key::LEFT_SHIFT | key::RIGHT_SHIFT => self.shift = down,
            _ if event.value != 1 || !self.ctrl || !(self.alt || self.shift) => {}
            key::DIGIT_0 => return Some(Combination(0)),
            key::DIGIT_1..=key::DIGIT_9 => {
                return Some(Combination(usize::from(code - key::DIGIT_1 + 1)));
            }
            _ => {}
        }
        None
    }

    /// Whether the client in front can make something of an event: not of the release of what it has not seen pressed.
    fn is_new(&mut self, event: Event) -> bool {
        if event.kind != KEY {
            return true;
        }
        let (place, bit) = (usize::from(event.code / 32), 1 << (event.code % 32));
        let (Some(word), Some(known)) = (self.keys.get_mut(place), self.known.get_mut(place))
        else {
            return false;
        };
        let was = *word & bit != 0 || *known & bit == 0;
        *known |= bit;
        if event.value == 0 {
            *word &= !bit;
            return was;
        }
        *word |= bit;
        true
    }

    /// Releases all keys that are held.
    fn release(&mut self, mut tell: impl FnMut(Event)) {
        self.known = [u32::MAX; CODES / 32];
        for (index, word) in self.keys.iter_mut().enumerate() {
            while *word != 0 {
                let code = 32 * index as u16 + word.trailing_zeros() as u16;
                *word &= *word - 1;
                tell(Event::key(code, false));
            }
        }
        tell(Event::END);
    }
}
