//! The parts of an instruction from which both instruction sets' decoders put their results
//! together.

use crate::effects::{Effects, Flags};
use crate::effects_of_sensitive;
use crate::instruction::{Definition, Exception, Flow, Reference, Relative, Table, TableKind, Use};
use hanok_decode::aarch32::{Access, Operation, Sensitive, Shift, ShiftKind};
use hanok_decode::aarch32::{Register, Registers};

/// An instruction without its encoding and its condition.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub definition: Definition,
    pub flow: Flow,
    pub reference: Option<Reference>,
    pub effects: Effects,
}

impl Parts {
    /// An instruction with these effects that goes on behind itself.
    pub const fn of(effects: Effects) -> Self {
        Self {
            definition: Definition::Defined,
            flow: Flow::Next,
            reference: None,
            effects,
        }
    }

    /// An instruction that reads `from` and gives `to` a new value.
    pub const fn compute(to: Register, from: Registers) -> Self {
        Self::of(Effects::NONE.reading(from).setting(to.set()))
    }

    /// A word that is no instruction of ARMv7-A.
    pub const UNDEFINED: Self = Self {
        definition: Definition::Undefined,
        flow: Flow::Exception(Exception::Undefined),
        reference: None,
        effects: Effects::UNKNOWN,
    };

    /// An instruction whose behaviour the architecture does not define.
    pub const UNPREDICTABLE: Self = Self {
        definition: Definition::Unpredictable,
        flow: Flow::Next,
        reference: None,
        effects: Effects::UNKNOWN,
    };

    pub const fn going(self, flow: Flow) -> Self {
        Self { flow, ..self }
    }

    /// It writes the PC, and execution goes there.
    pub const fn leaving(self, flow: Flow) -> Self {
        let effects = self.effects.setting(Register::PC.set());
        Self {
            flow,
            effects,
            ..self
        }
    }

    pub const fn naming(self, used: Use, at: Relative) -> Self {
        Self {
            reference: Some(Reference { used, at }),
            ..self
        }
    }

    pub const fn perhaps_saturating(self) -> Self {
        let effects = self
            .effects
            .perhaps_writing_flags(Flags::new().with_q(true));
        Self { effects, ..self }
    }

    /// Makes it UNPREDICTABLE unless `holds`. Its effects are kept in that case and may be wrong;
    /// they are not replaced by unknown ones.
    pub const fn provided(self, holds: bool) -> Self {
        if holds {
            self
        } else {
            Self {
                definition: Definition::Unpredictable,
                ..self
            }
        }
    }

    /// The parts of a sensitive instruction; `pipeline` is the distance from the instruction to its
    /// PC.
    pub fn sensitive(found: &Sensitive, pipeline: i32) -> Self {
        let flow = match found.operation {
            Operation::Return(_) | Operation::Rfe(_) => Flow::Return,
            Operation::Block(block) if block.is_return() => Flow::Return,
            Operation::Smc(_) => Flow::Exception(Exception::Monitor),
            Operation::Hvc(_) => Flow::Exception(Exception::Hypervisor),
            _ => Flow::Next,
        };
        let parts = Self::of(effects_of_sensitive::effects(found))
            .going(flow)
            .provided(found.as_it_should_be);
        match transfer_place(found, pipeline) {
            Some((used, at)) => parts.naming(used, at),
            None => parts,
        }
    }
}

/// The word that LDC or STC names by the PC.
fn transfer_place(found: &Sensitive, pipeline: i32) -> Option<(Use, Relative)> {
    let Operation::Coprocessor(coprocessor) = found.operation else {
        return None;
    };
    let Access::Memory(transfer) = coprocessor.access else {
        return None;
    };
    if transfer.base != Register::PC || transfer.write_back || !transfer.before {
        return None;
    }
    let distance = i32::from(transfer.words) * 4;
    let offset = pipeline + if transfer.add { distance } else { -distance };
    let used = if transfer.load {
        Use::Load(4)
    } else {
        Use::Store(4)
    };
    Some((
        used,
        Relative {
            offset,
            aligned: true,
        },
    ))
}

