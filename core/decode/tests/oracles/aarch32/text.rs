//! LLVM's text of an instruction, taken apart.

use crate::llvm::{Machine, dump};
use hanok_decode::aarch32::{Condition, Encoding, Isa, ItState, Register, Registers};

const EXTENSIONS: &str = "+vfp4,+neon,+d32,+virtualization,+trustzone,+mp,+hwdiv-arm,+hwdiv,+dsp";

const fn machine(isa: Isa) -> Machine {
    Machine {
        format: "elf32-littlearm",
        triple: match isa {
            Isa::A32 => "armv7a",
            Isa::T32 => "thumbv7a",
        },
        extensions: EXTENSIONS,
    }
}

/// Where instructions stand that are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum InstructionSite {
    A32,
    T32,
    /// Alone in an IT block: IT EQ.
    Block,
}

impl InstructionSite {
    fn isa(self) -> Isa {
        if self == Self::A32 {
            Isa::A32
        } else {
            Isa::T32
        }
    }

    /// Bytes between two that are asked for: behind one of T32 stand NOPs, so that one that LLVM
    /// does not know takes nothing of the next.
    fn distance(self) -> usize {
        if self == Self::A32 { 4 } else { 8 }
    }

    /// The address of the one with this index.
    pub fn address(self, index: usize) -> usize {
        index * self.distance() + if self == Self::Block { 2 } else { 0 }
    }

    pub fn it(self) -> ItState {
        let block = if self == Self::Block { IT_EQ as u8 } else { 0 };
        ItState::from_bits(block)
    }

    fn bytes(self, encoding: Encoding) -> Vec<u8> {
        let (first, second) = match encoding {
            Encoding::A32(word) => return word.to_le_bytes().to_vec(),
            Encoding::Narrow(half) => (half, NOP),
            Encoding::Wide(both) => ((both >> 16) as u16, both as u16),
        };
        let halves = match self {
            Self::Block => [IT_EQ, first, second, NOP],
            _ => [first, second, NOP, NOP],
        };
        halves.into_iter().flat_map(u16::to_le_bytes).collect()
    }
}

const NOP: u16 = 0xbf00;
const IT_EQ: u16 = 0xbf08;

/// The text of each; `None` where there is no such instruction.
pub fn disassemble(place: InstructionSite, encodings: &[Encoding]) -> Vec<Option<String>> {
    let code: Vec<u8> = encodings.iter().flat_map(|one| place.bytes(*one)).collect();
    let text = dump(&code, &machine(place.isa()));
    let mut all = vec![None; encodings.len()];
    let mut seen = 0;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    for (address, line) in lines {
        let Ok(address) = usize::from_str_radix(address.trim(), 16) else {
            continue;
        };
        let index = address / place.distance();
        if address == place.address(index) {
            seen += 1;
            let known = !line.contains("<unknown>");
            all[index] = known.then(|| line.trim().to_owned());
        }
    }
    assert_eq!(seen, encodings.len(), "llvm-objdump left some out");
    all
}

/// Names that can have an S.
const FLAGGED: [&str; 23] = [
    "and", "eor", "sub", "rsb", "add", "adc", "sbc", "rsc", "orr", "orn", "mov", "bic", "mvn",
    "lsl", "lsr", "asr", "ror", "rrx", "mul", "mla", "umull", "smull", "umlal",
];

const CONDITIONS: [&str; 14] = [
    "eq", "ne", "hs", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le",
];

/// Names that end as if they had a condition or an S.
const WHOLE: [&str; 22] = [
    "teq", "svc", "hvc", "mls", "smmls", "smmlsr", "srsia", "srsib", "srsda", "srsdb", "cps",
    "setend", "smlal", "pls", "vmls", "vnmls", "vcls", "vqdmlal", "vmlal", "umaal", "sel", "vfms",
];

/// An instruction's text.
#[derive(Debug)]
pub struct Text {
    /// The name without condition, S and width.
    pub name: String,
    /// Whether it has an S.
    pub sets_flags: bool,
    /// The condition in the name.
    pub condition: Condition,
    /// What stands between the commas, but for those in brackets and braces.
    pub operands: Vec<String>,
    /// The address that is remarked, or jumped to.
    pub place: Option<u32>,
}

impl Text {
    pub fn of(text: &str) -> Self {
        let (text, remark) = text.split_once('@').unwrap_or((text, ""));
        let text = text.trim();
        let (mnemonic, operands) = text.split_once('\t').unwrap_or((text, ""));
        let (name, sets_flags, condition) = split_name(mnemonic);
        let operands = split_operands(operands);
        let jump = operands
            .last()
            .filter(|_| name.starts_with('b') || name.starts_with("cb"));
        let place = jump
            .and_then(|target| address(target))
            .or_else(|| address(remark));
        Self {
            name,
            sets_flags,
            condition,
            operands,
            place,
        }
    }

    /// Its name if it is a sensitive instruction, without what LLVM adds to it.
    pub fn sensitive(&self) -> Option<String> {
        let name = self.name.as_str();
        let first = self.operands.first().map_or("", String::as_str);
        let caret = self.operands.last().is_some_and(|last| last.ends_with('^'));
        let vector = matches!(first, "p10" | "p11");
        let found = match name {
            "cpsie" | "cpsid" | "cps" => "cps",
            "mrs" | "msr" | "ldrt" | "ldrht" | "ldrsht" | "ldrbt" | "ldrsbt" | "strt" | "strht"
            | "strbt" | "smc" | "hvc" | "eret" | "wfi" | "wfe" | "sev" | "yield" | "setend"
            | "pldw" => name,
            "mcr" | "mcr2" | "mrc" | "mrc2" | "mcrr" | "mcrr2" | "mrrc" | "mrrc2" | "cdp"
            | "cdp2" | "ldc" | "ldc2" | "stc" | "stc2"
                if !vector =>
            {
                name
            }
            "ldcl" | "ldc2l" | "stcl" | "stc2l" if !vector => name.trim_end_matches('l'),
            "vmrs" if self.operands.last().is_some_and(|last| last != "fpscr") => name,
            "vmsr" if first != "fpscr" => name,
            _ if name.starts_with("rfe") || name.starts_with("srs") || caret => &name[..3],
            _ if self.sets_flags && first == "pc" => return Some(format!("{name}s")),
            _ => return None,
        };
        Some(found.to_owned())
    }

