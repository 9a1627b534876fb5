//! A pCPU: what TPIDR_EL2 points at.

use crate::board::Board;
use crate::devices::Restrained;
use crate::interrupts::{CpuGic, Taken};
use crate::unit::VmUnit;
use crate::vcpu::Vcpu;
use core::cell::Cell;
use core::ptr;
use hanok_sched::{Entity, MAX_ENTITIES, RoundRobin};
use hanok_types::{CpuId, Deadline};
use hanok_vm::Ending;

/// One pCPU's own data. Touched by that pCPU alone.
#[allow(missing_debug_implementations)]
#[repr(C)]
pub struct Cpu {
    /// Top of the stack for exceptions from EL2 itself.
    pub emergency_stack: u64,
    /// Top of the normal stack.
    pub stack: u64,
    /// Which pCPU.
    pub id: CpuId,
    /// What all share; `None` while starting.
    pub board: Option<&'static Board>,
    /// The vCPUs that belong here, by their [`Entity`].
    pub vcpus: heapless::Vec<*mut Vcpu, MAX_ENTITIES>,
    /// Whose turn it is.
    pub policy: RoundRobin,
    /// The vCPU whose state is in this CPU; null for none.
    pub resident: *mut Vcpu,
    /// The vCPU whose FP registers are in this CPU; null for none.
    pub fp_owner: *mut Vcpu,
    /// The VM whose last vCPU has just left it here, and what its end asks for.
    pub ending: Option<(&'static VmUnit, Ending)>,
    /// When somebody else than the resident vCPU is to be looked at.
    pub deadline: Deadline,
    /// Devices that have interrupted others' turns too often.
    pub restrained: Restrained,
    /// What the hypervisor's timer is set to; never: it is off.
    pub timer: Cell<Deadline>,
    /// This pCPU's part of the interrupt controller, once it is set up.
    pub gic: Option<CpuGic>,
    /// The interrupt that was acknowledged at the exit, its priority dropped, and is to be
    /// served; `None` where it was ended already.
    pub taken: Option<Taken>,
    /// Whether the CPU counts EL2's own instructions.
    pub counts_instructions: bool,
    /// What the counter of EL2's own instructions showed when it was last looked at.
    pub instructions: u32,
}

impl Cpu {
    /// A pCPU that nobody belongs to yet; turns of `slice` counter ticks.
    pub fn new(id: CpuId, board: Option<&'static Board>, stacks: (u64, u64), slice: u64) -> Self {
        let (stack, emergency_stack) = stacks;
        Self {
            emergency_stack,
            stack,
            id,
            board,
            vcpus: heapless::Vec::new(),
            policy: RoundRobin::new(slice),
            resident: ptr::null_mut(),
            fp_owner: ptr::null_mut(),
            ending: None,
            deadline: Deadline::NEVER,
            restrained: Restrained::default(),
            timer: Cell::new(Deadline::NEVER),
            gic: None,
            taken: None,
            counts_instructions: board.is_some_and(|board| board.counts_instructions),
            instructions: 0,
        }
    }

    /// Gives it a vCPU; `false` where there is no room for one more.
    pub fn adopt(&mut self, vcpu: &'static mut Vcpu) -> bool {
        let Some(entity) = Entity::new(self.vcpus.len()) else {
            return false;
        };
        vcpu.entity = entity;
        vcpu.stack = self.stack;
        self.vcpus.push(vcpu).is_ok()
    }

    /// Where the CPU counts them: how many instructions of its own EL2
    /// executed here since the last call.
    #[inline(always)]
    pub fn instructions_since(&mut self) -> u64 {
        let now = crate::pmu::read_instructions();
        let since = now.wrapping_sub(self.instructions);
        self.instructions = now;
        since.into()
    }

    /// Whether several vCPUs share it.
    pub fn is_shared(&self) -> bool {
        self.vcpus.len() > 1
    }
}

/// Makes `cpu` this pCPU's own.
///
/// # Safety
/// `cpu` lives for ever and is no other pCPU's.
pub unsafe fn install(cpu: *mut Cpu) {
    crate::write!("tpidr_el2", cpu as u64);
}

/// This pCPU's own data; null before [`install`].
pub fn current() -> *mut Cpu {
    crate::read!("tpidr_el2") as *mut Cpu
}
