//! Instructions that move several registers: one piece in each exit.

use super::instructions_aarch32::{PC, UART, VIRTIO, a32, finished, sent};
use super::{access, by_word, load, store};
use crate::Action;
use crate::fake::{Fixture, config};
use hanok_config::{VirtioKind, add_virtio};
use hanok_devices::Access;
use hanok_types::{GicVersion, Ipa, VcpuId, Width};
use hanok_vgic::Frame;

#[test]
fn each_register_is_an_exit_of_its_own() {
    let mut vm = a32();
    (vm.regs[0].x[1], vm.regs[0].x[19]) = (UART, 0x4020_0000);
    (2..6).for_each(|n| vm.regs[0].x[n] = 0x61 + n as u64);
    // STM R1, {R2-R5}: the data register, then three that send nothing.
    let store = by_word(UART, true, 0xe881_003c);
    assert_eq!(vm.handle(0, store), Action::Resume);
    assert_eq!((vm.regs[0].pc, sent(&vm)), (PC, b"c".to_vec()));
    // Its interrupt handler says something by another instruction: the first begins anew.
    let (pc, stack) = (PC + 0x100, vm.regs[0].x[19]);
    (vm.regs[0].pc, vm.regs[0].x[19]) = (pc, stack - 64);
    assert_eq!(finished(&mut vm, store), Action::Resume);
    assert_eq!(sent(&vm), b"cc");
    (vm.regs[0].pc, vm.regs[0].x[19]) = (PC, stack);
    for _ in 0..3 {
        assert_eq!(vm.handle(0, store), Action::Resume);
        assert_eq!((vm.regs[0].pc, sent(&vm)), (PC, b"ccc".to_vec()));
    }
    assert_eq!(vm.handle(0, store), Action::Resume);
    assert_eq!((vm.regs[0].pc, sent(&vm)), (PC + 4, b"ccc".to_vec()));
}

#[test]
fn sixteen_double_registers_are_thirty_two_exits() {
    let mut vm = a32();
    (vm.regs[0].x[1], vm.regs[0].x[19]) = (VIRTIO, 0x4020_0000);
    *vm.machine.vectors.borrow_mut() = Some([0; 32]);
    // VLDMIA R1, {D0-D15}; each word is in its register at once, and none is done twice.
    let load = by_word(VIRTIO, false, 0xec91_0b20);
    for _ in 0..31 {
        assert_eq!((vm.handle(0, load), vm.regs[0].pc), (Action::Resume, PC));
    }
    assert_eq!(vm.handle(0, load), Action::Resume);
    assert_eq!(vm.regs[0].pc, PC + 4);
    let vectors = vm.machine.vectors.borrow().unwrap();
    assert_eq!(vectors[0], 0x554d_4551_0000_0000_0000_0002_7472_6976);
}

#[test]
fn a_pair_of_q_registers_is_four_exits() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[1] = VIRTIO;
    *vm.machine.vectors.borrow_mut() = Some([7; 32]);
    // LDP Q0, Q1, [X1], #32, of AArch64; nothing is filled before the end.
    let load = by_word(VIRTIO, false, 0xacc1_0420);
    for _ in 0..3 {
        assert_eq!(vm.handle(0, load), Action::Resume);
        assert_eq!(vm.regs[0].x[1], VIRTIO);
        assert_eq!(vm.machine.vectors.borrow().unwrap(), [7; 32]);
    }
    assert_eq!(vm.handle(0, load), Action::Next);
    assert_eq!(vm.regs[0].x[1], VIRTIO + 32);
    let vectors = vm.machine.vectors.borrow().unwrap();
    assert_eq!(vectors[0], 0x554d_4551_0000_0000_0000_0002_7472_6976);
    assert_eq!((vectors[1], vectors[2]), (0, 7));
}

