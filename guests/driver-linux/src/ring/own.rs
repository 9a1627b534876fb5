//! A ring read by this program itself: rust-vmm's crates are for 64 bits alone.

use super::{AVAILABLE, Broken, Layout, Piece, Request, Ring, USED};
use crate::memory::Memory;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU16, fence};

/// The bytes of a descriptor.
const DESCRIPTOR: u64 = 16;
/// Flags of a descriptor: another one follows, the device writes, it names a table.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// Such a ring.
#[derive(Debug)]
pub struct Own {
    memory: Memory,
    layout: Layout,
    next_available: u16,
    next_used: u16,
    told: u16,
}

/// A descriptor.
struct Descriptor {
    piece: Piece,
    flags: u16,
    next: u16,
}

impl Own {
    /// The ring that lies so in this memory, of which nothing was read yet.
    ///
    /// # Errors
    /// None; as that of rust-vmm has one.
    pub const fn new(memory: Memory, layout: Layout) -> Result<Self, Broken> {
        Ok(Self {
            memory,
            layout,
            next_available: 0,
            next_used: 0,
            told: 0,
        })
    }

    fn half(&self, offset: u64) -> Result<&AtomicU16, Broken> {
        self.memory.half(self.base() + offset).ok_or(Broken)
    }

    fn base(&self) -> u64 {
        self.memory.base() + self.layout.start
    }

    fn descriptor(&self, table: u64, index: u64) -> Option<Descriptor> {
        let mut bytes = [0; DESCRIPTOR as usize];
        let at = table.checked_add(index * DESCRIPTOR)?;
        self.memory.read(at, &mut bytes)?;
        let [at @ .., _, _, _, _, _, _, _, _] = bytes;
        let [_, _, _, _, _, _, _, _, a, b, c, d, e, f, g, h] = bytes;
        Some(Descriptor {
            piece: Piece {
                at: u64::from_le_bytes(at),
                len: u32::from_le_bytes([a, b, c, d]),
            },
            flags: u16::from_le_bytes([e, f]),
            next: u16::from_le_bytes([g, h]),
        })
    }

    /// Adds the pieces of the chain in a table of `count` descriptors. It has an end after so many, also where it is a loop.
    fn add(&self, request: &mut Request, (table, first, count): (u64, u16, u32)) -> Option<()> {
        let mut index = first;
        for _ in 0..count.min(self.layout.descriptors + 1) {
            let inside = u32::from(index) < count;
            let descriptor = self.descriptor(table, index.into()).filter(|_| inside)?;
            // A table names no other one.
            if descriptor.flags & INDIRECT != 0 {
                return None;
            }
            let pieces = match descriptor.flags & WRITE {
                0 => &mut request.read,
                _ => &mut request.write,
            };
            pieces.push(descriptor.piece);
            if descriptor.flags & NEXT == 0 {
                return Some(());
            }
            index = descriptor.next;
        }
        None
    }
}

impl Ring for Own {
    fn next(&mut self) -> Result<Option<Request>, Broken> {
        let places = self.layout.places;
        let available = self.half(AVAILABLE + 2)?.load(Acquire);
        if available == self.next_available {
            return Ok(None);
        }
        if available.wrapping_sub(self.next_available) > places {
            return Err(Broken);
        }
        let place = u64::from(self.next_available % places);
        let head = self.half(AVAILABLE + 4 + 2 * place)?.load(Relaxed);
        if head >= places {
            return Err(Broken);
        }
        self.next_available = self.next_available.wrapping_add(1);
        let mut request = Request {
            head,
            read: Vec::new(),
            write: Vec::new(),
        };
        let table = self.base();
        let first = self.descriptor(table, head.into()).ok_or(Broken)?;
        let Piece { at, len } = first.piece;
        // What has no end, or is not there, lacks the place for an answer, and is over.
        let _ended = if first.flags & INDIRECT == 0 {
            self.add(&mut request, (table, head, places.into()))
        } else {
            self.add(&mut request, (at, 0, len / DESCRIPTOR as u32))
        };
        Ok(Some(request))
    }

    fn answer(&mut self, head: u16, written: u32) -> Result<(), Broken> {
        let place = u64::from(self.next_used % self.layout.places);
        let element = [u32::from(head).to_le_bytes(), written.to_le_bytes()].concat();
        let at = self.base() + USED + 4 + 8 * place;
        self.memory.write(at, &element).ok_or(Broken)?;
        self.next_used = self.next_used.wrapping_add(1);
        self.half(USED + 2)?.store(self.next_used, Release);
        Ok(())
    }

    /// The hypervisor says behind the available ring which answer it wants to be told of (virtio 1.2, 2.7.7).
    fn must_tell(&mut self) -> Result<bool, Broken> {
        fence(SeqCst);
        let event = self.half(AVAILABLE + 4 + 2 * u64::from(self.layout.places))?;
        let behind = self
            .next_used
            .wrapping_sub(event.load(Relaxed))
            .wrapping_sub(1);
        let new = self.next_used.wrapping_sub(self.told);
        self.told = self.next_used;
        Ok(behind < new)
    }

    fn listen(&mut self) -> Result<bool, Broken> {
        let event = self.half(USED + 4 + 8 * u64::from(self.layout.places))?;
        event.store(self.next_available, Relaxed);
        fence(SeqCst);
        Ok(self.half(AVAILABLE + 2)?.load(Acquire) != self.next_available)
    }

    fn memory(&self) -> Memory {
        self.memory
    }
}
