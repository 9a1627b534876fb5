//! A ring that rust-vmm's crates read.

use super::{AVAILABLE, Broken, Layout, Piece, Request, Ring, USED};
use crate::memory::{Memory, SIZE};
use rustix::mm::{MapFlags, ProtFlags};
use virtio_queue::{Queue, QueueT};
use vm_memory::{GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

/// Such a ring.
#[derive(Debug)]
pub struct Vmm {
    queue: Queue,
    mapped: GuestMemoryMmap,
    memory: Memory,
    layout: Layout,
}

impl Vmm {
    /// The ring that lies so in this memory, of which nothing was read yet.
    ///
    /// # Errors
    /// It does not fit.
    pub fn new(memory: Memory, layout: Layout) -> Result<Self, Broken> {
        let broken = |_| Broken;
        let mut queue = Queue::new(layout.places).map_err(broken)?;
        let at = |offset| GuestAddress(memory.base() + layout.start + offset);
        queue
            .try_set_desc_table_address(at(0))
            .and_then(|()| queue.try_set_avail_ring_address(at(AVAILABLE)))
            .and_then(|()| queue.try_set_used_ring_address(at(USED)))
            .map_err(broken)?;
        queue.set_event_idx(true);
        queue.set_ready(true);
        let protection = (ProtFlags::READ | ProtFlags::WRITE).bits() as i32;
        let flags = MapFlags::SHARED.bits() as i32;
        let place = memory.place().as_ptr();
        // SAFETY: a `Memory` is mapped for ever.
        let region = unsafe { MmapRegion::build_raw(place, SIZE, protection, flags) };
        let region = GuestRegionMmap::new(region.map_err(|_| Broken)?, GuestAddress(memory.base()))
            .ok_or(Broken)?;
        let mapped = GuestMemoryMmap::from_regions(vec![region]).map_err(|_| Broken)?;
        Ok(Self {
            queue,
            mapped,
            memory,
            layout,
        })
    }
}

impl Ring for Vmm {
    fn next(&mut self) -> Result<Option<Request>, Broken> {
        let Some(chain) = self.queue.pop_descriptor_chain(&self.mapped) else {
            return Ok(None);
        };
        let mut request = Request {
            head: chain.head_index(),
            read: Vec::new(),
            write: Vec::new(),
        };
        for descriptor in chain.take(self.layout.descriptors as usize + 1) {
            let pieces = if descriptor.is_write_only() {
                &mut request.write
            } else {
                &mut request.read
            };
            pieces.push(Piece {
                at: descriptor.addr().0,
                len: descriptor.len(),
            });
        }
        Ok(Some(request))
    }

    fn answer(&mut self, head: u16, written: u32) -> Result<(), Broken> {
        let used = self.queue.add_used(&self.mapped, head, written);
        used.map_err(|_| Broken)
    }

    fn must_tell(&mut self) -> Result<bool, Broken> {
        let told = self.queue.needs_notification(&self.mapped);
        told.map_err(|_| Broken)
    }

    fn listen(&mut self) -> Result<bool, Broken> {
        let more = self.queue.enable_notification(&self.mapped);
        more.map_err(|_| Broken)
    }

    fn memory(&self) -> Memory {
        self.memory
    }
}
