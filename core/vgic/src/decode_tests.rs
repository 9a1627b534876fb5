//! The target that a guest's write of an SGI register names, field by field.

use crate::{Frame, SgiRegister, Sgir, Vgic};
use hanok_types::{GicVersion, IntId, VcpuId, VcpuSet, Width};

/// Each bit alone beside a few lists of targets, and pairs of them.
fn values(bits: u32, targets: u32) -> impl Iterator<Item = u64> {
    let lists = [0, 1, 2, 3, 1 << 7, 0x81].map(move |list: u64| list << targets);
    lists.into_iter().flat_map(move |list| {
        let odd = (0..=bits).flat_map(move |a| (0..=bits).map(move |b| (a, b)));
        odd.map(move |(a, b)| {
            let bit = |n: u32| 1u64.checked_shl(n).filter(|_| n < bits).unwrap_or(0);
            list | bit(a) | bit(b)
        })
    })
}

/// IHI 0069H, ICC_SGI1R_EL1: TargetList in bits 15:0, Aff1 in 23:16, INTID in 27:24, Aff2 in 39:32,
/// IRM in bit 40, RS in 47:44, Aff3 in 55:48; the others are reserved, and where one is set, no target is named.
#[test]
fn a_system_register_names_a_single_vcpu() {
    let mut fast = 0;
    for value in values(64, 0) {
        let list = value & 0xffff;
        let elsewhere = value & 0x00ff_f1ff_00fc_0000 != 0;
        let reserved = value & 0xff00_0e00_f000_0000 != 0;
        let single = !elsewhere && !reserved && list.count_ones() == 1;
        let wanted = single.then(|| {
            let affinity = (value >> 16 & 0xff) << 8 | u64::from(list.trailing_zeros());
            let target = VcpuId::of_affinity(affinity).expect("one of four clusters");
            ((value >> 24 & 0xf) as u32, target)
        });
        assert_eq!(SgiRegister::single_target(value), wanted, "{value:#x}");
        fast += usize::from(single);
    }
    assert!(fast > 100, "{fast}");
}

/// IHI 0048B, 4.3.15: TargetListFilter in bits 25:24, CPUTargetList in 23:16, SGIINTID in 3:0.
#[test]
fn a_gicv2_s_register_names_a_single_vcpu() {
    let mut fast = 0;
    for value in values(32, 16).map(|value| value as u32) {
        let list = value >> 16 & 0xff;
        let single = value >> 24 & 3 == 0 && list.count_ones() == 1;
        let wanted = single.then(|| (value & 0xf, VcpuId::new(list.trailing_zeros() as u8)));
        assert_eq!(Sgir::single_target(value), wanted, "{value:#x}");
        fast += usize::from(single);
    }
    assert!(fast > 1000, "{fast}");
}

/// A value names vCPUs of the first cluster only if all fields but the list of targets are zero.
#[test]
fn an_sgi_for_another_cluster_reaches_no_vcpu() {
    for fields in 0..16u64 {
        let elsewhere = [16, 32, 48, 44].into_iter().enumerate();
        let elsewhere = elsewhere.fold(0, |all, (n, at)| all | (fields >> n & 1) << at);
        let mut vgic = Vgic::new(GicVersion::V3, 3, 5);
        let value = 7 << 24 | 0b1111_0110 | elsewhere;
        vgic.send_sgi(VcpuId::new(0), value, SgiRegister::Sgi0);
        let reached = vgic.snapshot().filter(|one| one.id == IntId::new(7));
        let reached = reached
            .filter_map(|one| one.vcpu)
            .fold(VcpuSet::EMPTY, |mut all, vcpu| {
                all.insert(vcpu);
                all
            });
        let mut wanted = VcpuSet::EMPTY;
        if fields == 0 {
            wanted.insert(VcpuId::new(1));
            wanted.insert(VcpuId::new(2));
        }
        assert_eq!(reached, wanted, "{value:#x}");
    }
}

/// The fast path and the slow path have the same outcome, for each single target and each SGI.
#[test]
fn a_single_target_gets_the_same_by_both_paths() {
    for (id, to) in (0..16).flat_map(|id| (0..3).map(move |to| (id, to))) {
        let (from, target) = (VcpuId::new(1), VcpuId::new(to));
        for version in [GicVersion::V2, GicVersion::V3] {
            let mut fast = Vgic::new(version, 3, 5);
            for cpu in fast.cpus.iter_mut() {
                cpu.private.group1 = 0x5555;
                cpu.private.enabled = 0xff0f;
            }
            fast.write(Frame::distributor(version, from), 0, Width::Word, 3);
            let mut slow = fast.clone();
            let (kick, kicked) = match version {
                GicVersion::V2 => {
                    let value = 1 << (16 + to) | id;
                    let (sgi, vcpu) = Sgir::single_target(value).expect("a single one");
                    assert_eq!((sgi, vcpu), (id, target));
                    (
                        fast.send_sgi_to(from, sgi, vcpu),
                        slow.write(Frame::V2(from), Sgir::OFFSET, Width::Word, value.into()),
                    )
                }
                GicVersion::V3 => {
                    let value = u64::from(id) << 24 | 1 << to;
                    let (sgi, vcpu) = SgiRegister::single_target(value).expect("a single one");
                    assert_eq!((sgi, vcpu), (id, target));
                    (
                        fast.send_sgi_to(from, sgi, vcpu),
                        slow.send_sgi(from, value, SgiRegister::Sgi1),
                    )
                }
            };
            assert_eq!(
                kick.contains(target),
                kicked.contains(target),
                "{version:?} {id} {to}"
            );
            assert!(fast.snapshot().eq(slow.snapshot()), "{version:?} {id} {to}");
            fast.check();
        }
    }
}
