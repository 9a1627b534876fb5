//! Targets for stage-2 tables under any sequence of changes.

use crate::bytes::Bytes;
use crate::runs::{Run, Runs};
use hanok_hal::TableMemory;
use hanok_hal::fake::FakeTlb;
use hanok_paging::{Geometry, MapError, Stage2, Stage2Attributes, Table};
use hanok_types::{Hpa, Ipa, PAGE_SIZE, Span};

/// The address of the first frame.
const FRAMES: u64 = 0x8000_0000;

/// Frames in a plain list, as every step reads all of the table; the list checks that no descriptor
/// goes from one valid value to another.
struct Watched {
    frames: Vec<Option<Box<[u64; 512]>>>,
    left: usize,
}

impl Watched {
    fn new(left: usize) -> Self {
        let frames = Vec::new();
        Self { frames, left }
    }

    fn in_use(&self) -> usize {
        self.frames.iter().flatten().count()
    }
}

fn frame(table: Hpa, index: usize) -> usize {
    ((table.get() - FRAMES) / PAGE_SIZE) as usize + index / 512
}

impl TableMemory for Watched {
    fn allocate(&mut self, frames: usize) -> Option<Hpa> {
        self.left = self.left.checked_sub(frames)?;
        let at = self.frames.len().next_multiple_of(frames);
        self.frames.resize(at, None);
        self.frames.resize(at + frames, Some(Box::new([0; 512])));
        Some(Hpa::new(FRAMES + at as u64 * PAGE_SIZE))
    }

    fn free(&mut self, table: Hpa, frames: usize) {
        self.left += frames;
        for index in 0..frames {
            let freed = self.frames[frame(table, 0) + index].take();
            assert!(freed.is_some(), "freed twice");
        }
    }

    fn read(&self, table: Hpa, index: usize) -> u64 {
        let frame = self.frames[frame(table, index)].as_ref();
        frame.expect("a table in use")[index % 512]
    }

    fn write(&mut self, table: Hpa, index: usize, descriptor: u64) {
        let frame = self.frames[frame(table, index)].as_mut();
        let place = &mut frame.expect("a table in use")[index % 512];
        assert!(*place & descriptor & 1 == 0, "no break before the make");
        *place = descriptor;
    }
}

/// Addresses around the border of two 1 GiB blocks, mostly, so that every size of block
/// occurs.
fn address(input: &mut Bytes<'_>) -> u64 {
    match input.byte() % 8 {
        0..=3 => (1 << 30) - (2 << 21) + u64::from(input.half() % (4 << 9)) * PAGE_SIZE,
        4 => u64::from(input.byte() % 8) << 30,
        5 => u64::from(input.byte() % 8) << 21,
        6 => (1 << 40) - u64::from(input.half()) * PAGE_SIZE,
        _ => input.number(),
    }
}

fn len(input: &mut Bytes<'_>) -> u64 {
    match input.byte() % 8 {
        0..=2 => u64::from(input.byte() % 16) * PAGE_SIZE,
        3 | 4 => u64::from(input.byte() % 4) << 21,
        5 => u64::from(input.byte() % 4) << 30,
        6 => u64::from(input.half() % (4 << 9)) * PAGE_SIZE,
        _ => input.number(),
    }
}

fn attributes(input: &mut Bytes<'_>) -> Stage2Attributes {
    let all = [
        Stage2Attributes::RAM,
        Stage2Attributes::ROM,
        Stage2Attributes::DEVICE,
    ];
    all[usize::from(input.byte() % 3)]
}

fn model(table: &Table<Stage2, Watched>) -> Runs<Stage2Attributes> {
    let run = |mapping: hanok_paging::Mapping<Stage2>| Run {
        input: mapping.input,
        output: mapping.output,
        attributes: mapping.attributes,
    };
    Runs::new(table.iterate().map(run).collect())
}

/// The tables map what was asked for, a failed change changes nothing, and no frame is lost.
pub fn paging(data: &[u8]) {
    let mut input = Bytes(data);
    let geometries = [Geometry::BITS_39, Geometry::BITS_40, Geometry::BITS_48];
    let geometry = geometries[usize::from(input.byte() % 3)];
    let frames = geometry.root().frames() + usize::from(input.byte() % 24);
    let Some(mut table) = Table::new(geometry, Watched::new(frames)) else {
        return;
    };
    let mut expected = Runs::new(Vec::new());
    for _ in 0..32 {
        if input.is_empty() {
            break;
        }
        step(&mut table, &mut expected, &mut input);
        assert_eq!(model(&table), expected);
    }
    let everything = Span::new(Ipa::new(0), geometry.input_size()).expect("no wrap");
    assert_eq!(table.unmap(&mut FakeTlb::default(), everything), Ok(()));
    assert_eq!(table.memory().in_use(), geometry.root().frames());
    assert_eq!(table.destroy().in_use(), 0);
}

fn step(
    table: &mut Table<Stage2, Watched>,
    expected: &mut Runs<Stage2Attributes>,
    input: &mut Bytes<'_>,
) {
    let (operation, mut tlb) = (input.byte() % 4, FakeTlb::default());
    let (start, len) = (address(input), len(input));
    let Some(span) = Span::new(Ipa::new(start), len) else {
        return;
    };
    let attributes = attributes(input);
    match operation {
        0 | 1 => {
            let output = if input.flag() {
                Hpa::new(start)
            } else {
                Hpa::new(address(input))
            };
            match table.map(&mut tlb, span, output, attributes) {
                Ok(()) => {
                    assert_eq!(expected.first_in(&span), None);
                    expected.add(Run {
                        input: span,
                        output,
                        attributes,
                    });
                }
                Err(MapError::AlreadyMapped(at)) => assert_eq!(expected.first_in(&span), Some(at)),
                Err(error) => refused(error, [start, len, output.get()], table.geometry()),
            }
        }
        2 => match table.unmap(&mut tlb, span) {
            Ok(()) => drop(expected.cut(&span)),
            Err(error) => refused(error, [start, len, 0], table.geometry()),
        },
        _ => match table.protect(&mut tlb, span, attributes) {
            Ok(()) => {
                assert_eq!(expected.hole_in(&span), None);
                for run in expected.cut(&span) {
                    expected.add(Run { attributes, ..run });
                }
            }
            Err(MapError::NotMapped(at)) => assert_eq!(expected.hole_in(&span), Some(at)),
            Err(error) => refused(error, [start, len, 0], table.geometry()),
        },
    }
}

/// A change is refused for another reason than existing mappings only if that reason holds.
fn refused(error: MapError<Ipa>, [start, len, output]: [u64; 3], geometry: &Geometry) {
    match error {
        MapError::Misaligned => assert!((start | len | output) % PAGE_SIZE != 0),
        MapError::OutOfRange => {
            let beyond = |end: Option<u64>, size| end.is_none_or(|end| end > size);
            let input = beyond(start.checked_add(len), geometry.input_size());
            assert!(input || beyond(output.checked_add(len), 1 << 48));
        }
        MapError::OutOfTables => {}
        other => panic!("{other}"),
    }
}
