//! LDRT, STRT and the other accesses with the rights of User mode (DDI 0406C, A8.8).

use crate::data::displaced;
use crate::memory::{Access, Alignment, Rights};
use crate::stop::Stop;
use crate::{GuestAccess, Outcome, Registers, VirtualCpu};
use hanok_decode::aarch32::Unprivileged;
use hanok_types::Width;

impl VirtualCpu {
    pub(crate) fn unprivileged(
        &self,
        registers: &mut Registers,
        access: &Unprivileged,
        memory: &mut impl GuestAccess,
    ) -> Result<Outcome, Stop> {
        let base = registers.read(access.base);
        let moved = displaced(registers, base, access.add, access.index);
        let at = Access {
            address: if access.post_index { base } else { moved },
            width: access.width,
            rights: Rights::User,
            big_endian: registers.psr.big_endian(),
        };
        let loaded = if access.load {
            let value = self.load(memory, at, Alignment::AsControlled)?;
            Some(extended(access, value))
        } else {
            let value = registers.read(access.register) & access.width.mask() as u32;
            self.store(memory, at, Alignment::AsControlled, value)?;
            None
        };
        if access.post_index {
            registers.write(access.base, moved);
        }
        if let Some(value) = loaded {
            registers.write(access.register, value);
        }
        Ok(Outcome::Done)
    }
}

/// What a load puts in its register.
const fn extended(access: &Unprivileged, value: u32) -> u32 {
    match (access.width, access.sign_extend) {
        (Width::Byte, false) => value as u8 as u32,
        (Width::Byte, true) => value as u8 as i8 as u32,
        (Width::Half, false) => value as u16 as u32,
        (Width::Half, true) => value as u16 as i16 as u32,
        (Width::Word | Width::Double, _) => value,
    }
}
