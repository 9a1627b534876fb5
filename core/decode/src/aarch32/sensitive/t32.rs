//! Sensitive T32 instructions (DDI 0406C A6).

use super::operation::{
    Banked, DataOperation, Direction, Fields, Hint, Index, Operand, Operation, Preload, Return,
    ReturnFrom, Shift, Status, Unprivileged,
};
use super::unconditional::change_state;
use super::words::{Exception, Found};
use super::{Sensitive, coprocessor};
use crate::aarch32::condition::ItState;
use crate::aarch32::encoding::Encoding;
use crate::aarch32::registers::Register;
use bitfield_struct::bitfield;
use hanok_types::Width;

/// The sensitive instruction that begins with the T32 halfword `first`; `None` if it is not
/// sensitive. `second` is the halfword after it, which is used only if the instruction has two
/// halfwords ([`is_wide`](crate::aarch32::is_wide)). `it` is the instruction's place in an IT
/// block.
pub fn sensitive_t32(first: u16, second: u16, it: ItState) -> Option<Sensitive> {
    let encoding = Encoding::t32(first, second);
    let (operation, right) = match encoding {
        Encoding::Wide(both) => wide(WideWord::from_bits(both))?,
        _ => narrow(first)?,
    };
    let found = (operation, right && may_stand(&operation, it));
    Some(Sensitive::new(encoding, it.condition(), found))
}

/// Whether the operation may stand at this place of an IT block: a branch only at the end, and some
/// operations nowhere (A8.3.1 and the instructions' sections).
fn may_stand(operation: &Operation, it: ItState) -> bool {
    match operation {
        Operation::Cps(_) | Operation::SetEndianness(_) | Operation::Hvc(_) => !it.is_inside(),
        Operation::Return(_) | Operation::Rfe(_) | Operation::Smc(_) => {
            !it.is_inside() || it.is_last()
        }
        _ => true,
    }
}

/// CPS, SETEND and hints (A6.2.5).
fn narrow(half: u16) -> Found {
    match half >> 4 {
        0xb64 | 0xb65 => {
            let right = half & 0b1_0111 == 0b1_0000;
            Some((Operation::SetEndianness(half & 0b1000 != 0), right))
        }
        0xb66 | 0xb67 => {
            // A, I and F are six bits lower than in A32.
            let rest = u32::from(half & 0b111) << 6;
            let enable = if half & 0b1_0000 == 0 { 0b10 } else { 0b11 };
            let (change, defined) = change_state(enable, false, rest);
            Some((Operation::Cps(change), defined && half & 0b1000 == 0))
        }
        0xbf0..=0xbff if half & 0xf == 0 => hint((half >> 4) as u8 & 0xf),
        _ => None,
    }
}

fn hint(number: u8) -> Found {
    let hint = match number {
        1 => Hint::Yield,
        2 => Hint::Wfe,
        3 => Hint::Wfi,
        4 => Hint::Sev,
        _ => return None,
    };
    Some((Operation::Hint(hint), true))
}

/// Both halfwords, the first one in the upper half.
#[bitfield(u32)]
struct WideWord {
    #[bits(4)]
    rm: Register,
    bit4: bool,
    bit5: bool,
    #[bits(2)]
    high: u8,
    #[bits(4)]
    middle: u8,
    #[bits(4)]
    rt: Register,
    #[bits(4)]
    rn: Register,
    load: bool,
    #[bits(2)]
    size: u8,
    positive: bool,
    signed: bool,
    #[bits(7)]
    group: u8,
}

impl WideWord {
    /// The second halfword.
    fn second(self) -> u16 {
        self.into_bits() as u16
    }

    /// The lowest byte.
    fn low(self) -> u8 {
        self.into_bits() as u8
    }
}

fn wide(word: WideWord) -> Found {
    let bits = word.into_bits();
    match bits >> 25 {
        0b111_0100 => multiple(MultipleWord::from_bits(bits)),
        0b111_1100 => single(word),
        0b111_0110 | 0b111_0111 | 0b111_1110 | 0b111_1111 => {
            let second_kind = bits & 1 << 28 != 0;
            let (found, right) = coprocessor::decode(bits, second_kind)?;
            Some((
                Operation::Coprocessor(found),
                right && found.is_defined_in_t32(),
            ))
        }
        0b111_1000..=0b111_1011 => control(word),
        _ => None,
    }
}

/// "Load/store multiple" (A6.3.5).
#[bitfield(u32)]
struct MultipleWord {
    #[bits(16)]
    list: u16,
    #[bits(4)]
    rn: Register,
    load: bool,
    write_back: bool,
    dual: bool,
    up: bool,
    before: bool,
    #[bits(7)]
    __: u8,
}

/// RFE and SRS. U and P are the same bit here, set for increment after and clear for decrement
/// before, unlike in A32.
fn multiple(word: MultipleWord) -> Found {
    if word.dual() || word.up() != word.before() {
        return None;
    }
    let exception = Exception {
        load: word.load(),
        rn: word.rn(),
        list: word.list(),
        direction: Direction {
            up: word.up(),
            before: !word.up(),
        },
        write_back: word.write_back(),
    };
    Some(exception.with_fixed(0xc000, 0xc000))
}

