//! The registers that say what the virtual CPU is (DDI 0406C, B4.1 and B6.1).

use crate::name::Name;

/// The number of levels of caches that can be described.
pub const LEVELS: usize = 3;

/// The values of the registers that say what a CPU is. All have the manual's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// MIDR: the implementation.
    pub midr: u32,
    /// CTR: the lines of the caches.
    pub ctr: u32,
    /// TCMTR.
    pub tcmtr: u32,
    /// TLBTR.
    pub tlbtr: u32,
    /// MPIDR: which vCPU it is, and that there may be several.
    pub mpidr: u32,
    /// REVIDR.
    pub revidr: u32,
    /// ID_PFR0 and ID_PFR1.
    pub pfr: [u32; 2],
    /// ID_DFR0.
    pub dfr0: u32,
    /// ID_AFR0.
    pub afr0: u32,
    /// ID_MMFR0 to ID_MMFR3.
    pub mmfr: [u32; 4],
    /// ID_ISAR0 to ID_ISAR5.
    pub isar: [u32; 6],
    /// CLIDR: which caches there are.
    pub clidr: u32,
    /// CCSIDR of each level: of its data or unified cache, and of its instruction cache.
    pub ccsidr: [[u32; 2]; LEVELS],
    /// AIDR.
    pub aidr: u32,
    /// FPSID; zero if there is neither VFP nor Advanced SIMD.
    pub fpsid: u32,
    /// MVFR0 and MVFR1.
    pub mvfr: [u32; 2],
    /// L2CTLR of Cortex-A7 and A15, by which kernels count the CPUs; `None` on another CPU.
    pub l2ctlr: Option<u32>,
    /// CBAR, the address of the interrupt controller's or the SCU's registers; `None` on a CPU that
    /// does not have it.
    pub cbar: Option<u32>,
}

impl Identity {
    /// These values without what the virtual CPU does not have, and with what it has in any case: a
    /// CPU's own values become a virtual CPU's so.
    #[must_use]
    pub fn offered(mut self) -> Self {
        const VMSA: u32 = 0xf;
        const VMSA_WITH_PXN: u32 = 4;
        const TIMER: u32 = 1 << 16;
        let [pfr0, pfr1] = &mut self.pfr;
        // State0 and State1: A32 and T32. Not Jazelle, ThumbEE.
        *pfr0 &= 0xff;
        // ProgMod. Not Security, MProgMod, Virtualization.
        *pfr1 = *pfr1 & 0xf | TIMER;
        self.dfr0 = 0;
        let [mmfr0, _, mmfr2, _] = &mut self.mmfr;
        // Not FCSE. The next value of VMSA means that there are long descriptors, too.
        *mmfr0 = *mmfr0 & 0xf0ff_fff0 | (*mmfr0 & VMSA).min(VMSA_WITH_PXN);
        // Not the access flag that hardware sets.
        *mmfr2 &= 0x0fff_ffff;
        // Not ThumbEE.
        let [_, _, _, isar3, ..] = &mut self.isar;
        *isar3 &= 0x0fff_ffff;
        self
    }

    /// Whether there is VFP or Advanced SIMD.
    pub const fn has_floating_point(&self) -> bool {
        self.fpsid != 0
    }

    /// The register of CP15 with this name, if it says what the CPU is; `selected` is CSSELR.
    pub(crate) fn read(&self, name: Name, selected: u32) -> Option<u32> {
        Some(match name.tuple() {
            (0, 0, 0, 1) => self.ctr,
            (0, 0, 0, 2) => self.tcmtr,
            (0, 0, 0, 3) => self.tlbtr,
            (0, 0, 0, 5) => self.mpidr,
            (0, 0, 0, 6) => self.revidr,
            // 4 and 7 are other names of MIDR.
            (0, 0, 0, _) => self.midr,
            (0, 0, 1, opc2) => self.feature(opc2),
            (0, 0, 2, opc2) => at(&self.isar, opc2),
            // Not allocated yet: they read as zero (B3.17.1).
            (0, 0, 3..=7, _) => 0,
            (1, 0, 0, 0) => self.cache(selected),
            (1, 0, 0, 1) => self.clidr,
            (1, 0, 0, 7) => self.aidr,
            (1, 9, 0, 2) => return self.l2ctlr,
            // L2ECTLR: no error.
            (1, 9, 0, 3) => return self.l2ctlr.and(Some(0)),
            (4, 15, 0, 0) => return self.cbar,
            _ => return None,
        })
    }

    /// Whether a write of the register is ignored, as in the Non-secure state.
    pub(crate) const fn ignores_write(&self, name: Name) -> bool {
        self.l2ctlr.is_some() && matches!(name.tuple(), (1, 9, 0, 2 | 3))
    }

    /// ID_PFR0 to ID_MMFR3.
    fn feature(&self, opc2: u8) -> u32 {
        match opc2 {
            2 => self.dfr0,
            3 => self.afr0,
            4.. => at(&self.mmfr, opc2 - 4),
            _ => at(&self.pfr, opc2),
        }
    }

    /// CCSIDR for this value of CSSELR; zero for a cache that is not described.
    fn cache(&self, selected: u32) -> u32 {
        let (level, instruction) = (selected >> 1 & 7, (selected & 1) as u8);
        self.ccsidr
            .get(level as usize)
            .map_or(0, |of| at(of, instruction))
    }

    /// The register that VMRS calls by this number.
    pub(crate) fn floating_point(&self, number: u8) -> Option<u32> {
        let [mvfr0, mvfr1] = self.mvfr;
        match number {
            0 => Some(self.fpsid),
            6 => Some(mvfr1),
            7 => Some(mvfr0),
            _ => None,
        }
    }
}

fn at(values: &[u32], number: u8) -> u32 {
    values.get(usize::from(number)).copied().unwrap_or(0)
}
