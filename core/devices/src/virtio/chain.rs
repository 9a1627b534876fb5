//! Walks over the descriptors of one request (virtio 1.2, 2.7.5).

use super::{Breach, Fault};
use hanok_hal::GuestMemory;
use hanok_types::{Address, Ipa};

/// The most descriptors of one chain, those of an indirect table included. The standard allows as many as the queue
/// has places; drivers put more into tables, and QEMU takes up to 1,024.
pub const LONGEST: u16 = 1024;

/// The size of a descriptor in bytes.
pub(super) const DESCRIPTOR: u64 = 16;

/// Flags of a descriptor: another one follows, the device may write the buffer, the buffer is a table of descriptors.
pub(super) const NEXT: u16 = 1;
pub(super) const WRITE: u16 = 2;
pub(super) const INDIRECT: u16 = 4;

/// A piece of memory that a request names. Nobody has checked yet that the guest has memory there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Where it begins.
    pub at: Ipa,
    /// Its length in bytes; it does not end beyond the address space.
    pub bytes: u32,
    /// Whether the device may write it; otherwise it may read it.
    pub write: bool,
}

/// A descriptor, as the driver has written it.
#[derive(Clone, Copy)]
pub(super) struct Descriptor {
    pub(super) at: u64,
    pub(super) bytes: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    pub(super) fn read(memory: &impl GuestMemory, at: Ipa) -> Result<Self, Fault> {
        let mut table = Table::<1>::EMPTY;
        memory.read(at, table.0.as_flattened_mut())?;
        let [only] = table.0;
        Ok(Self::of(u128::from_le_bytes(only)))
    }

    fn of(all: u128) -> Self {
        let (low, high) = (all as u64, (all >> 64) as u64);
        Self {
            at: low,
            bytes: high as u32,
            flags: (high >> 32) as u16,
            next: (high >> 48) as u16,
        }
    }

    pub(super) fn has(self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Descriptors one after the other, aligned so that they are read and written by words.
#[derive(Debug)]
#[repr(align(16))]
pub(super) struct Table<const N: usize>(pub(super) [[u8; DESCRIPTOR as usize]; N]);

impl<const N: usize> Table<N> {
    pub(super) const EMPTY: Self = Self([[0; DESCRIPTOR as usize]; N]);
}

/// How many descriptors are read at once.
const AHEAD: usize = 8;

/// A VM's memory with descriptors, of which several of one table are read at once.
pub(super) struct Ahead<'a, M> {
    memory: &'a M,
    /// Where the first of those is that were read last, and how many bytes these are.
    at: Ipa,
    len: u64,
    found: Table<AHEAD>,
}

impl<'a, M: GuestMemory> Ahead<'a, M> {
    /// Nothing is read yet.
    pub(super) fn new(memory: &'a M) -> Self {
        Self {
            memory,
            at: Ipa::new(0),
            len: 0,
            found: Table::EMPTY,
        }
    }

    /// The descriptor at `at`, after which the table has `left` more.
    #[inline(always)]
    fn descriptor(&mut self, at: Ipa, left: u32) -> Result<Descriptor, Fault> {
        let behind = at.get().wrapping_sub(self.at.get());
        if behind >= self.len || !behind.is_multiple_of(DESCRIPTOR) {
            return self.read(at, left);
        }
        let found = self.found.0.get((behind / DESCRIPTOR) as usize);
        let found = *found.ok_or(Breach::Next)?;
        Ok(Descriptor::of(u128::from_le_bytes(found)))
    }

    /// The same, of one that was not read yet.
    #[inline(never)]
    fn read(&mut self, at: Ipa, left: u32) -> Result<Descriptor, Fault> {
        let count = (left as usize).min(AHEAD - 1) + 1;
        self.len = 0;
        let bytes = self.found.0.get_mut(..count).unwrap_or_default();
        if self.memory.read(at, bytes.as_flattened_mut()).is_err() {
            // The chain may end before the memory does.
            return Descriptor::read(self.memory, at);
        }
        (self.at, self.len) = (at, count as u64 * DESCRIPTOR);
        let [first, ..] = self.found.0;
        Ok(Descriptor::of(u128::from_le_bytes(first)))
    }
}

/// The rest of a chain of buffers. It is a plain value: the walk can be put aside after each descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The table that it is in, and the number of descriptors there.
    table: Ipa,
    count: u32,
    next: Option<u16>,
    /// How many descriptors there were.
    walked: u16,
    /// The bytes of all buffers so far.
    bytes: u32,
    writes: bool,
    /// Whether a table of descriptors may come.
    may_branch: bool,
}

