//! What an Allwinner A10 has in place of a GIC and of a generic timer: an interrupt controller for one CPU and six
//! timers, of which three are used (A10 User Manual, "Interrupt Controller" and "Timer").

mod interrupts;
mod timers;

pub use interrupts::AllwinnerInterrupts;
pub use timers::{AllwinnerTimer, AllwinnerTimers};