    /// The core registers of operand `index`.
    pub fn registers(&self, index: usize) -> Registers {
        self.operands
            .get(index)
            .map_or(Registers::NONE, |operand| registers(operand))
    }

    /// Of all operands from `first` on.
    pub fn registers_from(&self, first: usize) -> Registers {
        (first..self.operands.len()).fold(Registers::NONE, |all, index| {
            all.with(self.registers(index))
        })
    }
}

/// LLVM's text in our words: small letters, decimal numbers, no width, CPSR for APSR.
pub fn plain(text: &str) -> String {
    let text = text.split('@').next().unwrap_or(text).trim().to_lowercase();
    let text = text.replace(['\t'], " ").replace(".w ", " ");
    let text = text.strip_suffix(".w").unwrap_or(&text);
    let status = [
        (", apsr", ", cpsr"),
        ("apsr_nzcvqg,", "cpsr_fs,"),
        ("apsr_nzcvq,", "cpsr_f,"),
        ("apsr_g,", "cpsr_s,"),
        (", cpsr_nzcv", ", apsr_nzcv"),
    ];
    let text = status
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    let mut all = String::new();
    for (index, part) in text.split("0x").enumerate() {
        let end = part
            .find(|letter: char| !letter.is_ascii_hexdigit())
            .unwrap_or(part.len());
        match u32::from_str_radix(&part[..end], 16) {
            Ok(number) if index > 0 => all += &format!("{number}{}", &part[end..]),
            _ => all += part,
        }
    }
    constant(&all)
}

/// A constant of data processing or MSR as what it is: LLVM prints it signed, and where it is
/// not encoded in the shortest way, as its eight bits and how far they are rotated.
fn constant(text: &str) -> String {
    if text.contains('[') || text.contains(", c") {
        return text.to_owned();
    }
    let mut parts = text.split(", #");
    let front = parts.next().unwrap_or("");
    let numbers: Vec<i64> = parts.map(|number| number.parse().unwrap_or(0)).collect();
    match numbers[..] {
        [value] => format!("{front}, #{}", value as u32),
        [value, rotation] => format!("{front}, #{}", (value as u32).rotate_right(rotation as u32)),
        _ => text.to_owned(),
    }
}

/// `0x38 <symbol>`.
fn address(text: &str) -> Option<u32> {
    let number = text.trim().strip_prefix("0x")?;
    let digits = number.split(' ').next()?;
    u32::from_str_radix(digits, 16).ok()
}

fn split_name(mnemonic: &str) -> (String, bool, Condition) {
    let name = mnemonic.split(['.', ' ']).next().unwrap_or(mnemonic);
    let plain = |name: &str| (name.to_owned(), false, Condition::Always);
    if WHOLE.contains(&name) {
        return plain(name);
    }
    let flagged = |name: &str| {
        name.strip_suffix('s')
            .filter(|name| FLAGGED.contains(name) || *name == "smlal")
            .map(str::to_owned)
    };
    if let Some(name) = flagged(name) {
        return (name, true, Condition::Always);
    }
    let found = CONDITIONS
        .iter()
        .zip(0u8..)
        .find(|(suffix, _)| name.len() > suffix.len() && name.ends_with(*suffix) && !is_name(name));
    match found {
        Some((suffix, number)) => {
            let rest = name.strip_suffix(suffix).expect("it was found");
            let condition = Condition::from_bits(number);
            match flagged(rest) {
                Some(name) => (name, true, condition),
                None => (rest.to_owned(), false, condition),
            }
        }
        None => plain(name),
    }
}

/// Names that are not what their ends suggest.
fn is_name(name: &str) -> bool {
    let ends = [
        "vcge", "vcgt", "vcle", "vclt", "vacge", "vacgt", "vacle", "vaclt", "vsel", "vceq",
    ];
    ends.contains(&name) || name.starts_with('v') && name.ends_with("al") || name == "bal"
}

/// At commas outside brackets and braces; but a shift belongs to what it shifts.
fn split_operands(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let (mut depth, mut current) = (0, String::new());
    for letter in text.chars() {
        match letter {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                all.push(current.trim().to_owned());
                current.clear();
                continue;
            }
            _ => {}
        }
        current.push(letter);
    }
    all.push(current.trim().to_owned());
    all.retain(|one| !one.is_empty());
    all
}

/// The core registers that a text names.
fn registers(text: &str) -> Registers {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words
        .filter_map(register)
        .fold(Registers::NONE, |all, one| all.with(one.set()))
}

fn register(word: &str) -> Option<Register> {
    Some(match word {
        "sp" => Register::SP,
        "lr" => Register::LR,
        "pc" => Register::PC,
        "sb" => Register::from_bits(9),
        "sl" => Register::from_bits(10),
        "fp" => Register::from_bits(11),
        "ip" => Register::from_bits(12),
        _ => {
            let number: u8 = word.strip_prefix('r')?.parse().ok()?;
            Register::from_bits(number)
        }
    })
}
