//! What is at which address of a VM.

use crate::Destination;
use crate::fake::{Fixture, RAM_LEN, RAM_START};
use hanok_config::DeviceKind;
use hanok_types::{GicVersion, Ipa};
use proptest::prelude::*;

/// A destination that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Distributor(u64),
    Redistributor(usize, u64),
    CpuInterface(u64),
    Device(DeviceKind, u64),
    Register(u64),
    Memory,
    Hole,
}

fn find(vm: &Fixture, ipa: u64, bytes: u64) -> Found {
    match vm.vm.destination(Ipa::new(ipa), bytes) {
        Destination::Distributor(offset) => Found::Distributor(offset),
        Destination::Redistributor(vcpu, offset) => Found::Redistributor(vcpu.index(), offset),
        Destination::CpuInterface(offset) => Found::CpuInterface(offset),
        Destination::Slot(slot, offset) | Destination::SlowSlot(slot, offset) => {
            Found::Device(slot.kind(), offset)
        }
        Destination::Register(at) => Found::Register(at.get()),
        Destination::Memory => Found::Memory,
        Destination::Hole => Found::Hole,
    }
}

fn with(gic: GicVersion, vcpus: u8) -> Fixture {
    Fixture::with_gic(vcpus, gic)
}

#[test]
fn everything_is_where_qemu_has_it() {
    let vm = with(GicVersion::V3, 4);
    for (ipa, found) in [
        (0x07ff_fffc, Found::Device(DeviceKind::Flash, 0x07ff_fffc)),
        (0x0800_fffc, Found::Distributor(0xfffc)),
        (0x080c_0008, Found::Redistributor(1, 8)),
        (0x0900_0018, Found::Device(DeviceKind::Pl011, 0x18)),
        (0x0901_0ffc, Found::Device(DeviceKind::Pl031, 0xffc)),
        (0x090c_0ffc, Found::Device(DeviceKind::Schedule, 0xffc)),
        (0x0a00_0204, Found::Device(DeviceKind::EmptyTransports, 4)),
        (RAM_START, Found::Memory),
        (RAM_START + RAM_LEN - 4, Found::Memory),
    ] {
        assert_eq!(find(&vm, ipa, 4), found, "{ipa:#x}");
    }
    for hole in [
        0x0801_0000,
        0x0812_0000,
        0x0900_1000,
        0x0901_1000,
        0x0a00_4000,
        0x3f00_0000,
        RAM_START - 4,
        RAM_START + RAM_LEN,
        1 << 39,
        u64::MAX,
        u64::MAX - 3,
    ] {
        assert_eq!(find(&vm, hole, 4), Found::Hole, "{hole:#x}");
    }
}

#[test]
fn a_gicv2_has_its_distributor_alone() {
    let vm = with(GicVersion::V2, 4);
    let last = Found::Distributor(0xffc);
    assert_eq!(find(&vm, 0x0800_0ffc, 4), last);
    for ipa in [
        0x0800_1000,
        0x0800_fffc,
        0x0801_0000,
        0x0801_1000,
        0x080a_0000,
    ] {
        assert_eq!(find(&vm, ipa, 4), Found::Hole, "{ipa:#x}");
    }
    let uart = Found::Device(DeviceKind::Pl011, 0x18);
    assert_eq!(find(&vm, 0x0900_0018, 4), uart);
}

#[test]
fn a_redistributor_is_there_for_each_vcpu_alone() {
    let last = 0x080a_0000 + 3 * 0x2_0000;
    let third = Found::Redistributor(3, 0);
    assert_eq!(find(&with(GicVersion::V3, 4), last, 8), third);
    assert_eq!(find(&with(GicVersion::V3, 3), last, 8), Found::Hole);
}

#[test]
fn an_access_over_an_end_goes_nowhere() {
    let vm = with(GicVersion::V3, 4);
    for end in [
        0x0800_0000,
        0x0801_0000,
        0x080c_0000,
        0x0900_1000,
        0x0a00_0200,
        RAM_START,
        RAM_START + RAM_LEN,
    ] {
        assert_eq!(find(&vm, end - 2, 4), Found::Hole, "{end:#x}");
    }
    for bytes in [0, u64::MAX] {
        assert_eq!(find(&vm, 0x0900_0000, bytes), Found::Hole);
    }
}

/// Whoever moves several words within a page asks for the first and the last alone.
#[test]
fn a_page_is_of_devices_throughout_or_of_none() {
    let v2 = with(GicVersion::V2, 5);
    let soft = with(GicVersion::V2, 5).with_software_interface();
    for vm in [v2, soft, with(GicVersion::V3, 5)] {
        for page in (0x07ff_f000..0x0b00_0000).step_by(0x1000) {
            let there = |at| vm.vm.destination(Ipa::new(at), 4).is_device();
            let mut words = (page..page + 0x1000).step_by(4);
            assert!(words.all(|at| there(at) == there(page)), "{page:#x}");
        }
    }
}

/// A GICv2's CPU interface is there if nothing is mapped at its place. A GICv3 has none in memory.
#[test]
fn an_interface_in_software_is_a_device() {
    let vm = with(GicVersion::V2, 4).with_software_interface();
    for (ipa, found) in [
        (0x0800_fffc, Found::Hole),
        (0x0801_0000, Found::CpuInterface(0)),
        (0x0801_1000, Found::CpuInterface(0x1000)),
        (0x0801_1ffc, Found::CpuInterface(0x1ffc)),
        (0x0801_1ffe, Found::Hole),
        (0x0801_2000, Found::Hole),
    ] {
        assert_eq!(find(&vm, ipa, 4), found, "{ipa:#x}");
    }
    let vm = with(GicVersion::V3, 4).with_software_interface();
    assert_eq!(find(&vm, 0x0801_0000, 4), Found::Hole);
}

proptest! {
    #[test]
    fn what_is_found_holds_the_access(ipa: u64, near in 0..0x4100_0000_u64, bytes in 1..256_u64, vcpus in 1..8_u8, v2: bool, soft: bool) {
        let mut vm = with(if v2 { GicVersion::V2 } else { GicVersion::V3 }, vcpus);
        if soft {
            vm = vm.with_software_interface();
        }
        for ipa in [ipa, near] {
            let ends = [ipa, ipa.wrapping_add(bytes - 1)].map(|at| find(&vm, at, 1));
            match (find(&vm, ipa, bytes), ends) {
                (Found::Register(_), _) => panic!("no device is trapped"),
                (Found::Hole, _) => {}
                (Found::Memory, ends) => prop_assert_eq!(ends, [Found::Memory; 2]),
                (Found::Device(kind, at), ends) => {
                    prop_assert_eq!(ends, [at, at + bytes - 1].map(|at| Found::Device(kind, at)));
                }
                (Found::Distributor(at), ends) => {
                    prop_assert_eq!(ends, [at, at + bytes - 1].map(Found::Distributor));
                }
                (Found::Redistributor(vcpu, at), ends) => {
                    prop_assert_eq!(ends, [at, at + bytes - 1].map(|at| Found::Redistributor(vcpu, at)));
                    prop_assert!(vcpu < usize::from(vcpus) && !v2);
                }
                (Found::CpuInterface(at), ends) => {
                    prop_assert_eq!(ends, [at, at + bytes - 1].map(Found::CpuInterface));
                    prop_assert!(v2 && soft);
                }
            }
        }
    }
}
