//! Making a VM's memory for a boot: its images at their places, zero elsewhere.
//!
//! This takes millions of instructions, so it is done in pieces, between which other vCPUs of the same pCPU
//! have their turn. The first vCPU does it in its own time. Interrupts are masked meanwhile, and a piece
//! lasts until one is pending, which is checked after each part. The end of the first vCPU's turn is an
//! interrupt, and so is every event that may wake another vCPU of the pCPU. So a piece is as long as the
//! policy lets it be, and the scheduler is asked only when its answer may have changed.

use crate::{Board, Host, VmUnit};
use hanok_config::{Blob, BlobKind, HOST_ADDRESS_STRIDE, Sum};
use hanok_hal::{Context, Forgotten, GuestMemory, Quiet, VmMemory};
use hanok_types::{Address, Ipa, Span, VcpuId};

/// The byte of erased flash.
const ERASED: u8 = 0xff;

/// A blob's bytes are not those that the image tool wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The index of the blob among the VM's.
    pub blob: usize,
}

/// Whether a piece of work is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// A part of it is left to do.
    More,
    /// All of it is done.
    Done,
}

/// The progress of making a VM's memory.
#[derive(Clone, Copy, Debug)]
pub struct Loading {
    /// The boot for which it is made.
    pub boot: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The former boot has let the devices before this slot go; whether these are all free of it. Only after the last one those that are not are
    /// looked at again: whom one waits for may wait for a later one, where two VMs serve each other.
    LetGo { slot: usize, free: bool },
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
    /// The same is true for flash before `at`.
    CleanFlash { at: u64 },
    /// This many of the VM's vCPUs have been reset.
    Vcpus { reset: u8 },
    /// This many parts of its devices have been reset.
    Devices { reset: usize },
}

impl Stage {
    const FIRST: Self = Self::LetGo {
        slot: 0,
        free: true,
    };
}

impl Loading {
    /// The loading for `boot`, of which nothing is done yet.
    pub fn new(boot: u32) -> Self {
        Self {
            boot,
            stage: Stage::FIRST,
        }
    }

    /// Does a piece: at least one part, and, unless a decision is `due`, further parts until an interrupt
    /// is pending. `context` is the first vCPU's.
    pub fn go_on<B: Host>(
        &mut self,
        unit: &VmUnit<B>,
        board: &Board<B>,
        context: &mut B::Context,
        due: bool,
    ) -> Result<Progress, Damaged> {
        while self.part(unit, board, context)? == Progress::More {
            if board.machine.interrupt_is_pending() || due {
                return Ok(Progress::More);
            }
        }
        Ok(Progress::Done)
    }

