//! The guest's memory, as instructions reach it that are carried out here.

use crate::stop::Stop;
use crate::system::{SystemRegister, sctlr};
use crate::{Fault, FaultStatus, Registers, VirtualCpu};
use hanok_types::Width;

/// Whose rights an access has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rights {
    /// Those of the privileged modes.
    Kernel,
    /// Those of User mode.
    User,
}

/// An access to the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The guest's virtual address. It is aligned wherever the instruction or SCTLR.A asks for that.
    /// With the MMU off, memory is Strongly-ordered, where the callee must refuse what is not.
    pub address: u32,
    /// A byte, a halfword or a word.
    pub width: Width,
    /// Whose rights it has.
    pub rights: Rights,
    /// Whether the bytes at ascending addresses are the value's from its most significant one down.
    pub big_endian: bool,
}

/// Why an access was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The guest's tables or the guest's bus refuse it: the guest takes a data abort.
    Fault {
        /// The first byte that is refused, which may be in the next page (DDI 0406C, B2.4, MemU).
        address: u32,
        /// Why.
        fault: Fault,
    },
    /// It has to wait. The instruction is carried out again later, from its beginning.
    Again,
}

/// The guest's memory.
pub trait GuestAccess {
    /// Reads; the value is in the low bits, the bits above are zero.
    ///
    /// # Errors
    ///
    /// Why nothing was read.
    fn load(&mut self, access: Access) -> Result<u32, Refusal>;

    /// Writes the low bits of `value`.
    ///
    /// # Errors
    ///
    /// Why nothing was written.
    fn store(&mut self, access: Access, value: u32) -> Result<(), Refusal>;
}

/// Whether an instruction's address must be aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alignment {
    /// Always (DDI 0406C, B2.4, MemA).
    Always,
    /// If SCTLR.A says so (MemU).
    AsControlled,
}

impl VirtualCpu {
    /// A word with the current mode's rights, which must be aligned.
    pub(crate) fn word(&self, registers: &Registers, address: u32) -> Access {
        Access {
            address,
            width: Width::Word,
            rights: if self.mode.is_privileged() {
                Rights::Kernel
            } else {
                Rights::User
            },
            big_endian: registers.psr.big_endian(),
        }
    }

    /// Reads, if the address is aligned.
    pub(crate) fn load(
        &self,
        memory: &mut impl GuestAccess,
        access: Access,
        alignment: Alignment,
    ) -> Result<u32, Stop> {
        self.check(access, alignment, false)?;
        memory.load(access).map_err(|refusal| stop(refusal, false))
    }

    /// Writes, if the address is aligned.
    pub(crate) fn store(
        &self,
        memory: &mut impl GuestAccess,
        access: Access,
        alignment: Alignment,
        value: u32,
    ) -> Result<(), Stop> {
        self.check(access, alignment, true)?;
        memory
            .store(access, value)
            .map_err(|refusal| stop(refusal, true))
    }

    fn check(&self, access: Access, alignment: Alignment, write: bool) -> Result<(), Stop> {
        let strict =
            alignment == Alignment::Always || self.system(SystemRegister::Sctlr) & sctlr::A != 0;
        if strict && u64::from(access.address) % access.width.bytes() != 0 {
            return Err(Stop::Fault {
                address: access.address,
                fault: Fault::without_domain(FaultStatus::Alignment),
                write,
            });
        }
        Ok(())
    }
}

fn stop(refusal: Refusal, write: bool) -> Stop {
    match refusal {
        Refusal::Fault { address, fault } => Stop::Fault {
            address,
            fault,
            write,
        },
        Refusal::Again => Stop::Again,
    }
}
