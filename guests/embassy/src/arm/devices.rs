//! The serial port and the interrupt controller, by packaged drivers.

use core::arch::asm;
use core::cell::RefCell;
use core::fmt;
use core::ptr::NonNull;

use arm_gic::gicv2::GicV2;
use arm_gic::{IntId, InterruptGroup, Trigger};
use arm_pl011_uart::{DataBits, LineConfig, Parity, StopBits, Uart, UniqueMmioPointer};
use critical_section::Mutex;

use hanok_guest_runtime::console::Sink;
use hanok_guest_runtime::gic::Layout;
use hanok_guest_runtime::psci;
use hanok_guest_runtime::tree::Machine;

/// The priority mask: the least urgent priority that is let through.
const ANY_PRIORITY: u8 = 0xf0;
/// The first interrupt that is private to a CPU and no SGI.
const FIRST_PPI: u32 = 16;
/// The timer's.
const TIMER_PRIORITY: u8 = 0x80;

static UART: Mutex<RefCell<Option<Uart<'static>>>> = Mutex::new(RefCell::new(None));
static GIC: Mutex<RefCell<Option<GicV2<'static>>>> = Mutex::new(RefCell::new(None));

/// CBAR of Cortex-A7 and A15 (DDI 0438, "Configuration Base Address Register"), from which drivers
/// of such boards find their interrupt controller where there is no tree.
pub fn peripherals() -> u32 {
    let value: u32;
    // SAFETY: a read without effect.
    unsafe { asm!("mrc p15, 4, {}, c15, c0, 0", out(reg) value, options(nomem, nostack)) };
    value
}

/// Installs the console, and the way to end the machine.
///
/// # Safety
///
/// The tree describes this machine; called once.
pub unsafe fn install(machine: &Machine) {
    psci::install(machine.psci);
    let Sink::Pl011(uart) = machine.console else {
        return;
    };
    let Some(registers) = NonNull::new(uart as usize as *mut _) else {
        return;
    };
    // SAFETY: the caller's promise.
    let mut uart = Uart::new(unsafe { UniqueMmioPointer::new(registers) });
    let line = LineConfig {
        data_bits: DataBits::Bits8,
        parity: Parity::None,
        stop_bits: StopBits::One,
    };
    // 24 MHz is the clock of QEMU's; an emulated port has no speed.
    let enabled = uart.enable(line, 115_200, 24_000_000);
    critical_section::with(|token| {
        UART.replace(token, enabled.ok().map(|()| uart));
    });
}

/// Installs the controller, with the timer's interrupt enabled; the CPU still masks it.
///
/// # Safety
///
/// The tree describes this machine; called once.
pub unsafe fn install_gic(machine: &Machine) {
    let Layout::V2 { distributor, cpu } = machine.gic else {
        panic!("no GICv2");
    };
    let [distributor, cpu] = [distributor, cpu].map(|address| address as usize);
    // SAFETY: the caller's promise.
    let mut gic = unsafe { GicV2::new(distributor as *mut _, cpu as *mut _) };
    gic.setup();
    gic.set_priority_mask(ANY_PRIORITY);
    let Some(timer) = machine.timer else {
        panic!("no timer");
    };
    let timer = IntId::ppi(timer - FIRST_PPI);
    gic.set_interrupt_priority(timer, TIMER_PRIORITY);
    gic.set_trigger(timer, Trigger::Level);
    if gic.enable_interrupt(timer, true).is_err() {
        panic!("the timer's interrupt cannot be enabled");
    }
    critical_section::with(|token| GIC.replace(token, Some(gic)));
}

/// Takes the most urgent pending interrupt.
pub fn acknowledge() -> Option<IntId> {
    with_gic(|gic| gic.get_and_acknowledge_interrupt(InterruptGroup::Group0)).flatten()
}

/// Ends the interrupt `id`.
pub fn end(id: IntId) {
    with_gic(|gic| gic.end_interrupt(id, InterruptGroup::Group0));
}

fn with_gic<T>(act: impl FnOnce(&mut GicV2<'static>) -> T) -> Option<T> {
    critical_section::with(|token| GIC.borrow_ref_mut(token).as_mut().map(act))
}

/// The serial port, for printing; nothing is printed before [`install`]. Interrupts are masked for
/// each character, not for a whole line.
pub struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                send(b'\r');
            }
            send(byte);
        }
        Ok(())
    }
}

fn send(byte: u8) {
    let sent = || {
        critical_section::with(|token| match UART.borrow_ref_mut(token).as_mut() {
            Some(uart) if uart.is_tx_fifo_full() => false,
            Some(uart) => {
                uart.write_word(byte);
                true
            }
            None => true,
        })
    };
    while !sent() {}
}

macro_rules! println {
    ($($argument:tt)*) => {{
        use core::fmt::Write;
        // The console never fails.
        let _ = writeln!($crate::arm::devices::Console, $($argument)*);
    }};
}
pub(super) use println;
