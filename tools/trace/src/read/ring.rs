//! The pages of a CPU's ring, as Linux's tracing lays them out.

use super::cursor::unsigned;
use super::description::Description;
use super::events::{Decoded, Encoded};
use super::head::{Claim, Formats, Layout};
use crate::model::{Event, Record};
use std::collections::BTreeMap;

/// Types of events in an event's head. Those below are lengths in words; 0: the length follows.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// The used bytes of a page have as many bits in the field that counts them; flags are above.
const USED_BITS: u64 = (1 << 27) - 1;
/// Events before the page were lost.
const MISSED: u64 = 1 << 31;
/// How many is told behind the page's events.
const MISSED_COUNT: u64 = 1 << 30;
/// A time stamp in an event has fewer bits than one of a page.
const STAMP_BITS: u32 = 59;

/// What is missing of a ring.
#[derive(Debug, Default)]
pub struct State {
    /// Where the file ends too early.
    pub cut: Option<usize>,
    /// Where the first damaged page is, and how many there are.
    pub damaged: Option<(usize, u64)>,
}

/// Reads one CPU's ring.
pub struct Reader<'a> {
    layout: &'a Layout,
    formats: &'a Formats,
    /// What was read.
    pub records: Vec<Record>,
    /// How many events there are of each unknown kind.
    pub unknown: BTreeMap<String, u64>,
}

/// A page's events cannot be read any further.
struct Damaged;

impl<'a> Reader<'a> {
    pub fn new(layout: &'a Layout, formats: &'a Formats) -> Self {
        Self {
            layout,
            formats,
            records: Vec::new(),
            unknown: BTreeMap::new(),
        }
    }

    /// Reads the ring that is said to be there in the file.
    pub fn ring(&mut self, file: &[u8], claim: Claim) -> State {
        let mut state = State::default();
        let end = claim.end.min(file.len());
        if claim.end > end {
            state.cut = Some(end.max(claim.start));
        }
        let bytes = file.get(claim.start..end).unwrap_or_default();
        let starts = (claim.start..).step_by(self.layout.page);
        for (start, page) in starts.zip(bytes.chunks(self.layout.page)) {
            let is_whole = page.len() == self.layout.page;
            if self.page(page, is_whole).is_err() && is_whole {
                let (_, pages) = state.damaged.get_or_insert((start, 0));
                *pages += 1;
                // What else the page had is not known.
                let at = self.records.last().map_or(0, |record| record.at);
                self.put_lost(at, 0);
            }
        }
        state
    }

    /// Reads a page, or what the file has of it.
    fn page(&mut self, page: &[u8], is_whole: bool) -> Result<(), Damaged> {
        let layout = self.layout;
        let stamp = number(page, layout.stamp).ok_or(Damaged)?;
        let commit = number(page, layout.commit).ok_or(Damaged)?;
        let used = (commit & USED_BITS) as usize;
        let (events, is_short) = match page.get(layout.data..layout.data.saturating_add(used)) {
            Some(events) => (events, false),
            None => (page.get(layout.data..).ok_or(Damaged)?, true),
        };
        if is_short && is_whole {
            return Err(Damaged);
        }
        if commit & MISSED != 0 {
            let behind = (layout.data.saturating_add(used), layout.word);
            let count = (commit & MISSED_COUNT != 0).then(|| number(page, behind));
            self.put_lost(stamp, count.flatten().unwrap_or_default());
        }
        self.events(events, stamp)
    }

    fn events(&mut self, mut events: &[u8], stamp: u64) -> Result<(), Damaged> {
        let mut at = stamp;
        while !events.is_empty() {
            let head = word(&mut events)?;
            let (kind, delta) = (head & 31, u64::from(head >> 5));
            match kind {
                // The rest of the page is empty.
                PADDING if delta == 0 => return Ok(()),
                PADDING => {
                    let length = word(&mut events)?;
                    at = at.saturating_add(delta);
                    taken(&mut events, length as usize)?;
                }
                TIME_EXTEND => {
                    let high = u64::from(word(&mut events)?);
                    at = at.saturating_add(high << 27 | delta);
                }
                TIME_STAMP => {
                    let high = u64::from(word(&mut events)?);
                    at = absolute(stamp, high << 27 | delta);
                }
                _ => {
                    at = at.saturating_add(delta);
                    let length = match kind {
                        // The length of a long event counts itself.
                        0 => word(&mut events)?.checked_sub(4).ok_or(Damaged)?,
                        words => 4 * words,
                    };
                    self.event(taken(&mut events, length as usize)?, at)?;
                }
            }
        }
        Ok(())
    }

    fn event(&mut self, payload: &[u8], at: u64) -> Result<(), Damaged> {
        let id = number(payload, (0, 2)).ok_or(Damaged)? as u16;
        let Some(description) = self.formats.get(&id) else {
            self.count(format!("event {id}"));
            return Ok(());
        };
        let encoded = Encoded {
            description,
            payload,
        };
        match encoded.decoded(at) {
            Decoded::Known(record) => self.records.push(record),
            Decoded::Unknown => self.count(name(description)),
            Decoded::Short => return Err(Damaged),
        }
        Ok(())
    }

    fn count(&mut self, name: String) {
        *self.unknown.entry(name).or_default() += 1;
    }

    fn put_lost(&mut self, at: u64, count: u64) {
        self.records.push(Record {
            at,
            task: 0,
            in_interrupt: false,
            event: Event::Lost { count },
        });
    }
}

fn name(Description { system, name, .. }: &Description) -> String {
    format!("{system}:{name}")
}

/// The number in a field at this offset with this size.
fn number(bytes: &[u8], (offset, size): (usize, usize)) -> Option<u64> {
    bytes.get(offset..offset.checked_add(size)?).map(unsigned)
}

fn taken<'a>(events: &mut &'a [u8], length: usize) -> Result<&'a [u8], Damaged> {
    // Events begin at multiples of four bytes.
    let whole = length.checked_next_multiple_of(4).ok_or(Damaged)?;
    let (taken, rest) = events.split_at_checked(whole).ok_or(Damaged)?;
    *events = rest;
    taken.get(..length).ok_or(Damaged)
}

fn word(events: &mut &[u8]) -> Result<u32, Damaged> {
    taken(events, 4).map(|bytes| unsigned(bytes) as u32)
}

/// The time of a stamp in a page of this time, which has the upper bits, and is earlier.
fn absolute(page: u64, stamp: u64) -> u64 {
    let at = page >> STAMP_BITS << STAMP_BITS | stamp;
    if at < page {
        at.saturating_add(1 << STAMP_BITS)
    } else {
        at
    }
}
