//! Values of ESR_EL2 as hardware and QEMU give them, and that none panics.

use hanok_decode::{
    Condition, Coprocessor, Debug, Eret, Esr, Fault, Origin, Syndrome, SysReg, Wait,
};
use hanok_types::Width;
use proptest::prelude::*;

fn esr(class: u64, iss: u64) -> u64 {
    class << 26 | 1 << 25 | iss
}

#[test]
fn a_load_from_a_device() {
    // LDR W3, [X1] at level 3 of stage 2: ISV, SAS = word, SRT = 3, SF = 0.
    let Syndrome::DataAbort(abort) = Syndrome::decode(0x9383_0007) else {
        panic!("not a data abort");
    };
    let access = abort.access.unwrap();
    assert_eq!((access.width, access.register), (Width::Word, 3));
    assert!(!access.wide && !access.sign_extend && !abort.write);
    assert_eq!(abort.fault, Fault::Translation(3));
    assert_eq!(abort.origin, Origin::Lower);
    assert!(abort.has_ipa());
}

#[test]
fn a_sign_extending_load_and_a_store() {
    // LDRSH X30: SAS = half, SSE, SF; STR XZR: SAS = double, WnR.
    let load = 1 << 24 | 1 << 22 | 1 << 21 | 30 << 16 | 1 << 15 | 0x05;
    let Syndrome::DataAbort(abort) = Syndrome::decode(esr(0x24, load)) else {
        panic!("not a data abort");
    };
    let access = abort.access.unwrap();
    assert!(access.sign_extend && access.wide);
    assert_eq!((access.width, access.register), (Width::Half, 30));
    let store = 1 << 24 | 3 << 22 | 31 << 16 | 1 << 15 | 1 << 6 | 0x05;
    let Syndrome::DataAbort(abort) = Syndrome::decode(esr(0x24, store)) else {
        panic!("not a data abort");
    };
    assert!(abort.write);
    assert_eq!(abort.access.unwrap().width, Width::Double);
}

#[test]
fn an_access_that_only_the_instruction_tells() {
    let Syndrome::DataAbort(abort) = Syndrome::decode(0x9200_0006) else {
        panic!("not a data abort");
    };
    assert_eq!(abort.access, None);
}

#[test]
fn hypervisor_calls_and_waits() {
    assert_eq!(Syndrome::decode(0x5a00_0000), Syndrome::Hvc(0));
    assert_eq!(Syndrome::decode(esr(0x16, 0x4a48)), Syndrome::Hvc(0x4a48));
    assert_eq!(Syndrome::decode(esr(0x12, 7)), Syndrome::Hvc(7));
    assert_eq!(Syndrome::decode(esr(0x17, 1)), Syndrome::Smc(1));
    let Syndrome::Wait(wait) = Syndrome::decode(0x07e0_0001) else {
        panic!("not a wait");
    };
    // A WFE: CV = 0 or "always", TI = 1.
    assert_eq!(wait.kind, Wait::Wfe);
    let Syndrome::Wait(wait) = Syndrome::decode(esr(1, 1 << 24 | 14 << 20 | 9 << 5 | 0b110)) else {
        panic!("not a wait");
    };
    assert_eq!((wait.kind, wait.timeout), (Wait::Wfit, Some(9)));
    assert_eq!(wait.condition, Condition::Code(14));
}

#[test]
fn a_system_register_with_its_operands() {
    // MSR ICC_SGI1R_EL1, X5: op0 3, op2 5, op1 0, CRn 12, Rt 5, CRm 11, write.
    let iss = 3 << 20 | 5 << 17 | 12 << 10 | 5 << 5 | 11 << 1;
    let Syndrome::SystemRegister(trap) = Syndrome::decode(esr(0x18, iss)) else {
        panic!("not a system register");
    };
    assert_eq!(trap.register, SysReg::ICC_SGI1R_EL1);
    assert_eq!((trap.operand, trap.read), (5, false));
    let Syndrome::SystemRegister(trap) = Syndrome::decode(esr(0x18, iss | 1)) else {
        panic!("not a system register");
    };
    assert!(trap.read);
}

