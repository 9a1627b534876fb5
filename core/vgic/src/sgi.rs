//! A GICv2's SGIs, which know their sender: one SGI may be pending at a vCPU up to eight
//! times, once for each vCPU that sent it, and the guest is told whose it takes (IHI 0048B,
//! 4.3.15 to 4.3.17, and GICC_IAR.CPUID).
//!
//! A list register shows one of these at a time; the others wait here, and the interrupt's
//! `latch` says that some do. The next is listed when the shown one has ended, which the list
//! register's EOI bit reports. One that is active is shown pending again only for the same
//! sender, as a list register has room for one.
//!
//! Nothing of this is touched for a GICv3: no bit of a bank's `sourced` is set there.

use crate::bank::bits;
use crate::frame::Read;
use crate::lr::Lr;
use crate::reports::Reports;
use crate::senders::only;
use crate::state::{Cpu, InterruptPlace, Vgic};
use bitfield_struct::bitfield;
use hanok_types::{VcpuId, VcpuSet, Width};

/// GICD_SGIR (IHI 0048B, 4.3.15).
#[bitfield(u32)]
pub struct Sgir {
    /// The SGI's number.
    #[bits(4)]
    pub id: u32,
    #[bits(11)]
    __: u32,
    /// The SGI's group, in an implementation with two security states.
    pub nsatt: bool,
    /// With filter 0: a bit for each CPU interface to which the SGI goes.
    pub targets: u8,
    /// 0: to `targets`; 1: to all but the sender; 2: to the sender.
    #[bits(2)]
    pub filter: u8,
    #[bits(6)]
    __: u32,
}

impl Sgir {
    /// The register's offset in the distributor.
    pub const OFFSET: u64 = 0xf00;

    /// The SGI and the one vCPU that `value` names; `None` where it names several or none.
    #[inline(always)]
    pub fn single_target(value: u32) -> Option<(u32, VcpuId)> {
        let sgir = Self::from_bits(value);
        // In a whole register: the CPU would need a further instruction to cut the value to a byte.
        let targets = u32::from(sgir.targets());
        let target = VcpuId::new(targets.trailing_zeros() as u8);
        let single = sgir.filter() == 0 && targets.is_power_of_two();
        single.then_some((sgir.id(), target))
    }
}

impl Cpu {
    /// [`Bank::show`](crate::bank::Bank::show) for an SGI that knows its sender.
    pub(crate) fn show_sgi(&mut self, sgi: u32, wanted: bool, reports: Reports) -> Lr {
        let mask = 1 << sgi;
        if self.private.shown & mask != 0 {
            self.senders.take_back(sgi);
        }
        let next = self.next_sender(sgi);
        let lr = self.private.show(sgi, wanted, next.is_some(), reports);
        let shown = self.private.shown & mask != 0;
        if let Some(sender) = next.filter(|_| shown) {
            self.senders.take_out(sgi, sender);
        }
        let more = self.senders.waiting(sgi) != 0;
        self.private.latch |= if more { mask } else { 0 };
        lr.with_eoi(lr.eoi() || shown && more)
            .with_sender(self.senders.current(sgi))
    }

    /// The sender whose instance may be shown as pending: while an instance is active, only its sender.
    fn next_sender(&self, sgi: u32) -> Option<u8> {
        let waiting = self.senders.waiting(sgi);
        let current = self.senders.current(sgi);
        if self.private.active >> sgi & 1 != 0 {
            return (waiting & only(current) != 0).then_some(current);
        }
        // A pulse on an SGI's line, which no device has, counts as the first vCPU's.
        Some(waiting.trailing_zeros() as u8 % 8)
    }

    /// The senders whose instances are pending, a bit each.
    fn senders(&self, sgi: u32) -> u8 {
        let shown = self.private.shown >> sgi & 1 != 0;
        let current = only(self.senders.current(sgi));
        self.senders.waiting(sgi) | if shown { current } else { 0 }
    }

    /// Ends the pending state of the instances of `senders`. The answer is the SGI's bit if its list
    /// register no longer fits, else zero.
    fn clear_senders(&mut self, sgi: u32, senders: u8) -> u32 {
        let mask = 1 << sgi;
        self.senders
            .change_waiting(sgi, |waiting| waiting & !senders);
        let current = senders & only(self.senders.current(sgi)) != 0;
        let changed = if current {
            mask & self.private.shown
        } else {
            0
        };
        self.private.unpend_listed(changed);
        if self.senders.waiting(sgi) == 0 {
            self.private.latch &= !mask;
        }
        changed
    }
}

