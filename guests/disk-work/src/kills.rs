//! What a driver VM's ends look like to its client, while 32 requests are under way.
//!
//! At first blocks are read, and each time without an answer that is longer than any before the first kill is told. Then blocks are written and
//! read, each with its number and how often it was written in all of its words, so that a block that is lost, old or another one is seen.
//! Both go on until a file is there that whoever kills makes.

use core::ffi::CStr;

use hanok_syscalls::aio::{Direction, MOST, Transfers};
use hanok_syscalls::file::{Access, open};
use hanok_syscalls::{Errno, Line, Result};

/// Bytes of a block, and its words.
const BLOCK: usize = 4096;
const WORDS: usize = BLOCK / size_of::<u64>();
/// Each transfer has blocks of its own.
const EACH: usize = 64;
/// Answers that are awaited before the first kill.
const CALM: u64 = 4096;

/// The times without an answer.
struct Gaps {
    last: u64,
    answers: u64,
    /// The longest one before the first kill.
    calm: u64,
}

impl Gaps {
    fn new() -> Self {
        Self {
            last: crate::now(),
            answers: 0,
            calm: 0,
        }
    }

    /// So many answers have come.
    fn answered(&mut self, count: usize) {
        let now = crate::now();
        let gap = now - self.last;
        self.last = now;
        let was_calm = self.answers < CALM;
        self.answers += count as u64;
        if was_calm {
            // The first answers find nothing in any cache.
            if self.answers > CALM / 2 {
                self.calm = self.calm.max(gap);
            }
            if self.answers >= CALM {
                say(&[
                    (b"kill work: at most ", self.calm),
                    (b" ns when calm, of ", CALM),
                ]);
            }
        } else if gap > self.calm * 3 / 2 {
            say(&[(b"kill work: without ", gap)]);
        }
    }
}

/// Both, on a disk that keeps nothing and on one that does.
pub fn run(quick: &CStr, kept: &CStr) -> Result<()> {
    reads(quick)?;
    blocks(kept)
}

fn reads(disk: &CStr) -> Result<()> {
    let disk = open(disk, Access::Direct)?;
    let mut transfers = Transfers::new(&disk, BLOCK)?;
    let mut gaps = Gaps::new();
    let mut next = 0_u64;
    let (mut free, mut count) = (core::array::from_fn::<_, MOST, _>(|index| index), MOST);
    while !is_there(c"/stop-reads") {
        for _ in 0..64 {
            for index in &free[..count] {
                let place = next * BLOCK as u64 % crate::SPAN;
                transfers.prepare(*index, Direction::Read, place)?;
                next += 1;
            }
            transfers.submit()?;
            count = 0;
            transfers.wait(|index| {
                free[count % MOST] = index;
                count += 1;
            })?;
            gaps.answered(count);
        }
    }
    say(&[(b"kill work: the end of reads, answers ", gaps.answers)]);
    Ok(())
}

/// What a transfer does.
#[derive(Clone, Copy)]
struct Under {
    way: bool,
    direction: Direction,
    block: usize,
}

/// The blocks that are written and read.
struct Blocks {
    /// How often each was written.
    generations: [u32; MOST * EACH],
    under: [Under; MOST],
    state: u32,
    done: u64,
    wrong: u64,
    doubled: u64,
}

fn blocks(disk: &CStr) -> Result<()> {
    let disk = open(disk, Access::Direct)?;
    let mut transfers = Transfers::new(&disk, BLOCK)?;
    let mut gaps = Gaps::new();
    let nothing = Under {
        way: false,
        direction: Direction::Read,
        block: 0,
    };
    let mut blocks = Blocks {
        generations: [0; MOST * EACH],
        under: [nothing; MOST],
        state: 1,
        done: 0,
        wrong: 0,
        doubled: 0,
    };
    // Each is written before anything is read.
    for at in 0..EACH {
        for index in 0..MOST {
            blocks.begin(&mut transfers, index, Direction::Write, at)?;
        }
        while blocks.take(&mut transfers, |_| {})? > 0 {}
    }
    for index in 0..MOST {
        blocks.next(&mut transfers, index)?;
    }
    while !is_there(c"/stop-blocks") {
        for _ in 0..64 {
            let (mut done, mut count) = ([0; MOST], 0);
            blocks.take(&mut transfers, |index| {
                done[count % MOST] = index;
                count += 1;
            })?;
            gaps.answered(count);
            for index in &done[..count.min(MOST)] {
                blocks.next(&mut transfers, *index)?;
            }
        }
    }
    while blocks.take(&mut transfers, |_| {})? > 0 {}
    // What is there at last.
    for at in 0..EACH {
        for index in 0..MOST {
            blocks.begin(&mut transfers, index, Direction::Read, at)?;
        }
        while blocks.take(&mut transfers, |_| {})? > 0 {}
    }
    say(&[(b"kill work: the end of blocks, answers ", gaps.answers)]);
    say(&[
        (b"kill work: requests ", blocks.done),
        (b" wrong ", blocks.wrong),
        (b" doubled ", blocks.doubled),
    ]);
    Ok(())
}