impl Chain {
    /// The chain that begins at `head` in the table of a queue with `count` descriptors.
    pub(super) fn new(table: Ipa, count: u16, head: u16, may_branch: bool) -> Self {
        Self {
            table,
            count: count.into(),
            next: Some(head),
            walked: 0,
            bytes: 0,
            writes: false,
            may_branch,
        }
    }

    /// The next buffer, read by at most two descriptors; `None` after the last one.
    ///
    /// # Errors
    /// The memory with the descriptor is missing or absent, or the driver has broken a rule. Then the chain is as before.
    pub fn next(&mut self, memory: &impl GuestMemory) -> Result<Option<Buffer>, Fault> {
        self.next_of(&mut Ahead::new(memory))
    }

    /// [`Self::next`] for several calls one after the other.
    pub(super) fn next_of<M: GuestMemory>(
        &mut self,
        memory: &mut Ahead<'_, M>,
    ) -> Result<Option<Buffer>, Fault> {
        let mut chain = *self;
        let found = match chain.descriptor(memory)? {
            Some(descriptor) if descriptor.has(INDIRECT) => {
                chain.branch(descriptor)?;
                chain.descriptor(memory)?
            }
            other => other,
        };
        let Some(descriptor) = found else {
            return Ok(None);
        };
        let buffer = chain.take(descriptor)?;
        *self = chain;
        Ok(Some(buffer))
    }

    /// The number of bytes in all buffers so far.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Whether no buffer follows.
    pub(super) fn is_over(&self) -> bool {
        self.next.is_none()
    }

    fn descriptor<M: GuestMemory>(
        &self,
        memory: &mut Ahead<'_, M>,
    ) -> Result<Option<Descriptor>, Fault> {
        let Some(next) = self.next else {
            return Ok(None);
        };
        if u32::from(next) >= self.count {
            return Err(Breach::Next.into());
        }
        let offset = u64::from(next) * DESCRIPTOR;
        let at = self.table.checked_add(offset).ok_or(Breach::Length)?;
        // The first one is mostly the only one of its table that is of this chain.
        let left = if self.may_branch {
            0
        } else {
            self.count - u32::from(next) - 1
        };
        memory.descriptor(at, left).map(Some)
    }

    /// Goes on in the table that `descriptor` names.
    fn branch(&mut self, descriptor: Descriptor) -> Result<(), Breach> {
        let bytes = u64::from(descriptor.bytes);
        let whole = bytes > 0 && bytes.is_multiple_of(DESCRIPTOR);
        if !self.may_branch || !whole || descriptor.has(NEXT) {
            return Err(Breach::Indirect);
        }
        if bytes > DESCRIPTOR * u64::from(LONGEST) {
            return Err(Breach::Long);
        }
        self.table = Ipa::new(descriptor.at);
        self.count = (bytes / DESCRIPTOR) as u32;
        self.next = Some(0);
        self.may_branch = false;
        Ok(())
    }

    fn take(&mut self, descriptor: Descriptor) -> Result<Buffer, Breach> {
        if descriptor.has(INDIRECT) {
            return Err(Breach::Indirect);
        }
        if self.walked == LONGEST {
            return Err(Breach::Long);
        }
        let buffer = Buffer {
            at: Ipa::new(descriptor.at),
            bytes: descriptor.bytes,
            write: descriptor.has(WRITE),
        };
        if self.writes && !buffer.write {
            return Err(Breach::Order);
        }
        let end = buffer.at.checked_add(buffer.bytes.into());
        let bytes = self.bytes.checked_add(buffer.bytes);
        let (Some(_), Some(bytes)) = (end, bytes) else {
            return Err(Breach::Length);
        };
        self.walked += 1;
        self.bytes = bytes;
        self.writes = buffer.write;
        self.next = descriptor.has(NEXT).then_some(descriptor.next);
        Ok(buffer)
    }
}
