//! The cause of an exit, from ESR_EL2 (DDI 0487 D24.2, ESR_EL2).

use crate::abort::{AbortIss, DataAbort, Fault, InstructionAbort};
use crate::class::{Class, Condition, Esr, Origin};
use crate::coprocessor::{
    Coprocessor, CoprocessorPair, CoprocessorTransfer, PairIss, SingleIss, TransferIss,
};
use crate::sysreg::SysReg;
use bitfield_struct::{bitenum, bitfield};

/// The waiting instructions, as TI encodes them.
#[bitenum]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // the instructions' names
pub enum Wait {
    Wfi = 0b00,
    Wfe = 0b01,
    Wfit = 0b10,
    #[fallback]
    Wfet = 0b11,
}

/// A trapped WFI, WFE, WFIT or WFET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeout {
    /// The instruction.
    pub kind: Wait,
    /// The condition of an AArch32 instruction.
    pub condition: Condition,
    /// The register that holds the end of the wait, for a WFIT or WFET if the CPU tells it.
    pub timeout: Option<u8>,
}

/// A trapped MSR, MRS or system instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemRegister {
    /// The register or system instruction.
    pub register: SysReg,
    /// The general register; 31 is the zero register.
    pub operand: u8,
    /// Whether the instruction reads the system register.
    pub read: bool,
}

/// A trapped exception return.
#[bitenum]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Eret {
    /// ERET.
    #[fallback]
    Plain = 0b00,
    /// ERETAA.
    KeyA = 0b10,
    /// ERETAB.
    KeyB = 0b11,
}

/// An SError.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SError {
    /// Whether the rest of the syndrome is the implementation's own (IDS).
    pub implementation_defined: bool,
    /// AET: the severity, if the code is 0b010001 (FEAT_RAS): 0 uncontainable, 1 unrecoverable, 2
    /// restartable, 3 recoverable, 6 corrected.
    pub severity: u8,
    /// EA: the implementation's type of an external abort.
    pub external_type: bool,
    /// DFSC: 0 uncategorized, 0x11 with a severity in [`Self::severity`].
    pub code: u8,
    /// The whole ISS, for the log.
    pub iss: u32,
}

/// A debug exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Debug {
    /// A hardware breakpoint.
    Breakpoint(Origin),
    /// A software step.
    Step(Origin),
    /// A watchpoint; `true` if a write hit it.
    Watchpoint(Origin, bool),
    /// BKPT (AArch32), with its comment.
    Bkpt(u16),
    /// A vector catch (AArch32).
    VectorCatch,
    /// BRK, with its comment.
    Brk(u16),
}

/// The cause of an exit to EL2. A class that has no variant here is [`Self::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// No cause is recorded; usually the instruction is undefined.
    Unknown,
    /// WFI or WFE, with or without a time limit.
    Wait(WaitTimeout),
    /// MCR or MRC to coprocessor 15 (AArch32).
    Cp15(Coprocessor),
    /// MCRR or MRRC to coprocessor 15 (AArch32).
    Cp15Pair(CoprocessorPair),
    /// MCR or MRC to coprocessor 14 (AArch32).
    Cp14(Coprocessor),
    /// MRRC to coprocessor 14 (AArch32).
    Cp14Pair(CoprocessorPair),
    /// LDC or STC to coprocessor 14 (AArch32).
    Cp14Transfer(CoprocessorTransfer),
    /// VMRS of an ID register (AArch32, coprocessor 10).
    Vmrs(Coprocessor),
    /// An access to FP or SIMD, or to SVE if that has no class of its own (CPTR_EL2.TFP).
    FpAccess,
    /// An access to SVE (CPTR_EL2.TZ).
    Sve,
    /// An access to SME (CPTR_EL2.TSM), with SMTC.
    Sme(u8),
    /// A pointer authentication instruction (HCR_EL2.API).
    PointerAuthentication,
    /// A failed pointer authentication (FEAT_FPAC).
    PointerAuthenticationFail,
    /// An instruction that has no class of its own: 0 ST64BV, 1 ST64BV0, 2 LD64B or ST64B
    /// (FEAT_LS64); later CPUs add more.
    OtherInstruction(u32),
    /// An indirect branch to an instruction that is no branch target (FEAT_BTI).
    BranchTarget,
    /// An instruction executed with PSTATE.IL set.
    IllegalState,
    /// SVC, with its immediate. It exits to EL2 only with HCR_EL2.TGE or a fine-grained trap.
    Svc(u16),
    /// HVC, with its immediate.
    Hvc(u16),
    /// SMC, with its immediate, which the syndrome of an AArch32 SMC does not tell. The PC is that
    /// of the SMC itself, unlike that of an HVC. Whether an AArch32 SMC was to execute at all:
    /// [`Syndrome::condition`].
    Smc(u16),
    /// MSR, MRS or a system instruction.
    SystemRegister(SystemRegister),
    /// An exception return (HCR_EL2.NV).
    Eret(Eret),
    /// A failed instruction fetch.
    InstructionAbort(InstructionAbort),
    /// A failed load, store or cache maintenance.
    DataAbort(DataAbort),
    /// The PC is unaligned.
    PcAlignment,
    /// The stack pointer is unaligned.
    SpAlignment,
    /// A trapped floating-point exception.
    FpException,
    /// An asynchronous error.
    SError(SError),
    /// A debug exception.
    Debug(Debug),
    /// Any other class, as its six bits of EC: a class for a feature that VMs do not have, or a
    /// reserved one.
    Other(u8),
}

