//! Loads and stores of AArch32 code that the syndrome does not describe. The words are what an
//! assembler makes of the instruction beside them.

use super::{READ, WRITE, access, by_word, data};
use crate::fake::Fixture;
use crate::{Action, Exit, GuestFault, MmioAccess};
use hanok_config::DeviceKind;
use hanok_decode::aarch32::ItState;
use hanok_decode::{Psr, banked_register, mode};
use hanok_instructions::{decode_a32, decode_t32};
use hanok_types::{Width, platform};
use proptest::prelude::*;
use std::format;
use std::vec::Vec;

pub(super) const UART: u64 = platform::UART.get();
const RTC: u64 = platform::RTC.get();
pub(super) const VIRTIO: u64 = platform::VIRTIO.get();
const FLASH: u64 = platform::FLASH.get() + 0x1000;
pub(super) const PC: u64 = 0x4010_0000;
/// What a transport says first: "virt", version 2, device 0, "QEMU".
const TRANSPORT: [u64; 4] = [0x7472_6976, 2, 0, 0x554d_4551];

/// Supervisor mode, whose SP and LR are X19 and X18.
pub(super) fn a32() -> Fixture {
    let mut vm = Fixture::new(1);
    vm.regs[0].pstate = Psr::new().with_mode(mode::SUPERVISOR).into_bits().into();
    vm.regs[0].pc = PC;
    vm
}

fn t32() -> Fixture {
    let mut vm = a32();
    vm.regs[0].pstate |= 1 << 5;
    vm
}

pub(super) fn sent(vm: &Fixture) -> Vec<u8> {
    vm.machine.line.borrow().sent.clone()
}

/// Executes the instruction until it is done, as a guest does that is resumed where it stands.
pub(super) fn finished(vm: &mut Fixture, exit: Exit) -> Action {
    let pc = vm.regs[0].pc;
    for _ in 0..33 {
        let action = vm.handle(0, exit);
        if action != Action::Resume || vm.regs[0].pc != pc {
            return action;
        }
    }
    panic!("it never ends");
}

/// The instruction is done, and was as long.
fn done(vm: &mut Fixture, ipa: u64, write: bool, word: u32, bytes: u64) {
    let pc = vm.regs[0].pc;
    let action = finished(vm, by_word(ipa, write, word));
    assert_eq!(action, Action::Resume, "{word:#x}");
    assert_eq!(vm.regs[0].pc, pc + bytes, "{word:#x}");
}

#[test]
fn a_base_is_written_back() {
    let mut vm = a32();
    (vm.regs[0].x[1], vm.regs[0].x[2]) = (UART, 0x141);
    // strb r2, [r1], #4
    done(&mut vm, UART, true, 0xe4c1_2004, 4);
    assert_eq!(
        (sent(&vm).as_slice(), vm.regs[0].x[1]),
        (&b"A"[..], UART + 4)
    );
    // ldr r0, [r1, r3, lsl #2]!
    (vm.regs[0].x[1], vm.regs[0].x[3]) = (VIRTIO, 3);
    done(&mut vm, VIRTIO + 12, false, 0xe7b1_0103, 4);
    assert_eq!(
        (vm.regs[0].x[0], vm.regs[0].x[1]),
        (TRANSPORT[3], VIRTIO + 12)
    );
    // ldrsh r0, [r1], -r3
    vm.regs[0].x[1] = FLASH;
    done(&mut vm, FLASH, false, 0xe011_00f3, 4);
    assert_eq!((vm.regs[0].x[0], vm.regs[0].x[1]), (0xffff_ffff, FLASH - 3));
}

