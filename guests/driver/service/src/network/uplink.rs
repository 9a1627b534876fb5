//! The board's network device.

use super::frame::{RECEIVE, SEND, set_prefix};
use super::port::Port;
use crate::device::Device;
use crate::machine::gic;
use crate::memory::{FRAME_DESCRIPTORS, FRAME_WORDS, PLACES, UplinkMemory, address};
use crate::wanted::{BoardDevice, Served};
use heapless::Vec;

/// The device id of a network interface.
const NETWORK: u32 = 1;

/// A frame of a client that the hypervisor or the board's device still reads.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) port: u16,
    pub(super) head: u16,
}

/// The board's device.
pub(super) struct Uplink {
    pub(super) own: BoardDevice,
    pub(super) device: Device<2>,
    pub(super) memory: &'static UplinkMemory,
    pub(super) to_board: u64,
    /// What the device sends, by the heads of its queue, and those that are free.
    pub(super) sent: [Option<Sent>; PLACES],
    pub(super) free: Vec<u16, PLACES>,
}

impl Uplink {
    pub(super) fn start(
        own: BoardDevice,
        served: &Served,
        memory: &'static UplinkMemory,
    ) -> Result<Self, &'static str> {
        let to_board = served
            .to_board
            .ok_or("the board's devices cannot reach this VM's memory")?;
        let [receive, send] = &memory.queues;
        let device = Device::start((own.registers, NETWORK), 0, [receive, send], to_board)?;
        gic::enable(own.interrupt);
        let mut uplink = Self {
            own,
            device,
            memory,
            to_board,
            sent: [None; PLACES],
            free: (0..PLACES as u16).collect(),
        };
        (0..PLACES as u16).for_each(|own| uplink.offer_buffer(own));
        uplink.device.queues[RECEIVE].tell();
        Ok(uplink)
    }

    /// Whether there is a place for one more frame besides so many.
    pub(super) fn has_place(&self, others: usize) -> bool {
        self.free.len() > others
    }

    /// Gives the device a buffer for what comes.
    pub(super) fn offer_buffer(&mut self, own: u16) {
        if let Some(words) = self.memory.buffers.get(usize::from(own)) {
            let at = address(words).wrapping_add(self.to_board);
            self.device.queues[RECEIVE].add_buffer(own, at, 8 * FRAME_WORDS as u64);
        }
    }

    /// Gives the device what a client sends by a table of so many bytes.
    pub(super) fn send(&mut self, sent: Sent, port: &Port, table: u64) {
        let slots = &port.memory.sent;
        let (Some(own), Some(words)) = (self.free.pop(), slots.get(usize::from(sent.head))) else {
            return;
        };
        let (_, data) = words.split_at(2 * FRAME_DESCRIPTORS);
        set_prefix(data, 0);
        if let Some(place) = self.sent.get_mut(usize::from(own)) {
            *place = Some(sent);
        }
        let at = address(words).wrapping_add(self.to_board);
        self.device.queues[SEND].add(own, at, table);
    }
}
