//! How requests get from a client's queue to the ring of a driver VM, and back.
//!
//! Both ways are walks over the request's descriptors that stop after each step: a step handles some descriptors, or copies
//! up to [`STEP_BYTES`]. What a step needs is a value; nothing of it is in a VM's memory.
//!
//! The client may change its descriptors at any time, so that the walk back may meet others than the walk there. Each is
//! checked for itself: data then get to the wrong place of the client's own memory. The driver VM may change those of the slot, by
//! which it says where its data are.

use super::chain::{AHEAD, Ahead, Buffer, Chain, Descriptor, Table, WRITE};
use super::queue::Head;
use super::ring::{Answer, MOST_PARTS, Parts, PartsTable, Ring};
use super::{Breach, Fault, Place};
use hanok_abi::back_end::SMALL;
use hanok_hal::{AccessError, End, GuestMemory, pass_by};
use hanok_types::{Address, Hpa, Ipa};

/// The most bytes that a step copies.
const STEP_BYTES: u32 = 2048;
/// The most bytes that [`BoardMemory::pass`] copies by way of the hypervisor's memory.
pub const BETWEEN: usize = 512;

/// A VM's memory, and where it is on the board.
pub trait BoardMemory: GuestMemory + Sized {
    /// The board's address of the first of `bytes` bytes at `at`, if all of them lie there one after the other for as
    /// long as the VM exists.
    fn on_board(&self, at: Ipa, bytes: u32) -> Option<Hpa>;

    /// The reverse: the VM's address of the first of `bytes` bytes that are at `at` on the board, if they are all its own.
    fn at_board(&self, at: Hpa, bytes: u32) -> Option<Ipa>;

    /// Copies the first of `bytes` bytes, of which there are 2,048 at the most, at `at` to `there` of `to`. The answer is how
    /// many these were.
    ///
    /// # Errors
    /// Where one of the memories could not be accessed, and why.
    fn pass(&self, at: Ipa, to: (&Self, Ipa), bytes: u32) -> Result<u32, (End, AccessError)> {
        pass_by::<BETWEEN>((self, at), to, bytes)
    }
}

/// The two memories between which requests go.
#[derive(Debug)]
pub(super) struct Between<'a, M> {
    pub(super) client: &'a M,
    pub(super) driver: &'a M,
    /// The memories of all VMs, if larger buffers are named by their addresses on the board.
    pub(super) direct: Option<&'a [M]>,
}

impl<M: BoardMemory> Between<'_, M> {
    /// The address by which the driver VM gets a buffer without a copy, if it does.
    fn direct(&self, buffer: &Buffer) -> Option<u64> {
        let large = self.direct.is_some() && buffer.bytes > SMALL;
        let at = large.then(|| self.client.on_board(buffer.at, buffer.bytes));
        Some(at??.get())
    }

    /// The address by which the driver VM is told of the data at `at` of its own memory.
    fn own(&self, at: Ipa, bytes: u32) -> Result<u64, Fault> {
        if self.direct.is_none() {
            return Ok(at.get());
        }
        let there = self.driver.on_board(at, bytes);
        Ok(there.ok_or(Breach::Length).map_err(at_driver)?.get())
    }

    /// Where the data are that the driver VM names by `at`.
    fn source(&self, at: u64, bytes: u32) -> Result<(&M, Ipa), Fault> {
        let Some(all) = self.direct else {
            return Ok((self.driver, Ipa::new(at)));
        };
        let found = |memory: &M| memory.at_board(Hpa::new(at), bytes);
        if let Some(there) = found(self.driver) {
            return Ok((self.driver, there));
        }
        let mut others = all.iter();
        let other = others.find_map(|memory| Some((memory, found(memory)?)));
        other.ok_or(Breach::Length).map_err(at_driver)
    }
}

/// The fault of the driver VM, as it is one of its memory.
fn at_driver(fault: impl Into<Fault>) -> Fault {
    fault.into().at(Place::Driver)
}

/// What follows after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Step {
    /// A further step.
    More,
    /// Nothing.
    Done,
}

/// Room for the descriptors that a step reads and writes. It lasts, so that no step has to clear it.
pub(super) type Room = (Table<AHEAD>, PartsTable);

/// Bytes on their way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Copying {
    /// Where they come from: for those of a reply, as the driver VM says.
    pub(super) from: u64,
    pub(super) to: Ipa,
    /// None once all are copied.
    pub(super) left: u32,
}

impl Copying {
    /// Copies the next bytes from the client's memory to the driver VM's.
    #[inline(never)]
    pub(super) fn fetch<M: BoardMemory>(&mut self, between: &Between<'_, M>) -> Result<(), Fault> {
        let from = (between.client, Ipa::new(self.from));
        self.step(from, (between.driver, Place::Driver))
    }

    /// The most bytes that the next step copies.
    fn count(&self) -> u32 {
        self.left.min(STEP_BYTES)
    }

