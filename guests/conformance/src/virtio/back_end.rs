//! What a driver VM has of a virtio device of another VM's (`hanok_abi::back_end`): registers, rings and slots, all in the shared
//! area. It serves any kind of device, by what a slot happens to hold: its clients must not care.

use super::memory::{AREA, AVAILABLE, QUEUE, TABLE, USED, WRITE};
use super::requests::wrong_if;
use crate::machine::Machine;
use crate::mmio::{read32, write32};
use core::sync::atomic::{Ordering::SeqCst, fence};
use hanok_abi::back_end::{MAX_CONFIG, control, register};
use hanok_types::platform;

/// The places of a ring.
pub const SIZE: u16 = 16;
/// The most queues for which the area has room.
pub const MOST_QUEUES: u32 = 3;
/// Where the slots of the first queue are, and those of the next one behind it.
const SLOTS: u64 = 0x4000;
/// The bytes of a slot, and for how many descriptors it has room.
pub const SLOT: u64 = 0x400;
pub const DESCRIPTORS: u32 = 8;

/// A device that this VM serves, and how far its rings are.
pub struct BackEnd {
    /// Its registers.
    pub at: u64,
    /// The kind of device (virtio 1.2, 5).
    pub kind: u32,
    /// How many queues it has.
    pub queues: u32,
    /// How requests are given (`hanok_abi::back_end::mode`).
    pub mode: u32,
    /// The first address behind this VM's RAM.
    pub ram_end: u64,
    /// How many requests were taken, and how many were given back, of each queue.
    taken: [u16; MOST_QUEUES as usize],
    given: [u16; MOST_QUEUES as usize],
}

/// All devices that this VM serves.
pub fn back_ends(machine: &Machine) -> impl Iterator<Item = BackEnd> + '_ {
    let first = platform::BACK_END.get();
    let places = first..first + platform::BACK_ENDS * platform::BACK_END_SIZE;
    let all = machine.devices.iter().map(|area| area.start);
    let here = all.filter(move |at| places.contains(at));
    here.filter(|at| read32(at + register::ID) == register::MAGIC)
        .map(|at| BackEnd::new(at, machine.ram_end()))
}

impl BackEnd {
    /// The one with registers at `at`, in a VM whose RAM ends at `ram_end`.
    pub fn new(at: u64, ram_end: u64) -> Self {
        Self {
            at,
            kind: read32(at + register::DEVICE),
            queues: read32(at + register::QUEUES).min(MOST_QUEUES),
            mode: 0,
            ram_end,
            taken: [0; MOST_QUEUES as usize],
            given: [0; MOST_QUEUES as usize],
        }
    }

    /// Reads a register.
    pub fn read(&self, register: u64) -> u32 {
        read32(self.at + register)
    }

    /// Writes a register.
    pub fn write(&self, register: u64, value: u32) {
        write32(self.at + register, value);
    }

    /// Writes a pair of registers.
    pub fn write_pair(&self, register: u64, value: u64) {
        self.write(register, value as u32);
        self.write(register + 4, (value >> 32) as u32);
    }

    /// Withdraws the device, and says in all registers what can be offered.
    pub fn prepare(&mut self) {
        self.write(register::CONTROL, control::WITHDRAW);
        AREA.fill(
            0,
            SLOTS + u64::from(self.queues) * SLOT * u64::from(SIZE),
            0,
        );
        (self.taken, self.given) = Default::default();
        self.write(register::MODE, self.mode);
        self.write(register::HEAD, 0);
        self.write_pair(register::FEATURES, 0);
        self.write(register::QUEUE_SIZE, SIZE.into());
        self.write(register::CONFIG_SIZE, 64);
        for at in (0..MAX_CONFIG as u64).step_by(4) {
            self.write(register::CONFIG + at, 0x0101_0101);
        }
        for queue in 0..self.queues {
            self.choose(queue);
            let ring = AREA.address(u64::from(queue) * QUEUE);
            self.write_pair(register::TABLE, ring + TABLE);
            self.write_pair(register::AVAILABLE, ring + AVAILABLE);
            self.write_pair(register::USED, ring + USED);
            self.write_pair(register::SLOTS, AREA.address(slot(queue, 0)));
            self.write(register::SLOT_SIZE, SLOT as u32);
            self.write(register::SLOT_DESCRIPTORS, DESCRIPTORS);
        }
    }

    /// Chooses the queue to which registers belong.
    pub fn choose(&self, queue: u32) {
        self.write(register::QUEUE, queue);
    }

    /// Offers the device. The answer is what became of that.
    pub fn offer(&self) -> u32 {
        self.write(register::CONTROL, control::OFFER);
        self.read(register::CONTROL)
    }

