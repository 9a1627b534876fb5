//! AArch32 instructions, A32 and T32, as a tool needs them that follows code and rewrites it: all of
//! them, and enough of each to know where it goes on and what it reads and writes.
//!
//! Which of them a guest without virtualization hardware must not run as they are, `core/decode`
//! says ([`sensitive`](hanok_decode::aarch32::sensitive)), as an image needs it, too. Finding them in
//! a guest's files, and making room for what they become, is a tool's work:
//!
//! - [`decode_a32`] and [`decode_t32`]: how long, where does it go on, which registers and flags
//!   does it read and write, what does it refer to by the PC?
//! - [`live`]: which registers and flags are free at a place?
//! - [`mnemonic`] and [`Text`]: sensitive ones for people.
//!
//! The decoder is total, without allocation, and without a state but the IT block's. The
//! architecture is ARMv7-A with all of its extensions (DDI 0406C).

#![no_std]
#![forbid(unsafe_code)]

mod a32;
mod effects;
mod instruction;
mod live;
mod name;
mod parts;
mod simd;
mod t32;
mod text;
mod touches;

pub use a32::decode_a32;
pub use effects::{Effects, Flags};
pub use instruction::{
    Definition, Exception, Flow, Instruction, Reference, Relative, Table, TableKind, Use,
};
pub use live::{Calls, CodePosition, Live, Reach, live};
pub use name::mnemonic;
pub use t32::decode_t32;
pub use text::Text;
pub use touches::effects;
