//! The board during exits: the data that all pCPUs share once the hypervisor has started.

use crate::{Report, Traces, VmUnit, Walk, Wish};
use hanok_config::{CorePolicy, Group, MAX_BOARD_LINES};
use hanok_decode::SysReg;
use hanok_hal::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hanok_hal::{Backend, LineFull, Mutex, SerialPort};
use hanok_memory::Owners;
use hanok_paging::VmidPool;
use hanok_trace::{CpuAccount, Sink};
use hanok_types::{CpuId, Hpa, IntId, MAX_CPUS, VmId, Width};
use hanok_vgic::GuestInterface;
use hanok_vm::{
    Clock, CpuRegisters, DeviceRegisters, Home, Interrupts, Multiplexer, SerialLines, StackPointer,
};

/// A backend that provides everything that VMs need.
pub trait Host: Backend<Lists: GuestInterface> + CpuRegisters + DeviceRegisters + Sink {}

impl<B: Backend<Lists: GuestInterface> + CpuRegisters + DeviceRegisters + Sink> Host for B {}

/// An interrupt of a device that a VM has for itself.
#[derive(Clone, Copy, Debug)]
pub struct DeviceLine {
    /// The interrupt's id on the board.
    pub board: IntId,
    /// The interrupt's id for the guest.
    pub guest: IntId,
    /// Whether an edge triggers it.
    pub edge: bool,
    /// The VM that has the device, by its index in the description.
    pub vm: usize,
}

impl DeviceLine {
    /// The interrupt of the SMMU in front of the devices of VM `vm`, which tells that it has refused an access. It is
    /// served as the VM's own, at the VM's expense, and comes to no guest.
    pub const fn refusals(board: IntId, edge: bool, vm: usize) -> Self {
        let guest = BoardInterrupts::NONE;
        Self {
            board,
            guest,
            edge,
            vm,
        }
    }

    /// Whether it is such an interrupt.
    pub(crate) fn tells_refusals(&self) -> bool {
        self.guest == BoardInterrupts::NONE
    }
}

/// All interrupts of devices that VMs have for themselves.
pub type DeviceLines = heapless::Vec<DeviceLine, MAX_BOARD_LINES>;

/// Interrupts of the board that the hypervisor serves itself.
#[derive(Clone, Copy, Debug)]
pub struct BoardInterrupts {
    /// The virtual timer's interrupt, which is handed on to guests. Where guests have an emulated one, it is an
    /// id that no acknowledgement answers ([`Self::NONE`]).
    pub virtual_timer: IntId,
    /// The hypervisor's own timer.
    pub hyp_timer: IntId,
    /// The GIC's maintenance interrupt.
    pub maintenance: IntId,
    /// The serial port's, if it has one.
    pub uart: Option<IntId>,
}

impl BoardInterrupts {
    /// The id of an interrupt that the board does not have: it means that nothing is pending (IHI 0048B, 3.2.5).
    pub const NONE: IntId = IntId::new(1023);
}

/// All data that pCPUs share. It is made once and never dropped. The fields that each kick needs come
/// first, as an instruction reaches no more than 4 KiB beyond a pointer.
#[allow(missing_debug_implementations)]
#[repr(C)]
pub struct Board<B: Backend> {
    /// The pending updates of each pCPU that several vCPUs share: a bit for each vCPU that was kicked and
    /// has not been brought up to date since. A bit is set before the kick.
    pub updates: [AtomicU64; MAX_CPUS],
    /// The CPUs.
    pub machine: B,
    /// The one serial line.
    pub console: Mutex<Multiplexer<'static, B::Line>>,
    /// Interrupts.
    pub interrupts: BoardInterrupts,
    /// Interrupts of devices that VMs have for themselves.
    pub lines: DeviceLines,
    /// The VMs.
    pub vms: &'static [VmUnit<B>],
    /// VMIDs, one for each boot of a VM.
    pub vmids: Mutex<VmidPool>,
    /// The owner of each frame.
    pub owners: Mutex<Owners>,
    /// The self-test that moves pages of VMs to other frames at random.
    #[cfg(feature = "selftest")]
    pub page_moves: crate::PageMoves,
    /// The image's payload, to which the offsets of VMs' blobs refer.
    pub payload: &'static [u8],
    /// The pool from which guests' random numbers come.
    pub random: Mutex<hanok_random::Pool>,
    /// A mixture of the times of events that no guest knows to the tick.
    pub jitter: AtomicU32,
    /// The lock of the console's receiving side, and what is left of the prompt's last command. The pCPU that
    /// moves received bytes to the VMs holds it, and takes it before any other lock.
    pub rx_lock: Mutex<Unsaid>,
    /// A bit for each VM whose bytes wait until it has room for them.
    pub input_waits: AtomicU64,
    /// Whether bytes wait until the line takes them.
    pub output_waits: AtomicBool,
    /// Whether the CPUs count the hypervisor's instructions.
    pub counts_instructions: bool,
    /// The lock of ends of VMs. The pCPU that ends a VM holds it, and takes it before any other lock.
    pub endings: Mutex<()>,
    /// Whether a VM was stopped rather than turned off.
    pub any_stopped: AtomicBool,
    /// The boot loader's arguments.
    pub bootargs: &'static str,
    /// What a person wants of a vCPU. The vCPU's pCPU takes it when it has answered.
    pub wish: Mutex<Option<Wish>>,
    /// The policy of each pCPU, for people.
    pub policies: [CorePolicy; MAX_CPUS],
    /// The groups of vCPUs, for people.
    pub groups: &'static [Group],
    /// The pCPUs that have vCPUs, one bit each.
    pub inhabited: u64,
    /// What each pCPU did; there are as many as the board has.
    pub accounts: &'static [CpuAccount],
    /// The trace.
    pub traces: Traces,
}

