//! What a driver VM has of each virtio device of another VM's, its client, that it serves: registers, an interrupt, and
//! rings in the driver VM's own memory.
//!
//! The hypervisor gives each request of the client to the driver VM by a split queue of virtio (virtio 1.2, 2.7), in which the
//! driver VM is the device's side. It is in the driver VM's memory, where the driver VM wants it, so that the driver VM
//! never has to see the client's. Entry `n` of its table of descriptors is a table of descriptors (VIRTQ_DESC_F_INDIRECT) in
//! *slot* `n` of an area of slots, one slot for each request that can be under way: its descriptors come first, and
//! the request's data after them. Both sides say by an index when they want to be told (VIRTIO_F_EVENT_IDX).
//!
//! Data are copied: what the driver VM may read is in the slot when it gets the request, and what it writes there is in the
//! client's memory when it has given the request back. With [`mode::DIRECT`], which only a VM that the description trusts can have,
//! buffers of more than [`SMALL`] bytes are named by their address on the board instead, for a device that reads and writes
//! there by itself; and so are the slots' own data. Of what it may read, the first [`register::HEAD`] bytes are copied all the same.
//!
//! What the driver VM has written is where the descriptors of the slot say that it may write, one after the other. It may change these
//! before it gives the request back: then the data come from other memory of its own, or, with [`mode::DIRECT`], from any VM's,
//! by its address on the board. So a frame of one client gets to another by one copy, from the one's request to
//! the other's. What lies where the client wants it already is not copied. A buffer that the slot has no room for, and that
//! is to be written, has the address 0: the driver VM must say where the data are.
//!
//! A client's store to the device's own configuration is told to a driver VM that has set [`mode::STORES`], as virtio-input and others
//! need it (virtio 1.2, 5.8.4): [`register::STORED`] and [`register::VALUE`] have it, and [`interrupt::CONFIG`] comes. The client's next access to the
//! configuration waits until the driver VM has stored to [`register::ANSWER`], and for a second at most. In this mode
//! [`register::CONFIG`] and [`register::CONFIG_SIZE`] may be stored to at any time, and the client sees what they have with an answer. An answer to no
//! store tells the client that its configuration has changed. A store that was not answered as the driver VM withdraws the device, or
//! dies, is told again once it offers the device again.
//!
//! A display's client names memory in one request from which the device takes pictures at later ones (virtio 1.2, 5.7.6.8). A driver VM that is
//! trusted reads it by [`register::FETCH`], which copies from any of the client's memory to its own while the device is offered and the client's
//! driver is ready.
//!
//! The driver VM sets everything up, and then stores [`control::OFFER`]. Requests that were under way as it stores [`control::WITHDRAW`], or
//! dies, are given again, in their order, once it offers the device again.
//!
//! If the description gives the driver VM a `watchdog`, it has to access a register of a device within this time after its interrupt has come,
//! such as [`register::TAKE`]; what was asked may take longer. Otherwise it is reset.
//!
//! All registers have 32 bits and are accessed by 32 bits; a pair holds the low half first.

