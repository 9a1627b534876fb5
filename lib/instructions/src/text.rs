//! Sensitive instructions in the assembly language (UAL, DDI 0406C A8.2), for people to read: in
//! small letters, with decimal numbers.

use crate::name::mnemonic;
use core::fmt::{self, Display, Formatter, Write};
use hanok_decode::aarch32::{
    Access, Banked, Block, ChangeState, Condition, Coprocessor, Direction, Fields, Index, Operand,
    Operation, Preload, Register, Registers, Return, ReturnFrom, Sensitive, Shift, ShiftKind,
    Status, Transfer, Unprivileged,
};

/// Writes its content in the assembly language.
#[derive(Clone, Copy, Debug)]
pub struct Text<T>(pub T);

impl Display for Text<&Sensitive> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Sensitive {
            operation,
            condition,
            ..
        } = self.0;
        for letter in mnemonic(operation).chars() {
            f.write_char(letter.to_ascii_lowercase())?;
        }
        suffix(f, operation)?;
        write!(f, "{}", Text(*condition))?;
        operands(f, operation)
    }
}

impl Display for Text<Condition> {
    /// The two letters at a mnemonic's end; nothing for "always".
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Condition::Eq => "eq",
            Condition::Ne => "ne",
            Condition::Cs => "hs",
            Condition::Cc => "lo",
            Condition::Mi => "mi",
            Condition::Pl => "pl",
            Condition::Vs => "vs",
            Condition::Vc => "vc",
            Condition::Hi => "hi",
            Condition::Ls => "ls",
            Condition::Ge => "ge",
            Condition::Lt => "lt",
            Condition::Gt => "gt",
            Condition::Le => "le",
            Condition::Always => "",
        })
    }
}

/// Writes what belongs to the mnemonic.
fn suffix(f: &mut Formatter<'_>, operation: &Operation) -> fmt::Result {
    f.write_str(match operation {
        Operation::Cps(ChangeState {
            enable: Some(true), ..
        }) => "ie",
        Operation::Cps(ChangeState {
            enable: Some(false),
            ..
        }) => "id",
        // "Increment after" of LDM and STM is not written.
        Operation::Block(Block {
            direction:
                Direction {
                    up: true,
                    before: false,
                },
            ..
        }) => "",
        Operation::Block(block) => direction(block.direction),
        Operation::Rfe(pair) => direction(pair.direction),
        Operation::Srs(store) => direction(store.direction),
        Operation::Coprocessor(Coprocessor {
            access: Access::Memory(transfer),
            ..
        }) if transfer.long => "l",
        _ => "",
    })
}

const fn direction(direction: Direction) -> &'static str {
    match (direction.up, direction.before) {
        (true, false) => "ia",
        (true, true) => "ib",
        (false, false) => "da",
        (false, true) => "db",
    }
}

const fn moved(write_back: bool) -> &'static str {
    if write_back { "!" } else { "" }
}

fn operands(f: &mut Formatter<'_>, operation: &Operation) -> fmt::Result {
    match operation {
        Operation::Cps(change) => change_state(f, change),
        Operation::Mrs(Status::Current, to) => write!(f, " {to}, cpsr"),
        Operation::Mrs(Status::Saved, to) => write!(f, " {to}, spsr"),
        Operation::Msr(status, fields, from) => {
            let name = if *status == Status::Current {
                "cpsr"
            } else {
                "spsr"
            };
            write!(f, " {name}_{}, {}", Letters(*fields), Text(*from))
        }
        Operation::MrsBanked(banked, to) => write!(f, " {to}, {}", Text(*banked)),
        Operation::MsrBanked(banked, from) => write!(f, " {}, {from}", Text(*banked)),
        Operation::Unprivileged(access) => unprivileged(f, access),
        Operation::Return(back) => returns(f, back),
        Operation::Block(block) => {
            let back = moved(block.write_back);
            write!(f, " {}{back}, {} ^", block.base, Text(block.registers))
        }
        Operation::Rfe(pair) => write!(f, " {}{}", pair.base, moved(pair.write_back)),
        Operation::Srs(store) => write!(f, " sp{}, #{}", moved(store.write_back), store.mode),
        Operation::Smc(number) => write!(f, " #{number}"),
        Operation::Hvc(number) => write!(f, " #{number}"),
        Operation::Coprocessor(coprocessor) => self::coprocessor(f, coprocessor),
        Operation::Hint(_) => Ok(()),
        Operation::SetEndianness(big) => f.write_str(if *big { " be" } else { " le" }),
        Operation::PreloadWrite(preload) => self::preload(f, preload),
    }
}

