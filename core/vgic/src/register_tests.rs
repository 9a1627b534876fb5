//! Each register of the two frames, and every offset in every width.

use crate::{Frame, SgiRegister, Vgic};
use hanok_types::{GicVersion, IntId, VcpuId, VcpuSet, Width};
use std::vec::Vec;

const WIDTHS: [Width; 4] = [Width::Byte, Width::Half, Width::Word, Width::Double];
const SGI_BASE: u64 = 0x1_0000;

fn v(index: u8) -> VcpuId {
    VcpuId::new(index)
}

fn dist(vgic: &mut Vgic, offset: u64) -> u64 {
    vgic.read(Frame::Dist, offset, Width::Word).value
}

fn set(vgic: &mut Vgic, offset: u64, value: u64) -> VcpuSet {
    vgic.write(Frame::Dist, offset, Width::Word, value)
}

fn redist(vgic: &mut Vgic, cpu: u8, offset: u64) -> u64 {
    vgic.read(Frame::Redist(v(cpu)), offset, Width::Word).value
}

fn set_redist(vgic: &mut Vgic, cpu: u8, offset: u64, value: u64) -> VcpuSet {
    vgic.write(Frame::Redist(v(cpu)), offset, Width::Word, value)
}

#[test]
fn the_distributor_says_what_it_is() {
    let mut vgic = Vgic::new(GicVersion::V3, 4, 5);
    assert_eq!(dist(&mut vgic, 0x0), 0x50, "DS and ARE");
    assert_eq!(dist(&mut vgic, 0x4), 0x0148_0008);
    assert_eq!(dist(&mut vgic, 0x8), 0x43b);
    assert_eq!(dist(&mut vgic, 0x10), 0);
    assert_eq!(dist(&mut vgic, 0xffe8), 0x3b);
    assert_eq!(dist(&mut vgic, 0xfffc), 0xb1);
    set(&mut vgic, 0x0, u64::MAX);
    assert_eq!(dist(&mut vgic, 0x0), 0x53);
    set(&mut vgic, 0x4, u64::MAX);
    set(&mut vgic, 0xffe8, u64::MAX);
    assert_eq!(dist(&mut vgic, 0xffe8), 0x3b);
    assert_eq!(vgic.unknown_accesses(), 0);
}

#[test]
fn bits_are_set_by_one_register_and_cleared_by_its_twin() {
    let mut vgic = Vgic::new(GicVersion::V3, 1, 5);
    for (set_at, clear_at) in [(0x100, 0x180), (0x200, 0x280), (0x300, 0x380)] {
        for word in 1..=8 {
            set(&mut vgic, set_at + 4 * word, 0xf0f0_00ff);
            assert_eq!(dist(&mut vgic, set_at + 4 * word), 0xf0f0_00ff);
            set(&mut vgic, clear_at + 4 * word, 0xf0f0_000f);
            assert_eq!(dist(&mut vgic, clear_at + 4 * word), 0xf0);
        }
    }
}

#[test]
fn private_and_missing_interrupts_are_nothing_in_the_distributor() {
    let mut vgic = Vgic::new(GicVersion::V3, 1, 5);
    for register in [0x80, 0x100, 0x200, 0x300] {
        for word in [0, 9, 31] {
            set(&mut vgic, register + 4 * word, u64::MAX);
            assert_eq!(dist(&mut vgic, register + 4 * word), 0);
        }
    }
    for nothing in [
        0x400, 0x800, 0x820, 0xc00, 0xd04, 0xe08, 0xf00, 0xf10, 0xf2c, 0x6900,
    ] {
        set(&mut vgic, nothing, u64::MAX);
        assert_eq!(dist(&mut vgic, nothing), 0, "{nothing:#x}");
    }
    assert_eq!(vgic.unknown_accesses(), 0);
    assert_eq!(redist(&mut vgic, 0, SGI_BASE + 0x100), 0);
}

