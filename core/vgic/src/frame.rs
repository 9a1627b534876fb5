//! The guest's accesses to the register frames: what is shared by GICv3's distributor and
//! redistributors and GICv2's distributor, which is everything that has a bit, two bits or a
//! byte an interrupt.
//!
//! With affinity routing always on and a single security state, GICv3's registers for the
//! states without (ITARGETSR, SGIR, NSACR, IGRPMODR) are there and read as zero.

use crate::bank::{Bank, SPI_BANKS, bits};
use crate::state::{InterruptPlace, Vgic};
use hanok_types::{GicVersion, VcpuId, VcpuSet, Width};

/// Which register frame an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A GICv3's distributor, 64 KiB.
    Dist,
    /// A vCPU's redistributor of a GICv3, 128 KiB: RD_base, then SGI_base.
    Redist(VcpuId),
    /// A GICv2's distributor, 4 KiB, as that vCPU sees it.
    V2(VcpuId),
}

impl Frame {
    /// The distributor of this version, as `vcpu` sees it.
    pub const fn distributor(version: GicVersion, vcpu: VcpuId) -> Self {
        match version {
            GicVersion::V2 => Self::V2(vcpu),
            GicVersion::V3 => Self::Dist,
        }
    }

    /// The vCPU whose private interrupts are in it, if one's are.
    pub const fn vcpu(self) -> Option<VcpuId> {
        match self {
            Self::Dist => None,
            Self::Redist(vcpu) | Self::V2(vcpu) => Some(vcpu),
        }
    }
}

/// What a read gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The register's value.
    pub value: u64,
    /// vCPUs to be kicked, as their list registers may know better: the guest that polls
    /// gets the truth once they have entered.
    pub kick: VcpuSet,
}

impl From<u64> for Read {
    fn from(value: u64) -> Self {
        Self {
            value,
            kick: VcpuSet::EMPTY,
        }
    }
}

/// Where the registers begin of which each interrupt has a part.
pub(crate) const INTERRUPTS: u64 = 0x0080;

/// A register of which each interrupt has a part; the offsets are the same in GICD and in
/// GICR's SGI_base (IHI 0069, chapter 12, the register maps; IHI 0048B, table 4-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BitRegister {
    Group,
    SetEnable,
    ClearEnable,
    SetPending,
    ClearPending,
    SetActive,
    ClearActive,
}

/// What a word-aligned offset means in either frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    /// Word `.1` of one bit an interrupt.
    Bits(BitRegister, usize),
    /// IPRIORITYR, from interrupt `.0` on.
    Priority(u32),
    /// ICFGR, from interrupt `.0` on.
    Config(u32),
    /// Read-as-zero, as there is one security state and affinity routing; from interrupt
    /// `.0` on.
    Nothing(u32),
}

impl Shared {
    /// Decodes an offset; also the byte offsets of registers with bytes.
    pub fn decode(offset: u64) -> Option<Self> {
        use BitRegister::*;
        let word = (offset % 0x80 / 4) as usize;
        let within = |start: u64| (offset - start) as u32;
        Some(match offset {
            0x080..0x100 => Self::Bits(Group, word),
            0x100..0x180 => Self::Bits(SetEnable, word),
            0x180..0x200 => Self::Bits(ClearEnable, word),
            0x200..0x280 => Self::Bits(SetPending, word),
            0x280..0x300 => Self::Bits(ClearPending, word),
            0x300..0x380 => Self::Bits(SetActive, word),
            0x380..0x400 => Self::Bits(ClearActive, word),
            0x400..0x7fc => Self::Priority(within(0x400)),
            0x800..0xbfc => Self::Nothing(within(0x800)),
            0xc00..0xd00 => Self::Config(within(0xc00) * 4),
            0xd00..0xd80 => Self::Nothing(within(0xd00) * 8),
            0xe00..0xf00 => Self::Nothing(within(0xe00) * 4),
            _ => return None,
        })
    }

    /// The first interrupt of which it has a part.
    pub fn first(self) -> u32 {
        match self {
            Self::Bits(_, word) => word as u32 * 32,
            Self::Priority(id) | Self::Config(id) | Self::Nothing(id) => id,
        }
    }

    /// Whether it may be accessed in bytes (IHI 0069, "GIC memory-mapped register access").
    pub fn takes_bytes(self, offset: u64) -> bool {
        matches!(self, Self::Priority(_)) || (0x800..0xbfc).contains(&offset)
    }
}

impl Vgic {
    /// A guest's read. What is not there, or not in this width, or in a frame of the other
    /// version, reads as zero and counts.
    pub fn read(&mut self, frame: Frame, offset: u64, width: Width) -> Read {
        let read = if !offset.is_multiple_of(width.bytes()) {
            None
        } else {
            match (self.version.served(), frame) {
                (GicVersion::V3, Frame::Dist) => self.read_dist(offset, width),
                (GicVersion::V3, Frame::Redist(vcpu)) => self.read_redist(vcpu, offset, width),
                (GicVersion::V2, Frame::V2(vcpu)) => self.read_v2(vcpu, offset, width),
                _ => None,
            }
        };
        self.unknown += u64::from(read.is_none());
        read.unwrap_or_default()
    }

