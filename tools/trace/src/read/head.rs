//! What a file has before its rings.

use super::ReadError;
use super::cursor::{Cursor, text};
use super::description::{Description, Field};
use crate::model::{Guest, Place};
use crate::trace_dat::option;
use std::collections::BTreeMap;

/// All kinds of events of a file, by their numbers.
pub type Formats = BTreeMap<u16, Description>;

/// The sizes of pages that CPUs have; a trace's page may be some of them.
const PAGES: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 24;
/// What follows the options.
const STEPS: &str = "list of rings";

/// Where a page has its parts: offsets and sizes in bytes.
#[derive(Debug)]
pub struct Layout {
    /// The bytes of a page.
    pub page: usize,
    /// The bytes of the machine's `long`.
    pub word: usize,
    pub stamp: (usize, usize),
    pub commit: (usize, usize),
    pub data: usize,
}

/// Where a ring is said to be.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub start: usize,
    pub end: usize,
}

/// What a file says before its rings.
#[derive(Debug)]
pub struct Head {
    pub layout: Layout,
    pub formats: Formats,
    pub tasks: BTreeMap<i32, String>,
    pub id: u64,
    pub place: Place,
    pub notes: Vec<String>,
    pub rings: Vec<Claim>,
}

impl Head {
    pub fn read(file: &[u8]) -> Result<Self, ReadError> {
        let mut cursor = Cursor::new(file);
        let layout = layout(&mut cursor)?;
        let formats = formats(&mut cursor)?;
        let length = cursor.u32("length of addresses of functions")?;
        cursor.take(length.into(), "addresses of functions")?;
        let length = cursor.u32("length of strings of printk")?;
        cursor.take(length.into(), "strings of printk")?;
        let length = cursor.u64("length of the tasks' names")?;
        let names = cursor.take(length, "names of tasks")?;
        let cpus = cursor.u32("number of CPUs")?;
        let mut head = Self {
            layout,
            formats,
            tasks: tasks(&String::from_utf8_lossy(names)),
            id: 0,
            place: Place::Host { guests: Vec::new() },
            notes: Vec::new(),
            rings: Vec::new(),
        };
        head.sections(&mut cursor)?;
        head.rings = rings(&mut cursor, cpus, file.len())?;
        Ok(head)
    }

    /// The options, if there are some, up to where the rings are listed.
    fn sections(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
        loop {
            let at = cursor.at;
            match cursor.take(10, STEPS)? {
                b"options  \0" => self.options(cursor)?,
                b"flyrecord\0" => return Ok(()),
                b"latency  \0" => return Err(ReadError::Latency(at)),
                _ => return Err(damaged(at, "neither options nor rings follow")),
            }
        }
    }

    fn options(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
        loop {
            let number = cursor.u16("next option")?;
            if number == 0 {
                return Ok(());
            }
            let length = cursor.u32("length of an option")?;
            let at = cursor.at;
            let data = cursor.take(length.into(), "option")?;
            let read = self.option(number, data);
            read.map_err(|_| damaged(at, "an option is shorter than what it has"))?;
        }
    }

