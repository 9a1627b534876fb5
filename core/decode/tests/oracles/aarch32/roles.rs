//! Which operands of an instruction are read and which written, by its name: rules of the
//! assembly language, not of the encoding.

use crate::aarch32::text::Text;
use hanok_decode::aarch32::{Register, Registers};
use hanok_instructions::Flags;

/// What a text says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roles {
    pub reads: Registers,
    pub writes: Registers,
    /// N, Z, C, V, Q and GE, as far as the text tells.
    pub writes_flags: Flags,
    /// Of those, which the text does not tell.
    pub open: Flags,
    pub reads_flags: Flags,
}

/// Which the first operands are.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// All are read.
    Read,
    /// The first so many are written.
    Write(usize),
    /// The first so many are read and written.
    Both(usize),
}

const STORES: [&str; 22] = [
    "str", "strb", "strh", "strt", "strbt", "strht", "strd", "push", "stm", "stmib", "stmda",
    "stmdb", "stc", "stcl", "stc2", "stc2l", "vstr", "cmp", "cmn", "tst", "teq", "msr",
];
const READERS: [&str; 27] = [
    "bx", "bxj", "b", "bl", "blx", "cbz", "cbnz", "tbb", "tbh", "mcr", "mcr2", "mcrr", "mcrr2",
    "pld", "pldw", "pli", "ldc", "ldcl", "ldc2", "ldc2l", "vldr", "vmsr", "vdup", "rfeia", "rfeib",
    "rfeda", "rfedb",
];
const PAIRS: [&str; 6] = ["umull", "smull", "ldrd", "ldrexd", "mrrc", "mrrc2"];
const ACCUMULATES: [&str; 12] = [
    "umlal", "smlal", "umaal", "smlalbb", "smlalbt", "smlaltb", "smlaltt", "smlald", "smlaldx",
    "smlsld", "smlsldx", "smlalxx",
];
const KEEPS: [&str; 3] = ["movt", "bfi", "bfc"];
/// With two operands the first one is read, too.
const TWO_OPERANDS: [&str; 13] = [
    "add", "sub", "adc", "sbc", "and", "orr", "eor", "bic", "lsl", "lsr", "asr", "ror", "mul",
];

fn shape(text: &Text) -> Shape {
    let name = text.name.as_str();
    let transfers = name.starts_with("vld") || name.starts_with("vst");
    if STORES.contains(&name) || READERS.contains(&name) || transfers || name.starts_with("vp") {
        return Shape::Read;
    }
    if name == "vmov" {
        let first = text.registers(0);
        let second = text.registers(1);
        return match (first.is_empty(), second.is_empty()) {
            (true, _) => Shape::Read,
            (false, true) => Shape::Write(1),
            (false, false) => Shape::Write(2),
        };
    }
    if PAIRS.contains(&name) {
        let index = if name.starts_with("mr") { 4 } else { 2 };
        return Shape::Write(index);
    }
    if ACCUMULATES.contains(&name) {
        return Shape::Both(2);
    }
    if KEEPS.contains(&name) || TWO_OPERANDS.contains(&name) && text.operands.len() == 2 {
        return Shape::Both(1);
    }
    if name == "mrc" || name == "mrc2" {
        return Shape::Write(3);
    }
    Shape::Write(1)
}

fn base(operand: &str) -> Registers {
    let inside = operand.trim_matches(['[', ']', '!']);
    let name = inside.split([',', ':']).next().unwrap_or("").trim();
    let single = Text {
        name: String::new(),
        sets_flags: false,
        condition: Default::default(),
        operands: vec![name.to_owned()],
        place: None,
    };
    single.registers(0)
}

fn block(text: &Text) -> Option<(Registers, Registers)> {
    let name = text.name.as_str();
    let stack = Register::SP.set();
    let vector = name.starts_with(['v', 'f']);
    match name {
        "push" => return Some((text.registers(0).with(stack), stack)),
        "pop" => return Some((stack, text.registers(0).with(stack))),
        "vpush" | "vpop" => return Some((stack, stack)),
        _ => {}
    }
    let base = text
        .operands
        .first()
        .map_or(Registers::NONE, |first| base(first.trim_end_matches('!')));
    let back = text
        .operands
        .first()
        .is_some_and(|first| first.ends_with('!'));
    let back = if back { base } else { Registers::NONE };
    let list = if vector {
        Registers::NONE
    } else {
        text.registers(1)
    };
    if name.starts_with("ldm") || name.starts_with("vldm") || name.starts_with("fldm") {
        return Some((base, list.with(back)));
    }
    if name.starts_with("stm") || name.starts_with("vstm") || name.starts_with("fstm") {
        return Some((base.with(list), back));
    }
    if name.starts_with("rfe") {
        return Some((base, back.with(Register::PC.set())));
    }
    None
}

/// What `text` says of registers and flags; `None` of what the language does not tell: system
/// calls and their kind, SRS.
pub fn roles(text: &Text) -> Option<Roles> {
    let name = text.name.as_str();
    let silent = ["svc", "bkpt", "udf", "hvc", "smc", "trap", "hlt", "eret"];
    if silent.contains(&name) || name.starts_with("srs") || name.starts_with("it") {
        return None;
    }
    let (mut reads, mut writes) = block(text).unwrap_or_else(|| plain(text));
    if matches!(name, "bl" | "blx") {
        writes = writes.with(Register::LR.set());
    }
    let branches = ["b", "bl", "blx", "bx", "bxj", "cbz", "cbnz", "tbb", "tbh"];
    if branches.contains(&name) {
        writes = writes.with(Register::PC.set());
    }
    if name == "adr" {
        reads = reads.with(Register::PC.set());
    }
    let (writes_flags, open) = flags(text);
    Some(Roles {
        reads,
        writes,
        writes_flags,
        open,
        reads_flags: reads_flags(text),
    })
}