    /// Copies the next bytes, which are at `at` of `from`, to the VM at `place`, whose memory is `to`. What is wrong
    /// with `from` is the other one's fault.
    fn step<M: BoardMemory>(
        &mut self,
        (from, at): (&M, Ipa),
        (to, place): (&M, Place),
    ) -> Result<(), Fault> {
        let passed = from.pass(at, (to, self.to), self.count());
        let count = passed.map_err(|(end, error)| {
            let is_client = (end == End::To) == (place == Place::Client);
            Fault::from(error).at(if is_client {
                Place::Client
            } else {
                Place::Driver
            })
        })?;
        self.left = self.left.saturating_sub(count);
        self.from = self.from.wrapping_add(count.into());
        match self.to.checked_add(count.into()) {
            Some(to) => self.to = to,
            None => self.left = 0,
        }
        Ok(())
    }
}

/// What a reply has to copy of a request all of whose other bytes are written where the client wants them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    to: Ipa,
    /// How many bytes are written before it.
    skipped: u32,
    /// Where it is among the data of the slot.
    offset: u16,
    /// How many bytes it has: up to [`SMALL`], or [`Tail::UNKNOWN`].
    bytes: u16,
}

impl Tail {
    /// There is nothing to copy.
    const NOTHING: Self = Self {
        to: Ipa::new(0),
        skipped: 0,
        offset: 0,
        bytes: 0,
    };
    /// There is more to copy, or it lies elsewhere.
    pub(super) const UNKNOWN: Self = Self {
        bytes: u16::MAX,
        ..Self::NOTHING
    };

    /// Whether this is all there is to copy.
    pub(super) fn is_known(&self) -> bool {
        self.bytes != u16::MAX
    }

    /// The same of a request that has one more part to be written, `part`, which is to get to `to`. It is in the slot at `offset`, or where the
    /// client wants it.
    fn with(self, part: Descriptor, to: Ipa, offset: Option<u32>) -> Self {
        if self.bytes > 0 || part.at == 0 {
            return Self::UNKNOWN;
        }
        let Some(offset) = offset else {
            return Self {
                skipped: self.skipped + part.bytes,
                ..self
            };
        };
        match (u16::try_from(offset), u16::try_from(part.bytes)) {
            (Ok(offset), Ok(bytes)) if part.bytes <= SMALL => Self {
                to,
                offset,
                bytes,
                ..self
            },
            _ => Self::UNKNOWN,
        }
    }

    /// Gives the client what `answer` has of it. The answer is how many bytes of the request are written.
    pub(super) fn give<M: BoardMemory>(
        &self,
        between: &Between<'_, M>,
        ring: &Ring,
        answer: Answer,
    ) -> Result<u32, Fault> {
        let left = answer.written.saturating_sub(self.skipped);
        let left = left.min(self.bytes.into());
        if left > 0 {
            let from = ring.data(answer.head, self.offset.into());
            let mut copying = Copying {
                from: 0,
                to: self.to,
                left,
            };
            let from = (between.driver, from);
            copying.step(from, (between.client, Place::Client))?;
        }
        Ok(answer.written.min(self.skipped) + left)
    }
}

/// A request on its way to the driver VM.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) head: Head,
    chain: Chain,
    /// What is left of the buffer that was met last.
    rest: Buffer,
    /// How many of the next bytes that the driver VM may read are copied in each mode.
    copied: u32,
    /// The number of its descriptors so far, without `last`. It may have none.
    pub(super) count: u16,
    /// The last descriptor, which is written when it is known whether another one follows.
    last: Descriptor,
    /// How many bytes of the slot are in use.
    filled: u32,
    /// What there is to copy on the way back.
    pub(super) tail: Tail,
    copying: Copying,
}

impl Request {
    /// A request of which nothing is given yet; the first `copied` bytes that the driver VM may read are copied in each mode.
    pub(super) fn new(head: Head, chain: Chain, copied: u32) -> Self {
        Self {
            head,
            chain,
            rest: Buffer::EMPTY,
            copied,
            count: 0,
            last: Descriptor::default(),
            filled: 0,
            tail: Tail::NOTHING,
            copying: Copying::default(),
        }
    }