#[test]
fn t32_has_two_lengths() {
    let mut vm = t32();
    (vm.regs[0].x[1], vm.regs[0].x[2]) = (UART, b'T'.into());
    // strb r2, [r1], #1 and what follows ldmia r1!, {r2, r3}.
    done(&mut vm, UART, true, 0xf801_2b01, 4);
    vm.regs[0].x[1] = VIRTIO;
    done(&mut vm, VIRTIO, false, 0xc90c_ffff, 2);
    let [first, second, ..] = TRANSPORT;
    assert_eq!(vm.regs[0].x[1..4], [VIRTIO + 8, first, second]);
    // ldmia r1, {r1, r2}: a base that is loaded stays so.
    vm.regs[0].x[1] = VIRTIO;
    done(&mut vm, VIRTIO, false, 0xc906_ffff, 2);
    assert_eq!(vm.regs[0].x[1..3], [first, second]);
    assert_eq!(sent(&vm), b"T");
}

#[test]
fn an_it_block_goes_on_and_decides() {
    let mut vm = t32();
    // ITTE EQ, of which this is the first; Z is set.
    let it = |bits: u8, z| {
        let psr = Psr::from_bits(0x33).with_z(z);
        u64::from(
            psr.with_it_high(bits >> 2)
                .with_it_low(bits & 3)
                .into_bits(),
        )
    };
    vm.regs[0].pstate = it(0x06, true);
    vm.regs[0].x[1] = VIRTIO;
    // ldmia r1!, {r2, r3}
    done(&mut vm, VIRTIO, false, 0xc90c_0000, 2);
    assert_eq!(vm.regs[0].pstate, it(0x0c, true));
    // It cannot have been what trapped where its condition fails.
    vm.regs[0].pstate = it(0x06, false);
    let before = vm.regs[0];
    assert_eq!(vm.handle(0, by_word(VIRTIO, false, 0xc90c_0000)), READ);
    assert_eq!(vm.regs[0], before);
    let mut vm = a32();
    vm.regs[0].x[1] = VIRTIO;
    // ldrdeq r2, r3, [r1]
    assert_eq!(vm.handle(0, by_word(VIRTIO, false, 0x01c1_20d0)), READ);
}

#[test]
fn two_registers_and_more() {
    let mut vm = a32();
    vm.regs[0].x[1] = VIRTIO;
    // ldrd r2, r3, [r1], #8
    done(&mut vm, VIRTIO, false, 0xe0c1_20d8, 4);
    assert_eq!(vm.regs[0].x[2..4], TRANSPORT[..2]);
    // ldmdb r1, {r4, r5}
    done(&mut vm, VIRTIO, false, 0xe911_0030, 4);
    assert_eq!(vm.regs[0].x[4..6], TRANSPORT[..2]);
    // ldmib r1!, {r6}: from the fourth word.
    done(&mut vm, VIRTIO + 12, false, 0xe9b1_0040, 4);
    assert_eq!(
        (vm.regs[0].x[6], vm.regs[0].x[1]),
        (TRANSPORT[3], VIRTIO + 12)
    );
    // stm r1, {r2, r3}: the clock's match and load registers.
    (vm.regs[0].x[1], vm.regs[0].x[2], vm.regs[0].x[3]) = (RTC + 4, 77, 1000);
    done(&mut vm, RTC + 4, true, 0xe881_000c, 4);
    // ldm r1, {r4, r5}
    done(&mut vm, RTC + 4, false, 0xe891_0030, 4);
    assert_eq!(vm.regs[0].x[4..6], [77, 1000]);
}

#[test]
fn the_cpu_may_report_any_word_of_several() {
    let mut vm = a32();
    vm.regs[0].x[1] = VIRTIO;
    // ldmia r1, {r2, r3, r4, r5}
    for at in [0, 4, 12] {
        vm.regs[0].x[2..6].fill(0);
        done(&mut vm, VIRTIO + at, false, 0xe891_003c, 4);
        assert_eq!(vm.regs[0].x[2..6], TRANSPORT);
    }
    let before = vm.regs[0];
    assert_eq!(vm.handle(0, by_word(VIRTIO + 16, false, 0xe891_003c)), READ);
    assert_eq!(vm.regs[0], before);
}