#[test]
fn a_pair_of_registers_is_two_exits_and_begins_anew_after_another_one() {
    let mut vm = Fixture::new(1);
    let (pc, stack) = (vm.regs[0].pc, [7, 0x4020_0000]);
    vm.machine.stack_pointers.set(stack);
    (vm.regs[0].x[0], vm.regs[0].x[1], vm.regs[0].x[2]) = (0x61, 0, UART);
    // STP W0, W1, [X2]: the data register, and one that sends nothing.
    let store = by_word(UART, true, 0x2900_0440);
    assert_eq!(vm.handle(0, store), Action::Resume);
    assert_eq!(sent(&vm), b"a");
    // The same one on another stack, that of an interrupt's handler.
    vm.machine.stack_pointers.set([7, 0x4020_0000 - 256]);
    assert_eq!(finished(&mut vm, store), Action::Next);
    assert_eq!(sent(&vm), b"aa");
    vm.machine.stack_pointers.set(stack);
    assert_eq!(vm.handle(0, store), Action::Resume);
    assert_eq!(sent(&vm), b"aaa");
    assert_eq!(vm.handle(0, store), Action::Next);
    assert_eq!((sent(&vm), vm.regs[0].pc), (b"aaa".to_vec(), pc));
}

#[test]
fn a_shorter_instruction_in_its_place_begins_anew() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[2] = UART;
    vm.regs[0].x[0] = 0x61;
    *vm.machine.vectors.borrow_mut() = Some([0x62; 32]);
    // STP Q0, Q1, [X2], half of it; then STR W0, [X2], #0 by another vCPU.
    let (long, short) = (0xad00_0440, 0xb800_0440);
    for _ in 0..2 {
        assert_eq!(vm.handle(0, by_word(UART, true, long)), Action::Resume);
    }
    let before = sent(&vm);
    assert_eq!(vm.handle(0, by_word(UART, true, short)), Action::Next);
    assert_eq!(sent(&vm), [&before[..], b"a"].concat());
}

#[test]
fn loads_are_never_made_again_for_a_shared_device() {
    let mut described = config(1);
    let entropy = [(VirtioKind::Entropy, None)].into_iter();
    assert!(add_virtio(&mut described.slots, entropy));
    let mut vm = Fixture::of(described, GicVersion::V3);
    let slot = vm
        .vm
        .slots
        .iter()
        .find(|slot| slot.shared().is_some())
        .expect("a source");
    let (record, index) = (slot.shared().unwrap(), slot.index() as u8);
    // A driver that is ready: features, and its status. So there is work to do.
    for (offset, value) in [(0x70, 3), (0x24, 1), (0x20, 1), (0x70, 11), (0x70, 15)] {
        let store = Access::store(Ipa::new(offset), Width::Word, value);
        record.access_by(false, offset, store);
    }
    assert!(record.needs_attention(false));
    // LDR W19, [X19, #0x70], which changes its base register.
    vm.regs[0].x[19] = VIRTIO;
    assert_eq!(
        vm.handle(0, load(VIRTIO + 0x70, Width::Word, 19)),
        Action::Next
    );
    assert_eq!(vm.regs[0].x[19], 15);
    // LDR W0, [X2], #4, which the hypervisor reads.
    vm.regs[0].x[2] = VIRTIO + 0x70;
    let word = by_word(VIRTIO + 0x70, false, 0xb840_4440);
    assert_eq!(vm.handle(0, word), Action::Next);
    let serve = Action::Serve {
        slot: index,
        next: true,
    };
    assert_eq!(vm.handle(0, store(VIRTIO + 0x50, Width::Word, 0)), serve);
}