fn change_state(f: &mut Formatter<'_>, change: &ChangeState) -> fmt::Result {
    let named = [(change.aborts, 'a'), (change.irqs, 'i'), (change.fiqs, 'f')];
    let any = named.iter().any(|(set, _)| *set);
    if any {
        f.write_char(' ')?;
    }
    for (_, letter) in named.into_iter().filter(|(set, _)| *set) {
        f.write_char(letter)?;
    }
    match change.mode {
        Some(mode) if any => write!(f, ", #{mode}"),
        Some(mode) => write!(f, " #{mode}"),
        None => Ok(()),
    }
}

/// The fields of a status register, as MSR names them.
struct Letters(Fields);

impl Display for Letters {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(fields) = self;
        let all = [
            (fields.flags(), 'f'),
            (fields.status(), 's'),
            (fields.extension(), 'x'),
            (fields.control(), 'c'),
        ];
        let mut set = all.into_iter().filter(|(set, _)| *set);
        set.try_for_each(|(_, letter)| f.write_char(letter))
    }
}

impl Display for Text<Banked> {
    /// The register's name in MRS and MSR, such as `r8_usr` or `spsr_irq`; a reserved one by its
    /// number.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mode = self.0.system_mode;
        if !self.0.is_defined() {
            return write!(f, "banked_{mode}");
        }
        let owner = match mode {
            0..=7 => "usr",
            8..=15 => "fiq",
            16 | 17 => "irq",
            18 | 19 => "svc",
            20 | 21 => "abt",
            22 | 23 => "und",
            28 | 29 => "mon",
            _ => "hyp",
        };
        match (self.0.saved_status, mode) {
            (true, _) => write!(f, "spsr_{owner}"),
            (_, 0..=4 | 8..=12) => write!(f, "r{}_{owner}", 8 + (mode & 7)),
            (_, 5 | 13) => write!(f, "sp_{owner}"),
            (_, 30) => write!(f, "elr_{owner}"),
            (_, 17 | 19 | 21 | 23 | 29 | 31) => write!(f, "sp_{owner}"),
            _ => write!(f, "lr_{owner}"),
        }
    }
}

impl Display for Text<Registers> {
    /// Writes the list as in `{r0, r1, pc}`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        for (index, register) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{register}")?;
        }
        f.write_char('}')
    }
}

impl Display for Text<Shift> {
    /// Writes `, lsl #2` behind a register; nothing for no shift.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = match self.0.kind {
            _ if self.0.is_none() => return Ok(()),
            ShiftKind::Rrx => return f.write_str(", rrx"),
            ShiftKind::Lsl => "lsl",
            ShiftKind::Lsr => "lsr",
            ShiftKind::Asr => "asr",
            ShiftKind::Ror => "ror",
        };
        write!(f, ", {name} #{}", self.0.amount)
    }
}

impl Display for Text<Operand> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Operand::Immediate(constant) => write!(f, "#{constant}"),
            Operand::Register(register, shift) => write!(f, "{register}{}", Text(shift)),
        }
    }
}

/// An index with its sign: whether it is added to a base, or subtracted.
struct Signed(bool, Index);

impl Display for Signed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let minus = if self.0 { "" } else { "-" };
        match self.1 {
            Index::Immediate(bytes) => write!(f, "#{minus}{bytes}"),
            Index::Register(register, shift) => write!(f, "{minus}{register}{}", Text(shift)),
        }
    }
}

