//! vCPUs without virtualization hardware: what one of them takes from all is used by none when it goes on, whatever the
//! others are doing meanwhile.

use hanok_deprivileged::{Change, Host, Member, Seat};
use hanok_hal::AccessError;
use hanok_paging::shadow::Invalidation;
use hanok_types::{Hpa, Ipa};
use shuttle::scheduler::RandomScheduler;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use shuttle::{Config, Runner, thread};

/// The most vCPUs.
const VCPUS: usize = 3;
/// How often each changes the tables.
const ROUNDS: u32 = 2;
/// More of the checker's steps than any run takes.
const STEPS: usize = 200_000;
/// How many interleavings are run of each number of vCPUs.
const RUNS: usize = 5000;

/// What the vCPUs of a VM share.
struct Vm {
    seats: &'static [Seat],
    /// What is in the guest's tables for the page of each vCPU, which changes that alone: a number that counts up.
    tables: [AtomicU32; VCPUS],
    /// Up to which number nobody may use them any more.
    gone: [AtomicU32; VCPUS],
    kicked: [AtomicBool; VCPUS],
}

impl Host for &Vm {
    fn word(&self, at: Ipa) -> Result<u32, AccessError> {
        Err(AccessError::NoMemory(at))
    }
    fn set_word(&self, at: Ipa, _: u32) -> Result<(), AccessError> {
        Err(AccessError::NoMemory(at))
    }
    fn store(&self, at: Ipa, _: &[u8]) -> Result<(), AccessError> {
        Err(AccessError::NoMemory(at))
    }
    fn synchronize_fetches(&self) {}
    fn show_code(&self, _: Hpa) {}
    fn clean(&self, _: Ipa) {}
    fn frame(&self, at: Ipa) -> Result<Hpa, AccessError> {
        Err(AccessError::NoMemory(at))
    }
    fn section(&self, _: Ipa) -> Option<Hpa> {
        None
    }
    fn is_writable(&self, _: Ipa) -> bool {
        true
    }
    fn kick(&self, vcpu: usize) {
        self.kicked[vcpu].store(true, Ordering::SeqCst);
    }
}

/// A page in a megabyte that only this vCPU changes.
fn page(vcpu: usize) -> u32 {
    (vcpu as u32) << 20
}

/// The life of one vCPU: in its guest for a while or until it is kicked, then a change of the tables; some rounds of that.
fn run(vm: &Vm, number: usize) {
    let member = Member::new(vm.seats, number);
    // Shadow entries for the page of each vCPU.
    let mut shadow: [Option<u32>; VCPUS] = [None; VCPUS];
    for round in 1..=ROUNDS {
        // An entry is made for each, if there is none.
        for (other, entry) in shadow.iter_mut().enumerate() {
            if entry.is_none() {
                member.touch(page(other));
                *entry = Some(vm.tables[other].load(Ordering::SeqCst));
            }
        }
        loop {
            while let Some(change) = member.take() {
                match change {
                    Change::Invalidate(Invalidation::PageOfAllAsids { at }) => {
                        shadow[(at >> 20) as usize] = None;
                    }
                    _ => shadow = [None; VCPUS],
                }
            }
            if member.enter() {
                break;
            }
        }
        for _ in 0..4 {
            for (entry, gone) in shadow.iter().zip(&vm.gone) {
                let gone = gone.load(Ordering::SeqCst);
                assert!(
                    entry.is_none_or(|entry| entry >= gone),
                    "what was taken away is in use"
                );
            }
            if vm.kicked[number].swap(false, Ordering::SeqCst) {
                break;
            }
        }
        member.leave();
        vm.tables[number].store(round, Ordering::SeqCst);
        shadow[number] = None;
        member.post(Change::Invalidate(Invalidation::PageOfAllAsids {
            at: page(number),
        }));
        member.wait(&vm);
        vm.gone[number].store(round, Ordering::SeqCst);
    }
}

/// So many vCPUs under interleavings that are chosen at random.
fn check(vcpus: usize) {
    let scheduler = RandomScheduler::new_from_seed(0x5ea7, RUNS);
    let mut config = Config::default();
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS);
    Runner::new(scheduler, config).run(move || {
        let seats: Vec<Seat> = (0..vcpus).map(|_| Seat::default()).collect();
        let vm = Arc::new(Vm {
            seats: seats.leak(),
            tables: Default::default(),
            gone: Default::default(),
            kicked: Default::default(),
        });
        let run = |number| {
            let vm = vm.clone();
            thread::spawn(move || run(&vm, number))
        };
        let threads: Vec<_> = (0..vcpus).map(run).collect();
        for thread in threads {
            thread.join().expect("a vCPU that comes to its end");
        }
    });
}

#[test]
fn what_was_taken_away_is_in_no_siblings_use() {
    check(2);
    check(VCPUS);
}
