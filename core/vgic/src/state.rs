//! The parts of one VM's interrupt controller, and the access to them.

use crate::bank::{Bank, Groups, SPI_BANKS, bits};
pub(crate) use crate::cpu::Cpu;
pub use crate::cpu::MAX_LRS;
use crate::cpus::{CpuPart, Cpus};
use bitfield_struct::bitfield;
use hanok_types::platform::SPIS;
use hanok_types::{GicVersion, IntId, VcpuId, VcpuSet};

/// Ids that exist: private ones and SPIs.
pub(crate) const IDS: u32 = 32 + SPIS;

/// GICD_IROUTER<n>. The value of a GICv2's GICD_ITARGETSR is kept as the route that follows
/// from it, so that a search for a target need not know the version.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub(crate) struct Route {
    pub aff0: u8,
    pub aff1: u8,
    pub aff2: u8,
    #[bits(7)]
    __: u8,
    /// Any participating CPU.
    pub any: bool,
    pub aff3: u8,
    /// GICv2: the CPUs of GICD_ITARGETSR, a bit each.
    pub targets: u8,
    #[bits(16)]
    __: u32,
}

impl Route {
    /// An affinity that no vCPU has.
    const NO_VCPU: u8 = u8::MAX;

    /// The route for a GICv2's `targets`: of several CPUs that may take an interrupt, the
    /// first one does (IHI 0048B, 1.4.3, the 1-N model: any one of them).
    pub const fn to_one_of(targets: u8) -> Self {
        let first = match targets {
            0 => Self::NO_VCPU,
            _ => targets.trailing_zeros() as u8,
        };
        Self::new().with_aff0(first).with_targets(targets)
    }

    /// Every SPI's route after reset: to affinity 0 on a GICv3. On a GICv2 it goes to no CPU, unless
    /// there is only one CPU (IHI 0048B, 4.3.12, and as on QEMU).
    const fn initial(version: GicVersion, vcpus: usize) -> Self {
        match version {
            GicVersion::V2 if vcpus > 1 => Self::to_one_of(0),
            _ => Self::new(),
        }
    }

    /// The SPIs of a word that go to the first vCPU, if all of them have this initial route.
    const fn first_ones(self) -> u32 {
        if self.aff0() == 0 { u32::MAX } else { 0 }
    }
}

/// The bank that an interrupt is in: word 0 has `cpu`'s private interrupts, the others have the SPIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterruptPlace {
    pub cpu: usize,
    pub word: usize,
}

/// The interrupt controller of one VM. See the crate's documentation for who may call what.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
pub struct Vgic {
    pub(crate) version: GicVersion,
    pub(crate) vcpus: usize,
    /// The implemented bits of a priority.
    pub(crate) priority_mask: u8,
    pub(crate) groups: Groups,
    pub(crate) cpus: Cpus,
    pub(crate) spis: [Bank; SPI_BANKS],
    pub(crate) routes: [Route; SPIS as usize],
    /// The home of each SPI.
    homes: [u8; SPIS as usize],
    /// The vCPU that takes the SPIs which any vCPU may take.
    participant: usize,
    /// The SPIs that any vCPU may take.
    pub(crate) any: [u32; SPI_BANKS],
    pub(crate) unknown: u64,
    pub(crate) any_released: bool,
    /// vCPUs marked while another's list registers were folded.
    pub(crate) kicks: VcpuSet,
}

impl Vgic {
    /// The controller of a VM that has one vCPU more than `others` has parts. The parts must be as
    /// [`CpuPart::new`] made them. The CPUs' virtual interface has `priority_bits` bits of priority:
    /// on a GICv3 5 to 8, which is ICH_VTR_EL2.PRIbits + 1; on a GICv2 5 (IHI 0048B, GICH_LR<n>.Priority).
    pub fn of_parts(
        version: GicVersion,
        others: &'static mut [CpuPart],
        priority_bits: u32,
    ) -> Self {
        let priority_bits = match priority_bits {
            0..4 => 4,
            4..=8 => priority_bits,
            _ => 8,
        };
        let cpus = Cpus::new(version, others);
        let vcpus = cpus.len();
        let route = Route::initial(version, vcpus);
        let mut this = Self {
            version,
            vcpus,
            priority_mask: (0xff00u32 >> priority_bits) as u8,
            groups: Groups {
                group0: 0,
                group1: 0,
            },
            cpus,
            spis: core::array::from_fn(|_| Bank::spis()),
            routes: [route; SPIS as usize],
            homes: [0; SPIS as usize],
            participant: 0,
            any: [0; SPI_BANKS],
            unknown: 0,
            any_released: false,
            kicks: VcpuSet::EMPTY,
        };
        let first = this.cpus.first_mut();
        first.routed = [route.first_ones(); SPI_BANKS];
        first.homed = [u32::MAX; SPI_BANKS];
        this
    }

    /// [`Self::of_parts`] for a number of vCPUs, on a PC.
    #[cfg(any(test, feature = "fake"))]
    pub fn new(version: GicVersion, vcpus: usize, priority_bits: u32) -> Self {
        let others = (1..vcpus).map(|_| CpuPart::new(version)).collect();
        Self::of_parts(version, std::boxed::Box::leak(others), priority_bits)
    }

