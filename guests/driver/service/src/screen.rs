//! A display of the board's that several VMs draw on.
//!
//! Their pictures lie one after the other in memory that the hypervisor set aside at boot, each of whole lines. A client
//! draws in its own; the display fetches from there by itself. So who is shown is the address at which the display begins:
//! that of one picture, or, for two side by side, that of the lower half of one, which the upper half of the next one follows.
//! Nobody copies a pixel.
//!
//! A client may have a display of virtio's instead: then this VM copies into the client's picture what the client wants to show.
//!
//! When a client ends, the hypervisor tells (`hanok_abi::channel`), and its picture is made black.

mod display;
mod gpu;
mod input;
mod keyboard;
mod pixels;
mod pl111;
mod resources;

use crate::machine::{gic, mmio};
use crate::memory::{DisplayMemory, InputMemory, ScreenMemory};
use crate::wanted::{Served, Wanted, WantedScreen};
use display::Display;
use gpu::Gpu;
use hanok_abi::channel::{CHANGED_SHIFT, register};
use heapless::Vec;
use input::Input;
use keyboard::{Combination, Event, Heard, Keyboard};
use pl111::Pl111;

/// The most bytes that are made black in one go.
const PIECE: u64 = 64 << 10;
/// The most clients.
const CLIENTS: usize = 7;

/// What shows the pictures.
enum Panel {
    /// Arm's, which fetches all the time.
    Pl111(Pl111),
    /// Virtio's, which is told when to fetch.
    Gpu(Gpu),
}

/// A screen that is served.
pub struct Screen {
    wanted: WantedScreen,
    panel: Panel,
    keyboard: Keyboard,
    /// The keyboards and mice of clients, and whose they are.
    inputs: Vec<(usize, Input), CLIENTS>,
    /// The displays of those clients that have one in place of a frame buffer.
    displays: Vec<Display, CLIENTS>,
    /// The first picture that is shown, from 0.
    first: usize,
    /// Whether the lower half of that one and the upper half of the next one are shown.
    halves: bool,
    /// The generation of each client, and what of its picture is still to be made black.
    clients: [(u16, u64); CLIENTS],
    /// Whether a client may have ended.
    changed: bool,
    /// Whether the display is told once more what it shows when the next thing is heard, such as that the keys are released. QEMU
    /// forgets what a PL111 is told while it draws.
    tell_again: bool,
}

