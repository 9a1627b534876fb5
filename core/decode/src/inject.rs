//! Values of ESR_EL1 for exceptions that the hypervisor injects into a guest.
//!
//! IL is 1 in all of them: the classes below require that (DDI 0487 D24.2, ESR_EL1.IL), except for
//! a trapped T32 instruction, and these values are for AArch64 guests only.

use crate::abort::{AbortIss, Fault};
use crate::class::{Class, Esr, Origin};

/// An undefined instruction, or an instruction that the VM does not have: class 0.
pub fn undefined() -> Esr {
    esr(Class::Unknown, AbortIss::new())
}

/// A data abort without a valid ISS, so that the guest uses FAR_EL1 alone. `origin` is
/// [`Origin::Lower`] if EL0 caused it, else [`Origin::Current`].
pub fn data_abort(origin: Origin, fault: Fault, write: bool) -> Esr {
    let class = match origin {
        Origin::Lower => Class::DataAbortLower,
        Origin::Current => Class::DataAbortCurrent,
    };
    let iss = AbortIss::new().with_code(fault.code()).with_write(write);
    esr(class, iss)
}

/// An instruction abort. `origin` is [`Origin::Lower`] if EL0 caused it, else [`Origin::Current`].
pub fn instruction_abort(origin: Origin, fault: Fault) -> Esr {
    let class = match origin {
        Origin::Lower => Class::InstructionAbortLower,
        Origin::Current => Class::InstructionAbortCurrent,
    };
    esr(class, AbortIss::new().with_code(fault.code()))
}

fn esr(class: Class, iss: AbortIss) -> Esr {
    Esr::new()
        .with_class(class)
        .with_long(true)
        .with_iss(iss.into_bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syndrome::Syndrome;

    #[test]
    fn an_injected_abort_reads_back() {
        let esr = data_abort(Origin::Current, Fault::External, true);
        assert_eq!(esr.into_bits(), 0x9600_0050);
        let Syndrome::DataAbort(abort) = Syndrome::decode(esr.into_bits()) else {
            panic!("not a data abort");
        };
        assert!(abort.write && abort.access.is_none());
        assert_eq!(abort.fault, Fault::External);
        let esr = instruction_abort(Origin::Lower, Fault::External);
        assert_eq!(esr.into_bits(), 0x8200_0010);
        assert_eq!(undefined().into_bits(), 0x0200_0000);
    }
}