    /// Resets the controller to its state after [`Self::new`], except for the levels of the lines, which
    /// their devices reset. The vCPUs must be stopped; each clears its list registers at its
    /// next `enter` or `leave`. Physical interrupts that were held are released.
    pub fn reset(&mut self) {
        for vcpu in VcpuSet::first(self.vcpus).iter() {
            self.reset_private(vcpu);
        }
        self.reset_shared();
    }

    /// The part of [`Self::reset`] that is `vcpu`'s own. It must be called for all vCPUs before
    /// [`Self::reset_shared`].
    pub fn reset_private(&mut self, vcpu: VcpuId) {
        let fresh = Bank::private(self.version.served());
        if let Some(cpu) = self.cpu_mut(vcpu.index()) {
            cpu.reset(&fresh);
        }
    }

    /// The part of [`Self::reset`] that all vCPUs share.
    pub fn reset_shared(&mut self) {
        let fresh = Bank::spis();
        self.spis.iter_mut().for_each(|bank| bank.reset(&fresh));
        self.groups = Groups::new(false, false);
        let route = Route::initial(self.version.served(), self.vcpus);
        self.routes = [route; SPIS as usize];
        let first = self.cpus.first_mut();
        first.routed = [route.first_ones(); SPI_BANKS];
        first.homed = [u32::MAX; SPI_BANKS];
        self.homes = [0; SPIS as usize];
        self.participant = 0;
        self.any = [0; SPI_BANKS];
        self.any_released = true;
    }

    /// The version of the architecture that it shows to the guest.
    pub const fn version(&self) -> GicVersion {
        self.version.served()
    }

    /// How many accesses there were to registers that do not exist, or in a width that the
    /// register does not take.
    pub fn unknown_accesses(&self) -> u64 {
        self.unknown
    }

    /// Counts such an access to a CPU interface in software.
    pub fn count_unknown(&mut self) {
        self.unknown = self.unknown.saturating_add(1);
    }

    pub(crate) fn cpu(&self, cpu: usize) -> Option<&Cpu> {
        self.cpus.get(cpu)
    }

    pub(crate) fn cpu_mut(&mut self, cpu: usize) -> Option<&mut Cpu> {
        self.cpus.get_mut(cpu)
    }

    #[inline(never)]
    pub(crate) fn bank(&self, place: InterruptPlace) -> Option<&Bank> {
        match place.word.checked_sub(1) {
            None => self.cpu(place.cpu).map(|cpu| &cpu.private),
            Some(spi) => self.spis.get(spi),
        }
    }

    pub(crate) fn bank_mut(&mut self, place: InterruptPlace) -> Option<&mut Bank> {
        match place.word.checked_sub(1) {
            None => self.cpu_mut(place.cpu).map(|cpu| &mut cpu.private),
            Some(spi) => self.spis.get_mut(spi),
        }
    }

    /// The place of `id` for `vcpu` (which an SPI does not need), and its bit there. The place of an id or
    /// vCPU that does not exist has no bank.
    pub(crate) fn place(&self, vcpu: Option<VcpuId>, id: IntId) -> Option<(InterruptPlace, u32)> {
        let word = (id.get() / 32) as usize;
        let cpu = match vcpu {
            Some(vcpu) => vcpu.index(),
            None if word == 0 => return None,
            None => 0,
        };
        Some((InterruptPlace { cpu, word }, id.get() % 32))
    }

    /// The vCPU whose list register has the interrupt, or had it when that was last read.
    pub(crate) fn home_of(&self, place: InterruptPlace, bit: u32) -> usize {
        match spi_index(place, bit) {
            None => place.cpu,
            Some(spi) => self.homes.get(spi).copied().unwrap_or(0).into(),
        }
    }

    /// Makes `cpu` the home of the interrupt.
    pub(crate) fn set_home(&mut self, place: InterruptPlace, bit: u32, cpu: usize) {
        let Some(home) = spi_index(place, bit).and_then(|spi| self.homes.get_mut(spi)) else {
            return;
        };
        let former = core::mem::replace(home, cpu as u8);
        let (spi, mask) = ((place.word - 1) % SPI_BANKS, 1 << bit);
        self.cpus[former.into()].homed[spi] &= !mask;
        self.cpus[cpu].homed[spi] |= mask;
    }

    /// Makes `cpu` the home of the interrupts of `mask` in a word of SPIs. All that had the same former
    /// home are taken from it in one operation.
    pub(crate) fn set_homes(&mut self, place: InterruptPlace, mask: u32, cpu: usize) {
        let Some(spi) = place.word.checked_sub(1).map(|spi| spi % SPI_BANKS) else {
            return;
        };
        let mut left = mask & !self.cpus[cpu].homed[spi];
        self.cpus[cpu].homed[spi] |= left;
        while left != 0 {
            let bit = left.trailing_zeros();
            let home = spi_index(place, bit).and_then(|spi| self.homes.get(spi));
            let former = &mut self.cpus[home.copied().unwrap_or(0).into()].homed[spi];
            let moved = left & (*former | 1 << bit);
            *former &= !moved;
            left &= !moved;
            for bit in bits(moved) {
                if let Some(home) = spi_index(place, bit).and_then(|spi| self.homes.get_mut(spi)) {
                    *home = cpu as u8;
                }
            }
        }
    }

