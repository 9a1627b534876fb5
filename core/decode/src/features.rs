//! CPU features that take more than one field of the ID registers.

/// Whether the CPU has memory partitioning (FEAT_MPAM) of any version: for version 0.x,
/// ID_AA64PFR0_EL1.MPAM is zero and ID_AA64PFR1_EL1.MPAM_frac is not (DDI 0598, 2.3, 8.3).
pub const fn has_mpam(id_aa64pfr0: u64, id_aa64pfr1: u64) -> bool {
    const FIELD: u64 = 0xf;
    id_aa64pfr0 >> 40 & FIELD != 0 || id_aa64pfr1 >> 16 & FIELD != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpam_of_version_0_1_is_one() {
        // (MPAM, MPAM_frac): no version, 0.1, 1.0, 1.1.
        for (major, minor, is) in [(0, 0, false), (0, 1, true), (1, 0, true), (1, 1, true)] {
            // All other fields are all ones, or all zero.
            for others in [0, u64::MAX] {
                let pfr0 = others & !(0xf << 40) | major << 40;
                let pfr1 = others & !(0xf << 16) | minor << 16;
                assert_eq!(has_mpam(pfr0, pfr1), is, "{major}.{minor}");
            }
        }
    }
}
