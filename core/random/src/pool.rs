//! Where random numbers come from, and who gets them.

use crate::{Chain, Purpose, Stream, moment};

/// What random numbers can rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// What the boot loader put into the board's device tree (`rng-seed`).
    Board,
    /// The CPU's own generator (FEAT_RNG).
    Cpu,
    /// The key that the image tool made for this image.
    Build,
    /// When things happened, by the counter.
    Jitter,
}

/// A set of [`Source`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources(u8);

impl Sources {
    /// Whether it has this one.
    pub const fn has(self, source: Source) -> bool {
        self.0 & 1 << source as u8 != 0
    }

    /// Whether it has one that cannot be guessed: jitter alone can, by who knows such boards.
    pub const fn suffice(self) -> bool {
        self.0 & !(1 << Source::Jitter as u8) != 0
    }
}

/// Bytes of a source that are worth its name: 128 bits are not guessed.
const ENOUGH: usize = 16;

/// What was gathered, and the streams' origin.
// No Debug: a key is not for the console.
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
    /// Of nothing yet.
    pub const fn new() -> Self {
        Self {
            chain: Chain { key: [0; 32] },
            sources: Sources(0),
        }
    }

    /// Adds what `source` says. It counts as one of the pool's sources if it is 16 bytes or more
    /// that are not all the same: a seed of zeros is none.
    pub fn gather(&mut self, source: Source, bytes: &[u8]) {
        for piece in bytes.chunks(12) {
            let mut data = [0; 12];
            data.iter_mut()
                .zip(piece)
                .for_each(|(to, from)| *to = *from);
            // The length, so that zeros at the end count.
            let detail = (source as u16) << 8 | piece.len() as u16;
            self.chain.step(Purpose::Gather, detail, &data);
        }
        let varied = bytes.iter().any(|byte| Some(byte) != bytes.first());
        if bytes.len() >= ENOUGH && varied {
            self.sources.0 |= 1 << source as u8;
        }
    }

    /// What it rests on.
    pub fn sources(&self) -> Sources {
        self.sources
    }

    /// The stream of a VM's life. `now` and `jitter` are gathered on the way.
    pub fn stream(&mut self, vm: u8, life: u32, now: u64, jitter: u32) -> Stream {
        let detail = (Source::Jitter as u16) << 8 | 12;
        self.chain
            .step(Purpose::Gather, detail, &moment(now, jitter));
        let key = self
            .chain
            .step(Purpose::Derive, vm.into(), &moment(life.into(), 0));
        Stream(Chain { key })
    }

    #[cfg(test)]
    pub(crate) fn key(&self) -> [u8; 32] {
        self.chain.key
    }
}
