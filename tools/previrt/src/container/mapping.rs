//! What mapping symbols say, and how to add those that are missing.
//!
//! `$a` begins A32, `$t` T32, `$d` data (ABI for the Arm Architecture, ELF, 5.5.5). LLVM leaves the
//! symbol for data out in two cases, and there the code in front of the data seems to go on: see
//! [`object`] and [`entries`].

use hanok_decode::aarch32::Isa;

/// The size in bytes of an entry in a table of alternatives: a word that says where the replaced
/// instruction is, then the other instruction.
pub const ALTERNATIVE: u32 = 8;

/// What a mapping symbol says of the bytes from it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Instructions of this instruction set.
    Code(Isa),
    /// Data, or anything else that is not executed.
    Data,
}

/// What a symbol of this name says: `$a`, `$t` or `$d`, perhaps followed by a dot and more.
pub(super) fn of(name: &[u8]) -> Option<Mapping> {
    let (kind, rest) = name.split_first_chunk::<2>()?;
    if !matches!(rest.first(), None | Some(b'.')) {
        return None;
    }
    match kind {
        b"$a" => Some(Mapping::Code(Isa::A32)),
        b"$t" => Some(Mapping::Code(Isa::T32)),
        b"$d" => Some(Mapping::Data),
        _ => None,
    }
}

/// Adds the mapping symbol for an object of data at `place`, unless there is a symbol already: the
/// object is no part of the code in front of it.
///
/// LLVM writes no mapping symbol for data in sections that are not executable, and Linux's linker
/// script puts such sections among the code (`.proc.info.init`). Where a section has no mapping
/// symbols at all, nothing is added: objects are no reason to believe that all of it is data.
pub(super) fn object(mapping: &mut Vec<(u32, Mapping)>, place: u32) {
    let after = mapping.partition_point(|(at, _)| *at <= place);
    let before = after.checked_sub(1).and_then(|n| mapping.get(n));
    if before.is_some_and(|(at, kind)| *at < place && *kind != Mapping::Data) {
        mapping.insert(after, (place, Mapping::Data));
    }
}

/// Adds the mapping symbols for the entries of a table of alternatives of `len` bytes: each entry
/// begins with a word of data.
///
/// LLVM writes no mapping symbol for data that a section begins with behind `.align`. In a linked
/// file the last thing of the file in front then seems to go on.
pub(super) fn entries(mapping: &mut Vec<(u32, Mapping)>, len: u32) {
    if mapping.is_empty() || !len.is_multiple_of(ALTERNATIVE) {
        return;
    }
    let mut found = Vec::new();
    for entry in (0..len).step_by(ALTERNATIVE as usize) {
        let other = entry + ALTERNATIVE / 2;
        found.push((entry, Mapping::Data));
        let until = |end: u32| mapping.partition_point(|(at, _)| *at < end);
        let (from, to) = (until(other + 1), until(entry + ALTERNATIVE));
        let before = from.checked_sub(1).and_then(|n| mapping.get(n));
        found.extend(before.map(|(_, kind)| (other, *kind)));
        found.extend(mapping.get(from..to).unwrap_or_default());
    }
    *mapping = found;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_among_code_is_data() {
        let code = Mapping::Code(Isa::A32);
        let mut mapping = vec![(0, code), (16, Mapping::Data), (32, code)];
        for place in [0, 8, 20, 32, 40] {
            object(&mut mapping, place);
        }
        let data = Mapping::Data;
        let wanted = [(0, code), (8, data), (16, data), (32, code), (40, data)];
        assert_eq!(mapping, wanted);
        let mut none = Vec::new();
        object(&mut none, 8);
        assert!(none.is_empty());
    }

    #[test]
    fn an_entry_of_alternatives_begins_with_data() {
        let (code, data) = (Mapping::Code(Isa::T32), Mapping::Data);
        // As LLVM writes it: the third entry is the first of another file, and the second has two
        // instructions.
        let mut mapping = vec![
            (0, data),
            (4, code),
            (8, data),
            (12, code),
            (14, code),
            (20, code),
        ];
        entries(&mut mapping, 24);
        let wanted = [
            (0, data),
            (4, code),
            (8, data),
            (12, code),
            (14, code),
            (16, data),
            (20, code),
        ];
        assert_eq!(mapping, wanted);
        entries(&mut mapping, 24);
        assert_eq!(mapping, wanted);
        // A table of another length has no such entries, and a table without mapping symbols gets
        // none.
        let mut odd = vec![(0, code)];
        entries(&mut odd, 12);
        assert_eq!(odd, [(0, code)]);
        let mut none = Vec::new();
        entries(&mut none, 24);
        assert!(none.is_empty());
    }
}
