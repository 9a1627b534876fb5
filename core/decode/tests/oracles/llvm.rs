//! Words as LLVM reads them: llvm-objdump of the toolchain, every extension enabled, and
//! its text taken apart.

use crate::said::{Name, Register, Said};
use hanok_decode::{Addressing, Extend};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The toolchain's copy of an LLVM program (component llvm-tools of rust-toolchain.toml).
fn program(name: &str) -> PathBuf {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let libraries = Command::new(compiler)
        .args(["--print", "target-libdir"])
        .output()
        .expect("rustc starts");
    let libraries = String::from_utf8(libraries.stdout).expect("a path");
    let folder = Path::new(libraries.trim()).with_file_name("bin");
    folder
        .join(name)
        .with_extension(std::env::consts::EXE_EXTENSION)
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error} (component llvm-tools)"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    output.stdout
}

/// What llvm-objdump is to take bytes for.
pub struct Machine {
    /// The object's format.
    pub format: &'static str,
    /// The instruction set.
    pub triple: &'static str,
    /// The extensions.
    pub extensions: &'static str,
}

const A64: Machine = Machine {
    format: "elf64-littleaarch64",
    triple: "aarch64",
    extensions: "+all",
};

/// What llvm-objdump prints of `bytes`, which stand at address 0.
pub fn dump(bytes: &[u8], machine: &Machine) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let id = std::process::id();
    let stem = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("words-{id}-{number}"));
    let (binary, object) = (stem.with_extension("bin"), stem.with_extension("o"));
    std::fs::write(&binary, bytes).expect("a place for the words");
    let mut command = Command::new(program("llvm-objcopy"));
    command.args(["-I", "binary", "-O", machine.format]);
    run(command.arg(&binary).arg(&object));
    let mut command = Command::new(program("llvm-objdump"));
    command.args(["--section=.data", "-D", "-z", "--no-show-raw-insn"]);
    command.arg(format!("--triple={}", machine.triple));
    command.arg(format!("--mattr={}", machine.extensions));
    let text = String::from_utf8(run(command.arg(&object))).expect("ASCII");
    for file in [binary, object] {
        std::fs::remove_file(file).expect("it was there");
    }
    text
}

/// The text of each word, mnemonic and operands with a tab between; `None` where there is no
/// such instruction. The word at index `n` stands at address `4 * n`.
///
/// Names are those that the manual prefers. With `-M no-aliases` a register offset that is not
/// shifted would be printed as one that is: bit 12 is not looked at then.
pub fn disassemble(words: &[u32]) -> Vec<Option<String>> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    sort(&dump(&bytes, &A64), words.len())
}

/// Brings the lines to their words, and makes sure that there is one for each.
fn sort(text: &str, count: usize) -> Vec<Option<String>> {
    let mut all = vec![None; count];
    let mut seen = 0;
    for (address, line) in text.lines().filter_map(|line| line.split_once(':')) {
        let Ok(address) = usize::from_str_radix(address.trim(), 16) else {
            continue;
        };
        // It remarks on some.
        let line = line.split("//").next().unwrap_or(line).trim();
        assert_eq!(address, seen * 4, "{line}");
        seen += 1;
        if !line.starts_with('<') {
            all[address / 4] = Some(line.to_owned());
        }
    }
    assert_eq!(seen, count, "llvm-objdump left words out");
    all
}

/// What `text` at `address` says, where it is an instruction of those that we decode.
pub fn read(text: &str, address: u64) -> Option<Said> {
    let (mnemonic, operands) = text.split_once('\t')?;
    let full = in_full(mnemonic);
    let mut said = Said::of(Name::of(full.as_deref().unwrap_or(mnemonic))?);
    let (registers, rest) = split_operands(operands);
    if let Some(list) = registers.strip_prefix('{') {
        add_list(&mut said, list);
    } else {
        registers
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .for_each(|name| add_register(&mut said, name));
    }
    if mnemonic.starts_with("casp") {
        join_pairs(&mut said, registers);
    }
    if full.is_some() {
        said.push(Register::General(31));
    }
    said.address = match rest.strip_prefix('[') {
        Some(inside) => bracketed(inside),
        // A literal, by its address; a symbol may follow.
        None => {
            let target = number(rest.split(' ').next().unwrap_or(rest)) as u64;
            let offset = target.wrapping_sub(address) as i64;
            Addressing::Literal { offset }
        }
    };
    said.finish()
}

/// STADD and its kind are LDADD and its kind into the zero register (DDI 0487 C6.2, STADD).
fn in_full(mnemonic: &str) -> Option<String> {
    let operation = mnemonic.strip_prefix("st")?;
    let names = ["add", "clr", "eor", "set", "smax", "smin", "umax", "umin"];
    let known = names.iter().any(|name| operation.starts_with(name));
    known.then(|| format!("ld{operation}"))
}

