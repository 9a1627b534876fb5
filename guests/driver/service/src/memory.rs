//! What the driver VM shares, as atomics at their places: split queues (virtio 1.2, 2.7) and slots
//! (`hanok_abi::back_end`).

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};
use hanok_abi::back_end::MAX_QUEUE_SIZE;

/// The most places of a queue.
pub const PLACES: usize = MAX_QUEUE_SIZE as usize;
/// The descriptors of a slot: header and status of a request, and as many buffers as a request of 128 KiB has of pages, twice.
pub const DESCRIPTORS: usize = 66;
/// The words of a slot behind its descriptors, for what is copied: two buffers of 64 bytes and more, as larger ones are named.
const DATA: usize = 20;
/// The words of a slot.
pub const SLOT_WORDS: usize = DESCRIPTORS * 2 + DATA;

/// A descriptor: the address, and length, flags and the next one in a word.
#[repr(C)]
pub struct Descriptor {
    pub at: AtomicU64,
    pub rest: AtomicU64,
}

/// The ring of available chains.
#[repr(C)]
pub struct Available {
    pub flags: AtomicU16,
    pub index: AtomicU16,
    pub entries: [AtomicU16; PLACES],
    pub event: AtomicU16,
}

/// The ring of used chains.
#[repr(C)]
pub struct Used {
    pub flags: AtomicU16,
    pub index: AtomicU16,
    pub elements: [[AtomicU32; 2]; PLACES],
    pub event: AtomicU16,
}

/// A split queue with [`PLACES`] places at the most.
#[repr(C, align(4096))]
pub struct Split {
    pub table: [Descriptor; PLACES],
    pub available: Available,
    pub used: Used,
    /// The index after the used ring in a queue with fewer places is among these words.
    _rest: AtomicU32,
}

impl Split {
    const fn new() -> Self {
        Self {
            table: [const {
                Descriptor {
                    at: AtomicU64::new(0),
                    rest: AtomicU64::new(0),
                }
            }; PLACES],
            available: Available {
                flags: AtomicU16::new(0),
                index: AtomicU16::new(0),
                entries: [const { AtomicU16::new(0) }; PLACES],
                event: AtomicU16::new(0),
            },
            used: Used {
                flags: AtomicU16::new(0),
                index: AtomicU16::new(0),
                elements: [const { [const { AtomicU32::new(0) }; 2] }; PLACES],
                event: AtomicU16::new(0),
            },
            _rest: AtomicU32::new(0),
        }
    }

    /// Makes it one with `size` places of which nothing is used.
    pub fn empty(&self, size: u16) {
        let (available, used) = (&self.available, &self.used);
        for half in [&available.index, &used.index, self.driver_event(size)] {
            half.store(0, Relaxed);
        }
        self.set_device_event(size, 0);
    }

    /// The index at which the driver wants to be told, of a queue with `size` places: behind its ring of available chains.
    pub fn driver_event(&self, size: u16) -> &AtomicU16 {
        let available = &self.available;
        let entry = available.entries.get(usize::from(size));
        entry.unwrap_or(&available.event)
    }

    /// The index at which the device wants to be told: behind the ring of used chains.
    pub fn device_event(&self, size: u16) -> u16 {
        match self.used.elements.get(usize::from(size)) {
            Some([low, _]) => low.load(Relaxed) as u16,
            None => self.used.event.load(Relaxed),
        }
    }

    /// Sets the index at which the device wants to be told.
    pub fn set_device_event(&self, size: u16, index: u16) {
        match self.used.elements.get(usize::from(size)) {
            Some([low, _]) => low.store(index.into(), Relaxed),
            None => self.used.event.store(index, Relaxed),
        }
    }

    /// The addresses of the table and of both rings.
    pub fn places(&self) -> [u64; 3] {
        [
            address(&self.table),
            address(&self.available),
            address(&self.used),
        ]
    }
}

/// The places of a queue of a network's client: as few as its slots need to leave a 32-bit VM of 32 MiB its room.
pub const FRAME_PLACES: usize = 128;
/// The descriptors of a network's slot: header and frame of a request in as many pieces as Linux makes.
pub const FRAME_DESCRIPTORS: usize = 24;
/// The words of a frame's slot behind its descriptors: for a whole one, if the hypervisor copies it.
const FRAME_DATA: usize = 200;
/// The words of a frame's slot.
pub const FRAME_SLOT_WORDS: usize = FRAME_DESCRIPTORS * 2 + FRAME_DATA;
/// The words of a buffer for a frame from the board's device.
pub const FRAME_WORDS: usize = 256;