#[test]
fn registers_are_those_of_the_mode() {
    let mut vm = a32();
    vm.regs[0].x[19] = VIRTIO + 8;
    // pop {r2, lr}
    vm.regs[0].x[19] = VIRTIO;
    done(&mut vm, VIRTIO, false, 0xe8bd_4004, 4);
    assert_eq!((vm.regs[0].x[2], vm.regs[0].x[18]), (TRANSPORT[0], 2));
    assert_eq!((vm.regs[0].x[19], vm.regs[0].x[14]), (VIRTIO + 8, 0));
    // ldm r1, {r13, r14}^: User mode's.
    vm.regs[0].x[1] = VIRTIO;
    done(&mut vm, VIRTIO, false, 0xe8d1_6000, 4);
    assert_eq!(vm.regs[0].x[13..15], TRANSPORT[..2]);
    // FIQ mode has R8 to R12, too: ldm r8!, {r9}.
    vm.regs[0].pstate = Psr::new().with_mode(mode::FIQ).into_bits().into();
    vm.regs[0].x[24] = VIRTIO;
    done(&mut vm, VIRTIO, false, 0xe8b8_0200, 4);
    assert_eq!(vm.regs[0].x[24..26], [VIRTIO + 4, TRANSPORT[0]]);
}

#[test]
fn the_pc_is_stored_ahead_and_loaded_as_a_branch() {
    let mut vm = a32();
    vm.regs[0].x[1] = RTC + 8;
    // str pc, [r1]: the clock's load register.
    done(&mut vm, RTC + 8, true, 0xe581_f000, 4);
    // ldr r2, [r1]!
    done(&mut vm, RTC + 8, false, 0xe5b1_2000, 4);
    assert_eq!(vm.regs[0].x[2], PC + 8);
    // ldr pc, [r1, #-8]!: "virt", which is even.
    (vm.regs[0].pc, vm.regs[0].x[1]) = (PC, VIRTIO + 8);
    let exit = by_word(VIRTIO, false, 0xe531_f008);
    assert_eq!(finished(&mut vm, exit), Action::Resume);
    assert_eq!((vm.regs[0].pc, vm.regs[0].x[1]), (0x7472_6974, VIRTIO));
    assert_eq!(vm.regs[0].pstate & 1 << 5, 0);
    // ldmia r1, {r0, pc} of what is odd: into T32.
    (vm.regs[0].pc, vm.regs[0].x[1]) = (PC, VIRTIO + 8);
    let exit = by_word(VIRTIO + 8, false, 0xe891_8001);
    assert_eq!(finished(&mut vm, exit), Action::Resume);
    assert_eq!(vm.regs[0].pc, 0x554d_4550);
    assert_ne!(vm.regs[0].pstate & 1 << 5, 0);
    // ldrb pc is nothing.
    vm.regs[0].pstate &= !(1 << 5);
    vm.regs[0].x[1] = VIRTIO;
    assert_eq!(vm.handle(0, by_word(VIRTIO, false, 0xe4d1_f001)), READ);
}

#[test]
fn a_literal_is_found_from_the_pc() {
    let mut vm = t32();
    vm.regs[0].pc = VIRTIO + 2;
    // ldr r2, [pc, #4]
    done(&mut vm, VIRTIO + 8, false, 0x4a01_0000, 2);
    assert_eq!(vm.regs[0].x[2], 0);
    // ldr.w r2, [pc, #-8]
    vm.regs[0].pc = VIRTIO + 6;
    done(&mut vm, VIRTIO, false, 0xf85f_2008, 4);
    assert_eq!(vm.regs[0].x[2], TRANSPORT[0]);
}

