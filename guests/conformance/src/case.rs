//! What a case is, and how it fails.

use crate::machine::Machine;
use crate::tree::Host;
use core::fmt::Write;
use hanok_types::GicVersion;
use heapless::String;

/// Why a case did not pass.
pub enum Failure {
    /// The machine does not do what the case says it must.
    Wrong(String<112>),
}

impl Failure {
    /// A failure with this text, cut where it is too long.
    pub fn wrong(arguments: core::fmt::Arguments<'_>) -> Self {
        let mut text = String::new();
        // A text that does not fit is cut; its beginning still names the check.
        let _ = text.write_fmt(arguments);
        Self::Wrong(text)
    }
}

/// How a case ends.
pub type Outcome = Result<(), Failure>;

/// One property that is checked.
pub struct Case {
    /// Its name, for `conformance.run` and the console.
    pub name: &'static str,
    /// How many vCPUs it needs.
    pub cpus: usize,
    /// Where it must hold: on Hanok only, or on QEMU too.
    pub host: Host,
    /// The one interrupt controller that it is about; `None`: it holds for both.
    pub gic: Option<GicVersion>,
    /// The check itself.
    pub run: fn(&Machine) -> Outcome,
}

impl Case {
    /// The case is about GICv2.
    pub const fn v2(self) -> Self {
        Self {
            gic: Some(GicVersion::V2),
            ..self
        }
    }

    /// The case is about GICv3.
    pub const fn v3(self) -> Self {
        Self {
            gic: Some(GicVersion::V3),
            ..self
        }
    }
}

/// A case that must hold on QEMU and on Hanok, with one vCPU or as many as given.
pub const fn case(name: &'static str, cpus: usize, run: fn(&Machine) -> Outcome) -> Case {
    Case {
        name,
        cpus,
        host: Host::Qemu,
        gic: None,
        run,
    }
}

/// A case that must hold on Hanok, and does not hold on QEMU's machine without a hypervisor.
pub const fn hanok_case(name: &'static str, cpus: usize, run: fn(&Machine) -> Outcome) -> Case {
    Case {
        name,
        cpus,
        host: Host::Hanok,
        gic: None,
        run,
    }
}

/// Fails the case with the text unless the condition holds.
macro_rules! check {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::case::Failure::wrong(format_args!($($text)+)));
        }
    };
}

/// Fails the case unless both values are equal, and prints both.
macro_rules! check_eq {
    ($got:expr, $expected:expr, $($text:tt)+) => {{
        let (got, expected) = ($got, $expected);
        check!(got == expected, "{}: got {got:x?}, expected {expected:x?}", format_args!($($text)+));
    }};
}
