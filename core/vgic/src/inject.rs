//! The events that make interrupts pending: devices' lines, physical interrupts, and SGIs.

use crate::bank::{Bank, bits};
use crate::frame::BitRegister;
use crate::lr::LrState;
use crate::state::{InterruptPlace, MAX_LRS, Vgic};
use crate::urgency::Urgency;
use bitfield_struct::bitfield;
use hanok_hal::ListRegisters;
use hanok_types::{GicVersion, IntId, IntKind, VcpuId, VcpuSet};

/// The system register by which a guest sends an SGI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SgiRegister {
    /// ICC_SGI0R_EL1.
    Sgi0,
    /// ICC_SGI1R_EL1.
    Sgi1,
    /// ICC_ASGI1R_EL1.
    Asgi1,
}

impl SgiRegister {
    /// Which group an SGI must be configured for to be sent by this register. With a single
    /// security state there is no Secure group 1, and what the "alias" register would send
    /// there goes to group 0 (IHI 0069, "Forwarding an SGI to a target PE").
    const fn sends_group1(self) -> bool {
        matches!(self, Self::Sgi1)
    }

    /// The SGI and the one vCPU that `value` names; `None` if it names several, none, all others, or an
    /// affinity that no vCPU has, and if a reserved bit is set.
    #[inline(always)]
    pub fn single_target(value: u64) -> Option<(u32, VcpuId)> {
        let sgi = Sgi::from_bits(value);
        // All bits above the cluster's but the identifier's: those of another affinity, of a range and of all
        // others. Reserved ones that are set are left to the slow path, too, as the constant then is one that an
        // instruction can hold.
        let cluster_bits = VcpuId::CLUSTERS.trailing_zeros();
        let identifier = Sgi::new().with_id(0xf).into_bits();
        let plain = (value & !identifier) >> (16 + cluster_bits) == 0;
        // In whole registers: the CPU would need further instructions to cut the values to halfwords.
        let targets = u32::from(sgi.targets());
        let cluster = u32::from(sgi.aff1() % VcpuId::CLUSTERS) * u32::from(VcpuId::CLUSTER);
        let target = VcpuId::new((cluster + targets.trailing_zeros()) as u8);
        (plain && targets.is_power_of_two()).then_some((sgi.id(), target))
    }
}

/// The value of the three registers (IHI 0069, ICC_SGI1R_EL1).
#[bitfield(u64)]
struct Sgi {
    targets: u16,
    aff1: u8,
    #[bits(4)]
    id: u32,
    #[bits(4)]
    __: u8,
    aff2: u8,
    /// To all but the sender.
    others: bool,
    #[bits(3)]
    __: u8,
    #[bits(4)]
    range: u8,
    aff3: u8,
    __: u8,
}

impl Vgic {
    /// Sets the level of a device's line; an edge-triggered interrupt becomes pending when it
    /// rises. `vcpu` is the one whose private interrupt it is, and is ignored for an SPI.
    /// Returns the vCPUs to be kicked.
    pub fn set_level(&mut self, vcpu: Option<VcpuId>, id: IntId, high: bool) -> VcpuSet {
        let Some((place, bit)) = self.place(vcpu, id) else {
            return VcpuSet::EMPTY;
        };
        let mask = 1 << bit;
        let Some(bank) = self.bank_mut(place) else {
            return VcpuSet::EMPTY;
        };
        if (bank.line & mask != 0) == high {
            return VcpuSet::EMPTY;
        }
        bank.line ^= mask;
        if bank.edge & mask == 0 {
            return self.touch(place, mask);
        }
        if !high {
            return VcpuSet::EMPTY;
        }
        self.latch(place, bit)
    }

    /// A pulse on a device's line: makes the interrupt pending, whatever its trigger.
    pub fn pulse(&mut self, vcpu: Option<VcpuId>, id: IntId) -> VcpuSet {
        match self.place(vcpu, id) {
            Some((place, bit)) => self.latch(place, bit),
            None => VcpuSet::EMPTY,
        }
    }

    /// Makes `id`, an SPI, edge-triggered until the guest says otherwise, as firmware may leave it: what GICD_ICFGR has after a
    /// reset is unknown (IHI 0069, GICD_ICFGR).
    pub fn set_edge(&mut self, id: IntId) {
        if let Some((place, bit)) = self.place(None, id)
            && let Some(bank) = self.bank_mut(place)
        {
            bank.edge |= 1 << bit;
        }
    }

