//! What mapping symbols say, and what they leave out.
//!
//! `$a` begins A32, `$t` T32, `$d` data (ABI for the Arm Architecture, ELF, 5.5.5). LLVM makes none in two
//! places where data is, and there the code in front seems to go on: [`object`] and [`entries`].

use hanok_decode::aarch32::Isa;

/// Bytes of an entry of a table of alternatives: a word that says where, and the other instruction.
pub const ALTERNATIVE: u32 = 8;

/// What a mapping symbol says of the bytes from it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Instructions.
    Code(Isa),
    /// Anything else.
    Data,
}

/// What a symbol says that is called `$a`, `$t` or `$d`, perhaps with a dot and more behind it.
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

/// An object of data at `place` is none of the code in front of it, if no mapping symbol says
/// otherwise: LLVM makes none for data of sections that are not executable, and Linux's linker
/// script puts such among the code (`.proc.info.init`). Where there are no mapping symbols at all,
/// objects are no reason to believe that all is data.
pub(super) fn object(mapping: &mut Vec<(u32, Mapping)>, place: u32) {
    let after = mapping.partition_point(|(at, _)| *at <= place);
    let before = after.checked_sub(1).and_then(|n| mapping.get(n));
    if before.is_some_and(|(at, kind)| *at < place && *kind != Mapping::Data) {
        mapping.insert(after, (place, Mapping::Data));
    }
}

/// Each entry of a table of alternatives, `len` bytes in all, begins with a word of data, also where no
/// mapping symbol says so: LLVM makes none for data that a section begins with behind `.align`, so
/// that in a linked file what the file in front ended with seems to go on.
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
        // LLVM's: the third entry is the first of another file. In the second are two instructions.
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
        // Of another length they are no such entries; and nothing says what has no mapping symbol.
        let mut odd = vec![(0, code)];
        entries(&mut odd, 12);
        assert_eq!(odd, [(0, code)]);
        let mut none = Vec::new();
        entries(&mut none, 24);
        assert!(none.is_empty());
    }
}
