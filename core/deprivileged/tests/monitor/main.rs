//! A guest that runs through the monitor sees what it would see on a CPU of its own.
//!
//! A small CPU (`interpret`) runs the same code in two ways: with all modes and an MMU of its own
//! (`native`), and in User mode on shadow tables, where each exception is the monitor's (`guest`).
//! After each instruction registers, banks, system registers and memory are the same (`lockstep`). While the
//! guest's kernel runs, no instruction that User mode executes differently is executed, as the
//! decoder says of what the guest wrote there.

mod added;
mod anything;
mod board;
mod confined;
mod crossings;
mod devices;
mod displaced;
mod fills;
mod flow;
mod guest;
mod hardware;
mod interpret;
mod lockstep;
mod native;
mod pages;
mod processes;
mod programs;
mod random;
mod ranges;
mod reach;
mod siblings;
mod trampolines;
mod window;
