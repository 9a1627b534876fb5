//! How requests get from a client's queue to the ring of a driver VM, and back.
//!
//! Both ways are walks over the request's descriptors that stop after each step: a step handles some descriptors, or copies
//! up to [`STEP_BYTES`]. What a step needs is a value; nothing of it is in a VM's memory.
//!
//! The client may change its descriptors at any time, so that the walk back may meet others than the walk there. Each is
//! checked for itself: data then get to the wrong place of the client's own memory. The driver VM may change those of the slot, by
//! which it says where its data are.

use super::chain::{Ahead, Buffer, Chain};
use super::queue::Head;
use super::ring::{Answer, MOST_PARTS, Part, Parts, Ring};
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
pub(super) enum Step<T> {
    /// A further step.
    More,
    /// Nothing: this is the outcome.
    Done(T),
}

/// Bytes on their way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copying {
    /// Where they come from: for those of a reply, as the driver VM says.
    pub(super) from: u64,
    pub(super) to: Ipa,
    pub(super) left: u32,
}

impl Copying {
    /// Copies the next bytes from the client's memory to the driver VM's; `None` once all are copied.
    #[inline(never)]
    pub(super) fn fetch<M: BoardMemory>(
        self,
        between: &Between<'_, M>,
    ) -> Result<Option<Self>, Fault> {
        let from = (between.client, Ipa::new(self.from));
        self.step(from, (between.driver, Place::Driver))
    }

    /// The most bytes that the next step copies.
    fn count(&self) -> u32 {
        self.left.min(STEP_BYTES)
    }

    /// Copies the next bytes, which are at `at` of `from`, to the VM at `place`, whose memory is `to`; `None` once all are copied. What is wrong
    /// with `from` is the other one's fault.
    fn step<M: BoardMemory>(
        self,
        (from, at): (&M, Ipa),
        (to, place): (&M, Place),
    ) -> Result<Option<Self>, Fault> {
        let passed = from.pass(at, (to, self.to), self.count());
        let count = passed.map_err(|(end, error)| {
            let is_client = (end == End::To) == (place == Place::Client);
            Fault::from(error).at(if is_client {
                Place::Client
            } else {
                Place::Driver
            })
        })?;
        let left = self.left.saturating_sub(count);
        let next = self.to.checked_add(count.into()).filter(|_| left > 0);
        Ok(next.map(|to| Self {
            from: self.from.wrapping_add(count.into()),
            to,
            left,
        }))
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
    fn with(self, part: Part, to: Ipa, offset: Option<u32>) -> Self {
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
            let copying = Copying {
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

/// A request that can be given to the driver VM.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    /// The number of its descriptors, which may be none.
    pub(super) count: u16,
    /// What there is to copy on the way back.
    pub(super) tail: Tail,
}

/// A request on its way to the driver VM.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) head: Head,
    chain: Chain,
    /// What is left of a buffer whose first bytes are copied.
    rest: Option<Buffer>,
    /// How many of the next bytes that the driver VM may read are copied in each mode.
    copied: u32,
    /// The number of its descriptors so far, without `last`.
    count: u16,
    /// The last descriptor, which is written when it is known whether another one follows.
    last: Option<Part>,
    /// How many bytes of the slot are in use.
    filled: u32,
    tail: Tail,
    copying: Option<Copying>,
}

impl Request {
    /// A request of which nothing is given yet; the first `copied` bytes that the driver VM may read are copied in each mode.
    pub(super) fn new(head: Head, chain: Chain, copied: u32) -> Self {
        Self {
            head,
            chain,
            rest: None,
            copied,
            count: 0,
            last: None,
            filled: 0,
            tail: Tail::NOTHING,
            copying: None,
        }
    }

    /// The next step. Done once the request can be published. After an error the request is to be begun anew.
    pub(super) fn step<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        ring: &Ring,
    ) -> Result<Step<Given>, Fault> {
        if let Some(copying) = self.copying {
            self.copying = copying.fetch(between)?;
            return Ok(Step::More);
        }
        let first = self.count;
        let mut parts = Parts::new(first, self.last);
        let ended = self.walk(between, ring, &mut parts)?;
        if ended {
            parts.end();
        }
        let (known, last) = parts.known();
        if !known.is_empty() {
            let described = ring.describe(between.driver, (self.head, first), known);
            described.map_err(at_driver)?;
        }
        self.count = parts.all() - u16::from(last.is_some());
        self.last = last;
        Ok(if ended {
            let (count, tail) = (self.count, self.tail);
            Step::Done(Given { count, tail })
        } else {
            Step::More
        })
    }

    /// Goes over the next descriptors. The answer is whether there is nothing left to be done.
    fn walk<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        ring: &Ring,
        parts: &mut Parts,
    ) -> Result<bool, Fault> {
        let mut ahead = Ahead::new(between.client);
        for _ in 0..MOST_PARTS {
            let next = match self.rest.take() {
                Some(rest) => Some(rest),
                None => self.chain.next_of(&mut ahead)?,
            };
            let Some(buffer) = next else {
                return Ok(true);
            };
            let (first, rest) = self.divided(buffer);
            self.rest = rest;
            if first.bytes > 0 {
                self.add(between, ring, &first, parts)?;
            }
            if !first.write {
                self.copied = self.copied.saturating_sub(first.bytes);
            }
            if self.copying.is_some() {
                return Ok(false);
            }
        }
        Ok(self.rest.is_none() && self.chain.is_over())
    }

