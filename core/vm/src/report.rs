//! What a VM looks like to a person.

use crate::{Cause, Vm};
use core::fmt;
use hanok_types::{VcpuId, VcpuSet};
use hanok_vgic::Snapshot;
use heapless::Vec;

/// Interrupts of one vCPU that are not idle, as many as are shown.
pub type Pending = Vec<Snapshot, 32>;

/// What a VM does, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for somebody to begin its first life.
    Waiting,
    /// Its memory is being made.
    Loading,
    /// It runs.
    Running,
    /// It stands still by somebody's wish.
    Paused,
    /// Its vCPUs leave it.
    Ending,
    /// It is off by its own or somebody's wish.
    Off,
    /// It was stopped for what it did.
    Stopped,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Waiting => "waiting",
            Self::Loading => "loading",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Ending => "ending",
            Self::Off => "off",
            Self::Stopped => "stopped",
        })
    }
}

/// The pCPUs of a VM's vCPUs, in their order.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a>(&'a Vm);

impl fmt::Display for Places<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, cpu) in self.0.config().cpus.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{cpu}")?;
        }
        Ok(())
    }
}

impl Vm {
    /// What it does now.
    pub fn state(&self) -> State {
        let life = self.life();
        match () {
            () if life.is_loading() => State::Loading,
            () if life.is_running() && self.is_paused() => State::Paused,
            () if life.is_running() => State::Running,
            () if !life.is_ended() => State::Ending,
            () if self.stop_reason().is_some() => State::Stopped,
            () if life.number() == 0 => State::Waiting,
            () => State::Off,
        }
    }

    /// The pCPUs of its vCPUs.
    pub fn places(&self) -> Places<'_> {
        Places(self)
    }

    /// Calls `show` for each vCPU and each cause of which there were exits: how many, and
    /// how many instructions of the hypervisor's they took.
    pub fn each_count(&self, mut show: impl FnMut(VcpuId, Cause, u64, u64)) {
        for vcpu in VcpuSet::first(self.vcpus()).iter() {
            let counters = self.counters(vcpu);
            for cause in Cause::ALL {
                let exits = counters.exits(cause);
                if exits > 0 {
                    show(vcpu, cause, exits, counters.instructions(cause));
                }
            }
        }
    }

    /// The interrupts of a vCPU that are not idle, as of their last fold; the lowest ids
    /// where they are more than fit.
    pub fn pending_interrupts(&self, vcpu: VcpuId) -> Pending {
        let mut gic = self.gic.lock();
        self.deliver_mail(&mut gic, vcpu);
        gic.snapshot()
            .filter(|one| one.vcpu == Some(vcpu))
            .take(Pending::new().capacity())
            .collect()
    }
}
