//! The consoles of a running board: one serial line taken apart into the hypervisor's
//! messages and each VM's console, watched by a script or by a person.

#![forbid(unsafe_code)]

mod advice;
pub mod carry;
mod clock;
pub mod demux;
pub mod door;
pub mod filter;
pub mod inbox;
pub mod keys;
pub mod last_line;
pub mod log;
pub mod mark;
pub mod marked;
pub mod modes;
pub mod outbox;
pub mod outlet;
pub mod prompt;
pub mod request;
pub mod run;
pub mod screen;
pub mod script;
mod session;
pub mod terminal;
pub mod typing;
pub mod watch;
