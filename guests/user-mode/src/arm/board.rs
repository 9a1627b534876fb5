//! The two boards: their serial port and interrupt controller, and how the program ends.

use core::arch::asm;
use core::fmt;

/// What differs between the boards.
struct Board {
    name: &'static str,
    uart: usize,
    distributor: usize,
    interface: usize,
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
const CORTEX_A9: u32 = 0xc09;

fn board() -> &'static Board {
    let midr: u32;
    // SAFETY: it reads an ID register.
    unsafe { asm!("mrc p15, 0, {0}, c0, c0, 0", out(reg) midr) };
    if midr >> 4 & 0xfff == CORTEX_A9 {
        &VEXPRESS
    } else {
        &VIRT
    }
}

/// The CPU's name.
pub fn name() -> &'static str {
    board().name
}

fn write(address: usize, value: u32) {
    // SAFETY: the callers give registers of the board's devices, which are mapped.
    unsafe { (address as *mut u32).write_volatile(value) };
}

/// Gives User mode access to what can be opened: the performance monitors (PMUSERENR) and, where
/// there is one, the generic timer (CNTKCTL).
pub fn open() {
    // SAFETY: this lets User mode read counters, and write those that nothing here uses.
    unsafe { asm!("mcr p15, 0, {0}, c9, c14, 0", "isb", in(reg) 1) };
    if board().name == VIRT.name {
        // SAFETY: as above; timers that User mode starts interrupt nobody, IRQs being masked.
        unsafe { asm!("mcr p15, 0, {0}, c14, c1, 0", "isb", in(reg) 0x303) };
    }
}

/// The serial port: a PL011 on both.
pub struct Console(usize);

impl Console {
    /// This board.
    pub fn new() -> Self {
        Self(board().uart)
    }
}

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| write(self.0, u32::from(byte)));
        Ok(())
    }
}

/// Makes an interrupt pending, which ends a WFI although it is masked (DDI 0406C B1.8.14): SGI 0,
/// to this CPU.
pub fn pend() {
    let board = board();
    write(board.distributor, 1); // GICD_CTLR
    write(board.distributor + 0x100, 1); // GICD_ISENABLER0
    write(board.interface + 4, 0xff); // GICC_PMR
    write(board.interface, 1); // GICC_CTLR
    write(board.distributor + 0xf00, 2 << 24); // GICD_SGIR: to who asks
}

/// Clears the pending interrupt.
pub fn unpend() {
    write(board().interface, 0);
    write(board().distributor, 0);
}

/// Turns the board off: PSCI SYSTEM_OFF on `virt`, the motherboard's configuration controller on
/// the other.
pub fn off() -> ! {
    if board().name == VEXPRESS.name {
        write(0x1000_00a0, 0); // SYS_CFGDATA
        write(0x1000_00a4, 0xc080_0000); // SYS_CFGCTRL: start, write, shutdown
    } else {
        // SAFETY: HVC #0 with this number does not return.
        unsafe { asm!(".inst 0xe1400070", in("r0") 0x8400_0008u32) };
    }
    loop {
        core::hint::spin_loop();
    }
}
