//! What the core asks of the machine while it handles an exit.

use hanok_decode::SysReg;
use hanok_hal::SerialPort;
use hanok_types::{CpuId, IntId, VmId};

/// The machine as one pCPU sees it.
pub trait Machine {
    /// The line behind a VM's serial port.
    type Port<'a>: SerialPort
    where
        Self: 'a;

    /// Makes `cpu` leave its guest, or wake, and look at its vCPU's requests. Not for the
    /// calling pCPU itself.
    fn kick(&self, cpu: CpuId);

    /// The system counter (CNTPCT_EL0), in ticks of [`Self::counter_frequency`].
    fn counter(&self) -> u64;

    /// Ticks a second.
    fn counter_frequency(&self) -> u64;

    /// Deactivates a physical interrupt that a guest holds no longer.
    fn deactivate(&self, interrupt: IntId);

    /// The line behind the serial port of `vm`.
    fn port(&self, vm: VmId) -> Self::Port<'_>;

    /// After an access to the serial port of `vm`: whether it has `room` for received bytes,
    /// and whether bytes to be sent are `waiting` for the line.
    fn line_state(&self, vm: VmId, room: bool, waiting: bool);

    /// The CPU's own value of an ID register (op0 3, op1 0, CRn 0).
    fn id_register(&self, id: SysReg) -> u64;
}
