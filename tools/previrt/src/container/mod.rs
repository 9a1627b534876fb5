//! File formats, and the code in them: zImages and their compressions, ELF, archives.

pub mod archive;
mod attributes;
pub mod elf;
mod lzo1x;
pub mod lzop;
pub mod mapping;
pub mod unpack;
pub mod zimage;
