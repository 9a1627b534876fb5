//! The senders of the pending SGIs of a GICv2.

use hanok_types::VcpuId;

/// The senders of one vCPU's SGIs.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
pub(crate) struct Senders {
    /// The senders of the instances that are in no list register: a byte for each SGI with a bit for
    /// each sender, eight bytes in a word.
    waiting: [u64; 2],
    /// For each SGI the sender of the instance that is, or was last, in a list register.
    current: [u8; 16],
}

impl Senders {
    pub const fn new() -> Self {
        Self {
            waiting: [0; 2],
            current: [0; 16],
        }
    }

    pub fn waiting(&self, sgi: u32) -> u8 {
        let word = self.waiting.get(sgi as usize / 8);
        word.map_or(0, |word| (word >> (sgi % 8 * 8)) as u8)
    }

    pub fn current(&self, sgi: u32) -> u8 {
        self.current.get(sgi as usize).copied().unwrap_or(0)
    }

    pub fn change_waiting(&mut self, sgi: u32, change: impl FnOnce(u8) -> u8) {
        let former = self.waiting(sgi);
        if let Some(word) = self.waiting.get_mut(sgi as usize / 8) {
            *word ^= u64::from(former ^ change(former)) << (sgi % 8 * 8);
        }
    }

    /// Adds an instance of each of `sgis`, a bit each, to those that wait.
    pub fn add_all(&mut self, sgis: u16, sender: VcpuId) {
        for (waiting, sgis) in self.waiting.iter_mut().zip(sgis.to_le_bytes()) {
            if sgis != 0 {
                *waiting |= a_byte_each(sgis) << (sender.index() % 8);
            }
        }
    }

    /// Replaces the instance in a list register by one of another sender.
    #[inline(always)]
    pub fn replace(&mut self, sgi: u32, sender: VcpuId) {
        if let Some(current) = self.current.get_mut(sgi as usize) {
            *current = sender.index() as u8;
        }
    }

    /// Returns the current instance to those that wait.
    pub fn take_back(&mut self, sgi: u32) {
        let current = only(self.current(sgi));
        self.change_waiting(sgi, |waiting| waiting | current);
    }

    /// Takes an instance out of those that wait, for a list register.
    pub fn take_out(&mut self, sgi: u32, sender: u8) {
        self.change_waiting(sgi, |waiting| waiting & !only(sender));
        if let Some(current) = self.current.get_mut(sgi as usize) {
            *current = sender;
        }
    }
}

/// Each bit of `bits` as the lowest one of a byte of its own.
fn a_byte_each(bits: u8) -> u64 {
    // A copy in each byte, of which one bit stays: n in byte n.
    let one_each = (u64::from(bits) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    // No carry leaves its byte, as none is above 0x80.
    ((one_each + 0x7f7f_7f7f_7f7f_7f7f) >> 7) & 0x0101_0101_0101_0101
}

/// The bit of `sender`.
pub(crate) fn only(sender: u8) -> u8 {
    1u8.checked_shl(sender.into()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_senders_wait_as_each_added_for_itself() {
        for sgis in 0..=u16::MAX {
            let mut senders = Senders::new();
            senders.change_waiting(9, |_| 0x40);
            senders.add_all(sgis, VcpuId::new(5));
            for sgi in 0..16 {
                let former = if sgi == 9 { 0x40 } else { 0 };
                let sent = (sgis >> sgi & 1) as u8;
                assert_eq!(senders.waiting(sgi), former | sent << 5, "{sgis:#x} {sgi}");
            }
        }
    }
}
