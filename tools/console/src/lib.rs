//! The consoles of a running board: its serial line is taken apart into the hypervisor's messages
//! and each VM's console, and watched by a script or by a person.

#![forbid(unsafe_code)]

mod advice;
pub mod attach_socket;
pub mod carry;
mod clock;
pub mod demux;
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
pub mod report_lines;
pub mod request;
pub mod run;
pub mod screen;
pub mod script;
mod session;
pub mod terminal;
pub mod typing;
pub mod watch;
