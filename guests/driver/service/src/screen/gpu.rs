//! Virtio's display (virtio 1.2, 5.7), as far as one picture in memory needs it: the resource that is shown has as its memory all
//! clients' pictures by their address on the board. At the beats of the driver's timer the device is told to take the part that is
//! shown over from there.

use crate::device::Device;
use crate::machine::{gic, mmio, timer};
use crate::memory::{ScreenMemory, address};
use crate::wanted::WantedScreen;
use core::sync::atomic::Ordering::Relaxed;

/// The device id of a display.
const GPU: u32 = 16;
/// The register with the device id of a virtio transport.
const DEVICE_ID: u64 = 0x008;
/// The magic number of a virtio transport.
const MAGIC: u32 = u32::from_le_bytes(*b"virt");

/// Commands (5.7.6.8), and the answer that all is well.
const CREATE: u32 = 0x0101;
const SET_SCANOUT: u32 = 0x0103;
const FLUSH: u32 = 0x0104;
const TRANSFER: u32 = 0x0105;
const ATTACH: u32 = 0x0106;
const OK: u32 = 0x1100;
/// Blue in the lowest byte of a pixel, the highest not used.
const B8G8R8X8: u32 = 2;
/// The number of the one resource.
const RESOURCE: u32 = 1;
/// Pictures a second.
const RATE: u64 = 30;
/// The words of a command's header.
const HEADER: usize = 6;
/// Where a command and its answer are in their place, behind the descriptors of both.
const COMMAND: usize = 8;
const ANSWER: usize = 24;
/// Flags of a descriptor: another one follows, the device writes.
const NEXT: u32 = 1;
const WRITE: u32 = 2;

/// The display.
pub struct Gpu {
    device: Device<1>,
    memory: &'static ScreenMemory,
    to_board: u64,
    interrupt: u32,
    size: [u32; 2],
    offset: u64,
    /// How many commands have not been answered.
    open: usize,
    /// Whether the next picture is due.
    due: bool,
}

impl Gpu {
    /// Whether the device at `registers` is one of virtio's.
    pub fn is_at(registers: u64) -> bool {
        mmio::read32(registers) == MAGIC && mmio::read32(registers + DEVICE_ID) == GPU
    }

    /// Starts it.
    pub fn start(
        wanted: &WantedScreen,
        to_board: u64,
        memory: &'static ScreenMemory,
    ) -> Result<Self, &'static str> {
        if wanted.stride != 4 * wanted.width {
            return Err("virtio's display has pixels of 32 bits");
        }
        let at = (wanted.device.registers, GPU);
        let device = Device::start(at, 0, [&memory.queue], to_board)?;
        let mut own = Self {
            device,
            memory,
            to_board,
            interrupt: wanted.device.interrupt,
            size: [wanted.width, wanted.height],
            offset: 0,
            open: 0,
            due: true,
        };
        let [width, height] = own.size;
        let all = wanted.picture() * wanted.clients as u64;
        own.command(0, CREATE, &[RESOURCE, B8G8R8X8, width, height])?;
        let board = [wanted.board as u32, (wanted.board >> 32) as u32];
        own.command(1, ATTACH, &[RESOURCE, 1, board[0], board[1], all as u32, 0])?;
        own.command(2, SET_SCANOUT, &[0, 0, width, height, 0, RESOURCE])?;
        gic::enable(own.interrupt);
        Ok(own)
    }

    /// Gives the device a command, and waits for its answer.
    fn command(&mut self, place: usize, kind: u32, words: &[u32]) -> Result<(), &'static str> {
        self.put(place, kind, words);
        let [queue] = &mut self.device.queues;
        queue.tell();
        if !timer::wait_until(|| queue.next_done().is_some()) {
            return Err("the board's display does not answer");
        }
        self.open = 0;
        let answer = self.memory.places.get(place).and_then(|at| at.get(ANSWER));
        match answer.map(|answer| answer.load(Relaxed)) {
            Some(OK) => Ok(()),
            _ => Err("the board's display has refused a command"),
        }
    }

    /// Puts a command with these words behind its header into a place and into the queue.
    fn put(&mut self, place: usize, kind: u32, words: &[u32]) {
        let Some(memory) = self.memory.places.get(place) else {
            return;
        };
        let table = address(memory).wrapping_add(self.to_board);
        let (command, answer) = (table + 4 * COMMAND as u64, table + 4 * ANSWER as u64);
        let len = 4 * (HEADER + words.len()) as u32;
        let descriptors = [
            command as u32,
            (command >> 32) as u32,
            len,
            NEXT | 1 << 16,
            answer as u32,
            (answer >> 32) as u32,
            4 * HEADER as u32,
            WRITE,
        ];
        let header = [kind, 0, 0, 0, 0, 0];
        let all = descriptors.iter().chain(&header).chain(words);
        for (word, value) in memory.iter().zip(all) {
            word.store(*value, Relaxed);
        }
        let [queue] = &mut self.device.queues;
        queue.add(place as u16, table, 32);
        self.open += 1;
    }

    /// Shows the pictures' memory from this offset on.
    pub fn show(&mut self, offset: u64) {
        self.offset = offset;
        self.due = true;
    }

    /// Has the device take a picture over, if that is due. Returns whether there was nothing to do.
    pub fn work(&mut self) -> bool {
        let [queue] = &mut self.device.queues;
        while queue.next_done().is_some() {
            self.open = self.open.saturating_sub(1);
        }
        if self.due && self.open == 0 {
            self.due = false;
            let [width, height] = self.size;
            let from = [self.offset as u32, (self.offset >> 32) as u32];
            let transfer = [0, 0, width, height, from[0], from[1], RESOURCE, 0];
            self.put(0, TRANSFER, &transfer);
            self.put(1, FLUSH, &[0, 0, width, height, RESOURCE, 0]);
            let [queue] = &mut self.device.queues;
            queue.tell();
            timer::fire_at(timer::now() + timer::frequency() / RATE);
            return false;
        }
        let [queue] = &self.device.queues;
        queue.listen()
    }

    /// Interrupt `id` has come.
    pub fn interrupted(&mut self, id: u32) {
        if id == self.interrupt {
            self.device.acknowledge_or_begin_again();
        }
    }

    /// The timer's interrupt has come.
    pub fn beat(&mut self) {
        self.due = true;
    }
}
