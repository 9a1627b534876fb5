use super::sd::specifics;
use super::{CardDisk, FAILED, FLUSH, OK, READ, READ_ONLY, WRITE};
use crate::fake::client::{Client, leaked};
use crate::fake::{Registers, install, renew, said};
use crate::memory::{CARD_DESCRIPTORS, CARD_PLACES, CARD_SLOTS, Lane};
use core::sync::atomic::Ordering::Relaxed;
use std::cell::RefCell;
use std::rc::Rc;

/// Where the controller is.
const CONTROLLER: u64 = 0x1c05_0000;
/// Bits of a card's specific data that protect it: for ever, and until they are cleared (SD Physical Layer Simplified Specification, 5.3).
const PERMANENT: u128 = 1 << 13;
const TEMPORARY: u128 = 1 << 12;
/// Commands by which blocks are written, one and several.
const WRITES: [u32; 2] = [24, 25];

/// The specific data of a card of high capacity with so many units of 512 KiB.
fn data_of(units: u128, protected: u128) -> u128 {
    1 << 126 | (units - 1) << 48 | protected
}

fn words(data: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| (data >> shift) as u32)
}

/// A PL180 with a card, which moves any data at once (Arm DDI 0172, 3.2).
struct Controller {
    specifics: u128,
    status: u32,
    response: [u32; 4],
    sent: Vec<u32>,
}

impl Controller {
    fn command(&mut self, command: u32) {
        let index = command & 0x3f;
        self.sent.push(index);
        let first = match index {
            8 => 0x1aa,
            // Ready, and it counts in blocks.
            41 => 1 << 31 | 1 << 30,
            3 => 1 << 16,
            // It takes data, and is between commands.
            13 => 1 << 8 | 4 << 9,
            _ => 0,
        };
        self.response = match index {
            9 => words(self.specifics),
            _ => [first, 0, 0, 0],
        };
        // Sent without an answer, or answered.
        self.status |= if command & 1 << 6 == 0 {
            1 << 7
        } else {
            1 << 6
        };
    }
}

impl Registers for Controller {
    fn read(&mut self, offset: u64) -> u32 {
        // The FIFO has room and data, and all has been moved.
        const DATA: u32 = 1 << 8 | 1 << 14 | 1 << 15;
        match offset {
            0x14..0x24 => self.response[(offset as usize - 0x14) / 4],
            0x34 => self.status | DATA,
            0xfe0 => 0x80,
            0xfe4 => 0x11,
            _ => 0,
        }
    }

    fn write(&mut self, offset: u64, value: u32) {
        match offset {
            0x0c => self.command(value),
            0x38 => self.status &= !value,
            _ => {}
        }
    }
}

struct Setup {
    disk: CardDisk,
    client: Client,
    lane: &'static Lane,
    controller: Rc<RefCell<Controller>>,
}

impl Setup {
    fn new(specifics: u128) -> Self {
        renew();
        let controller = Controller {
            specifics,
            status: 0,
            response: [0; 4],
            sent: Vec::new(),
        };
        let controller = Rc::new(RefCell::new(controller));
        install(CONTROLLER..CONTROLLER + 0x1000, controller.clone());
        let lane = leaked(Lane::new());
        let client = Client::new(0, [&lane.ring], CARD_PLACES as u16);
        let found = CardDisk::controller(CONTROLLER).expect("it is a PL180");
        let disk = CardDisk::start(&client.wanted, found, lane);
        Self {
            disk: disk.expect("the card is ready"),
            client,
            lane,
            controller,
        }
    }

    /// The status of a request for a block that has so many bytes to read, and to write besides the status.
    fn request(&mut self, kind: u32, [readable, writable]: [u32; 2]) -> u8 {
        let (slots, _) = self.lane.slots.as_chunks::<CARD_SLOTS>();
        let slot = slots[0].as_flattened();
        let parts = [(16 + readable, 0), (writable + 1, 2_u64 << 32)];
        for ([at, rest], (bytes, flags)) in slot.as_chunks::<2>().0.iter().zip(parts) {
            at.store(1, Relaxed);
            rest.store(u64::from(bytes) | flags, Relaxed);
        }
        let data = &slot[2 * CARD_DESCRIPTORS..];
        data[0].store(kind.into(), Relaxed);
        data[1].store(0, Relaxed);
        let last = (16 + readable + writable) as usize;
        self.client.give(0, 0, 32);
        while !self.disk.work() {}
        assert_eq!(self.client.answers(0), [(0, writable + 1)]);
        (data[last / 8].load(Relaxed) >> (8 * (last % 8))) as u8
    }

    fn has_written(&self) -> bool {
        let sent = &self.controller.borrow().sent;
        sent.iter().any(|index| WRITES.contains(index))
    }
}

#[test]
fn a_card_says_its_size_and_whether_it_can_be_written() {
    for (protected, is_read_only) in [
        (0, false),
        (PERMANENT, true),
        (TEMPORARY, true),
        (PERMANENT | TEMPORARY, true),
    ] {
        let found = specifics(words(data_of(8, protected)));
        assert_eq!(found, Ok((8 << 10, is_read_only)));
        // Of standard capacity: 512 units of 4 blocks.
        let small = 511 << 62 | 9 << 80 | protected;
        assert_eq!(specifics(words(small)), Ok((512 * 4, is_read_only)));
    }
    // What is beside these bits protects nothing.
    let others = !(PERMANENT | TEMPORARY) & 0xffff;
    assert_eq!(specifics(words(data_of(8, others))), Ok((8 << 10, false)));
    assert!(
        specifics(words(2 << 126)).is_err(),
        "a version that is not known"
    );
}

#[test]
fn a_protected_card_is_a_disk_that_can_only_be_read() {
    for protected in [PERMANENT, TEMPORARY] {
        let mut setup = Setup::new(data_of(8, protected));
        assert_ne!(setup.client.offered() & READ_ONLY, 0);
        assert_eq!(
            said(),
            ["driver: an SD card for client, 4 MiB, only to be read"]
        );
        assert_eq!(setup.request(READ, [0, 512]), OK);
        // A client that writes nevertheless has an error, and the card is not asked.
        assert_eq!(setup.request(WRITE, [512, 0]), FAILED);
        assert!(!setup.has_written());
        assert_eq!(setup.request(FLUSH, [0, 0]), OK);
        assert_eq!(setup.request(READ, [0, 512]), OK);
    }
}

#[test]
fn a_card_that_is_not_protected_is_written() {
    let mut setup = Setup::new(data_of(8, 0));
    assert_eq!(setup.client.offered() & READ_ONLY, 0);
    assert_eq!(said(), ["driver: an SD card for client, 4 MiB"]);
    assert_eq!(setup.request(WRITE, [512, 0]), OK);
    assert!(setup.has_written());
}