    fn option(&mut self, number: u16, data: &[u8]) -> Result<(), ReadError> {
        let mut cursor = Cursor::new(data);
        match number {
            option::CLOCK => self.clock(&text(data)),
            option::TRACE => self.id = cursor.u64("")?,
            option::TIME_SHIFT => self.shift(&mut cursor)?,
            option::GUEST => {
                let guest = guest(&mut cursor)?;
                if let Place::Host { guests } = &mut self.place {
                    guests.push(guest);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The clock in brackets, among all that there were.
    fn clock(&mut self, clocks: &str) {
        let chosen = clocks
            .split('[')
            .nth(1)
            .and_then(|rest| rest.split(']').next());
        let chosen = chosen.unwrap_or(clocks).trim();
        const NO_NANOSECONDS: [&str; 4] = ["counter", "uptime", "x86-tsc", "ppc-tb"];
        if NO_NANOSECONDS.contains(&chosen) {
            let note = "does not count nanoseconds: times are not what they seem";
            self.notes.push(format!("the clock {chosen} {note}"));
        }
    }

    /// What is added to the times of a guest. It is measured several times for each CPU; the first one is taken.
    fn shift(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
        let host = cursor.u64("")?;
        let _flags = cursor.u32("")?;
        let mut shift = 0;
        if cursor.u32("")? > 0 {
            let count = u64::from(cursor.u32("")?);
            cursor.take(8 * count, "")?;
            if count > 0 {
                shift = cursor.u64("")? as i64;
            }
        }
        self.place = Place::Guest { host, shift };
        Ok(())
    }
}

fn damaged(at: usize, what: &'static str) -> ReadError {
    ReadError::Damaged { at, what }
}

fn layout(cursor: &mut Cursor<'_>) -> Result<Layout, ReadError> {
    if cursor.take(10, "beginning")? != b"\x17\x08\x44tracing" {
        return Err(ReadError::NoTrace);
    }
    match cursor.string("version")?.as_str() {
        "6" => {}
        "7" => return Err(ReadError::Newer),
        other => return Err(ReadError::Version(other.chars().take(16).collect())),
    }
    if cursor.u8("order of bytes")? != 0 {
        return Err(ReadError::BigEndian);
    }
    let at = cursor.at;
    let word = usize::from(cursor.u8("size of a long")?);
    if word != 4 && word != 8 {
        return Err(damaged(at, "a long has neither four bytes nor eight"));
    }
    let at = cursor.at;
    let page = cursor.u32("size of a page")? as usize;
    if !PAGES.contains(&page) {
        return Err(damaged(at, "no page has such a size"));
    }
    let at = cursor.at;
    let header = described(cursor, b"header_page\0")?;
    described(cursor, b"header_event\0")?;
    let mut layout = Layout {
        page,
        word,
        stamp: (0, 8),
        commit: (8, word),
        data: 8 + word,
    };
    layout.describe(&header);
    let ends = [layout.stamp, layout.commit, (layout.data, 0)];
    let fits = |(offset, size): &(usize, usize)| *size <= 8 && *offset <= page - 8;
    if !ends.iter().all(fits) {
        return Err(damaged(at, "the head of a page does not fit in a page"));
    }
    Ok(layout)
}

impl Layout {
    fn describe(&mut self, header: &str) {
        for line in header.lines() {
            let Some(field) = Field::parsed(line) else {
                continue;
            };
            match field.place() {
                ("timestamp", offset, size) => self.stamp = (offset, size),
                ("commit", offset, size) => self.commit = (offset, size),
                ("data", offset, _) => self.data = offset,
                _ => {}
            }
        }
    }
}

/// A text with its name and length before it.
fn described(cursor: &mut Cursor<'_>, name: &'static [u8]) -> Result<String, ReadError> {
    let at = cursor.at;
    if cursor.take(name.len() as u64, "layout of pages and events")? != name {
        return Err(damaged(at, "layout of pages or events is missing"));
    }
    let length = cursor.u64("length of a layout")?;
    let bytes = cursor.take(length, "layout")?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn formats(cursor: &mut Cursor<'_>) -> Result<Formats, ReadError> {
    let mut formats = Formats::new();
    let of_tracer = cursor.u32("number of the tracer's formats")?;
    several(cursor, of_tracer, "ftrace", &mut formats)?;
    let systems = cursor.u32("number of systems")?;
    for _ in 0..systems {
        let system = cursor.string("name of a system")?;
        let count = cursor.u32("number of formats")?;
        several(cursor, count, &system, &mut formats)?;
    }
    Ok(formats)
}

fn several(
    cursor: &mut Cursor<'_>,
    count: u32,
    system: &str,
    formats: &mut Formats,
) -> Result<(), ReadError> {
    for _ in 0..count {
        let length = cursor.u64("length of a format")?;
        let at = cursor.at;
        let bytes = cursor.take(length, "format")?;
        let described = String::from_utf8_lossy(bytes);
        let format = Description::parsed(system, &described);
        let format = format.ok_or_else(|| damaged(at, "this is no format of an event"))?;
        formats.insert(format.id, format);
    }
    Ok(())
}

/// The tasks of lines such as `1000 linux.0`.
fn tasks(names: &str) -> BTreeMap<i32, String> {
    let task = |line: &str| {
        let (number, name) = line.trim_end_matches('\0').split_once(' ')?;
        Some((number.parse().ok()?, name.to_owned()))
    };
    names.lines().filter_map(task).collect()
}

fn guest(cursor: &mut Cursor<'_>) -> Result<Guest, ReadError> {
    let name = cursor.string("")?;
    let id = cursor.u64("")?;
    let mut vcpus = Vec::new();
    for _ in 0..cursor.u32("")? {
        let _number = cursor.u32("")?;
        vcpus.push(cursor.u32("")? as i32);
    }
    Ok(Guest { name, id, vcpus })
}

/// Where the rings are said to be. They may end behind the file, but no two share a place: what is read is not longer than the file.
fn rings(cursor: &mut Cursor<'_>, cpus: u32, end: usize) -> Result<Vec<Claim>, ReadError> {
    let mut rings = Vec::new();
    let start = cursor.at;
    for _ in 0..cpus {
        let at = cursor.at;
        let (offset, size) = (cursor.u64(STEPS)?, cursor.u64(STEPS)?);
        let claim = offset.checked_add(size).and_then(|end| {
            let (start, end) = (offset.try_into().ok()?, end.try_into().ok()?);
            Some(Claim { start, end })
        });
        rings.push(claim.ok_or_else(|| damaged(at, "a ring is beyond all memory"))?);
    }
    let mut places: Vec<_> = rings
        .iter()
        .map(|ring| (ring.start, ring.end.min(end)))
        .collect();
    places.retain(|(start, end)| start < end);
    places.sort_unstable();
    let are_apart = places.is_sorted_by(|(_, end), (next, _)| end <= next);
    if !are_apart {
        return Err(damaged(start, "two rings share a place"));
    }
    Ok(rings)
}