impl Vgic {
    /// Puts an SGI that knows its sender in its list register, or recomputes it there.
    pub(crate) fn show_sgi(&mut self, cpu: usize, sgi: u32, wanted: bool, reports: Reports) -> Lr {
        self.cpu_mut(cpu)
            .map_or(Lr::new(), |cpu| cpu.show_sgi(sgi, wanted, reports))
    }

    /// Returns the instance that a list register showed as pending to those that wait.
    pub(crate) fn take_back_sgi(&mut self, cpu: usize, sgi: u32) {
        if let Some(cpu) = self.cpu_mut(cpu) {
            cpu.senders.take_back(sgi);
        }
    }

    /// The senders of a pending interrupt, a bit each; zero for an interrupt that has none.
    pub(crate) fn senders_of(&self, place: InterruptPlace, bit: u32) -> u8 {
        let sourced = |bank: &crate::bank::Bank| bank.sourced >> bit & 1 != 0;
        match self.cpu(place.cpu) {
            Some(cpu) if self.bank(place).is_some_and(sourced) => cpu.senders(bit),
            _ => 0,
        }
    }

    /// Executes a write of GICD_SGIR by `from`.
    pub(crate) fn write_sgir(&mut self, from: VcpuId, value: u32) -> VcpuSet {
        let sgir = Sgir::from_bits(value);
        let targets = match sgir.filter() {
            0 => sgir.targets(),
            1 => !only(from.index() as u8),
            2 => only(from.index() as u8),
            // Reserved.
            _ => 0,
        };
        let sender = only(from.index() as u8);
        bits(u32::from(targets & self.cpu_interfaces())).fold(VcpuSet::EMPTY, |touched, target| {
            let target = VcpuId::new(target as u8);
            touched.union(self.send_to(target, sgir.id(), sender))
        })
    }

    /// Makes an SGI pending at `target`, for each of `senders`.
    fn send_to(&mut self, target: VcpuId, sgi: u32, senders: u8) -> VcpuSet {
        let Some(cpu) = self.cpu_mut(target.index()) else {
            return VcpuSet::EMPTY;
        };
        cpu.senders.change_waiting(sgi, |waiting| waiting | senders);
        let place = InterruptPlace {
            cpu: target.index(),
            word: 0,
        };
        self.latch(place, sgi)
    }

    /// A bit for each CPU interface that a GICv2 of this many vCPUs has.
    pub(crate) fn cpu_interfaces(&self) -> u8 {
        (0..self.vcpus as u8).fold(0, |all, cpu| all | only(cpu))
    }

    /// GICD_CPENDSGIR and GICD_SPENDSGIR of `vcpu`, from SGI `first` on.
    pub(crate) fn read_senders(&mut self, vcpu: VcpuId, first: u32, width: Width) -> Read {
        let Some(cpu) = self.cpu(vcpu.index()) else {
            return Read::default();
        };
        let sgis = (first..16).take(width.bytes() as usize).enumerate();
        let (value, mask) = sgis.fold((0, 0), |(value, mask), (n, sgi)| {
            let senders = u64::from(cpu.senders(sgi)) << (8 * n);
            (value | senders, mask | 1 << sgi)
        });
        let stale = mask & cpu.private.shown & cpu.private.listed;
        let place = InterruptPlace {
            cpu: vcpu.index(),
            word: 0,
        };
        Read {
            value,
            kick: self.mark_listed(place, stale),
        }
    }

    /// GICD_SPENDSGIR (`set`) and GICD_CPENDSGIR of `vcpu`, from SGI `first` on.
    pub(crate) fn write_senders(
        &mut self,
        vcpu: VcpuId,
        first: u32,
        width: Width,
        value: u64,
        set: bool,
    ) -> VcpuSet {
        let bytes = value.to_le_bytes();
        let sgis = (first..16).zip(bytes.iter().take(width.bytes() as usize));
        let mut touched = VcpuSet::EMPTY;
        for (sgi, senders) in sgis {
            let senders = senders & self.cpu_interfaces();
            touched = touched.union(match (senders, set) {
                (0, _) => VcpuSet::EMPTY,
                (_, true) => self.send_to(vcpu, sgi, senders),
                (_, false) => self.clear_senders(vcpu, sgi, senders),
            });
        }
        touched
    }

    fn clear_senders(&mut self, vcpu: VcpuId, sgi: u32, senders: u8) -> VcpuSet {
        let Some(cpu) = self.cpu_mut(vcpu.index()) else {
            return VcpuSet::EMPTY;
        };
        let changed = cpu.clear_senders(sgi, senders);
        let place = InterruptPlace {
            cpu: vcpu.index(),
            word: 0,
        };
        self.touch(place, changed)
    }
}
