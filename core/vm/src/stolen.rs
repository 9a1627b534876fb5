//! Stolen time by the standard calls: "Paravirtualized Time for Arm-based Systems", DEN0057A.
//!
//! A VM whose guests are in AArch64 has a page that it may only read ([`platform::STOLEN`]), with a structure for
//! each vCPU (DEN0057A, 4.1): how long the vCPU had work and did not run, in nanoseconds. The vCPU's own pCPU stores it
//! whenever the vCPU's turn begins, from the time on at which the guest asked where it is. A vCPU that never asked
//! pays nothing: its turn begins with a test whether it is on, which says so, too ([`Vcpu::enters_at_once`]).
//!
//! Rejected: answering loads of a page that is not mapped. Kernels that account by stolen time look at each
//! change of tasks, and each look would be an exit.

use crate::smccc::{NOT_SUPPORTED, SUCCESS, function};
use crate::{Clock, Guest, Machine, Vcpu, Vm};
use hanok_hal::sync::atomic::{AtomicU64, Ordering};
use hanok_types::{MAX_VCPUS, VcpuId, platform};
use hanok_vgic::GuestInterface;

/// Whether VMs can have stolen time: not in an image for guests in AArch32 alone.
pub const TELLS_STOLEN: bool = cfg!(any(test, feature = "fake", feature = "aarch64"));

/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;

/// `ticks` of a counter of this frequency in nanoseconds, rounded down.
pub fn nanos(ticks: u64, frequency: u64) -> u64 {
    let frequency = frequency.max(1);
    let whole = (ticks / frequency).wrapping_mul(NANOS);
    whole.wrapping_add(ticks % frequency * NANOS / frequency)
}

/// The structure of one vCPU (DEN0057A, 4.1).
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Record {
    /// Revision and attributes, both zero: revision 1.0 of the specification.
    head: u64,
    stolen: AtomicU64,
}

/// The structures of a VM's vCPUs: a page, to be mapped at [`platform::STOLEN`].
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct StolenPage([Record; MAX_VCPUS]);

// A model checker's atomics have other sizes.
#[cfg(not(feature = "interleavings"))]
const _: () = assert!(size_of::<StolenPage>() as u64 == hanok_types::PAGE_SIZE);

impl StolenPage {
    /// A page of zeros.
    pub fn new() -> Self {
        Self(core::array::from_fn(|_| Record::default()))
    }

    /// The stolen time of a vCPU, in nanoseconds, as its guest reads it.
    pub fn stolen(&self, vcpu: VcpuId) -> u64 {
        let record = self.0.get(vcpu.index());
        record.map_or(0, |record| record.stolen.load(Ordering::Relaxed))
    }

    fn set(&self, vcpu: VcpuId, nanos: u64) {
        if let Some(record) = self.0.get(vcpu.index()) {
            record.stolen.store(nanos, Ordering::Relaxed);
        }
    }

    /// Sets all to zero.
    pub(crate) fn forget(&self) {
        let each = self.0.iter();
        each.for_each(|record| record.stolen.store(0, Ordering::Relaxed));
    }
}

impl Default for StolenPage {
    fn default() -> Self {
        Self::new()
    }
}

impl Vm {
    /// Stores how much time was stolen from `vcpu`, which has asked where it is told.
    pub fn tell_stolen(&self, vcpu: &Vcpu, clock: &impl Clock) {
        if let Some(page) = self.stolen_page() {
            let all = nanos(self.account(vcpu.id).stolen(), clock.counter_frequency());
            page.set(vcpu.id, all.wrapping_sub(vcpu.stolen_before));
        }
    }
}