    /// [`Self::read`] of a register whose value does not depend on list registers, so that neither
    /// a [`Self::fold`] before nor an [`Self::enter`] after it is needed. For other registers the answer
    /// is `None`.
    #[inline(always)]
    pub fn read_unfolded(&mut self, frame: Frame, offset: u64, width: Width) -> Option<u64> {
        let own = (4..INTERRUPTS).contains(&offset) && width == Width::Word;
        if own && !matches!(frame, Frame::Redist(_)) {
            return Some(self.read_own(frame, offset));
        }
        self.read_other_without_fold(frame, offset, width)
    }

    #[inline(never)]
    fn read_other_without_fold(&mut self, frame: Frame, offset: u64, width: Width) -> Option<u64> {
        // These depend on list registers: pending and active states, GICD_CTLR and GICR_CTLR (RWP),
        // pending SGIs and their senders.
        let independent = matches!(offset & 0xffff, 4..0x200 | 0x400..0xf00 | 0xf30..);
        independent.then(|| self.read(frame, offset, width).value)
    }

    /// A word of the distributor's own, before those that have a part for each interrupt.
    #[inline(always)]
    fn read_own(&mut self, frame: Frame, offset: u64) -> u64 {
        let value = match (self.version.served(), frame) {
            (GicVersion::V3, Frame::Dist) => self.read_dist_word(offset),
            (GicVersion::V2, Frame::V2(_)) => self.read_v2_word(offset),
            _ => None,
        };
        if value.is_none() {
            self.unknown += 1;
        }
        value.unwrap_or(0)
    }

    /// A guest's write; returns the vCPUs to be kicked, which may include the writer (it
    /// needs no kick, only its `enter`). What is not there, or not in this width, or in a
    /// frame of the other version, is ignored and counts.
    pub fn write(&mut self, frame: Frame, offset: u64, width: Width, value: u64) -> VcpuSet {
        let value = value & width.mask();
        let written = if !offset.is_multiple_of(width.bytes()) {
            None
        } else {
            match (self.version.served(), frame) {
                (GicVersion::V3, Frame::Dist) => self.write_dist(offset, width, value),
                (GicVersion::V3, Frame::Redist(vcpu)) => {
                    self.write_redist(vcpu, offset, width, value)
                }
                (GicVersion::V2, Frame::V2(vcpu)) => self.write_v2(vcpu, offset, width, value),
                _ => None,
            }
        };
        self.unknown += u64::from(written.is_none());
        written.unwrap_or_default()
    }

    /// Reads from the bank at `place`, to which `shared` belongs.
    pub(crate) fn read_shared(
        &mut self,
        place: InterruptPlace,
        shared: Shared,
        width: Width,
    ) -> Read {
        let Some(bank) = self.bank(place) else {
            return Read::default();
        };
        let bit = shared.first() % 32;
        match shared {
            Shared::Bits(register, _) => self.read_bits(place, register),
            Shared::Priority(_) => bank.read_priority(bit, width.bytes() as u32).into(),
            Shared::Config(_) => bank.read_config(bit).into(),
            Shared::Nothing(_) => Read::default(),
        }
    }

    fn read_bits(&mut self, place: InterruptPlace, register: BitRegister) -> Read {
        use BitRegister::*;
        let Some(bank) = self.bank(place) else {
            return Read::default();
        };
        let listed = bank.listed;
        let (value, stale) = match register {
            Group => (bank.group1, 0),
            SetEnable | ClearEnable => (bank.enabled, 0),
            SetPending | ClearPending => (bank.pending(), bank.shown),
            SetActive | ClearActive => (bank.active, listed),
        };
        Read {
            value: u64::from(value),
            kick: self.mark_listed(place, stale & listed),
        }
    }

    /// Writes to the bank at `place`, to which `shared` belongs.
    pub(crate) fn write_shared(
        &mut self,
        place: InterruptPlace,
        shared: Shared,
        width: Width,
        value: u64,
    ) -> VcpuSet {
        let priority_mask = self.priority_mask;
        let first = shared.first() % 32;
        let Some(bank) = self.bank_mut(place) else {
            return VcpuSet::EMPTY;
        };
        let changed = match shared {
            Shared::Bits(register, _) => return self.write_bits(place, register, value as u32),
            Shared::Priority(_) => bank.write_priority(first, width, value, priority_mask),
            Shared::Config(_) if shared.first() < 16 => 0,
            Shared::Config(_) => bank.write_config(first, value as u32),
            Shared::Nothing(_) => 0,
        };
        self.touch(place, changed)
    }