    /// Does a part.
    fn part<B: Host>(
        &mut self,
        unit: &VmUnit<B>,
        board: &Board<B>,
        context: &mut B::Context,
    ) -> Result<Progress, Damaged> {
        match &mut self.stage {
            // A boot begins with all pages of its memory, and none is taken while it is made.
            Stage::LetGo { .. } if !unit.memory.lock().begin_making() => {}
            // Nobody else writes to its memory while it is made, and no device does what the last boot told it to.
            Stage::LetGo { slot, free } => match board.let_go(unit, *slot) {
                Some(is_free) => (*slot, *free) = (*slot + 1, *free && is_free),
                None if *free => self.stage = Stage::Random,
                None => self.stage = Stage::FIRST,
            },
            Stage::Random if board.machine.quiet_devices(unit.vm.id()) == Quiet::Some => {}
            Stage::Random => {
                board.new_random(unit, self.boot);
                let at = unit.ram.ipa().start().get();
                self.stage = Stage::Zero { at };
            }
            Stage::Zero { at } => match next_gap(unit, *at) {
                Some(gap) => {
                    // The page is present: none of RAM is taken now.
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
                if wanted.kind == BlobKind::Variables {
                    self.stage = begin_blob(index + 1);
                    return Ok(Progress::More);
                }
                let copied = copy(unit, wanted, board.payload, done, sum).ok_or(damaged)?;
                if copied == Progress::Done {
                    finish(unit, wanted, *sum).ok_or(damaged)?;
                    let (blob, seed) = (index, 0);
                    self.stage = Stage::Seed { blob, seed };
                }
            }
            Stage::Seed { blob, seed } => {
                let index = *blob;
                let damaged = Damaged { blob: index };
                match fill_seed(unit, index, *seed, board).ok_or(damaged)? {
                    Progress::More => *seed += 1,
                    Progress::Done => self.stage = begin_blob(index + 1),
                }
            }
            Stage::Clean { blob, done } => match unit.vm.config().blobs.get(*blob) {
                Some(wanted) if *done < wanted.len => *done += clean(unit, wanted, *done),
                Some(_) => (*blob, *done) = (*blob + 1, 0),
                None => self.stage = Stage::CleanFlash { at: 0 },
            },
            Stage::CleanFlash { at } => match next_part(unit.flash.as_ref(), *at, B::Memory::LINES)
            {
                Some(part) => {
                    let flash = unit.flash.iter();
                    flash.for_each(|flash| flash.clean(part.start(), part.len()));
                    *at = part.end().get();
                }
                None => {
                    board.machine.invalidate_instruction_caches();
                    self.stage = Stage::Vcpus { reset: 0 };
                }
            },
            Stage::Vcpus { reset } if usize::from(*reset) < unit.vm.vcpus() => {
                unit.vm.reset_vcpu(VcpuId::new(*reset));
                *reset += 1;
            }
            Stage::Vcpus { .. } => self.stage = Stage::Devices { reset: 0 },
            Stage::Devices { reset } if unit.vm.reset_devices(board, *reset) => *reset += 1,
            Stage::Devices { .. } => {
                if context.forget_pages() == Forgotten::All {
                    return Ok(Progress::Done);
                }
            }
        }
        Ok(Progress::More)
    }
}

fn begin_blob(blob: usize) -> Stage {
    let sum = Sum::new();
    Stage::Place { blob, done: 0, sum }
}

/// The next part of a region, of at most `most` bytes, from `at` on; `None` at the region's end, or without
/// a region.
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
        return Span::new(Ipa::new(at), B::Memory::LINES.min(end - at));
    }
}

/// Cleans a part of a blob that is in place, from `done` on. Returns the part's length.
fn clean<B: Host>(unit: &VmUnit<B>, blob: &Blob, done: u64) -> u64 {
    let len = B::Memory::LINES.min(blob.len - done);
    let Some(span) = Span::new(Ipa::new(blob.load.get() + done), len) else {
        return len;
    };
    let Ok((memory, part)) = unit.part(span) else {
        return len;
    };
    memory.clean(part.start(), part.len());
    part.len()
}

/// Copies a part of a blob, from `done` on, and adds it to the sum; `None` if the blob is damaged. A part
/// that does not begin at a multiple of 8 takes longer, and is therefore shorter.
fn copy<B: Host>(
    unit: &VmUnit<B>,
    blob: &Blob,
    payload: &[u8],
    done: &mut u64,
    sum: &mut Sum,
) -> Option<Progress> {
    let from = usize::try_from(blob.offset.checked_add(*done)?).ok()?;
    let most = match blob.offset | blob.load.get() {
        at if at.is_multiple_of(8) => B::Memory::COPIED,
        _ => B::Memory::COPIED / 4,
    };
    let len = most.min(blob.len.checked_sub(*done)?);
    let bytes = payload.get(from..from.checked_add(len as usize)?)?;
    let span = Span::new(Ipa::new(blob.load.get().checked_add(*done)?), len)?;
    // No vCPU is in the VM. A bus master of a trusted VM without an SMMU, which nothing stops between two boots, may
    // still write here, but the hypervisor reads none of these bytes, so that at most the VM's own image is
    // damaged.
    let (memory, part) = unit.part(span).ok()?;
    let bytes = bytes.get(..part.len() as usize)?;
    memory.overwrite(part.start(), part.len(), |to| sum_and_copy(sum, bytes, to))?;
    *done += part.len();
    Some(if *done == blob.len {
        Progress::Done
    } else {
        Progress::More
    })
}

/// This function is kept out of line: inlined, the loop would share registers with the code around it.
#[inline(never)]
fn sum_and_copy(sum: &mut Sum, from: &[u8], to: &mut [u8]) {
    sum.update_copying(from, to);
}

