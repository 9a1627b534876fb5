//! Loads and stores that the syndrome does not describe. The words are what an assembler
//! makes of the instruction beside them.

use super::instructions_aarch32::finished;
use super::{READ, WRITE, by_word};
use crate::fake::Fixture;
use crate::{Action, DataAbort, Exit, GuestFault, Instruction};
use hanok_config::DeviceKind;
use hanok_types::{Ipa, PAGE_SIZE, Width, platform};
use std::vec::Vec;

const UART: u64 = platform::UART.get();
const UART_FIRST_ID: u64 = UART + 0xfe0;
const RTC: u64 = platform::RTC.get();
const VIRTIO: u64 = platform::VIRTIO.get();
const FLASH: u64 = platform::FLASH.get() + 0x1000;

fn sent(vm: &Fixture) -> Vec<u8> {
    vm.machine.line.borrow().sent.clone()
}

#[test]
fn post_index_store_moves_its_base() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[1] = UART;
    vm.regs[0].x[2] = 0x1_41;
    // strb w2, [x1], #4
    assert_eq!(
        finished(&mut vm, by_word(UART, true, 0x3800_4422)),
        Action::Next
    );
    assert_eq!(sent(&vm), b"A");
    assert_eq!(vm.regs[0].x[1], UART + 4);
}

#[test]
fn pre_index_load_moves_its_base() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[1] = VIRTIO + 8;
    // ldr w0, [x1, #-8]!
    assert_eq!(
        finished(&mut vm, by_word(VIRTIO, false, 0xb85f_8c20)),
        Action::Next
    );
    assert_eq!((vm.regs[0].x[0], vm.regs[0].x[1]), (0x7472_6976, VIRTIO));
}

#[test]
fn the_base_31_is_the_stack_pointer_in_use() {
    let mut vm = Fixture::new(1);
    vm.machine.stack_pointers.set([7, UART]);
    vm.regs[0].x[2] = b'B'.into();
    // strb w2, [sp], #1
    let exit = by_word(UART, true, 0x3800_17e2);
    assert_eq!(finished(&mut vm, exit), Action::Next);
    assert_eq!(vm.machine.stack_pointers.get(), [7, UART + 1]);
    // At EL1 with SP_EL0, and at EL0.
    for pstate in [0x3c4, 0] {
        vm.regs[0].pstate = pstate;
        vm.machine.stack_pointers.set([UART, 9]);
        assert_eq!(finished(&mut vm, exit), Action::Next);
        assert_eq!(vm.machine.stack_pointers.get(), [UART + 1, 9]);
    }
    assert_eq!(sent(&vm), b"BBB");
}

#[test]
fn a_pair_is_two_accesses() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[2] = VIRTIO;
    // ldp w0, w1, [x2]
    assert_eq!(
        finished(&mut vm, by_word(VIRTIO, false, 0x2940_0440)),
        Action::Next
    );
    assert_eq!((vm.regs[0].x[0], vm.regs[0].x[1]), (0x7472_6976, 2));
    // ldp x0, x1, [x2], #16
    assert_eq!(
        finished(&mut vm, by_word(VIRTIO, false, 0xa8c1_0440)),
        Action::Next
    );
    assert_eq!(vm.regs[0].x[0], 0x2_7472_6976);
    assert_eq!(vm.regs[0].x[1], 0x554d_4551 << 32);
    assert_eq!(vm.regs[0].x[2], VIRTIO + 16);
}

#[test]
fn a_pair_stores_the_lower_register_first() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[2] = RTC + 4;
    vm.regs[0].x[0] = 77;
    // stp w0, wzr, [x2]: the match and the load register of the clock.
    assert_eq!(
        finished(&mut vm, by_word(RTC + 4, true, 0x2900_7c40)),
        Action::Next
    );
    vm.regs[0].x[2] = RTC + 4;
    // ldp w3, w4, [x2]
    assert_eq!(
        finished(&mut vm, by_word(RTC + 4, false, 0x2940_1043)),
        Action::Next
    );
    assert_eq!((vm.regs[0].x[3], vm.regs[0].x[4]), (77, 0));
}

