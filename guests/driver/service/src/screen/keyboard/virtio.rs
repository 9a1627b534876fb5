//! A keyboard or a mouse of virtio's (virtio 1.2, 5.8).

use super::Event;
use crate::device::Device;
use crate::memory::{EVENTS, EventMemory, address};
use core::sync::atomic::Ordering::Relaxed;

/// The device id of what a person types and points with.
const INPUT: u32 = 18;
/// The bytes of an event.
const BYTES: u64 = 8;

/// A keyboard or a mouse.
pub struct VirtioInput {
    device: Device<1>,
    memory: &'static EventMemory,
    to_board: u64,
}

impl VirtioInput {
    /// Starts the one at `registers`.
    pub fn start(
        registers: u64,
        to_board: u64,
        memory: &'static EventMemory,
    ) -> Result<Self, &'static str> {
        let device = Device::start((registers, INPUT), 0, [&memory.queue], to_board)?;
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
            queue.add_buffer(place as u16, at, BYTES);
        }
    }

    /// Takes what has come.
    pub fn take(&mut self, hear: &mut impl FnMut(Event)) {
        self.device.acknowledge_or_begin_again();
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
            if let Some(event) = self.memory.events.get(place) {
                hear(Event::of_word(event.load(Relaxed)));
            }
            self.give(place);
        }
        let [queue] = &mut self.device.queues;
        queue.tell();
    }
}
