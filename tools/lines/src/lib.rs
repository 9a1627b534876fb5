//! How many lines of source an image holds, by crate: what a reader of the image has to trust.
//!
//! What counts is told by the image itself, by the line table that the compiler leaves in its ELF file
//! ([`table`]). In each source file of which some line is in the image all lines of code count, but
//!
//! - those of functions of which no line is in the image,
//! - those of blocks of assembly without a symbol in it (assembly has no lines in the table), and
//! - those of tests (`#[cfg(test)]`).
//!
//! A line of code holds more than blanks and comments ([`source`]). So types, constants and signatures
//! count, which a reader needs and of which the table says nothing, and each function counts whole, or
//! not at all. A function that the compiler inlined counts where it is written, once. A file of types
//! and constants alone has no line in the table and does not count. Of what comes compiled with the
//! compiler (`rust: core`) there is no source: there, lines count of which code is made.
//!
//! Rejected: the lines of which code is made, everywhere. They are a third, depend on how the compiler
//! optimizes, and say nothing of what has to be read around them. All lines of the linked files: a
//! crate from elsewhere would count for what nobody calls.

#![forbid(unsafe_code)]

pub mod ceilings;
pub mod count;
mod crates;
#[cfg(test)]
mod fake;
mod source;
mod table;
