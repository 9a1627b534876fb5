//! Random numbers for guests: the seeds in their device trees, and the answers to the firmware's
//! random number calls.
//!
//! Everything is built from one function: a block of ChaCha20 (RFC 8439, 2.3) with a key of 32
//! bytes, whose 16 bytes of counter and nonce are the input. The first half of the block becomes
//! the new key, and the second half is the output. That function is believed to be pseudorandom in
//! its key, and to behave as a random function of its input. From that follow
//!
//! - *gathering*: each piece of input replaces the key by a function of the key and of the piece
//!   (the cascade construction, whose use as an extractor is shown by Dodis, Gennaro, Håstad,
//!   Krawczyk and Rabin, "Randomness extraction and key derivation using the CBC, cascade and HMAC
//!   modes", CRYPTO 2004). A piece that an attacker knows, or has chosen without knowledge of the
//!   key, does no harm;
//! - *separation*: each boot of each VM has a [`Stream`] of its own, whose key is an output that
//!   the [`Pool`] made once. An attacker who knows all of one stream knows nothing of the pool's
//!   key, and so nothing of any other stream;
//! - *forward secrecy*: the block that makes an output also replaces the key, and the old key
//!   cannot be computed from what is left.
//!
//! Rejected: a hash (SHA-256, BLAKE2s) beside the cipher, since it is more code for the same
//! purpose; the generator of `rand_chacha`, whose key never changes, and whose four blocks at a
//! time take longer than one exit of a guest may.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

use chacha20::ChaChaCore;
use chacha20::R20;
use chacha20::cipher::{KeyIvInit, StreamCipherCore};
use chacha20::variants::Ietf;

mod pool;

pub use pool::{Pool, Source, Sources};

/// The number of bytes of output that one step makes.
pub const OUTPUT: usize = 32;

/// The purpose of a step. No two uses of a key have the same purpose and input.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Purpose {
    Gather = 1,
    Derive = 2,
    Draw = 3,
}

/// A key that each step replaces.
struct Chain {
    key: [u8; 32],
}

impl Chain {
    /// Replaces the key. The answer is an output that cannot be computed without the old key.
    /// `detail` is a part of the input, as `data` is. Kept out of line: each inlined copy of the
    /// cipher is 1 KB of code.
    #[inline(never)]
    fn step(&mut self, purpose: Purpose, detail: u16, data: &[u8; 12]) -> [u8; OUTPUT] {
        let mut cipher = ChaChaCore::<R20, Ietf>::new((&self.key).into(), data.into());
        cipher.set_block_pos(u32::from(detail) << 8 | purpose as u32);
        let mut block = [0; 64];
        cipher.write_keystream_block((&mut block).into());
        let (key, output) = block.split_at(OUTPUT);
        let mut given = [0; OUTPUT];
        self.key.copy_from_slice(key);
        given.copy_from_slice(output);
        given
    }
}

/// The random numbers of one boot of one VM. It has no `Debug`, so that a key never gets to the
/// console.
#[allow(missing_debug_implementations)]
pub struct Stream(Chain);

impl Stream {
    /// Random bytes. `now` is the value of the counter and `jitter` any other number that depends
    /// on the moment: both improve the numbers that follow if the key is known to an attacker.
    pub fn draw(&mut self, now: u64, jitter: u32) -> [u8; OUTPUT] {
        self.0.step(Purpose::Draw, 0, &moment(now, jitter))
    }
}

fn moment(now: u64, more: u32) -> [u8; 12] {
    let mut data = [0; 12];
    let bytes = now.to_le_bytes().into_iter().chain(more.to_le_bytes());
    data.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The block function's own example, RFC 8439, 2.3.2.
    #[test]
    fn a_step_is_a_block_of_the_cipher() {
        let mut key = [0; 32];
        (0..).zip(&mut key).for_each(|(at, byte)| *byte = at);
        let mut chain = Chain { key };
        // The example's counter is 1, which is the purpose of gathering without detail.
        let nonce = [0, 0, 0, 0x09, 0, 0, 0, 0x4a, 0, 0, 0, 0];
        let given = chain.step(Purpose::Gather, 0, &nonce);
        let block = [
            0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15, 0x50, 0x0f, 0xdd, 0x1f, 0xa3, 0x20,
            0x71, 0xc4, 0xc7, 0xd1, 0xf4, 0xc7, 0x33, 0xc0, 0x68, 0x03, 0x04, 0x22, 0xaa, 0x9a,
            0xc3, 0xd4, 0x6c, 0x4e, 0xd2, 0x82, 0x64, 0x46, 0x07, 0x9f, 0xaa, 0x09, 0x14, 0xc2,
            0xd7, 0x05, 0xd9, 0x8b, 0x02, 0xa2, 0xb5, 0x12, 0x9c, 0xd1, 0xde, 0x16, 0x4e, 0xb9,
            0xcb, 0xd0, 0x83, 0xe8, 0xa2, 0x50, 0x3c, 0x4e,
        ];
        assert_eq!(chain.key[..], block[..32]);
        assert_eq!(given[..], block[32..]);
    }

    /// The moment is gathered like any other jitter, and the key depends on the VM's boot.
    #[test]
    fn a_stream_gathers_the_moment_and_derives_its_key() {
        let (vm, life, now, jitter) = (3, 7, 0x0123_4567_89ab_cdef, 0x1357_9bdf);
        let (mut pool, mut twin) = (Pool::new(), Pool::new());
        let stream = pool.stream(vm, life, now, jitter);
        twin.gather(Source::Jitter, &moment(now, jitter));
        let mut chain = Chain { key: twin.key() };
        let given = chain.step(Purpose::Derive, vm.into(), &moment(life.into(), 0));
        assert_eq!((stream.0.key, pool.key()), (given, chain.key));
    }

    /// The key after a draw is no part of the output and is not the key before it; with the old key
    /// the draw would give the same output again.
    #[test]
    fn a_key_does_not_outlive_its_use() {
        let mut stream = Stream(Chain { key: [7; 32] });
        let before = stream.0.key;
        let given = stream.draw(1, 2);
        assert!(stream.0.key != before && stream.0.key != given);
        assert_eq!(Stream(Chain { key: before }).draw(1, 2), given);
        assert_ne!(stream.draw(1, 2), given);
    }

    /// After a pool has made a stream, its key is not the stream's.
    #[test]
    fn a_stream_s_key_is_not_the_pool_s() {
        let mut pool = Pool::new();
        let Stream(Chain { key }) = pool.stream(0, 1, 0, 0);
        let Stream(Chain { key: next }) = pool.stream(0, 1, 0, 0);
        assert!(pool.key() != key && pool.key() != next && key != next);
    }
}
