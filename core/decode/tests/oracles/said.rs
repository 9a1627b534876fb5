//! What a decoder can say of an instruction, in comparable words.

use hanok_decode::{Addressing, Data, LoadStore, Transfer};
use hanok_types::Width;

/// A load or store as somebody reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Said {
    pub class: Class,
    pub load: bool,
    /// Bytes of one register's transfer; not said of structures.
    pub bytes: Option<u64>,
    pub sign_extend: bool,
    /// Whether the general registers have 64 bits.
    pub wide: Option<bool>,
    /// Registers in the order of the assembler.
    pub registers: [Option<Register>; 3],
    /// How many registers each of these stands for: two of CASP, one to four of structures.
    pub each: u8,
    /// Whether a lane of each is moved.
    pub lane: bool,
    pub address: Addressing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Register {
    General(u8),
    Vector(u8),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Class {
    Plain,
    Ordered,
    Unprivileged,
    Exclusive,
    Atomic,
    Structures,
}

/// A mnemonic of those that the decoder knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Name {
    pub class: Class,
    pub load: bool,
    pub sign_extend: bool,
    /// B, H and W say so; else the register does.
    pub bytes: Option<u64>,
}

const ATOMICS: [&str; 10] = [
    "ldadd", "ldclr", "ldeor", "ldset", "ldsmax", "ldsmin", "ldumax", "ldumin", "swp", "cas",
];

const EXCLUSIVES: [&str; 8] = [
    "stxr", "stlxr", "ldxr", "ldaxr", "stxp", "stlxp", "ldxp", "ldaxp",
];

/// Stems of what can be finished; one that another begins with comes first.
const TRANSFERS: [(&str, Class); 17] = [
    ("ldapur", Class::Ordered),
    ("ldapr", Class::Ordered),
    ("ldlar", Class::Ordered),
    ("ldar", Class::Ordered),
    ("stllr", Class::Ordered),
    ("stlur", Class::Ordered),
    ("stlr", Class::Ordered),
    ("ldtr", Class::Unprivileged),
    ("sttr", Class::Unprivileged),
    ("ldur", Class::Plain),
    ("stur", Class::Plain),
    ("ldr", Class::Plain),
    ("str", Class::Plain),
    ("ldnp", Class::Plain),
    ("stnp", Class::Plain),
    ("ldp", Class::Plain),
    ("stp", Class::Plain),
];

impl Name {
    /// Of a mnemonic in small letters; `None` of one that the decoder does not know.
    pub fn of(mnemonic: &str) -> Option<Self> {
        let load = mnemonic.starts_with("ld");
        let named = |class, load, suffix| Self::with_suffix(class, load, suffix);
        // LD1 to ST4, LD1R to LD4R; but ST2G stores memory tags.
        let after_two = mnemonic.strip_prefix("ld").or(mnemonic.strip_prefix("st"));
        if after_two.is_some_and(|rest| rest.starts_with(['1', '2', '3', '4'])) {
            return named(Class::Structures, load, "").filter(|_| !mnemonic.ends_with('g'));
        }
        if let Some(rest) = after(&ATOMICS, mnemonic) {
            let pair = mnemonic.starts_with("casp");
            let rest = rest.strip_prefix('p').filter(|_| pair).unwrap_or(rest);
            let rest = rest.strip_prefix('a').unwrap_or(rest);
            let rest = rest.strip_prefix('l').unwrap_or(rest);
            return named(Class::Atomic, false, rest).filter(|name| !name.sign_extend);
        }
        if let Some(rest) = after(&EXCLUSIVES, mnemonic) {
            return named(Class::Exclusive, load, rest);
        }
        let (stem, class) = TRANSFERS
            .iter()
            .find(|(stem, _)| mnemonic.starts_with(stem))?;
        named(*class, load, mnemonic.strip_prefix(stem)?)
    }

    fn with_suffix(class: Class, load: bool, suffix: &str) -> Option<Self> {
        let bytes = match suffix.trim_start_matches('s') {
            "b" => Some(1),
            "h" => Some(2),
            "w" => Some(4),
            "" if suffix.is_empty() => None,
            _ => return None,
        };
        Some(Self {
            class,
            load,
            sign_extend: suffix.starts_with('s'),
            bytes,
        })
    }
}