    /// Latches a pending state. If the interrupt is listed, its list register gets the state at the next
    /// entry; that need not read all list registers if the guest has already ended the interrupt.
    pub(crate) fn latch(&mut self, place: InterruptPlace, bit: u32) -> VcpuSet {
        let groups = self.groups;
        let Some(bank) = self.bank_mut(place) else {
            return VcpuSet::EMPTY;
        };
        let mask = 1 << bit;
        bank.latch |= mask;
        let target = if bank.listed & mask != 0 {
            let home = self.home_of(place, bit);
            if let Some(cpu) = self.cpu_mut(home) {
                cpu.relatched = true;
            }
            Some(home)
        } else if bank.candidates(groups) & mask != 0 {
            self.target_of(place, bit)
        } else {
            None
        };
        target.map_or(VcpuSet::EMPTY, |cpu| self.mark(cpu, place))
    }

    /// Ends `id`'s pending state, as a write to ICPENDR does, whatever the version. A list register that
    /// shows it changes at its vCPU's next entry. Returns the vCPUs to be kicked; see
    /// [`Self::take_released`] for a physical interrupt behind it.
    pub fn clear_pending(&mut self, vcpu: Option<VcpuId>, id: IntId) -> VcpuSet {
        match self.place(vcpu, id) {
            Some((place, bit)) => self.write_bits(place, BitRegister::ClearPending, 1 << bit),
            None => VcpuSet::EMPTY,
        }
    }

    /// A physical interrupt has fired (and was acknowledged, its priority dropped, but not
    /// deactivated): makes `id`, which is no SGI, pending with the physical one behind it. The guest's
    /// deactivation of `id` deactivates `physical`. As long as the VM exists, an id stands for the same
    /// physical one. `vcpu` is the one whose private interrupt it is; an SPI goes where the guest routed it,
    /// and waits, with the physical one active and so silent, while it is disabled or goes
    /// nowhere. Returns the vCPUs to be kicked.
    pub fn inject_hardware(&mut self, vcpu: VcpuId, id: IntId, physical: IntId) -> VcpuSet {
        let Some((place, bit)) = self.place(Some(vcpu), id) else {
            return VcpuSet::EMPTY;
        };
        if id.kind() == IntKind::Sgi {
            return VcpuSet::EMPTY;
        }
        let Some(bank) = self.bank_mut(place) else {
            return VcpuSet::EMPTY;
        };
        if let Some(number) = bank.physical.get_mut(bit as usize) {
            *number = (physical.get() & 0x3ff) as u16;
        }
        bank.hardware |= 1 << bit;
        self.latch(place, bit)
    }

    /// [`Self::inject_hardware`] and [`Self::enter`] in one, on the pCPU on which `vcpu` is
    /// resident, for the interrupt of a virtual timer or of a device. It has a fast path: if nothing else
    /// has to be done, and the interrupt's former list register is empty, that is written and nothing
    /// more. Returns the *other* vCPUs to be kicked, none for a private interrupt.
    #[inline]
    pub fn inject_hardware_now(
        &mut self,
        vcpu: VcpuId,
        id: IntId,
        physical: IntId,
        lrs: &mut impl ListRegisters,
    ) -> VcpuSet {
        let may_stand_beside = self.version == GicVersion::V2 && id.kind() == IntKind::Ppi;
        if may_stand_beside && self.show_beside(vcpu, id, physical, lrs).is_some() {
            return VcpuSet::EMPTY;
        }
        self.find_hardware_slot(vcpu, id, lrs);
        if self.relist_hardware(vcpu, id, physical, lrs).is_some() {
            return VcpuSet::EMPTY;
        }
        let mut kick = self.inject_hardware(vcpu, id, physical);
        kick = kick.union(self.enter(vcpu, lrs));
        if vcpu.index() < self.vcpus {
            kick.remove(vcpu);
        }
        kick
    }

    /// Finds the list register in which `id` was listed and has ended, for [`Self::relist_hardware`].
    /// Without this call, that one tries the list register of the last interrupt with a physical one
    /// behind it, which may have been another interrupt.
    pub(crate) fn find_hardware_slot(&mut self, vcpu: VcpuId, id: IntId, lrs: &impl ListRegisters) {
        if let Some(cpu) = self.cpus.get_mut(vcpu.index())
            && let Some(slot) = cpu.ended_slot_of(id.get(), lrs.empty())
        {
            cpu.hardware_slot = slot as u8;
        }
    }

