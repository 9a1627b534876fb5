//! What the driver VM does: virtio devices of other VMs (`hanok_abi::back_end`), served with the board's.
//!
//! It is one loop on one CPU with interrupts masked: whatever interrupt comes only ends the sleep, and then each device is
//! looked at. All that it shares, with the hypervisor and with the board's devices, are atomics in static memory, so that
//! there is no unsafe code.
//!
//! On a PC, where the tests of this crate run, `fake` has the machine's place.
//!
//! | module | |
//! |---|---|
//! | `wanted` | what it is to serve, and with what |
//! | `memory` | the layout of a split queue and of slots in memory |
//! | `back_end` | a virtio device of another VM: requests and answers |
//! | `device` | a virtio device of the board's, by virtio over MMIO |
//! | `forward` | a disk, a directory or a console served with the board's |
//! | `card` | a disk served with an SD card of the board's |
//! | `vsock` | a switch for sockets between clients |
//! | `network` | a switch between clients, and a device of the board |
//! | `screen` | a display of the board's that clients draw on |

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
#[macro_use]
extern crate hanok_guest_runtime as machine;
#[cfg(not(target_os = "none"))]
#[macro_use]
mod fake;

mod back_end;
mod card;
mod device;
mod forward;
mod memory;
mod network;
mod screen;
mod vsock;
mod wanted;

#[cfg(not(target_os = "none"))]
use fake as machine;

pub use wanted::{BoardDevice, MOST, MOST_SCREENS, Served, Wanted, WantedScreen};

use card::CardDisk;
use forward::{CONSOLE, DIRECTORY, DISK, Forwarder, Kind, lanes};
use heapless::Vec;
use machine::{cpu, gic, psci, timer};
use memory::{DISPLAYS, INPUTS, LANES, PORTS, SCREENS, SOCKETS, UPLINKS};
use network::Switch;
use screen::Screen;
use vsock::Sockets;

/// The passes after which interrupts are looked at though there is work: whoever leaves one alone seems to hang.
const PASSES: u32 = 16;

/// Why one more device is not served.
const TOO_MANY: &str = "it has too many devices";

/// Resets this VM: what its clients wait for is done again after it.
#[cold]
fn begin_again(why: &str) -> ! {
    println!("driver: {why}: it begins again");
    psci::system_reset()
}

/// What is served.
#[derive(Default)]
struct All {
    /// Disks and directories, and consoles.
    singles: Vec<Forwarder<1>, { LANES.len() }>,
    pairs: Vec<Forwarder<2>, { LANES.len() / 2 }>,
    lanes: usize,
    cards: Vec<CardDisk, 1>,
    /// One for each device of the board, and one without.
    switches: Vec<Switch, { UPLINKS.len() + 1 }>,
    ports: usize,
    screens: Vec<Screen, { SCREENS.len() }>,
    /// The interrupt of the timer, which screens have.
    timer: Option<u32>,
    inputs: usize,
    displays: usize,
    sockets: Sockets,
    sockets_used: usize,
}

/// It is on the first CPU's stack, which nothing guards, with what adds to it.
const _: () = assert!(size_of::<All>() <= 64 << 10);

