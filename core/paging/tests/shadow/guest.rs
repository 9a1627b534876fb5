//! A small guest: its memory with tables in it, and the host's frames behind that.

use hanok_paging::shadow::{FrameKind, GuestSpace, HostFrame, HostMemory};
use hanok_paging::short::{Pxn, ShortRegime};
use hanok_types::{Hpa, Ipa};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// First-level tables of 32 entries (TTBCR.N is 7), and the second-level tables.
pub const FIRST_TABLES: [u64; 2] = [0x1000, 0x1080];
pub const SECOND_TABLES: [u64; 3] = [0x2000, 0x2400, 0x3000];
/// The guest's memory: a megabyte of pages that are anywhere, one that is whole on the host, and
/// another one of pages that are anywhere.
pub const MEMORY: u64 = 3 << 20;
const WHOLE: u64 = 1 << 20;

/// The megabytes and the pages in them that are looked at. The window is at megabyte 5.
pub const MEGABYTES: [u32; 7] = [0, 1, 2, 5, 16, 17, 31];
pub const PAGES: [u32; 6] = [0, 1, 2, 15, 16, 255];
pub const WINDOW: u32 = 5 << 20;

pub fn addresses() -> impl Iterator<Item = u32> {
    MEGABYTES
        .into_iter()
        .flat_map(|megabyte| PAGES.map(|page| megabyte << 20 | page << 12))
}

pub struct Guest {
    pub words: BTreeMap<u64, u32>,
    /// The kinds of frames, and how often they were given back, by page; those not here are as at
    /// the beginning.
    pub frames: BTreeMap<u64, (Option<FrameKind>, u64)>,
}

impl Guest {
    pub fn new() -> Self {
        let mut words = BTreeMap::new();
        // One way to each megabyte at first: pages, whole, and pages by sections.
        for table in FIRST_TABLES {
            words.insert(table, SECOND_TABLES[0] as u32 | 1 << 5 | 0b01);
            words.insert(table + 4, WHOLE as u32 | 1 << 5 | 3 << 10 | 0b10);
            words.insert(table + 8, 2 << 20 | 1 << 5 | 3 << 10 | 0b10);
        }
        Self {
            words,
            frames: BTreeMap::new(),
        }
    }

    fn frame_at(&self, page: u64) -> Option<HostFrame> {
        let at = page << 12;
        if at >= MEMORY {
            return None;
        }
        let (kind, times) = self
            .frames
            .get(&page)
            .copied()
            .unwrap_or((Some(FrameKind::Plain), 0));
        let base = match at / WHOLE {
            1 if times == 0 => 0x9000_0000 + at,
            // Each has a place of its own, with few that follow each other.
            _ => 0xa000_0000 + (page * 7 % 1024 + 1024 * times) * 0x1000,
        };
        Some(HostFrame {
            at: Hpa::new(base),
            kind: kind?,
        })
    }

    /// Changes what is behind a page, and answers the frame that was.
    pub fn change(&mut self, page: u64, kind: Option<FrameKind>) -> Option<HostFrame> {
        let before = self.frame_at(page);
        let times = self.frames.get(&page).map_or(0, |(_, times)| *times);
        let gone = u64::from(kind.is_none() && before.is_some());
        self.frames.insert(page, (kind, times + gone));
        before
    }

    /// Whether this frame is a doorbell.
    pub fn is_doorbell(&self, frame: u64) -> bool {
        let mut pages = self.frames.keys();
        pages.any(|page| self.kind_of(*page, frame) == Some(FrameKind::Doorbell))
    }

    /// The kind of the frame behind this page, if it is this frame.
    pub fn kind_of(&self, page: u64, frame: u64) -> Option<FrameKind> {
        let host = self.frame_at(page)?;
        (host.at.get() == frame).then_some(host.kind)
    }
}

impl HostMemory for Guest {
    fn word(&self, at: Ipa) -> Option<u32> {
        let there = at.get() < MEMORY;
        there.then(|| self.words.get(&at.get()).copied().unwrap_or(0))
    }

    fn page(&self, at: Ipa) -> Option<HostFrame> {
        assert_eq!(at.get() % 0x1000, 0);
        self.frame_at(at.get() >> 12)
    }

    fn section(&self, at: Ipa) -> Option<HostFrame> {
        assert_eq!(at.get() % WHOLE, 0);
        let first = self.frame_at(at.get() >> 12)?;
        let mut all = self.frames.range(256..512).map(|(_, frame)| *frame);
        let whole = at.get() == WHOLE && all.all(|one| one == (Some(first.kind), 0));
        // Pages that never changed are plain.
        let changed = self.frames.range(256..512).count();
        let uniform = changed == 0 || changed == 256 || first.kind == FrameKind::Plain;
        (whole && uniform).then_some(first)
    }
}

/// The number of [`spaces`].
pub const SPACES: usize = 6;

