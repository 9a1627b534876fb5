//! Small files for tests and fuzzers, of the same form as real ones.

pub mod init;
pub mod lookalikes;
pub mod program;

use std::io::Write as _;

/// The address at which the sample kernel is linked.
pub const BASE: u32 = 0x8000_8000;
/// The number of its functions.
pub const FUNCTIONS: u32 = 300;
/// The size of each function in bytes, and of the gap behind some.
const FUNCTION: u32 = 32;
const GAP: u32 = 8;
/// The offset of its first function.
const TEXT: u32 = 0x100;
/// The offset of the first function in an image with a free area.
const FAR_TEXT: u32 = 0x6000;
/// The number of functions that stand where Linux has its entry code.
pub const ENTRY: u32 = 290;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// BL from `at` to `to`.
fn call(at: u32, to: u32) -> u32 {
    0xeb00_0000 | (to.wrapping_sub(at).wrapping_sub(8) >> 2) & 0x00ff_ffff
}

/// The distance of function `n` from the first one. Distances are irregular, so that only one base
/// fits.
fn address(n: u32) -> u32 {
    n * FUNCTION + (0..n).filter(|n| gap(*n)).count() as u32 * GAP
}

/// Whether there is a gap behind function `n`.
const fn gap(n: u32) -> bool {
    n * n % 7 < 3 && n % 3 != 1
}

/// A function at `at`: three sensitive instructions, a call of `to`, and a literal that looks like
/// CPSID.
fn body(at: u32, to: u32) -> Vec<u8> {
    words(&[
        0xe92d_4010, // push {r4, lr}
        0xe59f_0010, // ldr r0, [pc, #16]: the literal
        0xf10c_0080, // cpsid i
        0xee1d_1f90, // mrc p15, 0, r1, c13, c0, 4
        call(at + 16, to),
        0xee03_0f10, // mcr p15, 0, r0, c3, c0, 0
        0xe8bd_8010, // pop {r4, pc}
        0xf10c_0080,
    ])
}

/// The bytes of function `n`.
fn function(n: u32) -> Vec<u8> {
    let at = address(n);
    let to = address((n * 7 + 1) % FUNCTIONS);
    let mut function = body(at, to);
    function.resize((FUNCTION + if gap(n) { GAP } else { 0 }) as usize, 0);
    function
}

/// An A32 kernel's raw image; its kallsyms has the order of 6.4 and later, or the older one.
pub fn image(since_6_4: bool) -> Vec<u8> {
    image_at(TEXT, since_6_4, None)
}

/// The size of the sample kernel's `.bss` in bytes.
pub const BSS: u32 = 0x2468;

/// A kernel's raw image without a free area, with `.bss` behind it and the code that clears `.bss`.
pub fn tight_image() -> Vec<u8> {
    image_at(TEXT, true, Some(BSS))
}

/// A kernel's raw image with a free area for trampolines between its entry and its functions. The
/// first [`ENTRY`] functions are Linux's entry code.
pub fn image_with_area() -> Vec<u8> {
    image_at(FAR_TEXT, true, None)
}

fn image_at(text: u32, since_6_4: bool, bss: Option<u32>) -> Vec<u8> {
    // b to the first function: the image's own entry.
    let mut image = words(&[0xea00_0000 | (text - 8) >> 2]);
    image.resize(text as usize, 0);
    image.extend((0..FUNCTIONS).flat_map(function));
    let clears = image.len();
    if bss.is_some() {
        // b to itself; the start and the end of `.bss`.
        image.extend(words(&[0xeaff_fffe, 0, 0]));
    }
    let end = BASE + image.len() as u32;
    image.extend(words(&[0, 0]));
    let mut symbols = vec![(BASE + text, "T_stext".to_owned())];
    symbols.extend((0..FUNCTIONS).map(|n| (BASE + text + address(n), format!("tfunction_{n}"))));
    if bss.is_some() {
        symbols.push((BASE + clears as u32, "t__mmap_switched".to_owned()));
    }
    for name in ["T_etext", "T_sinittext", "T_einittext"] {
        symbols.push((end, name.to_owned()));
    }
    if text == FAR_TEXT || bss.is_some() {
        let named = [(0, "T__entry_text_start"), (ENTRY, "T__entry_text_end")];
        symbols.extend(named.map(|(n, name)| (BASE + text + address(n), name.to_owned())));
        symbols.sort_by_key(|(address, _)| *address);
    }
    kallsyms(&mut image, &symbols, since_6_4);
    if let Some(len) = bss {
        let start = BASE + image.len().next_multiple_of(0x1000) as u32;
        let table = words(&[start, start + len]);
        image.splice(clears + 4..clears + 12, table);
    }
    image
}

fn pad(image: &mut Vec<u8>) {
    image.resize(image.len().next_multiple_of(4), 0);
}

