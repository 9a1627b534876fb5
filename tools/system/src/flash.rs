//! The file in which a VM's variables are kept: a bank of flash, as QEMU's `-drive if=pflash,unit=1` takes it.

use crate::diagnostic::Words;
use crate::size::show;
use hanok_config::{FIRMWARE_SIZE, NOR_BLOCK, NOR_MEMORY, NOR_STORED};

const ERASED: u8 = 0xff;
/// The board's memory for it is made of such blocks.
const BLOCK: usize = NOR_BLOCK as usize;
/// The bytes of a board's memory for it.
pub const VARIABLES_MEMORY: usize = NOR_MEMORY as usize;

/// What the board is given of such a file: whole blocks, without those at the end that are erased. Refuses what a
/// VM's flash cannot hold.
pub(crate) fn stored(bytes: &[u8]) -> Result<Vec<u8>, Words> {
    let len = bytes.len() as u64;
    if len > FIRMWARE_SIZE {
        let what = format!("the file of variables has {}", show(len));
        let why = format!("the bank of flash has {}", show(FIRMWARE_SIZE));
        return Err(Words::new(what, why, "give a smaller one"));
    }
    let (kept, rest) = bytes.split_at(bytes.len().min(NOR_STORED as usize));
    let plain = |value: u8| rest.iter().all(|byte| *byte == value);
    if !plain(ERASED) && !plain(0) {
        let what = "the file of variables holds too much";
        let why = format!(
            "a VM's flash stores {} of its bank; what is behind that reads as erased",
            show(NOR_STORED)
        );
        let remedy =
            "give one that a UEFI firmware has made, or the name of one that is to be made";
        return Err(Words::new(what, why, remedy));
    }
    let end = kept.iter().rposition(|byte| *byte != ERASED);
    let len = end.map_or(0, |last| (last + 1).next_multiple_of(BLOCK));
    let mut stored = kept.to_vec();
    stored.resize(len, ERASED);
    Ok(stored)
}

/// The file with what a board's `memory` has at its start, [`VARIABLES_MEMORY`] bytes; `None` if nothing of it is new. A file
/// that was shorter becomes as long as what is stored.
pub fn with_variables(mut file: Vec<u8>, memory: &[u8]) -> Option<Vec<u8>> {
    let (words, bits) = memory.split_at_checked(NOR_STORED as usize)?;
    let mut stored = words.to_vec();
    for (index, block) in stored.chunks_mut(BLOCK).enumerate() {
        if bits.get(index / 8)? & 1 << (index % 8) != 0 {
            block.fill(ERASED);
        }
    }
    file.resize(file.len().max(stored.len()), ERASED);
    let start = file.get_mut(..stored.len())?;
    if start == stored {
        return None;
    }
    start.copy_from_slice(&stored);
    Some(file)
}

/// A firmware without what fills it up to a bank of flash, as QEMU's `-drive if=pflash` wants it: that takes memory on the
/// board, and nobody reads it.
pub(crate) fn without_filling(firmware: &[u8]) -> &[u8] {
    let filling = match firmware.last() {
        Some(last @ (0 | &ERASED)) if firmware.len() as u64 == FIRMWARE_SIZE => *last,
        _ => return firmware,
    };
    let end = firmware.iter().rposition(|byte| *byte != filling);
    let len = end.map_or(1, |last| last + 1);
    firmware.get(..len).unwrap_or(firmware)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_erased_at_the_end_is_not_stored() {
        assert_eq!(stored(&[]).unwrap(), []);
        let mut bytes = vec![ERASED; 64 << 20];
        assert_eq!(stored(&bytes).unwrap(), []);
        bytes[5000] = 7;
        let stored = stored(&bytes).unwrap();
        assert_eq!(stored.len(), 5 << 10);
        assert_eq!(
            (stored[4999], stored[5000], stored[5001]),
            (ERASED, 7, ERASED)
        );
    }

    #[test]
    fn a_bank_that_is_filled_up_is_taken_and_one_that_is_full_refused() {
        let mut bytes = vec![0; FIRMWARE_SIZE as usize];
        bytes[NOR_STORED as usize - 1] = 1;
        assert_eq!(stored(&bytes).unwrap().len() as u64, NOR_STORED);
        bytes[NOR_STORED as usize] = 1;
        assert!(stored(&bytes).is_err());
        bytes[NOR_STORED as usize] = 0;
        bytes.push(0);
        assert!(stored(&bytes).is_err());
    }

    #[test]
    fn only_what_changed_is_written() {
        // Erased blocks hold anything.
        let mut memory = vec![7; VARIABLES_MEMORY];
        memory[NOR_STORED as usize..].fill(ERASED);
        assert_eq!(with_variables(Vec::new(), &memory), None);
        let whole = vec![ERASED; FIRMWARE_SIZE as usize];
        assert_eq!(with_variables(whole.clone(), &memory), None);
        memory[NOR_STORED as usize + 1] = 0xfd;
        let bytes = with_variables(whole, &memory).unwrap();
        assert_eq!(bytes.len() as u64, FIRMWARE_SIZE);
        let changed: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at] != ERASED).collect();
        assert!(changed.into_iter().eq(9 * BLOCK..10 * BLOCK));
        let short = with_variables(vec![1], &memory).unwrap();
        assert_eq!(
            (short.len() as u64, short[0], short[9 * BLOCK]),
            (NOR_STORED, ERASED, 7)
        );
    }

    #[test]
    fn a_firmware_keeps_what_fills_no_bank() {
        assert_eq!(without_filling(&[1, 0, 0]), [1, 0, 0]);
        for filling in [0, ERASED] {
            let mut bytes = vec![filling; FIRMWARE_SIZE as usize];
            assert_eq!(without_filling(&bytes).len(), 1);
            bytes[4] = 1;
            assert_eq!(without_filling(&bytes).len(), 5);
        }
    }
}
