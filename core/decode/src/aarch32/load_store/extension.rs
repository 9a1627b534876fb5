//! Loads and stores of VFP and Advanced SIMD, whose lower 24 bits are the same in A32 and T32 (DDI
//! 0406C A7.6, A7.7).

use super::contents::{Contents, Lanes, Structures};
use super::{Access, Addressing, Displacement};
use crate::aarch32::registers::Register;
use crate::aarch32::sensitive::Shift;
use bitfield_struct::bitfield;
use hanok_types::Width;

/// "Extension register load/store instructions".
#[bitfield(u32)]
struct ExtensionWord {
    imm8: u8,
    double: bool,
    #[bits(3)]
    __: u8,
    #[bits(4)]
    vd: u8,
    #[bits(4)]
    rn: Register,
    load: bool,
    write_back: bool,
    d: bool,
    up: bool,
    before: bool,
    #[bits(7)]
    __: u8,
}

impl ExtensionWord {
    fn first(self) -> u8 {
        if self.double() {
            u8::from(self.d()) << 4 | self.vd()
        } else {
            self.vd() << 1 | u8::from(self.d())
        }
    }
}

/// VLDM, VSTM, VLDR, VSTR. `None` for a transfer between core and extension registers, and for a
/// register list that is longer than the register file.
pub(super) fn registers(bits: u32) -> Option<Access> {
    let word = ExtensionWord::from_bits(bits);
    let (base, double) = (word.rn(), word.double());
    let words = u16::from(word.imm8());
    let odd = double && word.imm8() & 1 != 0;
    let (address, count, end) = match (word.before(), word.up(), word.write_back()) {
        (true, up, false) => {
            let offset = Displacement::bytes(up, words * 4);
            (Addressing::offset(base, offset), 1, 32)
        }
        // FLDMX and FSTMX, of D0 to D15, have an odd number of words, and skip the last word.
        (false, true, moves) | (true, false, moves @ true) => (
            Addressing::block(base, word.up(), word.before(), words, moves),
            word.imm8() >> u8::from(double),
            if odd { 16 } else { 32 },
        ),
        _ => return None,
    };
    let first = word.first();
    let most = if double { 16 } else { 32 };
    if count == 0 || count > most || first + count > end {
        return None;
    }
    let contents = Contents::Extension {
        double,
        first,
        count,
    };
    Some(Access(word.load(), address, contents))
}

/// "Advanced SIMD element or structure load/store instructions".
#[bitfield(u32)]
struct StructureWord {
    #[bits(4)]
    rm: Register,
    /// For one element to all lanes: the bit a.
    #[bits(4)]
    low: u8,
    #[bits(4)]
    kind: u8,
    #[bits(4)]
    vd: u8,
    #[bits(4)]
    rn: Register,
    __: bool,
    load: bool,
    d: bool,
    single: bool,
    #[bits(8)]
    __: u8,
}

impl StructureWord {
    fn first(self) -> u8 {
        u8::from(self.d()) << 4 | self.vd()
    }

    /// Bits 7 and 6.
    fn size(self) -> u8 {
        self.low() >> 2
    }

    fn address(self, bytes: u32) -> Addressing {
        let write_back = match self.rm() {
            Register::PC => None,
            Register::SP => Some(Displacement::bytes(true, bytes as u16)),
            register => Some(Displacement::register(true, register, Shift::NONE)),
        };
        Addressing {
            write_back,
            ..Addressing::at(self.rn())
        }
    }
}

/// VLD1 to VLD4, VST1 to VST4.
pub(super) fn structures(bits: u32) -> Option<Access> {
    let word = StructureWord::from_bits(bits);
    let structures = match (word.single(), word.kind() >> 2) {
        (false, _) => multiple(word)?,
        (true, 3) if word.load() => repeated(word)?,
        (true, 3) => return None,
        (true, _) => lane(word)?,
    };
    // A list that goes beyond the last D register is undefined.
    let last = structures.first + (structures.registers - 1) * structures.stride;
    (last < 32).then(|| {
        let address = word.address(structures.bytes());
        Access(word.load(), address, Contents::Structures(structures))
    })
}

/// "Multiple n-element structures"; the second bit of the alignment is not allowed for all of them.
fn multiple(word: StructureWord) -> Option<Structures> {
    let (elements, registers, stride) = match word.kind() {
        0b0000 => (4, 4, 1),
        0b0001 => (4, 4, 2),
        0b0010 => (1, 4, 1),
        0b0011 => (2, 4, 1),
        0b0100 => (3, 3, 1),
        0b0101 => (3, 3, 2),
        0b0110 => (1, 3, 1),
        0b0111 => (1, 1, 1),
        0b1000 => (2, 2, 1),
        0b1001 => (2, 2, 2),
        0b1010 => (1, 2, 1),
        _ => return None,
    };
    let align = word.low() & 0b11;
    let narrow = match word.kind() {
        0b0100..=0b0111 => align & 0b10 == 0,
        0b1000..=0b1010 => align != 0b11,
        _ => true,
    };
    let defined = narrow && (elements == 1 || word.size() != 3);
    defined.then(|| Structures {
        elements,
        width: Width::from_log2(word.size()),
        first: word.first(),
        registers,
        stride,
        lanes: Lanes::All,
    })
}

/// "Single element to all lanes".
fn repeated(word: StructureWord) -> Option<Structures> {
    let elements = (word.kind() & 0b11) + 1;
    let (wide, aligned) = (word.low() & 0b10 != 0, word.low() & 1 != 0);
    let size = word.size();
    let defined = match elements {
        1 => size != 3 && !(size == 0 && aligned),
        2 => size != 3,
        3 => size != 3 && !aligned,
        // Size 3 means words with a stricter alignment.
        _ => size != 3 || aligned,
    };
    let (registers, stride) = match elements {
        1 => (1 + u8::from(wide), 1),
        _ => (elements, 1 + u8::from(wide)),
    };
    defined.then(|| Structures {
        elements,
        width: Width::from_log2(size.min(2)),
        first: word.first(),
        registers,
        stride,
        lanes: Lanes::Repeated,
    })
}

/// "Single n-element structure to or from one lane".
fn lane(word: StructureWord) -> Option<Structures> {
    let elements = (word.kind() & 0b11) + 1;
    let (size, low) = (word.kind() >> 2, word.low());
    // The bits below the lane's number are the stride and the alignment.
    let below = low & ((2 << size) - 1);
    let defined = match (elements, size) {
        (1, 1) => below & 0b10 == 0,
        // For a byte there is one such bit, which is zero.
        (1, _) => below & 0b100 == 0 && matches!(below & 0b11, 0b00 | 0b11),
        (2, 2) => below & 0b10 == 0,
        (3, 0 | 1) => below & 1 == 0,
        (3, _) => below & 0b11 == 0,
        (4, 2) => below & 0b11 != 0b11,
        _ => true,
    };
    // For one element alone this bit is zero, as was checked above.
    let spaced = size > 0 && below >> size & 1 != 0;
    defined.then(|| Structures {
        elements,
        width: Width::from_log2(size),
        first: word.first(),
        registers: elements,
        stride: 1 + u8::from(spaced),
        lanes: Lanes::One(low >> (size + 1)),
    })
}