impl Syndrome {
    /// Decodes a value of ESR_EL2. Any value has an answer.
    pub fn decode(esr: u64) -> Self {
        let value = Esr::from_bits(esr);
        let iss = value.iss();
        instruction(value.class(), iss)
            .or_else(|| coprocessor(value.class(), iss))
            .or_else(|| abort(value.class(), iss))
            .or_else(|| debug(value.class(), iss).map(Self::Debug))
            .unwrap_or(Self::Other((esr >> 26) as u8 & 0x3f))
    }
}

impl Syndrome {
    /// The condition of the AArch32 instruction that exited. `esr` is the value that was decoded. A
    /// CPU may trap an instruction whose condition fails (DDI 0487, G1.20.2).
    pub fn condition(&self, esr: u64) -> Condition {
        /// An instruction that has no condition, or whose condition is known to have passed.
        const ALWAYS: Condition = Condition::Code(0b1110);
        let iss = Esr::from_bits(esr).iss();
        match (self, Esr::from_bits(esr).class()) {
            (Self::Wait(wait), _) => wait.condition,
            (Self::Cp15(one) | Self::Cp14(one) | Self::Vmrs(one), _) => one.condition,
            (Self::Cp15Pair(pair) | Self::Cp14Pair(pair), _) => pair.condition,
            (Self::Cp14Transfer(transfer), _) => transfer.condition,
            (Self::FpAccess, _) => Condition::from_bits(SingleIss::from_bits(iss).condition()),
            (Self::Smc(_), Class::Smc32) => {
                let smc = SmcIss::from_bits(iss);
                if smc.may_have_failed() {
                    Condition::from_bits(smc.condition())
                } else {
                    ALWAYS
                }
            }
            _ => ALWAYS,
        }
    }
}

/// Traps of AArch64 instructions, and of those that both execution states have.
fn instruction(class: Class, iss: u32) -> Option<Syndrome> {
    Some(match class {
        Class::Unknown => Syndrome::Unknown,
        Class::Wfx => Syndrome::Wait(WaitIss::from_bits(iss).into()),
        Class::FpAccess => Syndrome::FpAccess,
        Class::Sve => Syndrome::Sve,
        Class::Sme => Syndrome::Sme(iss as u8 & 7),
        Class::PointerAuthentication => Syndrome::PointerAuthentication,
        Class::PointerAuthenticationFail => Syndrome::PointerAuthenticationFail,
        Class::OtherInstruction => Syndrome::OtherInstruction(iss),
        Class::BranchTarget => Syndrome::BranchTarget,
        Class::IllegalState => Syndrome::IllegalState,
        Class::Svc32 | Class::Svc64 => Syndrome::Svc(iss as u16),
        Class::Hvc32 | Class::Hvc64 => Syndrome::Hvc(iss as u16),
        Class::Smc32 => Syndrome::Smc(0),
        Class::Smc64 => Syndrome::Smc(iss as u16),
        Class::SystemRegister => Syndrome::SystemRegister(SystemIss::from_bits(iss).into()),
        Class::Eret => Syndrome::Eret(Eret::from_bits(iss as u8 & 3)),
        _ => return None,
    })
}

/// Traps of AArch32 coprocessor instructions.
fn coprocessor(class: Class, iss: u32) -> Option<Syndrome> {
    Some(match class {
        Class::Cp15 => Syndrome::Cp15(SingleIss::from_bits(iss).into()),
        Class::Cp15Pair => Syndrome::Cp15Pair(PairIss::from_bits(iss).into()),
        Class::Cp14 => Syndrome::Cp14(SingleIss::from_bits(iss).into()),
        Class::Cp14Pair => Syndrome::Cp14Pair(PairIss::from_bits(iss).into()),
        Class::Cp14Transfer => Syndrome::Cp14Transfer(TransferIss::from_bits(iss).into()),
        Class::Vmrs => Syndrome::Vmrs(SingleIss::from_bits(iss).into()),
        _ => return None,
    })
}

