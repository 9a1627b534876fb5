//! A guest with an MMU: RAM as it is, and some pages once more elsewhere.

use crate::board::RAM;
use crate::lockstep::memory;
use crate::random::image::Code;

/// Where the pages are seen once more.
pub const ALIAS: u32 = 0x8000_0000;
/// The second-level table for that.
pub const LEAVES: u32 = RAM + 0x10_4000;
const TABLE: u32 = RAM + 0x10_0000;
const DATA: u32 = RAM + 0x8000;

/// The descriptor of a page, which kernel and programs may write.
pub const fn leaf(number: u32) -> u32 {
    (DATA + number * 0x1000) | 2 | 3 << 4
}

/// Turns the MMU on; R0 is lost.
pub fn mmu_on(code: &mut Code) {
    code.set(0, TABLE);
    code.a32(0xee02_0f10); // TTBR0
    code.a32(0xe3a0_0001);
    code.a32(0xee03_0f10); // DACR: client of domain 0
    code.a32(0xee11_0f10);
    code.a32(0xe380_0001);
    code.a32(0xee01_0f10); // SCTLR.M
}

/// Memory with these parts, the tables, and the pages, each full of its number.
pub fn with_pages(pages: u32, parts: &[(u32, &[u32])]) -> Vec<u32> {
    let mut root = vec![0; 4096];
    let section = |at: u32| at | 2 | 3 << 10;
    root[(RAM >> 20) as usize] = section(RAM);
    root[(RAM >> 20) as usize + 1] = section(RAM + 0x10_0000);
    root[(ALIAS >> 20) as usize] = LEAVES | 1;
    let leaves: Vec<u32> = (0..pages).map(leaf).collect();
    let data: Vec<u32> = (0..pages * 1024).map(|word| word / 1024).collect();
    let tables: [(u32, &[u32]); 3] = [(TABLE, &root), (LEAVES, &leaves), (DATA, &data)];
    let all: Vec<_> = tables.into_iter().chain(parts.iter().copied()).collect();
    memory(&all)
}
