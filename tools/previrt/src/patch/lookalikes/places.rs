//! The places of an image whose word Linux reads or changes itself, or finds again by its address.

use crate::flow::memory::Memory;
use crate::linux::FoundTable;
use std::collections::HashSet;

/// The places that Linux's tables name.
#[derive(Debug, Default)]
pub(super) struct Patched {
    places: HashSet<u32>,
    /// Whether the table of jump labels is known. Without it any branch may be one.
    jump_labels: bool,
}

impl Patched {
    /// The places that the `tables` of an image name.
    pub(super) fn of(memory: Memory<'_>, tables: &[FoundTable]) -> Self {
        let mut found = Self::default();
        for table in tables {
            let (size, relative) = match table.name {
                "__mcount_loc" => (4, false),
                "__ex_table" => (8, false),
                "__jump_table" => (12, false),
                ".pv_table" => (4, true),
                // Its places are code that is executed elsewhere ([`crate::image::Code`]).
                _ => continue,
            };
            found.jump_labels |= table.name == "__jump_table";
            let entries = (0..table.len).step_by(size);
            let places = entries.filter_map(|distance| {
                let entry = table.address.wrapping_add(distance);
                let word = memory.word(entry)?;
                Some(if relative {
                    entry.wrapping_add(word)
                } else {
                    word
                })
            });
            found.places.extend(places);
        }
        found
    }

    /// Whether a table names the place.
    pub(super) fn has(&self, place: u32) -> bool {
        self.places.contains(&place)
    }

    /// Whether the table of jump labels is known.
    pub(super) const fn knows_jump_labels(&self) -> bool {
        self.jump_labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u32 = 0x8000_0000;

    /// The places of a table of two entries at [`BASE`], of `size` words each.
    fn places(name: &'static str, words: [u32; 6], size: u32) -> Patched {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let memory = Memory {
            bytes: &bytes,
            base: BASE,
        };
        let table = FoundTable {
            name,
            address: BASE,
            len: 8 * size,
            entries: 2,
        };
        Patched::of(memory, &[table])
    }

    #[test]
    fn each_table_names_its_places() {
        let words = [0x100, 0x200, 0x300, 0x400, 0x500, 0x600];
        for (name, size, expected) in [
            ("__mcount_loc", 1, vec![0x100, 0x200]),
            ("__ex_table", 2, vec![0x100, 0x300]),
            ("__jump_table", 3, vec![0x100, 0x400]),
            (".pv_table", 1, vec![BASE + 0x100, BASE + 0x204]),
            (".ARM.unwind_idx", 2, vec![]),
        ] {
            let found = places(name, words, size);
            let mut places: Vec<_> = found.places.iter().copied().collect();
            places.sort_unstable();
            assert_eq!(places, expected, "{name}");
            assert_eq!(found.knows_jump_labels(), name == "__jump_table");
            assert!(expected.iter().all(|place| found.has(*place)));
        }
    }
}