#[test]
fn a_signed_pair_extends() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[2] = FLASH;
    // ldpsw x0, x1, [x2]
    assert_eq!(
        finished(&mut vm, by_word(FLASH, false, 0x6940_0440)),
        Action::Next
    );
    assert_eq!((vm.regs[0].x[0], vm.regs[0].x[1]), (u64::MAX, u64::MAX));
    // ldrsh w0, [x2], #2
    assert_eq!(
        finished(&mut vm, by_word(FLASH, false, 0x78c0_2440)),
        Action::Next
    );
    assert_eq!(vm.regs[0].x[0], 0xffff_ffff);
}

#[test]
fn a_pair_over_the_page_s_end_is_nothing() {
    let mut vm = Fixture::new(1);
    // Both pages are flash; the address of the second one in stage 1 was not asked for.
    vm.regs[0].x[2] = FLASH - 8;
    // ldp x0, x1, [x2]
    assert_eq!(
        finished(&mut vm, by_word(FLASH - 8, false, 0xa940_0440)),
        READ
    );
}

#[test]
fn a_pair_over_the_page_s_end_is_loaded_where_the_pages_lie_one_behind_the_other() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[2] = FLASH - 8;
    // ldp x0, x1, [x2]
    let beyond = || super::reaching_further(by_word(FLASH - 8, false, 0xa940_0440));
    assert_eq!(finished(&mut vm, beyond()), Action::Next);
    assert_eq!(vm.regs[0].x[..2], [u64::MAX; 2]);
    // Behind the last page is nothing, wherever stage 1 leads.
    let end = platform::FLASH.get() + platform::FLASH_SIZE;
    vm.regs[0].x[2] = end - 8;
    let last = super::reaching_further(by_word(end - 8, false, 0xa940_0440));
    let gic = finished(&mut vm, last);
    assert_eq!(gic, Action::Next, "the distributor is behind it");
    let hole = platform::VIRTIO.get() + 0x4000;
    vm.regs[0].x[2] = hole - 8;
    let last = super::reaching_further(by_word(hole - 8, false, 0xa940_0440));
    assert_eq!(finished(&mut vm, last), READ);
}

#[test]
fn half_a_pair_in_a_hole_touches_nothing() {
    let mut vm = Fixture::new(1);
    let last = platform::VIRTIO.get() + 0x200 * 32 - 8;
    vm.regs[0].x[2] = last;
    // ldp x0, x1, [x2]: the second half would lie behind the last transport.
    let before = vm.regs[0];
    assert_eq!(finished(&mut vm, by_word(last, false, 0xa940_0440)), READ);
    assert_eq!(vm.regs[0], before);
}

#[test]
fn half_a_pair_across_devices_touches_neither() {
    let mut vm = Fixture::new(1);
    // stp x0, x1, [x2]: the second half lies in two transports.
    vm.regs[0].x[2] = VIRTIO + 0x1f4;
    assert_eq!(
        finished(&mut vm, by_word(VIRTIO + 0x1f4, true, 0xa900_0440)),
        WRITE
    );
    assert_eq!(super::ignored_writes(&vm, DeviceKind::EmptyTransports), 0);
}

#[test]
fn register_offset_unscaled_and_ordered_forms() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[1] = UART_FIRST_ID;
    vm.regs[0].x[2] = 2;
    let forms = [
        (0xb862_7820_u32, UART_FIRST_ID + 8), // ldr w0, [x1, x2, lsl #2]
        (0xb85f_c020, UART_FIRST_ID - 4),     // ldur w0, [x1, #-4]
        (0x88df_fc20, UART_FIRST_ID),         // ldar w0, [x1]
        (0xb840_4820, UART_FIRST_ID + 4),     // ldtr w0, [x1, #4]
    ];
    for (word, at) in forms {
        assert_eq!(
            finished(&mut vm, by_word(at, false, word)),
            Action::Next,
            "{word:#x}"
        );
    }
    // ldr w0, [x1, x2, lsl #2]: the third byte of the PrimeCell's part number.
    finished(&mut vm, by_word(UART_FIRST_ID + 8, false, 0xb862_7820));
    assert_eq!(vm.regs[0].x[0], 0x14);
    // stlrb w2, [x1]
    vm.regs[0].x[1] = UART;
    vm.regs[0].x[2] = b'L'.into();
    assert_eq!(
        finished(&mut vm, by_word(UART, true, 0x089f_fc22)),
        Action::Next
    );
    assert_eq!(sent(&vm), b"L");
}

