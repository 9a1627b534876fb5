//! How requests get from a client's queue to the ring of a driver VM, and back.
//!
//! Both ways are walks over the request's descriptors that stop after each step: a step handles one descriptor, or copies
//! [`STEP_BYTES`]. What a step needs is a value; nothing of it is in a VM's memory.
//!
//! The client may change its descriptors at any time, so that the walk back may meet others than the walk there. Each is
//! checked for itself: data then get to the wrong place of the client's own memory, or from the wrong place of its own slot.

use super::chain::{Buffer, Chain};
use super::queue::Head;
use super::ring::{Answer, Part, Ring};
use super::{Breach, Fault, Place};
use hanok_abi::back_end::SMALL;
use hanok_hal::GuestMemory;
use hanok_types::{Address, Hpa, Ipa};

/// The most bytes that a step copies.
const STEP_BYTES: usize = 512;

/// A VM's memory, and where it is on the board.
pub trait BoardMemory: GuestMemory {
    /// The board's address of the first of `bytes` bytes at `at`, if all of them lie there one after the other for as
    /// long as the VM exists.
    fn on_board(&self, at: Ipa, bytes: u32) -> Option<Hpa>;
}

/// The two memories between which requests go.
#[derive(Debug)]
pub(super) struct Between<'a, M> {
    pub(super) client: &'a M,
    pub(super) driver: &'a M,
    /// Whether larger buffers are named by their addresses on the board.
    pub(super) direct: bool,
}

impl<M: BoardMemory> Between<'_, M> {
    /// The address by which the driver VM gets a buffer without a copy, if it does.
    fn direct(&self, buffer: &Buffer) -> Option<u64> {
        let large = self.direct && buffer.bytes > SMALL;
        let at = large.then(|| self.client.on_board(buffer.at, buffer.bytes));
        Some(at??.get())
    }

    /// The address by which the driver VM is told of the data at `at` of its own memory.
    fn own(&self, at: Ipa, bytes: u32) -> Result<u64, Fault> {
        if !self.direct {
            return Ok(at.get());
        }
        let there = self.driver.on_board(at, bytes);
        Ok(there.ok_or(Breach::Length).map_err(at_driver)?.get())
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

/// Bytes on their way between two addresses.
#[derive(Clone, Copy, Debug)]
struct Copying {
    from: Ipa,
    to: Ipa,
    left: u32,
}

impl Copying {
    /// Copies the next bytes; `None` once all are copied.
    fn step(
        self,
        from: (&impl GuestMemory, Place),
        to: (&impl GuestMemory, Place),
    ) -> Result<Option<Self>, Fault> {
        // Headers and states of requests are small, and the bytes between are zeroed first.
        if self.left <= SMALL {
            self.step_by(&mut [0; SMALL as usize], from, to)
        } else {
            self.step_by(&mut [0; STEP_BYTES], from, to)
        }
    }

    /// Copies as many bytes as there is room for in `bytes`.
    fn step_by(
        self,
        bytes: &mut [u8],
        (from, from_place): (&impl GuestMemory, Place),
        (to, to_place): (&impl GuestMemory, Place),
    ) -> Result<Option<Self>, Fault> {
        let count = self.left.min(bytes.len() as u32);
        let here = bytes.get_mut(..count as usize).unwrap_or_default();
        let read = from.read(self.from, here);
        read.map_err(|error| Fault::from(error).at(from_place))?;
        let written = to.write(self.to, here);
        written.map_err(|error| Fault::from(error).at(to_place))?;
        let next = |at: Ipa| at.checked_add(count.into());
        let left = self.left - count;
        Ok(match (next(self.from), next(self.to)) {
            (Some(from), Some(to)) if left > 0 => Some(Self { from, to, left }),
            _ => None,
        })
    }
}

/// A request on its way to the driver VM.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) head: Head,
    chain: Chain,
    /// The number of its descriptors so far, without `last`.
    count: u16,
    /// The last descriptor, which is written when it is known whether another one follows.
    last: Option<Part>,
    /// How many bytes of the slot are in use.
    filled: u32,
    copying: Option<Copying>,
}

