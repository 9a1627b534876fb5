//! The requests of a disk (virtio 1.2, 5.2.6).
//!
//! A request is answered when what it wrote is safe: the disk has no cache that a client could know of, and so no flush (virtio 1.2,
//! 5.2.6.2). The writes of a batch are made safe together. Nothing that a client says is believed: what is
//! not as the standard wants it has an error, and each request's work has a bound, the bytes of its slot or [`MOST_ZEROES`].

use crate::image::Image;
use crate::memory::Memory;
use crate::pieces::{length, read_all, write_all};
use crate::ring::{Broken, DESCRIPTORS, Offer, PLACES, Piece, Request, Ring, SEGMENT, SEGMENTS};
use crate::words::Words;

/// The bytes of a sector.
pub const SECTOR: u64 = 512;
/// The most sectors that one request discards or fills with zeroes.
pub const MOST_ZEROES: u32 = 8192;

/// Features (virtio 1.2, 5.2.3): the size of a buffer, their number, a disk that is only read, the size of blocks, discard, zeroes.
mod feature {
    pub const SIZE_MAX: u64 = 1 << 1;
    pub const SEG_MAX: u64 = 1 << 2;
    pub const READ_ONLY: u64 = 1 << 5;
    pub const BLOCK_SIZE: u64 = 1 << 6;
    pub const DISCARD: u64 = 1 << 13;
    pub const ZEROES: u64 = 1 << 14;
}

/// Types of requests.
mod request {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const GET_ID: u32 = 8;
    pub const DISCARD: u32 = 11;
    pub const ZEROES: u32 = 13;
}

/// How a request ended, as the last byte of it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// It is done.
    Ok = 0,
    /// It is not done.
    Failed = 1,
    /// There is no such request.
    Unknown = 2,
}

/// A disk.
#[derive(Debug)]
pub struct Disk {
    image: Box<dyn Image>,
    sectors: u64,
    read_only: bool,
    id: String,
    words: Words,
}

/// A request whose answer is not told yet.
struct Answer {
    head: u16,
    /// Where its state goes, if there is a place.
    status: Option<u64>,
    state: Status,
    /// All bytes of it that may be written.
    written: u32,
    wrote: bool,
}

impl Disk {
    /// The disk with this image. `id` is what it is called for its client, 20 bytes of it; `words` are about it.
    pub fn new(image: Box<dyn Image>, read_only: bool, id: String, words: Words) -> Self {
        Self {
            sectors: image.len() / SECTOR,
            image,
            read_only,
            id,
            words,
        }
    }

    /// The number of its sectors.
    pub const fn sectors(&self) -> u64 {
        self.sectors
    }

    /// What is offered to the client (virtio 1.2, 5.2.4).
    pub fn offer(&self) -> Offer {
        use feature::{BLOCK_SIZE, DISCARD, READ_ONLY, SEG_MAX, SIZE_MAX, ZEROES};
        let kind = if self.read_only {
            READ_ONLY
        } else {
            DISCARD | ZEROES
        };
        let mut config = vec![0; 15];
        let words = [
            (0, self.sectors as u32),
            (1, (self.sectors >> 32) as u32),
            (2, SEGMENT),
            (3, SEGMENTS),
            (5, SECTOR as u32),
            // Discard: sectors, segments, alignment in sectors. Zeroes: sectors, segments, and that they may be discarded.
            (9, MOST_ZEROES),
            (10, 1),
            (11, 8),
            (12, MOST_ZEROES),
            (13, 1),
            (14, 1),
        ];
        for (index, word) in words {
            config[index] = word;
        }
        Offer {
            features: SIZE_MAX | SEG_MAX | BLOCK_SIZE | kind,
            config,
        }
    }

    /// Answers the requests that there are, as many as a queue has places at most. Returns how many they were.
    ///
    /// # Errors
    /// The queue is not as the hypervisor makes it.
    pub fn serve(&mut self, ring: &mut impl Ring) -> Result<usize, Broken> {
        let memory = ring.memory();
        let mut answers = Vec::new();
        while answers.len() < usize::from(PLACES) {
            let Some(request) = ring.next()? else {
                break;
            };
            answers.push(self.answer(&request, &memory));
        }
        if answers.iter().any(|answer| answer.wrote)
            && let Err(error) = self.image.sync()
        {
            self.words
                .say(&format!("what was written may be lost: {error}"));
            let written = answers.iter_mut().filter(|answer| answer.wrote);
            written.for_each(|answer| answer.state = Status::Failed);
        }
        for answer in &answers {
            if let Some(status) = answer.status {
                memory.write(status, &[answer.state as u8]).ok_or(Broken)?;
            }
            ring.answer(answer.head, answer.written)?;
        }
        Ok(answers.len())
    }

