//! Pages of VMs that are taken at random, kept in another frame, and given back there: what a test that
//! guests do not notice runs beside them.
//!
//! A spoon has one frame of its own. It takes a page, copies it to its own frame, fills the page's former
//! frame with junk, and gives the page the copy a while later. The next time it takes the same page home.
//! So a page is elsewhere for each spoon at most, and the list of owners stays short.

use crate::{Board, Host, PageFault, VmUnit};
use hanok_hal::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use hanok_hal::{Mutex, VmMemory};
use hanok_memory::{Absence, PageError, Taken};
use hanok_types::{Deadline, GuestPage, Hpa, Ipa, PAGE_SIZE, Span};

/// Spoons: a VM has room for as many pages elsewhere.
pub const STIRRED: usize = 8;
/// Half of the pages are taken here, from the start of RAM on, where a kernel is.
const KERNEL: u64 = 24 << 20;
/// What is left in a frame that is another one's now: no instruction, and no address.
const JUNK: u8 = 0xdb;
/// After so many of a guest's accesses have waited it is said.
const TOLD: u32 = 20;

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It has stirred nothing, or taken it home.
    Idle,
    /// It wants this page of this VM.
    Wanted {
        vm: usize,
        page: GuestPage,
        home: bool,
    },
    /// It has the page's bytes in its frame, until then; the page was here.
    Kept {
        vm: usize,
        page: GuestPage,
        was: Hpa,
        until: u64,
        home: bool,
    },
}

/// What moves one page at a time.
#[derive(Clone, Copy, Debug)]
struct Spoon {
    frame: Hpa,
    stage: Stage,
}

/// All of them.
#[allow(missing_debug_implementations)]
pub struct Stir {
    spoons: Mutex<(usize, [Option<Spoon>; STIRRED], u64)>,
    /// When the next one moves; never: there is none.
    due: AtomicU64,
    waits: AtomicU32,
}

impl Stir {
    /// With these frames, which are the hypervisor's; none: nothing is stirred.
    pub fn new(frames: impl Iterator<Item = Hpa>) -> Self {
        let mut spoons = [None; STIRRED];
        let stage = Stage::Idle;
        for (place, frame) in spoons.iter_mut().zip(frames) {
            *place = Some(Spoon { frame, stage });
        }
        let due = if spoons[0].is_some() { 0 } else { u64::MAX };
        Self {
            spoons: Mutex::new((0, spoons, 0x9e37_79b9_7f4a_7c15)),
            due: AtomicU64::new(due),
            waits: AtomicU32::new(0),
        }
    }

    /// When [`Board::stir`] is to be called.
    pub(crate) fn due(&self) -> Deadline {
        Deadline::at(self.due.load(Ordering::Relaxed))
    }
}

/// The next of a row of random numbers (xorshift64).
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed >> 11
}

impl<B: Host> Board<B> {
    /// Moves a spoon, if it is time.
    pub(crate) fn stir(&self) {
        let now = self.machine.counter();
        if !self.stir.due().has_come(now) {
            return;
        }
        let mut guard = self.stir.spoons.lock();
        let (turn, spoons, seed) = &mut *guard;
        let period = self.machine.counter_frequency() / 4000;
        self.stir.due.store(now + period, Ordering::Relaxed);
        *turn = (*turn + 1) % STIRRED;
        if let Some(Some(spoon)) = spoons.get_mut(*turn) {
            spoon.stage = self.move_spoon(spoon, seed, now, period);
        }
    }

    fn move_spoon(&self, spoon: &mut Spoon, seed: &mut u64, now: u64, period: u64) -> Stage {
        match spoon.stage {
            Stage::Idle => self.choose(seed),
            Stage::Wanted { vm, page, home } => {
                let Some(unit) = self
                    .vms
                    .get(vm)
                    .filter(|unit| unit.vm.lifecycle().is_running())
                else {
                    return if home { spoon.stage } else { Stage::Idle };
                };
                match self.take_page(unit, page, Absence::Taken) {
                    Ok(Taken::Split) => spoon.stage,
                    Ok(Taken::Frame(was)) => {
                        exchange(unit, page, was, spoon.frame);
                        let until = now + random(seed) % (32 * period);
                        Stage::Kept {
                            vm,
                            page,
                            was,
                            until,
                            home,
                        }
                    }
                    Err(PageFault::Space(PageError::InMaking)) => spoon.stage,
                    Err(_) => Stage::Idle,
                }
            }
            Stage::Kept { until, .. } if now < until => spoon.stage,
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
                if self.give_page(unit, page, spoon.frame).is_err() {
                    return spoon.stage;
                }
                spoon.frame = was;
                let next = Stage::Wanted {
                    vm,
                    page,
                    home: true,
                };
                if home { Stage::Idle } else { next }
            }
        }
    }

    /// A page of a VM that runs, which may be refused.
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
        let wanted = |page| Stage::Wanted {
            vm,
            page,
            home: false,
        };
        GuestPage::of(Ipa::new(at)).map_or(Stage::Idle, wanted)
    }

    /// An access waits for a page.
    pub(crate) fn count_missed_page(&self) {
        if self.stir.waits.fetch_add(1, Ordering::Relaxed) + 1 == TOLD {
            self.say(format_args!(
                "selftest: {TOLD} accesses have waited for a page"
            ));
        }
    }
}

/// Copies a page, whose frame is the hypervisor's by now, and leaves junk in that.
fn exchange<B: Host>(unit: &VmUnit<B>, page: GuestPage, from: Hpa, to: Hpa) {
    if let Some(span) = Span::new(page.start(), PAGE_SIZE) {
        let old = unit.ram.part(span, from);
        old.copy_to(to);
        old.fill(span.start(), PAGE_SIZE, JUNK);
    }
}
