//! An SD card: how it gets ready, and how its blocks of 512 bytes are read and written (SD Physical Layer Simplified Specification,
//! chapters 4 and 5).

use super::failure::Failure;
use super::pl180::{Answer, Data, Pl180};
use crate::machine::timer;
use core::sync::atomic::AtomicU64;

/// Commands (4.7.4), by their numbers.
const RESET: u32 = 0;
const SEND_IDENTIFICATION: u32 = 2;
const SEND_ADDRESS: u32 = 3;
const SELECT: u32 = 7;
const SEND_CONDITIONS: u32 = 8;
const SEND_SPECIFIC_DATA: u32 = 9;
const STOP: u32 = 12;
const SEND_STATUS: u32 = 13;
const SET_BLOCK_LENGTH: u32 = 16;
const READ_BLOCK: u32 = 17;
const READ_BLOCKS: u32 = 18;
const WRITE_BLOCK: u32 = 24;
const WRITE_BLOCKS: u32 = 25;
/// The next command is one of an application's, and the one of these by which a card gets ready.
const APPLICATION: u32 = 55;
const GET_READY: u32 = 41;

/// [`SEND_CONDITIONS`]: 2.7 to 3.6 V, and a pattern that comes back (4.3.13).
const CONDITIONS: u32 = 0x1aa;
/// [`GET_READY`]: 3.2 to 3.4 V, a card that counts in blocks, and whether it is ready (5.1).
const VOLTAGES: u32 = 3 << 20;
const IN_BLOCKS: u32 = 1 << 30;
const IS_READY: u32 = 1 << 31;
/// How long a card may need for that, in microseconds: a second (4.2.3), and as much again.
const READY_US: u64 = 2_000_000;
/// The longest that a card writes what it has, in microseconds: 500 ms (4.6.2.2), and as much again.
const WRITTEN_US: u64 = 1_000_000;

/// Errors among the bits of a card's status (4.10.1): address, block length, erase, write protection, lock, checksums, commands, the
/// card's own, size of its specific data.
const FAILURES: u32 = 0xfdf9_8000;
/// Those that a card may have when it was stopped behind its last block: an address that is none (4.3.3).
const BEHIND_LAST: u32 = 3 << 30;
/// The same: it takes data, and its state, which is [`TRANSFER`] between commands.
const TAKES_DATA: u32 = 1 << 8;
const STATE_SHIFT: u32 = 9;
const TRANSFER: u32 = 4;
/// The bytes of a block, and its words.
const BLOCK: usize = 512;
const BLOCK_WORDS: usize = BLOCK / 8;

/// What a card says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its identification, which no other card has.
    identification: [u32; 4],
    /// Its blocks of 512 bytes.
    pub blocks: u64,
    /// Whether it refuses to be written.
    pub is_read_only: bool,
}

/// A card that is ready.
pub struct Card {
    controller: Pl180,
    /// Its address, in the upper half of a word.
    address: u32,
    /// Whether it counts in blocks, not in bytes.
    in_blocks: bool,
    /// What it says of itself.
    pub facts: Facts,
}

impl Card {
    /// Gets the card ready (4.2), whatever it was doing.
    pub fn start(controller: Pl180) -> Result<Self, Failure> {
        let send = |index, argument, answer| {
            let answer = controller.command(index, argument, answer, Data::None);
            answer.map(|words| words[0])
        };
        controller.start();
        send(RESET, 0, Answer::None)?;
        controller.empty();
        // Cards of before version 2.00 do not know it.
        let is_new = match send(SEND_CONDITIONS, CONDITIONS, Answer::Short) {
            Ok(answer) if answer & 0xfff == CONDITIONS => true,
            Ok(_) => return Err(Failure::Unknown),
            Err(_) => false,
        };
        let wanted = VOLTAGES | if is_new { IN_BLOCKS } else { 0 };
        let mut conditions = Err(Failure::NoAnswer);
        let ready = timer::wait_until_us(READY_US, || {
            let application = send(APPLICATION, 0, Answer::Short);
            conditions = application.and_then(|_| send(GET_READY, wanted, Answer::Unchecked));
            conditions.is_ok_and(|conditions| conditions & IS_READY != 0) || conditions.is_err()
        });
        let conditions = conditions?;
        if !ready {
            return Err(Failure::NoAnswer);
        }
        let long = |index, argument| controller.command(index, argument, Answer::Long, Data::None);
        let identification = long(SEND_IDENTIFICATION, 0)?;
        let address = send(SEND_ADDRESS, 0, Answer::Short)? & 0xffff_0000;
        let (blocks, is_read_only) = specifics(long(SEND_SPECIFIC_DATA, address)?)?;
        send(SELECT, address, Answer::Short)?;
        controller.speed_up();
        let in_blocks = conditions & IN_BLOCKS != 0;
        if !in_blocks {
            send(SET_BLOCK_LENGTH, BLOCK as u32, Answer::Short)?;
        }
        Ok(Self {
            controller,
            address,
            in_blocks,
            facts: Facts {
                identification,
                blocks,
                is_read_only,
            },
        })
    }

