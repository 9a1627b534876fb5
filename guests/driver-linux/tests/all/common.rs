//! The hypervisor's side of a ring (virtio 1.2, 2.7), written down anew from the standard; and chance.

use hanok_driver_linux::block::Disk;
use hanok_driver_linux::image::{self, Format};
use hanok_driver_linux::memory::Memory;
use hanok_driver_linux::ring::own::Own;
use hanok_driver_linux::ring::vmm::Vmm;
use hanok_driver_linux::ring::{Broken, DISK, Layout, Ring};
use hanok_driver_linux::words::Words;
use std::path::Path;

/// Where the page is.
pub const BASE: u64 = 0x4020_0000;
pub const PAGE: u64 = 2 << 20;

/// Numbers by chance (xorshift64*), from a seed.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// A client's request: what may be read, and how many bytes may be written, each in buffers.
pub struct Asked {
    pub read: Vec<Vec<u8>>,
    pub write: Vec<usize>,
}

/// The answer: the length that was told, and what is in the buffers that may be written.
#[derive(Debug)]
pub struct Told {
    pub len: u32,
    pub bytes: Vec<u8>,
}

/// The hypervisor's side of a ring.
pub struct Side {
    memory: Memory,
    layout: Layout,
    asked: u16,
    seen: u16,
}

impl Side {
    pub const fn new(memory: Memory, layout: Layout) -> Self {
        Self {
            memory,
            layout,
            asked: 0,
            seen: 0,
        }
    }

    const fn base(&self) -> u64 {
        BASE + self.layout.start
    }

    pub fn store(&self, at: u64, bytes: &[u8]) {
        self.memory.write(at, bytes).unwrap();
    }

    pub fn load(&self, at: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.memory.read(at, &mut bytes).unwrap();
        bytes
    }

    fn describe(&self, at: u64, (address, len, flags, next): (u64, u32, u16, u16)) {
        self.store(at, &address.to_le_bytes());
        self.store(at + 8, &len.to_le_bytes());
        self.store(at + 12, &flags.to_le_bytes());
        self.store(at + 14, &next.to_le_bytes());
    }

    /// Puts a request in slot `head`, as the hypervisor copies it: what may be read, and how many bytes may be written, each in buffers.
    /// Returns the place of what may be written.
    pub fn give(&mut self, head: u16, read: &[Vec<u8>], write: &[usize]) -> u64 {
        let size = u64::from(self.layout.slot_size);
        let slot = self.base() + 0x1_0000 + u64::from(head) * size;
        let count = read.len() + write.len();
        let mut at = slot + 16 * count as u64;
        let first = read.iter().map(|bytes| (bytes.len(), 0));
        let then = write.iter().map(|count| (*count, 2));
        let mut written = None;
        for (index, (len, flag)) in (0..).zip(first.chain(then)) {
            if let Some(bytes) = read.get(usize::from(index)) {
                self.store(at, bytes);
            } else {
                written.get_or_insert(at);
                self.store(at, &vec![0xee; len]);
            }
            let next = u16::from(usize::from(index) + 1 < count);
            self.describe(
                slot + 16 * u64::from(index),
                (at, len as u32, flag | next, index + 1),
            );
            at += len as u64;
        }
        assert!(at <= slot + size, "it fits");
        let table = self.base() + 16 * u64::from(head);
        self.describe(table, (slot, 16 * count as u32, 4, 0));
        self.publish(head);
        written.unwrap_or(at)
    }

    /// Publishes a head.
    pub fn publish(&mut self, head: u16) {
        let place = u64::from(self.asked % self.layout.places);
        let available = self.base() + 0x1000;
        self.store(available + 4 + 2 * place, &head.to_le_bytes());
        self.asked = self.asked.wrapping_add(1);
        self.store(available + 2, &self.asked.to_le_bytes());
    }

    /// The next answer: its head and its length.
    pub fn answer(&mut self) -> Option<(u16, u32)> {
        let used = self.base() + 0x2000;
        let index = self.load(used + 2, 2);
        if u16::from_le_bytes([index[0], index[1]]) == self.seen {
            return None;
        }
        let place = u64::from(self.seen % self.layout.places);
        let element = self.load(used + 4 + 8 * place, 8);
        self.seen = self.seen.wrapping_add(1);
        let [a, b, _, _, len @ ..] = *element.first_chunk::<8>().unwrap();
        Some((u16::from_le_bytes([a, b]), u32::from_le_bytes(len)))
    }
}

/// A ring, and the disk behind it.
pub struct Bench {
    side: Side,
    pub ring: Box<dyn Both>,
}

pub fn open(path: &Path, format: Format, read_only: bool) -> std::io::Result<Disk> {
    let image = image::open(path, format, read_only)?;
    let words = Words::new("test".to_owned());
    Ok(Disk::new(
        image,
        read_only,
        "hanok-b100000".to_owned(),
        words,
    ))
}

/// One of both rings.
pub trait Both: Ring {
    fn serve(&mut self, disk: &mut Disk) -> Result<usize, Broken>;
}

impl<R: Ring> Both for R {
    fn serve(&mut self, disk: &mut Disk) -> Result<usize, Broken> {
        disk.serve(self)
    }
}

impl Bench {
    pub fn new() -> Self {
        Self::with(Memory::made_up(BASE), |memory| {
            Box::new(Vmm::new(memory, DISK).unwrap())
        })
    }

    pub fn of_32_bits() -> Self {
        Self::with(Memory::made_up(BASE), |memory| {
            Box::new(Own::new(memory, DISK).unwrap())
        })
    }

    /// One of both, by a seed.
    pub fn by(seed: u64) -> Self {
        match seed % 2 {
            0 => Self::new(),
            _ => Self::of_32_bits(),
        }
    }

    fn with(memory: Memory, ring: impl FnOnce(Memory) -> Box<dyn Both>) -> Self {
        Self {
            side: Side::new(memory, DISK),
            ring: ring(memory),
        }
    }

    pub fn store(&self, at: u64, bytes: &[u8]) {
        self.side.store(at, bytes);
    }

    /// Puts a request in slot `head`. Returns the place of what may be written.
    pub fn give(&mut self, head: u16, asked: &Asked) -> u64 {
        self.side.give(head, &asked.read, &asked.write)
    }

    /// Publishes a head.
    pub fn publish(&mut self, head: u16) {
        self.side.publish(head);
    }

    pub fn serve(&mut self, disk: &mut Disk) -> Result<usize, Broken> {
        self.ring.serve(disk)
    }

    /// The next answer: its head and its length.
    pub fn answer(&mut self) -> Option<(u16, u32)> {
        self.side.answer()
    }

    /// Gives one request, has it served, and takes the answer.
    pub fn ask(&mut self, disk: &mut Disk, asked: &Asked) -> Told {
        let at = self.give(3, asked);
        assert_eq!(self.serve(disk), Ok(1));
        let (head, len) = self.answer().expect("it is answered");
        assert_eq!(head, 3);
        let bytes = self.side.load(at, asked.write.iter().sum());
        Told { len, bytes }
    }
}

/// The header of a request.
pub fn header(kind: u32, sector: u64) -> Vec<u8> {
    let (kind, rest) = (kind.to_le_bytes(), 0_u32.to_le_bytes());
    [&kind[..], &rest, &sector.to_le_bytes()].concat()
}

/// The segment of a request that discards or zeroes.
pub fn segment(sector: u64, count: u32, flags: u32) -> Vec<u8> {
    [
        &sector.to_le_bytes()[..],
        &count.to_le_bytes(),
        &flags.to_le_bytes(),
    ]
    .concat()
}
