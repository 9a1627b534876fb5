//! System registers by their encoding, with their names.

use bitfield_struct::bitfield;
use core::fmt;

/// A system register or system instruction by its encoding (DDI 0487 C5, D24). The constants are
/// the registers that a hypervisor traps or hides.
#[bitfield(u16, debug = false)]
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SysReg {
    /// op2.
    #[bits(3)]
    pub op2: u8,
    /// CRm.
    #[bits(4)]
    pub crm: u8,
    /// CRn.
    #[bits(4)]
    pub crn: u8,
    /// op1.
    #[bits(3)]
    pub op1: u8,
    /// op0.
    #[bits(2)]
    pub op0: u8,
}

impl SysReg {
    /// The register with these five fields, in the order of `S<op0>_<op1>_C<n>_C<m>_<op2>`. Each
    /// field is cut to its number of bits.
    pub const fn from_fields(op0: u8, op1: u8, crn: u8, crm: u8, op2: u8) -> Self {
        Self::new()
            .with_op0(op0 & 3)
            .with_op1(op1 & 7)
            .with_crn(crn & 15)
            .with_crm(crm & 15)
            .with_op2(op2 & 7)
    }

    /// Whether the register is in the block of feature ID registers, allocated or not (op0 3, op1
    /// 0, CRn 0, CRm 1 to 7). HCR_EL2.TID3 traps them all, and those without a name read as zero.
    pub const fn is_feature_id(self) -> bool {
        self.op0() == 3 && self.op1() == 0 && self.crn() == 0 && matches!(self.crm(), 1..=7)
    }

    /// The name of a member of a numbered family, as prefix, number and suffix.
    fn family(self) -> Option<(&'static str, u8, &'static str)> {
        let event = (self.crm() & 3) << 3 | self.op2();
        match (self.op0(), self.op1(), self.crn(), self.crm(), self.op2()) {
            (2, 0, 0, n, 4) => Some(("DBGBVR", n, "_EL1")),
            (2, 0, 0, n, 5) => Some(("DBGBCR", n, "_EL1")),
            (2, 0, 0, n, 6) => Some(("DBGWVR", n, "_EL1")),
            (2, 0, 0, n, 7) => Some(("DBGWCR", n, "_EL1")),
            (3, 0, 12, 8, n @ 4..=7) => Some(("ICC_AP0R", n - 4, "_EL1")),
            (3, 0, 12, 9, n @ 0..=3) => Some(("ICC_AP1R", n, "_EL1")),
            (3, 3, 14, 8..=11, _) if event < 31 => Some(("PMEVCNTR", event, "_EL0")),
            // The last of these would be PMCCFILTR_EL0, which has a name of its own.
            (3, 3, 14, 12..=15, _) => Some(("PMEVTYPER", event, "_EL0")),
            _ => None,
        }
    }
}

impl fmt::Display for SysReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            return f.write_str(name);
        }
        if let Some((prefix, number, suffix)) = self.family() {
            return write!(f, "{prefix}{number}{suffix}");
        }
        let (op0, op1, crn) = (self.op0(), self.op1(), self.crn());
        write!(f, "S{op0}_{op1}_C{crn}_C{}_{}", self.crm(), self.op2())
    }
}

impl fmt::Debug for SysReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn registers_have_names_or_the_generic_form() {
        assert_eq!(SysReg::ICC_SGI1R_EL1.to_string(), "ICC_SGI1R_EL1");
        assert_eq!(
            SysReg::from_fields(2, 0, 0, 3, 4).to_string(),
            "DBGBVR3_EL1"
        );
        for (op2, name) in [(5, "DBGBCR3_EL1"), (6, "DBGWVR3_EL1"), (7, "DBGWCR3_EL1")] {
            assert_eq!(SysReg::from_fields(2, 0, 0, 3, op2).to_string(), name);
        }
        assert_eq!(
            SysReg::from_fields(3, 0, 12, 8, 5).to_string(),
            "ICC_AP0R1_EL1"
        );
        assert_eq!(
            SysReg::from_fields(3, 0, 12, 9, 3).to_string(),
            "ICC_AP1R3_EL1"
        );
        assert_eq!(
            SysReg::from_fields(3, 3, 14, 13, 2).to_string(),
            "PMEVTYPER10_EL0"
        );
        assert_eq!(
            SysReg::from_fields(3, 3, 14, 11, 6).to_string(),
            "PMEVCNTR30_EL0"
        );
        // There are only 31 event counters.
        assert_eq!(
            SysReg::from_fields(3, 3, 14, 11, 7).to_string(),
            "S3_3_C14_C11_7"
        );
        assert_eq!(
            SysReg::from_fields(3, 3, 14, 15, 7).to_string(),
            "PMCCFILTR_EL0"
        );
        assert_eq!(
            SysReg::from_fields(3, 0, 15, 2, 1).to_string(),
            "S3_0_C15_C2_1"
        );
    }

    /// The block that HCR_EL2.TID3 traps (DDI 0487).
    #[test]
    fn feature_ids_are_one_block() {
        for bits in 0..=u16::MAX {
            let one = SysReg::from_bits(bits);
            let text = std::format!("{}_{}_{}", one.op0(), one.op1(), one.crn());
            let wanted = text == "3_0_0" && one.crm() > 0 && one.crm() < 8;
            assert_eq!(one.is_feature_id(), wanted, "{bits:#x}");
        }
    }

    #[test]
    fn every_encoding_has_a_word_of_its_own() {
        let words: std::collections::BTreeSet<_> = (0..=u16::MAX)
            .map(|bits| SysReg::from_bits(bits).to_string())
            .collect();
        assert_eq!(words.len(), 1 << 16);
    }
}
