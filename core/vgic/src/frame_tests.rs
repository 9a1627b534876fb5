//! Reads that need no fold, the registers that frames have, and the vCPUs that an access kicks.

use crate::{Frame, Lr, LrState, Vgic};
use hanok_hal::ListRegisters;
use hanok_hal::fake::FakeListRegisters;
use hanok_types::{GicVersion, IntId, VcpuId, VcpuSet, Width};
use std::format;
use std::vec;
use std::vec::Vec;

const V0: VcpuId = VcpuId::new(0);
const V1: VcpuId = VcpuId::new(1);
const SGI_BASE: u64 = 0x1_0000;
const WIDTHS: [Width; 4] = [Width::Byte, Width::Half, Width::Word, Width::Double];

fn private(version: GicVersion, vcpu: VcpuId) -> (Frame, u64) {
    match version {
        GicVersion::V2 => (Frame::V2(vcpu), 0),
        GicVersion::V3 => (Frame::Redist(vcpu), SGI_BASE),
    }
}

/// The first of two vCPUs has one SPI pending and one active in its list registers, and SGIs 5
/// pending and 9 active; all of group 1.
fn with_listed(version: GicVersion) -> (Vgic, FakeListRegisters) {
    let mut vgic = Vgic::new(version, 2, 5);
    let mut lrs = FakeListRegisters::new(4);
    let dist = Frame::distributor(version, V0);
    let (frame, base) = private(version, V0);
    for (frame, offset, value) in [
        (dist, 0x000, 3),
        (dist, 0x084, u64::MAX),
        (dist, 0x104, 0b1110),
        (dist, 0xc08, 0x55aa_aaaa),
        (dist, 0x420, 0x1020_3040),
        (dist, 0x820, 0x0101_0101),
        (frame, base + 0x080, 0xffff_ff00),
        (frame, base + 0x100, 0xffff),
        (frame, base + 0x400, 0x4030_2010),
    ] {
        vgic.write(frame, offset, Width::Word, value);
    }
    for id in [33, 34] {
        vgic.pulse(None, IntId::new(id));
    }
    for id in [5, 9] {
        vgic.private_sgi(id);
    }
    vgic.enter(V0, &mut lrs);
    for slot in 0..4 {
        let lr = Lr::from_bits(lrs.read(slot));
        if [9, 34].contains(&lr.virtual_id()) {
            lrs.lr[slot] = lr.with_state(LrState::Active).into_bits();
        }
    }
    vgic.fold(V0, &mut lrs);
    (vgic, lrs)
}

impl Vgic {
    /// The second vCPU's SGI to the first.
    fn private_sgi(&mut self, id: u32) {
        match self.version() {
            GicVersion::V2 => {
                let value = 1 << 16 | u64::from(id);
                self.write(Frame::V2(V1), 0xf00, Width::Word, value);
            }
            GicVersion::V3 => {
                self.pulse(Some(V0), IntId::new(id));
            }
        }
    }
}

/// Whether a register's value does not depend on list registers, as pending and active states, RWP, and the
/// senders of SGIs do.
fn is_read_unfolded(offset: u64) -> bool {
    let on_lists = [0..4, 0x200..0x400, 0xf00..0xf30];
    !on_lists
        .iter()
        .any(|range| range.contains(&(offset & 0xffff)))
}

fn offsets() -> impl Iterator<Item = u64> {
    let odd = [
        0x6100..0x6120,
        0x7fd0..0x7ff0,
        0xff00..0x1_0410,
        0x1_07f0..0x1_1010,
    ];
    let last = [0x1_ffc0..0x2_0010, u64::MAX - 8..u64::MAX];
    (0..0x1010)
        .chain(odd.into_iter().flatten())
        .chain(last.into_iter().flatten())
}

