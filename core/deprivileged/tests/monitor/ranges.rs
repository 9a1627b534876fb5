//! A loop that invalidates pages is carried out some pages at a time, and means the same, for siblings, too.

use crate::board::{Board, RAM};
use crate::guest::{Guest, Outcomes};
use crate::native::{Event, Native};
use crate::pages::{ALIAS, LEAVES, leaf, mmu_on, with_pages};
use crate::random::image::Code;
use hanok_deprivileged::Host;
use hanok_types::Ipa;

const CODE: u32 = RAM + 0x1000;
/// More than are invalidated one by one.
const PAGES: u32 = 64;

/// Reads all pages, turns their order round, invalidates `from` to `to` of them by this operation some `times`, and reads all
/// again, which leaves in R5 what tells their order. Answers the code and where it ends.
fn program(operation: u32, from: u32, to: u32, times: u32) -> (Code, u32) {
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
        code.set(6, times);
        let again = code.here();
        code.set(0, ALIAS + 0x1000 * from);
        code.set(1, ALIAS + 0x1000 * to);
        code.a32(operation);
        code.a32(0xe280_0a01); // ADD R0, R0, #4096
        code.a32(0xe150_0001); // CMP R0, R1
        code.a32(0x3aff_fffb); // BLO
        code.a32(0xe256_6001); // SUBS R6, R6, #1
        let distance = (again.wrapping_sub(code.here() + 8) / 4) & 0xff_ffff;
        code.a32(0x1a00_0000 | distance); // BNE
    }
    let end = code.here();
    code.a32(0xeaff_fffe);
    (code, end)
}

/// The exceptions that a guest takes for it.
fn exceptions(operation: u32, from: u32, to: u32, times: u32) -> u64 {
    let (code, end) = program(operation, from, to, times);
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
            exceptions(operation, from, to, 1);
        }
        let few = exceptions(operation, 0, PAGES, 1) - exceptions(operation, 0, 1, 1);
        assert!(few < 40, "{few} exceptions more for {PAGES} pages");
        // The operation itself, and the fetch behind it.
        let again = exceptions(operation, 0, PAGES, 3) - exceptions(operation, 0, PAGES, 2);
        assert!(again <= 2, "{again} exceptions for the loop as it is known");
    }
}

/// B from `at` to `to`.
fn branch(at: u32, to: u32) -> u32 {
    0xea00_0000 | (to.wrapping_sub(at + 8) / 4) & 0xff_ffff
}

/// Lets a vCPU run until it is at this address.
fn run_to(guests: &mut [Guest<4, 16>], number: usize, pc: u32) {
    let guest = &mut guests[number];
    for _ in 0..20_000 {
        if guest.board.kicked.borrow_mut().remove(&number) {
            guest.leave();
        }
        assert_eq!(guest.step(), Outcomes::Event(Event::Retired));
        if guest.monitor.registers.pc == pc {
            return;
        }
    }
    panic!("vCPU {number} does not come to {pc:#x}");
}

/// All pages that a loop invalidates are a sibling's, too, be they some or many, and each time that the loop is run.
#[test]
fn a_loop_invalidates_for_siblings() {
    const READER: u32 = RAM + 0x2000;
    let mut reader = Code::new(READER);
    mmu_on(&mut reader);
    let begin = reader.here();
    reader.set(5, 0);
    for number in 0..PAGES {
        reader.set(2, ALIAS + 0x1000 * number);
        reader.a32(0xe592_4000); // LDR R4, [R2]
        reader.a32(0xe085_5085); // ADD R5, R5, R5, LSL #1
        reader.a32(0xe085_5004); // ADD R5, R5, R4
    }
    let read = reader.here();
    reader.a32(branch(read, begin));
    for count in [1, 2, 5, 12, PAGES] {
        let mut code = Code::new(CODE);
        mmu_on(&mut code);
        let again = code.here();
        code.set(0, ALIAS);
        code.set(1, ALIAS + 0x1000 * count);
        for word in [0xee08_0f73, 0xe280_0a01, 0xe150_0001, 0x3aff_fffb] {
            code.a32(word); // TLBIMVAAIS; ADD R0, R0, #4096; CMP R0, R1; BLO
        }
        let invalidated = code.here();
        code.a32(branch(invalidated, again));
        let parts: [(u32, &[u32]); 2] = [(CODE, &code.words()), (READER, &reader.words())];
        let board = Board::new(with_pages(PAGES, &parts), false);
        let mut guests = Guest::<4, 16>::several(board, 8, 255, 2);
        for (guest, entry) in guests.iter_mut().zip([CODE, READER]) {
            guest.monitor.boot(entry, [0; 3]);
        }
        run_to(&mut guests, 1, read);
        for turned in [true, false, true] {
            let page = |number| if turned { PAGES - 1 - number } else { number };
            for number in 0..count {
                let at = Ipa::new(u64::from(LEAVES + 4 * number));
                let set = guests[0].board.set_word(at, leaf(page(number)));
                set.expect("memory");
            }
            run_to(&mut guests, 0, invalidated);
            run_to(&mut guests, 1, read);
            let pages = (0..count).map(page).chain(count..PAGES);
            let expected = pages.fold(0u32, |sum, page| sum.wrapping_mul(3).wrapping_add(page));
            let found = guests[1].monitor.registers.general[5];
            assert_eq!(found, expected, "{count} pages");
        }
    }
}