    /// The fast path of [`Self::inject_hardware_now`]: no more urgent interrupt waits, and the list
    /// register of the last interrupt with a physical one behind it is empty. If none is listed there,
    /// `id` has to be a PPI. In all other cases nothing is changed, and the answer is `None`.
    #[inline(always)]
    pub fn relist_hardware(
        &mut self,
        vcpu: VcpuId,
        id: IntId,
        physical: IntId,
        lrs: &mut impl ListRegisters,
    ) -> Option<()> {
        let (groups, version) = (self.groups, self.version);
        let cpu = self.cpus.get_mut(vcpu.index())?;
        if cpu.attention {
            return None;
        }
        let slot = usize::from(cpu.hardware_slot) % MAX_LRS;
        let shadow = cpu.lr.get_mut(slot)?;
        // See the crate's documentation, "Interrupts of real devices".
        let others = match version {
            GicVersion::V2 => cpu.used,
            GicVersion::V3 => 0,
        };
        if (others | 1 << slot) & !lrs.empty() != 0 {
            return None;
        }
        *shadow = if cpu.used & 1 << slot == 0 {
            if cpu.overflow || id.kind() != IntKind::Ppi {
                return None;
            }
            let lr = cpu.private.show_hardware(id, physical, groups)?;
            cpu.used |= 1 << slot;
            lr.with_priority(cpu.private.priority(id.get() % 32))
        } else if shadow.virtual_id() == id.get()
            && shadow.hardware()
            && shadow.state() == LrState::Pending
            && (!cpu.overflow || Urgency::new(shadow.priority(), id.get()) < cpu.next)
        {
            // The former value still holds: the guest has acknowledged and ended the interrupt since
            // the list register was last read, and if its registers had changed, `attention` would be
            // set.
            *shadow
        } else {
            return None;
        };
        lrs.write(slot, shadow.into_bits());
        if cpu.reports {
            cpu.reports = false;
            lrs.report_ends(false);
        }
        Some(())
    }

    /// Whether [`Self::list_first_hardware`] will list `id`, a PPI, if `vcpu`, which is in no pCPU, comes to one and
    /// nothing else changes. The interrupt then wakes the vCPU, as if it were pending ([`Self::has_pending`]).
    #[inline]
    pub fn will_list_hardware(&self, vcpu: VcpuId, id: IntId) -> bool {
        let mask = 1 << (id.get() % 32);
        self.cpu(vcpu.index()).is_some_and(|cpu| {
            cpu.lists_nothing() && cpu.private.may_show_hardware(mask, self.groups)
        })
    }

    /// [`Self::inject_hardware_now`] of a PPI for a vCPU that has just come to its pCPU with no interrupt listed,
    /// or to be listed. In all other cases nothing is changed, and the answer is `None`.
    #[inline(always)]
    pub fn list_first_hardware(
        &mut self,
        vcpu: VcpuId,
        id: IntId,
        physical: IntId,
        lrs: &mut impl ListRegisters,
    ) -> Option<()> {
        let groups = self.groups;
        let cpu = self.cpus.get_mut(vcpu.index())?;
        if !cpu.lists_nothing() {
            return None;
        }
        let lr = cpu.private.show_hardware(id, physical, groups)?;
        let lr = lr.with_priority(cpu.private.priority(id.get() % 32));
        (cpu.lr[0], cpu.used, cpu.hardware_slot) = (lr, 1, 0);
        lrs.write(0, lr.into_bits());
        Some(())
    }

    /// [`Self::relist_hardware`] on a GICv2 where other interrupts are listed, none of which has HW=1:
    /// `id` gets a free list register, and its end is reported.
    #[inline(never)]
    fn show_beside(
        &mut self,
        vcpu: VcpuId,
        id: IntId,
        physical: IntId,
        lrs: &mut impl ListRegisters,
    ) -> Option<()> {
        let groups = self.groups;
        let cpu = self.cpus.get_mut(vcpu.index())?;
        let empty = lrs.empty();
        let alone = cpu.used & !empty == 0;
        if cpu.attention || alone {
            return None;
        }
        let all = (1 << lrs.count().min(MAX_LRS)) - 1;
        let free = all & empty & !cpu.used;
        let tied = cpu.slots().any(|(_, lr)| lr.hardware());
        if free == 0 || tied || cpu.stuck {
            return None;
        }
        let priority = cpu.private.priority(id.get() % 32);
        if Urgency::new(priority, id.get()) > cpu.next {
            return None;
        }
        let slot = free.trailing_zeros() as usize;
        let lr = cpu.private.show_hardware(id, physical, groups)?;
        let lr = lr.with_priority(priority).with_eoi(true);
        *cpu.lr.get_mut(slot)? = lr;
        cpu.used |= 1 << slot;
        lrs.write(slot, lr.into_bits());
        if !cpu.reports {
            cpu.reports = true;
            lrs.report_ends(true);
        }
        Some(())
    }