/// What a shift or a constant does to the carry (DDI 0406C A5.2.4, A8.4.3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Carry {
    Stays,
    Perhaps,
    Written,
}

/// A second operand, as far as the effects depend on it.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub reads: Registers,
    pub carry: Carry,
    /// Whether the carry is shifted in (RRX).
    pub carry_in: bool,
}

impl Source {
    /// A constant. A rotated one puts its top bit into the carry.
    pub const fn constant(rotated: bool) -> Self {
        let carry = if rotated {
            Carry::Written
        } else {
            Carry::Stays
        };
        Self {
            reads: Registers::NONE,
            carry,
            carry_in: false,
        }
    }

    /// A register, shifted by a constant.
    pub const fn shifted(register: Register, shift: Shift) -> Self {
        let carry = if shift.is_none() {
            Carry::Stays
        } else {
            Carry::Written
        };
        let carry_in = matches!(shift.kind, ShiftKind::Rrx);
        Self {
            reads: register.set(),
            carry,
            carry_in,
        }
    }

    /// A register, shifted by another one, which may be zero.
    pub const fn shifted_by(register: Register, by: Register) -> Self {
        let reads = register.set().with(by.set());
        Self {
            reads,
            carry: Carry::Perhaps,
            carry_in: false,
        }
    }
}

/// A data-processing instruction.
#[derive(Clone, Copy)]
pub(super) struct Data {
    pub to: Option<Register>,
    pub first: Option<Register>,
    pub second: Source,
    /// Whether it adds or subtracts, and so writes C and V.
    pub arithmetic: bool,
    pub carry_in: bool,
    pub set_flags: bool,
}

impl Data {
    pub fn effects(self) -> Effects {
        let registers = |one: Option<Register>| one.map_or(Registers::NONE, Register::set);
        let carry_in = Flags::new().with_c(self.carry_in || self.second.carry_in);
        let all = Effects::NONE
            .reading(registers(self.first).with(self.second.reads))
            .setting(registers(self.to))
            .reading_flags(carry_in);
        let carry = Flags::new().with_c(true);
        match (self.set_flags, self.arithmetic, self.second.carry) {
            (false, ..) => all,
            (true, true, _) => all.setting_flags(Flags::NZCV),
            (true, false, Carry::Stays) => all.setting_flags(Flags::NZ),
            (true, false, Carry::Perhaps) => {
                all.setting_flags(Flags::NZ).perhaps_writing_flags(carry)
            }
            (true, false, Carry::Written) => all.setting_flags(Flags::NZC),
        }
    }
}

/// A load or store of core registers.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub load: bool,
    pub registers: Registers,
    pub base: Register,
    /// The registers that are added to the base.
    pub index: Registers,
    pub write_back: bool,
}

impl Memory {
    pub fn effects(self) -> Effects {
        let base = self.base.set();
        let all = Effects::NONE.reading(base.with(self.index));
        let all = if self.write_back {
            all.setting(base)
        } else {
            all
        };
        if self.load {
            all.setting(self.registers)
        } else {
            all.reading(self.registers)
        }
    }

    /// If the PC is loaded, execution goes to the loaded address.
    pub fn parts(self) -> Parts {
        let parts = Parts::of(self.effects());
        let branches = self.load && self.registers.contains(Register::PC);
        if branches {
            parts.going(Flow::Loaded)
        } else {
            parts
        }
    }
}

/// `ldr pc, [base, index, lsl #2]`; `at` is the table's place if the base is the PC.
pub(super) fn address_table(base: Register, index: Register, at: Relative) -> Flow {
    let at = (base == Register::PC).then_some(at);
    Flow::Table(Table {
        kind: TableKind::Addresses,
        base,
        index,
        shift: 2,
        at,
    })
}
