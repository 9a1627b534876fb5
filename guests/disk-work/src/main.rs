//! A program of the measured Linux: requests to a disk, past the kernel's cache, of several sizes and depths.
//!
//! Its arguments name two disks: one that answers at once, for rows with many requests under way, and one that takes its time, for those with one, so
//! that the CPU sleeps meanwhile. It does each row after a tenth as many requests that are not
//! measured. Between two marker instructions (`hint #0x40` and `hint #0x41`, which do nothing) are a row's requests alone, for
//! whoever counts instructions from outside. With a depth of 32 so many requests are under way: whenever some are done, as many are begun
//! together. With a third argument `kills` it does other things: see `kills.rs`. After each row it says how many requests there were, and how long they took by the kernel's clock.

#![no_std]
#![no_main]

#[cfg(target_arch = "arm")]
mod arm;
#[cfg(target_arch = "aarch64")]
mod arm64;
mod kills;

use hanok_syscalls::aio::{Direction, MOST, Transfers};
use hanok_syscalls::file::{Access, open};
use hanok_syscalls::mark::{begin, end};
use hanok_syscalls::{Descriptor, Line, Result, argument, exit, monotonic};

/// The part of the disk that is used, in bytes.
const SPAN: u64 = 32 << 20;

/// What is measured.
struct Row {
    name: &'static [u8],
    direction: Direction,
    /// Of each request.
    bytes: usize,
    /// How many requests are under way.
    depth: usize,
    /// Whether each request is anywhere, and not behind the one before.
    random: bool,
    /// How many requests there are.
    rounds: usize,
}

const fn row(name: &'static [u8], direction: Direction, kib: usize, depth: usize) -> Row {
    let random = kib == 4;
    Row {
        name,
        direction,
        bytes: kib << 10,
        depth,
        random,
        rounds: if random { 4096 } else { 1024 },
    }
}

const ROWS: [Row; 6] = [
    row(b"read-4k-1", Direction::Read, 4, 1),
    row(b"read-4k-32", Direction::Read, 4, MOST),
    row(b"read-128k-1", Direction::Read, 128, 1),
    row(b"read-128k-32", Direction::Read, 128, MOST),
    row(b"write-128k-1", Direction::Write, 128, 1),
    row(b"write-128k-32", Direction::Write, 128, MOST),
];

/// Where requests are: a sequence that is the same in each run.
struct Places {
    state: u32,
    next: u64,
}

impl Places {
    fn next(&mut self, row: &Row) -> u64 {
        let bytes = row.bytes as u64;
        if row.random {
            // Marsaglia's xorshift, by 13, 17 and 5.
            self.state ^= self.state << 13;
            self.state ^= self.state >> 17;
            self.state ^= self.state << 5;
            return u64::from(self.state) * bytes % SPAN;
        }
        let at = self.next;
        self.next = (at + bytes) % SPAN;
        at
    }
}

/// Called by `_start`, with the stack pointer as the kernel starts a program with: it is at argc, argv follows.
extern "C" fn main(stack: *const usize) -> ! {
    // SAFETY: `_start` passes the stack pointer as it was at the start.
    let disks = [1, 2].map(|index| unsafe { argument(stack, index) }.unwrap_or(c"/dev/vda"));
    // SAFETY: the same.
    if unsafe { argument(stack, 3) } == Some(c"kills") {
        finish(kills::run(disks[0], disks[1]));
    }
    finish(ROWS.iter().try_for_each(|row| {
        let path = if row.depth == 1 { disks[1] } else { disks[0] };
        measure(&open(path, Access::Direct)?, row)
    }))
}

fn finish(done: Result<()>) -> ! {
    if let Err(error) = done {
        let mut line = Line::default();
        line.text(b"disk work: error ");
        line.number(error.0.into());
        line.text(b"\n");
        line.write();
        exit(1);
    }
    exit(0)
}

fn measure(disk: &Descriptor, row: &Row) -> Result<()> {
    let mut transfers = Transfers::new(disk, row.bytes)?;
    let mut places = Places { state: 1, next: 0 };
    // It also makes the buffers' pages.
    requests(&mut transfers, row, &mut places, row.rounds / 10)?;
    let before = now();
    begin();
    let done = requests(&mut transfers, row, &mut places, row.rounds);
    end();
    let taken = now() - before;
    done?;
    let mut line = Line::default();
    line.text(b"bench-info: ");
    line.text(row.name);
    line.text(b" 1 stretches of ");
    line.number(row.rounds as u64);
    line.text(b" rounds\n");
    line.write();
    let mut line = Line::default();
    line.text(b"disk work: ");
    line.text(row.name);
    line.text(b" ");
    line.number(taken / row.rounds as u64);
    line.text(b" nanoseconds each\n");
    line.write();
    Ok(())
}

/// Does so many requests.
fn requests(
    transfers: &mut Transfers<'_>,
    row: &Row,
    places: &mut Places,
    rounds: usize,
) -> Result<()> {
    let (mut begun, mut done) = (0, 0);
    // The transfers that are to be begun.
    let (mut free, mut count) = ([0; MOST], row.depth);
    for (index, place) in free.iter_mut().enumerate() {
        *place = index;
    }
    while done < rounds {
        for index in free.iter().take(count.min(rounds - begun)) {
            transfers.prepare(*index, row.direction, places.next(row))?;
            begun += 1;
        }
        transfers.submit()?;
        count = 0;
        transfers.wait(|index| {
            if let Some(place) = free.get_mut(count) {
                *place = index;
                count += 1;
            }
        })?;
        done += count;
    }
    Ok(())
}

/// The time, in nanoseconds.
fn now() -> u64 {
    monotonic().unwrap_or_else(|| exit(3))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    exit(2)
}
