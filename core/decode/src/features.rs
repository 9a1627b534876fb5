//! What a CPU has, by its ID registers, where that takes more than one field.

/// Whether it has memory partitioning (FEAT_MPAM), any version of it: of version 0.x
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
        // (MPAM, MPAM_frac): none, 0.1, 1.0, 1.1.
        for (major, minor, is) in [(0, 0, false), (0, 1, true), (1, 0, true), (1, 1, true)] {
            // All other fields are there, or none is.
            for others in [0, u64::MAX] {
                let pfr0 = others & !(0xf << 40) | major << 40;
                let pfr1 = others & !(0xf << 16) | minor << 16;
                assert_eq!(has_mpam(pfr0, pfr1), is, "{major}.{minor}");
            }
        }
    }
}