#[test]
fn priorities_have_the_bits_that_the_cpu_has() {
    let mut vgic = Vgic::new(GicVersion::V3, 1, 5);
    set(&mut vgic, 0x420, 0xffff_ffff);
    assert_eq!(dist(&mut vgic, 0x420), 0xf8f8_f8f8);
    vgic.write(Frame::Dist, 0x421, Width::Byte, 0x17);
    assert_eq!(dist(&mut vgic, 0x420), 0xf8f8_10f8);
    assert_eq!(vgic.read(Frame::Dist, 0x421, Width::Byte).value, 0x10);
    let mut fine = Vgic::new(GicVersion::V3, 1, 8);
    set_redist(&mut fine, 0, SGI_BASE + 0x41c, 0x0102_0304);
    assert_eq!(redist(&mut fine, 0, SGI_BASE + 0x41c), 0x0102_0304);
}

#[test]
fn triggers_keep_the_upper_bit_of_two() {
    let mut vgic = Vgic::new(GicVersion::V3, 1, 5);
    set(&mut vgic, 0xc08, 0xffff_0001);
    assert_eq!(dist(&mut vgic, 0xc08), 0xaaaa_0000);
    set(&mut vgic, 0xc0c, 0x8000_0002);
    assert_eq!(dist(&mut vgic, 0xc0c), 0x8000_0002);
    assert_eq!(dist(&mut vgic, 0xc08), 0xaaaa_0000);
    assert_eq!(redist(&mut vgic, 0, SGI_BASE + 0xc00), 0xaaaa_aaaa);
    set_redist(&mut vgic, 0, SGI_BASE + 0xc00, 0);
    assert_eq!(redist(&mut vgic, 0, SGI_BASE + 0xc00), 0xaaaa_aaaa);
    set_redist(&mut vgic, 0, SGI_BASE + 0xc04, 0x80);
    assert_eq!(redist(&mut vgic, 0, SGI_BASE + 0xc04), 0x80);
}

#[test]
fn routes_keep_what_is_not_reserved_in_words_and_doubles() {
    let mut vgic = Vgic::new(GicVersion::V3, 2, 5);
    vgic.write(Frame::Dist, 0x6108, Width::Double, u64::MAX);
    let read = vgic.read(Frame::Dist, 0x6108, Width::Double).value;
    assert_eq!(read, 0xff_80ff_ffff);
    set(&mut vgic, 0x610c, 0);
    set(&mut vgic, 0x6108, 1);
    assert_eq!(vgic.read(Frame::Dist, 0x6108, Width::Double).value, 1);
    set(&mut vgic, 0x610c, 0x12);
    assert_eq!(dist(&mut vgic, 0x610c), 0x12);
    assert_eq!(vgic.unknown_accesses(), 0);
}

#[test]
fn each_redistributor_knows_its_vcpu_and_the_last() {
    let mut vgic = Vgic::new(GicVersion::V3, 3, 5);
    for cpu in 0..3 {
        let typer = vgic.read(Frame::Redist(v(cpu)), 8, Width::Double).value;
        let number = u64::from(cpu);
        let last = u64::from(cpu == 2) << 4;
        assert_eq!(typer, number << 32 | number << 8 | last);
        assert_eq!(redist(&mut vgic, cpu, 8), typer & 0xffff_ffff);
        assert_eq!(redist(&mut vgic, cpu, 12), typer >> 32);
        assert_eq!(redist(&mut vgic, cpu, 0xffe8), 0x3b);
        assert_eq!(redist(&mut vgic, cpu, 0x4), 0x43b);
    }
    assert_eq!(vgic.unknown_accesses(), 0);
    assert_eq!(redist(&mut vgic, 3, 8), 0);
    assert_eq!(redist(&mut vgic, 255, 8), 0);
    assert_eq!(vgic.unknown_accesses(), 2);
}

#[test]
fn waking_a_redistributor_wakes_its_children() {
    let mut vgic = Vgic::new(GicVersion::V3, 1, 5);
    assert_eq!(redist(&mut vgic, 0, 0x14), 6);
    set_redist(&mut vgic, 0, 0x14, 0);
    assert_eq!(redist(&mut vgic, 0, 0x14), 0);
    set_redist(&mut vgic, 0, 0x14, 2);
    assert_eq!(redist(&mut vgic, 0, 0x14), 6);
}

