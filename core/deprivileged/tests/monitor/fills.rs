//! Stores to pages that hold code: one of them is carried out, many in a row make the page plain memory.

use crate::board::{Board, RAM};
use crate::guest::{Guest, Outcomes};
use crate::lockstep::memory;
use crate::native::{Event, Native};
use crate::random::image::Code;

const CODE: u32 = RAM + 0x1000;
/// A page that is executed before stores go to it.
const PAGE: u32 = RAM + 0x3000;
/// BX LR.
const RETURN: u32 = 0xe12f_ff1e;

/// Calls the page, stores `count` words behind its code as far apart, and calls it again, both `rounds` times. Answers the
/// exceptions that a guest takes.
fn exceptions(count: u32, distance: u32, rounds: u32) -> u64 {
    let mut code = Code::new(CODE);
    for _ in 0..rounds {
        code.set(3, PAGE);
        code.a32(0xe12f_ff33); // BLX R3
        code.set(0, PAGE + 0x100);
        code.set(1, 0xe7fd_def0);
        code.set(2, count);
        code.a32(0xe480_1000 | distance); // STR R1, [R0], #distance
        code.a32(0xe252_2001); // SUBS R2, R2, #1
        code.a32(0x1aff_fffc); // BNE to the store
    }
    code.a32(0xe12f_ff33);
    let end = code.here();
    code.a32(0xeaff_fffe);
    let words = memory(&[(CODE, &code.words()), (PAGE, &[RETURN])]);
    let mut guest = Guest::<4, 16>::new(Board::new(words.clone(), false), 8, 255);
    guest.monitor.boot(CODE, [0; 3]);
    let mut native = Native::new(guest.monitor.cpu.clone(), guest.monitor.registers, words);
    while native.registers.pc != end {
        assert_eq!(native.step(), Event::Retired);
    }
    while guest.monitor.registers.pc != end {
        assert_eq!(guest.step(), Outcomes::Event(Event::Retired));
    }
    assert_eq!(guest.monitor.registers, native.registers);
    assert_eq!(guest.board.originals(), native.memory.words);
    guest.exceptions
}

#[test]
fn a_page_that_is_filled_is_given_up() {
    let [some, more, all] = [16, 24, 960].map(|count| exceptions(count, 4, 1));
    assert_eq!(more - some, 8, "each of a few stores is carried out");
    assert!(all - some < 80, "{} exceptions more for a page", all - some);
    // Far apart they may be anything.
    let [few, many] = [1, 40].map(|count| exceptions(count, 96, 1));
    assert_eq!(many - few, 39);
}

#[test]
fn a_page_may_be_filled_and_executed_again_and_again() {
    let [once, twice] = [1, 2].map(|rounds| exceptions(960, 4, rounds));
    assert!(twice - once < 160, "{} exceptions a round", twice - once);
}
