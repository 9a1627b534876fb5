//! The pool: it gathers randomness from its sources and makes the streams of VMs.

use crate::{Chain, Purpose, Stream, moment};

/// A source of randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// The boot loader, which put a seed into the board's device tree (`rng-seed`).
    Board,
    /// The CPU's own generator (FEAT_RNG).
    Cpu,
    /// The image tool, which made a key for this image.
    Build,
    /// The moments at which things happened, by the counter.
    Jitter,
}

/// A set of [`Source`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources(u8);

impl Sources {
    /// Whether this source is in the set.
    pub const fn contains(self, source: Source) -> bool {
        self.0 & 1 << source as u8 != 0
    }

    /// Whether one of the sources cannot be guessed. Jitter alone can be, by an attacker who knows
    /// such boards.
    pub const fn suffice(self) -> bool {
        self.0 & !(1 << Source::Jitter as u8) != 0
    }
}

/// The number of bytes that a source must give to count: 128 bits cannot be guessed.
const ENOUGH: usize = 16;

/// The gathered randomness, from which streams are made. It has no `Debug`, so that a key never
/// gets to the console.
#[allow(missing_debug_implementations)]
pub struct Pool {
    chain: Chain,
    sources: Sources,
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

impl Pool {
    /// A pool that has gathered nothing yet.
    pub const fn new() -> Self {
        Self {
            chain: Chain { key: [0; 32] },
            sources: Sources(0),
        }
    }

    /// Gathers `bytes` from `source`. The source counts if there are at least 16 bytes that are not
    /// all the same: a seed of zeros does not count.
    pub fn gather(&mut self, source: Source, bytes: &[u8]) {
        for piece in bytes.chunks(12) {
            let mut data = [0; 12];
            data.iter_mut()
                .zip(piece)
                .for_each(|(to, from)| *to = *from);
            // The length is a part of the input, so that zeros at the end count.
            let detail = (source as u16) << 8 | piece.len() as u16;
            self.chain.step(Purpose::Gather, detail, &data);
        }
        let varied = bytes.iter().any(|byte| Some(byte) != bytes.first());
        if bytes.len() >= ENOUGH && varied {
            self.sources.0 |= 1 << source as u8;
        }
    }

    /// The sources that have counted so far.
    pub fn sources(&self) -> Sources {
        self.sources
    }

    /// Makes the stream of one boot of a VM. `now` and `jitter` are gathered first.
    pub fn stream(&mut self, vm: u8, boot: u32, now: u64, jitter: u32) -> Stream {
        let detail = (Source::Jitter as u16) << 8 | 12;
        self.chain
            .step(Purpose::Gather, detail, &moment(now, jitter));
        let key = self
            .chain
            .step(Purpose::Derive, vm.into(), &moment(boot.into(), 0));
        Stream(Chain { key })
    }

    #[cfg(test)]
    pub(crate) fn key(&self) -> [u8; 32] {
        self.chain.key
    }
}