/// What a network's client shares with the hypervisor: for what it receives, and for what it sends.
#[repr(C, align(4096))]
pub struct PortMemory {
    pub rings: [Split; 2],
    /// What it receives lies elsewhere: these have descriptors alone.
    pub received: [[AtomicU64; FRAME_DESCRIPTORS * 2]; FRAME_PLACES],
    pub sent: [[AtomicU64; FRAME_SLOT_WORDS]; FRAME_PLACES],
}

impl PortMemory {
    /// All of it zero.
    pub const fn new() -> Self {
        Self {
            rings: [const { Split::new() }; 2],
            received: [const { [const { AtomicU64::new(0) }; FRAME_DESCRIPTORS * 2] };
                FRAME_PLACES],
            sent: [const { [const { AtomicU64::new(0) }; FRAME_SLOT_WORDS] }; FRAME_PLACES],
        }
    }
}

/// The words that a packet's header may take.
pub const HEADER_WORDS: usize = 8;

/// The places of a queue of sockets.
pub const SOCKET_PLACES: usize = 128;
/// The words of a slot for a packet that is sent: its descriptors, and room for what is copied of it, as larger buffers are named.
const SOCKET_SLOT_WORDS: usize = FRAME_DESCRIPTORS * 2 + 64;

/// What a client of sockets shares with the hypervisor: for what it receives, for what it sends, and for events.
#[repr(C, align(4096))]
pub struct SocketMemory {
    pub rings: [Split; 3],
    /// What it receives lies elsewhere, but for the header behind the descriptors.
    pub received: [[AtomicU64; FRAME_DESCRIPTORS * 2 + HEADER_WORDS]; SOCKET_PLACES],
    pub sent: [[AtomicU64; SOCKET_SLOT_WORDS]; SOCKET_PLACES],
    /// One descriptor, and the event.
    pub events: [[AtomicU64; 4]; SOCKET_PLACES],
}

impl SocketMemory {
    /// All of it zero.
    pub const fn new() -> Self {
        Self {
            rings: [const { Split::new() }; 3],
            received: [const { [const { AtomicU64::new(0) }; FRAME_DESCRIPTORS * 2 + HEADER_WORDS] };
                SOCKET_PLACES],
            sent: [const { [const { AtomicU64::new(0) }; SOCKET_SLOT_WORDS] }; SOCKET_PLACES],
            events: [const { [const { AtomicU64::new(0) }; 4] }; SOCKET_PLACES],
        }
    }
}

/// The memory of the clients of sockets that can be served.
pub static SOCKETS: [SocketMemory; 3] = [const { SocketMemory::new() }; 3];

/// What this VM shares with the board's network device: its queues, and buffers for what comes.
#[repr(C, align(4096))]
pub struct UplinkMemory {
    pub queues: [Split; 2],
    pub buffers: [[AtomicU64; FRAME_WORDS]; PLACES],
}

impl UplinkMemory {
    /// All of it zero.
    pub const fn new() -> Self {
        Self {
            queues: [const { Split::new() }; 2],
            buffers: [const { [const { AtomicU64::new(0) }; FRAME_WORDS] }; PLACES],
        }
    }
}

/// The memory of the clients of networks that can be served.
pub static PORTS: [PortMemory; 8] = [const { PortMemory::new() }; 8];

/// The memory for network devices of the board that can be used.
pub static UPLINKS: [UplinkMemory; 1] = [const { UplinkMemory::new() }; 1];

/// What this VM shares with a virtio display of the board, and with a virtio keyboard and mouse.
#[repr(C, align(4096))]
pub struct ScreenMemory {
    pub queue: Split,
    /// Commands and answers of the display.
    pub places: [[AtomicU32; PLACE_WORDS]; 3],
    pub inputs: [EventMemory; 2],
}

/// What this VM shares with a virtio keyboard or mouse.
#[repr(C, align(4096))]
pub struct EventMemory {
    pub queue: Split,
    /// What it tells: an event each.
    pub events: [AtomicU64; EVENTS],
}

/// What a client's keyboard and mouse share with the hypervisor: for events, and for lamps.
#[repr(C, align(4096))]
pub struct InputMemory {
    pub rings: [Split; 2],
    pub events: [[AtomicU64; EVENT_SLOT_WORDS]; PLACES],
    pub status: [[AtomicU64; EVENT_SLOT_WORDS]; PLACES],
}

/// The descriptors of a slot for an event, and all of its words.
pub const EVENT_DESCRIPTORS: usize = 1;
const EVENT_SLOT_WORDS: usize = 2 * EVENT_DESCRIPTORS + 2;

