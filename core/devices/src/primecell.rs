//! The identification registers at the end of each PrimeCell's register frame.

/// Byte offset of PeriphID0, the first of eight (DDI 0183G, 3.3.15; DDI 0224B, 3.3.9).
pub(crate) const IDS: u64 = 0xfe0;

/// PCellID0 to PCellID3 are the same in every PrimeCell.
const CELL_ID: [u8; 4] = [0x0d, 0xf0, 0x05, 0xb1];

/// The identification register at `offset`, if there is one: four bytes of the peripheral's, then
/// four of the cell's.
pub(crate) fn id(peripheral: [u8; 4], offset: u64) -> Option<u32> {
    let index = usize::try_from(offset.checked_sub(IDS)? / 4).ok()?;
    let bytes = peripheral.iter().chain(&CELL_ID);
    bytes.copied().map(u32::from).nth(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_end_with_the_frame() {
        assert_eq!(id([1, 2, 3, 4], IDS - 1), None);
        assert_eq!(id([1, 2, 3, 4], IDS), Some(1));
        assert_eq!(id([1, 2, 3, 4], 0xffc), Some(0xb1));
        assert_eq!(id([1, 2, 3, 4], 0x1000), None);
    }
}