#[test]
fn an_aarch32_coprocessor_access() {
    // MRC p15, 0, R2, c9, c12, 0 (PMCR).
    let iss = 1 << 24 | 14 << 20 | 9 << 10 | 2 << 5 | 12 << 1 | 1;
    let expected = Coprocessor {
        condition: Condition::Code(14),
        opc1: 0,
        opc2: 0,
        crn: 9,
        crm: 12,
        register: 2,
        read: true,
    };
    assert_eq!(Syndrome::decode(esr(0x03, iss)), Syndrome::Cp15(expected));
    assert_eq!(Syndrome::decode(esr(0x05, iss)), Syndrome::Cp14(expected));
    let Syndrome::Cp15Pair(pair) = Syndrome::decode(esr(0x04, 3 << 16 | 7 << 10 | 6 << 5)) else {
        panic!("not a pair");
    };
    assert_eq!((pair.opc1, pair.registers), (3, [6, 7]));
    assert_eq!(pair.condition, Condition::Unknown);
}

#[test]
fn the_condition_of_an_aarch32_instruction() {
    let condition = |class, iss| {
        let value = esr(class, iss);
        Syndrome::decode(value).condition(value)
    };
    const NE: u64 = 1 << 20;
    const VALID: u64 = 1 << 24;
    // WFX, MCR and MRC, MCRR and MRRC, LDC and STC, FP, VMRS.
    for class in [0x01, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x0c] {
        let found = condition(class, VALID | NE);
        assert_eq!(found, Condition::Code(1), "class {class:#x}");
        assert_eq!(condition(class, NE), Condition::Unknown, "class {class:#x}");
    }
    // SMC says whether it is known to have passed; HVC has no condition.
    const MAY_HAVE_FAILED: u64 = 1 << 19;
    let smc = |iss| condition(0x13, iss);
    assert_eq!(smc(VALID | NE | MAY_HAVE_FAILED), Condition::Code(1));
    assert_eq!(smc(NE | MAY_HAVE_FAILED), Condition::Unknown);
    assert_eq!(smc(VALID | NE), Condition::Code(14));
    assert_eq!(condition(0x12, VALID | NE), Condition::Code(14));
    assert_eq!(condition(0x17, VALID | NE), Condition::Code(14));
    assert_eq!(condition(0x24, VALID | NE), Condition::Code(14));
}

#[test]
fn classes_without_operands() {
    let decode = |class| Syndrome::decode(esr(class, 0));
    assert_eq!(decode(0x00), Syndrome::Unknown);
    assert_eq!(decode(0x07), Syndrome::FpAccess);
    assert_eq!(decode(0x0e), Syndrome::IllegalState);
    assert_eq!(decode(0x19), Syndrome::Sve);
    assert_eq!(decode(0x22), Syndrome::PcAlignment);
    assert_eq!(decode(0x26), Syndrome::SpAlignment);
    assert_eq!(decode(0x2c), Syndrome::FpException);
    assert_eq!(decode(0x1b), Syndrome::Other(0x1b));
    assert_eq!(decode(0x3e), Syndrome::Other(0x3e));
    assert_eq!(Syndrome::decode(esr(0x1a, 2)), Syndrome::Eret(Eret::KeyA));
    let brk = Syndrome::decode(esr(0x3c, 0x800));
    assert_eq!(brk, Syndrome::Debug(Debug::Brk(0x800)));
}