/// Failed accesses.
fn abort(class: Class, iss: u32) -> Option<Syndrome> {
    let fields = AbortIss::from_bits(iss);
    Some(match class {
        Class::InstructionAbortLower => {
            Syndrome::InstructionAbort(fields.instruction(Origin::Lower))
        }
        Class::InstructionAbortCurrent => {
            Syndrome::InstructionAbort(fields.instruction(Origin::Current))
        }
        Class::DataAbortLower => Syndrome::DataAbort(fields.data(Origin::Lower)),
        Class::DataAbortCurrent => Syndrome::DataAbort(fields.data(Origin::Current)),
        Class::PcAlignment => Syndrome::PcAlignment,
        Class::SpAlignment => Syndrome::SpAlignment,
        Class::FpException32 | Class::FpException64 => Syndrome::FpException,
        Class::SError => Syndrome::SError(SErrorIss::from_bits(iss).into()),
        _ => return None,
    })
}

fn debug(class: Class, iss: u32) -> Option<Debug> {
    let write = AbortIss::from_bits(iss).write();
    Some(match class {
        Class::BreakpointLower => Debug::Breakpoint(Origin::Lower),
        Class::BreakpointCurrent => Debug::Breakpoint(Origin::Current),
        Class::StepLower => Debug::Step(Origin::Lower),
        Class::StepCurrent => Debug::Step(Origin::Current),
        Class::WatchpointLower => Debug::Watchpoint(Origin::Lower, write),
        Class::WatchpointCurrent => Debug::Watchpoint(Origin::Current, write),
        Class::Bkpt32 => Debug::Bkpt(iss as u16),
        Class::VectorCatch32 => Debug::VectorCatch,
        Class::Brk64 => Debug::Brk(iss as u16),
        _ => return None,
    })
}

/// SMC of AArch32.
#[bitfield(u32)]
struct SmcIss {
    #[bits(19)]
    __: u32,
    /// CCKNOWNPASS: if it is set, CV and COND are valid.
    may_have_failed: bool,
    #[bits(5)]
    condition: u8,
    #[bits(7)]
    __: u8,
}

#[bitfield(u32)]
struct WaitIss {
    #[bits(2)]
    kind: Wait,
    register_valid: bool,
    #[bits(2)]
    __: u8,
    #[bits(5)]
    register: u8,
    #[bits(10)]
    __: u16,
    #[bits(5)]
    condition: u8,
    #[bits(7)]
    __: u8,
}

impl From<WaitIss> for WaitTimeout {
    fn from(iss: WaitIss) -> Self {
        Self {
            kind: iss.kind(),
            condition: Condition::from_bits(iss.condition()),
            timeout: iss.register_valid().then(|| iss.register()),
        }
    }
}

#[bitfield(u32)]
pub(crate) struct SystemIss {
    pub read: bool,
    #[bits(4)]
    pub crm: u8,
    #[bits(5)]
    pub operand: u8,
    #[bits(4)]
    pub crn: u8,
    #[bits(3)]
    pub op1: u8,
    #[bits(3)]
    pub op2: u8,
    #[bits(2)]
    pub op0: u8,
    #[bits(10)]
    __: u16,
}

impl From<SystemIss> for SystemRegister {
    fn from(iss: SystemIss) -> Self {
        Self {
            register: SysReg::from_fields(iss.op0(), iss.op1(), iss.crn(), iss.crm(), iss.op2()),
            operand: iss.operand(),
            read: iss.read(),
        }
    }
}

#[bitfield(u32)]
struct SErrorIss {
    #[bits(6)]
    code: u8,
    #[bits(3)]
    __: u8,
    external_type: bool,
    #[bits(3)]
    severity: u8,
    #[bits(11)]
    __: u16,
    implementation_defined: bool,
    #[bits(7)]
    __: u8,
}

impl From<SErrorIss> for SError {
    fn from(iss: SErrorIss) -> Self {
        Self {
            implementation_defined: iss.implementation_defined(),
            severity: iss.severity(),
            external_type: iss.external_type(),
            code: iss.code(),
            iss: iss.into_bits(),
        }
    }
}

impl InstructionAbort {
    /// Whether HPFAR_EL2 holds the intermediate physical address of the page, because stage 2
    /// raised the fault (D24.2, HPFAR_EL2). Faults of the guest's own stage 1 do not exit to EL2.
    pub fn has_ipa(&self) -> bool {
        has_ipa(self.fault, self.on_walk)
    }
}

impl DataAbort {
    /// As [`InstructionAbort::has_ipa`].
    pub fn has_ipa(&self) -> bool {
        has_ipa(self.fault, self.on_walk)
    }
}

/// HPFAR_EL2 is written for translation, access flag and address size faults at stage 2, and for
/// any stage 2 fault on a stage 1 walk. After a permission fault on the access itself it is
/// unknown, and the address must be translated by other means.
fn has_ipa(fault: Fault, on_walk: bool) -> bool {
    match fault {
        Fault::Translation(_) | Fault::AccessFlag(_) | Fault::AddressSize(_) => true,
        Fault::Permission(_) => on_walk,
        _ => false,
    }
}
