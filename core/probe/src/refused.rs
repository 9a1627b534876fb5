//! Why there is no probe.

use core::fmt;

/// Why an instruction stays where it is, or why a slot cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// No instruction that is known here, or one whose operands make it UNPREDICTABLE.
    Unknown,
    /// A load or store exclusive.
    Exclusive,
    /// SVC, HVC, SMC, BRK, HLT, BKPT, UDF and their like.
    Exception,
    /// A landing pad of a guarded page.
    LandingPad,
    /// It reads the PC, and no register is free to hold its value.
    NeedsRegister,
    /// A load of a SIMD register from the place that it names by the PC.
    VectorLiteral,
    /// TBB and TBH.
    TableBranch,
    /// IT.
    OpensItBlock,
    /// The site is in an IT block.
    InItBlock,
    /// Nobody knows whether the site is in an IT block.
    ItBlockUnknown,
    /// It changes how addresses are translated.
    ChangesTranslation,
    /// A T32 instruction of one halfword, which may not be displaced with the next one.
    TooShort,
    /// It branches into, or would return into, what the branch to the slot replaces.
    IntoSite,
    /// Fewer bytes of code were given than are needed.
    MissingBytes,
    /// An address that is not aligned as it has to be, or has more bits than the guest's; or a ring that
    /// cannot be.
    Misaligned,
    /// The slot is out of the reach of a branch at the site, or the other way round.
    OutOfReach,
    /// A branch's target is out of reach from the slot.
    TargetOutOfReach,
    /// What is to be recorded cannot be encoded.
    Argument,
    /// The words do not fit into [`crate::CAPACITY`] bytes.
    TooLong,
}

impl Refused {
    /// A sentence for people.
    const fn sentence(self) -> &'static str {
        match self {
            Self::Unknown => "this is no instruction that is known here, or it is UNPREDICTABLE",
            Self::Exclusive => {
                "a probe at an exclusive access would clear the monitor, and the guest would try again for ever"
            }
            Self::Exception => {
                "the exception that this instruction takes would return to the slot instead of the site"
            }
            Self::LandingPad => {
                "indirect branches land here in a guarded page, where a branch would make them fault"
            }
            Self::NeedsRegister => {
                "the instruction reads the PC, and no register is free to hold that value in the slot"
            }
            Self::VectorLiteral => {
                "the load of a SIMD register from an address relative to the PC has no general register to hold the address, and a copy of the data would not follow their changes"
            }
            Self::TableBranch => {
                "a branch through a table relative to the PC needs a free register"
            }
            Self::OpensItBlock => "the instruction makes those after it conditional",
            Self::InItBlock => {
                "the instruction is in an IT block, where a branch may stand only at the end"
            }
            Self::ItBlockUnknown => {
                "the instruction may be in an IT block, where a branch may stand only at the end"
            }
            Self::ChangesTranslation => {
                "the instruction changes how addresses are translated, and the slot may not be at its address after that"
            }
            Self::TooShort => {
                "the instruction has two bytes, and the branch to the slot has four, but something may branch to the next instruction"
            }
            Self::IntoSite => {
                "the instruction goes to, or returns to, the middle of the branch that would replace it"
            }
            Self::MissingBytes => "fewer bytes of code were given than the site needs",
            Self::Misaligned => "an address is not aligned, or is none of this instruction set",
            Self::OutOfReach => "the slot is too far from the site for a branch",
            Self::TargetOutOfReach => "the branch's target is too far from the slot",
            Self::Argument => "a register or offset that is to be recorded cannot be encoded",
            Self::TooLong => "the words do not fit into the slot",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

impl core::error::Error for Refused {}
