//! Holds what a board did against what was simulated: who ran on each core, from when until when.
//!
//! Five parts, in the order in which they are used:
//!
//! | module | |
//! |---|---|
//! | [`record`] | who ran on a board, as its reports say it: every turn, or an error |
//! | [`start`] | when the servers' first periods began, in ticks of the board's counter |
//! | [`expected`] | who runs when, as the simulator has it for the same input |
//! | [`compare`] | the one beside the other, event by event |
//! | [`beside`] | all of these, for a description and a record |
//!
//! The simulator is the reference. The comparison knows no rule of scheduling: to it a schedule is a list of names
//! and instants. All times are ticks of the board's counter, so that nothing is rounded on the way.

#![forbid(unsafe_code)]

pub mod beside;
pub mod compare;
pub mod expected;
pub mod record;
pub mod start;

/// A time in which one server had a core, or none did: nobody, or best effort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Who had it; `None`: no server.
    pub who: Option<String>,
    /// Its start.
    pub since: u64,
    /// Its end.
    pub until: u64,
}

/// Adds a span behind others, as a part of the last one where that is the same one's.
pub(crate) fn append(spans: &mut Vec<Span>, span: Span) {
    match spans.last_mut() {
        Some(last) if last.who == span.who && last.until == span.since => last.until = span.until,
        _ if span.since == span.until => {}
        _ => spans.push(span),
    }
}