impl InputMemory {
    /// All of it zero.
    pub const fn new() -> Self {
        Self {
            rings: [const { Split::new() }; 2],
            events: [const { [const { AtomicU64::new(0) }; EVENT_SLOT_WORDS] }; PLACES],
            status: [const { [const { AtomicU64::new(0) }; EVENT_SLOT_WORDS] }; PLACES],
        }
    }
}

/// The memory of the keyboards that clients can have.
pub static INPUTS: [InputMemory; 4] = [const { InputMemory::new() }; 4];

/// The places of a queue of a client's display.
pub const DISPLAY_PLACES: usize = 16;
/// The descriptors of a slot for a command of it.
pub const DISPLAY_DESCRIPTORS: usize = 64;
/// The words of a slot for a command: its descriptors, 1,024 pieces of a backing, and the headers and the longest answer.
const COMMAND_WORDS: usize = 4 * DISPLAY_DESCRIPTORS + 4 * 1024 + 128;
/// The words of a slot for a cursor: its descriptors, and the command.
const CURSOR_WORDS: usize = 4 * DISPLAY_DESCRIPTORS + 32;
/// The words of the memory through which pixels come.
pub const BOUNCE: usize = 4096;

/// What a client's display shares with the hypervisor: for commands, and for cursors.
#[repr(C, align(4096))]
pub struct DisplayMemory {
    pub rings: [Split; 2],
    pub commands: [[AtomicU32; COMMAND_WORDS]; DISPLAY_PLACES],
    pub cursors: [[AtomicU32; CURSOR_WORDS]; DISPLAY_PLACES],
    /// Pixels on their way from the client's memory to its picture.
    pub bounce: [AtomicU32; BOUNCE],
}

impl DisplayMemory {
    /// All of it zero.
    pub const fn new() -> Self {
        Self {
            rings: [const { Split::new() }; 2],
            commands: [const { [const { AtomicU32::new(0) }; COMMAND_WORDS] }; DISPLAY_PLACES],
            cursors: [const { [const { AtomicU32::new(0) }; CURSOR_WORDS] }; DISPLAY_PLACES],
            bounce: [const { AtomicU32::new(0) }; BOUNCE],
        }
    }
}

/// The memory of the displays that clients can have.
pub static DISPLAYS: [DisplayMemory; 2] = [const { DisplayMemory::new() }; 2];

/// The words of a place for a command of the display.
pub const PLACE_WORDS: usize = 32;
/// How many events of a keyboard can come at once.
pub const EVENTS: usize = 32;

/// The memory of the screens that can be served.
pub static SCREENS: [ScreenMemory; 1] = [const {
    ScreenMemory {
        queue: Split::new(),
        places: [const { [const { AtomicU32::new(0) }; PLACE_WORDS] }; 3],
        inputs: [const {
            EventMemory {
                queue: Split::new(),
                events: [const { AtomicU64::new(0) }; EVENTS],
            }
        }; 2],
    }
}; 1];

/// What one queue of a device that is forwarded shares with the hypervisor and with the board's device.
#[repr(C, align(4096))]
pub struct Lane {
    /// The ring of requests, in which this VM is the device.
    pub ring: Split,
    /// The queue of the board's device, in which this VM is the driver.
    pub queue: Split,
    pub slots: [[AtomicU64; SLOT_WORDS]; PLACES],
}

impl Lane {
    /// All of it zero.
    pub const fn new() -> Self {
        Self {
            ring: Split::new(),
            queue: Split::new(),
            slots: [const { [const { AtomicU64::new(0) }; SLOT_WORDS] }; PLACES],
        }
    }
}

/// The memory of the queues that can be forwarded.
pub static LANES: [Lane; 6] = [const { Lane::new() }; 6];

/// The places of a queue of an SD card, which has a lane: each has as many of the lane's slots as its own slot.
pub const CARD_PLACES: usize = 16;
/// How many of a lane's slots are one of a card.
pub const CARD_SLOTS: usize = PLACES / CARD_PLACES;
/// The bytes of data that a request to a card may have: in segments of a page each.
pub const CARD_BYTES: usize = 4 * 4096;
/// The descriptors of a slot for a card: header, segments and status of a request.
pub const CARD_DESCRIPTORS: usize = CARD_BYTES / 4096 + 2;
// Descriptors, header, data, and the status.
const _: () = assert!(SLOT_WORDS * CARD_SLOTS * 8 >= 16 * CARD_DESCRIPTORS + 16 + CARD_BYTES + 16);

/// The address of a value, which is the same for the CPU's own translation and for this VM's memory.
pub fn address<T: ?Sized>(value: &T) -> u64 {
    core::ptr::from_ref(value).cast::<u8>().addr() as u64
}