fn after<'a>(stems: &[&str], mnemonic: &'a str) -> Option<&'a str> {
    stems.iter().find_map(|stem| mnemonic.strip_prefix(stem))
}

impl Said {
    /// Of a mnemonic without its operands.
    pub fn of(name: Name) -> Self {
        Self {
            class: name.class,
            load: name.load,
            bytes: name.bytes,
            sign_extend: name.sign_extend,
            wide: None,
            registers: [None; 3],
            each: 1,
            lane: false,
            address: Addressing::Literal { offset: 0 },
        }
    }

    pub fn push(&mut self, register: Register) {
        let place = self.registers.iter_mut().find(|place| place.is_none());
        *place.expect("no more than three registers") = Some(register);
    }

    /// Completes what follows from the operands; `None` of the forms with FEAT_LRCPC3, which
    /// share the names of those without: SIMD registers, and write-back.
    pub fn finish(mut self) -> Option<Self> {
        if self.class == Class::Structures {
            self.address = structure_address(&self.address)?;
            return Some(self);
        }
        let offset = matches!(self.address, Addressing::Offset { .. });
        let vector = matches!(self.registers[0], Some(Register::Vector(_)));
        if self.class == Class::Ordered && (vector || !offset) {
            return None;
        }
        let by_register = if self.wide == Some(true) { 8 } else { 4 };
        self.bytes = self.bytes.or(Some(by_register));
        Some(self)
    }

    /// What our decoder makes of `decoded`.
    pub fn ours(decoded: &LoadStore) -> Self {
        let name = |class, load| Name {
            class,
            load,
            sign_extend: false,
            bytes: None,
        };
        match decoded {
            LoadStore::Transfer(transfer) => of_transfer(transfer),
            LoadStore::Exclusive(exclusive) => {
                let mut said = Self::of(name(Class::Exclusive, exclusive.load));
                let registers = [exclusive.status, Some(exclusive.register), exclusive.second];
                said.general(exclusive.width, registers, exclusive.base);
                said
            }
            LoadStore::Atomic(atomic) => {
                let mut said = Self::of(name(Class::Atomic, false));
                let registers = [Some(atomic.operand), Some(atomic.target), None];
                said.general(atomic.width, registers, atomic.base);
                said.each = 1 + u8::from(atomic.pair);
                said
            }
            LoadStore::Structures(structures) => {
                let mut said = Self::of(name(Class::Structures, structures.load));
                said.push(Register::Vector(structures.first));
                said.each = structures.registers;
                said.lane = structures.lane;
                let base = structures.base;
                said.address = if structures.write_back {
                    Addressing::PostIndex { base, offset: 0 }
                } else {
                    Addressing::Offset { base, offset: 0 }
                };
                said
            }
        }
    }

    fn general(&mut self, width: Width, registers: [Option<u8>; 3], base: u8) {
        self.bytes = Some(width.bytes());
        self.wide = Some(width == Width::Double);
        registers
            .into_iter()
            .flatten()
            .for_each(|register| self.push(Register::General(register)));
        self.address = Addressing::Offset { base, offset: 0 };
    }
}

/// By how much a structure's base grows is not decoded.
fn structure_address(address: &Addressing) -> Option<Addressing> {
    match *address {
        Addressing::Offset { base, .. } => Some(Addressing::Offset { base, offset: 0 }),
        Addressing::PostIndex { base, .. } => Some(Addressing::PostIndex { base, offset: 0 }),
        _ => None,
    }
}

fn of_transfer(transfer: &Transfer) -> Said {
    let class = match (transfer.ordered, transfer.unprivileged) {
        (true, false) => Class::Ordered,
        (false, true) => Class::Unprivileged,
        (false, false) => Class::Plain,
        (true, true) => panic!("there is no such instruction"),
    };
    let (sign_extend, wide) = match transfer.data {
        Data::General(general) => (general.sign_extend, Some(general.wide)),
        Data::Vector(_) => (false, None),
    };
    let mut said = Said::of(Name {
        class,
        load: transfer.load,
        sign_extend,
        bytes: Some(transfer.data.bytes()),
    });
    said.wide = wide;
    for register in [Some(transfer.register), transfer.second]
        .into_iter()
        .flatten()
    {
        said.push(match transfer.data {
            Data::General(_) => Register::General(register),
            Data::Vector(_) => Register::Vector(register),
        });
    }
    said.address = transfer.address;
    said
}
