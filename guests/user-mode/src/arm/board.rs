//! The two boards: their serial port and interrupt controller, and how the program ends.

use hanok_guest_runtime::gic::{self, Layout, v2};
use hanok_guest_runtime::{console, mmio, psci};

pub use hanok_guest_runtime::console::Console;

/// What differs between the boards.
struct Board {
    name: &'static str,
    uart: u64,
    distributor: u64,
    interface: u64,
}

const VIRT: Board = Board {
    name: "Cortex-A15",
    uart: 0x0900_0000,
    distributor: 0x0800_0000,
    interface: 0x0801_0000,
};
const VEXPRESS: Board = Board {
    name: "Cortex-A9",
    uart: 0x1000_9000,
    distributor: 0x1e00_1000,
    interface: 0x1e00_0100,
};
/// Part numbers in MIDR (DDI 0388, MIDR).
const CORTEX_A9: u64 = 0xc09;

fn board() -> &'static Board {
    if read_sysreg!("midr_el1") >> 4 & 0xfff == CORTEX_A9 {
        &VEXPRESS
    } else {
        &VIRT
    }
}

/// The CPU's name.
pub fn name() -> &'static str {
    board().name
}

/// From now on the board's devices are used.
pub fn install() {
    let board = board();
    console::install(console::Sink::Pl011(board.uart));
    gic::install(Layout::V2 {
        distributor: board.distributor,
        cpu: board.interface,
    });
}

/// Opens to User mode what can be: the performance monitors (PMUSERENR) and, where there is one,
/// the generic timer (CNTKCTL). User mode may read counters then, and write those that nothing here
/// uses; timers that it starts interrupt nobody, IRQs being masked.
pub fn open() {
    write_sysreg!("pmuserenr_el0", 1);
    if board().name == VIRT.name {
        write_sysreg!("cntkctl_el1", 0x303);
    }
}

/// Makes an interrupt pend, which ends a WFI although it is masked (DDI 0406C B1.8.14): SGI 0,
/// to this CPU. What was run may have changed the register by which the runtime knows its CPU.
pub fn pend() {
    gic::init_distributor();
    gic::set_bit(gic::ISENABLER, 0);
    v2::reset_interface();
    v2::send_to(0, 0);
}

/// Clears the pending interrupt.
pub fn unpend() {
    v2::set_group_enabled(false);
    mmio::write32(gic::distributor(), 0);
}

/// Turns the board off: PSCI SYSTEM_OFF on `virt`, the motherboard's configuration controller on
/// the other.
pub fn off() -> ! {
    if board().name == VEXPRESS.name {
        mmio::write32(0x1000_00a0, 0); // SYS_CFGDATA
        mmio::write32(0x1000_00a4, 0xc080_0000); // SYS_CFGCTRL: start, write, shutdown
        loop {
            core::hint::spin_loop();
        }
    }
    psci::system_off()
}