/// The spaces of the guest: two tables, two ASIDs, two sets of domains, and without the MMU.
pub fn spaces() -> Vec<GuestSpace> {
    let off = GuestSpace {
        regime: ShortRegime::without_mmu(Pxn::Absent),
        asid: 0,
        confined: false,
    };
    let mut all = vec![off];
    // Of domain 1 a client, of 2 nothing, of 0 a client; or of 1 a manager, of 2 a client.
    for (table, asid, dacr) in [
        (0, 1, 0b00_0101),
        (0, 1, 0b01_1101),
        (1, 1, 0b00_0101),
        (1, 2, 0b00_0101),
        (0, 2, 0b00_0101),
    ] {
        let regime = ShortRegime {
            // M and AFE.
            sctlr: 1 | 1 << 29,
            ttbr0: FIRST_TABLES[table] as u32 | 0x6a,
            ttbcr: 7 | 1 << 5,
            dacr,
            ..ShortRegime::without_mmu(Pxn::Absent)
        };
        all.push(GuestSpace {
            regime,
            asid,
            confined: false,
        });
    }
    all
}

/// A write to a word of the guest's tables.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The words, of which a supersection and a large page have 16.
    pub at: Vec<u64>,
    pub value: u32,
}

fn attributes() -> impl Strategy<Value = u32> {
    // AP as in a section, where the bits are at other places than in a page; mostly accessed.
    prop_oneof![
        4 => Just(0b11),
        2 => Just(0b01),
        1 => Just(0b10),
        1 => Just(0b111),
        1 => Just(0b101),
    ]
}

/// One of `few` in two of three cases, or else one of `all`.
fn mostly(few: &[u32], all: &[u32]) -> impl Strategy<Value = u32> {
    let select = |of: &[u32]| prop::sample::select(of.to_vec());
    prop_oneof![2 => select(few), 1 => select(all)]
}

pub fn edit() -> impl Strategy<Value = Edit> {
    let table = prop_oneof![3 => Just(FIRST_TABLES[0]), 1 => Just(FIRST_TABLES[1])];
    let all_tables = prop::bool::weighted(0.4);
    let megabyte = mostly(&MEGABYTES[..3], &MEGABYTES);
    let kind = prop_oneof![Just(0u32), Just(1), Just(2), Just(3), Just(1)];
    let second = prop::sample::select(SECOND_TABLES.to_vec());
    let flags = (attributes(), any::<bool>(), any::<bool>(), 0..3u32);
    let first = (table, megabyte, kind, second, flags, 0..4u32).prop_map(
        |(table, megabyte, kind, second, (ap, global, xn, domain), to)| {
            let at = table + u64::from(megabyte) * 4;
            let common = (ap & 3) << 10
                | (ap >> 2) << 15
                | u32::from(!global) << 17
                | u32::from(xn) << 4
                | 0b10;
            match kind {
                0 => Edit {
                    at: vec![at],
                    value: 0,
                },
                1 => Edit {
                    at: vec![at],
                    value: second as u32 | domain << 5 | 0b01,
                },
                2 => Edit {
                    at: vec![at],
                    value: common | to << 20 | domain << 5,
                },
                _ => {
                    let group = table + u64::from(megabyte & !15) * 4;
                    let at = (0..16).map(|one| group + one * 4).collect();
                    Edit {
                        at,
                        value: common | 1 << 18,
                    }
                }
            }
        },
    );
    let second =
        prop_oneof![3 => Just(SECOND_TABLES[0]), 1 => prop::sample::select(SECOND_TABLES.to_vec())];
    let page = mostly(&PAGES[..2], &PAGES);
    let flags = (attributes(), any::<bool>(), any::<bool>());
    let below = (
        second,
        page,
        0..5u32,
        flags,
        prop_oneof![0..32u32, 256..288u32, 512..544u32, 768..770u32],
    )
        .prop_map(|(table, page, kind, (ap, global, xn), to)| {
            let at = table + u64::from(page) * 4;
            let common = (ap & 3) << 4 | (ap >> 2) << 9 | u32::from(!global) << 11;
            match kind {
                0 => Edit {
                    at: vec![at],
                    value: 0,
                },
                1 => {
                    let group = table + u64::from(page & !15) * 4;
                    let at = (0..16).map(|one| group + one * 4).collect();
                    let value = common | (to & !15) << 12 | u32::from(xn) << 15 | 0b01;
                    Edit { at, value }
                }
                _ => Edit {
                    at: vec![at],
                    value: common | to << 12 | 0b10 | u32::from(xn),
                },
            }
        });
    // What is the kernel's is mostly the same in all first-level tables.
    let first = (first, all_tables).prop_map(|(mut edit, all)| {
        if all {
            let offset = FIRST_TABLES[1] - FIRST_TABLES[0];
            let begins = |at: &u64| *at < FIRST_TABLES[1];
            edit.at.retain(begins);
            let others: Vec<u64> = edit.at.iter().map(|at| at + offset).collect();
            edit.at.extend(others);
        }
        edit
    });
    prop_oneof![first, below]
}
