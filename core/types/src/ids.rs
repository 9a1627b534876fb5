//! Ids of VMs, vCPUs, pCPUs and interrupts, and the sizes of the pools they index.

use core::fmt;

/// How many VMs one hypervisor holds at most.
pub const MAX_VMS: usize = 64;
/// How many vCPUs one VM holds at most; with a GICv2, [`GICV2_CPUS`].
pub const MAX_VCPUS: usize = 64;
/// How many pCPUs one board has at most; with a GICv2, [`GICV2_CPUS`].
pub const MAX_CPUS: usize = 64;
/// How many CPU interfaces a GICv2 has at most (IHI 0048B, 1.2), of a VM and of a board.
pub const GICV2_CPUS: usize = 8;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u8);

        impl $name {
            /// The id with this index.
            pub const fn new(index: u8) -> Self {
                Self(index)
            }

            /// The index, for tables.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A VM, by its place in the description.
    VmId
}
id! {
    /// A vCPU, by its place in its VM.
    VcpuId
}
id! {
    /// A physical CPU, by its place in the board's device tree.
    CpuId
}

impl VcpuId {
    /// How many vCPUs have the same Aff1, as on QEMU's `virt` with a GICv3: as many as ICC_SGI1R_EL1 names
    /// by one value. A GICv2's VM has no more than eight.
    pub const CLUSTER: u8 = 16;
    /// How many values of Aff1 vCPUs have; a power of two.
    pub const CLUSTERS: u8 = (MAX_VCPUS / Self::CLUSTER as usize) as u8;

    /// The affinity fields of its MPIDR_EL1: Aff0 counts to 15, then Aff1 goes on.
    pub const fn affinity(self) -> u64 {
        ((self.0 / Self::CLUSTER) as u64) << 8 | (self.0 % Self::CLUSTER) as u64
    }

    /// The vCPU that has this affinity; `None` where none of [`MAX_VCPUS`] has, as where a bit is set
    /// that is no affinity.
    pub const fn of_affinity(affinity: u64) -> Option<Self> {
        let (aff1, aff0) = (affinity >> 8, (affinity & 0xff) as u8);
        if aff0 >= Self::CLUSTER || aff1 >= Self::CLUSTERS as u64 {
            return None;
        }
        Some(Self(aff1 as u8 * Self::CLUSTER + aff0))
    }
}

/// A set of vCPUs of one VM, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcpuSet(u64);

impl VcpuSet {
    /// None.
    pub const EMPTY: Self = Self(0);

    /// Just this one.
    pub const fn only(vcpu: VcpuId) -> Self {
        Self(1 << vcpu.index())
    }

    /// The first `count` vCPUs, `count` at most [`MAX_VCPUS`].
    pub const fn first(count: usize) -> Self {
        match count {
            0..MAX_VCPUS => Self((1 << count) - 1),
            _ => Self(u64::MAX),
        }
    }

    /// Those with this Aff1 whose bit of Aff0 is set in `targets`, whether or not they are there.
    pub const fn of_cluster(aff1: u8, targets: u16) -> Self {
        if aff1 < VcpuId::CLUSTERS {
            Self((targets as u64) << (aff1 * VcpuId::CLUSTER))
        } else {
            Self::EMPTY
        }
    }

    /// Those in both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Adds one.
    pub fn insert(&mut self, vcpu: VcpuId) {
        self.0 |= 1 << vcpu.index();
    }

    /// Takes one out.
    pub fn remove(&mut self, vcpu: VcpuId) {
        self.0 &= !(1 << vcpu.index());
    }

    /// Whether this one is in it.
    pub const fn contains(self, vcpu: VcpuId) -> bool {
        self.0 & (1 << vcpu.index()) != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those in either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Its members, lowest first.
    pub fn iter(self) -> impl Iterator<Item = VcpuId> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let lowest = (left != 0).then_some(left.trailing_zeros() as u8)?;
            left &= left - 1;
            Some(VcpuId::new(lowest))
        })
    }
}

const _: () = assert!(MAX_VCPUS == u64::BITS as usize, "a bit for each of them");

/// Whose an interrupt id is (GICv3 architecture, IHI 0069H, 2.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntKind {
    /// 0 to 15: software generated, private to a CPU.
    Sgi,
    /// 16 to 31: from a device private to a CPU.
    Ppi,
    /// 32 to 1019: from a device that any CPU may serve.
    Spi,
    /// Anything above: special or not supported here.
    Special,
}

/// An interrupt id (INTID).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntId(u32);

impl IntId {
    /// The id with this number.
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// The SPI with this number in a device tree (its INTID less 32).
    pub const fn spi(number: u32) -> Self {
        Self(32 + number)
    }

