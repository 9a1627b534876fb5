//! What a coprocessor instruction belongs to, and what User mode may do with it (DDI 0406C B3.15,
//! B8.1, C6).

use super::coprocessor::{Access, Coprocessor};
use super::user::UserMode;

/// The part of the architecture that a coprocessor instruction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Facility {
    /// The barriers in their CP15 form.
    Barrier,
    /// CP15 c13: FCSE, CONTEXTIDR and the thread registers.
    ThreadRegister,
    /// CP15 c3: DACR.
    DomainAccess,
    /// CP15 c7: caches, branch predictors, address translation.
    Cache,
    /// CP15 c8: TLB maintenance.
    Tlb,
    /// CP15 c9: performance monitors.
    PerformanceMonitor,
    /// CP15 c14: the generic timer.
    Timer,
    /// CP15: all other registers that the architecture names.
    System,
    /// CP15 c9, c10, c11 and c15: registers that only the CPU's own manual defines.
    Implementation,
    /// CP14: debug and trace.
    Debug,
    /// CP14: ThumbEE.
    ThumbEe,
    /// CP14: Jazelle.
    Jazelle,
    /// CP10 and CP11: system registers of VFP and Advanced SIMD.
    FloatingPoint,
    /// Another coprocessor; no Cortex-A has one.
    Vendor,
}

impl Coprocessor {
    /// The part of the architecture that the instruction belongs to.
    pub const fn facility(&self) -> Facility {
        match self.number {
            15 => self.facility_15(),
            14 => self.facility_14(),
            10 | 11 => Facility::FloatingPoint,
            _ => Facility::Vendor,
        }
    }

    const fn facility_15(&self) -> Facility {
        match self.access {
            Access::Register {
                crn,
                crm,
                opc1,
                opc2,
                ..
            } => match (crn, crm) {
                (3, _) => Facility::DomainAccess,
                (7, 5) if opc1 == 0 && opc2 == 4 => Facility::Barrier,
                (7, 10) if opc1 == 0 && (opc2 == 4 || opc2 == 5) => Facility::Barrier,
                (7, _) => Facility::Cache,
                (8, _) => Facility::Tlb,
                (9, 12..=14) | (14, 8..=15) if opc1 == 0 => Facility::PerformanceMonitor,
                (10, 2..=3) => Facility::System,
                (9..=11 | 15, _) => Facility::Implementation,
                (13, _) => Facility::ThreadRegister,
                (14, _) => Facility::Timer,
                _ => Facility::System,
            },
            Access::Pair { crm, .. } => match crm {
                7 => Facility::Cache,
                9 => Facility::PerformanceMonitor,
                14 => Facility::Timer,
                15 => Facility::Implementation,
                _ => Facility::System,
            },
            Access::Operation { .. } | Access::Memory(_) => Facility::System,
        }
    }

    const fn facility_14(&self) -> Facility {
        match self.access {
            Access::Register { opc1: 6, .. } => Facility::ThumbEe,
            Access::Register { opc1: 7, .. } => Facility::Jazelle,
            _ => Facility::Debug,
        }
    }

    /// What the instruction does in User mode.
    pub(super) fn user(&self) -> UserMode {
        match self.number {
            // CP15 has only MCR, MRC, MCRR and MRRC (B3.15).
            14 | 15 if self.second_kind => UserMode::Undefined,
            15 => self.user_15(),
            14 => self.user_14(),
            _ => UserMode::Undefined,
        }
    }

    fn user_15(&self) -> UserMode {
        match self.access {
            Access::Register {
                read,
                opc1: 0,
                crn,
                crm,
                opc2,
                ..
            } => user_register(read, crn, crm, opc2),
            Access::Register { crn: 15, .. } => UserMode::Configured,
            // CNTPCT and CNTVCT; CNTP_CVAL and CNTV_CVAL (B8.1).
            Access::Pair {
                read: true,
                opc1: 0..=3,
                crm: 14,
                ..
            }
            | Access::Pair {
                read: false,
                opc1: 2..=3,
                crm: 14,
                ..
            } => UserMode::Configured,
            Access::Pair { crm: 11 | 15, .. } => UserMode::Configured,
            _ => UserMode::Undefined,
        }
    }

    /// User mode may access the debug communications channel and the ID registers unless
    /// DBGDSCR.UDCCdis forbids it (C6, and C11.11, DBGDSCR), ThumbEE's handler base unless
    /// TEECR.XED forbids it (A2.10), and Jazelle's registers except JOSCR unless JOSCR.CD forbids
    /// it (A2.9).
    fn user_14(&self) -> UserMode {
        let open = match self.access {
            Access::Register { opc1: 1, .. } => true,
            Access::Register {
                opc1,
                crn,
                crm,
                opc2: 0,
                read,
                ..
            } => match (opc1, crn, crm) {
                (0, 0, 5) | (6, 1, 0) => true,
                (0, 0, 0 | 1) | (0, 1 | 2, 0) | (6, 0, 0) => read,
                (7, _, 0) => crn != 1,
                _ => false,
            },
            Access::Pair {
                opc1, crm, read, ..
            } => read && opc1 == 0 && matches!(crm, 1 | 2),
            Access::Memory(transfer) => transfer.crd == 5 && !transfer.long,
            _ => false,
        };
        if open {
            UserMode::Configured
        } else {
            UserMode::Undefined
        }
    }
}

/// MRC and MCR of CP15 with opc1 zero (DDI 0406C B3.17, B4.1).
fn user_register(read: bool, crn: u8, crm: u8, opc2: u8) -> UserMode {
    match (crn, crm, opc2) {
        // CP15ISB, CP15DSB, CP15DMB (B4.2).
        (7, 5, 4) | (7, 10, 4 | 5) if !read => UserMode::Legal,
        // TPIDRURW may be read and written, TPIDRURO only read (B4.1).
        (13, 0, 2) => UserMode::Legal,
        (13, 0, 3) if read => UserMode::Legal,
        // PMUSERENR may be read. It allows access to the others, except those that control
        // interrupts (B4.1, PMUSERENR).
        (9, 14, 0) if read => UserMode::Legal,
        (9, 14, 0..=2) => UserMode::Undefined,
        (9, 12..=14, _) => UserMode::Configured,
        // CNTFRQ may be read; CNTKCTL allows access to the timers' TVAL and CTL (B8.1).
        (14, 0, 0) if read => UserMode::Configured,
        (14, 2 | 3, 0 | 1) => UserMode::Configured,
        // PMEVCNTR, PMEVTYPER and PMCCFILTR of PMUv3, which ARMv8 adds.
        (14, 8..=15, _) => UserMode::Configured,
        // Preload engines, and registers that only the CPU's manual defines.
        (11 | 15, _, _) => UserMode::Configured,
        _ => UserMode::Undefined,
    }
}
