//! The card controller PL180 (Arm DDI 0172, chapter 3), whose FIFO the CPU fills and empties: it has no DMA.
//!
//! Nobody is interrupted: each wait looks at the status, and ends by the counter if the controller does not answer.

use super::failure::Failure;
use crate::machine::{mmio, timer};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// The registers, by their offsets (3.2).
const POWER: u64 = 0x00;
const CLOCK: u64 = 0x04;
const ARGUMENT: u64 = 0x08;
const COMMAND: u64 = 0x0c;
/// The first of four words of a card's answer.
const RESPONSE: u64 = 0x14;
const DATA_TIMER: u64 = 0x24;
const DATA_LENGTH: u64 = 0x28;
const DATA_CONTROL: u64 = 0x2c;
const STATUS: u64 = 0x34;
const CLEAR: u64 = 0x38;
/// Which interrupts are enabled, of each of both lines.
const MASKS: [u64; 2] = [0x3c, 0x40];
const FIFO: u64 = 0x80;
/// The identification as a PrimeCell, and as this one: the low byte of each of four words.
const PERIPHERAL_ID: u64 = 0xfe0;
/// The part, and the one that some boards, and QEMU, have in its place.
const PARTS: [u32; 2] = [0x180, 0x181];

/// [`POWER`]: the card's power rises, and is there.
const POWER_UP: u32 = 2;
const POWER_ON: u32 = 3;
/// [`CLOCK`]: it is on. The card's clock is the controller's, 24 MHz on a Versatile Express, by twice the lowest byte and one more:
/// 400 kHz at most until the card has its address (SD Physical Layer Simplified Specification, 4.2.1), 12 MHz from then on.
const CLOCK_ON: u32 = 1 << 8;
const SLOW: u32 = 29;
const FAST: u32 = 0;
/// [`COMMAND`]: it is sent, with an answer, with one of 136 bits.
const SEND: u32 = 1 << 10;
const ANSWERED: u32 = 1 << 6;
const LONG: u32 = 1 << 7;
/// [`DATA_CONTROL`]: data go, from the card to the controller, in blocks of 512 bytes.
const GO: u32 = 1;
const FROM_CARD: u32 = 1 << 1;
const BLOCKS: u32 = 9 << 4;

/// Bits of [`STATUS`] of commands: a wrong checksum, no answer, an answer, sent without one.
const COMMAND_CRC: u32 = 1;
const COMMAND_TIMEOUT: u32 = 1 << 2;
const COMMAND_ANSWERED: u32 = 1 << 6;
const COMMAND_SENT: u32 = 1 << 7;
const COMMAND_ENDS: u32 = COMMAND_CRC | COMMAND_TIMEOUT | COMMAND_ANSWERED | COMMAND_SENT;
/// Bits of [`STATUS`] of data: wrong checksum, nothing came, the FIFO was empty or full in between, no start bit; the end.
const DATA_FAILED: u32 = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 9;
const DATA_END: u32 = 1 << 8;
/// The FIFO has room for eight words, has eight, has one.
const HALF_EMPTY: u32 = 1 << 14;
const HALF_FULL: u32 = 1 << 15;
const HAS_DATA: u32 = 1 << 21;
/// All that [`CLEAR`] clears.
const ALL: u32 = 0x7ff;

/// The words of 64 bits that half the FIFO holds, and the words of 32 bits that it and the controller hold at most.
const HALF: usize = 4;
const MOST_WORDS: usize = 32;
/// The longest wait for the end of a command, and for the next data, in microseconds.
const COMMAND_US: u64 = 100_000;
const DATA_US: u64 = 500_000;
/// Until the card's power is there, and then 74 cycles of the slow clock and more (the same specification, 6.4.1), in microseconds.
const POWER_US: u64 = 1000;

/// What a card answers to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    None,
    /// 32 bits behind its head, with a checksum.
    Short,
    /// The same without a checksum (R3).
    Unchecked,
    /// 128 bits, of which the last one counts for nothing.
    Long,
}

