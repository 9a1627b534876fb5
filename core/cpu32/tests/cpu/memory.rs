//! A guest's memory: bytes that begin as a function of their address, and pages that fault.

use hanok_cpu32::{Access, Fault, FaultStatus, GuestAccess, Refusal, Rights};
use std::collections::BTreeMap;

/// Where accesses fault: the last quarter of each kilobyte.
pub const HOLE: std::ops::Range<u32> = 0x300..0x400;
/// What they fault with.
pub const FAULT: Fault = Fault {
    status: FaultStatus::PermissionSecond,
    domain: 5,
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    bytes: BTreeMap<u32, u8>,
    /// What was accessed, the latest last.
    pub log: Vec<Access>,
    /// Whether holes ask to wait, instead of a fault.
    pub later: bool,
}

impl Memory {
    pub fn byte(&self, address: u32) -> u8 {
        let first = (address.wrapping_mul(0x9e37_79b1) >> 24) as u8;
        *self.bytes.get(&address).unwrap_or(&first)
    }

    pub fn set_byte(&mut self, address: u32, value: u8) {
        self.bytes.insert(address, value);
    }

    /// A little-endian word.
    pub fn word(&self, address: u32) -> u32 {
        let bytes = [0, 1, 2, 3].map(|at| self.byte(address.wrapping_add(at)));
        u32::from_le_bytes(bytes)
    }

    pub fn set_word(&mut self, address: u32, value: u32) {
        for (at, byte) in (0..).zip(value.to_le_bytes()) {
            self.set_byte(address.wrapping_add(at), byte);
        }
    }

    /// Whether both have the same bytes.
    pub fn same(&self, other: &Self) -> bool {
        let all = self.bytes.keys().chain(other.bytes.keys());
        all.into_iter().all(|at| self.byte(*at) == other.byte(*at))
    }

    pub fn is_hole(address: u32) -> bool {
        HOLE.contains(&(address & 0x3ff))
    }

    fn check(&mut self, access: Access) -> Result<(), Refusal> {
        self.log.push(access);
        if !Self::is_hole(access.address) {
            Ok(())
        } else if self.later {
            Err(Refusal::Again)
        } else {
            Err(Refusal::Fault {
                address: access.address,
                fault: FAULT,
            })
        }
    }

    /// Whose rights the latest access had.
    pub fn rights(&self) -> Option<Rights> {
        self.log.last().map(|access| access.rights)
    }
}

/// The addresses of an access' bytes, from the least significant one up.
fn places(access: Access) -> Vec<u32> {
    let count = access.width.bytes() as u32;
    let at = |number| access.address.wrapping_add(number);
    if access.big_endian {
        (0..count).rev().map(at).collect()
    } else {
        (0..count).map(at).collect()
    }
}

impl GuestAccess for Memory {
    fn load(&mut self, access: Access) -> Result<u32, Refusal> {
        self.check(access)?;
        let bytes = places(access).into_iter().rev();
        Ok(bytes.fold(0, |value, at| value << 8 | u32::from(self.byte(at))))
    }

    fn store(&mut self, access: Access, value: u32) -> Result<(), Refusal> {
        self.check(access)?;
        for (at, byte) in places(access).into_iter().zip(value.to_le_bytes()) {
            self.set_byte(at, byte);
        }
        Ok(())
    }
}
