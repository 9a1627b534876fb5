//! The decoder against two independent ones: the crate yaxpeax-arm, and LLVM's, by the
//! toolchain's own llvm-objdump.
//!
//! A64 and system registers are at this level, A32 and T32 in [`aarch32`].
//!
//! The ordinary tests visit a sample. The `whole_` ones visit everything and take minutes:
//! `hanok test --all` runs them, or
//! `cargo test --release -p hanok-decode --test oracles -- --ignored`.
//!
//! All three readings of a word are brought to one form, [`said::Said`]. What is compared is
//! what a hypervisor acts upon; suffixes that order memory count as far as [`said::Class`]
//! keeps them. Where an oracle errs it is told so here, with the rule that shows it.

mod aarch32;
mod aborts;
mod llvm;
mod loads;
mod registers;
mod said;
mod yaxpeax;