impl<M: Machine, L: GuestInterface> Guest<'_, M, L> {
    /// The answer of a call for paravirtualized time; `None` if `id` is another one, or the VM has none.
    #[inline(never)]
    pub(crate) fn stolen_call(&mut self, id: u32) -> Option<i64> {
        let page = self.vm.stolen_page()?;
        match id {
            function::PV_TIME_FEATURES => Some(match self.argument(id, 1) as u32 {
                function::PV_TIME_FEATURES | function::PV_TIME_ST => SUCCESS,
                _ => NOT_SUPPORTED,
            }),
            function::PV_TIME_ST => {
                let all = self.vm.account(self.vcpu.id).stolen();
                let all = nanos(all, self.machine.counter_frequency());
                // A CPU that asks again in the same boot finds its time going on.
                self.vcpu.stolen_before = all.wrapping_sub(page.stolen(self.vcpu.id));
                self.vcpu.enters_at_once = false;
                let offset = self.vcpu.id.index() * size_of::<Record>();
                Some((platform::STOLEN.get() + offset as u64) as i64)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FREQUENCY, Fixture};
    use crate::{DataAbort, Exit, Instruction, MmioAccess};
    use hanok_hal::GuestFault;
    use hanok_types::{Ipa, PAGE_SIZE, Width};

    const FEATURES: u64 = function::PV_TIME_FEATURES as u64;
    const ST: u64 = function::PV_TIME_ST as u64;
    const NONE: u64 = NOT_SUPPORTED as u64;

    #[test]
    fn the_calls_are_found_as_the_specification_says() {
        let mut vm = Fixture::new(1);
        let arch = u64::from(function::SMCCC_ARCH_FEATURES);
        assert_eq!(vm.call(0, [arch, FEATURES, 0, 0]).0, 0);
        for known in [FEATURES, ST] {
            assert_eq!(vm.call(0, [FEATURES, known, 0, 0]).0, 0, "{known:#x}");
        }
        // Their numbers with 32-bit arguments are those of no calls.
        let narrow = u64::from(function::SMC64);
        for unknown in [0, ST + 1, FEATURES - 1, ST & !narrow, FEATURES & !narrow] {
            assert_eq!(vm.call(0, [FEATURES, unknown, 0, 0]).0, NONE);
            assert_eq!(vm.call(0, [unknown, FEATURES, 0, 0]).0, NONE);
        }
    }

    #[test]
    fn a_guest_in_aarch32_has_none() {
        let mut config = crate::fake::config(1);
        config.aarch32 = true;
        let mut vm = Fixture::of(config, hanok_types::GicVersion::V2);
        assert!(vm.vm.stolen_page().is_none());
        let arch = u64::from(function::SMCCC_ARCH_FEATURES);
        for call in [[arch, FEATURES, 0, 0], [FEATURES, ST, 0, 0], [ST, 0, 0, 0]] {
            assert_eq!(vm.call(0, call).0, NONE);
        }
    }

    /// What a vCPU's structure tells, once `ticks` more were stolen.
    fn steal(vm: &Fixture, n: u8, ticks: u64) -> u64 {
        let (id, of) = (VcpuId::new(n), &vm.vm);
        of.account(id).comes(ticks);
        if !vm.vcpus[usize::from(n)].enters_at_once {
            of.tell_stolen(&vm.vcpus[usize::from(n)], &vm.machine);
        }
        of.stolen_page().expect("a page").stolen(id)
    }

    #[test]
    fn each_vcpu_has_its_own_time_from_when_it_asked() {
        let mut vm = Fixture::new(2);
        vm.vcpus
            .iter_mut()
            .for_each(|vcpu| vcpu.enters_at_once = true);
        let second = FREQUENCY;
        assert_eq!(steal(&vm, 1, 5 * second), 0, "it has not asked");
        let base = platform::STOLEN.get();
        assert_eq!(vm.call(1, [ST, 0, 0, 0]).0, base + 64);
        assert_eq!(steal(&vm, 1, second), NANOS);
        assert_eq!(steal(&vm, 0, second), 0, "another one");
        assert_eq!(vm.call(0, [ST, 0, 0, 0]).0, base);
        assert_eq!(steal(&vm, 0, 0), 0);
        // After CPU_OFF and CPU_ON it goes on, but for what came before it asks again.
        vm.vcpus[1] = Vcpu::new(VcpuId::new(1));
        vm.vcpus[1].enters_at_once = true;
        assert_eq!(steal(&vm, 1, second), NANOS);
        assert_eq!(vm.call(1, [ST, 0, 0, 0]).0, base + 64);
        assert_eq!(steal(&vm, 1, second), 2 * NANOS);
        // The next boot finds nothing of this one.
        let _ = vm.vm.begin();
        let page = vm.vm.stolen_page().expect("a page");
        assert_eq!(page.stolen(VcpuId::new(1)), 0);
    }

    #[test]
    fn a_store_to_the_page_is_an_external_abort() {
        let mut vm = Fixture::new(1);
        let store = DataAbort {
            ipa: Ipa::new(platform::STOLEN.get() + 8),
            write: true,
            walk: false,
            access: Some(MmioAccess {
                width: Width::Double,
                register: 1,
                sign_extend: false,
                wide: true,
            }),
            instruction: Instruction::Unknown,
            reach: PAGE_SIZE,
        };
        let fault = GuestFault::ExternalData {
            write: true,
            walk: false,
        };
        assert_eq!(
            vm.handle(0, Exit::Data(store)),
            crate::Action::Inject(fault)
        );
    }

    #[test]
    fn ticks_are_nanoseconds() {
        let megahertz = 62_500_000;
        assert_eq!(nanos(62_500, megahertz), 1_000_000);
        assert_eq!(nanos(u64::MAX / NANOS, 1), u64::MAX / NANOS * NANOS);
        assert_eq!(nanos(5, 0), 5 * NANOS);
    }
}
