//! The guest's own translation, by the registers of its virtual CPU.

use crate::host::Host;
use crate::view::View;
use hanok_cpu32::{Fault, FaultStatus, Mode, Registers, SystemRegister, VirtualCpu};
use hanok_decode::aarch32::{self, Operation, Sensitive};
use hanok_paging::shadow::HostMemory;
use hanok_paging::short::{
    Access, AccessKind, GuestMapping, Privilege, Pxn, ShortFault, ShortFaultKind, ShortLevel,
    ShortRegime, WalkError,
};

/// TTBCR.EAE: long descriptors.
const LONG: u32 = 1 << 31;

/// The registers that control the guest's translation.
pub(crate) fn regime(cpu: &VirtualCpu) -> ShortRegime {
    let register = |register| cpu.system(register);
    ShortRegime {
        sctlr: register(SystemRegister::Sctlr),
        ttbr0: register(SystemRegister::Ttbr0),
        ttbr1: register(SystemRegister::Ttbr1),
        ttbcr: register(SystemRegister::Ttbcr),
        dacr: register(SystemRegister::Dacr),
        prrr: register(SystemRegister::Prrr),
        nmrr: register(SystemRegister::Nmrr),
        pxn: Pxn::Absent,
    }
}

/// Where an access of the guest leads. Code that was added to its kernel ([`Code::is_added`]) lies in RAM that
/// the kernel knows nothing of and may map execute-never: its kernel may execute what it may read there.
///
/// [`Code::is_added`]: crate::code::Code::is_added
pub(crate) fn walk<H: Host>(
    regime: &ShortRegime,
    access: &Access,
    view: &View<'_, H>,
) -> Result<GuestMapping, WalkError> {
    let walk = |access: &Access| regime.walk(access, |at| view.word(at));
    let found = walk(access);
    match found {
        Err(WalkError::Fault(fault))
            if fault.kind == ShortFaultKind::Permission
                && access.kind == AccessKind::Execute
                && access.by == Privilege::Kernel => {}
        found => return found,
    }
    let read = Access {
        kind: AccessKind::Read,
        ..*access
    };
    match walk(&read) {
        Ok(mut mapping) if view.code.is_added(mapping.output) => {
            mapping.permissions.kernel.execute = true;
            Ok(mapping)
        }
        _ => found,
    }
}

/// Whether an instruction is to enable long descriptors, which the virtual CPU does not have: it writes
/// TTBCR with EAE.
pub(crate) fn wants_long(registers: &Registers, instruction: &Sensitive) -> bool {
    let Operation::Coprocessor(access) = instruction.operation else {
        return false;
    };
    match access.access {
        aarch32::Access::Register {
            read: false,
            opc1: 0,
            crn: 2,
            crm: 0,
            opc2: 2,
            register,
        } => access.number == 15 && registers.read(register) & LONG != 0,
        _ => false,
    }
}

/// With whose rights a mode accesses memory.
pub(crate) const fn privilege(mode: Mode) -> Privilege {
    if mode.is_privileged() {
        Privilege::Kernel
    } else {
        Privilege::User
    }
}

/// A fault of a walk as the virtual CPU reports it.
pub(crate) const fn fault(fault: &ShortFault) -> Fault {
    use FaultStatus::*;
    let status = match (fault.kind, fault.level) {
        (ShortFaultKind::Translation, ShortLevel::First) => TranslationFirst,
        (ShortFaultKind::Translation, ShortLevel::Second) => TranslationSecond,
        (ShortFaultKind::AccessFlag, ShortLevel::First) => AccessFlagFirst,
        (ShortFaultKind::AccessFlag, ShortLevel::Second) => AccessFlagSecond,
        (ShortFaultKind::Domain, ShortLevel::First) => DomainFirst,
        (ShortFaultKind::Domain, ShortLevel::Second) => DomainSecond,
        (ShortFaultKind::Permission, ShortLevel::First) => PermissionFirst,
        (ShortFaultKind::Permission, ShortLevel::Second) => PermissionSecond,
        (ShortFaultKind::ExternalOnWalk, ShortLevel::First) => ExternalOnWalkFirst,
        (ShortFaultKind::ExternalOnWalk, ShortLevel::Second) => ExternalOnWalkSecond,
    };
    Fault {
        status,
        domain: fault.domain,
    }
}