    /// Offers the device as it should be.
    pub fn start(&mut self) -> Result<(), &'static str> {
        self.prepare();
        // A client whose queues are larger, or that uses other features, gives up soon.
        wrong_if(
            !super::wait(|| self.offer() == control::OFFER),
            "the offer is refused",
        )
    }

    /// Offers the device again with what its registers have, after the hypervisor or this VM has withdrawn it.
    pub fn offer_again(&mut self) -> Result<(), &'static str> {
        self.write(register::CONTROL, control::WITHDRAW);
        for queue in 0..u64::from(self.queues) {
            AREA.fill(queue * QUEUE + AVAILABLE, 4, 0);
            AREA.fill(queue * QUEUE + USED, 4, 0);
        }
        (self.taken, self.given) = Default::default();
        wrong_if(
            !super::wait(|| self.offer() == control::OFFER),
            "the offer is refused",
        )
    }

    /// The next request of `queue`, if there is one: its slot.
    pub fn take(&mut self, queue: u32) -> Option<u16> {
        let taken = &mut self.taken[queue as usize];
        let ring = u64::from(queue) * QUEUE + AVAILABLE;
        if AREA.get(ring + 2) == *taken {
            return None;
        }
        fence(SeqCst);
        let head = AREA.get(ring + 4 + 2 * u64::from(*taken % SIZE));
        *taken = taken.wrapping_add(1);
        // The hypervisor is to tell of the next one.
        AREA.set(
            u64::from(queue) * QUEUE + USED + 4 + 8 * u64::from(SIZE),
            *taken,
        );
        Some(head)
    }

    /// Waits for a request of any queue: its queue and its slot.
    pub fn wait(&mut self) -> Result<(u32, u16), &'static str> {
        let mut found = None;
        super::wait(|| {
            let mut queues = 0..self.queues;
            found = queues.find_map(|queue| Some((queue, self.take(queue)?)));
            found.is_some()
        });
        found.ok_or("no request comes")
    }

    /// Writes an answer, which the hypervisor does not see yet.
    pub fn answer(&mut self, queue: u32, head: u32, written: u32) {
        let given = &mut self.given[queue as usize];
        let at = u64::from(queue) * QUEUE + USED + 4 + 8 * u64::from(*given % SIZE);
        AREA.put(at, head.into(), 4);
        AREA.put(at + 4, written.into(), 4);
        *given = given.wrapping_add(1);
    }

    /// Has the hypervisor take the answers.
    pub fn tell(&self, queue: u32) {
        self.show(queue, self.given[queue as usize]);
    }

    /// Says that so many answers were given.
    pub fn show(&self, queue: u32, index: u16) {
        fence(SeqCst);
        AREA.set(u64::from(queue) * QUEUE + USED + 2, index);
        fence(SeqCst);
        self.write(register::NOTIFY, queue);
    }

    /// How many answers were given.
    pub fn given(&self, queue: u32) -> u16 {
        self.given[queue as usize]
    }

    /// Serves requests as it should, for so many milliseconds. The answer is how many these were.
    pub fn serve(&mut self, milliseconds: u64) -> u32 {
        let mut count = 0;
        super::wait_ms(milliseconds, || {
            for queue in 0..self.queues {
                while let Some(head) = self.take(queue) {
                    let written = self.writable(queue, head);
                    self.answer(queue, head.into(), written);
                    self.tell(queue);
                    count += 1;
                }
            }
            false
        });
        count
    }

    /// How many bytes a request lets it write.
    pub fn writable(&self, queue: u32, head: u16) -> u32 {
        let (first, mut written) = (slot(queue, head), 0_u32);
        let table = u64::from(queue) * QUEUE + TABLE + 16 * u64::from(head % SIZE);
        let count = AREA.word(table + 8) / 16;
        for index in 0..u64::from(count.min(DESCRIPTORS)) {
            let at = first + 16 * index;
            if AREA.get(at + 12) & WRITE != 0 {
                written = written.wrapping_add(AREA.word(at + 8));
            }
        }
        written
    }

    /// A number that changes whenever the client has forgotten its requests.
    pub fn resets(&self) -> u32 {
        self.read(register::CLIENT) >> 1
    }

    /// Whether the device is offered, refused or failed.
    pub fn state(&self) -> u32 {
        self.read(register::CONTROL)
    }
}

/// Where a slot of a queue is in the area.
pub fn slot(queue: u32, head: u16) -> u64 {
    SLOTS + (u64::from(queue) * u64::from(SIZE) + u64::from(head % SIZE)) * SLOT
}