/// Word registers before IGROUPR have a fast path. It reads the same value as the slow path, also of registers
/// that do not exist, and kicks no vCPU.
#[test]
fn a_read_unfolded_is_the_same_as_any() {
    for version in [GicVersion::V2, GicVersion::V3] {
        let (mut fast, _) = with_listed(version);
        let mut full = fast.clone();
        let frames = [
            Frame::Dist,
            Frame::Redist(V0),
            Frame::V2(V0),
            Frame::Redist(V1),
        ];
        let both = frames
            .iter()
            .flat_map(|frame| offsets().map(move |at| (*frame, at)));
        for ((frame, offset), width) in both.flat_map(|at| WIDTHS.map(|width| (at, width))) {
            let value = fast.read_unfolded(frame, offset, width);
            assert_eq!(
                value.is_some(),
                is_read_unfolded(offset),
                "{frame:?} {offset:#x}"
            );
            let Some(value) = value else { continue };
            let read = full.read(frame, offset, width);
            assert_eq!(
                (value, VcpuSet::EMPTY),
                (read.value, read.kick),
                "{frame:?} {offset:#x}"
            );
            let unknown = [&fast, &full].map(Vgic::unknown_accesses);
            assert_eq!(
                unknown[0], unknown[1],
                "{version:?} {frame:?} {offset:#x} {width:?}"
            );
        }
        assert_eq!(format!("{fast:?}"), format!("{full:?}"));
        assert!(!fast.needs_entry(V0));
    }
}

/// An entry changes no register that is read without a fold.
#[test]
fn a_read_unfolded_needs_no_entry() {
    for version in [GicVersion::V2, GicVersion::V3] {
        let (mut before, mut lrs) = with_listed(version);
        let mut after = before.clone();
        lrs.lr = vec![0; 4];
        after.maintenance(V0, &mut lrs);
        for frame in [Frame::Dist, Frame::Redist(V0), Frame::V2(V0)] {
            for offset in offsets().filter(|offset| offset % 4 == 0) {
                let [a, b] = [&mut before, &mut after]
                    .map(|vgic| vgic.read_unfolded(frame, offset, Width::Word));
                assert_eq!(a, b, "{frame:?} {offset:#x}");
            }
        }
    }
}

/// A read of a state kicks the vCPU whose list register may differ from the model, and no other one.
#[test]
fn a_read_kicks_only_the_vcpu_whose_list_register_may_differ() {
    for version in [GicVersion::V2, GicVersion::V3] {
        let (vgic, _) = with_listed(version);
        let dist = Frame::distributor(version, V1);
        let (own, base) = private(version, V0);
        let (other, _) = private(version, V1);
        let active: [u64; 2] = [0x300, 0x380];
        let cases = [
            0x080, 0x100, 0x180, 0x200, 0x280, 0x300, 0x380, 0x400, 0xc00,
        ];
        for register in cases {
            let kicked = (0x200..0x400).contains(&register);
            for (frame, offset, kicked) in [
                (dist, register + 4, kicked),
                (own, base + register, kicked),
                (other, base + register, false),
            ] {
                let kick = vgic.clone().read(frame, offset, Width::Word).kick;
                assert_eq!(
                    kick.contains(V0),
                    kicked,
                    "{version:?} {frame:?} {offset:#x}"
                );
                assert!(!kick.contains(V1));
            }
        }
        // Only an active interrupt is listed: it cannot have become pending by itself.
        let mut vgic = vgic;
        vgic.clear_pending(None, IntId::new(33));
        let mut read = |offset| vgic.read(dist, offset, Width::Word).kick;
        assert_eq!(read(0x204), VcpuSet::EMPTY);
        assert!(active.iter().all(|at| read(at + 4) == VcpuSet::only(V0)));
    }
}

/// Reads of GICD_CPENDSGIR and GICD_SPENDSGIR by words and by bytes.
#[test]
fn senders_are_read_of_each_sgi_alone() {
    let (mut vgic, _) = with_listed(GicVersion::V2);
    // SGI 5 has a listed instance, and the same vCPU sends a second one; an instance of SGI 6 waits.
    vgic.private_sgi(5);
    vgic.private_sgi(6);
    for base in [0xf10, 0xf20] {
        for sgi in 0..16 {
            let value = if [5, 6].contains(&sgi) { 0b10 } else { 0 };
            let kicked = if sgi == 5 {
                VcpuSet::only(V0)
            } else {
                VcpuSet::EMPTY
            };
            let read = vgic.clone().read(Frame::V2(V0), base + sgi, Width::Byte);
            assert_eq!((read.value, read.kick), (value, kicked), "{sgi}");
            let read = vgic.clone().read(Frame::V2(V1), base + sgi, Width::Byte);
            assert_eq!((read.value, read.kick), (0, VcpuSet::EMPTY), "{sgi}");
        }
        let words = [
            (0, 0, false),
            (4, 0x0002_0200, true),
            (8, 0, false),
            (12, 0, false),
        ];
        for (offset, value, kicked) in words {
            let read = vgic.clone().read(Frame::V2(V0), base + offset, Width::Word);
            assert_eq!(
                (read.value, read.kick.contains(V0)),
                (value, kicked),
                "{offset}"
            );
        }
    }
}