    /// Whether a physical interrupt stands behind `id` of `vcpu`, which is pending or active
    /// (as of the last fold): after a [`Self::leave`] its next entry lists it again with the
    /// physical one behind.
    ///
    /// A private physical interrupt belongs to a pCPU, which other vCPUs need too. So after
    /// `leave` and [`Self::take_released`] a vCPU's are made inactive there, and before its
    /// next `enter` made active where this says so, on whichever pCPU that is.
    #[inline(always)]
    pub fn holds_hardware(&self, vcpu: VcpuId, id: IntId) -> bool {
        let held = |bank: &Bank| (bank.hardware | bank.hardware_listed) >> (id.get() % 32) & 1 != 0;
        let bank = match id.get() / 32 {
            // This arm is the short one, as each switch of vCPUs asks twice about a private interrupt.
            0 => self.cpus.get(vcpu.index()).map(|cpu| &cpu.private),
            word => self.spis.get(word as usize - 1),
        };
        bank.is_some_and(held)
    }

    /// The next physical interrupt that the hypervisor is to deactivate (ICC_DIR_EL1), as
    /// its virtual one has ended without the guest's deactivation; `None` when there is no
    /// more. Private ones of `vcpu` are to be deactivated on its pCPU, SPIs on any.
    #[inline]
    pub fn take_released(&mut self, vcpu: VcpuId) -> Option<IntId> {
        if !self.any_released {
            return None;
        }
        let words = self.spis.len() + 1;
        for word in 0..words {
            let cpu = vcpu.index();
            let Some(bank) = self.bank_mut(InterruptPlace { cpu, word }) else {
                continue;
            };
            if let Some(bit) = bits(bank.released).next() {
                bank.released &= !(1 << bit);
                return Some(IntId::new(u32::from(bank.physical(bit))));
            }
        }
        let left = self.cpus.position(|cpu| cpu.private.released != 0);
        self.any_released = left.is_some();
        None
    }

    /// [`Self::take_released`] for `vcpu`'s private interrupts alone.
    pub fn take_released_private(&mut self, vcpu: VcpuId) -> Option<IntId> {
        let bank = &mut self.cpu_mut(vcpu.index())?.private;
        let bit = bits(bank.released).next()?;
        bank.released &= !(1 << bit);
        Some(IntId::new(u32::from(bank.physical(bit))))
    }

    /// [`Self::take_released`] for SPIs alone, which may be deactivated on any pCPU.
    pub fn take_released_spi(&mut self) -> Option<IntId> {
        // No vCPU has this number, so that nothing private is found.
        self.take_released(VcpuId::new(u8::MAX))
    }

    /// Forgets the physical interrupts that were to be deactivated: the caller has done that in another
    /// way.
    pub fn forget_released(&mut self) {
        self.cpus.each(|_, cpu| cpu.private.released = 0);
        self.spis.iter_mut().for_each(|bank| bank.released = 0);
        self.any_released = false;
    }

    /// Whether [`Self::take_released`] may find an interrupt.
    #[inline]
    pub fn has_released(&self) -> bool {
        self.any_released
    }

    /// The guest wrote `value` to `register` on `from`: makes the SGI pending at its
    /// targets, as far as it is of the register's group there. For GICv3; a GICv2's guest
    /// writes GICD_SGIR. Returns the vCPUs to be kicked, which may include the sender.
    pub fn send_sgi(&mut self, from: VcpuId, value: u64, register: SgiRegister) -> VcpuSet {
        let sgi = Sgi::from_bits(value);
        let targets = self.sgi_targets(from, sgi);
        let (mask, group1) = (1 << sgi.id(), register.sends_group1());
        let mut touched = VcpuSet::EMPTY;
        for target in targets.iter() {
            touched = touched.union(self.sgi_to(target, mask, group1));
        }
        touched
    }

    fn sgi_targets(&self, from: VcpuId, sgi: Sgi) -> VcpuSet {
        let all = VcpuSet::first(self.vcpus);
        if sgi.others() {
            let mut others = all;
            if from.index() < self.vcpus {
                others.remove(from);
            }
            return others;
        }
        if sgi.aff2() | sgi.aff3() | sgi.range() != 0 {
            return VcpuSet::EMPTY;
        }
        VcpuSet::of_cluster(sgi.aff1(), sgi.targets()).intersection(all)
    }

    /// Makes the SGI of bit `mask` pending at `target`, if it is of that group there. Returns the
    /// vCPUs to be kicked. This function is short, since one write may name all vCPUs of a VM.
    fn sgi_to(&mut self, target: VcpuId, mask: u32, group1: bool) -> VcpuSet {
        let groups = self.groups;
        let Some(cpu) = self.cpus.get_mut(target.index()) else {
            return VcpuSet::EMPTY;
        };
        let bank = &mut cpu.private;
        if (bank.group1 & mask != 0) != group1 {
            return VcpuSet::EMPTY;
        }
        bank.latch |= mask;
        let listed = bank.listed & mask != 0;
        if !listed && bank.candidates(groups) & mask == 0 {
            return VcpuSet::EMPTY;
        }
        cpu.attention = true;
        cpu.relatched |= listed;
        cpu.words |= 1;
        VcpuSet::only(target)
    }
}