fn unprivileged(f: &mut Formatter<'_>, access: &Unprivileged) -> fmt::Result {
    let Unprivileged { register, base, .. } = access;
    let index = Signed(access.add, access.index);
    if access.post_index {
        write!(f, " {register}, [{base}], {index}")
    } else if access.index == Index::Immediate(0) {
        write!(f, " {register}, [{base}]")
    } else {
        write!(f, " {register}, [{base}, {index}]")
    }
}

fn returns(f: &mut Formatter<'_>, back: &Return) -> fmt::Result {
    let ReturnFrom::Data {
        operation,
        first,
        second,
    } = back.from
    else {
        return Ok(());
    };
    f.write_str(" pc, ")?;
    if operation.has_first() {
        write!(f, "{first}, ")?;
    }
    match second {
        // The mnemonic names MOV's shift, and RRX has no amount.
        Operand::Register(register, shift) if !operation.has_first() && is_mov(back) => {
            write!(f, "{register}")?;
            match shift.kind {
                ShiftKind::Rrx => Ok(()),
                _ if shift.is_none() => Ok(()),
                _ => write!(f, ", #{}", shift.amount),
            }
        }
        _ => write!(f, "{}", Text(second)),
    }
}

fn is_mov(back: &Return) -> bool {
    use hanok_decode::aarch32::DataOperation::Mov;
    matches!(back.from, ReturnFrom::Data { operation: Mov, .. })
}

fn preload(f: &mut Formatter<'_>, preload: &Preload) -> fmt::Result {
    let Preload { base, add, index } = *preload;
    match index {
        Index::Immediate(0) if add => write!(f, " [{base}]"),
        _ => write!(f, " [{base}, {}]", Signed(add, index)),
    }
}

fn coprocessor(f: &mut Formatter<'_>, coprocessor: &Coprocessor) -> fmt::Result {
    let number = coprocessor.number;
    match coprocessor.access {
        Access::Operation {
            opc1,
            crn,
            crm,
            opc2,
            crd,
        } => {
            write!(f, " p{number}, #{opc1}, c{crd}, c{crn}, c{crm}, #{opc2}")
        }
        Access::Register {
            crn,
            register,
            read,
            ..
        } if number == 10 => vfp(f, crn, register, read),
        Access::Register {
            opc1,
            crn,
            crm,
            opc2,
            register,
            read,
        } => {
            let flags = read && register == Register::PC;
            let to: &dyn Display = if flags { &"apsr_nzcv" } else { &register };
            write!(f, " p{number}, #{opc1}, {to}, c{crn}, c{crm}, #{opc2}")
        }
        Access::Pair {
            opc1,
            crm,
            registers: [first, second],
            ..
        } => {
            write!(f, " p{number}, #{opc1}, {first}, {second}, c{crm}")
        }
        Access::Memory(transfer) => {
            write!(f, " p{number}, c{}, ", transfer.crd)?;
            self::transfer(f, &transfer)
        }
    }
}

/// VMRS and VMSR.
fn vfp(f: &mut Formatter<'_>, system: u8, register: Register, read: bool) -> fmt::Result {
    let name = match system {
        0 => "fpsid",
        6 => "mvfr1",
        7 => "mvfr0",
        8 => "fpexc",
        9 => "fpinst",
        10 => "fpinst2",
        _ => "reserved",
    };
    if read {
        write!(f, " {register}, {name}")
    } else {
        write!(f, " {name}, {register}")
    }
}

fn transfer(f: &mut Formatter<'_>, transfer: &Transfer) -> fmt::Result {
    let base = transfer.base;
    let index = Signed(
        transfer.add,
        Index::Immediate(u16::from(transfer.words) * 4),
    );
    match (transfer.before, transfer.write_back) {
        (false, false) => write!(f, "[{base}], {{{}}}", transfer.words),
        (false, true) => write!(f, "[{base}], {index}"),
        (true, false) if transfer.words == 0 && transfer.add => write!(f, "[{base}]"),
        (true, _) => write!(f, "[{base}, {index}]{}", moved(transfer.write_back)),
    }
}