/// Checks the sum of a blob that is in place, and writes the host addresses of RAM and of channels' memory into it, if
/// the blob has places for them.
fn finish<B: Host>(unit: &VmUnit<B>, blob: &Blob, sum: Sum) -> Option<()> {
    if sum.finish() != blob.sum {
        return None;
    }
    if let Some(offset) = blob.host_address {
        let mut at = blob.load.checked_add(u64::from(offset))?;
        let config = unit.vm.config();
        let channels = config.channels.iter().map(|end| end.memory.start());
        for start in core::iter::once(config.memory.start()).chain(channels) {
            let host = unit.memory.lock().region_of(start)?.host;
            unit.write(at, &host.get().to_be_bytes()).ok()?;
            at = at.checked_add(u64::from(HOST_ADDRESS_STRIDE))?;
        }
    }
    Some(())
}

/// Fills the seed with this number in a blob that is in place; [`Progress::Done`] if the blob has no such
/// seed, and `None` if the seed is not inside the blob's memory.
fn fill_seed<B: Host>(
    unit: &VmUnit<B>,
    blob: usize,
    seed: usize,
    board: &Board<B>,
) -> Option<Progress> {
    let blob = unit.vm.config().blobs.get(blob)?;
    let Some((offset, len)) = blob.seeds.get(seed) else {
        return Some(Progress::Done);
    };
    let mut random = [0; 64];
    let random = random.get_mut(..*len as usize)?;
    board.fill_seed(unit, random);
    let at = Ipa::new(blob.load.get().checked_add(u64::from(*offset))?);
    unit.write(at, random).ok()?;
    Some(Progress::More)
}

#[cfg(test)]
mod tests {
    use crate::fake::{FakeBoard, FakePromise, RAM, UART};
    use crate::{Board, PageFault, begin_all};
    use core::cell::Cell;
    use hanok_hal::Backend;
    use hanok_hal::fake::{FakeBackend, Settings};
    use hanok_memory::{Absence, Page, PageError, Taken};
    use hanok_types::{GicVersion, GuestPage};
    use hanok_vm::{Action, Cause, Wait};
    use std::vec;

    /// The time of a part of a loading, in ticks.
    const PART: u64 = 10;

    std::thread_local! {
        /// The effect of each part beside the time that it takes.
        static THIEF: Cell<Option<fn()>> = const { Cell::new(None) };
        static MACHINE: Cell<Option<&'static FakeBackend>> = const { Cell::new(None) };
        /// The interrupts that fire during each part.
        static FLOOD: Cell<&'static [u32]> = const { Cell::new(&[]) };
    }

    fn settings() -> Settings {
        Settings {
            cpus: 1,
            this_cpu: || 0,
            pause: || {
                if let Some(machine) = MACHINE.get() {
                    machine.advance(PART);
                    FLOOD.get().iter().for_each(|id| machine.raise(0, *id));
                }
                if let Some(thief) = THIEF.get() {
                    thief();
                }
            },
            asleep: || {},
            lists: 4,
        }
    }

    /// The time that the serial line takes is charged to no vCPU, while the loading that goes on after it
    /// is charged.
    #[test]
    fn a_vm_that_loads_while_the_line_is_busy_gets_its_budget_and_no_more() {
        let promise = FakePromise {
            cpu: 0,
            vm: 0,
            period: 10_000,
            budget: 1_000,
        };
        let FakeBoard {
            board, mut pcpus, ..
        } = FakeBoard::with_promises(settings(), &[vec![0]], GicVersion::V2, &[promise]);
        MACHINE.set(Some(&board.machine));
        // Of two devices the first one is served after a part, and the line before the next one.
        FLOOD.set(&[UART - 1, UART]);
        begin_all(board);
        pcpus[0].schedule();
        assert!(pcpus[0].resident().is_some_and(|vcpu| vcpu.is_on()));
        let parts = board.vms[0].vm.config().memory.len() / 4096;
        let least = parts * PART / promise.budget * promise.period;
        assert!(
            board.machine.counter() >= least,
            "{:?}",
            board.machine.counter()
        );
    }