/// Data that go with a command: in whole blocks, less than 64 KiB.
#[derive(Clone, Copy)]
pub enum Data<'a> {
    None,
    /// The card's, to there.
    Read(&'a [AtomicU64]),
    /// From there to the card.
    Write(&'a [AtomicU64]),
}

/// The controller.
#[derive(Clone, Copy)]
pub struct Pl180 {
    registers: u64,
}

impl Pl180 {
    /// The controller at `registers`, if there is one.
    pub fn at(registers: u64) -> Option<Self> {
        let id = (0..2).fold(0, |id, byte| {
            let word = mmio::read32(registers + PERIPHERAL_ID + 4 * byte) & 0xff;
            id | word << (8 * byte)
        });
        PARTS.contains(&(id & 0xfff)).then_some(Self { registers })
    }

    fn write(&self, offset: u64, value: u32) {
        mmio::write32(self.registers + offset, value);
    }

    fn status(&self) -> u32 {
        mmio::read32(self.registers + STATUS)
    }

    /// Gives the card power and a slow clock, whatever was under way.
    pub fn start(&self) {
        MASKS.iter().for_each(|mask| self.write(*mask, 0));
        // Data of before stay in the FIFO until they are read.
        self.write(DATA_CONTROL, FROM_CARD);
        self.write(POWER, POWER_UP);
        timer::spin(POWER_US);
        self.write(CLOCK, CLOCK_ON | SLOW);
        self.write(POWER, POWER_ON);
        timer::spin(POWER_US);
    }

    /// Forgets what data there were, once the card sends none.
    pub fn empty(&self) {
        for _ in 0..MOST_WORDS {
            if self.status() & HAS_DATA == 0 {
                break;
            }
            mmio::read32(self.registers + FIFO);
        }
        self.write(DATA_CONTROL, 0);
        self.write(CLEAR, ALL);
    }

    /// Gives the card the clock at which it moves data.
    pub fn speed_up(&self) {
        self.write(CLOCK, CLOCK_ON | FAST);
        timer::spin(10);
    }

    /// Sends command number `index`, and moves its data. Returns the answer, of a short one in the first word.
    pub fn command(
        &self,
        index: u32,
        argument: u32,
        answer: Answer,
        data: Data<'_>,
    ) -> Result<[u32; 4], Failure> {
        // What a card sends may come at once; what it gets, it wants after its answer.
        if let Data::Read(words) = data {
            self.begin(words, FROM_CARD);
        }
        let response = self.send(index, argument, answer)?;
        match data {
            Data::None => return Ok(response),
            Data::Read(words) => self.read(words)?,
            Data::Write(words) => {
                self.begin(words, 0);
                self.fill(words)?;
            }
        }
        self.wait(DATA_END)?;
        self.write(DATA_CONTROL, 0);
        Ok(response)
    }

    fn send(&self, index: u32, argument: u32, answer: Answer) -> Result<[u32; 4], Failure> {
        let bits = match answer {
            Answer::None => 0,
            Answer::Short | Answer::Unchecked => ANSWERED,
            Answer::Long => ANSWERED | LONG,
        };
        self.write(CLEAR, COMMAND_ENDS);
        self.write(ARGUMENT, argument);
        self.write(COMMAND, index | bits | SEND);
        let mut status = 0;
        let ended = timer::wait_until_us(COMMAND_US, || {
            status = self.status();
            status & COMMAND_ENDS != 0
        });
        let wrong = status & COMMAND_CRC != 0 && answer != Answer::Unchecked;
        if !ended || status & COMMAND_TIMEOUT != 0 {
            return Err(Failure::NoAnswer);
        }
        if wrong {
            return Err(Failure::Data);
        }
        let word = |at: u64| mmio::read32(self.registers + RESPONSE + 4 * at);
        Ok([word(0), word(1), word(2), word(3)])
    }

    /// Lets data go in this direction.
    fn begin(&self, words: &[AtomicU64], direction: u32) {
        self.write(CLEAR, ALL);
        self.write(DATA_TIMER, u32::MAX);
        self.write(DATA_LENGTH, size_of_val(words) as u32);
        self.write(DATA_CONTROL, GO | direction | BLOCKS);
    }

    /// Waits for one of these bits of the status.
    fn wait(&self, bits: u32) -> Result<(), Failure> {
        let mut status = self.status();
        // The clock is not read for what is there.
        if status & (bits | DATA_FAILED) == 0 {
            timer::wait_until_us(DATA_US, || {
                status = self.status();
                status & (bits | DATA_FAILED) != 0
            });
        }
        if status & bits == 0 || status & DATA_FAILED != 0 {
            return Err(Failure::Data);
        }
        Ok(())
    }

    fn read(&self, words: &[AtomicU64]) -> Result<(), Failure> {
        for half in words.chunks(HALF) {
            self.wait(HALF_FULL)?;
            for word in half {
                let [low, high] = [(); 2].map(|()| mmio::read32(self.registers + FIFO));
                word.store(u64::from(low) | u64::from(high) << 32, Relaxed);
            }
        }
        Ok(())
    }

    fn fill(&self, words: &[AtomicU64]) -> Result<(), Failure> {
        for half in words.chunks(HALF) {
            self.wait(HALF_EMPTY)?;
            for word in half {
                let both = word.load(Relaxed);
                self.write(FIFO, both as u32);
                self.write(FIFO, (both >> 32) as u32);
            }
        }
        Ok(())
    }
}
