//! The board as the exits see it: what all pCPUs share once the hypervisor has started.

use crate::interrupts::{Interface, Target};
use crate::traps::Features;
use crate::unit::VmUnit;
use crate::{debug, fp};
use core::sync::atomic::{AtomicBool, AtomicU32};
use hanok_arm_common::{Firmware, HostUart};
use hanok_config::MAX_BOARD_LINES;
use hanok_decode::SysReg;
use hanok_hal::{Mutex, SerialPort};
use hanok_paging::VmidPool;
use hanok_types::{CpuId, IntId, MAX_CPUS, VmId};
use hanok_vm::{Machine, Multiplexer, StackPointer};

/// An interrupt of a device that a VM has for itself.
#[derive(Clone, Copy, Debug)]
pub struct DeviceLine {
    /// Its id on the board.
    pub board: IntId,
    /// Its id for the guest.
    pub guest: IntId,
    /// Whose it is, by its place in the description.
    pub vm: usize,
}

/// All of them.
pub type DeviceLines = heapless::Vec<DeviceLine, MAX_BOARD_LINES>;

/// Interrupts of the board that the hypervisor serves itself.
#[derive(Clone, Copy, Debug)]
pub struct BoardInterrupts {
    /// The virtual timer's, handed on to guests.
    pub virtual_timer: IntId,
    /// The hypervisor's own timer.
    pub hyp_timer: IntId,
    /// The GIC's maintenance interrupt.
    pub maintenance: IntId,
    /// The serial port's, if it has one.
    pub uart: Option<IntId>,
}

/// All that pCPUs share. Made once, never dropped.
#[allow(missing_debug_implementations)]
pub struct Board {
    /// The firmware, if the board has PSCI.
    pub firmware: Option<Firmware>,
    /// The one serial line.
    pub console: Mutex<Multiplexer<'static, HostUart>>,
    /// Interrupts.
    pub interrupts: BoardInterrupts,
    /// How CPUs take their interrupts.
    pub gic: Interface,
    /// How each pCPU is named, by its index.
    pub cpus: heapless::Vec<Target, MAX_CPUS>,
    /// VTCR_EL2, the same for every VM.
    pub vtcr: u64,
    /// The CPUs' optional features (all CPUs of a board are alike).
    pub features: Features,
    /// The counter's frequency in Hz.
    pub frequency: u64,
    /// Interrupts of devices that VMs have for themselves.
    pub lines: DeviceLines,
    /// The VMs.
    pub vms: &'static [VmUnit],
    /// VMIDs, one for each life of a VM.
    pub vmids: Mutex<VmidPool>,
    /// VTTBR_EL2 of nobody: a stage 2 that maps nothing.
    pub nobody: u64,
    /// What VMs' blobs are offsets into.
    pub payload: &'static [u8],
    /// What guests' random numbers come from.
    pub random: Mutex<hanok_random::Pool>,
    /// When things happened that no guest knows to the tick.
    pub jitter: AtomicU32,
    /// Held by who moves received bytes to the VMs; taken before any other lock.
    pub reception: Mutex<()>,
    /// A bit for each VM whose bytes wait until it has room for them.
    pub input_waits: AtomicU32,
    /// Some bytes wait until the line takes them.
    pub output_waits: AtomicBool,
    /// Whether the CPUs count the hypervisor's instructions.
    pub counts_instructions: bool,
    /// Some VM was stopped rather than turned off.
    pub any_stopped: AtomicBool,
    /// The boot loader's arguments.
    pub bootargs: &'static str,
    /// A planted error, for a test that must see whose it is: the next vCPU that makes room for
    /// another one leaves as if a store of its had failed.
    pub late_error: AtomicBool,
    /// A planted fault, for a test that must find it: ID registers say something else now and
    /// then.
    pub unsteady_ids: bool,
}

/// The line behind one VM's serial port.
#[allow(missing_debug_implementations)]
pub struct VmPort<'a> {
    console: &'a Mutex<Multiplexer<'static, HostUart>>,
    vm: VmId,
}

impl SerialPort for VmPort<'_> {
    fn try_send(&mut self, byte: u8) -> bool {
        self.console.lock().try_send(self.vm, byte)
    }
}

impl Machine for Board {
    type Port<'a> = VmPort<'a>;

    #[inline(always)]
    fn kick(&self, cpu: CpuId) {
        if let Some(target) = self.cpus.get(cpu.index()) {
            self.gic.kick(target);
        }
    }

    fn counter(&self) -> u64 {
        crate::read!("cntpct_el0")
    }

    fn counter_frequency(&self) -> u64 {
        self.frequency
    }

    fn deactivate(&self, interrupt: IntId) {
        self.gic.deactivate(interrupt);
    }

    fn port(&self, vm: VmId) -> VmPort<'_> {
        VmPort {
            console: &self.console,
            vm,
        }
    }

    fn line_state(&self, vm: VmId, room: bool, waiting: bool) {
        self.port_changed(vm, room, waiting);
    }

    fn id_register(&self, id: SysReg) -> u64 {
        let value = crate::host_id::read(id);
        match self.unsteady_ids && self.counter().is_multiple_of(8) {
            true => !value,
            false => value,
        }
    }

    fn stack_pointer(&self, which: StackPointer) -> u64 {
        match which {
            StackPointer::El0 => crate::read!("sp_el0"),
            StackPointer::El1 => crate::read!("sp_el1"),
        }
    }

    fn set_stack_pointer(&self, which: StackPointer, value: u64) {
        // EL2 runs on SP_EL2: both are the guest's.
        match which {
            StackPointer::El0 => crate::write!("sp_el0", value),
            StackPointer::El1 => crate::write!("sp_el1", value),
        }
    }

    fn set_debug_control(&self, value: u64) {
        debug::set_control(value);
    }

    fn debug_register(&self, id: SysReg) -> u64 {
        debug::register(id)
    }

    fn set_debug_register(&self, id: SysReg, value: u64) {
        debug::set_register(id, value);
    }

    fn clear_debug_registers(&self) {
        debug::clear();
    }

    fn vector(&self, index: u8) -> Option<u128> {
        fp::vector(index)
    }

    fn set_vector(&self, index: u8, value: u128) {
        fp::set_vector(index, value);
    }
}
