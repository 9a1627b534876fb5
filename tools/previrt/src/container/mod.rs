//! What a file is, and the code in it: zImages and their compressions, ELF, archives.

pub mod archive;
mod attributes;
pub mod elf;
mod lzo1x;
pub mod lzop;
pub mod mapping;
pub mod unpack;
pub mod zimage;
