//! Accesses to each device, and to where none is.

use super::{access, by_word, data, load, received, store};
use crate::fake::{FREQUENCY, Fixture, RAM_START};
use crate::{Action, Attempt, DataAbort, Exit, GuestFault, Instruction, MmioAccess};
use hanok_types::{Ipa, PAGE_SIZE, Width, platform};
use proptest::prelude::*;
use std::vec::Vec;

const FLASH: u64 = platform::FLASH.get();
const GICD: u64 = platform::GIC_DIST.get();
const GICR: u64 = platform::GIC_REDIST.get();
const UART: u64 = platform::UART.get();
const RTC: u64 = platform::RTC.get();
const VIRTIO: u64 = platform::VIRTIO.get();
const WIDTHS: [Width; 4] = [Width::Byte, Width::Half, Width::Word, Width::Double];

fn get(vm: &mut Fixture, at: u64, width: Width) -> u64 {
    assert_eq!(vm.handle(0, load(at, width, 7)), Action::Next, "{at:#x}");
    vm.regs[0].x[7]
}

fn put(vm: &mut Fixture, at: u64, width: Width, value: u64) {
    vm.regs[0].x[7] = value;
    assert_eq!(vm.handle(0, store(at, width, 7)), Action::Next, "{at:#x}");
}

fn external(write: bool) -> Action {
    Action::Inject(GuestFault::ExternalData { write, walk: false })
}

#[test]
fn the_serial_port_takes_the_low_byte() {
    let mut vm = Fixture::new(1);
    put(&mut vm, UART, Width::Word, 0xffff_ff48);
    put(&mut vm, UART, Width::Byte, 0x69);
    assert_eq!(vm.machine.line.borrow().sent, b"Hi");
    assert_eq!(get(&mut vm, UART + 0xff0, Width::Word), 0x0d, "PCellID0");
    assert_eq!(
        get(&mut vm, UART + 0x18, Width::Word),
        0x90,
        "nothing to read, all is sent"
    );
}