#[test]
fn simd_registers_move_whole() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[1] = VIRTIO;
    // ldr q0, [x1]: no register there to fill, so it cannot be what trapped.
    assert_eq!(finished(&mut vm, by_word(VIRTIO, false, 0x3dc0_0020)), READ);

    *vm.machine.vectors.borrow_mut() = Some([u128::MAX; 32]);
    assert_eq!(
        finished(&mut vm, by_word(VIRTIO, false, 0x3dc0_0020)),
        Action::Next
    );
    // ldr b1, [x1]
    assert_eq!(
        finished(&mut vm, by_word(VIRTIO, false, 0x3d40_0021)),
        Action::Next
    );
    // ldp d2, d3, [x1]
    assert_eq!(
        finished(&mut vm, by_word(VIRTIO, false, 0x6d40_0c22)),
        Action::Next
    );
    let vectors = vm.machine.vectors.borrow().unwrap();
    let whole = 0x554d_4551_0000_0000_0000_0002_7472_6976;
    assert_eq!(vectors[0], whole);
    assert_eq!(vectors[1], 0x76);
    assert_eq!(vectors[2..4], [whole & u128::from(u64::MAX), whole >> 64]);

    // str b4, [x1]
    vm.machine.vectors.borrow_mut().as_mut().unwrap()[4] = u128::from(b'V') | 1 << 64;
    vm.regs[0].x[1] = UART;
    assert_eq!(
        finished(&mut vm, by_word(UART, true, 0x3d00_0024)),
        Action::Next
    );
    assert_eq!(sent(&vm), b"V");
}

#[test]
fn exclusives_and_atomics_are_not_for_devices() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[1] = UART;
    let before = vm.regs[0];
    // ldxr w0, [x1]; stxr w2, w0, [x1]; ldadd w0, w2, [x1]; cas w0, w2, [x1]
    for (word, write) in [
        (0x885f_7c20, false),
        (0x8802_7c20, true),
        (0xb820_0022, false),
        (0x88a0_7c22, true),
    ] {
        let fault = Action::Inject(GuestFault::UnsupportedAtomic { write });
        assert_eq!(
            finished(&mut vm, by_word(UART, write, word)),
            fault,
            "{word:#x}"
        );
    }
    // ld1 {v0.16b}, [x1]
    assert_eq!(finished(&mut vm, by_word(UART, false, 0x4c40_7020)), READ);
    assert_eq!(vm.regs[0], before);
}

#[test]
fn an_exclusive_to_where_nothing_is_is_answered_by_nothing() {
    let mut vm = Fixture::new(1);
    let hole = UART + platform::PRIMECELL_SIZE;
    vm.regs[0].x[1] = hole;
    // ldxr w0, [x1]; stxr w2, w0, [x1]; ldadd w0, w2, [x1]; cas w0, w2, [x1]
    for (word, write, fault) in [
        (0x885f_7c20, false, READ),
        (0x8802_7c20, true, WRITE),
        (0xb820_0022, false, READ),
        (0x88a0_7c22, true, WRITE),
    ] {
        assert_eq!(finished(&mut vm, by_word(hole, write, word)), fault);
    }
}

#[test]
fn a_pair_at_a_device_s_end_is_inside() {
    let mut vm = Fixture::new(1);
    for end in [UART + 0x1000, VIRTIO + 0x200, VIRTIO + 0x200 * 32] {
        vm.regs[0].x[2] = end - 16;
        // ldp x0, x1, [x2]
        let load = by_word(end - 16, false, 0xa940_0440);
        assert_eq!(finished(&mut vm, load), Action::Next, "{end:#x}");
    }
}