    /// The PPI with this number in a device tree (its INTID less 16).
    pub const fn ppi(number: u32) -> Self {
        Self(16 + number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whose it is.
    pub const fn kind(self) -> IntKind {
        match self.0 {
            0..=15 => IntKind::Sgi,
            16..=31 => IntKind::Ppi,
            32..=1019 => IntKind::Spi,
            _ => IntKind::Special,
        }
    }

    /// Whether private to a CPU (SGI or PPI).
    pub const fn is_private(self) -> bool {
        self.0 < 32
    }
}

impl fmt::Display for IntId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which architecture of interrupt controller a VM sees, which is always its board's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GicVersion {
    /// GICv2 (IHI 0048B): memory-mapped CPU interface.
    V2,
    /// GICv3 (IHI 0069H) or later: system registers.
    #[default]
    V3,
}

impl fmt::Display for GicVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V2 => "GICv2",
            Self::V3 => "GICv3",
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::format;
    use std::string::ToString;

    #[test]
    fn affinities_are_those_of_qemu_s_virt_and_come_back() {
        let affinity = |index| VcpuId::new(index).affinity();
        let edges = [0, 7, 8, 15, 16, 31, 32, 63].map(affinity);
        let expected = [0, 7, 8, 15, 0x100, 0x10f, 0x200, 0x30f];
        assert_eq!(edges, expected);
        for index in 0..MAX_VCPUS as u8 {
            let found = VcpuId::of_affinity(affinity(index));
            assert_eq!(found, Some(VcpuId::new(index)));
        }
        let named = (0..=u64::from(u16::MAX)).filter_map(VcpuId::of_affinity);
        assert_eq!(named.count(), MAX_VCPUS);
        for other in [0x10, 0x400, 0x1_0000, 1 << 31, 1 << 32, u64::MAX] {
            assert_eq!(VcpuId::of_affinity(other), None, "{other:#x}");
        }
    }

    #[test]
    fn a_set_holds_the_last_vcpu_too() {
        let all = VcpuSet::first(MAX_VCPUS);
        assert!(all.iter().map(VcpuId::index).eq(0..MAX_VCPUS));
        assert_eq!(VcpuSet::first(MAX_VCPUS + 1), all);
        let mut some = VcpuSet::EMPTY;
        for index in [63, 8, 15, 16, 31, 32] {
            some.insert(VcpuId::new(index));
        }
        assert!(some.iter().map(VcpuId::index).eq([8, 15, 16, 31, 32, 63]));
        assert!(
            some.intersection(VcpuSet::first(16))
                .iter()
                .map(VcpuId::index)
                .eq([8, 15])
        );
        let cluster = VcpuSet::of_cluster(3, 0x8001);
        assert!(cluster.iter().map(VcpuId::affinity).eq([0x300, 0x30f]));
        assert!(VcpuSet::of_cluster(4, u16::MAX).is_empty());
    }

    #[test]
    fn a_set_counts_its_members() {
        let mut set = VcpuSet::first(3);
        set.remove(VcpuId::new(1));
        set.insert(VcpuId::new(7));
        assert!(set.iter().map(VcpuId::index).eq([0, 2, 7]));
    }

    #[test]
    fn interrupts_and_controllers_are_shown_as_people_write_them() {
        assert_eq!(format!("{:>4}", IntId::new(27)), "  27");
        let versions = [GicVersion::V2, GicVersion::V3].map(|version| version.to_string());
        assert_eq!(versions, ["GICv2", "GICv3"]);
    }

    #[test]
    fn kinds_have_the_architecture_s_edges() {
        assert_eq!(IntId::new(15).kind(), IntKind::Sgi);
        assert_eq!(IntId::ppi(0).kind(), IntKind::Ppi);
        assert_eq!(IntId::spi(0), IntId::new(32));
        assert_eq!(IntId::new(1020).kind(), IntKind::Special);
    }

    #[test]
    fn a_set_is_empty_until_it_has_a_member() {
        assert!(VcpuSet::EMPTY.is_empty() && VcpuSet::first(0).is_empty());
        for index in 0..MAX_VCPUS as u8 {
            let vcpu = VcpuId::new(index);
            let mut set = VcpuSet::only(vcpu);
            assert!(set.contains(vcpu) && !set.is_empty());
            assert!(set.iter().eq([vcpu]));
            assert_eq!(set.union(VcpuSet::EMPTY), set);
            assert_eq!(set.union(set), set);
            let others = VcpuSet::first(index.into());
            assert!(!others.contains(vcpu));
            assert_eq!(set.union(others), VcpuSet::first(usize::from(index) + 1));
            set.insert(vcpu);
            set.remove(vcpu);
            set.remove(vcpu);
            assert!(!set.contains(vcpu) && set.is_empty());
        }
    }

    /// IHI 0069H, table 2-1.
    #[test]
    fn every_interrupt_is_of_the_kind_that_its_number_says() {
        for number in 0..1100 {
            let id = IntId::new(number);
            let kind = match number {
                0..16 => IntKind::Sgi,
                16..32 => IntKind::Ppi,
                32..1020 => IntKind::Spi,
                _ => IntKind::Special,
            };
            assert_eq!((id.get(), id.kind()), (number, kind));
            assert_eq!(id.is_private(), matches!(kind, IntKind::Sgi | IntKind::Ppi));
        }
        assert_eq!((IntId::ppi(11).get(), IntId::spi(3).get()), (27, 35));
    }
}
