//! Sensitive A32 words of the unconditional space (DDI 0406C A5.7), and CPS of both instruction
//! sets.

use super::operation::{ChangeState, Index, Operation, Preload};
use super::words::{Exception, Found};
use crate::aarch32::registers::Register;
use crate::aarch32::words::{BlockWord, TransferWord};
use bitfield_struct::bitfield;

/// Decodes the unconditional space without coprocessor instructions (A5.7).
pub(super) fn decode(word: u32) -> Found {
    match word >> 20 & 0xff {
        0x10 => change(word),
        0x51 | 0x59 | 0x71 | 0x79 => preload(TransferWord::from_bits(word)),
        0x80..=0x9f => exception(BlockWord::from_bits(word)),
        _ => None,
    }
}

/// The fields of CPS.
#[bitfield(u32)]
struct ChangeWord {
    #[bits(5)]
    mode: u8,
    bit5: bool,
    fiqs: bool,
    irqs: bool,
    aborts: bool,
    big: bool,
    #[bits(6)]
    zero: u8,
    bit16: bool,
    changes_mode: bool,
    #[bits(2)]
    enable: u8,
    #[bits(12)]
    __: u16,
}

/// CPS and SETEND (B9.3.2; A8.8, SETEND).
fn change(word: u32) -> Found {
    let fields = ChangeWord::from_bits(word);
    if fields.bit16() {
        let right = word & 0x000e_fd0f == 0;
        let found = word & 0xf0 == 0;
        return found.then_some((Operation::SetEndianness(fields.big()), right));
    }
    let right = fields.zero() == 0 && !fields.big();
    (!fields.bit5()).then(|| {
        let (change, defined) = change_state(fields.enable(), fields.changes_mode(), word);
        (Operation::Cps(change), right && defined)
    })
}

/// The operands of CPS: imod is `enable`, M is `with_mode`, and the low bits of `rest` hold A (bit
/// 8), I, F and the mode.
pub(super) fn change_state(enable: u8, with_mode: bool, rest: u32) -> (ChangeState, bool) {
    let fields = ChangeWord::from_bits(rest);
    let (aborts, irqs, fiqs) = (fields.aborts(), fields.irqs(), fields.fiqs());
    let change = ChangeState {
        enable: (enable & 0b10 != 0).then_some(enable == 0b10),
        aborts,
        irqs,
        fiqs,
        mode: with_mode.then_some(fields.mode()),
    };
    let any = aborts || irqs || fiqs;
    let defined = match enable {
        0b00 => with_mode && !any,
        0b01 => false,
        _ => any && (with_mode || fields.mode() == 0),
    };
    (change, defined)
}

/// PLDW with a constant or a register (A8.8, PLD).
fn preload(word: TransferWord) -> Found {
    if word.by_register() && word.bit4() {
        return None;
    }
    let index = word.single_index();
    let preload = Preload {
        base: word.rn(),
        add: word.add(),
        index,
    };
    let right = word.rt() == Register::PC && word.rn() != Register::PC;
    let register = !matches!(index, Index::Register(Register::PC, _));
    Some((Operation::PreloadWrite(preload), right && register))
}

/// RFE and SRS. RFE is the load without a caret, SRS the store with one.
fn exception(word: BlockWord) -> Found {
    if word.load() == word.caret() {
        return None;
    }
    let exception = Exception {
        load: word.load(),
        rn: word.rn(),
        list: word.list(),
        direction: word.direction(),
        write_back: word.write_back(),
    };
    Some(exception.with_fixed(0x0a00, 0x0500))
}
