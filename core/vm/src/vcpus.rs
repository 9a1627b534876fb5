//! The parts of a VM's vCPUs that all pCPUs access: as many as the VM has vCPUs.
//!
//! The first vCPU's part is in the VM itself, as every VM has one vCPU. The parts of all others are in
//! memory that the creator of the VM provides, sized by the description. Where there must be an answer, an
//! id past the last vCPU means the first one, so that no id can cause a panic.

use crate::{Counters, Home, Power, Requests, StolenPage};
use hanok_config::Ask;
use hanok_devices::virtio::SharedDevice;
use hanok_hal::Mutex;
use hanok_hal::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use hanok_sched::Grant;
use hanok_trace::Account;
use hanok_types::{CpuId, VcpuId};
use hanok_vgic::CpuPart;

/// What a vCPU has of its pCPU, and what it may ask for. Its own pCPU changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// What it has, in ticks of the board's counter; `None` where vCPUs take turns.
    pub grant: Option<Grant>,
    /// What it may ask for.
    pub ask: Ask,
}

/// The part of one vCPU that all pCPUs access. It shares no cache line with another one's, and its size is
/// one by which an index is shifted.
#[derive(Debug)]
#[repr(align(64))]
pub struct SharedVcpu {
    /// Its pCPU, which in a pool changes.
    cpu: AtomicU8,
    /// Its place there ([`Home::bit`]).
    bit: u64,
    pub(crate) power: Power,
    pub(crate) requests: Requests,
    pub(crate) counters: Counters,
    pub(crate) account: Account,
    pub(crate) granted: Mutex<Granted>,
}

impl SharedVcpu {
    /// The part of a vCPU that is off, with its pCPU and place.
    pub fn new(home: Home) -> Self {
        Self {
            cpu: AtomicU8::new(home.cpu.index() as u8),
            bit: home.bit,
            power: Power::new(),
            requests: Requests::default(),
            counters: Counters::default(),
            account: Account::default(),
            granted: Mutex::new(Granted::default()),
        }
    }

    /// Its pCPU, and its place there. It may have moved on since: its former pCPU hands on a kick for it.
    #[inline(always)]
    pub(crate) fn home(&self) -> Home {
        Home {
            cpu: CpuId::new(self.cpu.load(Ordering::Relaxed)),
            bit: self.bit,
        }
    }

    /// Its pCPU is another one from now on.
    pub(crate) fn move_to(&self, cpu: CpuId) {
        self.cpu.store(cpu.index() as u8, Ordering::Relaxed);
    }
}

/// The memory that the creator of a VM provides for its vCPUs.
#[derive(Debug)]
pub struct VcpuParts {
    /// The pCPU of its first vCPU, and the vCPU's place there.
    pub first: Home,
    /// A part for each further vCPU.
    pub others: &'static [SharedVcpu],
    /// The page that tells its guest the time that was stolen; `None` for guests in AArch32.
    pub stolen: Option<&'static StolenPage>,
    /// The record of each slot that has one, at the slot's index.
    pub shared: &'static [Option<&'static SharedDevice>],
    /// As many parts for its interrupt controller.
    pub gic: &'static mut [CpuPart],
    /// The memory of its variables' flash; empty if it has none.
    pub variables: &'static [AtomicU32],
}

/// The shared parts of all vCPUs of a VM.
#[derive(Debug)]
pub(crate) struct Vcpus {
    first: SharedVcpu,
    others: &'static [SharedVcpu],
}

impl Vcpus {
    pub fn new(first: Home, others: &'static [SharedVcpu]) -> Self {
        let first = SharedVcpu::new(first);
        Self { first, others }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.others.len() + 1
    }

    /// All parts, by their index: with a chain of the first one and the others, a loop's body would be
    /// compiled twice.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = &SharedVcpu> {
        (0..self.len()).map(|index| self.of(VcpuId::new(index as u8)))
    }

    #[inline(always)]
    pub fn get(&self, vcpu: VcpuId) -> Option<&SharedVcpu> {
        // The others come first, as mostly only its own pCPU needs the first vCPU.
        match self.others.get(vcpu.index().wrapping_sub(1)) {
            None if vcpu.index() == 0 => {
                core::hint::cold_path();
                Some(&self.first)
            }
            other => other,
        }
    }

    /// The answer is the first vCPU's part if there is no such vCPU.
    #[inline(always)]
    pub fn of(&self, vcpu: VcpuId) -> &SharedVcpu {
        let other = self.others.get(vcpu.index().wrapping_sub(1));
        other.unwrap_or(&self.first)
    }
}