#[test]
fn private_registers_are_each_vcpu_s_own() {
    let mut vgic = Vgic::new(GicVersion::V3, 2, 5);
    for register in [0x80, 0x100, 0x200, 0x300] {
        set_redist(&mut vgic, 1, SGI_BASE + register, 0x8000_0001);
        assert_eq!(redist(&mut vgic, 1, SGI_BASE + register), 0x8000_0001);
        assert_eq!(redist(&mut vgic, 0, SGI_BASE + register), 0);
    }
}

#[test]
fn what_is_not_there_is_counted() {
    let mut vgic = Vgic::new(GicVersion::V3, 1, 5);
    let odd = [
        (Frame::Dist, 0x14, Width::Word),
        (Frame::Dist, 0x104, Width::Byte),
        (Frame::Dist, 0x104, Width::Half),
        (Frame::Dist, 0x104, Width::Double),
        (Frame::Dist, 0x421, Width::Word),
        (Frame::Dist, 0x1_0000, Width::Word),
        (Frame::Dist, u64::MAX, Width::Byte),
        (Frame::Redist(v(0)), 0x70, Width::Double),
        (Frame::Redist(v(0)), SGI_BASE + 0x104, Width::Word),
        (Frame::Redist(v(0)), SGI_BASE + 0x800, Width::Word),
        (Frame::Redist(v(0)), 0x2_0000, Width::Word),
    ];
    for (frame, offset, width) in odd {
        assert_eq!(vgic.read(frame, offset, width).value, 0);
        assert!(vgic.write(frame, offset, width, u64::MAX).is_empty());
    }
    assert_eq!(vgic.unknown_accesses(), 2 * odd.len() as u64);
}

#[test]
fn every_offset_in_every_width_is_safe() {
    let mut vgic = Vgic::new(GicVersion::V3, 2, 5);
    for value in [u64::MAX, 0x5555_5555_5555_5554] {
        for frame in [Frame::Dist, Frame::Redist(v(1)), Frame::Redist(v(9))] {
            for offset in (0..0x2_0010).chain(u64::MAX - 16..=u64::MAX) {
                for width in WIDTHS {
                    vgic.write(frame, offset, width, value);
                    let read = vgic.read(frame, offset, width).value;
                    assert_eq!(read & !width.mask(), 0);
                }
            }
        }
    }
}

#[test]
fn an_sgi_goes_to_its_list_and_to_no_other_cluster() {
    let mut vgic = Vgic::new(GicVersion::V3, 3, 5);
    let pending = |vgic: &mut Vgic| -> Vec<u64> {
        (0..3)
            .map(|cpu| redist(vgic, cpu, SGI_BASE + 0x200))
            .collect()
    };
    vgic.send_sgi(v(0), 5 << 24 | 0b1110, SgiRegister::Sgi0);
    assert_eq!(pending(&mut vgic), [0, 1 << 5, 1 << 5]);
    for elsewhere in [1 << 16, 1 << 32, 1 << 48, 1 << 44] {
        vgic.send_sgi(v(0), 6 << 24 | 1 | elsewhere, SgiRegister::Sgi0);
    }
    assert_eq!(pending(&mut vgic), [0, 1 << 5, 1 << 5]);
    vgic.send_sgi(v(1), 7 << 24 | 1 << 40, SgiRegister::Sgi0);
    assert_eq!(pending(&mut vgic), [1 << 7, 1 << 5, 1 << 7 | 1 << 5]);
}

#[test]
fn an_sgi_of_the_other_group_is_not_sent() {
    let mut vgic = Vgic::new(GicVersion::V3, 1, 5);
    set_redist(&mut vgic, 0, SGI_BASE + 0x80, 0b10);
    let cases = [
        (SgiRegister::Sgi0, 0b01),
        (SgiRegister::Asgi1, 0b01),
        (SgiRegister::Sgi1, 0b10),
    ];
    for (register, expected) in cases {
        vgic.send_sgi(v(0), 1, register);
        vgic.send_sgi(v(0), 1 << 24 | 1, register);
        assert_eq!(redist(&mut vgic, 0, SGI_BASE + 0x200), expected);
        set_redist(&mut vgic, 0, SGI_BASE + 0x280, u64::MAX);
    }
}