/// DDI 0487 D24.2, ESR_EL2: each class of exceptions that is an instruction's own or a debugger's,
/// with what its ISS says.
#[test]
fn each_class_is_what_the_table_says() {
    use Origin::{Current, Lower};
    let write = 1 << 6;
    for (class, iss, wanted) in [
        (0x09, 0, Syndrome::PointerAuthentication),
        (0x0a, 2, Syndrome::OtherInstruction(2)),
        (0x0d, 0, Syndrome::BranchTarget),
        (0x11, 0x1234, Syndrome::Svc(0x1234)),
        (0x15, 0xabcd, Syndrome::Svc(0xabcd)),
        (0x1c, 0, Syndrome::PointerAuthenticationFail),
        (0x1d, 0, Syndrome::Sme(0)),
        (0x1d, 0b1101, Syndrome::Sme(0b101)),
        (0x30, 0x22, Syndrome::Debug(Debug::Breakpoint(Lower))),
        (0x31, 0x22, Syndrome::Debug(Debug::Breakpoint(Current))),
        (0x32, 0x22, Syndrome::Debug(Debug::Step(Lower))),
        (0x33, 0x22, Syndrome::Debug(Debug::Step(Current))),
        (0x34, write, Syndrome::Debug(Debug::Watchpoint(Lower, true))),
        (0x34, 0x22, Syndrome::Debug(Debug::Watchpoint(Lower, false))),
        (
            0x35,
            write,
            Syndrome::Debug(Debug::Watchpoint(Current, true)),
        ),
        (0x38, 0xabcd, Syndrome::Debug(Debug::Bkpt(0xabcd))),
        (0x3a, 0, Syndrome::Debug(Debug::VectorCatch)),
    ] {
        assert_eq!(Syndrome::decode(esr(class, iss)), wanted, "{class:#x}");
    }
    let Syndrome::InstructionAbort(abort) = Syndrome::decode(esr(0x21, 0x07)) else {
        panic!("not an instruction abort");
    };
    assert_eq!(
        (abort.origin, abort.fault),
        (Current, Fault::Translation(3))
    );
    // IDS, AET, EA and DFSC.
    let iss = 1 << 24 | 3 << 10 | 1 << 9 | 0x11;
    let Syndrome::SError(error) = Syndrome::decode(esr(0x2f, iss)) else {
        panic!("not an SError");
    };
    assert!(error.implementation_defined && error.external_type);
    assert_eq!(
        (error.severity, error.code, error.iss),
        (3, 0x11, iss as u32)
    );
}

#[test]
fn a_permission_fault_has_no_ipa_but_on_a_walk() {
    for (iss, has) in [(0x0f, false), (0x8f, true), (0x10, false), (0x0b, true)] {
        let Syndrome::InstructionAbort(abort) = Syndrome::decode(esr(0x20, iss)) else {
            panic!("not an instruction abort");
        };
        assert_eq!(abort.has_ipa(), has, "{iss:#x}");
        let Syndrome::DataAbort(abort) = Syndrome::decode(esr(0x24, iss)) else {
            panic!("not a data abort");
        };
        assert_eq!(abort.has_ipa(), has, "{iss:#x}");
    }
}

proptest! {
    #[test]
    fn only_aarch32_traps_have_a_condition(value: u64) {
        // The exception classes whose ISS has CV and COND (DDI 0487, ESR_EL2): WFx, the
        // coprocessor traps, Advanced SIMD and floating point, VMRS, SMC of AArch32.
        let has_one = matches!(value >> 26 & 0x3f, 1 | 3..=8 | 0xc | 0x13);
        match Syndrome::decode(value).condition(value) {
            Condition::Code(14) => {}
            Condition::Code(code) => prop_assert!(has_one && code < 16),
            Condition::Unknown => prop_assert!(has_one && value >> 24 & 1 == 0),
        }
    }

    #[test]
    fn only_the_other_classes_are_other(value: u64) {
        if let Syndrome::Other(class) = Syndrome::decode(value) {
            prop_assert_eq!(u64::from(class), value >> 26 & 0x3f);
        }
        prop_assert!(matches!(Esr::from_bits(value).instruction_length(), 2 | 4));
    }
}