#[test]
fn vfp_registers_are_parts_of_vectors() {
    let mut vm = a32();
    vm.regs[0].x[1] = VIRTIO;
    // vldmia r1!, {d2, d3}: no register there to fill, so it cannot be what trapped.
    assert_eq!(vm.handle(0, by_word(VIRTIO, false, 0xecb1_2b04)), READ);
    *vm.machine.vectors.borrow_mut() = Some([u128::MAX; 32]);
    done(&mut vm, VIRTIO, false, 0xecb1_2b04, 4);
    let vector = |vm: &Fixture, n: usize| vm.machine.vectors.borrow().unwrap()[n];
    let whole = 0x554d_4551_0000_0000_0000_0002_7472_6976;
    assert_eq!((vector(&vm, 1), vm.regs[0].x[1]), (whole, VIRTIO + 16));
    // vldr s3, [r1, #-16]: a quarter of Q0.
    done(&mut vm, VIRTIO, false, 0xed51_1a04, 4);
    let top = u128::from(TRANSPORT[0]) << 96 | u128::MAX >> 32;
    assert_eq!(vector(&vm, 0), top);
    // vstr d16, [r2]; its lower word to the clock's match register.
    vm.machine.vectors.borrow_mut().as_mut().unwrap()[8] = 0x55_0000_0044;
    vm.regs[0].x[2] = RTC + 4;
    done(&mut vm, RTC + 4, true, 0xedc2_0b00, 4);
    // ldrd r4, r5, [r2]
    done(&mut vm, RTC + 4, false, 0xe1c2_40d0, 4);
    assert_eq!(vm.regs[0].x[4..6], [0x44, 0x55]);
}

#[test]
fn big_endian_data_is_turned_round() {
    let mut vm = a32();
    vm.regs[0].pstate |= 1 << 9;
    vm.regs[0].x[1] = VIRTIO;
    // ldr r2, [r1], #0: as the syndrome's own way has it.
    done(&mut vm, VIRTIO, false, 0xe491_2000, 4);
    assert_eq!(vm.regs[0].x[2], 0x7669_7274);
    let load = data(VIRTIO, false, Some(access(Width::Word, 3)), None);
    assert_eq!(vm.handle(0, load), Action::Next);
    assert_eq!(vm.regs[0].x[3], 0x7669_7274);
    // vldr d0, [r1]: its upper half lies lower.
    *vm.machine.vectors.borrow_mut() = Some([0; 32]);
    done(&mut vm, VIRTIO, false, 0xed91_0b00, 4);
    let found = vm.machine.vectors.borrow().unwrap()[0];
    assert_eq!(found, 0x7669_7274_0200_0000);
    // strh r2, [r1], #2, to a port that takes the lowest byte.
    (vm.regs[0].x[1], vm.regs[0].x[2]) = (UART, 0x4243);
    done(&mut vm, UART, true, 0xe0c1_20b2, 4);
    let store = data(UART, true, Some(access(Width::Half, 2)), None);
    assert_eq!(vm.handle(0, store), Action::Next);
    assert_eq!(sent(&vm), b"BB");
}

#[test]
fn what_is_not_for_devices() {
    let mut vm = a32();
    vm.regs[0].x[1] = UART;
    let before = vm.regs[0];
    // ldrex r2, [r1]; strexd r2, r4, r5, [r1]; swp r2, r3, [r1]
    for (word, write) in [
        (0xe191_2f9f, false),
        (0xe1a1_2f94, true),
        (0xe101_2093, true),
    ] {
        let fault = Action::Inject(GuestFault::UnsupportedAtomic { write });
        assert_eq!(vm.handle(0, by_word(UART, write, word)), fault, "{word:#x}");
        // Where nothing is, nothing answers.
        let hole = if write { WRITE } else { READ };
        assert_eq!(vm.handle(0, by_word(0x0b00_0000, write, word)), hole);
    }
    // vld1.8 {d0}, [r1]; rfeia r1; ldm r1, {r0, pc}^; pld [r1]
    for word in [0xf421_070f, 0xf891_0a00, 0xe8d1_8001, 0xf5d1_f000] {
        assert_eq!(vm.handle(0, by_word(UART, false, word)), READ, "{word:#x}");
    }
    // srsdb sp!, #19
    assert_eq!(vm.handle(0, by_word(UART, true, 0xf96d_0513)), WRITE);
    assert_eq!((vm.regs[0], sent(&vm).len()), (before, 0));
}