impl All {
    fn add(&mut self, served: &Served, wanted: &Wanted) -> Result<(), &'static str> {
        match wanted.kind {
            "virtio-block" => self.add_disk(served, wanted),
            "virtio-9p" => self.add_single(&DIRECTORY, served, wanted),
            "virtio-console" => {
                let lanes = lanes(&mut self.lanes).ok_or(TOO_MANY)?;
                let forwarder = Forwarder::start(&CONSOLE, wanted, served, lanes)?;
                self.pairs.push(forwarder).map_err(|_| TOO_MANY)
            }
            "virtio-network" => self.add_port(served, wanted),
            "virtio-input" => self.add_input(wanted),
            "virtio-gpu" => self.add_display(wanted),
            "virtio-vsock" => {
                let memory = SOCKETS.get(self.sockets_used);
                self.sockets
                    .connect(wanted, memory.ok_or("it has too many clients")?)?;
                self.sockets_used += 1;
                Ok(())
            }
            _ => Err("this program does not serve it"),
        }
    }

    fn add_disk(&mut self, served: &Served, wanted: &Wanted) -> Result<(), &'static str> {
        let registers = wanted.device.map(|device| device.registers);
        let Some(controller) = registers.and_then(CardDisk::controller) else {
            return self.add_single(&DISK, served, wanted);
        };
        let [lane] = lanes(&mut self.lanes).ok_or(TOO_MANY)?;
        let card = CardDisk::start(wanted, controller, lane)?;
        self.cards.push(card).map_err(|_| TOO_MANY)
    }

    fn add_single(
        &mut self,
        kind: &'static Kind,
        served: &Served,
        wanted: &Wanted,
    ) -> Result<(), &'static str> {
        let lanes = lanes(&mut self.lanes).ok_or(TOO_MANY)?;
        let forwarder = Forwarder::start(kind, wanted, served, lanes)?;
        self.singles.push(forwarder).map_err(|_| TOO_MANY)
    }

    fn add_port(&mut self, served: &Served, wanted: &Wanted) -> Result<(), &'static str> {
        let memory = PORTS.get(self.ports).ok_or("it has too many clients")?;
        let own = wanted.device;
        if !self.switches.iter().any(|switch| switch.has(own)) {
            let uplinks = self.switches.iter().filter(|switch| !switch.has(None));
            let switch = Switch::start(own, served, UPLINKS.get(uplinks.count()))?;
            let more = self.switches.push(switch);
            more.map_err(|_| "it has too many networks")?;
        }
        let mut switches = self.switches.iter_mut();
        let switch = switches.find(|switch| switch.has(own));
        switch
            .ok_or("it has no such network")?
            .connect(wanted, memory)?;
        self.ports += 1;
        Ok(())
    }

    fn add_input(&mut self, wanted: &Wanted) -> Result<(), &'static str> {
        let memory = INPUTS.get(self.inputs).ok_or("it has too many keyboards")?;
        let device = wanted.device.ok_or("it has no screen")?;
        let mut screens = self.screens.iter_mut();
        let screen = screens.find(|screen| screen.is_at(device.registers));
        screen
            .ok_or("its screen is not served")?
            .connect(wanted, memory)?;
        self.inputs += 1;
        Ok(())
    }

    fn add_display(&mut self, wanted: &Wanted) -> Result<(), &'static str> {
        let memory = DISPLAYS.get(self.displays);
        let memory = memory.ok_or("it has too many displays")?;
        let device = wanted.device.ok_or("it has no screen")?;
        let mut screens = self.screens.iter_mut();
        let screen = screens.find(|screen| screen.is_at(device.registers));
        screen
            .ok_or("its screen is not served")?
            .connect_display(wanted, memory)?;
        self.displays += 1;
        Ok(())
    }

    fn add_screen(&mut self, served: &Served, wanted: &WantedScreen) -> Result<(), &'static str> {
        let memory = SCREENS.get(self.screens.len());
        let memory = memory.ok_or("it has too many screens")?;
        let screen = Screen::start(wanted, served, memory)?;
        self.screens
            .push(screen)
            .map_err(|_| "it has too many screens")?;
        self.timer.iter().for_each(|id| gic::enable(*id));
        Ok(())
    }

    fn work(&mut self) -> bool {
        let singles = self.singles.iter_mut().map(Forwarder::work);
        let pairs = self.pairs.iter_mut().map(Forwarder::work);
        let switches = self.switches.iter_mut().map(Switch::work);
        let screens = self.screens.iter_mut().map(Screen::work);
        let cards = self.cards.iter_mut().map(CardDisk::work);
        let sockets = core::iter::once_with(|| self.sockets.work());
        let all = singles
            .chain(pairs)
            .chain(cards)
            .chain(switches)
            .chain(sockets)
            .chain(screens);
        all.fold(true, |idle, done| idle & done)
    }

    /// Acknowledges the interrupts that have come.
    fn take_interrupts(&mut self) {
        loop {
            let id = gic::acknowledge();
            if id >= gic::SPECIAL {
                return;
            }
            let number = id as u32;
            if self.timer == Some(number) {
                timer::stop();
                self.screens.iter_mut().for_each(Screen::beat);
            }
            let screens = self.screens.iter_mut();
            screens.for_each(|screen| screen.interrupted(number));
            let singles = self.singles.iter_mut();
            singles.for_each(|single| single.interrupted(number));
            let pairs = self.pairs.iter_mut();
            pairs.for_each(|pair| pair.interrupted(number));
            let cards = self.cards.iter_mut();
            cards.for_each(|card| card.interrupted(number));
            let switches = self.switches.iter_mut();
            switches.for_each(|switch| switch.interrupted(number));
            self.sockets.interrupted(number);
            gic::end(id);
        }
    }
}

/// Serves what it can, for ever; returns if it is nothing. After `hang` passes it does nothing any more, for tests.
pub fn serve(served: &Served, timer: Option<u32>, hang: Option<u32>) {
    let mut all = All {
        timer,
        ..All::default()
    };
    for wanted in &served.screens {
        if let Err(why) = all.add_screen(served, wanted) {
            println!("driver: a screen: {why}");
        }
    }
    for wanted in &served.back_ends {
        if let Err(why) = all.add(served, wanted) {
            println!("driver: {} of {}: {why}", wanted.kind, wanted.client);
        }
    }
    let used = all.singles.len()
        + all.pairs.len()
        + all.cards.len()
        + all.ports
        + all.screens.len()
        + all.sockets_used;
    if used == 0 {
        println!("driver: there is nothing to serve");
        return;
    }
    let mut passes = 0_u32;
    loop {
        passes = passes.wrapping_add(1);
        let idle = all.work();
        if idle {
            cpu::wait_for_interrupt();
        }
        if idle || passes.is_multiple_of(PASSES) {
            all.take_interrupts();
        }
        if hang.is_some_and(|after| passes >= after) {
            println!("driver: hangs");
            loop {
                cpu::wait_for_interrupt();
            }
        }
    }
}
