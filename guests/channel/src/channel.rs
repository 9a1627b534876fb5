//! The registers of a channel (`hanok_abi::channel`).

use core::sync::atomic::{Ordering::SeqCst, fence};
use hanok_abi::channel::{CHANGED_SHIFT, own, register};

/// A way to the registers.
pub trait Registers {
    /// Loads the register at `offset`.
    fn load(&self, offset: u64) -> u32;
    /// Stores to the register at `offset`.
    fn store(&self, offset: u64, value: u32);
}

/// Registers that are mapped.
#[derive(Clone, Copy, Debug)]
pub struct Mapped(*mut u32);

impl Mapped {
    /// The registers at `start`.
    ///
    /// # Safety
    /// The 4 KiB at `start` are mapped, as a device, for as long as the value is used.
    pub const unsafe fn new(start: *mut u32) -> Self {
        Self(start)
    }
}

// SAFETY: each access is one load or store of a device that all CPUs reach alike.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

/// The bytes of the registers.
const LEN: u64 = 0x1000;

impl Registers for Mapped {
    fn load(&self, offset: u64) -> u32 {
        assert!(offset < LEN, "no register");
        // SAFETY: inside of what is mapped.
        unsafe { self.0.byte_add(offset as usize).read_volatile() }
    }

    fn store(&self, offset: u64, value: u32) {
        assert!(offset < LEN, "no register");
        // SAFETY: inside of what is mapped.
        unsafe { self.0.byte_add(offset as usize).write_volatile(value) }
    }
}

/// What a member knows of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// What it says of itself; 0 from the end of each of its boots until it says something.
    pub state: u16,
    /// How many of its boots have ended, modulo 65,536. What was agreed with it before is void when this changes.
    pub generation: u16,
}

/// A channel.
#[derive(Debug)]
pub struct Channel<R> {
    registers: R,
    own: u32,
}

impl<R: Registers> Channel<R> {
    /// The channel behind these registers; `None` if they are of something else.
    pub fn new(registers: R) -> Option<Self> {
        if registers.load(register::ID) != register::MAGIC {
            return None;
        }
        let own = registers.load(register::OWN);
        Some(Self { registers, own })
    }

    /// The own index.
    pub fn index(&self) -> usize {
        (self.own & own::INDEX) as usize
    }

    /// The number of members, this one included.
    pub fn members(&self) -> usize {
        (self.own >> own::MEMBERS_SHIFT & own::INDEX) as usize
    }

    /// Whether this member may only read the memory.
    pub fn is_read_only(&self) -> bool {
        self.own & own::READ_ONLY != 0
    }

    /// The bytes of the memory.
    pub fn size(&self) -> usize {
        self.registers.load(register::SIZE) as usize
    }

    /// The member with this index.
    pub fn peer(&self, index: usize) -> Option<Peer> {
        let at = register::PEER + 4 * index as u64;
        let word = (index < self.members()).then(|| self.registers.load(at))?;
        Some(Peer {
            state: word as u16,
            generation: (word >> 16) as u16,
        })
    }

    /// Says something of this member; all peers are told of a change.
    pub fn set_state(&self, state: u16) {
        fence(SeqCst);
        self.registers.store(register::STATE, state.into());
    }

    /// Rings the member with this index. What was stored to the memory before is there for it.
    pub fn ring(&self, index: usize) {
        fence(SeqCst);
        let bit = 1_u32.checked_shl(index as u32).unwrap_or(0);
        self.registers.store(register::RING, bit);
    }

    /// Which events raise the interrupt: [`Self::rings`] and [`Self::changes`] of members.
    pub fn enable(&self, events: u32) {
        self.registers.store(register::ENABLE, events);
    }

    /// Takes what has come since the last call, and acknowledges it: the line of the interrupt becomes low. What the peers stored before
    /// is there.
    pub fn take(&self) -> u32 {
        let events = self.registers.load(register::PENDING);
        if events != 0 {
            self.registers.store(register::PENDING, events);
        }
        fence(SeqCst);
        events
    }

    /// The event that this member rings.
    pub const fn rings(index: usize) -> u32 {
        1 << (index % 16)
    }

    /// The event that this member's state changes.
    pub const fn changes(index: usize) -> u32 {
        1 << (CHANGED_SHIFT as usize + index % 16)
    }
}