/// What is left to be said of commands.
#[derive(Debug, Default)]
pub struct Unsaid {
    /// Of the prompt's last command.
    pub(crate) command: Option<Walk>,
    /// Of the last request for a report.
    pub(crate) report: Option<Report>,
    /// Whether the last piece of it came before guests' bytes.
    pub(crate) first: bool,
}

/// What a pCPU did that has no account, which is none of the board's.
static NO_ACCOUNT: CpuAccount = CpuAccount::new();

impl<B: Backend> Board<B> {
    /// What a pCPU did.
    pub fn account(&self, cpu: CpuId) -> &'static CpuAccount {
        self.accounts.get(cpu.index()).unwrap_or(&NO_ACCOUNT)
    }
}

/// The line behind one VM's serial port.
#[allow(missing_debug_implementations)]
pub struct VmPort<'a, L> {
    console: &'a Mutex<Multiplexer<'static, L>>,
    vm: VmId,
}

impl<L: SerialPort> SerialPort for VmPort<'_, L> {
    fn try_send(&mut self, byte: u8) -> Result<(), LineFull> {
        self.console.lock().try_send(self.vm, byte)
    }
}

impl<B: Host> Interrupts for Board<B> {
    #[inline(always)]
    fn kick(&self, home: Home) {
        if home.bit != 0
            && let Some(updates) = self.updates.get(home.cpu.index())
        {
            updates.fetch_or(home.bit, Ordering::Release);
        }
        self.machine.kick(home.cpu);
    }

    #[inline(always)]
    fn deactivate(&self, interrupt: IntId) {
        self.machine.deactivate(interrupt);
    }
}

impl<B: Host> Clock for Board<B> {
    #[inline(always)]
    fn counter(&self) -> u64 {
        self.machine.counter()
    }

    #[inline(always)]
    fn counter_frequency(&self) -> u64 {
        self.machine.counter_frequency()
    }
}

impl<B: Host> SerialLines for Board<B> {
    type Port<'a> = VmPort<'a, B::Line>;

    fn port(&self, vm: VmId) -> VmPort<'_, B::Line> {
        VmPort {
            console: &self.console,
            vm,
        }
    }

    #[inline]
    fn input_waits(&self, vm: VmId) -> bool {
        self.input_waits.load(Ordering::SeqCst) >> vm.index() & 1 != 0
    }

    fn line_state(&self, vm: VmId, room: bool, waiting: bool) {
        self.port_changed(vm, room, waiting);
    }
}

impl<B: Host> DeviceRegisters for Board<B> {
    fn access_register(&self, at: Hpa, width: Width, value: Option<u64>) -> Option<u64> {
        self.machine.access_register(at, width, value)
    }
}

impl<B: Host> CpuRegisters for Board<B> {
    fn id_register(&self, id: SysReg) -> u64 {
        self.machine.id_register(id)
    }

    fn stack_pointer(&self, which: StackPointer) -> u64 {
        self.machine.stack_pointer(which)
    }

    fn set_stack_pointer(&self, which: StackPointer, value: u64) {
        self.machine.set_stack_pointer(which, value);
    }

    fn set_debug_control(&self, value: u64) {
        self.machine.set_debug_control(value);
    }

    fn debug_register(&self, id: SysReg) -> u64 {
        self.machine.debug_register(id)
    }

    fn set_debug_register(&self, id: SysReg, value: u64) {
        self.machine.set_debug_register(id, value);
    }

    fn clear_debug_registers(&self) {
        self.machine.clear_debug_registers();
    }

    fn vector(&self, index: u8) -> Option<u128> {
        self.machine.vector(index)
    }

    fn set_vector(&self, index: u8, value: u128) {
        self.machine.set_vector(index, value);
    }
}
