//! A decoded load or store: it says enough to finish the access on behalf of a guest.

use hanok_types::Width;

/// How an access fills a general register, or what it stores of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct General {
    /// The width of the transfer.
    pub width: Width,
    /// Whether a load extends the sign.
    pub sign_extend: bool,
    /// Whether a load fills 64 bits of the register; else it fills the lower 32 and clears the
    /// upper ones.
    pub wide: bool,
}

impl General {
    /// The register's new value after a load of `raw`. Only the lower `width` of `raw` is used.
    pub const fn loaded(&self, raw: u64) -> u64 {
        let value = raw & self.width.mask();
        if !self.sign_extend {
            return value;
        }
        let unused = u64::BITS - self.width.bits();
        let extended = ((value << unused) as i64 >> unused) as u64;
        if self.wide {
            extended
        } else {
            extended & Width::Word.mask()
        }
    }

    /// The value that a store of a register with this value puts on the bus.
    pub const fn stored(&self, register: u64) -> u64 {
        register & self.width.mask()
    }
}

/// The kind of a register, and how much of it is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// One of X0 to X30; 31 is the zero register.
    General(General),
    /// One of V0 to V31. The transfer has 2 to this power bytes: 0 is B, 1 H, 2 S, 3 D, 4 Q. A load
    /// clears the rest of the register.
    Vector(u8),
}

impl Data {
    /// The number of bytes that one register transfers: 1 to 16.
    pub const fn bytes(&self) -> u64 {
        match self {
            Self::General(general) => general.width.bytes(),
            Self::Vector(log2) => 1 << (*log2 & 7),
        }
    }
}

/// How an index register is widened before it is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extend {
    /// All 64 bits, unchanged (LSL).
    Lsl,
    /// The low 32 bits, unsigned.
    Uxtw,
    /// The low 32 bits, signed.
    Sxtw,
    /// All 64 bits, unchanged (SXTX).
    Sxtx,
}

/// How an address is formed. A base register of 31 is the stack pointer, an index register of 31 is
/// zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// The base plus a constant.
    Offset {
        /// Rn.
        base: u8,
        /// The constant, in bytes.
        offset: i64,
    },
    /// The base plus a constant. This sum is also the new value of the base.
    PreIndex {
        /// Rn.
        base: u8,
        /// The constant, in bytes.
        offset: i64,
    },
    /// The base alone. Then the constant is added to the base.
    PostIndex {
        /// Rn.
        base: u8,
        /// The constant, in bytes.
        offset: i64,
    },
    /// The base plus an index register.
    Register {
        /// Rn.
        base: u8,
        /// Rm.
        index: u8,
        /// How the index is widened.
        extend: Extend,
        /// The number of bits by which the widened index is shifted to the left.
        shift: u8,
    },
    /// The instruction's own address plus a constant.
    Literal {
        /// The constant, in bytes.
        offset: i64,
    },
}

/// The outcome of an [`Addressing`] for given values of the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The address of the first byte.
    pub address: u64,
    /// The base register and its new value.
    pub write_back: Option<(u8, u64)>,
}

impl Addressing {
    /// The base register; 31 is the stack pointer.
    pub const fn base(&self) -> Option<u8> {
        match *self {
            Self::Offset { base, .. }
            | Self::PreIndex { base, .. }
            | Self::PostIndex { base, .. }
            | Self::Register { base, .. } => Some(base),
            Self::Literal { .. } => None,
        }
    }

    /// The index register; 31 is zero.
    pub const fn index(&self) -> Option<u8> {
        match *self {
            Self::Register { index, .. } => Some(index),
            _ => None,
        }
    }

    /// The address for these values of the PC, base and index (any number for a register that the
    /// instruction does not have). Addresses wrap around, as in the CPU.
    pub const fn resolve(&self, pc: u64, base_value: u64, index_value: u64) -> Resolved {
        let (address, write_back) = match *self {
            Self::Offset { offset, .. } => (base_value.wrapping_add_signed(offset), None),
            Self::PreIndex { base, offset } => {
                let address = base_value.wrapping_add_signed(offset);
                (address, Some((base, address)))
            }
            Self::PostIndex { base, offset } => {
                let after = base_value.wrapping_add_signed(offset);
                (base_value, Some((base, after)))
            }
            Self::Register { extend, shift, .. } => {
                let index = extend.apply(index_value).wrapping_shl(shift as u32);
                (base_value.wrapping_add(index), None)
            }
            Self::Literal { offset } => (pc.wrapping_add_signed(offset), None),
        };
        Resolved {
            address,
            write_back,
        }
    }
}

impl Extend {
    /// Widens `value`.
    pub const fn apply(self, value: u64) -> u64 {
        match self {
            Self::Lsl | Self::Sxtx => value,
            Self::Uxtw => value as u32 as u64,
            Self::Sxtw => value as i32 as i64 as u64,
        }
    }
}