#[test]
fn what_lies_in_a_hole_or_beyond_touches_nothing() {
    let mut vm = a32();
    let last = VIRTIO + 0x200 * 32 - 8;
    vm.regs[0].x[2..6].fill(7);
    vm.regs[0].x[1] = last;
    let before = vm.regs[0];
    // ldm r1, {r2, r3, r4, r5}: beyond the last transport, and over the page's end.
    assert_eq!(vm.handle(0, by_word(last, false, 0xe891_003c)), READ);
    // stm r1, {r2, r3}, each across two transports.
    vm.regs[0].x[1] = VIRTIO + 0x1fa;
    let at = VIRTIO + 0x1fa;
    assert_eq!(vm.handle(0, by_word(at, true, 0xe881_000c)), WRITE);
    assert_eq!(super::ignored_writes(&vm, DeviceKind::EmptyTransports), 0);
    vm.regs[0].x[1] = last;
    assert_eq!(vm.regs[0], before);
}

#[test]
fn cache_maintenance_is_done_at_once() {
    // mcr p15, 0, r0, c7, c5, 1 and its kind; after it T32's.
    let mut vm = a32();
    for crm in [5u32, 6, 10, 11, 14] {
        done(&mut vm, 0x2000_0000, true, 0xee07_0f30 | crm, 4);
    }
    let mut vm = t32();
    done(&mut vm, 0x2000_0000, true, 0xee07_0f3e, 4);
    // mrc instead of mcr; by set and way; another coprocessor.
    for word in [0xee17_0f3eu32, 0xee07_0f5e, 0xee07_0e3e] {
        assert_eq!(vm.handle(0, by_word(UART, true, word)), WRITE);
    }
}

#[test]
fn a_word_that_is_not_what_trapped_does_nothing() {
    let mut vm = a32();
    (vm.regs[0].x[1], vm.regs[0].x[2]) = (UART, b'X'.into());
    let before = vm.regs[0];
    // strb r2, [r1], #4, where the CPU says that a load trapped; ldr for a store.
    assert_eq!(vm.handle(0, by_word(UART, false, 0xe4c1_2004)), READ);
    assert_eq!(vm.handle(0, by_word(UART, true, 0xe491_2004)), WRITE);
    // At another place in the page; nop; undefined; what A64 calls strb w2, [x1], #4.
    assert_eq!(vm.handle(0, by_word(UART + 4, true, 0xe4c1_2004)), WRITE);
    for word in [0xe320_f000, 0xe7f0_00f0, 0x3800_4422] {
        assert_eq!(vm.handle(0, by_word(UART, true, word)), WRITE, "{word:#x}");
    }
    assert_eq!((vm.regs[0], sent(&vm).len()), (before, 0));
}

/// Registers that the other decoder, which follows code, says are written: those of the mode, and
/// of User mode, whose some LDM load.
fn may_change(word: u32, psr: Psr) -> u32 {
    let it = ItState::from_bits(psr.it());
    let writes = if psr.thumb() {
        decode_t32((word >> 16) as u16, word as u16, it)
            .effects
            .writes
    } else {
        decode_a32(word).effects.writes
    };
    let places = writes.iter().flat_map(|register| {
        [psr.mode(), mode::USER].map(|mode| banked_register(register.number(), mode))
    });
    places.fold(0, |set, place| set | 1 << place)
}

/// A load or store that both ways can describe.
#[derive(Clone, Copy, Debug)]
struct Both {
    load: bool,
    width: Width,
    signed: bool,
    register: u8,
    offset: u16,
    thumb: bool,
}

impl Both {
    fn access(&self, mode: u8) -> MmioAccess {
        MmioAccess {
            width: self.width,
            register: banked_register(self.register, mode),
            sign_extend: self.signed,
            wide: false,
        }
    }

    /// With R0 as base, in one of the two instruction sets.
    fn word(&self) -> u32 {
        let (load, rt) = (u32::from(self.load) << 20, u32::from(self.register) << 12);
        let (size, offset) = (self.width as u32, u32::from(self.offset));
        if self.thumb {
            // Immediate of twelve bits.
            let signed = u32::from(self.signed) << 24;
            return 0xf880_0000 | signed | size << 21 | load | rt | offset;
        }
        match (self.width, self.signed) {
            (Width::Byte, false) => 0xe5c0_0000 | load | rt | offset,
            (Width::Word, _) => 0xe580_0000 | load | rt | offset,
            (width, signed) => {
                let kind = u32::from(signed) << 1 | u32::from(width == Width::Half);
                0xe1c0_0090 | load | rt | kind << 5 | offset >> 4 << 8 | offset & 0xf
            }
        }
    }
}

