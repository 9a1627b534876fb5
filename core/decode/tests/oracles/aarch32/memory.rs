//! Loads and stores: the text that the description of one would have, beside LLVM's.

use super::compare::decode;
use super::sample;
use super::text::{self, InstructionSite, Text, plain};
use hanok_decode::aarch32::{
    Addressing, Contents, Displacement, Encoding, Exclusive, Index, ItState, Lanes, LoadStore,
    Register, Registers, ShiftKind, StateTransfer, Structures, load_store,
};
use hanok_instructions::Definition;
use hanok_types::Width;

/// The letter of a width; none of a word.
fn letter(width: Width) -> &'static str {
    match width {
        Width::Byte => "b",
        Width::Half => "h",
        Width::Word => "",
        Width::Double => "d",
    }
}

fn by(displacement: Displacement) -> String {
    let sign = if displacement.add { "" } else { "-" };
    match displacement.index {
        Index::Immediate(bytes) => format!("#{sign}{bytes}"),
        Index::Register(register, shift) => {
            let amount = shift.amount;
            let shift = match shift.kind {
                _ if shift.is_none() => String::new(),
                ShiftKind::Lsl => format!(", lsl #{amount}"),
                ShiftKind::Lsr => format!(", lsr #{amount}"),
                ShiftKind::Asr => format!(", asr #{amount}"),
                ShiftKind::Ror => format!(", ror #{amount}"),
                ShiftKind::Rrx => ", rrx".into(),
            };
            format!("{sign}{register}{shift}")
        }
    }
}

/// `[r1, #4]!` and so on.
fn bracketed(address: &Addressing) -> String {
    let base = address.base;
    let inside = match address.first {
        Displacement::NONE => String::new(),
        first => format!(", {}", by(first)),
    };
    match address.write_back {
        None => format!("[{base}{inside}]"),
        Some(moved) if moved == address.first && moved != Displacement::NONE => {
            format!("[{base}{inside}]!")
        }
        Some(moved) => format!("[{base}], {}", by(moved)),
    }
}

/// Which of the four ways a block lies, by where it begins and how its base moves.
fn direction(address: &Addressing, words: u32) -> &'static str {
    let Index::Immediate(bytes) = address.first.index else {
        panic!("a block by a register");
    };
    let bytes = u32::from(bytes);
    match address.first.add {
        true if bytes == 0 && address.write_back.is_none_or(|by| by.add) => "",
        true if bytes == 4 && words > 0 => "ib",
        false if bytes == words * 4 => "db",
        _ => "da",
    }
}

fn list(registers: Registers) -> String {
    let names: Vec<_> = registers.iter().map(|one| one.to_string()).collect();
    format!("{{{}}}", names.join(", "))
}

fn moved(address: &Addressing) -> String {
    let mark = if address.write_back.is_some() {
        "!"
    } else {
        ""
    };
    format!("{}{mark}", address.base)
}

fn block(access: &LoadStore, registers: Registers, caret: bool) -> String {
    let name = if access.load { "ldm" } else { "stm" };
    let way = direction(&access.address, registers.count());
    let caret = if caret { " ^" } else { "" };
    let base = moved(&access.address);
    format!("{name}{way} {base}, {}{caret}", list(registers))
}

fn extension(access: &LoadStore, double: bool, first: u8, count: u8) -> String {
    let letter = if double { 'd' } else { 's' };
    let kind = if access.load { 'l' } else { 's' };
    let names: Vec<_> = (first..first + count)
        .map(|n| format!("{letter}{n}"))
        .collect();
    let kind = if kind == 'l' { "ld" } else { "st" };
    let address = &access.address;
    let words = u32::from(access.encoding.bits() as u8);
    let bits = access.encoding.bits();
    // P set and W clear is of one register.
    if bits >> 24 & 1 == 1 && bits >> 21 & 1 == 0 {
        return format!("v{kind}r {}, {}", names[0], bracketed(address));
    }
    let way = match direction(address, words) {
        "" => "ia",
        way => way,
    };
    let name = if double && words % 2 == 1 {
        format!("f{kind}m{way}x")
    } else {
        format!("v{kind}m{way}")
    };
    format!("{name} {}, {{{}}}", moved(address), names.join(", "))
}

fn structures(access: &LoadStore, found: Structures) -> String {
    let kind = if access.load { "ld" } else { "st" };
    let lane = match found.lanes {
        Lanes::All => String::new(),
        Lanes::One(lane) => format!("[{lane}]"),
        Lanes::Repeated => "[]".into(),
    };
    let numbers = (0..found.registers).map(|n| found.first + n * found.stride);
    let names: Vec<_> = numbers.map(|n| format!("d{n}{lane}")).collect();
    let bits = found.width.bits();
    let base = access.address.base;
    let rest = match access.address.write_back.map(|moved| moved.index) {
        None => String::new(),
        Some(Index::Immediate(bytes)) => {
            assert_eq!(u32::from(bytes), found.bytes());
            "!".into()
        }
        Some(Index::Register(register, _)) => format!(", {register}"),
    };
    let names = names.join(", ");
    format!(
        "v{kind}{}.{bits} {{{names}}}, [{base}]{rest}",
        found.elements
    )
}

