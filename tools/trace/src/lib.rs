//! Files with what happened on a board and in its guests, as existing viewers open them.
//!
//! | module | |
//! |---|---|
//! | `model` | what a trace has |
//! | `format` | the events' formats and bytes |
//! | `page` | pages of a ring of Linux's tracing |
//! | `perfetto` | traces of Perfetto |
//! | `read` | reads files of trace-cmd |
//! | `report` | what people ask of a trace, answered in text |
//! | `trace_dat` | files of trace-cmd, for it and KernelShark |

#![forbid(unsafe_code)]

pub mod area;
mod format;
pub mod lines;
pub mod model;
mod page;
pub mod perfetto;
pub mod read;
pub mod recording;
pub mod report;
pub mod trace_dat;

pub use page::TooLong;
