//! A record for every CPU of the board: what the CPU needs until it runs, and how it chooses among
//! its vCPUs.

use crate::Board;
use crate::arena::Arena;
use crate::fatal::refuse;
use crate::gic::{self, GicFrames};
use crate::pools::Pools;
use core::sync::atomic::AtomicU32;
use hanok_arch::Host;
use hanok_arm_common::cpu::Cpu;
use hanok_arm_common::mmu;
use hanok_config::{BoardCpu, BoardTree, CorePolicy, POOLS, SystemView};
use hanok_pcpu::{Pcpu, PcpuPolicy};
use hanok_sched::{Budgets, Credit, Deals, Node, PlaceError, RoundRobin, Tree};
use hanok_types::{CpuId, MAX_CPUS};
use hanok_vm::{Clock, Interruptions};

/// What a CPU needs until its own part of the board is set up.
#[allow(missing_debug_implementations)]
#[repr(C)]
pub struct Starting {
    /// The CPU's record.
    pub cpu: Cpu<Host>,
    /// The CPU's affinity.
    pub mpidr: u64,
    /// The interrupt controller's registers.
    pub gic: GicFrames,
    /// How far its start is: [`WAITING`], [`ONLINE`] or [`FAILED`].
    pub state: &'static AtomicU32,
}

/// The records of all CPUs, by their index.
pub type Records = heapless::Vec<&'static mut Starting, MAX_CPUS>;

/// The CPU was not started, or has not answered.
pub const WAITING: u32 = 0;
/// The CPU runs.
pub const ONLINE: u32 = 1;
/// The interrupt controller has no part for the CPU, which stays idle.
pub const FAILED: u32 = 2;

/// Creates a record for every CPU of the tree.
pub fn prepare(
    tree: &BoardTree<'_>,
    board: &'static Board,
    system: &SystemView<'_>,
    arena: &mut Arena,
) -> Records {
    let gic = gic::frames(tree);
    let mut pools = Pools::default();
    let record = |(index, cpu): (usize, &BoardCpu)| {
        let id = CpuId::new(index as u8);
        let mut own = Cpu::new(id, mmu::stack_tops(id));
        let policy = policy(system, id, board, arena)?;
        let interruptions = (0..board.vms.len()).map(|_| Interruptions::default());
        let interruptions = arena.put_all(board.vms.len(), interruptions)?;
        let mut pcpu = Pcpu::new(id, board, policy, interruptions);
        if POOLS {
            pools.join(&mut pcpu, system, board, arena)?;
        }
        own.pcpu = Some(pcpu);
        let starting = Starting {
            cpu: own,
            mpidr: cpu.mpidr,
            gic: gic.clone(),
            state: arena.put(AtomicU32::new(WAITING))?,
        };
        arena.put(starting)
    };
    let records: Option<Records> = tree.cpus.iter().enumerate().map(record).collect();
    let Some(records) = records else {
        refuse(format_args!("no memory for the CPUs' records"))
    };
    records
}

/// How a pCPU chooses among its vCPUs; `None` where there is no memory for that.
fn policy(
    system: &SystemView<'_>,
    id: CpuId,
    board: &Board,
    arena: &mut Arena,
) -> Option<PcpuPolicy> {
    Some(match system.policy(id) {
        // In a pool no vCPU is known to it.
        CorePolicy::RoundRobin | CorePolicy::Global { .. } => {
            PcpuPolicy::RoundRobin(RoundRobin::new(slice(system, board)))
        }
        CorePolicy::Servers { order, slack } => {
            let slice = slice(system, board);
            let now = board.counter();
            let root = arena.put(Node::new(order, slack))?;
            let groups = system
                .groups_of(id)
                .map(|group| Node::new(group.order, slack));
            let groups = arena.put_all(system.groups_of(id).count(), groups)?;
            let tree = Tree::new(root, groups);
            let cost = u64::from(system.switch_cost) * board.machine.frequency / 1_000_000_000;
            let rest = Credit::new(TURNS * slice, slice, Deals::Used, now);
            let budgets = arena.put(Budgets::new(tree, rest, slack, cost))?;
            for (index, group) in system.groups_of(id).enumerate() {
                let reservation = group.terms.reservation(board.machine.frequency);
                let added = reservation
                    .map_err(PlaceError::Interface)
                    .and_then(|what| budgets.add_group(group.home.into(), what, now));
                if let Err(error) = added {
                    refuse(format_args!("CPU {id}: group {index}: {error}"));
                }
            }
            PcpuPolicy::Budgets(budgets)
        }
    })
}

/// The number of slices in a period of the credit by which best effort shares what is left.
const TURNS: u64 = 3;

/// A slice, in ticks of the board's counter.
fn slice(system: &SystemView<'_>, board: &Board) -> u64 {
    u64::from(system.slice) * board.machine.frequency / 1_000_000
}

/// The board of a CPU's record.
pub fn board_of(cpu: &Cpu<Host>) -> &'static Board {
    match &cpu.pcpu {
        Some(pcpu) => pcpu.local.board,
        None => refuse(format_args!("a CPU without a board")),
    }
}
