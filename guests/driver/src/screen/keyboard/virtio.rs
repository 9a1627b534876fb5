//! A keyboard of virtio's (virtio 1.2, 5.8), whose events have the codes of Linux.

use crate::device::Device;
use crate::memory::{EVENTS, ScreenMemory, address};
use core::sync::atomic::Ordering::Relaxed;

/// The device id of what a person types and points with.
const INPUT: u32 = 18;
/// The bytes of an event: its type, its code, its value.
const EVENT: u64 = 8;
/// The type of an event of a key.
const KEY: u64 = 1;

/// A keyboard.
pub struct VirtioKeyboard {
    device: Device<1>,
    memory: &'static ScreenMemory,
    to_board: u64,
}

impl VirtioKeyboard {
    /// Starts the one at `registers`.
    pub fn start(
        registers: u64,
        to_board: u64,
        memory: &'static ScreenMemory,
    ) -> Result<Self, &'static str> {
        let device = Device::start((registers, INPUT), 0, [&memory.keys], to_board)?;
        let mut own = Self {
            device,
            memory,
            to_board,
        };
        (0..EVENTS).for_each(|place| own.give(place));
        let [queue] = &mut own.device.queues;
        queue.tell();
        queue.listen();
        Ok(own)
    }

    /// Gives the device the place for an event.
    fn give(&mut self, place: usize) {
        if let Some(event) = self.memory.events.get(place) {
            let at = address(event).wrapping_add(self.to_board);
            let [queue] = &mut self.device.queues;
            queue.add_buffer(place as u16, at, EVENT);
        }
    }

    /// Takes what has come: the code of each key, and whether it was pressed.
    pub fn take(&mut self, mut hear: impl FnMut(u16, bool)) {
        self.device.acknowledge();
        // Asks to be told of more, and looks again for what came meanwhile; at most as often as there are places.
        for _ in 0..EVENTS {
            let [queue] = &mut self.device.queues;
            let Some((place, _)) = queue.next_done() else {
                if queue.listen() {
                    break;
                }
                continue;
            };
            let place = usize::from(place);
            let event = self.memory.events.get(place);
            let event = event.map_or(0, |event| event.load(Relaxed));
            if event & 0xffff == KEY {
                hear((event >> 16) as u16, event >> 32 != 0);
            }
            self.give(place);
        }
        let [queue] = &mut self.device.queues;
        queue.tell();
    }
}