/// LDRT and the other unprivileged forms, and PLDW (A6.3.7 to A6.3.10).
fn single(word: WideWord) -> Found {
    if word.rn() == Register::PC || word.size() == 0b11 {
        return None;
    }
    let half = word.size() == 0b01 && word.load() && !word.signed() && word.rt() == Register::PC;
    match (word.positive(), word.middle()) {
        (false, 0b1110) => unprivileged(word),
        (true, _) if half => Some(preload(word, true, Index::Immediate(word.second() & 0xfff))),
        (false, 0b1100) if half => Some(preload(
            word,
            false,
            Index::Immediate(u16::from(word.low())),
        )),
        (false, 0b0000) if half && word.high() == 0 => {
            let amount = word.low() >> 4 & 0b11;
            let index = Index::Register(word.rm(), Shift::from_bits(0, amount));
            let (operation, _) = preload(word, true, index);
            Some((operation, usual(word.rm())))
        }
        _ => None,
    }
}

/// Whether the register is neither the stack pointer nor the PC, which T32 allows in few places
/// (A6.1.2).
fn usual(register: Register) -> bool {
    register != Register::SP && register != Register::PC
}

fn preload(word: WideWord, add: bool, index: Index) -> (Operation, bool) {
    (
        Operation::PreloadWrite(Preload {
            base: word.rn(),
            add,
            index,
        }),
        true,
    )
}

fn unprivileged(word: WideWord) -> Found {
    let width = Width::from_log2(word.size());
    if word.signed() && (!word.load() || width == Width::Word) {
        return None;
    }
    let access = Unprivileged {
        load: word.load(),
        width,
        sign_extend: word.signed(),
        register: word.rt(),
        base: word.rn(),
        add: true,
        index: Index::Immediate(u16::from(word.low())),
        post_index: false,
    };
    Some((Operation::Unprivileged(access), usual(word.rt())))
}

/// "Branches and miscellaneous control" (A6.3.4).
fn control(word: WideWord) -> Found {
    let second = word.second();
    let (system, any) = (second & 0xd000 == 0x8000, second & 0xf000 == 0x8000);
    match word.into_bits() >> 20 {
        0xf38 | 0xf39 if system => Some(msr(word)),
        0xf3a if system => change(word),
        0xf3d if system => Some(returns(word)),
        0xf3e | 0xf3f if system => Some(mrs(word)),
        0xf7e if any => {
            let immediate = word.second() & 0xfff | u16::from(word.rn().number()) << 12;
            Some((Operation::Hvc(immediate), true))
        }
        0xf7f if any => Some((Operation::Smc(word.rn().number()), second == 0x8000)),
        _ => None,
    }
}

/// R: whether the status register is an SPSR.
fn saved(word: WideWord) -> bool {
    word.load()
}

fn status(word: WideWord) -> Status {
    if saved(word) {
        Status::Saved
    } else {
        Status::Current
    }
}

fn banked(word: WideWord, low: u8) -> Banked {
    let system_mode = u8::from(word.bit4()) << 4 | low;
    Banked {
        saved_status: saved(word),
        system_mode,
    }
}

/// Whether the fixed bits of the second halfword, except bit 5, are as they should be.
fn fixed(word: WideWord) -> bool {
    let four = word.bit5() || !word.bit4();
    four && word.second() & 0x20cf == 0
}

fn msr(word: WideWord) -> (Operation, bool) {
    let right = fixed(word) && usual(word.rn());
    if word.bit5() {
        let banked = banked(word, word.middle());
        return (
            Operation::MsrBanked(banked, word.rn()),
            right && banked.is_defined(),
        );
    }
    let from = Operand::Register(word.rn(), Shift::NONE);
    let fields = Fields::from_bits(word.middle());
    (
        Operation::Msr(status(word), fields, from),
        right && word.middle() != 0,
    )
}

fn mrs(word: WideWord) -> (Operation, bool) {
    let to = Register::from_bits(word.middle());
    let right = fixed(word) && usual(to);
    if word.bit5() {
        let banked = banked(word, word.rn().number());
        return (
            Operation::MrsBanked(banked, to),
            right && banked.is_defined(),
        );
    }
    (
        Operation::Mrs(status(word), to),
        right && word.rn() == Register::PC,
    )
}

/// CPS; a hint if it would change nothing.
fn change(word: WideWord) -> Found {
    let second = word.second();
    let right = word.rn() == Register::PC && second & 0x2800 == 0;
    if second & 0x700 == 0 {
        let number = u8::try_from(second & 0xff).ok()?;
        return hint(number).map(|(hint, _)| (hint, right));
    }
    let rest = u32::from(second & 0xe0) << 1 | u32::from(second & 0x1f);
    let (change, defined) = change_state((second >> 9) as u8 & 0b11, second & 0x100 != 0, rest);
    Some((Operation::Cps(change), right && defined))
}

/// SUBS PC, LR, #constant. With a constant of zero it is also called ERET (B9.3.19, B9.3.3).
fn returns(word: WideWord) -> (Operation, bool) {
    let from = ReturnFrom::Data {
        operation: DataOperation::Sub,
        first: word.rn(),
        second: Operand::Immediate(u32::from(word.low())),
    };
    let right = word.rn() == Register::LR && word.second() & 0x2f00 == 0x0f00;
    (Operation::Return(Return { from }), right)
}