fn kallsyms(image: &mut Vec<u8>, symbols: &[(u32, String)], since_6_4: bool) {
    let base = symbols.first().map_or(0, |(address, _)| *address);
    let mut addresses: Vec<u32> = symbols.iter().map(|(address, _)| address - base).collect();
    addresses.push(base);
    if !since_6_4 {
        image.extend(words(&addresses));
    }
    image.extend(words(&[symbols.len() as u32]));
    let (mut markers, start) = (Vec::new(), image.len());
    for (n, (_, name)) in symbols.iter().enumerate() {
        if n % 256 == 0 {
            markers.push((image.len() - start) as u32);
        }
        image.push(name.len() as u8);
        image.extend(name.as_bytes());
    }
    pad(image);
    image.extend(words(&markers));
    tokens(image);
    if since_6_4 {
        image.extend(words(&addresses));
    }
    image.extend([0; 64]);
}

/// A printable byte stands for itself.
fn tokens(image: &mut Vec<u8>) {
    let (mut index, start) = (Vec::new(), image.len());
    for byte in 0..=255_u8 {
        index.extend(((image.len() - start) as u16).to_le_bytes());
        image.push(if (0x21..0x7f).contains(&byte) {
            byte
        } else {
            b'z'
        });
        image.push(0);
    }
    pad(image);
    image.extend(index);
}

/// A zImage of `image`, packed with gzip.
pub fn zimage(image: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Writing to a vector cannot fail.
    let packed = encoder
        .write_all(image)
        .and_then(|()| encoder.finish())
        .unwrap_or_default();
    let mut zimage = words(&[0xe1a0_0000; 9]);
    let end = 0x60 + packed.len() as u32;
    zimage.extend(words(&[
        0x016f_2818,
        0,
        end,
        0x0403_0201,
        0x4545_4545,
        0x40,
        0,
    ]));
    zimage.extend(words(&[6, 0x5a53_4c4b, end - 4, 0, 0, 0, 0, 0]));
    zimage.extend(packed);
    zimage
}

/// The content of the sample object: A32, then data that is loaded, then T32.
const CODE: [u32; 8] = [
    0xe59f_0008, // ldr r0, [pc, #8]
    0xf10c_0080, // cpsid i
    0xe10f_1000, // mrs r1, cpsr
    0xe12f_ff1e, // bx lr
    0xf10c_0080, // data
    0xbf30_b672, // cpsid i; wfi
    0x8f90_ee1d, // mrc p15, 0, r8, c13, c0, 4, and ...
    0xbf00_4770, // bx lr
];

/// An object for ARMv7-A with mapping symbols. `class`, `order` and `machine` are 1, 1 and 40 in a
/// valid one.
pub fn object(class: u8, order: u8, machine: u8) -> Vec<u8> {
    let strings = b"\0$a\0$d\0$t\0f\0.text\0.symtab\0.strtab\0";
    let symbol = |name: u32, value: u32, kind: u32| [name, value, 0, 1 << 16 | kind];
    let symbols = [
        [0; 4],
        symbol(1, 0, 0),
        symbol(4, 16, 0),
        symbol(7, 20, 0),
        symbol(10, 0, 2),
    ];
    let (code, symbols) = (words(&CODE), words(symbols.as_flattened()));
    let [at_code, at_symbols] = [52, 52 + code.len() as u32];
    let at_strings = at_symbols + symbols.len() as u32;
    let at_headers = (at_strings + strings.len() as u32).next_multiple_of(4);
    let mut file = vec![0x7f, b'E', b'L', b'F', class, order, 1, 0];
    file.resize(16, 0);
    file.extend([1, 0, machine, 0]);
    file.extend(words(&[1, 0, 0, at_headers, 0x0500_0000]));
    file.extend(
        [52_u16, 0, 0, 40, 4, 3]
            .iter()
            .flat_map(|half| half.to_le_bytes()),
    );
    file.extend([code.clone(), symbols.clone(), strings.to_vec()].concat());
    pad(&mut file);
    let [code, symbols, names] = [code.len(), symbols.len(), strings.len()].map(|len| len as u32);
    file.extend(words(&[0; 10]));
    file.extend(words(&[12, 1, 6, 0, at_code, code, 0, 0, 4, 0]));
    file.extend(words(&[18, 2, 0, 0, at_symbols, symbols, 3, 4, 4, 16]));
    file.extend(words(&[26, 3, 0, 0, at_strings, names, 0, 0, 1, 0]));
    file
}

/// An archive with one object.
pub fn archive() -> Vec<u8> {
    let object = object(1, 1, 40);
    let mut archive = b"!<arch>\n".to_vec();
    let header = format!(
        "{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
        "f.o/",
        0,
        0,
        0,
        644,
        object.len()
    );
    archive.extend(header.as_bytes());
    archive.extend(object);
    archive
}