    pub(crate) fn write_bits(
        &mut self,
        place: InterruptPlace,
        register: BitRegister,
        value: u32,
    ) -> VcpuSet {
        if register == BitRegister::SetActive {
            self.adopt(place, value);
        }
        let Some(bank) = self.bank_mut(place) else {
            return VcpuSet::EMPTY;
        };
        let changed = bank.write_bits(register, value);
        let released = bank.released != 0;
        self.any_released |= released;
        let mut kick = self.touch(place, changed);
        if released && place.word == 0 {
            // Its own pCPU must deactivate a private physical interrupt.
            kick = kick.union(self.mark(place.cpu, place));
        }
        kick
    }

    /// Those that the guest declares active, and that no vCPU has, get their target as home.
    fn adopt(&mut self, place: InterruptPlace, value: u32) {
        let free = self
            .bank(place)
            .map_or(0, |bank| !bank.active & !bank.listed);
        let Some(spi) = place.word.checked_sub(1) else {
            return;
        };
        // All that have one target at once, so that a word of 32 takes little longer than one of them.
        let mut left = value & free;
        while left != 0 {
            let bit = left.trailing_zeros();
            let target = self.target_of(place, bit);
            let theirs = target.and_then(|cpu| self.cpus.get(cpu));
            let routed = theirs.map_or(0, |cpu| cpu.routed[spi % SPI_BANKS]);
            let mask = left & (routed | 1 << bit);
            // Those that go nowhere are the first vCPU's.
            self.set_homes(place, mask, target.unwrap_or(0));
            left &= !mask;
        }
    }
}

impl Bank {
    fn read_priority(&self, first: u32, count: u32) -> u64 {
        (0..count).fold(0, |value, n| {
            value | u64::from(self.priority(first + n)) << (8 * n)
        })
    }

    fn write_priority(&mut self, first: u32, width: Width, value: u64, mask: u8) -> u32 {
        let bytes = value.to_le_bytes();
        (first..32)
            .zip(bytes.iter().take(width.bytes() as usize))
            .fold(0, |changed, (bit, byte)| {
                changed | self.priorities.set(bit, byte & mask)
            })
    }

    /// Two bits an interrupt, of which the upper one says edge.
    fn read_config(&self, first: u32) -> u64 {
        bits(self.edge >> first & 0xffff).fold(0, |value, bit| value | 2 << (2 * bit))
    }

    fn write_config(&mut self, first: u32, value: u32) -> u32 {
        let edge = (0..16).fold(0, |edge, n| edge | (value >> (2 * n + 1) & 1) << n) << first;
        let changed = (self.edge ^ edge) & 0xffff << first;
        self.edge ^= changed;
        changed
    }

    /// Applies a write; the interrupts that have to be looked at for it.
    pub(crate) fn write_bits(&mut self, register: BitRegister, value: u32) -> u32 {
        use BitRegister::*;
        // Which of these a GICv2's SGIs have is up to the implementation, and QEMU's has none
        // (IHI 0048B, 4.3.5 to 4.3.8: GICD_SPENDSGIR and GICD_CPENDSGIR take their place).
        let value = match register {
            ClearEnable | SetPending | ClearPending => value & !self.sourced,
            _ => value,
        };
        match register {
            Group => {
                let changed = self.group1 ^ value;
                self.group1 = value;
                changed
            }
            SetEnable => self.enable(value & !self.enabled),
            ClearEnable => {
                let changed = value & self.enabled;
                self.enabled &= !value;
                changed
            }
            SetPending => {
                self.latch |= value;
                value
            }
            ClearPending => self.clear_pending(value),
            SetActive => self.set_active(value),
            ClearActive => self.clear_active(value),
        }
    }

    /// Enables interrupts. The line of a physical one that waited for this may have fallen meanwhile: it is
    /// released, and fires again if its line is still high. An edge would not fire again, so it stays.
    fn enable(&mut self, new: u32) -> u32 {
        self.enabled |= new;
        let resample = new & self.hardware & self.latch & !(self.edge | self.listed | self.active);
        self.latch &= !resample;
        self.release_ended(resample);
        new
    }

    fn clear_pending(&mut self, value: u32) -> u32 {
        let listed = value & self.listed;
        self.latch &= !value;
        self.unpend_listed(listed);
        self.release_ended(value);
        listed
    }

    /// Ends the pending state that list registers show of these interrupts.
    pub(crate) fn unpend_listed(&mut self, listed: u32) {
        self.shown &= !listed;
        self.soft &= !listed;
        self.unpend |= listed;
    }

    fn set_active(&mut self, value: u32) -> u32 {
        self.forced |= value & !self.active & !self.listed;
        self.activate |= value & self.listed;
        self.deactivate &= !value;
        self.active |= value;
        value
    }

    fn clear_active(&mut self, value: u32) -> u32 {
        let ended = value & (self.active | self.listed);
        self.deactivate |= value & self.listed;
        self.activate &= !value;
        self.active &= !value;
        self.forced &= !value;
        self.release_ended(ended);
        ended
    }
}
