//! Making a VM's memory for a life: its images at their places, zero elsewhere.
//!
//! That is millions of instructions, so it is done in pieces, between which other vCPUs of
//! the same pCPU have their turn; it is the first vCPU's work, in the first vCPU's time.

use crate::bulk::forget_instructions;
use crate::ram::GuestRam;
use crate::unit::VmUnit;
use hanok_config::{Blob, Sum};
use hanok_hal::GuestMemory;
use hanok_types::{Ipa, Span};

/// Bytes done at a time: some ten thousand instructions.
const PIECE: u64 = 64 * 1024;
/// What erased flash reads as.
const ERASED: u8 = 0xff;

/// A blob's bytes are not those that the image tool wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Which of the VM's blobs.
    pub blob: usize,
}

/// How far the making of a VM's memory has come.
#[derive(Clone, Copy, Debug)]
pub struct Loading {
    /// The life for which it is made.
    pub life: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// RAM before `at` that no blob covers is zero.
    Zero { at: u64 },
    /// Flash before `at` is erased.
    Erase { at: u64 },
    /// The blobs before `blob`, and `done` bytes of it, are in place.
    Place { blob: usize, done: u64, sum: Sum },
    /// The blobs before `blob`, and `done` bytes of it, are clean to the point of coherency.
    Clean { blob: usize, done: u64 },
    /// Flash before `at` is, too.
    CleanFlash { at: u64 },
}

impl Loading {
    /// Nothing is done yet.
    pub fn new(unit: &VmUnit, life: u32) -> Self {
        let at = unit.ram.ipa().start().get();
        Self {
            life,
            stage: Stage::Zero { at },
        }
    }

    /// Does a piece. Returns whether all is done. `payload` is what blobs are offsets into.
    pub fn step(
        &mut self,
        unit: &VmUnit,
        payload: &[u8],
        seed: &mut dyn FnMut(&mut [u8]),
    ) -> Result<bool, Damaged> {
        match &mut self.stage {
            Stage::Zero { at } => match next_gap(unit, *at) {
                Some(gap) => {
                    unit.ram.zero(gap.start(), gap.len());
                    *at = gap.end().get();
                }
                None => self.stage = Stage::Erase { at: 0 },
            },
            Stage::Erase { at } => match next_piece(unit.flash.as_ref(), *at) {
                Some(piece) => {
                    let flash = unit.flash.iter();
                    flash.for_each(|flash| flash.fill(piece.start(), piece.len(), ERASED));
                    *at = piece.end().get();
                }
                None => self.stage = begin_blob(0),
            },
            Stage::Place { blob, done, sum } => {
                let index = *blob;
                let damaged = Damaged { blob: index };
                let Some(wanted) = unit.vm.config().blobs.get(index) else {
                    self.stage = Stage::Clean { blob: 0, done: 0 };
                    return Ok(false);
                };
                if copy(unit, wanted, payload, done, sum).ok_or(damaged)? {
                    finish(unit, wanted, *sum, seed).ok_or(damaged)?;
                    self.stage = begin_blob(index + 1);
                }
            }
            Stage::Clean { blob, done } => match unit.vm.config().blobs.get(*blob) {
                Some(wanted) if *done < wanted.len => *done += clean(unit, wanted, *done),
                Some(_) => (*blob, *done) = (*blob + 1, 0),
                None => self.stage = Stage::CleanFlash { at: 0 },
            },
            Stage::CleanFlash { at } => match next_piece(unit.flash.as_ref(), *at) {
                Some(piece) => {
                    let flash = unit.flash.iter();
                    flash.for_each(|flash| flash.clean_to_coherency(piece.start(), piece.len()));
                    *at = piece.end().get();
                }
                None => {
                    forget_instructions();
                    return Ok(true);
                }
            },
        }
        Ok(false)
    }
}

fn begin_blob(blob: usize) -> Stage {
    let sum = Sum::new();
    Stage::Place { blob, done: 0, sum }
}

/// The next piece of a region from `at` on; `None` at its end, and of none.
fn next_piece(region: Option<&GuestRam>, at: u64) -> Option<Span<Ipa>> {
    let whole = region?.ipa();
    let left = whole.end().get().checked_sub(at)?;
    Span::new(Ipa::new(at), PIECE.min(left)).filter(|piece| !piece.is_empty())
}

/// The next piece of RAM from `at` on that no blob covers; `None` at the end.
fn next_gap(unit: &VmUnit, at: u64) -> Option<Span<Ipa>> {
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
        return Span::new(Ipa::new(at), PIECE.min(end - at));
    }
}

/// Where `blob` goes: RAM or flash.
fn region<'a>(unit: &'a VmUnit, blob: &Blob) -> Option<&'a GuestRam> {
    let span = blob.span()?;
    core::iter::once(&unit.ram)
        .chain(&unit.flash)
        .find(|region| region.ipa().covers(&span))
}

/// Cleans a piece of a blob that is in place, from `done` on; its length.
fn clean(unit: &VmUnit, blob: &Blob, done: u64) -> u64 {
    let len = PIECE.min(blob.len - done);
    if let Some(region) = region(unit, blob) {
        region.clean_to_coherency(Ipa::new(blob.load.get() + done), len);
    }
    len
}

/// Copies and sums a piece; whether the blob is whole.
fn copy(unit: &VmUnit, blob: &Blob, payload: &[u8], done: &mut u64, sum: &mut Sum) -> Option<bool> {
    let from = usize::try_from(blob.offset.checked_add(*done)?).ok()?;
    let len = PIECE.min(blob.len.checked_sub(*done)?);
    let bytes = payload.get(from..from.checked_add(len as usize)?)?;
    let (region, at) = (region(unit, blob)?, blob.load.get().checked_add(*done)?);
    // SAFETY: nobody is in the VM whose memory is made, and the payload is elsewhere. A bus master
    // of a trusted VM, which nothing stops between two lives, may still write here: of these bytes
    // none is read, so that it spoils the VM's own image at most.
    let to = unsafe { region.bytes_mut(Ipa::new(at), len)? };
    sum.update_copying(bytes, to);
    *done += len;
    Some(*done == blob.len)
}

/// Looks at the sum of a blob that is in place, and fills its seeds.
fn finish(unit: &VmUnit, blob: &Blob, sum: Sum, seed: &mut dyn FnMut(&mut [u8])) -> Option<()> {
    if sum.finish() != blob.sum {
        return None;
    }
    for (offset, len) in &blob.seeds {
        let mut random = [0; 64];
        let random = random.get_mut(..*len as usize)?;
        seed(random);
        let at = Ipa::new(blob.load.get().checked_add(u64::from(*offset))?);
        unit.ram.write(at, random).ok()?;
    }
    if let Some(offset) = blob.host_address {
        let at = Ipa::new(blob.load.get().checked_add(u64::from(offset))?);
        let address = unit.ram.host().get().to_be_bytes();
        unit.ram.write(at, &address).ok()?;
    }
    Some(())
}
