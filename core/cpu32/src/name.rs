//! The registers of a coprocessor by their names, and who may use them.

/// The name of a register of a coprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) opc1: u8,
    pub(crate) crn: u8,
    pub(crate) crm: u8,
    pub(crate) opc2: u8,
}

impl Name {
    /// Opc1, CRn, CRm and opc2, in the order of the assembler's syntax.
    pub(crate) const fn tuple(self) -> (u8, u8, u8, u8) {
        (self.opc1, self.crn, self.crm, self.opc2)
    }

    /// Whether it is of the performance monitors, PMUv2 (C12.8).
    pub(crate) const fn is_monitor(self) -> bool {
        matches!(
            self.tuple(),
            (0, 9, 12, 0..=7) | (0, 9, 13, 0..=2) | (0, 9, 14, 0..=3)
        )
    }

    /// Whether it reads as zero and ignores writes: ACTLR, ADFSR, AIFSR, FCSEIDR.
    pub(crate) const fn is_empty(self) -> bool {
        matches!(
            self.tuple(),
            (0, 1, 0, 1) | (0, 5, 1, 0 | 1) | (0, 13, 0, 0)
        )
    }

    /// Whether User mode may make the access: the barriers, TPIDRURW, TPIDRURO, PMUSERENR (B4.1,
    /// B4.2). The timer has its own rule.
    pub(crate) const fn is_for_programs(self, read: bool) -> bool {
        match self.tuple() {
            (0, 13, 0, 2) => true,
            (0, 13, 0, 3) | (0, 9, 14, 0) => read,
            (0, 7, 5, 4) | (0, 7, 10, 4 | 5) => !read,
            _ => false,
        }
    }

    /// Whether User mode may access this register of debug: the ID registers and the debug
    /// communications channel (C6, and C11.11, DBGDSCR.UDCCdis, which is clear).
    pub(crate) const fn is_open_debug(self, read: bool) -> bool {
        match self.tuple() {
            (0, 0, 5, 0) => true,
            (0, 0, 0 | 1, 0) | (0, 1 | 2, 0, 0) => read,
            _ => false,
        }
    }
}
