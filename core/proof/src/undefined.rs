//! Traps without content: whoever puts them there keeps what stood in their place.
//!
//! They are in the space that the architecture keeps undefined for ever (DDI 0406C, A5.4, A6.2.6,
//! A6.3.4, and A8.8.247, UDF). Their numbers are zero, which Linux uses for none of its own.

use hanok_decode::aarch32::Encoding;

/// The undefined instruction of the same instruction set and length: in an IT block whose condition
/// fails, one of two halfwords is skipped as a whole.
///
/// In A32 it has no condition. So it is undefined always, and whoever handles it looks at the
/// condition of what stood there.
pub const fn trap_for(encoding: Encoding) -> Encoding {
    match encoding {
        Encoding::A32(_) => Encoding::A32(0xe7f0_00f0),
        Encoding::Narrow(_) => Encoding::Narrow(0xde00),
        Encoding::Wide(_) => Encoding::Wide(0xf7f0_a000),
    }
}

/// Whether an instruction is there to raise an exception, on every CPU: UDF or BKPT (A8.8.24,
/// A8.8.247). In an IT block UDF may be skipped.
pub(crate) const fn raises(encoding: Encoding) -> bool {
    match encoding {
        Encoding::A32(word) => matches!(word & 0xfff0_00f0, 0xe7f0_00f0 | 0xe120_0070),
        Encoding::Narrow(half) => matches!(half >> 8, 0xbe | 0xde),
        Encoding::Wide(both) => both & 0xfff0_f000 == 0xf7f0_a000,
    }
}