fn both() -> impl Strategy<Value = Both> {
    let kind = (any::<bool>(), 0..3u8, any::<bool>());
    let place = (1..15u8, 0..256u16, any::<bool>());
    (kind, place).prop_map(|((load, log2, signed), (register, offset, thumb))| Both {
        load,
        width: Width::from_log2(log2),
        signed: signed && load && log2 < 2,
        register,
        offset,
        thumb,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn the_instruction_and_the_syndrome_say_the_same(
        what in prop::collection::vec(both(), 1..8),
        page in prop::sample::select([UART, RTC, VIRTIO, FLASH, 0x0800_0000, 0x0801_0000, 0x0b00_0000].to_vec()),
        offset in 0..0xf00u64, x in any::<[u32; 31]>(),
        mode in prop::sample::select([mode::USER, mode::FIQ, mode::SUPERVISOR, mode::ABORT].to_vec()),
        big_endian in any::<bool>(),
    ) {
        let mut vms = [a32(), a32()];
        for both in what {
            let psr = Psr::new().with_mode(mode).with_big_endian(big_endian).with_thumb(both.thumb);
            let base = (page + offset) & !(both.width.bytes() - 1);
            for vm in &mut vms {
                let regs = &mut vm.regs[0];
                regs.x = x.map(u64::from);
                regs.x[0] = base;
                regs.pstate = psr.into_bits().into();
            }
            let ipa = base + u64::from(both.offset);
            prop_assume!(ipa % 4096 + 4 <= 4096);
            let [by_syndrome, by_instruction] = &mut vms;
            let exit = data(ipa, !both.load, Some(both.access(mode)), None);
            let first = by_syndrome.handle(0, exit);
            let second = finished(by_instruction, by_word(ipa, !both.load, both.word()));
            match first {
                // The one way leaves it to the backend to move on, the other has.
                Action::Next => {
                    by_syndrome.regs[0].advance(4);
                    prop_assert_eq!(second, Action::Resume);
                }
                other => prop_assert_eq!(second, other),
            }
            prop_assert_eq!(by_syndrome.regs[0], by_instruction.regs[0]);
            prop_assert_eq!(sent(by_syndrome), sent(by_instruction));
            prop_assert_eq!(format!("{:?}", by_syndrome.vm), format!("{:?}", by_instruction.vm));
        }
    }

    /// No register but those that the instruction names, and nothing outside of the device's page.
    #[test]
    fn any_instruction_has_an_answer(
        word in any::<u32>(), x in any::<[u32; 31]>(), psr in any::<u32>(), write in any::<bool>(),
        at in prop::sample::select([UART, RTC, VIRTIO, FLASH, 0x0800_0000].to_vec()), offset in 0..0x1000u64,
    ) {
        let mut vm = a32();
        *vm.machine.vectors.borrow_mut() = Some([0; 32]);
        vm.regs[0].x = x.map(u64::from);
        // All that agree in the base have a chance.
        vm.regs[0].x[..15].fill(at + offset);
        vm.regs[0].pstate = u64::from(psr | 1 << 4);
        let before = vm.regs[0];
        let action = finished(&mut vm, by_word(at + offset, write, word));
        match action {
            Action::Resume => {
                prop_assert_ne!(vm.regs[0].pc, before.pc);
                let psr = Psr::from_bits(before.pstate as u32);
                let may = may_change(word, psr);
                for (n, (old, new)) in (0..).zip(before.x.iter().zip(&vm.regs[0].x)) {
                    prop_assert!(old == new || may >> n & 1 != 0, "X{} of {:#x}", n, may);
                }
            }
            Action::Inject(_) => prop_assert_eq!(vm.regs[0], before),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
