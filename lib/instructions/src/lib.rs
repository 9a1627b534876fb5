//! AArch32 instructions, A32 and T32, for tools that follow code and rewrite it: all instructions,
//! with the places where each goes on and the registers that it reads and writes.
//!
//! `core/decode` tells which of them a guest without virtualization hardware must not execute as
//! they are ([`sensitive`](hanok_decode::aarch32::sensitive)), because an image needs that as well.
//! Finding them in a guest's files, and making space for what they become, is a tool's work:
//!
//! - [`decode_a32`] and [`decode_t32`]: an instruction's length, where it goes on, which registers
//!   and flags it reads and writes, and what it refers to by the PC;
//! - [`live`]: which registers and flags are free at a place;
//! - [`mnemonic`] and [`Text`]: sensitive instructions as text.
//!
//! The decoder has a result for every input, does not allocate, and has no state but the IT
//! block's. The architecture is ARMv7-A with all of its extensions (DDI 0406C).

#![no_std]
#![forbid(unsafe_code)]

mod a32;
mod effects;
mod effects_of_sensitive;
mod instruction;
mod live;
mod name;
mod parts;
mod simd;
mod t32;
mod text;

pub use a32::decode_a32;
pub use effects::{Effects, Flags};
pub use effects_of_sensitive::effects;
pub use instruction::{
    Definition, Exception, Flow, Instruction, Reference, Relative, Table, TableKind, Use,
};
pub use live::{Calls, CodePosition, Live, Reach, live};
pub use name::mnemonic;
pub use t32::decode_t32;
pub use text::Text;