/// GICD_IROUTER32 to 35, which hold the number of a vCPU each: the lower and the upper half of either
/// register go to their own places, and come back from there.
#[test]
fn a_pair_of_q_registers_is_four_values() {
    const ROUTES: u64 = platform::GIC_DIST.get() + 0x6000 + 8 * 32;
    let mut vm = Fixture::new(4);
    vm.regs[0].x[1] = ROUTES;
    let pair = [1 | 3 << 64, 2 | 1 << 64];
    let mut vectors = [7; 32];
    vectors[..2].copy_from_slice(&pair);
    *vm.machine.vectors.borrow_mut() = Some(vectors);
    // stp q0, q1, [x1]
    let store = by_word(ROUTES, true, 0xad00_0420);
    assert_eq!(finished(&mut vm, store), Action::Next);
    for (n, vcpu) in [1, 3, 2, 1].into_iter().enumerate() {
        vm.handle(0, super::load(ROUTES + 8 * n as u64, Width::Double, 5));
        assert_eq!(vm.regs[0].x[5], vcpu, "IROUTER{}", 32 + n);
    }
    // ldp q2, q3, [x1]
    let load = by_word(ROUTES, false, 0xad40_0c22);
    assert_eq!(finished(&mut vm, load), Action::Next);
    let vectors = vm.machine.vectors.borrow().unwrap();
    assert_eq!(vectors[2..5], [pair[0], pair[1], 7]);
}

#[test]
fn cache_maintenance_is_done_at_once() {
    let mut vm = Fixture::new(1);
    // dc civac, x0; dc cvac, x0; dc ivac, x0; ic ivau, x0
    for word in [0xd50b_7e20, 0xd50b_7a20, 0xd508_7620, 0xd50b_7520] {
        assert_eq!(
            finished(&mut vm, by_word(0x2000_0000, true, word)),
            Action::Next
        );
    }
    // dc cvap, x0, which QEMU reports as a load.
    let cvap = by_word(0x2000_0000, false, 0xd50b_7c20);
    assert_eq!(vm.handle(0, cvap), Action::Next);
    // dc zva, x0 stores; at s1e1r, x0 is no cache's affair.
    for word in [0xd50b_7420, 0xd508_7800] {
        assert_eq!(finished(&mut vm, by_word(UART, true, word)), WRITE);
    }
}

#[test]
fn a_word_that_is_not_what_trapped_does_nothing() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[1] = UART;
    vm.regs[0].x[2] = b'X'.into();
    let before = vm.regs[0];
    // strb w2, [x1], #4, where the CPU says that a load trapped.
    assert_eq!(finished(&mut vm, by_word(UART, false, 0x3800_4422)), READ);
    // ldr w0, [x1, #-8]!, where it says a store.
    assert_eq!(finished(&mut vm, by_word(UART, true, 0xb85f_8c20)), WRITE);
    // strb w2, [x1], #4 at another place in the page.
    assert_eq!(
        finished(&mut vm, by_word(UART + 4, true, 0x3800_4422)),
        WRITE
    );
    // nop, and what no CPU knows.
    assert_eq!(finished(&mut vm, by_word(UART, true, 0xd503_201f)), WRITE);
    assert_eq!(finished(&mut vm, by_word(UART, false, 0)), READ);
    assert_eq!((vm.regs[0], sent(&vm).len()), (before, 0));
}

#[test]
fn an_instruction_that_could_not_be_read_is_an_external_abort() {
    let mut vm = Fixture::new(1);
    let ipa = Ipa::new(UART);
    let abort = DataAbort {
        ipa,
        write: true,
        walk: false,
        access: None,
        instruction: Instruction::Unknown,
        reach: PAGE_SIZE,
    };
    assert_eq!(vm.handle(0, Exit::Data(abort)), WRITE);
}