    /// Reads blocks from number `first` on.
    pub fn read(&self, first: u64, words: &[AtomicU64]) -> Result<(), Failure> {
        let commands = [READ_BLOCK, READ_BLOCKS];
        self.transfer(commands, first, words.len(), Data::Read(words))
    }

    /// Writes blocks from number `first` on. When this has returned they are on the card.
    pub fn write(&self, first: u64, words: &[AtomicU64]) -> Result<(), Failure> {
        let commands = [WRITE_BLOCK, WRITE_BLOCKS];
        self.transfer(commands, first, words.len(), Data::Write(words))?;
        let mut state = Ok(false);
        timer::wait_until_us(WRITTEN_US, || {
            state = self.is_done();
            state != Ok(false)
        });
        if state? {
            Ok(())
        } else {
            Err(Failure::NoAnswer)
        }
    }

    /// Whether it has done all that it was told.
    fn is_done(&self) -> Result<bool, Failure> {
        let status = self.short(SEND_STATUS, self.address)?;
        let state = status >> STATE_SHIFT & 0xf;
        Ok(status & TAKES_DATA != 0 && state == TRANSFER)
    }

    fn transfer(
        &self,
        [one, several]: [u32; 2],
        first: u64,
        words: usize,
        data: Data<'_>,
    ) -> Result<(), Failure> {
        let unit = if self.in_blocks { 1 } else { BLOCK as u64 };
        let place = first.checked_mul(unit).map(u32::try_from);
        let Some(Ok(place)) = place else {
            return Err(Failure::Refused);
        };
        let several_blocks = words > BLOCK_WORDS;
        let index = if several_blocks { several } else { one };
        let answer = self
            .controller
            .command(index, place, Answer::Short, data)
            .map(|words| words[0]);
        if several_blocks {
            // Also after a failure: the card goes on until it is stopped.
            let stopped = self
                .controller
                .command(STOP, 0, Answer::Short, Data::None)
                .map(|words| words[0]);
            checked(answer?)?;
            let end = first + (words / BLOCK_WORDS) as u64;
            let harmless = if end == self.facts.blocks {
                BEHIND_LAST
            } else {
                0
            };
            checked(stopped? & !harmless)?;
            return Ok(());
        }
        checked(answer?).map(|_| ())
    }

    fn short(&self, index: u32, argument: u32) -> Result<u32, Failure> {
        let answer = self
            .controller
            .command(index, argument, Answer::Short, Data::None);
        checked(answer?[0])
    }
}

/// A card's status, if it has no error.
fn checked(status: u32) -> Result<u32, Failure> {
    if status & FAILURES != 0 {
        return Err(Failure::Refused);
    }
    Ok(status)
}

/// The blocks of a card, and whether it refuses to be written, by its specific data (5.3), whose bits are counted from the end.
pub(super) fn specifics(words: [u32; 4]) -> Result<(u64, bool), Failure> {
    let all = words
        .iter()
        .fold(0_u128, |all, word| all << 32 | u128::from(*word));
    let bits = |last: u32, first: u32| (all >> first & ((1 << (last - first + 1)) - 1)) as u64;
    let blocks = match bits(127, 126) {
        0 => {
            let (size, factor, length) = (bits(73, 62), bits(49, 47), bits(83, 80));
            // Lengths of 512, 1,024 and 2,048 bytes.
            if !(9..=11).contains(&length) {
                return Err(Failure::Unknown);
            }
            (size + 1) << (factor + 2 + length - 9)
        }
        // In units of 512 KiB.
        1 => (bits(69, 48) + 1) << 10,
        _ => return Err(Failure::Unknown),
    };
    Ok((blocks, bits(13, 12) != 0))
}