impl Screen {
    /// Starts the board's display.
    pub fn start(
        wanted: &WantedScreen,
        served: &Served,
        memory: &'static ScreenMemory,
    ) -> Result<Self, &'static str> {
        if !(1..=CLIENTS).contains(&wanted.clients) {
            return Err("it has no clients, or too many");
        }
        let panel = match served.to_board {
            Some(to_board) if Gpu::is_at(wanted.device.registers) => {
                Panel::Gpu(Gpu::start(wanted, to_board, memory)?)
            }
            Some(_) => Panel::Pl111(Pl111::start(wanted)?),
            None => return Err("the board's display cannot reach memory"),
        };
        let to_board = served.to_board.unwrap_or(0);
        let mut keyboard = Keyboard::default();
        let devices = [(wanted.keyboard, false), (wanted.mouse, true)];
        for ((device, is_mouse), memory) in devices.into_iter().zip(&memory.inputs) {
            if let Some(device) = device {
                keyboard.add(&device, is_mouse, (to_board, memory))?;
            }
        }
        let mut screen = Self {
            wanted: *wanted,
            panel,
            keyboard,
            inputs: Vec::new(),
            displays: Vec::new(),
            first: 0,
            halves: false,
            clients: [(0, 0); CLIENTS],
            changed: false,
            tell_again: false,
        };
        let numbers = 1..=wanted.clients as u64;
        for (client, number) in screen.clients.iter_mut().zip(numbers.clone()) {
            client.0 = generation(wanted.registers, number);
        }
        let bits = numbers.fold(0, |bits, number| {
            bits | 1 << (number + u64::from(CHANGED_SHIFT))
        });
        mmio::write32(wanted.registers + register::ENABLE, bits);
        gic::enable(wanted.interrupt);
        println!(
            "driver: a screen of {} by {} for {} VMs",
            wanted.width, wanted.height, wanted.clients
        );
        screen.choose(Combination(wanted.front));
        if let Panel::Pl111(panel) = &screen.panel {
            panel.turn_on();
        }
        Ok(screen)
    }

    /// Whether its display is the device at these registers.
    pub fn is_at(&self, registers: u64) -> bool {
        self.wanted.device.registers == registers
    }

    /// Gives a client what is typed and pointed at while it is in front.
    pub fn connect(
        &mut self,
        wanted: &Wanted,
        memory: &'static InputMemory,
    ) -> Result<(), &'static str> {
        let client = self.wanted.client(wanted.client);
        let client = client.ok_or("the screen is not this client's")?;
        let input = Input::start(wanted, memory)?;
        let more = self.inputs.push((client, input));
        more.map_err(|_| "the screen has too many clients")
    }

    /// Gives a client a display whose picture is the client's here.
    pub fn connect_display(
        &mut self,
        wanted: &Wanted,
        memory: &'static DisplayMemory,
    ) -> Result<(), &'static str> {
        let client = self.wanted.client(wanted.client);
        let client = client.ok_or("the screen is not this client's")?;
        let display = Display::start(wanted, &self.wanted, client, memory)?;
        let more = self.displays.push(display);
        more.map_err(|_| "the screen has too many clients")
    }

    /// Shows the picture of the client with this number, from 1, or with 0 half of the one in front and half of the next one.
    fn choose(&mut self, Combination(number): Combination) {
        let last = self.wanted.clients - 1;
        match number.checked_sub(1) {
            Some(picture) if picture <= last => (self.first, self.halves) = (picture, false),
            Some(_) => return,
            None if last == 0 => return,
            None => (self.first, self.halves) = (self.first.min(last - 1), true),
        }
        self.show();
        self.tell_again = true;
        if self.halves {
            println!("driver: screen: {} and {}", self.first + 1, self.first + 2);
        } else {
            println!("driver: screen: {}", self.first + 1);
        }
    }

    /// Tells the display what it shows.
    fn show(&mut self) {
        let wanted = &self.wanted;
        let half = if self.halves {
            u64::from(wanted.stride) * u64::from(wanted.height / 2)
        } else {
            0
        };
        let offset = self.first as u64 * wanted.picture() + half;
        match &mut self.panel {
            Panel::Pl111(panel) => panel.show(wanted.board + offset),
            Panel::Gpu(panel) => panel.show(offset),
        }
    }

    /// Does what there is to do. Returns whether there was nothing, and whoever has more will interrupt.
    pub fn work(&mut self) -> bool {
        if core::mem::take(&mut self.changed) {
            for (client, number) in self.clients.iter_mut().zip(1..=self.wanted.clients as u64) {
                let now = generation(self.wanted.registers, number);
                if client.0 != now {
                    *client = (now, self.wanted.picture());
                }
            }
        }
        let black = self.make_black();
        let heard = self.keyboard.take();
        if !heard.is_empty() && core::mem::take(&mut self.tell_again) {
            self.show();
        }
        for heard in &heard {
            match heard {
                Heard::Event(event) => self.send(*event),
                Heard::Chosen(combination) => self.choose(*combination),
            }
        }
        let inputs = self.inputs.iter_mut().map(|(_, input)| input.work());
        let displays = self.displays.iter_mut().map(Display::work);
        let quiet = inputs
            .chain(displays)
            .fold(true, |quiet, done| quiet & done);
        let shown = match &mut self.panel {
            Panel::Pl111(_) => true,
            Panel::Gpu(panel) => panel.work(),
        };
        black && heard.is_empty() && shown && quiet
    }

    /// Tells the client in front of an event.
    fn send(&mut self, event: Event) {
        let in_front = self.first;
        let mut inputs = self.inputs.iter_mut();
        if let Some((_, input)) = inputs.find(|(client, _)| *client == in_front) {
            input.send(event);
        }
    }

    /// Makes a piece of a picture black whose client has ended. Returns whether there was none.
    fn make_black(&mut self) -> bool {
        let mut start = self.wanted.frames;
        for (_, left) in &mut self.clients {
            let end = start + self.wanted.picture();
            if *left > 0 {
                let len = PIECE.min(*left);
                let from = end - *left;
                (from..from + len)
                    .step_by(4)
                    .for_each(|at| mmio::write32(at, 0));
                *left -= len;
                return false;
            }
            start = end;
        }
        true
    }

    /// The timer's interrupt has come.
    pub fn beat(&mut self) {
        if let Panel::Gpu(panel) = &mut self.panel {
            panel.beat();
        }
    }

    /// Interrupt `id` has come.
    pub fn interrupted(&mut self, id: u32) {
        if id == self.wanted.interrupt {
            let registers = self.wanted.registers;
            let pending = mmio::read32(registers + register::PENDING);
            mmio::write32(registers + register::PENDING, pending);
            self.changed = true;
        }
        self.keyboard.interrupted(id);
        let inputs = self.inputs.iter_mut();
        inputs.for_each(|(_, input)| input.interrupted(id));
        let displays = self.displays.iter_mut();
        displays.for_each(|display| display.interrupted(id));
        if let Panel::Gpu(panel) = &mut self.panel {
            panel.interrupted(id);
        }
    }
}

/// How many boots of the client with this number have ended.
fn generation(registers: u64, number: u64) -> u16 {
    (mmio::read32(registers + register::PEER + 4 * number) >> 16) as u16
}

#[cfg(test)]
mod tests;
