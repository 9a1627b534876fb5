//! What a sensitive instruction is rewritten to.

use crate::site::{Role, Site, thread_register};
use hanok_abi::trap::{trap_a32, trap_by_index, trap_conditional, trap_narrow, trap_wide};
use hanok_decode::aarch32::{Encoding, Operation};

/// A form.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Another instruction that does not trap: TPIDRPRW is read from TPIDRURW.
    Word,
    /// SVC that holds the instruction (in an IT block UDF.W).
    Trap,
    /// SVC that holds its number in the side file's table.
    Index,
    /// A branch to instructions that do the same to the virtual CPU.
    Trampoline,
}

/// Which sites get trampolines, where there is room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trampolines {
    /// None.
    None,
    /// All but writes of DACR, so that the hypervisor enforces each at once.
    Strict,
    /// All: a write of DACR is noted, and counts from the guest's next exit on.
    #[default]
    All,
}

/// What to do with a site.
pub enum Choice {
    /// Write this.
    Change(Form, Encoding),
    /// Nothing: it traps as it is.
    Leave(&'static str),
    /// It can be neither rewritten nor left.
    Refuse(&'static str),
}

/// TPIDRPRW and TPIDRURW of c13, c0, by opc2.
const TPIDRPRW: u8 = 4;
/// From opc2 of the one to that of the other.
const TO_TPIDRURW: u32 = (4 ^ 2) << 5;

/// The form for a site; `table` says whether the file can have a table of words, of which
/// `index` is the next number.
pub fn choose(site: &Site, table: bool, index: u32) -> Choice {
    let encoding = site.found.encoding;
    if thread_register(&site.found) == Some((true, TPIDRPRW)) {
        return Choice::Change(Form::Word, reads_tpidrurw(encoding));
    }
    if let Some(trap) = trap(site) {
        return Choice::Change(Form::Trap, trap);
    }
    // A number that is copied elsewhere is still the same.
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

/// The same read with TPIDRURW, in which the hypervisor keeps the kernel's own value.
const fn reads_tpidrurw(encoding: Encoding) -> Encoding {
    match encoding {
        Encoding::A32(word) => Encoding::A32(word ^ TO_TPIDRURW),
        Encoding::Wide(word) => Encoding::Wide(word ^ TO_TPIDRURW),
        Encoding::Narrow(half) => Encoding::Narrow(half),
    }
}

/// Whether it is a write of DACR.
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
