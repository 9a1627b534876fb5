//! Exception storms: a guest that takes one exception after another.

/// Whether a vCPU takes one exception after another at one vector: it is about to execute the
/// vector at `pc`, and took the last exception at the same vector, whose code cannot be fetched or
/// is undefined. `link` is the address at which that exception was taken: ELR_EL1, or for AArch32
/// the link register of its mode, which is 2 to 8 bytes further (DDI 0406C, B1.8.3). `vectors` is
/// the address of the vector table. Such exceptions cause no exits, since they are the guest's own.
pub fn exception_storm(pc: u64, link: u64, vectors: u64, aarch32: bool) -> bool {
    // DDI 0487, D1.3.1.1: sixteen vectors of 128 bytes; DDI 0406C, B1.8.1: eight of 4.
    let (all, each, further) = if aarch32 {
        (0x20, 4, 2..=8)
    } else {
        (0x800, 0x80, 0..=0x7f)
    };
    let vector = pc & !(each - 1);
    let inside = pc.wrapping_sub(vectors) < all;
    inside && further.contains(&link.wrapping_sub(vector))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_that_faults_is_a_storm() {
        // Undefined A64 code at the vector of synchronous exceptions of EL1.
        assert!(exception_storm(0x200, 0x200, 0, false));
        assert!(exception_storm(
            0xffff_8000_0204,
            0xffff_8000_0200,
            0xffff_8000_0000,
            false
        ));
        // A32: undefined (+4), prefetch abort (+4), data abort (+8); T32: undefined (+2).
        for (pc, link) in [(4, 8), (0xc, 0x10), (0x10, 0x18), (4, 6)] {
            assert!(exception_storm(pc, link, 0, true), "{pc:#x}");
            let high = 0xffff_0000;
            assert!(
                exception_storm(high + pc, high + link, high, true),
                "{pc:#x}"
            );
        }
    }

    #[test]
    fn a_handler_at_work_is_none() {
        // An interrupt that was just taken, a handler behind the vector, a fault of another vector.
        assert!(!exception_storm(0x8280, 0x9000, 0x8000, false));
        assert!(!exception_storm(0x9000, 0x9000, 0x8000, false));
        assert!(!exception_storm(0x8200, 0x8280, 0x8000, false));
        assert!(!exception_storm(0x7fff, 0x7fff, 0x8000, false));
        assert!(!exception_storm(0x8018, 0x9004, 0x8000, true));
        assert!(!exception_storm(0x8020, 0x8024, 0x8000, true));
        assert!(!exception_storm(0x8018, 0x8018, 0x8000, true));
    }
}