fn exclusive(access: &LoadStore, found: Exclusive) -> String {
    let kind = if access.load { "ldrex" } else { "strex" };
    let names: Vec<_> = [found.status, Some(found.register), found.second]
        .into_iter()
        .flatten()
        .map(|one| format!("{one}, "))
        .collect();
    let letter = letter(found.width);
    format!(
        "{kind}{letter} {}{}",
        names.concat(),
        bracketed(&access.address)
    )
}

fn state(access: &LoadStore, found: StateTransfer) -> String {
    match found {
        StateTransfer::Return(registers) => block(access, registers, true),
        StateTransfer::Rfe => {
            let way = direction(&access.address, 2);
            format!("rfe{} {}", ia(way), moved(&access.address))
        }
        StateTransfer::Srs(mode) => {
            let mark = moved(&access.address);
            let mark = mark.strip_prefix(&access.address.base.to_string()).unwrap();
            format!("srs{} sp{mark}, #{mode}", ia(direction(&access.address, 2)))
        }
    }
}

fn ia(way: &str) -> &str {
    if way.is_empty() { "ia" } else { way }
}

/// Our description as text, without the condition.
fn ours(access: &LoadStore) -> String {
    let address = &access.address;
    match access.contents {
        Contents::Single(single) => {
            let kind = if access.load { "ldr" } else { "str" };
            let sign = if single.general.sign_extend { "s" } else { "" };
            let letter = letter(single.general.width);
            let user = if single.unprivileged { "t" } else { "" };
            let register = single.register;
            format!(
                "{kind}{sign}{letter}{user} {register}, {}",
                bracketed(address)
            )
        }
        Contents::Pair(first, second) => {
            let kind = if access.load { "ldrd" } else { "strd" };
            format!("{kind} {first}, {second}, {}", bracketed(address))
        }
        Contents::Block { registers, user } => block(access, registers, user),
        Contents::Extension {
            double,
            first,
            count,
        } => extension(access, double, first, count),
        Contents::Structures(found) => structures(access, found),
        Contents::Exclusive(found) => exclusive(access, found),
        Contents::Swap(swap) => {
            let letter = letter(swap.width);
            let (loaded, stored) = (swap.loaded, swap.stored);
            format!("swp{letter} {loaded}, {stored}, {}", bracketed(address))
        }
        Contents::State(found) => state(access, found),
        Contents::Table { halfwords } => {
            let letter = if halfwords { "h" } else { "b" };
            format!("tb{letter} {}", bracketed(address))
        }
        Contents::Preload => format!("pl {}", bracketed(address)),
    }
}

/// LLVM's text in the same form, if it is of a load or store.
fn theirs(text: &str) -> Option<String> {
    let said = Text::of(text);
    let name = said.name.as_str();
    // Nothing is added before or after, which is the same.
    let plain = plain(text)
        .replace(", #0]!", "], #0")
        .replace("[pc, #0]", "[pc]");
    let (mnemonic, operands) = plain.split_once(' ').unwrap_or((plain.as_str(), ""));
    let size = mnemonic.split_once('.').map_or("", |(_, size)| size);
    let operands = operands.trim();
    let vectors = [
        "vld1", "vld2", "vld3", "vld4", "vst1", "vst2", "vst3", "vst4",
    ];
    if vectors.contains(&name) {
        // How the address is aligned does not matter.
        let start = operands.rfind('[').expect("an address");
        let (list, address) = operands.split_at(start);
        let address = match (address.find(':'), address.find(']')) {
            (Some(from), Some(to)) => format!("{}{}", &address[..from], &address[to..]),
            _ => address.to_owned(),
        };
        return Some(format!("{name}.{size} {list}{address}"));
    }
    let name = match name {
        "push" => return Some(format!("stmdb sp!, {operands}")),
        "pop" => return Some(format!("ldm sp!, {operands}")),
        "vpush" => return Some(format!("vstmdb sp!, {operands}")),
        "vpop" => return Some(format!("vldmia sp!, {operands}")),
        "pld" | "pldw" | "pli" => "pl",
        "ldmia" => "ldm",
        "stmia" => "stm",
        name => name,
    };
    let prefixes = [
        "ldr", "str", "ldm", "stm", "vldr", "vstr", "vldm", "vstm", "fldm", "fstm", "swp", "rfe",
        "srs", "tbb", "tbh",
    ];
    let known = name == "pl" || prefixes.iter().any(|prefix| name.starts_with(prefix));
    known.then(|| format!("{name} {operands}"))
}

/// A32's STR and LDR of one register at the stack pointer, which LLVM calls PUSH and POP.
fn one_on_the_stack(access: &LoadStore) -> Option<String> {
    let Contents::Single(single) = access.contents else {
        return None;
    };
    let four = |add| Some(Displacement::bytes(add, 4));
    let moved = access.address.write_back;
    let wanted = access.address.base == Register::SP && moved == four(access.load);
    let name = if access.load { "ldm" } else { "stmdb" };
    wanted.then(|| format!("{name} sp!, {{{}}}", single.register))
}