#[test]
fn a_level_stays_pending_under_clear_and_an_edge_does_not() {
    let mut vgic = Vgic::new(GicVersion::V3, 1, 5);
    set(&mut vgic, 0xc08, 0b10 << 4);
    vgic.set_level(None, IntId::new(33), true);
    vgic.set_level(None, IntId::new(34), true);
    assert_eq!(dist(&mut vgic, 0x204), 0b110);
    set(&mut vgic, 0x284, u64::MAX);
    assert_eq!(dist(&mut vgic, 0x204), 0b010);
    vgic.set_level(None, IntId::new(34), false);
    vgic.set_level(None, IntId::new(34), true);
    vgic.set_level(None, IntId::new(33), false);
    assert_eq!(dist(&mut vgic, 0x204), 0b100);
}

#[test]
fn lines_that_do_not_exist_are_ignored() {
    let mut vgic = Vgic::new(GicVersion::V3, 2, 5);
    for id in [288, 1019, 1023, u32::MAX] {
        assert!(vgic.set_level(None, IntId::new(id), true).is_empty());
        assert!(vgic.pulse(Some(v(0)), IntId::new(id)).is_empty());
        let id = IntId::new(id);
        assert!(vgic.inject_hardware(v(0), id, id).is_empty());
    }
    assert!(vgic.set_level(None, IntId::new(20), true).is_empty());
    assert!(vgic.set_level(Some(v(2)), IntId::new(20), true).is_empty());
    assert_eq!(vgic.snapshot().count(), 0);
}

#[test]
fn a_reset_forgets_all_but_the_lines() {
    let mut vgic = Vgic::new(GicVersion::V3, 2, 5);
    set(&mut vgic, 0, 3);
    for offset in (0x80..0x380).step_by(4) {
        set(&mut vgic, offset, u64::MAX);
    }
    vgic.set_level(None, IntId::new(33), true);
    vgic.inject_hardware(v(1), IntId::new(27), IntId::new(27));
    vgic.reset();
    assert_eq!(dist(&mut vgic, 0), 0x50);
    assert_eq!(dist(&mut vgic, 0x204), 0b10);
    assert_eq!(dist(&mut vgic, 0x104), 0);
    assert_eq!(vgic.take_released(v(0)), None);
    assert_eq!(vgic.take_released(v(1)), Some(IntId::new(27)));
    assert_eq!(vgic.take_released(v(1)), None);
    assert_eq!(redist(&mut vgic, 0, SGI_BASE + 0xc00), 0xaaaa_aaaa);
}

/// GICR_CTLR.RWP, while a disabled interrupt may still stand in a list register, and not before or after.
#[test]
fn a_write_is_pending_while_a_list_register_may_show_the_state_before() {
    const RWP: u64 = 1 << 3;
    let mut vgic = Vgic::new(GicVersion::V3, 1, 5);
    set(&mut vgic, 0, 2);
    set_redist(&mut vgic, 0, SGI_BASE + 0x80, u64::MAX);
    set_redist(&mut vgic, 0, SGI_BASE + 0x100, u64::MAX);
    let mut lrs = hanok_hal::fake::FakeListRegisters::new(4);
    vgic.enter(v(0), &mut lrs);
    // Nothing is listed, so that nothing can be shown.
    set_redist(&mut vgic, 0, SGI_BASE + 0x180, 1 << 5);
    assert_eq!(redist(&mut vgic, 0, 0) & RWP, 0);
    set_redist(&mut vgic, 0, SGI_BASE + 0x100, u64::MAX);
    vgic.send_sgi(v(0), 5 << 24 | 1, SgiRegister::Sgi1);
    vgic.enter(v(0), &mut lrs);
    assert_eq!(redist(&mut vgic, 0, 0) & RWP, 0);
    set_redist(&mut vgic, 0, SGI_BASE + 0x180, 1 << 5);
    assert_eq!(redist(&mut vgic, 0, 0) & RWP, RWP);
    vgic.enter(v(0), &mut lrs);
    assert_eq!(redist(&mut vgic, 0, 0) & RWP, 0);
}
