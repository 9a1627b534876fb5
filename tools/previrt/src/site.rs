//! A sensitive instruction at its place.

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
    /// It looks like one, among code, and nothing was found that leads to it.
    Doubtful,
}

/// Why an instruction is in the file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It is executed where it is.
    Code,
    /// It is in a table of Linux, from where it is copied over another one on a uniprocessor.
    Alternative,
}

/// A sensitive instruction at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Where its bytes are in the (unpacked) file.
    pub offset: usize,
    /// Where it is in memory; in an object, in its section.
    pub address: u32,
    /// In which section, by its number in [`crate::Scan::sections`].
    pub section: usize,
    /// The instruction.
    pub found: Sensitive,
    /// Where in an IT block it stands.
    pub it: ItState,
    /// Whether it is one.
    pub certainty: Certainty,
    /// Why it is there.
    pub role: Role,
}

/// The sensitive instruction that a guest's kernel must not run as it is, if `encoding` is one.
///
/// All that is not legal in User mode; and TPIDRURW, which is, but is borrowed by the
/// hypervisor for the guest kernel's own thread register.
pub fn must_change(encoding: Encoding, it: ItState) -> Option<Sensitive> {
    sensitive(encoding, it).filter(|found| found.user != UserMode::Legal || is_tpidrurw(found))
}

/// Whether it is a read or write of TPIDRURW.
pub fn is_tpidrurw(found: &Sensitive) -> bool {
    thread_register(found).is_some_and(|(_, opc2)| opc2 == 2)
}

/// Whether a thread register (c13, c0) is read, and opc2, which tells them apart.
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
    /// Which instruction set.
    pub fn isa(&self) -> Isa {
        self.found.encoding.isa()
    }
}

/// The site at `offset`, if `encoding` has to change there.
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
