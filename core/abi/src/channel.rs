//! Channels: memory that several VMs share, and the doorbells by which they call each other.
//!
//! Each VM on a channel is a *member* of it, with an index from 0 that the description gives; the other members are its
//! *peers*. A member has the channel's memory, mapped at the same address in all members, and a page of registers
//! ([`register`]) with an interrupt. The guest's tree names both in a node with `compatible = "hanok,channel"`.
//!
//! Registers have 32 bits. An access of 64 is two, the lower one first; one that is narrower, or not aligned to 32 bits, goes
//! to no register: it reads as zero and does nothing.
//!
//! The interrupt's line is high while a bit of `PENDING` is set that is also set in `ENABLE`.

/// The version of the registers that [`register::VERSION`] reads. A change that old drivers do not notice keeps it.
pub const VERSION: u32 = 1;

/// The most members of a channel.
pub const MAX_MEMBERS: usize = 8;

/// The registers, by their offsets.
pub mod register {
    /// Reads [`MAGIC`].
    pub const ID: u64 = 0x00;
    /// Reads [`super::VERSION`].
    pub const VERSION: u64 = 0x04;
    /// Reads the size of the memory in bytes.
    pub const SIZE: u64 = 0x08;
    /// Reads the member's own index, the number of members, and what it may do ([`super::own`]).
    pub const OWN: u64 = 0x0c;
    /// The member's own state, in the low half. Peers read it and are told of each change. Reads as [`PEER`] of the own index.
    pub const STATE: u64 = 0x10;
    /// A store rings the members whose bits are set; the own bit and those of no member do nothing. Reads as zero.
    pub const RING: u64 = 0x14;
    /// Which peers rang (bit `n` for member `n`), and whose state changed (bit `16 + n`), since that was last acknowledged.
    /// A store of ones acknowledges these bits.
    pub const PENDING: u64 = 0x18;
    /// Which bits of [`PENDING`] raise the interrupt; none after a reset.
    pub const ENABLE: u64 = 0x1c;
    /// `PEER + 4 n` reads the state of member `n`, in the low half, and its generation in the high half. The state is 0 from
    /// the end of each boot of that VM until its driver says otherwise; the generation counts the ends.
    pub const PEER: u64 = 0x20;
    /// What [`ID`] reads: `hkch`.
    pub const MAGIC: u32 = u32::from_le_bytes(*b"hkch");
}

/// The parts of [`register::OWN`].
pub mod own {
    /// The member's own index, in the lowest 8 bits.
    pub const INDEX: u32 = 0xff;
    /// The first bit of the number of members, of 8 bits.
    pub const MEMBERS_SHIFT: u32 = 8;
    /// The member may only read the memory: a store to it is an external abort.
    pub const READ_ONLY: u32 = 1 << 16;
}

/// The bits of [`register::PENDING`] that say whose state changed begin here.
pub const CHANGED_SHIFT: u32 = 16;