/// A load or store of one or two registers, which can be finished on behalf of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Whether memory is read.
    pub load: bool,
    /// The kind and width of each register.
    pub data: Data,
    /// The register; for a pair, the one at the lower address.
    pub register: u8,
    /// The second register of a pair.
    pub second: Option<u8>,
    /// How the address is formed.
    pub address: Addressing,
    /// Whether it has acquire or release semantics.
    pub ordered: bool,
    /// Whether the access at EL1 has the rights of EL0 (LDTR, STTR).
    pub unprivileged: bool,
}

impl Transfer {
    /// A transfer of one register without ordering, at the guest's own exception level.
    pub(crate) const fn plain(load: bool, data: Data, register: u8, address: Addressing) -> Self {
        Self {
            load,
            data,
            register,
            second: None,
            address,
            ordered: false,
            unprivileged: false,
        }
    }

    /// The number of bytes of memory that are accessed: 1 to 32.
    pub const fn bytes(&self) -> u64 {
        let one = self.data.bytes();
        if self.second.is_some() { one * 2 } else { one }
    }
}

/// An exclusive access. It cannot be finished: a device has no exclusive monitor that could be
/// emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exclusive {
    /// Whether memory is read.
    pub load: bool,
    /// The width of one register's transfer.
    pub width: Width,
    /// The register.
    pub register: u8,
    /// The second register of a pair.
    pub second: Option<u8>,
    /// The register that receives whether the store took place.
    pub status: Option<u8>,
    /// The base register; 31 is the stack pointer.
    pub base: u8,
}

/// An atomic read-modify-write (FEAT_LSE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// The width of one register's transfer.
    pub width: Width,
    /// The operand, Rs.
    pub operand: u8,
    /// The register that receives the old value; for a compare and swap, the register with the new
    /// value.
    pub target: u8,
    /// Whether the operand and the target are two registers each (CASP).
    pub pair: bool,
    /// The base register; 31 is the stack pointer.
    pub base: u8,
}

/// A transfer of several SIMD registers, or of lanes of them (LD1 to LD4, ST1 to ST4, LD1R to
/// LD4R).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structures {
    /// Whether memory is read.
    pub load: bool,
    /// The first register.
    pub first: u8,
    /// The number of registers, 1 to 4.
    pub registers: u8,
    /// Whether one lane of each register is transferred; else all lanes are, or one element fills
    /// all of them.
    pub lane: bool,
    /// The base register; 31 is the stack pointer.
    pub base: u8,
    /// Whether the base register is written back.
    pub write_back: bool,
}

/// A load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadStore {
    /// A transfer of one or two registers, which can be finished.
    Transfer(Transfer),
    /// An exclusive access, which cannot be finished on a device.
    Exclusive(Exclusive),
    /// An atomic access, which cannot be finished on a device.
    Atomic(Atomic),
    /// A transfer of SIMD structures, which cannot be finished on a device.
    Structures(Structures),
}

impl LoadStore {
    /// The transfer, if the access can be finished.
    pub const fn transfer(&self) -> Option<&Transfer> {
        match self {
            Self::Transfer(transfer) => Some(transfer),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_extends_as_it_says() {
        let general = |width, sign_extend, wide| General {
            width,
            sign_extend,
            wide,
        };
        assert_eq!(general(Width::Byte, false, false).loaded(0x1ff), 0xff);
        assert_eq!(general(Width::Byte, true, false).loaded(0x80), 0xffff_ff80);
        assert_eq!(general(Width::Half, true, true).loaded(0x8000), !0x7fff);
        assert_eq!(
            general(Width::Word, true, true).loaded(0x7fff_ffff),
            0x7fff_ffff
        );
        assert_eq!(general(Width::Double, false, true).loaded(!0), !0);
        assert_eq!(general(Width::Half, false, false).stored(!0), 0xffff);
    }

    #[test]
    fn addresses_wrap_and_write_back() {
        let post = Addressing::PostIndex {
            base: 31,
            offset: -8,
        };
        let resolved = post.resolve(0, 4, 0);
        assert_eq!(resolved.address, 4);
        assert_eq!(resolved.write_back, Some((31, 4u64.wrapping_sub(8))));
        let scaled = Addressing::Register {
            base: 2,
            index: 3,
            extend: Extend::Sxtw,
            shift: 3,
        };
        assert_eq!(scaled.resolve(0, 0x100, 0xffff_ffff).address, 0xf8);
        assert_eq!((scaled.base(), scaled.index()), (Some(2), Some(3)));
        assert_eq!((post.base(), post.index()), (Some(31), None));
        let literal = Addressing::Literal { offset: -4 };
        assert_eq!((literal.base(), literal.index()), (None, None));
        assert_eq!(literal.resolve(0x1000, 0, 0).address, 0xffc);
    }
}
