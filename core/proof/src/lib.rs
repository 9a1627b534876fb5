//! Which words of a 4 KiB frame of a guest's kernel are code: proven by following the flow from the
//! addresses at which the guest really fetched.
//!
//! Without virtualization hardware a guest's kernel runs in User mode, where some instructions
//! silently do something else. They have to be found before they run, and only they: a literal
//! that looks like one must stay as it is. So a page is execute-never until its first fetch. From
//! there the flow is followed inside the frame ([`FrameProof::follow`]): what it reaches is code,
//! what it loads relative to the PC is data. Sites on proven code are rewritten in place
//! ([`Rewritten`]). If another place of the frame would do something else in User mode, the frame
//! stays execute-never ([`FrameProof::verdict`]), and its next fetch may prove more.
//!
//! Kept true:
//! - Nothing is guessed. A place that is reached in two ways that exclude each other is a
//!   [`Conflict`], and its frame stays execute-never until its words change.
//! - Where in doubt, the flow ends: what is not proven now is proven when it is fetched. Hence a
//!   decoder that ends too early costs time only.
//! - No place that proven code reaches by itself is forgotten: when the flow is
//!   [finished](Progress::Finished), such code goes to a place of the frame that is not proven only
//!   where a frame that is [confined](Execution::Confined) has a trap, or by an exception's return, or
//!   where an instruction ends in the next frame.
//! - A verdict never depends on whether the flow was followed to its end.
//! - Every function is total, and its work is bounded: the guest chose every word.
//!
//! One assumption is left to the caller ([`AfterCall`]): whether the instruction behind a call is
//! code. It is none if the function that is called never returns.
//!
//! # What a verdict is about
//!
//! A place that is neither proven code nor proven data is judged as if it were executed, in both
//! instruction sets. The inside of a proven instruction is not judged, and neither are proven
//! data: a guest that jumps there gets another result than on a CPU of its own, and reaches nothing
//! more by it.

#![no_std]
#![forbid(unsafe_code)]

mod bits;
mod conflict;
mod doubt;
mod flow;
mod frame;
mod halved;
mod map;
mod place;
mod proof;
mod rewritten;
mod sites;
mod suspect;
mod undefined;
mod waiting;

pub use conflict::{Conflict, Contradiction};
pub use doubt::{Doubts, GROUP, Looked, Verdict, is_part_of_doubt};
pub use flow::{Goes, Literal, Relative, Step, step_a32, step_t32};
pub use frame::{BYTES, WORDS, Words};
pub use place::Place;
pub use proof::{AfterCall, FrameProof, Progress};
pub use rewritten::{CAPACITY, Change, Refusal, Rewritten};
pub use sites::{Cause, Execution, Site, Sites};
pub use undefined::trap_for;
