//! A sensitive instruction and its place.

use crate::flow::memory::Memory;
use hanok_decode::aarch32::{
    Access, Coprocessor, Encoding, Isa, ItState, Operation, Sensitive, UserMode, sensitive,
};

/// How certain it is that a word is an instruction.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Mapping symbols say so, or the flow of the code does.
    Sure,
    /// It looks like an instruction and stands among code, but no known code leads to it.
    Doubtful,
}

/// Why an instruction is in the file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It is executed where it is linked.
    Code,
    /// It is in a table of Linux, which copies it over another instruction on a uniprocessor.
    Alternative,
}

/// A sensitive instruction and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The offset of its bytes in the (unpacked) file.
    pub offset: usize,
    /// Its address in memory; in an object, its distance from the section's start.
    pub address: u32,
    /// The index of its section in [`crate::Scan::places`].
    pub section: usize,
    /// The instruction.
    pub found: Sensitive,
    /// Its place in an IT block.
    pub it: ItState,
    /// How certain it is that the word is an instruction.
    pub certainty: Certainty,
    /// Why it is in the file.
    pub role: Role,
}

/// The sensitive instruction that a guest's kernel must not execute as it is, if `encoding` is one.
///
/// These are all instructions that do something else in User mode, and those of TPIDRURW. The
/// latter are legal there, but the hypervisor uses TPIDRURW for the guest kernel's own thread
/// register.
pub fn must_change(encoding: Encoding, it: ItState) -> Option<Sensitive> {
    sensitive(encoding, it).filter(|found| found.user != UserMode::Legal || is_tpidrurw(found))
}

/// Whether the instruction reads or writes TPIDRURW.
pub fn is_tpidrurw(found: &Sensitive) -> bool {
    thread_register(found).is_some_and(|(_, opc2)| opc2 == 2)
}

/// Whether the instruction reads or writes TTBR0 or TTBR1 of 64 bits (MRRC and MCRR of c2; DDI 0406C,
/// B4.1.154 and B4.1.155), which a kernel with long descriptors alone does.
pub fn is_long_table_base(found: &Sensitive) -> bool {
    matches!(
        found.operation,
        Operation::Coprocessor(Coprocessor {
            number: 15,
            access: Access::Pair {
                opc1: 0 | 1,
                crm: 2,
                ..
            },
            ..
        })
    )
}

/// For an access to a thread register (c13, c0): whether it is read, and opc2, which tells the
/// registers apart.
pub fn thread_register(found: &Sensitive) -> Option<(bool, u8)> {
    match found.operation {
        Operation::Coprocessor(Coprocessor {
            number: 15,
            second_kind: false,
            access:
                Access::Register {
                    read,
                    opc1: 0,
                    crn: 13,
                    crm: 0,
                    opc2,
                    ..
                },
        }) => Some((read, opc2)),
        _ => None,
    }
}

impl Site {
    /// The instruction set that it belongs to.
    pub fn isa(&self) -> Isa {
        self.found.encoding.isa()
    }
}

/// The site at `offset`, if the instruction `encoding` has to change there.
pub(crate) fn site(
    memory: Memory<'_>,
    offset: usize,
    encoding: Encoding,
    it: ItState,
    certainty: Certainty,
    role: Role,
) -> Option<Site> {
    let found = must_change(encoding, it)?;
    let address = memory.address(offset);
    Some(Site {
        offset,
        address,
        section: 0,
        found,
        it,
        certainty,
        role,
    })
}