    /// Does what a request wants. One that is not as the standard wants it is over: it is the client's fault, of which no other
    /// client may notice anything.
    fn answer(&mut self, request: &Request, memory: &Memory) -> Answer {
        let over = |words: &mut Words, why: &str| {
            words.say(why);
            Answer {
                head: request.head,
                status: None,
                state: Status::Failed,
                written: 0,
                wrote: false,
            }
        };
        let count = request.read.len() + request.write.len();
        let Some(asked) = read_all(memory, &request.read).filter(|_| count <= DESCRIPTORS as usize)
        else {
            return over(&mut self.words, "a request is larger than what was offered");
        };
        // The state is the last byte that may be written.
        let Some((last, data)) = request.write.split_last().filter(|(last, _)| last.len > 0) else {
            return over(&mut self.words, "a request has no place for its state");
        };
        let mut pieces = data.to_vec();
        pieces.push(Piece {
            len: last.len - 1,
            ..*last
        });
        let status = last.at.checked_add(u64::from(last.len) - 1);
        let room = length(&pieces);
        let (Some(status), Some(room)) = (status, room) else {
            return over(&mut self.words, "a request is larger than what was offered");
        };
        let mut told = vec![0; room];
        let (state, wrote) = self.carry_out(&asked, &mut told);
        // A buffer for which a slot has no room is at 0, where this memory is not: the hypervisor must not look for anything there.
        let whole = write_all(memory, &pieces, &told).and_then(|()| memory.read(status, &mut [0]));
        if whole.is_none() {
            let over = over(&mut self.words, "a request is larger than what was offered");
            return Answer { wrote, ..over };
        }
        Answer {
            head: request.head,
            status: Some(status),
            state,
            written: room as u32 + 1,
            wrote,
        }
    }

    /// Does what a request wants: what may be read of it is `asked`, what may be written before its state goes to `told`.
    /// Returns its state, and whether the image may have changed.
    fn carry_out(&mut self, asked: &[u8], told: &mut [u8]) -> (Status, bool) {
        let Some((header, data)) = asked.split_first_chunk::<16>() else {
            self.words.say("a request has no header");
            return (Status::Failed, false);
        };
        let [a, b, c, d, _, _, _, _, sector @ ..] = *header;
        let (kind, sector) = (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(sector));
        let changes = matches!(kind, request::WRITE | request::DISCARD | request::ZEROES);
        if changes && self.read_only {
            self.words
                .say("its client writes to it, though it may only read");
            return (Status::Failed, false);
        }
        let done = match kind {
            request::READ => self.read(sector, told),
            request::WRITE => self.write(sector, data),
            request::DISCARD | request::ZEROES => self.zero(kind, data),
            // All that was answered is safe.
            request::FLUSH => Ok(()),
            request::GET_ID => self.tell_id(told),
            _ => return (Status::Unknown, false),
        };
        match done {
            Ok(()) => (Status::Ok, changes),
            Err(why) => {
                self.words.say(&why);
                (Status::Failed, changes)
            }
        }
    }

    /// The place of so many bytes from a sector on.
    fn place(&self, sector: u64, bytes: u64) -> Result<u64, String> {
        let sectors = bytes / SECTOR;
        let fits = sector
            .checked_add(sectors)
            .is_some_and(|end| end <= self.sectors);
        if fits && bytes.is_multiple_of(SECTOR) {
            Ok(sector * SECTOR)
        } else {
            Err(format!(
                "its client wants {bytes} bytes from sector {sector} on, of {}",
                self.sectors
            ))
        }
    }

    fn read(&mut self, sector: u64, told: &mut [u8]) -> Result<(), String> {
        let place = self.place(sector, told.len() as u64)?;
        let read = self.image.read(told, place);
        read.map_err(|error| format!("sector {sector} cannot be read: {error}"))
    }

    fn write(&mut self, sector: u64, data: &[u8]) -> Result<(), String> {
        let place = self.place(sector, data.len() as u64)?;
        let written = self.image.write(data, place);
        written.map_err(|error| format!("sector {sector} cannot be written: {error}"))
    }

    /// Discards or fills with zeroes what the one segment says: sector, number of sectors, flags (virtio 1.2, 5.2.6).
    fn zero(&mut self, kind: u32, data: &[u8]) -> Result<(), String> {
        let one: Result<[u8; 16], _> = data.try_into();
        let one = one.map_err(|_| "its client names other than one segment".to_owned())?;
        let [a, b, c, d, e, f, g, h, count @ .., i, j, k, l] = one;
        let sector = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let (count, flags) = (u32::from_le_bytes(count), u32::from_le_bytes([i, j, k, l]));
        let known = flags == 0 || flags == 1 && kind == request::ZEROES;
        if count > MOST_ZEROES || !known {
            return Err(format!(
                "its client names a segment of {count} sectors, flags {flags:#x}"
            ));
        }
        let bytes = u64::from(count) * SECTOR;
        let place = self.place(sector, bytes)?;
        let zeroed = self.image.zero(place, bytes);
        zeroed.map_err(|error| format!("sector {sector} cannot be emptied: {error}"))
    }

    fn tell_id(&self, told: &mut [u8]) -> Result<(), String> {
        let room = told.first_chunk_mut::<20>();
        let room = room.ok_or("its client has no place for the disk's name")?;
        for (to, byte) in room.iter_mut().zip(self.id.bytes()) {
            *to = byte;
        }
        Ok(())
    }
}
