//! Hands the linker the runtime's layout, where it is built for a bare 32-bit machine; and makes
//! the program whose rewritten instructions it runs: an ELF file as `hanok previrt patch` writes it.

use std::fmt::Write as _;
use std::path::Path;

use hanok_previrt::sample::program::{Behind, Case, program};
use hanok_previrt::{Form, Options, Patched, patch, scan};

/// Where the image runs: there is RAM on both boards, on `virt` with 1 GiB and on `vexpress-a9`.
const IMAGE: u32 = 0x6080_0000;
/// Where the program is, and its trampolines: `PROGRAM` and `AREA` of src/arm/mmu.rs.
const PROGRAM: u32 = 0x6150_0000;
const AREA: u32 = 0x6160_0000;

fn main() {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let script = format!("{}/../runtime/image-arm.ld", of("CARGO_MANIFEST_DIR"));
    println!("cargo:rerun-if-changed={script}");
    println!("cargo:rerun-if-changed=build.rs");
    if of("CARGO_CFG_TARGET_OS") != "none" || of("CARGO_CFG_TARGET_ARCH") != "arm" {
        return;
    }
    println!("cargo:rustc-link-arg-bins=-T{script}");
    println!("cargo:rustc-link-arg-bins=--defsym=image_base={IMAGE:#x}");
    println!("cargo:rustc-link-arg-bins=--build-id=none");
    let out = of("OUT_DIR");
    let out = Path::new(&out);
    let (file, cases) = program(PROGRAM);
    let options = Options {
        area: Some(AREA),
        in_place: true,
        ..Options::default()
    };
    let scan = scan(&file).expect("the sample is sound");
    let patched = patch(&scan, options).expect("it can be rewritten");
    std::fs::write(out.join("rewritten.elf"), &patched.bytes).expect("OUT_DIR can be written");
    std::fs::write(out.join("cases.rs"), list(&cases, &patched)).expect("OUT_DIR can be written");
}

/// The cases as the source text of a Rust array.
fn list(cases: &[Case], patched: &Patched) -> String {
    let mut text = format!(
        "/// Words that an SVC names by number.\npub static WORDS: &[u32] = &{:?};\n\
         /// The rewritten instructions.\npub static CASES: &[Case] = &[\n",
        patched.side.words
    );
    for case in cases {
        let Case { entry, bits, .. } = *case;
        let site = (entry & !1) + if case.inside { 2 } else { 0 };
        let mut changes = patched.side.changes.iter();
        let change = changes.find(|change| change.address == site);
        let form = match change.expect("every case is rewritten").form {
            Form::Trampoline => "Trampoline",
            Form::Word => "Word",
            Form::Trap | Form::Index => "Trap",
            _ => panic!("no lookalike is replaced"),
        };
        let (register, flags) = match case.behind {
            Behind::Nothing => (false, false),
            Behind::Flags => (false, true),
            Behind::Register => (true, false),
            Behind::RegisterAndFlags => (true, true),
        };
        let word = case.word.unwrap_or(0);
        writeln!(
            text,
            "    Case {{ entry: {entry:#x}, site: {site:#x}, bits: {bits:#x}, word: {word:#x}, \
             form: Form::{form}, register: {register}, flags: {flags} }},",
        )
        .expect("a string takes everything");
    }
    text + "];\n"
}
