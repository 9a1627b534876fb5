//! A device of the board that the guest has for itself, its registers mapped.

use crate::board::{Board, RAM};
use crate::guest::Guest;
use crate::lockstep::memory;
use hanok_deprivileged::{Answer, Trap};
use hanok_types::Ipa;

const CODE: u32 = RAM + 0x1000;
/// Where the guest has the registers.
const DEVICE: u32 = 0x0c00_0000;
/// A page in the megabyte in which the window is at first.
const IN_WINDOW: u32 = 0xffb0_1000;
/// A translation fault of a page, of a load and of a store (DDI 0406C, B3.13.3).
const LOAD: u32 = 0b0_0111;
const STORE: u32 = LOAD | 1 << 11;

/// A guest without MMU that has the device, if `device` says where; its PC is at a load.
fn guest(device: Option<u32>) -> Guest<4, 16> {
    // LDR R1, [R0].
    let board = Board::new(memory(&[(CODE, &[0xe590_1000])]), false);
    board.device.set(device);
    let mut guest = Guest::new(board, 8, 255);
    guest.monitor.boot(CODE, [0; 3]);
    guest
}

fn abort(guest: &mut Guest<4, 16>, status: u32, address: u32) -> Answer {
    guest.serve_any(Trap::DataAbort { status, address })
}

#[test]
fn its_registers_are_there_and_nothing_beside_them() {
    let mut guest = guest(Some(DEVICE));
    for status in [LOAD, STORE] {
        assert_eq!(abort(&mut guest, status, DEVICE + 0x18), Answer::Resume);
    }
    for beside in [DEVICE - 4, DEVICE + 0x1000] {
        let answer = abort(&mut guest, LOAD, beside);
        let Answer::Device(device) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!((device.at, device.write), (Ipa::new(beside.into()), false));
    }
}

#[test]
fn another_guest_has_none() {
    let answer = abort(&mut guest(None), LOAD, DEVICE);
    assert!(matches!(answer, Answer::Device(_)), "{answer:?}");
}

#[test]
fn nothing_there_is_executed() {
    let mut guest = guest(Some(DEVICE));
    assert_eq!(abort(&mut guest, LOAD, DEVICE), Answer::Resume);
    guest.monitor.registers.pc = DEVICE;
    let fetch = Trap::PrefetchAbort {
        status: LOAD,
        address: DEVICE,
    };
    let answer = guest.serve_any(fetch);
    assert_eq!(answer, Answer::Fetch(Ipa::new(DEVICE.into())));
}

#[test]
fn the_window_makes_room_for_it() {
    let mut guest = guest(Some(IN_WINDOW));
    let before = guest.monitor.window().address();
    assert_eq!(before >> 20, IN_WINDOW >> 20);
    assert_eq!(abort(&mut guest, LOAD, IN_WINDOW), Answer::Resume);
    assert_ne!(guest.monitor.window().address(), before);
    assert_eq!(abort(&mut guest, LOAD, IN_WINDOW), Answer::Resume);
}

/// MCR p15, 0, R0, of TLBIALL, of TLBIMVAIS, and of TTBR1.
const INVALIDATE: u32 = 0xee08_0f17;
const INVALIDATE_FOR_ALL: u32 = 0xee08_0f33;
const TABLES: u32 = 0xee02_0f30;

/// The guest executes a word that User mode does not.
fn execute(guest: &mut Guest<4, 16>, word: u32) {
    guest.leave();
    guest.monitor.fetched = Some(word);
    assert_eq!(guest.serve_any(Trap::Undefined), Answer::Resume);
}

/// A guest without a device of its own has accessed one at [`DEVICE`].
fn has_accessed(guest: &mut Guest<4, 16>) {
    let answer = abort(guest, LOAD, DEVICE + 0x18);
    assert!(matches!(answer, Answer::Device(_)), "{answer:?}");
    for write in [false, true] {
        let at = guest.monitor.device_at(DEVICE + 4, write);
        assert_eq!(at, Some(Ipa::new(u64::from(DEVICE) + 4)));
    }
}

#[test]
fn where_a_device_is_is_known_until_a_tlb_has_to_forget_it() {
    for word in [INVALIDATE, INVALIDATE_FOR_ALL, TABLES] {
        let mut guest = guest(None);
        assert_eq!(guest.monitor.device_at(DEVICE, false), None);
        has_accessed(&mut guest);
        assert_eq!(guest.monitor.device_at(DEVICE + 0x1000, false), None);
        guest.monitor.registers.general[0] = 0x4000;
        execute(&mut guest, word);
        assert_eq!(guest.monitor.device_at(DEVICE, false), None, "{word:#x}");
    }
    let mut guest = guest(None);
    has_accessed(&mut guest);
    guest.monitor.boot(CODE, [0; 3]);
    assert_eq!(guest.monitor.device_at(DEVICE, false), None);
}

#[test]
fn a_sibling_makes_it_be_forgotten() {
    let board = Board::new(memory(&[(CODE, &[0xe590_1000])]), false);
    let mut vcpus = Guest::<4, 16>::several(board, 8, 255, 2);
    for vcpu in &mut vcpus {
        vcpu.monitor.boot(CODE, [0; 3]);
    }
    let [one, other] = &mut vcpus[..] else {
        panic!("two vCPUs")
    };
    has_accessed(other);
    one.monitor.registers.general[0] = DEVICE;
    execute(one, INVALIDATE_FOR_ALL);
    // Before it goes on in its guest.
    let _answer = abort(other, STORE, DEVICE + 0x1000);
    assert_eq!(other.monitor.device_at(DEVICE, false), None);
}

#[test]
fn the_word_that_the_backend_has_fetched_is_the_device_s() {
    let mut guest = guest(None);
    guest.leave();
    guest.monitor.fetched = Some(0xe5d0_2000);
    let Answer::Device(device) = abort(&mut guest, LOAD, DEVICE) else {
        panic!("a device")
    };
    assert_eq!(device.instruction, 0xe5d0_2000);
    // It is of one exception.
    let Answer::Device(device) = abort(&mut guest, LOAD, DEVICE) else {
        panic!("a device")
    };
    assert_eq!(device.instruction, 0xe590_1000);
}
