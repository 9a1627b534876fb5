//! A loop that invalidates pages is carried out some pages at a time, and means the same.

use crate::board::{Board, RAM};
use crate::guest::{Guest, Outcomes};
use crate::native::{Event, Native};
use crate::pages::{ALIAS, LEAVES, leaf, mmu_on, with_pages};
use crate::random::image::Code;

const CODE: u32 = RAM + 0x1000;
/// More than are invalidated one by one.
const PAGES: u32 = 64;

/// Reads all pages, turns their order round, invalidates `from` to `to` of them by this operation, and reads all again, which
/// leaves in R5 what tells their order. Answers the code and where it ends.
fn program(operation: u32, from: u32, to: u32) -> (Code, u32) {
    let mut code = Code::new(CODE);
    mmu_on(&mut code);
    for round in 0..2 {
        code.set(5, 0);
        for number in 0..PAGES {
            code.set(2, ALIAS + 0x1000 * number);
            code.a32(0xe592_4000); // LDR R4, [R2]
            code.a32(0xe085_5085); // ADD R5, R5, R5, LSL #1
            code.a32(0xe085_5004); // ADD R5, R5, R4
        }
        if round == 1 {
            break;
        }
        for number in from..to {
            code.set(0, LEAVES + 4 * number);
            code.set(1, leaf(PAGES - 1 - number));
            code.a32(0xe580_1000); // STR R1, [R0]
        }
        code.set(0, ALIAS + 0x1000 * from);
        code.set(1, ALIAS + 0x1000 * to);
        code.a32(operation);
        code.a32(0xe280_0a01); // ADD R0, R0, #4096
        code.a32(0xe150_0001); // CMP R0, R1
        code.a32(0x3aff_fffb); // BLO
    }
    let end = code.here();
    code.a32(0xeaff_fffe);
    (code, end)
}

/// The exceptions that a guest takes for it.
fn exceptions(operation: u32, from: u32, to: u32) -> u64 {
    let (code, end) = program(operation, from, to);
    let words = with_pages(PAGES, &[(CODE, &code.words())]);
    let mut guest = Guest::<4, 16>::new(Board::new(words.clone(), false), 8, 255);
    guest.monitor.boot(CODE, [0; 3]);
    let mut native = Native::new(guest.monitor.cpu.clone(), guest.monitor.registers, words);
    while native.registers.pc != end {
        assert_eq!(native.step(), Event::Retired);
    }
    for _ in 0..20_000 {
        if guest.monitor.registers.pc == end {
            break;
        }
        assert_eq!(guest.step(), Outcomes::Event(Event::Retired));
    }
    assert_eq!(guest.monitor.registers, native.registers);
    assert_eq!(guest.board.originals(), native.memory.words);
    guest.exceptions
}

#[test]
fn pages_are_invalidated_some_at_a_time() {
    // TLBIMVA, TLBIMVAA, and their inner shareable forms.
    for operation in [0xee08_0f37, 0xee08_0f77, 0xee08_0f33, 0xee08_0f73] {
        for (from, to) in [
            (0, 1),
            (0, 2),
            (3, 12),
            (0, 10),
            (0, 40),
            (7, 39),
            (0, PAGES),
            (3, 61),
        ] {
            exceptions(operation, from, to);
        }
        let few = exceptions(operation, 0, PAGES) - exceptions(operation, 0, 1);
        assert!(few < 40, "{few} exceptions more for {PAGES} pages");
    }
}