impl Blocks {
    /// Begins what comes next for a transfer that is done: a read of any of its blocks after a write of any.
    fn next(&mut self, transfers: &mut Transfers<'_>, index: usize) -> Result<()> {
        // Marsaglia's xorshift, by 13, 17 and 5.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        let direction = match self.under[index % MOST].direction {
            Direction::Read => Direction::Write,
            Direction::Write => Direction::Read,
        };
        self.begin(transfers, index, direction, self.state as usize % EACH)
    }

    /// Begins a transfer of block number `at` of its own.
    fn begin(
        &mut self,
        transfers: &mut Transfers<'_>,
        index: usize,
        direction: Direction,
        at: usize,
    ) -> Result<()> {
        let block = at % EACH * MOST + index % MOST;
        let data = transfers.data(index).ok_or(Errno::INVAL)?;
        if direction == Direction::Write {
            self.generations[block] += 1;
            fill(data, block, self.generations[block]);
        } else {
            // What is not read is not what was there before.
            data.fill(0xff);
        }
        self.under[index % MOST] = Under {
            way: true,
            direction,
            block,
        };
        transfers.prepare(index, direction, (block * BLOCK) as u64)
    }

    /// Waits for transfers, and looks at what they read. Returns how many are under way still.
    fn take(
        &mut self,
        transfers: &mut Transfers<'_>,
        mut each: impl FnMut(usize),
    ) -> Result<usize> {
        transfers.submit()?;
        if self.under.iter().all(|one| !one.way) {
            return Ok(0);
        }
        let (mut done, mut count) = ([0; MOST], 0);
        transfers.wait(|index| {
            done[count % MOST] = index;
            count += 1;
        })?;
        for index in &done[..count.min(MOST)] {
            let under = &mut self.under[index % MOST];
            if !under.way {
                self.doubled += 1;
                continue;
            }
            under.way = false;
            self.done += 1;
            let under = *under;
            let data = transfers.data(*index).ok_or(Errno::INVAL)?;
            if under.direction == Direction::Read
                && !is(data, under.block, self.generations[under.block])
            {
                self.wrong += 1;
                let got = data
                    .first_chunk()
                    .map_or(0, |word| u64::from_ne_bytes(*word));
                say(&[
                    (b"kill work: wrong block ", under.block as u64),
                    (b" has ", got),
                ]);
            }
            each(*index);
        }
        Ok(self.under.iter().filter(|one| one.way).count())
    }
}

/// A word of a block of a generation.
const fn word(block: usize, generation: u32, at: usize) -> u64 {
    (block as u64) << 48 | (generation as u64) << 16 | at as u64
}

fn fill(data: &mut [u8], block: usize, generation: u32) {
    for (at, bytes) in data.as_chunks_mut().0.iter_mut().enumerate() {
        *bytes = word(block, generation, at).to_ne_bytes();
    }
}

fn is(data: &[u8], block: usize, generation: u32) -> bool {
    let words = data.as_chunks().0;
    let mut all = words.iter().enumerate();
    words.len() == WORDS
        && all.all(|(at, bytes)| u64::from_ne_bytes(*bytes) == word(block, generation, at))
}

fn is_there(path: &CStr) -> bool {
    open(path, Access::Read).is_ok()
}

fn say(words: &[(&[u8], u64)]) {
    let mut line = Line::default();
    for (text, number) in words {
        line.text(text);
        line.number(*number);
    }
    line.text(b"\n");
    line.write();
}
