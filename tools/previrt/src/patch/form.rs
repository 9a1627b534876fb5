//! Which form a sensitive instruction is rewritten to.

use crate::site::{Role, Site, is_tpidrurw, thread_register};
use hanok_abi::crossing::crossing_trap;
use hanok_abi::trap::{trap_a32, trap_by_index, trap_conditional, trap_narrow, trap_wide};
use hanok_decode::aarch32::{Encoding, Operation};

/// A form that a sensitive instruction is rewritten to.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Another instruction that does not trap: TPIDRPRW is read from TPIDRURW.
    Word,
    /// SVC that holds the instruction itself (in an IT block UDF.W).
    Trap,
    /// SVC that holds the index of the instruction in the side file's table.
    Index,
    /// UDF that stands for a part of a crossing between a program and the kernel (`hanok_abi::crossing`).
    Crossing,
    /// A branch to a trampoline: instructions that do the same to the virtual CPU.
    Trampoline,
    /// A branch to instructions that load the literal's value without the literal.
    Constant,
    /// A branch to where the instruction was moved.
    Moved,
    /// A jump by a table of branches, which was a table of addresses; and each branch of it.
    Table,
    /// No instruction: a pointer to a branch, which was one to the branch's target.
    Pointer,
    /// No instruction: a literal that nothing loads any more became one that traps.
    Unused,
}

impl Form {
    /// Whether what has this form was no sensitive instruction, but looked like one or belongs to
    /// something that did.
    pub const fn is_lookalike(self) -> bool {
        match self {
            Self::Constant | Self::Moved | Self::Table | Self::Pointer | Self::Unused => true,
            Self::Word | Self::Trap | Self::Index | Self::Crossing | Self::Trampoline => false,
        }
    }
}

/// Which sites get trampolines, where there is memory for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trampolines {
    /// None.
    None,
    /// All but writes of DACR, so that the hypervisor enforces each of those at once.
    Strict,
    /// All. A write of DACR is stored, and takes effect from the guest's next exit on.
    #[default]
    All,
}

/// The decision about a site.
pub enum Choice {
    /// Rewrite it to this instruction, which has this form.
    Change(Form, Encoding),
    /// Leave it, for this reason: it traps as it is.
    Leave(&'static str),
    /// Refuse the file, for this reason: the instruction can be neither rewritten nor left.
    Refuse(&'static str),
}

/// TPIDRPRW and TPIDRURW: opc2 of c13, c0.
const TPIDRPRW: u8 = 4;
/// The bits of opc2 that differ between TPIDRPRW and TPIDRURW.
const TO_TPIDRURW: u32 = (4 ^ 2) << 5;

/// Chooses the form for a site. `table` says whether the file can have a table of words; `index` is
/// the table's next free index.
pub fn choose(site: &Site, table: bool, index: u32) -> Choice {
    let encoding = site.found.encoding;
    if thread_register(&site.found) == Some((true, TPIDRPRW)) {
        return Choice::Change(Form::Word, reads_tpidrurw(encoding));
    }
    if let Some(trap) = trap(site) {
        return Choice::Change(Form::Trap, trap);
    }
    // A copy of the instruction elsewhere keeps its index, and so its meaning.
    let indexed = match encoding {
        Encoding::A32(word) if table => trap_by_index(word, index).map(Encoding::A32),
        _ => None,
    };
    match indexed {
        Some(svc) => Choice::Change(Form::Index, svc),
        None if site.found.user.is_trapped() => {
            Choice::Leave("it is undefined in User mode and traps as it is")
        }
        None if site.role == Role::Alternative => {
            Choice::Leave("it is a table's, and no other word can hold it")
        }
        None => Choice::Refuse("no SVC can hold it, and it does not trap by itself"),
    }
}

/// Chooses the form for a site of which only a trap by itself may become something
/// ([`super::Sites::Silent`]).
pub fn choose_silent(site: &Site) -> Choice {
    if !site.found.user.must_be_rewritten() {
        return Choice::Leave("it is undefined in User mode or legal there");
    }
    match trap(site) {
        Some(trap) => Choice::Change(Form::Trap, trap),
        None => Choice::Leave("no trap can hold it: the hypervisor finds it when it is executed"),
    }
}

/// Chooses the form for a site of [`super::Sites::Frequent`], which may have a branch to a trampoline.
pub fn choose_frequent(site: &Site, branch: Option<Encoding>) -> Choice {
    if let Some(branch) = branch {
        return Choice::Change(Form::Trampoline, branch);
    }
    if let Encoding::A32(word) = site.found.encoding
        && let Some(trap) = crossing_trap(word)
    {
        return Choice::Change(Form::Crossing, Encoding::A32(trap));
    }
    if thread_register(&site.found) == Some((true, TPIDRPRW)) {
        return Choice::Change(Form::Word, reads_tpidrurw(site.found.encoding));
    }
    match trap(site) {
        // What is in the register is not the guest's.
        Some(trap) if is_tpidrurw(&site.found) => Choice::Change(Form::Trap, trap),
        None if is_tpidrurw(&site.found) => {
            Choice::Refuse("no SVC can hold it, and it does not trap by itself")
        }
        _ => choose_silent(site),
    }
}

/// The read of TPIDRURW instead of TPIDRPRW. The hypervisor keeps the kernel's own value in
/// TPIDRURW.
const fn reads_tpidrurw(encoding: Encoding) -> Encoding {
    match encoding {
        Encoding::A32(word) => Encoding::A32(word ^ TO_TPIDRURW),
        Encoding::Wide(word) => Encoding::Wide(word ^ TO_TPIDRURW),
        Encoding::Narrow(half) => Encoding::Narrow(half),
    }
}

/// Whether the site writes DACR.
pub fn writes_dacr(site: &Site) -> bool {
    match site.found.operation {
        Operation::Coprocessor(coprocessor) => {
            coprocessor.is_cp15(0, 3, 0, 0) && !coprocessor.is_read()
        }
        _ => false,
    }
}

fn trap(site: &Site) -> Option<Encoding> {
    match site.found.encoding {
        Encoding::A32(word) => trap_a32(word).map(Encoding::A32),
        Encoding::Narrow(half) => trap_narrow(half).map(Encoding::Narrow),
        Encoding::Wide(word) if site.it.is_inside() => trap_conditional(word).map(Encoding::Wide),
        Encoding::Wide(word) => trap_wide(word).map(Encoding::Wide),
    }
}