/// The registers, and where to.
fn split_operands(operands: &str) -> (&str, &str) {
    if let Some(end) = operands.find('}') {
        // A lane's number may follow the list.
        let start = operands[end..].find(", [").map_or(end, |at| end + at);
        return (&operands[..start], &operands[start + 2..]);
    }
    let start = operands
        .find('[')
        .or_else(|| operands.rfind(", 0x").map(|at| at + 2));
    operands.split_at(start.unwrap_or(operands.len()))
}

fn add_register(said: &mut Said, name: &str) {
    let (letter, index) = name.split_at(1);
    let index = match index {
        "zr" => 31,
        digits => digits.parse().unwrap_or_else(|_| panic!("{name}")),
    };
    let bytes = match letter {
        "x" | "w" => {
            said.wide = Some(letter == "x");
            return push(said, Register::General(index));
        }
        "b" => 1,
        "h" => 2,
        "s" => 4,
        "d" => 8,
        "q" => 16,
        _ => panic!("{name}"),
    };
    said.bytes = Some(bytes);
    push(said, Register::Vector(index));
}

/// Not more than are compared; CASP names four.
fn push(said: &mut Said, register: Register) {
    if said.registers.iter().any(Option::is_none) {
        said.push(register);
    }
}

/// CASP names each register of its two pairs; the second is the successor of the first.
fn join_pairs(said: &mut Said, registers: &str) {
    let all: Vec<u8> = registers
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|name| name[1..].parse().unwrap_or(31))
        .collect();
    let [first, second, third, fourth] = all[..] else {
        panic!("{registers}");
    };
    assert_eq!((second, fourth), (first + 1, third + 1), "{registers}");
    said.each = 2;
    said.registers = [
        Some(Register::General(first)),
        Some(Register::General(third)),
        None,
    ];
}

/// `v1.8b, v2.8b }`, and a lane's number perhaps.
fn add_list(said: &mut Said, list: &str) {
    let (names, lane) = list.split_once('}').expect("the list's end");
    let numbers: Vec<u8> = names
        .split(',')
        .map(|name| {
            let number = name
                .trim()
                .strip_prefix('v')
                .and_then(|name| name.split('.').next());
            number
                .and_then(|number| number.parse().ok())
                .unwrap_or_else(|| panic!("{list}"))
        })
        .collect();
    for pair in numbers.windows(2) {
        assert_eq!((pair[0] + 1) % 32, pair[1], "{list}");
    }
    said.each = numbers.len() as u8;
    said.lane = lane.starts_with('[');
    said.push(Register::Vector(numbers[0]));
}

/// What follows an opening bracket.
fn bracketed(text: &str) -> Addressing {
    let (inside, after) = text.split_once(']').expect("the bracket's end");
    let parts: Vec<&str> = inside.split(',').map(str::trim).collect();
    let base = base(parts[0]);
    if let Some(by) = after.strip_prefix(", ") {
        let offset = if by.starts_with('#') { number(by) } else { 0 };
        return Addressing::PostIndex { base, offset };
    }
    let offset = match parts.get(1) {
        None => 0,
        Some(text) if text.starts_with('#') => number(text),
        Some(index) => return indexed(base, index, parts.get(2).copied()),
    };
    match after {
        "!" => Addressing::PreIndex { base, offset },
        "" => Addressing::Offset { base, offset },
        other => panic!("{other}"),
    }
}

fn indexed(base: u8, index: &str, how: Option<&str>) -> Addressing {
    let (extend, shift) = match how {
        None => ("lsl", 0),
        Some(how) => how
            .split_once(' ')
            .map_or((how, 0), |(how, shift)| (how, number(shift) as u8)),
    };
    let extend = match extend {
        "lsl" => Extend::Lsl,
        "uxtw" => Extend::Uxtw,
        "sxtw" => Extend::Sxtw,
        "sxtx" => Extend::Sxtx,
        other => panic!("{other}"),
    };
    Addressing::Register {
        base,
        index: match &index[1..] {
            "zr" => 31,
            digits => digits.parse().unwrap_or_else(|_| panic!("{index}")),
        },
        extend,
        shift,
    }
}

fn base(name: &str) -> u8 {
    match name {
        "sp" => 31,
        name => name[1..].parse().unwrap_or_else(|_| panic!("{name}")),
    }
}

/// `#-0x10`, `0x10`.
fn number(text: &str) -> i64 {
    let text = text.trim_start_matches('#');
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).map(|value| value as i64),
        None => digits.parse::<i64>(),
    };
    value
        .unwrap_or_else(|_| panic!("{text}"))
        .wrapping_mul(sign)
}
