//! What a case is, and how it fails.

use crate::machine::Machine;
use crate::tree::Host;
use core::fmt::Write;
use hanok_types::GicVersion;
use heapless::String;

/// Why a case did not pass.
pub enum Failure {
    /// The machine is not what was promised.
    Wrong(String<112>),
}

impl Failure {
    /// A failure with this text, cut where it is too long.
    pub fn wrong(arguments: core::fmt::Arguments<'_>) -> Self {
        let mut text = String::new();
        // A text that does not fit is cut; what is there still names the check.
        let _ = text.write_fmt(arguments);
        Self::Wrong(text)
    }
}

/// How a case ends.
pub type Outcome = Result<(), Failure>;

/// One thing that is looked at.
pub struct Case {
    /// Its name, for `conformance.run` and the console.
    pub name: &'static str,
    /// How many vCPUs it needs.
    pub cpus: usize,
    /// Where it must hold: Hanok, or also QEMU.
    pub host: Host,
    /// The one interrupt controller that it is about; `None` for both.
    pub gic: Option<GicVersion>,
    /// The look.
    pub run: fn(&Machine) -> Outcome,
}

impl Case {
    /// It is about GICv2.
    pub const fn v2(self) -> Self {
        Self {
            gic: Some(GicVersion::V2),
            ..self
        }
    }

    /// It is about GICv3.
    pub const fn v3(self) -> Self {
        Self {
            gic: Some(GicVersion::V3),
            ..self
        }
    }
}

/// A case that must hold on QEMU and in Hanok, on one vCPU or as many as given.
pub const fn case(name: &'static str, cpus: usize, run: fn(&Machine) -> Outcome) -> Case {
    Case {
        name,
        cpus,
        host: Host::Qemu,
        gic: None,
        run,
    }
}

/// A case that Hanok promises, and QEMU's machine without a hypervisor does not.
pub const fn hanok_case(name: &'static str, cpus: usize, run: fn(&Machine) -> Outcome) -> Case {
    Case {
        name,
        cpus,
        host: Host::Hanok,
        gic: None,
        run,
    }
}

/// Ends the case with the text, unless the condition holds.
macro_rules! check {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::case::Failure::wrong(format_args!($($text)+)));
        }
    };
}

/// Ends the case unless both are equal, and says both.
macro_rules! check_eq {
    ($got:expr, $expected:expr, $($text:tt)+) => {{
        let (got, expected) = ($got, $expected);
        check!(got == expected, "{}: got {got:x?}, expected {expected:x?}", format_args!($($text)+));
    }};
}
