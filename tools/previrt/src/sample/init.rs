//! A sample kernel with init code, as a linker lays it out: the unwinder's index behind the text,
//! the index's tables, and on pages of their own the vectors, their stubs and the init code.

use super::{FUNCTIONS, TEXT, address, body, call, function, kallsyms, pad, words};
use std::ops::Range;

/// The number of functions of the init code. Nothing calls them.
pub const INIT_FUNCTIONS: u32 = 40;
/// The size of each of them in bytes.
const INIT_FUNCTION: u32 = 32;
/// The number of sensitive instructions in the vectors' stubs, in front of these functions.
pub const STUB_SITES: usize = 1;
/// The size of `.bss` in bytes.
const BSS: u32 = 0x2468;
/// The size of a page in bytes.
const PAGE: usize = 0x1000;
/// The number of the text's function that handles SVC.
const SWI: u32 = 3;
/// EXIDX_CANTUNWIND.
const CANNOT_UNWIND: u32 = 1;
/// An index entry's second word that says itself how the function is unwound.
const INLINE: u32 = 0x80b0_b0b0;

/// The linker that made the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linker {
    /// GNU ld, at [`super::BASE`]. It closes the index behind the last function.
    Gnu,
    /// LLD, at another address. It closes the index behind the last code of all: the stubs, at the
    /// address where they are executed.
    Lld,
}

impl Linker {
    const fn base(self) -> u32 {
        match self {
            Self::Gnu => super::BASE,
            Self::Lld => 0xc000_8000,
        }
    }
}

/// The end of the stubs, at the address where they are executed.
const STUBS_END: u32 = 0xffff_100c;

/// The kernel, and where its parts are.
#[derive(Clone, Debug)]
pub struct InitKernel {
    /// The raw image.
    pub image: Vec<u8>,
    /// The offsets of the unwinder's index.
    pub index: Range<usize>,
    /// The number of the index's entries for functions of the text.
    pub in_text: usize,
    /// The offsets from the vectors to the end of the init code.
    pub init: Range<usize>,
    /// The address of the end of `.bss`.
    pub end: u32,
}

/// B from `at` to `to`.
fn branch(at: u32, to: u32) -> u32 {
    call(at, to) & !(1 << 24)
}

/// The vectors, linked as if they were a page in front of the stubs, and the stubs.
fn vectors(at: u32, answer: u32) -> Vec<u8> {
    let stubs = at + 32;
    let vectors = (0..8).map(|n| branch(stubs - PAGE as u32 + 4 * n, stubs + 4));
    let mut vectors: Vec<u32> = vectors.collect();
    // The address of SVC's handler; mrs lr, spsr; b to itself.
    vectors.extend([answer, 0xe14f_e000, 0xeaff_fffe]);
    words(&vectors)
}

/// The code that clears `.bss`: the address of its table, b to itself, the table.
fn clears(bss: [u32; 2]) -> Vec<u8> {
    words(&[0xe28f_4000, 0xeaff_fffe, bss[0], bss[1], 0])
}

/// The index at `at` of these functions, and its tables. The entries of `none` have no function;
/// two of the others have a table.
fn index(at: u32, functions: &[u32], none: &[u32]) -> Vec<u8> {
    let len = 8 * functions.len() as u32;
    let mut entries = Vec::new();
    for function in functions {
        let at = at + 4 * entries.len() as u32;
        let how = if matches!(entries.len(), 0 | 200) {
            len - 4 - 4 * entries.len() as u32
        } else if none.contains(function) {
            CANNOT_UNWIND
        } else {
            INLINE
        };
        entries.extend([function.wrapping_sub(at) & !(1 << 31), how]);
    }
    entries.extend([0x8101_b0b0, 0xb0b0_b0b0]);
    words(&entries)
}

/// Makes the kernel. `named` says whether its kallsyms names the init code.
pub fn init_kernel(linker: Linker, named: bool) -> InitKernel {
    let base = linker.base();
    let text = |n: u32| base + TEXT + address(n);
    let place = |image: &[u8]| base + image.len() as u32;
    let mut image = words(&[0xea00_0000 | (TEXT - 8) >> 2, 0, 0]);
    image.resize(TEXT as usize, 0);
    image.extend((0..FUNCTIONS).flat_map(function));
    let end = place(&image);
    image.resize(image.len().next_multiple_of(8), 0);
    let at = image.len();
    let in_text = FUNCTIONS as usize + 1;
    let entries = in_text + INIT_FUNCTIONS as usize + 1 + usize::from(linker == Linker::Lld);
    let from = (at + 8 * entries + 8).next_multiple_of(PAGE);
    let stubs = vectors(base + from as u32, text(SWI));
    let switched = from + stubs.len();
    let first = base + (switched + clears([0, 0]).len()) as u32;
    let init = |n: u32| first + n * INIT_FUNCTION;
    let last = init(INIT_FUNCTIONS);
    let mut functions: Vec<u32> = (0..FUNCTIONS).map(text).collect();
    functions.push(end);
    functions.extend((0..=INIT_FUNCTIONS).map(init));
    functions.extend((linker == Linker::Lld).then_some(STUBS_END));
    image.extend(index(place(&image), &functions, &[end, last, STUBS_END]));
    image.resize(from, 0);
    image.extend(stubs);
    image.extend(clears([0, 0]));
    image.extend((0..INIT_FUNCTIONS).flat_map(|n| body(init(n), text(n))));
    let init_end = image.len();
    image.extend(words(&[0, 0]));
    let mut symbols = vec![(base + TEXT, "T_stext".to_owned())];
    symbols.extend((0..FUNCTIONS).map(|n| (text(n), format!("tfunction_{n}"))));
    symbols.push((text(SWI), "Tvector_swi".to_owned()));
    symbols.push((end, "T_etext".to_owned()));
    if named {
        let names = ["T_sinittext", "t__mmap_switched"];
        symbols.extend(names.map(|name| (base + switched as u32, name.to_owned())));
        symbols.extend((0..INIT_FUNCTIONS).map(|n| (init(n), format!("tinit_{n}"))));
        symbols.push((last, "T_einittext".to_owned()));
    }
    symbols.sort_by_key(|(address, _)| *address);
    kallsyms(&mut image, &symbols, true);
    pad(&mut image);
    let bss = base + image.len().next_multiple_of(PAGE) as u32;
    let table = clears([bss, bss + BSS]);
    image.splice(switched..switched + table.len(), table);
    // The address that the code at the image's start goes to once the MMU is on.
    image.splice(8..12, (base + switched as u32).to_le_bytes());
    InitKernel {
        image,
        index: at..at + 8 * entries,
        in_text,
        init: from..init_end,
        end: bss + BSS,
    }
}