    /// What is copied of a buffer whatever its size, and its rest; or all of it.
    fn divided(&self, buffer: Buffer) -> (Buffer, Option<Buffer>) {
        let bytes = self.copied;
        if buffer.write || bytes == 0 || bytes >= buffer.bytes {
            return (buffer, None);
        }
        let first = Buffer { bytes, ..buffer };
        // A buffer does not end beyond the address space.
        let rest = buffer.at.checked_add(bytes.into()).map(|at| Buffer {
            at,
            bytes: buffer.bytes - bytes,
            ..buffer
        });
        (first, rest)
    }

    fn add<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        ring: &Ring,
        buffer: &Buffer,
        parts: &mut Parts,
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
        let part = Part { at, bytes, write };
        parts.add(part);
        let filled = self.filled > offset;
        if write {
            let offset = filled.then_some(offset);
            self.tail = self.tail.with(part, buffer.at, offset);
        } else if filled {
            let (from, to) = (buffer.at.get(), ring.data(self.head, offset));
            let copying = Copying {
                from,
                to,
                left: bytes,
            };
            // What is small is not worth a step of its own.
            self.copying = if bytes <= SMALL {
                copying.fetch(between)?
            } else {
                Some(copying)
            };
        }
        Ok(())
    }
}

/// A request on its way back to the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub(super) answer: Answer,
    chain: Chain,
    /// How many of the bytes that were written are still to be given to the client.
    left: u32,
    /// What is still to be filled of a buffer of the client's.
    to: Option<Buffer>,
    /// What is still to be given of what a descriptor of the slot names, and the next descriptor.
    from: Option<Part>,
    next: u16,
    copying: Option<Copying>,
}

impl Reply {
    pub(super) fn new(answer: Answer, chain: Chain) -> Self {
        Self {
            answer,
            chain,
            left: answer.written,
            to: None,
            from: None,
            next: 0,
            copying: None,
        }
    }

    /// The next step. Done with the number of bytes that the client was given, when it was given all. After an error it can be tried again.
    pub(super) fn step<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        ring: &Ring,
    ) -> Result<Step<u32>, Fault> {
        if self.copying.is_none() && self.left > 0 {
            let Some((to, from)) = self.next_pair(between, ring)? else {
                let given = self.answer.written - self.left;
                return Ok(Step::Done(given));
            };
            if let (Some(to), Some(from)) = (to, from) {
                self.pass(between, to, from);
            }
        }
        if let Some(copying) = self.copying {
            let (memory, at) = between.source(copying.from, copying.count())?;
            self.copying = copying.step((memory, at), (between.client, Place::Client))?;
        }
        Ok(if self.copying.is_none() && self.left == 0 {
            Step::Done(self.answer.written)
        } else {
            Step::More
        })
    }

    /// A buffer of the client's that can be filled, and a part of the slot's of which there is something to give, as far as the next descriptor
    /// of each has them. `None` if there is none any more.
    #[expect(clippy::type_complexity, reason = "a pair of which both may be absent")]
    fn next_pair<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        ring: &Ring,
    ) -> Result<Option<(Option<Buffer>, Option<Part>)>, Fault> {
        if self.to.is_none() {
            let Some(buffer) = self.chain.next(between.client)? else {
                return Ok(None);
            };
            self.to = Some(buffer).filter(|buffer| buffer.write && buffer.bytes > 0);
        }
        if self.from.is_none() {
            let place = (self.answer.head, self.next);
            let part = ring.described(between.driver, place).map_err(at_driver)?;
            let Some(part) = part else {
                return Ok(None);
            };
            self.next += 1;
            self.from = Some(part).filter(|part| part.write && part.bytes > 0);
        }
        Ok(Some((self.to, self.from)))
    }

    /// Gives as much as `from` has and `to` takes.
    fn pass<M: BoardMemory>(&mut self, between: &Between<'_, M>, to: Buffer, from: Part) {
        let count = to.bytes.min(from.bytes).min(self.left);
        let on_board = || between.client.on_board(to.at, count);
        let there = between.direct.and_then(|_| on_board());
        let copying = Copying {
            from: from.at,
            to: to.at,
            left: count,
        };
        self.copying = (there.map(Address::get) != Some(from.at)).then_some(copying);
        self.left -= count;
        let next = to.at.checked_add(count.into());
        self.to = next.map(|at| Buffer {
            at,
            bytes: to.bytes - count,
            ..to
        });
        self.to = self.to.filter(|to| to.bytes > 0);
        self.from = (from.bytes > count).then_some(Part {
            at: from.at.wrapping_add(count.into()),
            bytes: from.bytes - count,
            ..from
        });
    }
}