    /// The next step. Done once the request can be published. After an error the request is to be begun anew.
    pub(super) fn step<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        ring: &Ring,
        room: &mut Room,
    ) -> Result<Step, Fault> {
        if self.copying.left > 0 {
            self.copying.fetch(between)?;
            return Ok(Step::More);
        }
        let first = self.count;
        let mut ahead = Ahead::new(between.client, &mut room.0);
        let mut parts = Parts::new(&mut room.1, first, self.last);
        let ended = self.walk(between, ring, &mut ahead, &mut parts)?;
        if ended {
            parts.end();
        }
        let described = parts.described();
        if !described.is_empty() {
            let described = ring.describe(between.driver, (self.head, first), described);
            described.map_err(at_driver)?;
        }
        (self.count, self.last) = (parts.count, parts.last);
        Ok(if ended { Step::Done } else { Step::More })
    }

    /// Goes over the next descriptors. The answer is whether there is nothing left to be done.
    fn walk<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        ring: &Ring,
        ahead: &mut Ahead<'_, M>,
        parts: &mut Parts<'_>,
    ) -> Result<bool, Fault> {
        for _ in 0..MOST_PARTS {
            if self.rest.bytes == 0 && !self.chain.next_of(ahead, &mut self.rest)? {
                return Ok(true);
            }
            // What is copied of it whatever its size; or all of it.
            let mut first = self.rest;
            if !first.write && (1..first.bytes).contains(&self.copied) {
                first.bytes = self.copied;
            }
            self.rest.skip(first.bytes);
            if first.bytes > 0 {
                self.add(between, ring, &first, parts)?;
            }
            if !first.write {
                self.copied = self.copied.saturating_sub(first.bytes);
            }
            if self.copying.left > 0 {
                return Ok(false);
            }
            if self.rest.bytes == 0 && self.chain.is_over() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn add<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        ring: &Ring,
        buffer: &Buffer,
        parts: &mut Parts<'_>,
    ) -> Result<(), Fault> {
        let (bytes, write) = (buffer.bytes, buffer.write);
        if parts.all() >= ring.descriptors() {
            return Err(Breach::Long.into());
        }
        let offset = self.filled;
        let at = match between.direct(buffer) {
            Some(at) => at,
            None if bytes <= ring.room().saturating_sub(offset) => {
                self.filled += bytes;
                between.own(ring.data(self.head, offset), bytes)?
            }
            // The driver VM says where the data are.
            None if write => 0,
            None => return Err(Breach::Long.into()),
        };
        let part = Descriptor {
            at,
            bytes,
            flags: if write { WRITE } else { 0 },
            next: 0,
        };
        parts.add(part);
        let filled = self.filled > offset;
        if write {
            let offset = filled.then_some(offset);
            self.tail = self.tail.with(part, buffer.at, offset);
        } else if filled {
            let (from, to) = (buffer.at.get(), ring.data(self.head, offset));
            self.copying = Copying {
                from,
                to,
                left: bytes,
            };
            // What is small is not worth a step of its own.
            if bytes <= SMALL {
                self.copying.fetch(between)?;
            }
        }
        Ok(())
    }
}

/// A request on its way back to the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub(super) head: Head,
    chain: Chain,
    /// How many bytes of the request are written.
    pub(super) written: u32,
    /// How many of these are still to be given to the client.
    pub(super) left: u32,
    /// What is still to be filled of a buffer of the client's.
    to: Buffer,
    /// What is still to be given of what a descriptor of the slot names, and the next descriptor.
    from: Descriptor,
    next: u16,
    copying: Copying,
}

impl Reply {
    pub(super) fn new(answer: Answer, chain: Chain) -> Self {
        Self {
            head: answer.head,
            chain,
            written: answer.written,
            left: answer.written,
            to: Buffer::EMPTY,
            from: Descriptor::default(),
            next: 0,
            copying: Copying::default(),
        }
    }

    /// The next step. Done when the client was given all that it can be. After an error it can be tried again.
    pub(super) fn step<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        ring: &Ring,
        room: &mut Room,
    ) -> Result<Step, Fault> {
        if self.copying.left == 0 && self.left > 0 {
            if !self.next_pair(between, ring, room)? {
                return Ok(Step::Done);
            }
            self.pass(between);
        }
        if self.copying.left > 0 {
            let (memory, at) = between.source(self.copying.from, self.copying.count())?;
            let to = (between.client, Place::Client);
            self.copying.step((memory, at), to)?;
        }
        Ok(if self.copying.left == 0 && self.left == 0 {
            Step::Done
        } else {
            Step::More
        })
    }

    /// Looks for a buffer of the client's that can be filled, and a part of the slot's of which there is something to give, as far as the
    /// next descriptor of each has them. The answer is whether there is a next descriptor of each.
    fn next_pair<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        ring: &Ring,
        room: &mut Room,
    ) -> Result<bool, Fault> {
        if self.to.bytes == 0 {
            let mut ahead = Ahead::new(between.client, &mut room.0);
            if !self.chain.next_of(&mut ahead, &mut self.to)? {
                return Ok(false);
            }
            if !self.to.write {
                self.to = Buffer::EMPTY;
            }
        }
        if self.from.bytes == 0 {
            let place = (self.head, self.next);
            let described = ring.described(between.driver, place, &mut self.from);
            if !described.map_err(at_driver)? {
                return Ok(false);
            }
            self.next += 1;
            if !self.from.has(WRITE) {
                self.from = Descriptor::default();
            }
        }
        Ok(true)
    }

    /// Gives as much as `from` has and `to` takes, which may be nothing.
    fn pass<M: BoardMemory>(&mut self, between: &Between<'_, M>) {
        let (to, from) = (&mut self.to, &mut self.from);
        let count = to.bytes.min(from.bytes).min(self.left);
        let on_board = || between.client.on_board(to.at, count);
        let there = between.direct.and_then(|_| on_board());
        if there.map(Address::get) != Some(from.at) {
            self.copying = Copying {
                from: from.at,
                to: to.at,
                left: count,
            };
        }
        self.left -= count;
        to.skip(count);
        from.at = from.at.wrapping_add(count.into());
        from.bytes -= count;
    }
}