    /// The vCPU to which the interrupt goes when it is pending; an SPI's route may name none.
    pub(crate) fn target_of(&self, place: InterruptPlace, bit: u32) -> Option<usize> {
        match spi_index(place, bit) {
            None => Some(place.cpu),
            Some(spi) => self.resolve(*self.routes.get(spi)?),
        }
    }

    /// The vCPU that `route` names.
    pub(crate) fn resolve(&self, route: Route) -> Option<usize> {
        if route.any() {
            return Some(self.participant);
        }
        if route.aff2() | route.aff3() != 0 {
            return None;
        }
        let affinity = u64::from(route.aff1()) << 8 | u64::from(route.aff0());
        let cpu = VcpuId::of_affinity(affinity)?.index();
        (cpu < self.vcpus).then_some(cpu)
    }

    /// Chooses the vCPU that takes the SPIs which any vCPU may take: the first that is awake (IHI 0069,
    /// "participating node"), or the first of all. The answer is the former and the new vCPU if these
    /// differ.
    pub(crate) fn change_participant(&mut self) -> Option<(usize, usize)> {
        let awake = self.cpus.position(|cpu| !cpu.asleep).unwrap_or(0);
        let former = core::mem::replace(&mut self.participant, awake);
        (former != awake).then_some((former, awake))
    }

    /// Marks the vCPUs concerned after the interrupts `mask` have changed: the list register of a listed
    /// one may no longer fit, and one that may be delivered is perhaps newly pending for its target.
    pub(crate) fn touch(&mut self, place: InterruptPlace, mask: u32) -> VcpuSet {
        let Some(bank) = self.bank(place) else {
            return VcpuSet::EMPTY;
        };
        let listed = mask & bank.listed;
        let stranded = mask & bank.stranded();
        let candidates = mask & bank.candidates(self.groups);
        self.mark_all(place, listed, stranded, candidates)
    }

    /// Marks the vCPUs that hold the interrupts `listed` in their list registers.
    pub(crate) fn mark_listed(&mut self, place: InterruptPlace, listed: u32) -> VcpuSet {
        let mut marked = VcpuSet::EMPTY;
        for bit in bits(listed) {
            let home = self.home_of(place, bit);
            if let Some(cpu) = self.cpus.get_mut(home) {
                (cpu.attention, cpu.refold) = (true, true);
                marked.insert(VcpuId::new(home as u8));
            }
        }
        marked
    }

    /// Marks the vCPUs that hold the interrupts `listed` in their list registers, that are the home
    /// of those that are `stranded`, and to which the `candidates` go.
    fn mark_all(
        &mut self,
        place: InterruptPlace,
        listed: u32,
        stranded: u32,
        candidates: u32,
    ) -> VcpuSet {
        let mut marked = VcpuSet::EMPTY;
        let mut mark = |index: usize, cpu: &mut Cpu, refold: bool, wanted: bool| {
            if refold || wanted {
                cpu.attention = true;
                cpu.refold |= refold;
                cpu.words |= u32::from(wanted) << place.word;
                marked.insert(VcpuId::new(index as u8));
            }
        };
        let waits = stranded | candidates;
        if listed | waits == 0 {
            return marked;
        }
        let Some(spi) = place.word.checked_sub(1) else {
            if let Some(cpu) = self.cpus.get_mut(place.cpu) {
                mark(place.cpu, cpu, listed != 0, waits != 0);
            }
            return marked;
        };
        self.cpus.each(|index, cpu| {
            let (homed, routed) = (cpu.homed[spi % SPI_BANKS], cpu.routed[spi % SPI_BANKS]);
            let wanted = stranded & homed | candidates & routed;
            mark(index, cpu, listed & homed != 0, wanted != 0);
        });
        marked
    }

    /// Marks a vCPU for which an interrupt in the word of `place` may be newly pending.
    pub(crate) fn mark(&mut self, cpu: usize, place: InterruptPlace) -> VcpuSet {
        let Some(state) = self.cpu_mut(cpu) else {
            return VcpuSet::EMPTY;
        };
        state.attention = true;
        state.words |= 1 << place.word;
        VcpuSet::only(VcpuId::new(cpu as u8))
    }

    /// Marks a vCPU one of whose list registers may no longer fit the model.
    #[cfg(test)]
    pub(crate) fn mark_refold(&mut self, cpu: usize) -> VcpuSet {
        let Some(state) = self.cpu_mut(cpu) else {
            return VcpuSet::EMPTY;
        };
        state.attention = true;
        state.refold = true;
        VcpuSet::only(VcpuId::new(cpu as u8))
    }
}

/// The SPI's number, counted from 0; `None` for a private interrupt.
pub(crate) fn spi_index(place: InterruptPlace, bit: u32) -> Option<usize> {
    place
        .word
        .checked_sub(1)
        .map(|word| word * 32 + bit as usize)
}
