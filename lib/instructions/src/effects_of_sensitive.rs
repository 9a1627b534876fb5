//! What a sensitive instruction reads and writes.

use crate::effects::{Effects, Flags};
use hanok_decode::aarch32::{
    Access, Block, Coprocessor, Index, Operand, Operation, Register, Registers, Return, ReturnFrom,
    Sensitive, ShiftKind, Status, Unprivileged,
};

/// R8 to R14, of which another mode may have its own (DDI 0406C B1.3.2).
const BANKED: Registers = Registers::from_bits(0x7f00);
/// R0 to R7, which all modes share.
const SHARED: Registers = Registers::from_bits(0x00ff);

/// What a sensitive instruction reads and writes in a privileged mode.
pub fn effects(sensitive: &Sensitive) -> Effects {
    let condition = Flags::read_by(sensitive.condition);
    of_operation(&sensitive.operation).reading_flags(condition)
}

/// What it reads and writes in a privileged mode, but for the flags of its condition.
fn of_operation(operation: &Operation) -> Effects {
    let none = Effects::NONE;
    let control = Flags::new().with_control(true);
    match operation {
        Operation::Cps(change) if change.mode.is_some() => {
            none.perhaps_writing_flags(control).perhaps_writing(BANKED)
        }
        Operation::Cps(_) => none.perhaps_writing_flags(control),
        Operation::Mrs(Status::Current, to) => none.reading_flags(Flags::ALL).setting(to.set()),
        Operation::Mrs(Status::Saved, to) | Operation::MrsBanked(_, to) => none.setting(to.set()),
        Operation::Msr(Status::Saved, _, from) => operand(*from),
        Operation::Msr(Status::Current, fields, from) => {
            let mut all = operand(*from);
            if fields.flags() {
                all = all.setting_flags(Flags::NZCV.with_q(true));
            }
            if fields.status() {
                all = all.setting_flags(Flags::new().with_ge(true));
            }
            if fields.extension() {
                all = all.perhaps_writing_flags(control.with_e(true));
            }
            if fields.control() {
                all = all.perhaps_writing_flags(control).perhaps_writing(BANKED);
            }
            all
        }
        Operation::MsrBanked(_, from) => none.reading(from.set()),
        Operation::Unprivileged(access) => unprivileged(access),
        Operation::Return(back) => returns(back),
        Operation::Block(transfer) => block(transfer),
        Operation::Rfe(pair) => {
            let base = pair.base.set();
            let moved = if pair.write_back {
                base
            } else {
                Registers::NONE
            };
            leaving(none.reading(base).setting(moved))
        }
        Operation::Srs(store) => {
            let stack = Register::SP.set();
            let moved = if store.write_back {
                stack
            } else {
                Registers::NONE
            };
            none.reading(Register::LR.set().with(stack))
                .perhaps_writing(moved)
        }
        Operation::Smc(_) | Operation::Hvc(_) => Effects::UNKNOWN,
        Operation::Coprocessor(coprocessor) => self::coprocessor(coprocessor),
        Operation::Hint(_) => none,
        Operation::SetEndianness(_) => none.setting_flags(Flags::new().with_e(true)),
        Operation::PreloadWrite(preload) => index(preload.index).reading(preload.base.set()),
    }
}

/// The effects of an instruction that goes on in another mode, with another CPSR.
fn leaving(effects: Effects) -> Effects {
    effects
        .setting(Register::PC.set())
        .perhaps_writing(BANKED)
        .setting_flags(Flags::ALL)
}

fn operand(operand: Operand) -> Effects {
    match operand {
        Operand::Immediate(_) => Effects::NONE,
        Operand::Register(register, shift) => {
            let carry = Flags::new().with_c(matches!(shift.kind, ShiftKind::Rrx));
            Effects::NONE.reading(register.set()).reading_flags(carry)
        }
    }
}

/// The register in an address, and the carry if that is shifted in.
fn index(index: Index) -> Effects {
    match index {
        Index::Immediate(_) => Effects::NONE,
        Index::Register(register, shift) => operand(Operand::Register(register, shift)),
    }
}

fn unprivileged(access: &Unprivileged) -> Effects {
    let base = access.base.set();
    let moved = if access.post_index {
        base
    } else {
        Registers::NONE
    };
    let address = index(access.index).reading(base).setting(moved);
    if access.load {
        address.setting(access.register.set())
    } else {
        address.reading(access.register.set())
    }
}

fn returns(back: &Return) -> Effects {
    let ReturnFrom::Data {
        operation,
        first,
        second,
    } = back.from
    else {
        // It reads LR: ELR_hyp belongs to the Virtualization Extensions (DDI 0406C B9.3.3).
        return leaving(Effects::NONE.reading(Register::LR.set()));
    };
    let mut all = operand(second);
    if operation.has_first() {
        all = all.reading(first.set());
    }
    if operation.reads_carry() {
        all = all.reading_flags(Flags::new().with_c(true));
    }
    leaving(all)
}

/// Registers of User mode are not this mode's registers, where this mode has its own. Which ones
/// those are depends on the mode, which is not known here.
fn block(block: &Block) -> Effects {
    let base = block.base.set();
    let moved = if block.write_back {
        base
    } else {
        Registers::NONE
    };
    let all = Effects::NONE.reading(base).setting(moved);
    match (block.load, block.is_return()) {
        (true, true) => leaving(all.setting(block.registers)),
        (true, false) => all
            .setting(block.registers.common(SHARED))
            .perhaps_writing(block.registers),
        (false, _) => all.reading(block.registers),
    }
}

/// What it reads and writes of core registers and flags.
fn coprocessor(coprocessor: &Coprocessor) -> Effects {
    let none = Effects::NONE;
    match coprocessor.access {
        Access::Operation { .. } => none,
        Access::Register {
            read: true,
            register: Register::PC,
            ..
        } => none.setting_flags(Flags::NZCV),
        Access::Register {
            read: true,
            register,
            ..
        } => none.setting(register.set()),
        Access::Register {
            read: false,
            register,
            ..
        } => none.reading(register.set()),
        Access::Pair {
            read,
            registers: [first, second],
            ..
        } => {
            let both = first.set().with(second.set());
            if read {
                none.setting(both)
            } else {
                none.reading(both)
            }
        }
        Access::Memory(transfer) => {
            let base = transfer.base.set();
            let written = if transfer.write_back {
                base
            } else {
                Registers::NONE
            };
            none.reading(base).setting(written)
        }
    }
}
