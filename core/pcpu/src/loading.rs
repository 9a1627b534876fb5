//! Making a VM's memory for a boot: its images at their places, zero elsewhere.
//!
//! That is millions of instructions, so it is done in pieces, between which other vCPUs of
//! the same pCPU have their turn; it is the first vCPU's work, in the first vCPU's time. Interrupts
//! are masked meanwhile, and a piece is long, so that it is left as soon as one is pending: that
//! is looked at after each part. Pieces as short as a part, each with a turn of the scheduler,
//! made a boot longer by an eighth.

use crate::{Board, Host, VmUnit};
use hanok_config::{Blob, Sum};
use hanok_hal::{AccessError, GuestMemory, VmMemory};
use hanok_types::{Ipa, Span, VcpuId};

/// Bytes that are zeroed or cleaned, a line of the cache at a time, before interrupts are looked for.
const LINES: u64 = 32 * 1024;
/// Parts before the scheduler is asked again.
const PARTS: usize = 16;
/// What erased flash reads as.
const ERASED: u8 = 0xff;

/// A blob's bytes are not those that the image tool wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Which of the VM's blobs.
    pub blob: usize,
}

/// Whether the memory is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// More is to be done.
    More,
    /// All of it is done.
    Done,
}

/// How far the making of a VM's memory has come.
#[derive(Clone, Copy, Debug)]
pub struct Loading {
    /// The boot for which it is made.
    pub boot: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The boot has no random numbers yet.
    Random,
    /// RAM before `at` that no blob covers is zero.
    Zero { at: u64 },
    /// Flash before `at` is erased.
    Erase { at: u64 },
    /// The blobs before `blob`, and `done` bytes of it, are in place.
    Place { blob: usize, done: u64, sum: Sum },
    /// `blob` is in place, and so are those of its seeds that come before `seed`.
    Seed { blob: usize, seed: usize },
    /// The blobs before `blob`, and `done` bytes of it, are clean to the point of coherency.
    Clean { blob: usize, done: u64 },
    /// Flash before `at` is, too.
    CleanFlash { at: u64 },
    /// So many vCPUs are as new.
    Vcpus { reset: u8 },
}

impl Loading {
    /// Nothing is done yet.
    pub fn new(boot: u32) -> Self {
        let stage = Stage::Random;
        Self { boot, stage }
    }

    /// Does a piece, or what of it comes before an interrupt is pending.
    pub fn go_on<B: Host>(
        &mut self,
        unit: &VmUnit<B>,
        board: &Board<B>,
    ) -> Result<Progress, Damaged> {
        for _ in 0..PARTS {
            if self.part(unit, board)? == Progress::Done {
                return Ok(Progress::Done);
            }
            if board.machine.interrupt_is_pending() {
                break;
            }
        }
        Ok(Progress::More)
    }

    /// Does a part.
    fn part<B: Host>(&mut self, unit: &VmUnit<B>, board: &Board<B>) -> Result<Progress, Damaged> {
        match &mut self.stage {
            // A boot begins with all of its memory.
            Stage::Random if unit.lacks_pages() => {}
            Stage::Random => {
                board.new_random(unit, self.boot);
                let at = unit.ram.ipa().start().get();
                self.stage = Stage::Zero { at };
            }
            Stage::Zero { at } => match next_gap(unit, *at) {
                Some(gap) => {
                    // Else it is waited for.
                    if let Ok((memory, part)) = unit.part(gap) {
                        memory.zero(part.start(), part.len());
                        *at = part.end().get();
                    }
                }
                None => self.stage = Stage::Erase { at: 0 },
            },
            Stage::Erase { at } => match next_part(unit.flash.as_ref(), *at, B::Memory::COPIED) {
                Some(part) => {
                    let flash = unit.flash.iter();
                    flash.for_each(|flash| flash.fill(part.start(), part.len(), ERASED));
                    *at = part.end().get();
                }
                None => self.stage = begin_blob(0),
            },
            Stage::Place { blob, done, sum } => {
                let index = *blob;
                let damaged = Damaged { blob: index };
                let Some(wanted) = unit.vm.config().blobs.get(index) else {
                    self.stage = Stage::Clean { blob: 0, done: 0 };
                    return Ok(Progress::More);
                };
                if copy(unit, wanted, board.payload, done, sum).ok_or(damaged)? {
                    finish(unit, wanted, *sum).ok_or(damaged)?;
                    let (blob, seed) = (index, 0);
                    self.stage = Stage::Seed { blob, seed };
                }
            }
            Stage::Seed { blob, seed } => {
                let index = *blob;
                if fill_seed(unit, index, *seed, board).ok_or(Damaged { blob: index })? {
                    *seed += 1;
                } else {
                    self.stage = begin_blob(index + 1);
                }
            }
            Stage::Clean { blob, done } => match unit.vm.config().blobs.get(*blob) {
                Some(wanted) if *done < wanted.len => *done += clean(unit, wanted, *done),
                Some(_) => (*blob, *done) = (*blob + 1, 0),
                None => self.stage = Stage::CleanFlash { at: 0 },
            },
            Stage::CleanFlash { at } => match next_part(unit.flash.as_ref(), *at, LINES) {
                Some(part) => {
                    let flash = unit.flash.iter();
                    flash.for_each(|flash| flash.clean(part.start(), part.len()));
                    *at = part.end().get();
                }
                None => {
                    board.machine.forget_instructions();
                    self.stage = Stage::Vcpus { reset: 0 };
                }
            },
            Stage::Vcpus { reset } => {
                if usize::from(*reset) >= unit.vm.vcpus() {
                    return Ok(Progress::Done);
                }
                unit.vm.reset_vcpu(VcpuId::new(*reset));
                *reset += 1;
            }
        }
        Ok(Progress::More)
    }
}

