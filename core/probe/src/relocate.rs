//! An instruction in a slot in place of its site.

use crate::code::Code;
use crate::site::aligned;
use crate::{InstructionSet, Refused, Site, a64, aarch32};
use hanok_types::Gva;

/// An instruction that is to be executed in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocated {
    /// The words of the slot.
    pub code: Code,
    /// The address of the site.
    pub site: Gva,
    /// The number of bytes at the site whose effect the slot has: four, or six if a T32
    /// instruction of one halfword was displaced along with one of two. The branch to the slot takes
    /// four.
    pub displaced: u64,
    /// The address in the slot of what stands for the second displaced instruction, if there are two.
    pub second: Option<Gva>,
}

impl Relocated {
    /// The address of the guest's instruction that the slot's code at `address` stands for; `None` if
    /// that is not in the slot. An exception in the slot is reported there.
    pub fn origin(&self, address: Gva) -> Option<Gva> {
        let inside = (self.code.start()..self.code.here()).contains(&address.get());
        let second = self.second.is_some_and(|second| address >= second);
        let bytes = if second { 2 } else { 0 };
        inside.then(|| Gva::new(self.site.get() + bytes))
    }
}

/// The words that, at `slot`, have exactly the effect of the instruction at `site`, and go on
/// where it goes on. The module's documentation says what exactly means.
///
/// # Errors
///
/// See [`Refused`].
pub fn relocate(site: &Site<'_>, slot: Gva) -> Result<Relocated, Refused> {
    let mut code = Code::at(aligned(site.set, slot)?);
    let displaced = displace(&mut code, site)?;
    Relocated::new(site, code, &displaced)
}

/// What a slot stands for.
pub(crate) struct Displaced {
    /// The number of bytes at the site.
    pub(crate) bytes: u64,
    /// The address in the slot of the second instruction.
    pub(crate) second: Option<u64>,
}

impl Displaced {
    /// One instruction of four bytes.
    pub(crate) const ONE: Self = Self {
        bytes: 4,
        second: None,
    };
}

/// Adds the words to a slot that may have other code before.
pub(crate) fn displace(code: &mut Code, site: &Site<'_>) -> Result<Displaced, Refused> {
    let at = site.address()?;
    branch(site.set, site.at, Gva::new(code.start()))?;
    match site.set {
        InstructionSet::A64 => a64::emit(code, site)?,
        InstructionSet::A32 => aarch32::emit_a32(code, site.word()?, at as u32)?,
        InstructionSet::T32 => return aarch32::emit_t32(code, site),
    }
    Ok(Displaced::ONE)
}

impl Relocated {
    /// The slot, unless it is too long.
    pub(crate) fn new(site: &Site<'_>, code: Code, displaced: &Displaced) -> Result<Self, Refused> {
        Ok(Self {
            code: code.finish()?,
            site: site.at,
            displaced: displaced.bytes,
            second: displaced.second.map(Gva::new),
        })
    }
}

/// The four bytes of a branch from a site to a slot: B; in T32 the B of two halfwords, which is not
/// written at once if the site is no multiple of four.
///
/// While it is written no other vCPU may be at the site, or in the midst of what is displaced: the
/// architecture lets code be changed that another CPU executes only if both the old and the new
/// instruction are of a few kinds, B and NOP among them (DDI 0487, Concurrent modification and
/// execution of instructions; DDI 0406C A3.5.4).
///
/// # Errors
///
/// [`Refused::OutOfReach`] beyond ±128 MB in A64 (DDI 0487 C6.2, B), ±32 MB in A32 and ±16 MB in
/// T32 (DDI 0406C A8.8.18); [`Refused::Misaligned`].
pub fn branch(set: InstructionSet, from: Gva, to: Gva) -> Result<[u8; 4], Refused> {
    let (from, to) = (aligned(set, from)?, aligned(set, to)?);
    let word = match set {
        InstructionSet::A64 => a64::words::branch(from, to),
        InstructionSet::A32 => aarch32::a32_branch(from as u32, to as u32),
        InstructionSet::T32 => {
            aarch32::t32_branch(from as u32, to as u32).map(|both| both.rotate_left(16))
        }
    };
    word.map(u32::to_le_bytes).ok_or(Refused::OutOfReach)
}
