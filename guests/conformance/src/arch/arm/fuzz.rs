//! The guest that tries everything has no instructions of 32 bit yet, and says so.

use crate::machine::Machine;

/// What the boot arguments ask for: nothing that is known here.
pub struct Options;

impl Options {
    /// From the words on the command line.
    pub fn new<'a>(_: impl Fn(&str) -> Option<&'a str>) -> Self {
        Self
    }
}

/// Fails.
pub fn run(_: &Machine, _: &Options) -> ! {
    println!("FAIL fuzz: not in 32 bit");
    crate::psci::system_off()
}
