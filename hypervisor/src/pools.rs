//! The board's pools of pCPUs. Nothing of this is in an image without the feature `pools`.

use crate::Board;
use crate::arena::Arena;
use hanok_arch::Host;
use hanok_config::{CorePolicy, SystemView};
use hanok_pcpu::{Pcpu, SharedPool};
use hanok_types::{CpuId, MAX_CPUS};

/// The pools of the board, by their lowest pCPU.
#[derive(Default)]
pub struct Pools(heapless::Vec<(CpuId, &'static SharedPool<Host>), MAX_CPUS>);

impl Pools {
    /// Gives a pCPU its place in its pool, if it has one, which is made with the lowest one's. pCPUs come in order.
    /// `None` where there is no memory for that.
    pub fn join(
        &mut self,
        pcpu: &mut Pcpu<Host>,
        system: &SystemView<'_>,
        board: &'static Board,
        arena: &mut Arena,
    ) -> Option<()> {
        let id = pcpu.local.id;
        let CorePolicy::Global { order, pool } = system.policy(id) else {
            return Some(());
        };
        #[cfg(feature = "pools")]
        hanok_hal::sync::pause_by(hanok_arch::pause);
        if pool == id {
            let all = system.pool_of(id);
            let cpus = (0..MAX_CPUS).filter(|cpu| all >> cpu & 1 != 0);
            let cpus = cpus.map(|cpu| CpuId::new(cpu as u8));
            let made = arena.put(SharedPool::new(board, order, cpus))?;
            self.0.push((pool, made)).ok()?;
        }
        let (_, made) = self.0.iter().find(|(own, _)| *own == pool)?;
        pcpu.join(made.seat(id)?);
        Some(())
    }
}
