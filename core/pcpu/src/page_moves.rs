//! Moves pages of VMs to other frames at random, and back again: a self-test that guests must not notice.
//!
//! A mover has one frame of its own. It takes a page, copies the page to its own frame, fills the page's
//! former frame with junk, and gives the page the copy a while later. Then it moves the same page back to
//! its home. So at most one page for each mover is away from its home, and the list of owners stays short.

use crate::{Board, Host, PageFault, VmUnit};
use hanok_hal::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use hanok_hal::{Mutex, VmMemory};
use hanok_memory::{Absence, PageError, Taken};
use hanok_types::{Deadline, GuestPage, Hpa, Ipa, PAGE_SIZE, Span};

/// The number of movers, and of pages of a VM that can be away from their homes.
pub const MOVED_PAGES: usize = 8;
/// The bytes at the start of RAM in which half of the pages are taken, since a kernel is there.
const KERNEL: u64 = 24 << 20;
/// The byte that fills a page's former frame: it makes neither an instruction nor an address.
const JUNK: u8 = 0xdb;
/// The number of accesses that must have waited for a page before the self-test says so.
const WAITS_SAID: u32 = 20;

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The mover has no page away from its home.
    Idle,
    /// The mover is about to take this page. `home` says whether the page goes back to its home.
    ToTake {
        vm: usize,
        page: GuestPage,
        home: bool,
    },
    /// The mover has taken the page, whose frame was `was`, and gives it the copy at `until`.
    Kept {
        vm: usize,
        page: GuestPage,
        was: Hpa,
        until: u64,
        home: bool,
    },
}

/// Moves one page at a time, with a frame of its own.
#[derive(Clone, Copy, Debug)]
struct Mover {
    frame: Hpa,
    stage: Stage,
}

/// All movers.
#[allow(missing_debug_implementations)]
pub struct PageMoves {
    movers: Mutex<(usize, [Option<Mover>; MOVED_PAGES], u64)>,
    /// The instant at which the next mover acts; never if there is none.
    due: AtomicU64,
    waits: AtomicU32,
}

impl PageMoves {
    /// Movers with these frames, which belong to the hypervisor. Without frames nothing is moved.
    pub fn new(frames: impl Iterator<Item = Hpa>) -> Self {
        let mut movers = [None; MOVED_PAGES];
        let stage = Stage::Idle;
        for (place, frame) in movers.iter_mut().zip(frames) {
            *place = Some(Mover { frame, stage });
        }
        let due = if movers[0].is_some() { 0 } else { u64::MAX };
        Self {
            movers: Mutex::new((0, movers, 0x9e37_79b9_7f4a_7c15)),
            due: AtomicU64::new(due),
            waits: AtomicU32::new(0),
        }
    }

    /// The instant at which [`Board::move_pages`] is to be called.
    pub(crate) fn due(&self) -> Deadline {
        Deadline::at(self.due.load(Ordering::Relaxed))
    }
}

/// The next number of a random sequence (xorshift64).
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed >> 11
}

impl<B: Host> Board<B> {
    /// Lets the next mover act, if that is due.
    pub(crate) fn move_pages(&self) {
        let now = self.machine.counter();
        if !self.page_moves.due().has_come(now) {
            return;
        }
        let mut guard = self.page_moves.movers.lock();
        let (turn, movers, seed) = &mut *guard;
        let period = self.machine.counter_frequency() / 4000;
        self.page_moves.due.store(now + period, Ordering::Relaxed);
        *turn = (*turn + 1) % MOVED_PAGES;
        if let Some(Some(mover)) = movers.get_mut(*turn) {
            mover.stage = self.next_stage(mover, seed, now, period);
        }
    }

    fn next_stage(&self, mover: &mut Mover, seed: &mut u64, now: u64, period: u64) -> Stage {
        match mover.stage {
            Stage::Idle => self.choose(seed),
            Stage::ToTake { vm, page, home } => {
                let Some(unit) = self
                    .vms
                    .get(vm)
                    .filter(|unit| unit.vm.lifecycle().is_running())
                else {
                    return if home { mover.stage } else { Stage::Idle };
                };
                match self.take_page(unit, page, Absence::Taken) {
                    Ok(Taken::Split) => mover.stage,
                    Ok(Taken::Frame(was)) => {
                        exchange(unit, page, was, mover.frame);
                        let until = now + random(seed) % (32 * period);
                        Stage::Kept {
                            vm,
                            page,
                            was,
                            until,
                            home,
                        }
                    }
                    Err(PageFault::Space(PageError::InMaking)) => mover.stage,
                    Err(_) => Stage::Idle,
                }
            }
            Stage::Kept { until, .. } if now < until => mover.stage,
            Stage::Kept {
                vm,
                page,
                was,
                home,
                ..
            } => {
                let Some(unit) = self.vms.get(vm) else {
                    return Stage::Idle;
                };
                if self.give_page(unit, page, mover.frame).is_err() {
                    return mover.stage;
                }
                mover.frame = was;
                let next = Stage::ToTake {
                    vm,
                    page,
                    home: true,
                };
                if home { Stage::Idle } else { next }
            }
        }
    }

    /// Chooses a page of a VM at random. Taking it may be refused.
    fn choose(&self, seed: &mut u64) -> Stage {
        let vm = random(seed) as usize % self.vms.len().max(1);
        let Some(unit) = self.vms.get(vm) else {
            return Stage::Idle;
        };
        let ram = unit.ram.ipa();
        let most = if random(seed).is_multiple_of(2) {
            ram.len().min(KERNEL)
        } else {
            ram.len()
        };
        let at = ram.start().get() + random(seed) % most.max(1);
        let wanted = |page| Stage::ToTake {
            vm,
            page,
            home: false,
        };
        GuestPage::of(Ipa::new(at)).map_or(Stage::Idle, wanted)
    }

    /// Counts an access that waits for a page.
    pub(crate) fn count_missed_page(&self) {
        if self.page_moves.waits.fetch_add(1, Ordering::Relaxed) + 1 == WAITS_SAID {
            self.say(format_args!(
                "selftest: {WAITS_SAID} accesses have waited for a page"
            ));
        }
    }
}

/// Copies a page, whose frame belongs to the hypervisor already, to `to`, and fills that frame with junk.
fn exchange<B: Host>(unit: &VmUnit<B>, page: GuestPage, from: Hpa, to: Hpa) {
    if let Some(span) = Span::new(page.start(), PAGE_SIZE) {
        let old = unit.ram.part(span, from);
        old.copy_to(to);
        old.fill(span.start(), PAGE_SIZE, JUNK);
    }
}