/// A guest that takes edges alone must not lose the interrupt of a reason that came while it ended another one.
#[test]
fn a_line_that_stays_high_rises_anew_as_an_interrupt_ends() {
    let mut described = config(1);
    let entropy = [(VirtioKind::Entropy, None)].into_iter();
    assert!(add_virtio(&mut described.slots, entropy));
    let vm = Fixture::of(described, GicVersion::V3);
    let slots = &vm.vm.slots;
    let slot = slots.iter().find(|slot| slot.shared().is_some());
    let slot = slot.expect("a source");
    let line = slot.interrupt().expect("it has one");
    // A driver that takes a feature back breaks the device, which tells it so.
    for (offset, value) in [
        (0x70, 3),
        (0x24, 1),
        (0x20, 1),
        (0x70, 11),
        (0x70, 15),
        (0x70, 1),
    ] {
        let store = Access::store(Ipa::new(offset), Width::Word, value);
        slot.shared().unwrap().access_by(false, offset, store);
    }
    let device = slot.device.lock();
    assert!(device.level());
    vm.vm.gic.lock().set_edge(line);
    let id = line.get();
    let latched = || {
        let frame = Frame::distributor(GicVersion::V3, VcpuId::new(0));
        let row = 0x200 + u64::from(id / 32) * 4;
        let found = vm.vm.gic.lock().read(frame, row, Width::Word).value;
        found >> (id % 32) & 1 != 0
    };
    let _ = vm.vm.device_line(slot, &device);
    assert!(latched());
    let _ = vm.vm.gic.lock().clear_pending(None, line);
    let _ = vm.vm.device_line(slot, &device);
    assert!(!latched(), "it is high already");
    let _ = vm.vm.device_line_anew(slot, &device);
    assert!(latched());
}

/// The short way to a shared device is the long one, for each register and width.
#[test]
fn by_a_register_a_shared_device_is_reached_alike_by_both_ways() {
    let fixture = || {
        let mut described = config(1);
        let entropy = [(VirtioKind::Entropy, None)].into_iter();
        assert!(add_virtio(&mut described.slots, entropy));
        Fixture::of(described, GicVersion::V3)
    };
    let (mut short, mut long) = (fixture(), fixture());
    let mut seed = 7_u64;
    for round in 0..20_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let pick = |below: u64| (seed >> 33) % below;
        let offset = match pick(4) {
            0 => 0x70,
            1 => 4 * pick(0x28),
            _ => pick(0x210),
        };
        let width = Width::from_log2(pick(4) as u8);
        let (write, value) = (pick(3) > 0, [0, 1, 3, 11, 15, seed][pick(6) as usize]);
        let ipa = Ipa::new(VIRTIO + offset);
        for vm in [&mut short, &mut long] {
            vm.regs[0].x[5] = value;
        }
        let exit = if write {
            store(ipa.get(), width, 5)
        } else {
            load(ipa.get(), width, 5)
        };
        let by_long = long.handle(0, exit);
        let by_short = short
            .guest(0)
            .access_slow_slot_by_register(ipa, write, access(width, 5));
        let by_short = by_short.unwrap_or_else(|| short.handle(0, exit));
        assert_eq!(by_short, by_long, "{round}: {offset:#x}");
        assert_eq!(short.regs[0].x, long.regs[0].x, "{round}: {offset:#x}");
    }
}

#[test]
fn an_instruction_ends_when_all_of_a_shared_devices_work_is_done() {
    let serve = Action::Serve {
        slot: 3,
        next: false,
    };
    // STR W0, [X2], #4 of AArch64, and STR R0, [R2], #4 of AArch32.
    for (mut vm, word, end) in [
        (Fixture::new(1), 0xb800_4440, Action::Next),
        (a32(), 0xe482_0004, Action::Resume),
    ] {
        vm.regs[0].x[2] = UART;
        vm.regs[0].x[0] = 0x61;
        let store = by_word(UART, true, word);
        let pc = vm.regs[0].pc;
        // The access finds that there is work, of which some is left after a first and a second piece.
        vm.vcpus[0].serves = Some(3);
        for _ in 0..3 {
            assert_eq!(vm.handle(0, store), serve);
            assert_eq!((vm.regs[0].x[2], vm.regs[0].pc), (UART, pc));
            assert_eq!(sent(&vm), b"a");
            vm.vcpus[0].serve_again(3);
        }
        assert_eq!(vm.handle(0, store), serve);
        // Nothing is left: the instruction ends, and its access is not made again.
        assert_eq!(vm.handle(0, store), end);
        assert_eq!((vm.regs[0].x[2], sent(&vm)), (UART + 4, b"a".to_vec()));
    }
}