fn begin_blob(blob: usize) -> Stage {
    let sum = Sum::new();
    Stage::Place { blob, done: 0, sum }
}

/// The next part of a region, of `most` bytes, from `at` on; `None` at its end, and of none.
fn next_part(region: Option<&impl VmMemory>, at: u64, most: u64) -> Option<Span<Ipa>> {
    let whole = region?.ipa();
    let left = whole.end().get().checked_sub(at)?;
    Span::new(Ipa::new(at), most.min(left)).filter(|part| !part.is_empty())
}

/// The next part of RAM from `at` on that no blob covers; `None` at the end.
fn next_gap<B: Host>(unit: &VmUnit<B>, at: u64) -> Option<Span<Ipa>> {
    let ram = unit.ram.ipa();
    let mut at = at;
    loop {
        if at >= ram.end().get() {
            return None;
        }
        let blobs = unit.vm.config().blobs.iter().filter_map(Blob::span);
        let next = blobs
            .filter(|blob| blob.end().get() > at && ram.covers(blob))
            .min_by_key(|blob| blob.start().get());
        let end = match next {
            Some(blob) if blob.start().get() <= at => {
                at = blob.end().get();
                continue;
            }
            Some(blob) => blob.start().get(),
            None => ram.end().get(),
        };
        return Span::new(Ipa::new(at), LINES.min(end - at));
    }
}

/// Cleans a part of a blob that is in place, from `done` on; its length.
fn clean<B: Host>(unit: &VmUnit<B>, blob: &Blob, done: u64) -> u64 {
    let len = LINES.min(blob.len - done);
    let Some(span) = Span::new(Ipa::new(blob.load.get() + done), len) else {
        return len;
    };
    match unit.part(span) {
        Ok((memory, part)) => {
            memory.clean(part.start(), part.len());
            part.len()
        }
        Err(AccessError::Absent(_)) => 0,
        Err(AccessError::NoMemory(_)) => len,
    }
}

/// Copies and sums a part; whether the blob is whole. What begins at no multiple of 8 takes longer, so
/// that less of it is a part.
fn copy<B: Host>(
    unit: &VmUnit<B>,
    blob: &Blob,
    payload: &[u8],
    done: &mut u64,
    sum: &mut Sum,
) -> Option<bool> {
    let from = usize::try_from(blob.offset.checked_add(*done)?).ok()?;
    let most = match blob.offset | blob.load.get() {
        at if at.is_multiple_of(8) => B::Memory::COPIED,
        _ => B::Memory::COPIED / 4,
    };
    let len = most.min(blob.len.checked_sub(*done)?);
    let bytes = payload.get(from..from.checked_add(len as usize)?)?;
    let span = Span::new(Ipa::new(blob.load.get().checked_add(*done)?), len)?;
    // Nobody is in the VM. A bus master of a trusted VM, which nothing stops between two boots, may
    // still write here: of these bytes none is read, so that it spoils the VM's own image at most.
    let (memory, part) = match unit.part(span) {
        Ok(found) => found,
        // It is waited for.
        Err(AccessError::Absent(_)) => return Some(false),
        Err(AccessError::NoMemory(_)) => return None,
    };
    let bytes = bytes.get(..part.len() as usize)?;
    memory.overwrite(part.start(), part.len(), |to| sum_and_copy(sum, bytes, to))?;
    *done += part.len();
    Some(*done == blob.len)
}

/// Kept out of line: inlined, the loop would share its registers with what is around it.
#[inline(never)]
fn sum_and_copy(sum: &mut Sum, from: &[u8], to: &mut [u8]) {
    sum.update_copying(from, to);
}

/// Looks at the sum of a blob that is in place, and says in it where the VM's RAM is.
fn finish<B: Host>(unit: &VmUnit<B>, blob: &Blob, sum: Sum) -> Option<()> {
    if sum.finish() != blob.sum {
        return None;
    }
    if let Some(offset) = blob.host_address {
        let at = Ipa::new(blob.load.get().checked_add(u64::from(offset))?);
        let address = unit.ram.host().get().to_be_bytes();
        unit.write(at, &address).ok()?;
    }
    Some(())
}

/// Fills the seed of this number of a blob that is in place; `Some(false)` where there is none.
fn fill_seed<B: Host>(
    unit: &VmUnit<B>,
    blob: usize,
    seed: usize,
    board: &Board<B>,
) -> Option<bool> {
    let blob = unit.vm.config().blobs.get(blob)?;
    let Some((offset, len)) = blob.seeds.get(seed) else {
        return Some(false);
    };
    let mut random = [0; 64];
    let random = random.get_mut(..*len as usize)?;
    board.fill_seed(unit, random);
    let at = Ipa::new(blob.load.get().checked_add(u64::from(*offset))?);
    unit.write(at, random).ok()?;
    Some(true)
}
