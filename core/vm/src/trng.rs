//! Random numbers of a VM: for the seeds in its device tree, and for the firmware's calls (TRNG
//! Firmware Interface 1.0, DEN0098).
//!
//! A call computes one block of a cipher, some two thousand instructions. They are at the expense
//! of the VM, but the numbers are made under a lock that its vCPUs share. So the number of calls in
//! a period is limited, over all boots of the VM, and further calls get NO_ENTROPY, which the
//! specification provides for a source that must gather more.

use crate::smccc::{INVALID_PARAMETERS, NOT_SUPPORTED, SUCCESS, function};
use crate::{Action, Guest, Machine, Vm};
use core::fmt;
use hanok_random::{OUTPUT, Stream};
use hanok_vgic::GuestInterface;

/// The number of calls that are answered in a period.
pub(crate) const CALLS: u32 = 64;
/// The number of periods in a second.
pub(crate) const PERIODS: u64 = 10;

const NO_ENTROPY: i64 = -3;
/// Version 1.0 (DEN0098, 2.1).
const VERSION: i64 = 0x1_0000;
/// The UUID of this source, in the order of W0 to W3. W0 must not be the value of NOT_SUPPORTED.
const UUID: [u32; 4] = [0x4b0e_61d2, 0x4f2c_9a37, 0x1c5e_83b4, 0x7da6_0f92];
/// The number of registers that a random number may take (X1 to X3).
const WORDS: u64 = 3;

/// A VM's random numbers.
#[derive(Default)]
pub(crate) struct Random {
    stream: Option<Stream>,
    /// Whether the numbers come from a source that cannot be guessed.
    suffice: bool,
    period: u64,
    calls: u32,
}

impl fmt::Debug for Random {
    /// Without the key, so that it never gets to the console.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Random").finish_non_exhaustive()
    }
}

impl Random {
    /// Counts a call, if one more may be answered in this period.
    fn admit(&mut self, period: u64) -> Admission {
        if core::mem::replace(&mut self.period, period) != period {
            self.calls = 0;
        }
        if !self.suffice || self.calls >= CALLS {
            return Admission::Refused;
        }
        self.calls += 1;
        Admission::Admitted
    }
}

/// Whether a call for random numbers may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
enum Admission {
    /// It may.
    Admitted,
    /// The numbers can be guessed, or the period's calls are used up.
    Refused,
}

/// A VM that has not begun to boot has no random numbers yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoStream;

impl Vm {
    /// Sets the stream of the VM's next boot. `suffice` says whether it is good enough for guests
    /// that ask for true random numbers. For the pCPU that begins that boot.
    pub fn set_random(&self, stream: Stream, suffice: bool) {
        let mut random = self.random.lock();
        random.stream = Some(stream);
        random.suffice = suffice;
    }

    /// Whether its numbers are good enough for guests that ask for true random numbers.
    pub fn random_suffices(&self) -> bool {
        self.random.lock().suffice
    }

    /// Fills `bytes` with random ones. `now` and `jitter` as for [`Stream::draw`]. There is no
    /// stream before the first [`Self::set_random`].
    pub fn fill_random(&self, bytes: &mut [u8], now: u64, jitter: u32) -> Result<(), NoStream> {
        let mut random = self.random.lock();
        let stream = random.stream.as_mut().ok_or(NoStream)?;
        for piece in bytes.chunks_mut(OUTPUT) {
            let drawn = stream.draw(now, jitter);
            piece
                .iter_mut()
                .zip(drawn)
                .for_each(|(to, from)| *to = from);
        }
        Ok(())
    }
}

impl<M: Machine, L: GuestInterface> Guest<'_, M, L> {
    /// TRNG_GET_UUID.
    pub(crate) fn trng_uuid(&mut self) -> Action {
        self.answer_words(&UUID)
    }

    /// TRNG_RND32 and TRNG_RND64: the requested number of bits, the lowest in X3; the bits above
    /// them are zero.
    pub(crate) fn trng_numbers(&mut self, id: u32) -> Action {
        let width = if id & function::SMC64 != 0 { 64 } else { 32 };
        let bits = self.argument(id, 1);
        let drawn = match bits {
            1.. if bits <= WORDS * width => self.draw().ok_or(NO_ENTROPY),
            _ => Err(INVALID_PARAMETERS),
        };
        let numbers = drawn.unwrap_or([0; WORDS as usize]);
        let (mut left, mut register) = (bits, 3);
        for number in numbers {
            let here = left.min(width);
            left -= here;
            let mask = u64::MAX.checked_shr(64 - here as u32).unwrap_or(0);
            self.regs.set(register, number & mask);
            register -= 1;
        }
        self.answer(drawn.map_or_else(|error| error, |_| SUCCESS))
    }

    fn draw(&mut self) -> Option<[u64; WORDS as usize]> {
        let now = self.machine.counter();
        let period = now / (self.machine.counter_frequency() / PERIODS).max(1);
        let mut random = self.vm.random.lock();
        if random.admit(period) == Admission::Refused {
            return None;
        }
        let drawn = random.stream.as_mut()?.draw(now, 0);
        let (words, _) = drawn.as_chunks::<8>();
        let [first, second, third, _] = *words else {
            return None;
        };
        Some([first, second, third].map(u64::from_le_bytes))
    }
}

/// TRNG_FEATURES, about the functions that the caller may call.
pub(crate) fn features(asked: u32) -> i64 {
    match asked {
        function::TRNG_VERSION
        | function::TRNG_FEATURES
        | function::TRNG_GET_UUID
        | function::TRNG_RND => SUCCESS,
        _ if asked == function::TRNG_RND | function::SMC64 => SUCCESS,
        _ => NOT_SUPPORTED,
    }
}

/// TRNG_VERSION.
pub(crate) const fn version() -> i64 {
    VERSION
}