/// The registers, by their offsets.
pub mod register {
    /// Reads [`MAGIC`].
    pub const ID: u64 = 0x00;
    /// Reads [`super::VERSION`].
    pub const VERSION: u64 = 0x04;
    /// The kind of device (virtio 1.2, 5).
    pub const DEVICE: u64 = 0x08;
    /// The number of its queues.
    pub const QUEUES: u64 = 0x0c;
    /// What the client's driver does: [`super::client`], and from bit 1 on, how often it was reset: whoever sees another number has
    /// requests that the client has forgotten. They are to be given back nevertheless.
    pub const CLIENT: u64 = 0x10;
    /// How requests are given: [`super::mode`].
    pub const MODE: u64 = 0x14;
    /// The bits of [`MODE`] that this VM may set.
    pub const MODES: u64 = 0x18;
    /// A store offers or withdraws the device; reads what became of that: [`super::control`].
    pub const CONTROL: u64 = 0x1c;
    /// The features of the device that it offers, beside those of transport and queues, which are the hypervisor's own: a pair.
    pub const FEATURES: u64 = 0x20;
    /// The features that the client's driver has accepted: a pair.
    pub const ACCEPTED: u64 = 0x28;
    /// The size of each queue of the client's and of its ring here: a power of two, [`super::MAX_QUEUE_SIZE`] at most.
    pub const QUEUE_SIZE: u64 = 0x30;
    /// How many bytes of [`CONFIG`] there are.
    pub const CONFIG_SIZE: u64 = 0x34;
    /// The queue to which the registers from [`TABLE`] to [`SLOT_DESCRIPTORS`] belong.
    pub const QUEUE: u64 = 0x38;
    /// How many of the first bytes that it may read of a request are copied in each mode; [`super::SMALL`] at the most.
    pub const HEAD: u64 = 0x3c;
    /// The address of the ring's table of descriptors: a pair.
    pub const TABLE: u64 = 0x40;
    /// The address of the ring of requests: a pair.
    pub const AVAILABLE: u64 = 0x48;
    /// The address of the ring of requests that are done: a pair.
    pub const USED: u64 = 0x50;
    /// The address of the slots: a pair.
    pub const SLOTS: u64 = 0x58;
    /// The size of a slot in bytes, a multiple of 16.
    pub const SLOT_SIZE: u64 = 0x60;
    /// The number of descriptors for which a slot has room.
    pub const SLOT_DESCRIPTORS: u64 = 0x64;
    /// A store of a queue's number says that requests of it are done.
    pub const NOTIFY: u64 = 0x70;
    /// Why the interrupt came: [`super::interrupt`].
    pub const INTERRUPT: u64 = 0x74;
    /// A store of bits clears them in [`INTERRUPT`].
    pub const ACKNOWLEDGE: u64 = 0x78;
    /// Reads what [`INTERRUPT`] does, and clears it: one access in place of two.
    pub const TAKE: u64 = 0x7c;
    /// Where the client's store to its configuration was that waits for an answer: the offset in the lower 16 bits, and in the upper ones how many
    /// bytes were stored, 1, 2 or 4; 0 if none waits.
    pub const STORED: u64 = 0x80;
    /// The value of that store.
    pub const VALUE: u64 = 0x84;
    /// A store answers it: the client's configuration is what [`CONFIG`] has.
    pub const ANSWER: u64 = 0x88;
    /// How many requests of the chosen queue were under way when the device was offered: those are given first. An earlier back
    /// end may have done them, or parts of them.
    pub const AGAIN: u64 = 0x8c;
    /// The address in the client's memory from which [`FETCH`] copies: a pair.
    pub const FETCH_FROM: u64 = 0x90;
    /// The address in this VM's memory to which it copies: a pair.
    pub const FETCH_TO: u64 = 0x98;
    /// A store of a number of bytes copies so many. Reads how many of them were not copied: 0, or more if one of both memories
    /// has none there, the client's driver is not ready, or [`MODES`] has no [`super::mode::DIRECT`].
    pub const FETCH: u64 = 0xa0;
    /// The device's own configuration, as the client reads it: [`super::MAX_CONFIG`] bytes. A reset of the driver VM leaves it as it is.
    pub const CONFIG: u64 = 0x100;
    /// What [`ID`] reads: `hkbe`.
    pub const MAGIC: u32 = u32::from_le_bytes(*b"hkbe");
}

/// The major version in the upper 16 bits, and the minor one.
pub const VERSION: u32 = 0x0001_0004;
/// The most places of a queue.
pub const MAX_QUEUE_SIZE: u16 = 256;
/// The most bytes of a device's own configuration.
pub const MAX_CONFIG: usize = 136;
/// The most bytes of a buffer that is copied in any mode.
pub const SMALL: u32 = 64;
/// The bytes that a driver VM has behind the pictures of a screen for what it keeps of each client's display across its own resets.
pub const DISPLAY_STATE: u64 = 0x21000;

/// Bits of `register::CLIENT`.
pub mod client {
    /// Its driver is ready, and requests may come.
    pub const LIVE: u32 = 1;
}

/// Bits of `register::MODE`.
pub mod mode {
    /// Larger buffers are named by their addresses on the board.
    pub const DIRECT: u32 = 1;
    /// The client's stores to its configuration are told.
    pub const STORES: u32 = 2;
    /// The driver VM leaves the slots' descriptors as they are, so that the hypervisor need not look for them on the way back. If it changes them
    /// nevertheless, what the client gets of its request is not defined; it never is another VM's, nor anywhere else in its memory.
    pub const KEEPS: u32 = 4;
}

/// Values of `register::CONTROL`.
pub mod control {
    /// The device is not offered, and the rings are not touched.
    pub const WITHDRAW: u32 = 0;
    /// The device is offered as the other registers say.
    pub const OFFER: u32 = 1;
    /// The offer was refused: a register is wrong, or the client's driver has accepted what is not offered any more.
    pub const REFUSED: u32 = 2;
    /// The rings were not as they must be, or not in memory: the device is withdrawn.
    pub const FAILED: u32 = 3;
}

/// Bits of `register::INTERRUPT`.
pub mod interrupt {
    /// There are requests.
    pub const REQUESTS: u32 = 1;
    /// The client's driver has become ready, or was reset.
    pub const CLIENT: u32 = 2;
    /// The client has stored to its configuration.
    pub const CONFIG: u32 = 4;
}
