//! The requests of a disk (virtio 1.2, 5.2.6).
//!
//! A request is answered when what it wrote is safe: the disk has no cache that a client could know of, and so no flush (virtio 1.2,
//! 5.2.6.2). The writes of a batch are made safe together. Nothing that a client says is believed: what is
//! not as the standard wants it has an error, and each request's work has a bound, the bytes of its slot or [`MOST_ZEROES`].

use crate::image::Image;
use crate::ring::{DESCRIPTORS, Offer, PLACES, SEGMENT, SEGMENTS};
use crate::words::Words;
use std::io::{Read, Write};
use virtio_queue::{DescriptorChain, Queue, QueueT, Reader, Writer};
use vm_memory::GuestMemoryMmap;

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
    space: Vec<u8>,
}

/// A request whose answer is not told yet.
struct Answer<'a> {
    head: u16,
    /// Where its state goes, if there is a place.
    status: Option<Writer<'a>>,
    state: Status,
    /// All bytes of it that may be written.
    written: u32,
    wrote: bool,
}

/// The queue is not as it must be.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

impl Disk {
    /// The disk with this image. `id` is what it is called for its client, 20 bytes of it; `words` are about it.
    pub fn new(image: Box<dyn Image>, read_only: bool, id: String, words: Words) -> Self {
        Self {
            sectors: image.len() / SECTOR,
            image,
            read_only,
            id,
            words,
            space: Vec::new(),
        }
    }

    /// The number of its sectors.
    pub const fn sectors(&self) -> u64 {
        self.sectors
    }

    /// What is offered to the client (virtio 1.2, 5.2.4).
    pub fn offer(&self) -> Offer {
        use feature::{BLOCK_SIZE, DISCARD, READ_ONLY, SEG_MAX, SIZE_MAX, ZEROES};
        let kind = match self.read_only {
            true => READ_ONLY,
            false => DISCARD | ZEROES,
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
    pub fn serve(&mut self, queue: &mut Queue, memory: &GuestMemoryMmap) -> Result<usize, Broken> {
        let mut answers = Vec::new();
        while answers.len() < usize::from(PLACES) {
            let Some(chain) = queue.pop_descriptor_chain(memory) else {
                break;
            };
            answers.push(self.answer(chain, memory));
        }
        if answers.iter().any(|answer| answer.wrote)
            && let Err(error) = self.image.sync()
        {
            self.words
                .say(&format!("what was written may be lost: {error}"));
            let written = answers.iter_mut().filter(|answer| answer.wrote);
            written.for_each(|answer| answer.state = Status::Failed);
        }
        let count = answers.len();
        for mut answer in answers {
            if let Some(status) = &mut answer.status {
                let told = status.write_all(&[answer.state as u8]);
                told.map_err(|_| Broken)?;
            }
            let used = queue.add_used(memory, answer.head, answer.written);
            used.map_err(|_| Broken)?;
        }
        Ok(count)
    }

    /// Does what a request wants. One that is not as the standard wants it is over: it is the client's fault, of which no other
    /// client may notice anything.
    fn answer<'a>(
        &mut self,
        chain: DescriptorChain<&'a GuestMemoryMmap>,
        memory: &'a GuestMemoryMmap,
    ) -> Answer<'a> {
        let head = chain.head_index();
        let over = Answer {
            head,
            status: None,
            state: Status::Failed,
            written: 0,
            wrote: false,
        };
        // A chain ends after as many descriptors as its table has; that of a slot has no more. A buffer for which a slot has no room
        // is at 0, where this memory is not.
        let count = chain.clone().take(DESCRIPTORS as usize + 1).count();
        let reader = Reader::new(memory, chain.clone());
        let writer = Writer::new(memory, chain);
        let (Ok(reader), Ok(mut writer), true) = (reader, writer, count <= DESCRIPTORS as usize)
        else {
            self.words.say("a request is larger than what was offered");
            return over;
        };
        let written = writer.available_bytes();
        let status = written.checked_sub(1).map(|data| writer.split_at(data));
        let (Some(Ok(status)), Ok(written)) = (status, u32::try_from(written)) else {
            self.words.say("a request has no place for its state");
            return over;
        };
        let (state, wrote) = self.carry_out(reader, writer);
        Answer {
            head,
            status: Some(status),
            state,
            written,
            wrote,
        }
    }

    /// Does what a request wants. Returns its state, and whether the image may have changed.
    fn carry_out(&mut self, mut reader: Reader<'_>, mut writer: Writer<'_>) -> (Status, bool) {
        let mut header = [0; 16];
        if reader.read_exact(&mut header).is_err() {
            self.words.say("a request has no header");
            return (Status::Failed, false);
        }
        let [kind @ .., _, _, _, _, _, _, _, _, _, _, _, _] = header;
        let [.., a, b, c, d, e, f, g, h] = header;
        let (kind, sector) = (
            u32::from_le_bytes(kind),
            u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        );
        let changes = matches!(kind, request::WRITE | request::DISCARD | request::ZEROES);
        if changes && self.read_only {
            self.words
                .say("its client writes to it, though it may only read");
            return (Status::Failed, false);
        }
        let done = match kind {
            request::READ => self.read(sector, &mut writer),
            request::WRITE => self.write(sector, &mut reader),
            request::DISCARD | request::ZEROES => self.zero(kind, &mut reader),
            // All that was answered is safe.
            request::FLUSH => Ok(()),
            request::GET_ID => self.tell_id(&mut writer),
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

    fn read(&mut self, sector: u64, writer: &mut Writer<'_>) -> Result<(), String> {
        let bytes = writer.available_bytes();
        let place = self.place(sector, bytes as u64)?;
        self.space.resize(bytes, 0);
        let read = self.image.read(&mut self.space, place);
        read.map_err(|error| format!("sector {sector} cannot be read: {error}"))?;
        writer
            .write_all(&self.space)
            .map_err(|error| error.to_string())
    }

    fn write(&mut self, sector: u64, reader: &mut Reader<'_>) -> Result<(), String> {
        let bytes = reader.available_bytes();
        let place = self.place(sector, bytes as u64)?;
        self.space.resize(bytes, 0);
        reader
            .read_exact(&mut self.space)
            .map_err(|error| error.to_string())?;
        let written = self.image.write(&self.space, place);
        written.map_err(|error| format!("sector {sector} cannot be written: {error}"))
    }

    /// Discards or fills with zeroes what the one segment says: sector, number of sectors, flags (virtio 1.2, 5.2.6).
    fn zero(&mut self, kind: u32, reader: &mut Reader<'_>) -> Result<(), String> {
        let mut segment = [0; 16];
        let read = reader.read_exact(&mut segment);
        if read.is_err() || reader.available_bytes() != 0 {
            return Err("its client names other than one segment".to_owned());
        }
        let [a, b, c, d, e, f, g, h, count @ .., i, j, k, l] = segment;
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

    fn tell_id(&self, writer: &mut Writer<'_>) -> Result<(), String> {
        let mut id = [0; 20];
        for (to, byte) in id.iter_mut().zip(self.id.bytes()) {
            *to = byte;
        }
        let told = writer.write_all(&id);
        told.map_err(|_| "its client has no place for the disk's name".to_owned())
    }
}
