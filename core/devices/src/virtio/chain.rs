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

impl Buffer {
    /// One of no bytes.
    pub(super) const EMPTY: Self = Self {
        at: Ipa::new(0),
        bytes: 0,
        write: false,
    };

    /// Leaves its first bytes out; it has as many.
    pub(super) fn skip(&mut self, bytes: u32) {
        self.at = self.at.checked_add(bytes.into()).unwrap_or(self.at);
        self.bytes -= bytes;
    }
}

/// A descriptor, as the driver has written it, or as it is to be written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Descriptor {
    pub(super) at: u64,
    pub(super) bytes: u32,
    pub(super) flags: u16,
    pub(super) next: u16,
}

impl Descriptor {
    pub(super) fn read(memory: &impl GuestMemory, at: Ipa) -> Result<Self, Fault> {
        let mut table = Table::<1>::EMPTY;
        memory.read(at, table.0.as_flattened_mut())?;
        let [only] = table.0;
        Ok(Self::of(only))
    }

    fn of(bytes: [u8; DESCRIPTOR as usize]) -> Self {
        let all = u128::from_le_bytes(bytes);
        let (low, high) = (all as u64, (all >> 64) as u64);
        Self {
            at: low,
            bytes: high as u32,
            flags: (high >> 32) as u16,
            next: (high >> 48) as u16,
        }
    }

    /// Its bytes in memory.
    #[inline]
    pub(super) fn encoded(self) -> [u8; DESCRIPTOR as usize] {
        let flags = u64::from(self.flags) << 32 | u64::from(self.next) << 48;
        let high = u64::from(self.bytes) | flags;
        (u128::from(self.at) | u128::from(high) << 64).to_le_bytes()
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
pub(super) const AHEAD: usize = 8;

/// A VM's memory with descriptors, of which several of one table are read at once.
pub(super) struct Ahead<'a, M> {
    memory: &'a M,
    /// The table that those are of which were read last, the number of the first one, and how many these are.
    table: Ipa,
    first: u32,
    count: u32,
    found: &'a mut Table<AHEAD>,
}

impl<'a, M: GuestMemory> Ahead<'a, M> {
    /// Nothing is read yet; `room` is for what will be.
    pub(super) fn new(memory: &'a M, room: &'a mut Table<AHEAD>) -> Self {
        Self {
            memory,
            table: Ipa::new(0),
            first: 0,
            count: 0,
            found: room,
        }
    }

    /// Whether descriptor `number` of `table` was read.
    fn has(&self, table: Ipa, number: u32) -> bool {
        table == self.table && number.wrapping_sub(self.first) < self.count
    }

    /// Descriptor `number` of the table, which was read.
    fn descriptor(&self, number: u32) -> Descriptor {
        let found = number.wrapping_sub(self.first) as usize;
        Descriptor::of(self.found.0.get(found).copied().unwrap_or_default())
    }

    /// Reads descriptors of `table` from `number` on.
    #[inline(never)]
    fn read(&mut self, table: Ipa, number: u32, left: u32) -> Result<(), Fault> {
        let offset = u64::from(number) * DESCRIPTOR;
        let at = table.checked_add(offset).ok_or(Breach::Length)?;
        self.count = left.min(AHEAD as u32 - 1) + 1;
        let bytes = self.found.0.get_mut(..self.count as usize);
        let bytes = bytes.unwrap_or_default().as_flattened_mut();
        if self.memory.read(at, bytes).is_err() {
            self.count = 0;
            let [first, ..] = &mut self.found.0;
            // The chain may end before the memory does.
            self.memory.read(at, first)?;
            self.count = 1;
        }
        (self.table, self.first) = (table, number);
        Ok(())
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
        let (mut room, mut buffer) = (Table::EMPTY, Buffer::EMPTY);
        let found = self.next_of(&mut Ahead::new(memory, &mut room), &mut buffer)?;
        Ok(found.then_some(buffer))
    }

    /// [`Self::next`] for several calls one after the other. The answer is whether there is one, which is then in `buffer`.
    pub(super) fn next_of<M: GuestMemory>(
        &mut self,
        memory: &mut Ahead<'_, M>,
        buffer: &mut Buffer,
    ) -> Result<bool, Fault> {
        let Some(next) = self.next else {
            return Ok(false);
        };
        self.read(memory, next.into())?;
        let descriptor = memory.descriptor(next.into());
        if descriptor.has(INDIRECT) {
            self.next_in_table(memory, buffer, next)?;
        } else {
            self.take(descriptor, buffer)?;
        }
        Ok(true)
    }

    /// The first buffer of the table that descriptor `next` names. Kept out of line, as a chain has one table at the most.
    #[inline(never)]
    fn next_in_table<M: GuestMemory>(
        &mut self,
        memory: &mut Ahead<'_, M>,
        buffer: &mut Buffer,
        next: u16,
    ) -> Result<(), Fault> {
        let mut chain = *self;
        chain.branch(memory.descriptor(next.into()))?;
        chain.read(memory, 0)?;
        chain.take(memory.descriptor(0), buffer)?;
        *self = chain;
        Ok(())
    }

    /// The number of bytes in all buffers so far.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Whether no buffer follows.
    pub(super) fn is_over(&self) -> bool {
        self.next.is_none()
    }

    /// Reads descriptor `number`.
    #[inline(always)]
    fn read<M: GuestMemory>(&self, memory: &mut Ahead<'_, M>, number: u32) -> Result<(), Fault> {
        if number >= self.count {
            return Err(Breach::Next.into());
        }
        // The first one is mostly the only one of its table that is of this chain.
        let left = if self.may_branch {
            0
        } else {
            self.count - number - 1
        };
        if memory.has(self.table, number) {
            return Ok(());
        }
        memory.read(self.table, number, left)
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
        self.may_branch = false;
        Ok(())
    }

    /// Goes on after `descriptor`, whose buffer is then in `buffer`.
    #[inline(always)]
    fn take(&mut self, descriptor: Descriptor, buffer: &mut Buffer) -> Result<(), Breach> {
        if descriptor.has(INDIRECT) {
            return Err(Breach::Indirect);
        }
        if self.walked == LONGEST {
            return Err(Breach::Long);
        }
        let (at, write) = (Ipa::new(descriptor.at), descriptor.has(WRITE));
        if self.writes && !write {
            return Err(Breach::Order);
        }
        let end = at.checked_add(descriptor.bytes.into());
        let bytes = self.bytes.checked_add(descriptor.bytes);
        let (Some(_), Some(bytes)) = (end, bytes) else {
            return Err(Breach::Length);
        };
        self.walked += 1;
        self.bytes = bytes;
        self.writes = write;
        self.next = descriptor.has(NEXT).then_some(descriptor.next);
        (buffer.at, buffer.bytes, buffer.write) = (at, descriptor.bytes, write);
        Ok(())
    }
}
