//! Memory that several CPUs share.

use std::collections::HashMap;

/// Bytes that were written, on top of bytes that depend on the address alone; and how often each
/// reservation granule was written, for exclusive accesses.
#[derive(Clone, Default)]
pub struct Memory {
    bytes: HashMap<u64, u8>,
    writes: HashMap<u64, u64>,
    /// The virtual counter: each reading is larger than the one before.
    counter: u64,
}

/// An exclusive access that was begun: the address, and the granule's number of writes.
pub type Monitor = Option<(u64, u64)>;

const fn granule(address: u64) -> u64 {
    address >> 4
}

impl Memory {
    pub fn byte(&self, address: u64) -> u8 {
        let untouched = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
        self.bytes.get(&address).copied().unwrap_or(untouched)
    }

    /// Little-endian.
    pub fn load(&self, address: u64, bytes: u64) -> u64 {
        let byte = |at| u64::from(self.byte(address.wrapping_add(at))) << (8 * at);
        (0..bytes).map(byte).sum()
    }

    pub fn store(&mut self, address: u64, bytes: u64, value: u64) {
        for at in 0..bytes {
            let address = address.wrapping_add(at);
            self.bytes.insert(address, (value >> (8 * at)) as u8);
            if at == 0 || address & 15 == 0 {
                *self.writes.entry(granule(address)).or_default() += 1;
            }
        }
    }

    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        for (at, byte) in (0..).zip(bytes) {
            self.bytes.insert(address.wrapping_add(at), *byte);
        }
    }

    pub fn reserve(&self, address: u64) -> Monitor {
        let writes = self.writes.get(&granule(address)).copied();
        Some((address, writes.unwrap_or(0)))
    }

    pub fn holds(&self, monitor: Monitor, address: u64) -> bool {
        monitor.is_some() && monitor == self.reserve(address)
    }

    pub fn tick(&mut self) -> u64 {
        self.counter += 0x1_0000_0003;
        self.counter
    }

    pub const fn counter(&self) -> u64 {
        self.counter
    }

    /// The first address outside `ignored` where two memories differ.
    pub fn difference(&self, other: &Self, ignored: impl Fn(u64) -> bool) -> Option<u64> {
        let written = self.bytes.keys().chain(other.bytes.keys());
        let differs = |at: &&u64| self.byte(**at) != other.byte(**at) && !ignored(**at);
        written
            .copied()
            .collect::<Vec<_>>()
            .iter()
            .find(differs)
            .copied()
    }
}
