//! A32 and T32: what LLVM's text says of an instruction's registers, flags and way, beside
//! what the decoder says; and the sensitive ones beside yaxpeax-arm's reading.

mod compare;
mod memory;
mod roles;
mod sample;
mod text;
mod yaxpeax;