fn plain(text: &Text) -> (Registers, Registers) {
    let upto =
        |count: usize| (0..count).fold(Registers::NONE, |all, i| all.with(text.registers(i)));
    let bases = memory_registers(text);
    let (reads, writes) = match shape(text) {
        Shape::Read => (text.registers_from(0), Registers::NONE),
        Shape::Write(count) => (text.registers_from(count), upto(count)),
        Shape::Both(count) => (text.registers_from(0), upto(count)),
    };
    (reads.with(bases), writes.with(post_indexed(text)))
}

fn memory_registers(text: &Text) -> Registers {
    let inside = |index: usize| text.operands[index].starts_with('[');
    (0..text.operands.len())
        .filter(|index| inside(*index))
        .fold(Registers::NONE, |all, index| {
            all.with(text.registers(index))
        })
}

/// Bases that move.
fn post_indexed(text: &Text) -> Registers {
    let mut all = Registers::NONE;
    for (index, operand) in text.operands.iter().enumerate() {
        if !operand.starts_with('[') {
            continue;
        }
        let next = text.operands.get(index + 1);
        let option = next.is_some_and(|next| next.starts_with('{'));
        if operand.ends_with('!') || next.is_some() && !option {
            all = all.with(base(operand));
        }
    }
    all
}

const SATURATES: [&str; 8] = [
    "qadd", "qsub", "qdadd", "qdsub", "ssat", "usat", "ssat16", "usat16",
];

fn saturates(name: &str) -> bool {
    let halves = name.strip_prefix("smla").or(name.strip_prefix("smlaw"));
    let halves = halves.is_some_and(|rest| matches!(rest, "bb" | "bt" | "tb" | "tt"));
    let wide = matches!(name, "smlawb" | "smlawt");
    let dual = matches!(
        name,
        "smlad" | "smladx" | "smlsd" | "smlsdx" | "smuad" | "smuadx"
    );
    SATURATES.contains(&name) || halves || wide || dual
}

fn compares_parts(name: &str) -> bool {
    let rest = name.strip_prefix('s').or(name.strip_prefix('u'));
    rest.is_some_and(|rest| matches!(rest, "add16" | "add8" | "asx" | "sax" | "sub16" | "sub8"))
}

/// Which are written, and which of those the text does not tell for sure.
fn flags(text: &Text) -> (Flags, Flags) {
    let name = text.name.as_str();
    let none = Flags::NONE;
    let carry = none.with_c(true);
    let arithmetic = ["add", "sub", "rsb", "adc", "sbc", "rsc", "cmp", "cmn"].contains(&name);
    let compares = ["cmp", "cmn", "tst", "teq"].contains(&name);
    let all = text.operands.join(",");
    let shifts = ["lsl", "lsr", "asr", "ror", "rrx"];
    if name == "msr" {
        return (written_status(text), none);
    }
    if saturates(name) {
        return (none.with_q(true), none);
    }
    if compares_parts(name) {
        return (none.with_ge(true), none);
    }
    if all.to_lowercase().contains("apsr_nzcv") && name.starts_with(['m', 'v']) && name != "msr" {
        return (Flags::NZCV, none);
    }
    if !(text.sets_flags || compares) {
        return (none, none);
    }
    let multiplies = name.starts_with("mul")
        || name.starts_with("mla")
        || name.ends_with("ull")
        || name.ends_with("lal");
    if arithmetic {
        (Flags::NZCV, none)
    } else if multiplies {
        (Flags::NZ, none)
    } else if shifts.contains(&name)
        || shifts
            .iter()
            .any(|shift| all.contains(&format!(",{shift}")))
    {
        (Flags::NZC, none)
    } else {
        (Flags::NZ, carry)
    }
}

fn reads_flags(text: &Text) -> Flags {
    let name = text.name.as_str();
    let none = Flags::NONE;
    let all = text.operands.join(",");
    let carry = ["adc", "sbc", "rsc", "rrx"].contains(&name) || all.contains("rrx");
    let own = none.with_c(carry).with_ge(name == "sel");
    let status = text.operands.get(1).map_or("", String::as_str);
    let all = matches!(status, "apsr" | "cpsr") && name == "mrs";
    let own = if all { Flags::APPLICATION } else { own };
    own.and(Flags::read_by(text.condition))
}

/// What MSR names: `CPSR_fsxc`, `APSR_nzcvqg`, `SPSR_c`, a register of another mode.
fn written_status(text: &Text) -> Flags {
    let none = Flags::NONE;
    let operand = text.operands.first().map_or("", String::as_str);
    let Some((register, fields)) = operand.split_once('_') else {
        return none;
    };
    let named = |letter| fields.contains(letter);
    let (all, ge) = match register.to_uppercase().as_str() {
        "CPSR" => (named('f'), named('s')),
        "APSR" => (named('n'), named('g')),
        _ => (false, false),
    };
    let flags = if all { Flags::NZCV.with_q(true) } else { none };
    flags.with_ge(ge)
}
