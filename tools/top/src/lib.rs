//! `hanok top`: what each core, VM and vCPU of a running board does, what it was promised and what it
//! got, live, in a terminal or a browser; and changes of interfaces, shown before they are applied.
//!
//! | module | what it does |
//! |---|---|
//! | [`protocol`] | the lines of the report channel, as docs/top.md has them |
//! | [`report`] | one report, put together of its lines |
//! | [`view`] | two reports, as a person reads them: rates and shares |
//! | [`timeline`] | which vCPU ran on which core when |
//! | [`engine`] | when to ask the board for what |
//! | [`link`], [`line`] | bytes to and from a run, or a serial line |
//! | [`state`] | what the engine knows and the views show |
//! | [`change`], [`what_if`] | a change, and what would follow from it |
//! | [`asked`], [`apply`] | a change in words, made without a terminal |
//! | [`tui`], [`web`] | the two views |
//! | [`fake`] | a board that is none, for tests and demonstrations |
//!
//! Nothing that a board says is trusted: lines that are no lines of the protocol are counted and left
//! out, numbers are of 64 bits and may be any, and a name is shown without what is more than text.

#![forbid(unsafe_code)]

pub mod apply;
pub mod asked;
pub mod change;
pub mod engine;
pub mod fake;
pub mod line;
pub mod link;
pub mod protocol;
pub mod report;
pub mod run;
pub mod state;
pub mod text;
pub mod timeline;
pub mod tui;
pub mod view;
pub mod web;
pub mod what_if;