/// The backend is told after each access whether it is time for further bytes: once all are read.
#[test]
fn a_port_that_holds_bytes_is_told_no_further_ones() {
    let mut vm = Fixture::new(1);
    let told = |vm: &mut Fixture, at| {
        let value = get(vm, at, Width::Word);
        (value, vm.machine.line_state.get())
    };
    assert_eq!(told(&mut vm, UART + 0x18).1, Some((true, false)));
    while vm.vm.receive_room() > 0 {
        assert!(received(&vm, b'x'));
    }
    // FR.RXFF.
    assert_eq!(told(&mut vm, UART + 0x18), (0xc0, Some((false, false))));
    assert_eq!(told(&mut vm, UART), (u64::from(b'x'), Some((true, false))));
    // With the FIFO on.
    put(&mut vm, UART + 0x2c, Width::Word, 0x70);
    for left in [1, 0] {
        assert!(received(&vm, b'y'));
        assert!(received(&vm, b'z'));
        for byte in [b'y', b'z'] {
            let room = byte == b'z';
            assert_eq!(
                told(&mut vm, UART),
                (byte.into(), Some((room, false))),
                "{left}"
            );
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum PortEvent {
    Load(u64, Width),
    Store(u64, Width, u32),
    Received(u8),
    /// The line takes so many bytes.
    Room(usize),
    /// Whether further bytes wait.
    Waits(bool),
}

fn port_event() -> impl Strategy<Value = PortEvent> {
    const DR: u64 = 0;
    const FR: u64 = 0x18;
    let narrow = || prop::sample::select(&WIDTHS[..3]);
    let frequent = || prop::sample::select(&[DR, FR][..]);
    // UARTLCR_H, UARTCR, UARTIMSC and UARTICR, of which each has bits that matter.
    let settings = [(0x2c, 0x70), (0x30, 0x380), (0x38, 0x7ff), (0x44, 0x7ff)];
    let setting = prop::sample::select(settings.to_vec());
    prop_oneof![
        6 => (frequent(), narrow()).prop_map(|(at, width)| PortEvent::Load(at, width)),
        4 => (frequent(), narrow(), any::<u32>()).prop_map(|(at, width, value)| PortEvent::Store(at, width, value)),
        2 => (setting, any::<u32>()).prop_map(|((at, mask), value)| PortEvent::Store(at, Width::Word, value & mask)),
        3 => any::<u8>().prop_map(PortEvent::Received),
        1 => (0..8usize).prop_map(PortEvent::Room),
        1 => any::<bool>().prop_map(PortEvent::Waits),
    ]
}

/// Both VMs go through the same: one by what a fast path calls where that answers, the other never. How often it
/// answered: to a load and to a store.
fn same_port(events: &[PortEvent]) -> [usize; 2] {
    let mut short = Fixture::new(1);
    let mut long = Fixture::new(1);
    let mut answered = [0; 2];
    for event in events {
        for vm in [&short, &long] {
            match *event {
                PortEvent::Received(byte) => _ = received(vm, byte),
                PortEvent::Room(room) => vm.machine.line.borrow_mut().room = room,
                PortEvent::Waits(waits) => vm.machine.input_waits.set(waits),
                PortEvent::Load(..) | PortEvent::Store(..) => {}
            }
        }
        match *event {
            PortEvent::Load(at, width) => {
                let expected = get(&mut long, UART + at, width);
                match short.vm.load_serial_port(&short.machine, at) {
                    Some(value) => {
                        answered[0] += 1;
                        assert_eq!(u64::from(value) & width.mask(), expected, "{event:?}");
                        nothing_follows(&long);
                    }
                    None => assert_eq!(get(&mut short, UART + at, width), expected),
                }
            }
            PortEvent::Store(at, width, value) => {
                put(&mut long, UART + at, width, value.into());
                let done = short.vm.store_serial_port(&short.machine, at, value as u8);
                if done == Attempt::Done {
                    answered[1] += 1;
                    nothing_follows(&long);
                } else {
                    put(&mut short, UART + at, width, value.into());
                }
            }
            _ => {}
        }
        let sent = |vm: &Fixture| vm.machine.line.borrow().sent.clone();
        assert_eq!(sent(&short), sent(&long), "{event:?}");
        let pending = |vm: &Fixture| vm.vm.gic.lock().snapshot().collect::<Vec<_>>();
        assert_eq!(pending(&short), pending(&long), "{event:?}");
    }
    // What the registers say, of which a load changes some: UARTFR, UARTRIS, UARTIMSC, UARTRSR, and all that is left.
    let registers = [
        0x18, 0x3c, 0x38, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x18,
    ];
    for at in registers {
        let [short, long] = [&mut short, &mut long].map(|vm| get(vm, UART + at, Width::Word));
        assert_eq!(short, long, "{at:#x}");
    }
    answered
}

/// The outcome of an access on the slow path that had nothing to notify others of.
fn nothing_follows(vm: &Fixture) {
    let told = vm.machine.line_state.get();
    let feeds = told.is_some_and(|(room, _)| room) && vm.machine.input_waits.get();
    assert!(
        !feeds && told.is_some_and(|(_, waiting)| !waiting),
        "{told:?}"
    );
}

proptest! {
    #[test]
    fn the_serial_port_s_short_way_has_the_long_one_s_outcome(events in prop::collection::vec(port_event(), 1..80)) {
        same_port(&events);
    }
}

#[test]
fn the_serial_port_s_short_way_is_taken() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let all = prop::collection::vec(port_event(), 60);
    let mut sum = [0; 2];
    for _ in 0..60 {
        let events = all.new_tree(&mut runner).expect("events").current();
        let answered = same_port(&events);
        sum = core::array::from_fn(|at| sum[at] + answered[at]);
    }
    assert!(sum.iter().all(|times| *times >= 100), "{sum:?}");
}

#[test]
fn the_zero_register_stores_zero_and_loads_nothing() {
    let mut vm = Fixture::new(1);
    let before = vm.regs[0];
    assert_eq!(vm.handle(0, store(UART, Width::Byte, 31)), Action::Next);
    assert_eq!(vm.machine.line.borrow().sent, [0]);
    assert_eq!(vm.handle(0, load(VIRTIO, Width::Word, 31)), Action::Next);
    assert_eq!(vm.regs[0], before);
}

#[test]
fn the_clock_counts_the_counter_s_seconds() {
    let mut vm = Fixture::new(1);
    for (ticks, seconds) in [
        (0, 0),
        (FREQUENCY - 1, 0),
        (FREQUENCY, 1),
        (100 * FREQUENCY, 100),
        (u64::MAX, u64::MAX),
    ] {
        vm.machine.now.set(ticks);
        let shown = get(&mut vm, RTC, Width::Word);
        if seconds == u64::MAX {
            continue; // Any answer is good that is one.
        }
        assert_eq!(shown, seconds);
    }
}

proptest! {
    /// The clock's one division, against the same by way of nanoseconds in 128 bits.
    #[test]
    fn the_clock_and_its_alarm_are_exact(counter in 0..u64::MAX >> 1, ahead in 1..u32::MAX) {
        const NANOSECONDS: u128 = 1_000_000_000;
        let frequency = u128::from(FREQUENCY);
        let now = u128::from(counter) * NANOSECONDS / frequency;
        let second = now / NANOSECONDS;
        let mut vm = Fixture::new(1);
        vm.machine.now.set(counter);
        prop_assert_eq!(get(&mut vm, RTC, Width::Word), u64::from(second as u32));
        put(&mut vm, RTC + 0x10, Width::Word, 1);
        put(&mut vm, RTC + 0x4, Width::Word, (second as u32).wrapping_add(ahead).into());
        let alarm = (second + u128::from(ahead)) * NANOSECONDS;
        let due = (alarm * frequency).div_ceil(NANOSECONDS) as u64;
        prop_assert_eq!(vm.guest(0).deadline(), Some(due));
        vm.machine.now.set(due - 1);
        vm.guest(0).refresh();
        prop_assert_eq!(get(&mut vm, RTC + 0x14, Width::Word), 0);
        vm.machine.now.set(due);
        vm.guest(0).refresh();
        prop_assert_eq!(get(&mut vm, RTC + 0x14, Width::Word), 1);
    }
}

#[test]
fn an_alarm_at_the_end_of_time_is_no_deadline_that_overflows() {
    let mut vm = Fixture::new(1);
    vm.machine.now.set(u64::MAX - 1);
    put(&mut vm, RTC + 0x10, Width::Word, 1);
    put(&mut vm, RTC + 0x4, Width::Word, 0xffff_ffff);
    // The alarm's second is past what the counter can say: it never comes.
    assert_eq!(vm.guest(0).deadline(), None);
    vm.guest(0).refresh();
    assert_eq!(get(&mut vm, RTC + 0x14, Width::Word), 0, "RTCRIS");
}

#[test]
fn flash_is_erased_in_every_width() {
    let mut vm = Fixture::new(1);
    for width in WIDTHS {
        put(&mut vm, FLASH, width, 0x98);
        assert_eq!(get(&mut vm, FLASH + 0x07ff_fff8, width), width.mask());
    }
}

#[test]
fn empty_slots_have_their_magic() {
    let mut vm = Fixture::new(1);
    for slot in 0..platform::VIRTIO_SLOTS {
        let at = VIRTIO + slot * platform::VIRTIO_STRIDE;
        assert_eq!(get(&mut vm, at, Width::Word), 0x7472_6976);
        assert_eq!(get(&mut vm, at + 8, Width::Word), 0, "no device");
        put(&mut vm, at + 0x50, Width::Word, 1);
    }
}

#[test]
fn the_interrupt_controller_s_frames() {
    let mut vm = Fixture::new(3);
    assert_eq!(
        get(&mut vm, GICD + 0xffe8, Width::Word) & 0xf0,
        0x30,
        "GICv3"
    );
    for n in 0..3 {
        let frame = GICR + n * platform::GIC_REDIST_STRIDE;
        assert_eq!(
            get(&mut vm, frame + 8, Width::Double) >> 32,
            n,
            "its affinity"
        );
    }
    let last = GICR + 2 * platform::GIC_REDIST_STRIDE;
    assert_eq!(
        get(&mut vm, last + 8, Width::Word) >> 4 & 1,
        1,
        "the last one"
    );
    put(&mut vm, GICD + 0x400 + 33, Width::Byte, 0xa0);
    assert_eq!(get(&mut vm, GICD + 0x420, Width::Word), 0xa000);
}

#[test]
fn a_signed_load_extends() {
    let mut vm = Fixture::new(1);
    for (wide, expected) in [(true, u64::MAX), (false, 0xffff_ffff)] {
        let signed = MmioAccess {
            sign_extend: true,
            wide,
            ..access(Width::Half, 7)
        };
        assert_eq!(
            vm.handle(0, data(FLASH, false, Some(signed), None)),
            Action::Next
        );
        assert_eq!(vm.regs[0].x[7], expected);
    }
}

#[test]
fn a_load_clears_what_it_does_not_fill() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[7] = u64::MAX;
    assert_eq!(get(&mut vm, VIRTIO, Width::Word), 0x7472_6976);
}

#[test]
fn where_nothing_is_the_guest_gets_an_external_abort() {
    let mut vm = Fixture::new(2);
    let holes = [
        platform::FLASH_SIZE - 4 + 8 + platform::GIC_DIST_SIZE, // Behind the distributor.
        GICR + 2 * platform::GIC_REDIST_STRIDE,                 // The third vCPU's.
        UART + platform::PRIMECELL_SIZE,
        RTC + platform::PRIMECELL_SIZE,
        VIRTIO + platform::VIRTIO_SLOTS * platform::VIRTIO_STRIDE,
        0x0c00_0000, // QEMU's platform bus.
        0x1000_0000, // QEMU's PCIe window.
        RAM_START - 8,
        1 << 40,
        u64::MAX - 7,
        u64::MAX,
    ];
    for at in holes {
        for width in WIDTHS {
            let before = vm.regs[0];
            assert_eq!(vm.handle(0, load(at, width, 7)), external(false), "{at:#x}");
            assert_eq!(vm.handle(0, store(at, width, 7)), external(true), "{at:#x}");
            assert_eq!(vm.regs[0], before);
        }
    }
    assert_eq!(vm.vm.unhandled_accesses().0, 2 * 4 * holes.len() as u64);
}

#[test]
fn an_access_over_a_device_s_end_is_none() {
    let mut vm = Fixture::new(1);
    for end in [
        GICD + 0x1_0000,
        GICR + 0x2_0000,
        UART + 0x1000,
        RTC + 0x1000,
        VIRTIO + 0x200,
    ] {
        assert_eq!(
            vm.handle(0, load(end - 4, Width::Double, 7)),
            external(false),
            "{end:#x}"
        );
        assert_eq!(
            vm.handle(0, load(end - 4, Width::Word, 7)),
            Action::Next,
            "{end:#x}"
        );
    }
}

#[test]
fn odd_widths_and_places_inside_a_device_are_answered() {
    let mut vm = Fixture::new(1);
    for device in [FLASH, GICD, GICR, GICR + 0x1_0000, UART, RTC, VIRTIO] {
        for offset in 0..0x40 {
            for width in WIDTHS {
                let before = vm.regs[0];
                let value = get(&mut vm, device + offset, width);
                let bits = 8 * width.bytes();
                assert!(
                    bits == 64 || value >> bits == 0,
                    "{device:#x}+{offset:#x}: {value:#x}"
                );
                put(&mut vm, device + offset, width, 0);
                let mut after = vm.regs[0];
                after.x[7] = before.x[7];
                assert_eq!(after, before, "{device:#x}+{offset:#x}");
            }
        }
    }
    assert_eq!(
        get(&mut vm, VIRTIO, Width::Word),
        0x7472_6976,
        "its magic number stands"
    );
}

#[test]
fn a_walk_to_a_device_is_an_abort_of_the_walk() {
    let mut vm = Fixture::new(1);
    for write in [false, true] {
        let access = Some(access(Width::Double, 7));
        // Even where the walk finds a device, and where an instruction is at hand.
        let abort = DataAbort {
            ipa: Ipa::new(UART),
            write,
            walk: true,
            access,
            instruction: Instruction::Word(0x3900_0022),
            reach: PAGE_SIZE,
        };
        let expected = Action::Inject(GuestFault::ExternalData { write, walk: true });
        assert_eq!(vm.handle(0, Exit::Data(abort)), expected);
    }
    assert!(vm.machine.line.borrow().sent.is_empty());
}

#[test]
fn the_syndrome_counts_more_than_the_instruction() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[7] = b'S'.into();
    let abort = DataAbort {
        ipa: Ipa::new(UART),
        write: true,
        walk: false,
        access: Some(access(Width::Byte, 7)),
        instruction: Instruction::Word(0),
        reach: PAGE_SIZE,
    };
    assert_eq!(vm.handle(0, Exit::Data(abort)), Action::Next);
    assert_eq!(vm.machine.line.borrow().sent, b"S");
    // strb w7, [x1] with the base where the CPU says.
    vm.regs[0].x[1] = UART;
    assert_eq!(vm.handle(0, by_word(UART, true, 0x3900_0027)), Action::Next);
    assert_eq!(vm.machine.line.borrow().sent, b"SS");
}

/// The fast path of a backend gives the same value as the slow path, for every word.
#[test]
fn a_word_of_the_distributor_is_the_same_on_both_ways() {
    for version in [hanok_types::GicVersion::V2, hanok_types::GicVersion::V3] {
        let [short, mut long] = [(); 2].map(|()| {
            let mut vm = Fixture::with_gic(2, version);
            for (offset, value) in [(0, 3), (0x100, 0x8001), (0x420, 0x1234_5678), (0x800, 7)] {
                put(&mut vm, GICD + offset, Width::Word, value);
            }
            vm
        });
        let mut answered = 0;
        for offset in 0..platform::GIC_V2_DIST_SIZE {
            let id = hanok_types::VcpuId::new(0);
            let Some(word) = short.vm.distributor_word(id, offset) else {
                continue;
            };
            answered += 1;
            let at = GICD + offset;
            assert_eq!(
                u64::from(word),
                get(&mut long, at, Width::Word),
                "{offset:#x}"
            );
        }
        assert!(answered > 800, "{answered} words");
        let unknown = [&short, &long].map(|vm| vm.vm.gic.lock().unknown_accesses());
        assert_eq!(unknown[0], unknown[1]);
    }
}