/// A list that runs over the last register, which is UNPREDICTABLE (A8.8, VLDM, VLD1 and so on).
/// LLVM cuts it off, goes on with the first one, or with registers of other names.
fn runs_over(encoding: Encoding, text: &str) -> bool {
    let (bits, name) = (encoding.bits(), Text::of(text).name);
    let block = name.contains("dm") || name.contains("tm") || name.contains("vp");
    let (vd, d) = (bits >> 12 & 0xf, bits >> 22 & 1);
    let words = bits & 0xff;
    match bits >> 8 & 1 {
        _ if !block => {
            let numbers = text
                .split(['{', ',', ' '])
                .filter_map(|word| word.strip_prefix('d'));
            let digits = |word: &str| word.split(['[', '}']).next()?.parse::<u8>().ok();
            let numbers: Vec<_> = numbers.filter_map(digits).collect();
            text.contains("fpinst") || !numbers.is_sorted()
        }
        0 => words == 0 || (vd << 1 | d) + words > 32,
        _ => {
            let last = if words % 2 == 1 { 16 } else { 32 };
            !(2..34).contains(&words) || (d << 4 | vd) + words / 2 > last
        }
    }
}

/// Why `text` is not what our description says.
fn difference(encoding: Encoding, it: ItState, text: &str) -> Option<String> {
    let whole = decode(encoding, it);
    if whole.definition != Definition::Defined {
        return None;
    }
    let their = theirs(text);
    let Some(access) = load_store(encoding, it) else {
        let over = text.starts_with(['v', 'f']) && runs_over(encoding, text);
        return their
            .filter(|_| !over)
            .map(|their| format!("nothing, not {their:?}"));
    };
    if access.condition != whole.condition {
        return Some(format!("{:?}, not {:?}", access.condition, whole.condition));
    }
    let mine = ours(&access);
    let also = one_on_the_stack(&access);
    let same = their.as_ref() == Some(&mine) || also.is_some() && their == also;
    (!same).then(|| format!("{mine:?}, not {their:?}"))
}

fn agree(place: InstructionSite, encodings: &[Encoding], at_least: usize) {
    let texts = text::disassemble(place, encodings);
    let (mut known, mut different) = (0, Vec::new());
    for (encoding, text) in encodings.iter().zip(&texts) {
        let access = load_store(*encoding, place.it());
        let why = match text {
            Some(text) => difference(*encoding, place.it(), text),
            // What LLVM does not know we describe at most where it is not defined.
            None if access.is_some() => {
                let defined = decode(*encoding, place.it()).definition == Definition::Defined;
                defined.then(|| "no such instruction".to_owned())
            }
            None => None,
        };
        known += usize::from(access.is_some() && text.is_some());
        if let Some(why) = why {
            different.push(format!("{encoding:x?} {text:?}: {why}"));
        }
    }
    if std::env::var_os("ALL_DIFFERENCES").is_some() {
        different.iter().for_each(|one| println!("{one}"));
    }
    let first = different.first();
    assert!(
        different.is_empty(),
        "{} differ, first {first:?}",
        different.len()
    );
    assert!(known >= at_least, "{known} known");
}

/// Those encodings of a sample that a description was made of or that LLVM may call one.
fn of_memory(all: Vec<Encoding>) -> Vec<Encoding> {
    let memory = |encoding: &Encoding| match *encoding {
        Encoding::A32(word) => !matches!(word >> 25 & 7, 1 | 5),
        Encoding::Narrow(half) => half >> 12 >= 4,
        Encoding::Wide(both) => both >> 29 == 7 && both >> 27 & 3 != 2,
    };
    all.into_iter().filter(memory).collect()
}

#[test]
fn a32_accesses_are_llvm_s() {
    agree(
        InstructionSite::A32,
        &of_memory(sample::a32(12, 21)),
        18_000,
    );
}

#[test]
fn narrow_t32_accesses_are_llvm_s() {
    agree(InstructionSite::T32, &of_memory(sample::narrow()), 27_000);
}

#[test]
fn wide_t32_accesses_are_llvm_s() {
    agree(
        InstructionSite::T32,
        &of_memory(sample::wide(16, 22)),
        8_000,
    );
}

#[test]
fn t32_accesses_in_a_block_are_llvm_s() {
    agree(
        InstructionSite::Block,
        &of_memory(sample::wide(3, 23)),
        1_500,
    );
}

/// A hundred times as much as every run looks at.
#[test]
#[ignore = "millions of instructions: minutes, and an optimized build"]
fn whole_aarch32_accesses_are_llvm_s() {
    for seed in 30..40 {
        agree(
            InstructionSite::A32,
            &of_memory(sample::a32(120, seed)),
            100_000,
        );
        agree(
            InstructionSite::T32,
            &of_memory(sample::wide(160, seed)),
            80_000,
        );
        agree(
            InstructionSite::Block,
            &of_memory(sample::wide(30, seed)),
            10_000,
        );
    }
}