impl Request {
    pub(super) fn new(head: Head, chain: Chain) -> Self {
        Self {
            head,
            chain,
            count: 0,
            last: None,
            filled: 0,
            copying: None,
        }
    }

    /// The next step. Done with the number of descriptors, once the request can be published.
    pub(super) fn step<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        ring: &Ring,
    ) -> Result<Step<u16>, Fault> {
        let (client, driver) = (between.client, between.driver);
        if let Some(copying) = self.copying {
            self.copying = copying.step((client, Place::Client), (driver, Place::Driver))?;
            return Ok(Step::More);
        }
        let mut chain = self.chain;
        let Some(buffer) = chain.next(client)? else {
            let count = self.count + u16::from(self.last.is_some());
            self.describe_last(driver, ring, true)?;
            return Ok(Step::Done(count));
        };
        if buffer.bytes > 0 {
            self.add(between, ring, &buffer)?;
        }
        self.chain = chain;
        Ok(Step::More)
    }

    fn add<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        ring: &Ring,
        buffer: &Buffer,
    ) -> Result<(), Fault> {
        let (bytes, write) = (buffer.bytes, buffer.write);
        if self.count + 1 >= ring.descriptors() && self.last.is_some() {
            return Err(Breach::Long.into());
        }
        let direct = between.direct(buffer);
        let at = match direct {
            Some(at) => at,
            None if bytes > ring.room().saturating_sub(self.filled) => {
                return Err(Breach::Long.into());
            }
            None => between.own(ring.data(self.head, self.filled), bytes)?,
        };
        self.describe_last(between.driver, ring, false)?;
        self.last = Some(Part { at, bytes, write });
        if direct.is_none() {
            let to = ring.data(self.head, self.filled);
            self.filled += bytes;
            self.copying = (!write).then_some(Copying {
                from: buffer.at,
                to,
                left: bytes,
            });
        }
        Ok(())
    }

    /// Writes the descriptor that is known, of which it is known now whether it is the last one.
    fn describe_last(
        &mut self,
        driver: &impl GuestMemory,
        ring: &Ring,
        last: bool,
    ) -> Result<(), Fault> {
        if let Some(part) = self.last {
            let place = (self.head, self.count);
            ring.describe(driver, place, part, last)
                .map_err(at_driver)?;
            self.last = None;
            self.count += 1;
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
    /// How many bytes of the slot were passed.
    passed: u32,
    copying: Option<Copying>,
}

impl Reply {
    pub(super) fn new(answer: Answer, chain: Chain) -> Self {
        Self {
            answer,
            chain,
            left: answer.written,
            passed: 0,
            copying: None,
        }
    }

    /// The next step. Done with the number of bytes that the client was given, when it was given all.
    pub(super) fn step<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        ring: &Ring,
    ) -> Result<Step<u32>, Fault> {
        let (client, driver) = (between.client, between.driver);
        if let Some(copying) = self.copying {
            self.copying = copying.step((driver, Place::Driver), (client, Place::Client))?;
            return Ok(Step::More);
        }
        let given = self.answer.written - self.left;
        if self.left == 0 {
            return Ok(Step::Done(given));
        }
        let Some(buffer) = self.chain.next(client)? else {
            return Ok(Step::Done(given));
        };
        self.pass(between, ring, &buffer);
        Ok(Step::More)
    }

    fn pass<M: BoardMemory>(&mut self, between: &Between<'_, M>, ring: &Ring, buffer: &Buffer) {
        let bytes = buffer.bytes;
        let given = if buffer.write {
            bytes.min(self.left)
        } else {
            0
        };
        self.left -= given;
        if between.direct(buffer).is_some() {
            return;
        }
        let room = ring.room().saturating_sub(self.passed);
        self.copying = (given > 0 && given <= room).then_some(Copying {
            from: ring.data(self.answer.head, self.passed),
            to: buffer.at,
            left: given,
        });
        self.passed = self.passed.saturating_add(bytes);
    }
}
