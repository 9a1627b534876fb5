//! What is known of a display's resources, in memory that this VM finds again after a reset.
//!
//! It begins with a mark, which is that of the client's resets, and with what is shown. A page for each resource with its number
//! and size follows, and behind these the pieces of its backing. A resource's number is written last, and cleared first.

use crate::machine::mmio;
use hanok_abi::back_end::DISPLAY_STATE;

/// The most resources, and the most pieces of a backing: one of 1,024 by 1,024 pixels in single pages has so many.
const RESOURCES: u64 = 8;
const PIECES: u32 = 1024;
/// The bytes of a piece, and of all that a resource has.
const PIECE: u64 = 16;
const BACKING: u64 = PIECE * PIECES as u64;
/// Where the first resource is, and the distance to the next one.
const FIRST: u64 = 0x100;
const STEP: u64 = 0x10;
/// Where the first backing is.
const BACKINGS: u64 = 0x1000;
/// The words of a resource: its number, its width and height, and the number of pieces.
const NUMBER: u64 = 0;
const WIDTH: u64 = 4;
const HEIGHT: u64 = 8;
const COUNT: u64 = 12;
/// What the mark is combined with.
const MARK: u32 = u32::from_le_bytes(*b"hkvg");

const _: () = assert!(BACKINGS + RESOURCES * BACKING == DISPLAY_STATE);

/// A rectangle: its corner, its width and its height, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
}

impl Area {
    /// The one with this corner, width and height.
    pub fn of([x, y, width, height]: [u32; 4]) -> Self {
        Self {
            x,
            y,
            width,
            height,
        }
    }

    /// Whether it is within something of this size, and not empty.
    pub fn is_within(&self, width: u32, height: u32) -> bool {
        let end = |from: u32, len: u32| u64::from(from) + u64::from(len);
        self.width > 0
            && self.height > 0
            && end(self.x, self.width) <= width.into()
            && end(self.y, self.height) <= height.into()
    }

    /// What both have. Both are within something.
    pub fn common(&self, other: &Self) -> Self {
        let part = |from: u32, len: u32, from_other: u32, len_other: u32| {
            let start = from.max(from_other);
            let end = (from + len).min(from_other + len_other);
            (start, end.saturating_sub(start))
        };
        let (x, width) = part(self.x, self.width, other.x, other.width);
        let (y, height) = part(self.y, self.height, other.y, other.height);
        Self::of([x, y, width, height])
    }
}

/// All resources of a display.
pub struct Resources {
    at: u64,
}

/// What is shown: a part of a resource, whose number is 0 if nothing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    pub id: u32,
    pub area: Area,
}

/// A resource.
#[derive(Clone, Copy)]
pub struct Resource {
    at: u64,
    backing: u64,
}

impl Resources {
    /// Those that are in the memory at `at`, if the client was reset as often as when they were put there.
    pub fn of(at: u64, resets: u32) -> Self {
        let own = Self { at };
        if mmio::read32(at) != MARK ^ resets {
            own.clear(resets);
        }
        own
    }

    /// Forgets all.
    pub fn clear(&self, resets: u32) {
        mmio::write32(self.at, 0);
        self.show(Shown::default());
        self.all().for_each(|resource| resource.forget(true));
        mmio::write32(self.at, MARK ^ resets);
    }

    /// What is shown.
    pub fn shown(&self) -> Shown {
        let word = |index: u64| mmio::read32(self.at + 4 * index);
        Shown {
            id: word(1),
            area: Area {
                x: word(2),
                y: word(3),
                width: word(4),
                height: word(5),
            },
        }
    }

    /// Remembers what is shown.
    pub fn show(&self, shown: Shown) {
        let Area {
            x,
            y,
            width,
            height,
        } = shown.area;
        mmio::write32(self.at + 4, 0);
        for (index, word) in (2..).zip([x, y, width, height]) {
            mmio::write32(self.at + 4 * index, word);
        }
        mmio::write32(self.at + 4, shown.id);
    }

    fn all(&self) -> impl Iterator<Item = Resource> {
        let at = self.at;
        (0..RESOURCES).map(move |index| Resource {
            at: at + FIRST + STEP * index,
            backing: at + BACKINGS + BACKING * index,
        })
    }

    /// The one with this number, which is not 0.
    pub fn find(&self, id: u32) -> Option<Resource> {
        let mut all = self.all();
        all.find(|resource| id != 0 && resource.word(NUMBER) == id)
    }

    /// Makes one of this size, without a backing, in place of one with the same number; `None` if there are too many.
    pub fn add(&self, id: u32, [width, height]: [u32; 2]) -> Option<()> {
        let mut all = self.all();
        let free = || all.find(|resource| resource.word(NUMBER) == 0);
        let resource = self.find(id).or_else(free)?;
        resource.forget(true);
        resource.set(WIDTH, width);
        resource.set(HEIGHT, height);
        resource.set(NUMBER, id);
        Some(())
    }
}

impl Resource {
    fn word(&self, offset: u64) -> u32 {
        mmio::read32(self.at + offset)
    }

    fn set(&self, offset: u64, value: u32) {
        mmio::write32(self.at + offset, value);
    }

    /// Its width and height.
    pub fn size(&self) -> [u32; 2] {
        [self.word(WIDTH), self.word(HEIGHT)]
    }

    /// Whether it has a backing.
    pub fn has_backing(&self) -> bool {
        self.word(COUNT) != 0
    }

    /// Forgets its backing, and, if `whole`, the resource.
    pub fn forget(&self, whole: bool) {
        if whole {
            self.set(NUMBER, 0);
        }
        self.set(COUNT, 0);
    }

    /// Gives it a backing of these pieces; `None` if there are too many.
    pub fn attach(&self, pieces: impl ExactSizeIterator<Item = (u64, u32)>) -> Option<()> {
        let count = u32::try_from(pieces.len()).ok();
        let count = count.filter(|count| *count <= PIECES)?;
        self.set(COUNT, 0);
        let places = (0..).map(|index| self.backing + PIECE * index);
        for ((at, bytes), place) in pieces.zip(places) {
            mmio::write32(place, at as u32);
            mmio::write32(place + 4, (at >> 32) as u32);
            mmio::write32(place + 8, bytes);
        }
        self.set(COUNT, count);
        Some(())
    }

    /// Piece number `index` of its backing: its address in the client's memory, and its bytes.
    pub fn piece(&self, index: u32) -> Option<(u64, u32)> {
        (index < self.word(COUNT)).then_some(())?;
        let place = self.backing + PIECE * u64::from(index);
        let word = |offset| mmio::read32(place + offset);
        Some((u64::from(word(0)) | u64::from(word(4)) << 32, word(8)))
    }
}