/// An SPI or a GICv3's SGI has no sender, although its bit is that of an SGI with one.
#[test]
fn only_a_gicv2_s_sgis_have_senders() {
    for version in [GicVersion::V2, GicVersion::V3] {
        let (mut vgic, _) = with_listed(version);
        vgic.pulse(None, IntId::new(37));
        vgic.pulse(None, IntId::new(41));
        for one in vgic.snapshot() {
            let sent = version == GicVersion::V2 && one.id == IntId::new(5);
            assert_eq!(one.senders, if sent { 0b10 } else { 0 }, "{one:?}");
        }
        vgic.check_snapshot();
    }
}

/// A write of the former value, or for interrupts that are idle, kicks no vCPU, although several are listed.
#[test]
fn a_write_that_changes_nothing_kicks_no_vcpu() {
    for version in [GicVersion::V2, GicVersion::V3] {
        let (mut vgic, _) = with_listed(version);
        let dist = Frame::distributor(version, V0);
        let (frame, base) = private(version, V0);
        for (frame, at) in [(dist, 4), (frame, base)] {
            let group = vgic.read(frame, at + 0x80, Width::Word).value;
            let idle = 0xc0;
            for (register, value) in [
                (0x080, group),
                (0x100, 0),
                (0x180, idle),
                (0x280, idle),
                (0x380, idle),
            ] {
                let kick = vgic.write(frame, at + register, Width::Word, value);
                assert_eq!(kick, VcpuSet::EMPTY, "{version:?} {frame:?} {register:#x}");
            }
        }
        let priorities = vgic.read(dist, 0x420, Width::Word).value;
        assert_eq!(
            vgic.write(dist, 0x420, Width::Word, priorities),
            VcpuSet::EMPTY
        );
        assert!(!vgic.needs_entry(V0));
    }
}

/// Whether there is a register of a word at this offset, for reads and for writes.
fn exists(frame: Frame, offset: u64) -> [bool; 2] {
    let mut vgic = Vgic::new(GicVersion::V3, 1, 5);
    vgic.read(frame, offset, Width::Word);
    let read = vgic.unknown_accesses() == 0;
    let before = vgic.unknown_accesses();
    vgic.write(frame, offset, Width::Word, 0);
    [read, vgic.unknown_accesses() == before]
}

/// IHI 0069H, 12.10: the registers of RD_base and SGI_base, without LPIs.
#[test]
fn a_redistributor_has_the_registers_of_the_manual() {
    let first = [0x80, 0x100, 0x180, 0x200, 0x280, 0x300, 0x380];
    let priorities = (0x400..0x420).step_by(4);
    let own: Vec<u64> = first
        .into_iter()
        .chain(priorities)
        .chain([0xc00, 0xc04, 0xd00, 0xe00])
        .collect();
    for offset in (0..SGI_BASE).step_by(4) {
        let there = offset <= 0x14 || offset >= 0xffd0;
        assert_eq!(exists(Frame::Redist(V0), offset), [there; 2], "{offset:#x}");
        let [read, written] = exists(Frame::Redist(V0), SGI_BASE + offset);
        // GICR_NSACR is for SGIs; a second word like it, for PPIs, reads as zero.
        let there = own.contains(&offset) || offset == 0xe04;
        assert_eq!(written, there, "{offset:#x}");
        assert_eq!(read, there || offset >= 0xffd0, "{offset:#x}");
    }
}

/// The identification registers are at the end of both frames, in words.
#[test]
fn both_frames_of_a_redistributor_have_its_identification() {
    let mut vgic = Vgic::new(GicVersion::V3, 1, 5);
    for offset in (0xffd0..SGI_BASE).step_by(4) {
        let [a, b] = [offset, SGI_BASE + offset]
            .map(|at| vgic.read(Frame::Redist(V0), at, Width::Word).value);
        assert_eq!(a, b);
    }
    assert_eq!(vgic.unknown_accesses(), 0);
    for offset in 0xffd0..SGI_BASE {
        vgic.read(Frame::Redist(V0), SGI_BASE + offset, Width::Byte);
    }
    assert_eq!(vgic.unknown_accesses(), 0x30);
}

#[test]
fn a_frame_with_private_interrupts_names_its_vcpu() {
    assert_eq!(Frame::Dist.vcpu(), None);
    assert_eq!(Frame::Redist(V1).vcpu(), Some(V1));
    assert_eq!(Frame::V2(V1).vcpu(), Some(V1));
}