    /// A vCPU whose timer fires has its turn soon, and not only when another vCPU's loading is done.
    #[test]
    fn who_is_woken_just_before_a_neighbour_s_loading_goes_on_has_its_turn() {
        const BEGIN: u64 = 20_000;
        FLOOD.set(&[]);
        for alarm in BEGIN..BEGIN + 200 {
            MACHINE.set(None);
            let FakeBoard {
                board, mut pcpus, ..
            } = FakeBoard::new(settings(), &[vec![0], vec![0]], GicVersion::V2);
            let (machine, pcpu) = (&board.machine, &mut pcpus[0]);
            assert!(board.vms[1].vm.lifecycle().begin().is_made());
            board.vms[1].vm.kick_first(board);
            pcpu.schedule();
            crate::sleep::tests::let_timer_through(pcpu);
            machine.advance(BEGIN - machine.counter());
            MACHINE.set(Some(machine));
            assert!(board.vms[0].vm.lifecycle().begin().is_made());
            board.vms[0].vm.kick_first(board);
            machine.here().set_virtual_timer(Some(alarm));
            let (Some(vcpu), local) = pcpu.resident_and_local() else {
                panic!("no vCPU is resident");
            };
            let after = vcpu.act(local, 0, Action::NextThenBlock(Wait::Interrupt));
            pcpu.finish(Cause::Wait, after);
            let late = machine.counter() - alarm;
            assert!(late < 200, "{alarm}: {late} ticks late");
            let vcpu = pcpu.resident().expect("a vCPU runs");
            assert_eq!(vcpu.unit.vm.id().index(), 1);
        }
    }

    std::thread_local! {
        static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    /// How often a VM of whose pages so many parts are known looks for interrupts before it runs.
    fn looks_with(known_parts: usize) -> usize {
        let FakeBoard {
            board, mut pcpus, ..
        } = FakeBoard::new(settings(), &[vec![0]], GicVersion::V2);
        pcpus[0].vcpus[0]
            .as_mut()
            .expect("a vCPU")
            .context
            .known_parts = known_parts;
        LOOKS.set(0);
        THIEF.set(Some(|| LOOKS.set(LOOKS.get() + 1)));
        MACHINE.set(Some(&board.machine));
        begin_all(board);
        pcpus[0].schedule();
        THIEF.set(None);
        assert!(pcpus[0].resident().is_some_and(|vcpu| vcpu.is_on()));
        let vcpu = pcpus[0].vcpus[0].as_ref().expect("a vCPU");
        assert_eq!(vcpu.context.known_parts, 0);
        LOOKS.get()
    }

    /// All that is known of pages is forgotten before the VM runs, and an interrupt waits for a part of that at most.
    #[test]
    fn pages_are_forgotten_in_parts_between_looks_for_interrupts() {
        FLOOD.set(&[]);
        assert_eq!(looks_with(30), looks_with(0) + 30);
    }

    std::thread_local! {
        static BOARD: Cell<Option<&'static Board<FakeBackend>>> = const { Cell::new(None) };
        static REFUSED: Cell<u32> = const { Cell::new(0) };
    }

    fn take(board: &Board<FakeBackend>) -> Result<Taken, PageFault> {
        let page = GuestPage::of(RAM).expect("a page");
        board.take_page(&board.vms[0], page, Absence::Taken)
    }

    /// A page of a VM that is reset keeps its frame from the first byte that is written on: a page mover on
    /// another core may have found the VM running a moment ago.
    #[test]
    fn no_page_is_taken_while_the_memory_is_made() {
        let FakeBoard {
            board, mut pcpus, ..
        } = FakeBoard::new(settings(), &[vec![0]], GicVersion::V2);
        BOARD.set(Some(board));
        MACHINE.set(Some(&board.machine));
        begin_all(board);
        THIEF.set(Some(|| {
            let board = BOARD.get().expect("a board");
            if board.vms[0].vm.lifecycle().is_loading() {
                let refused = Err(PageFault::Space(PageError::InMaking));
                assert_eq!(take(board), refused);
                REFUSED.set(REFUSED.get() + 1);
            }
        }));
        pcpus[0].schedule();
        THIEF.set(None);
        assert!(REFUSED.get() > 100);
        assert!(board.vms[0].vm.lifecycle().is_running());
        while take(board) == Ok(Taken::Split) {}
        assert_eq!(board.vms[0].page(RAM), Page::Absent);
    }
}
