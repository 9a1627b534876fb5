//! The serial port, the interrupt controller and PSCI: the first two by packaged drivers.

use core::arch::asm;
use core::cell::RefCell;
use core::fmt;
use core::ptr::NonNull;

use arm_gic::gicv2::GicV2;
use arm_gic::{IntId, InterruptGroup, Trigger};
use arm_pl011_uart::{DataBits, LineConfig, Parity, StopBits, Uart, UniqueMmioPointer};
use critical_section::Mutex;

use super::tree::Machine;

/// The priority mask: the least urgent priority that is let through.
const ANY_PRIORITY: u8 = 0xf0;
/// The priority of the timer's interrupt.
const TIMER_PRIORITY: u8 = 0x80;
/// The PSCI function that ends the machine (DEN 0022).
const SYSTEM_OFF: u32 = 0x8400_0008;

static UART: Mutex<RefCell<Option<Uart<'static>>>> = Mutex::new(RefCell::new(None));
static GIC: Mutex<RefCell<Option<GicV2<'static>>>> = Mutex::new(RefCell::new(None));
static PSCI_BY_SMC: Mutex<RefCell<bool>> = Mutex::new(RefCell::new(false));

/// Installs the console, and the way to end the machine.
///
/// # Safety
///
/// The tree describes this machine; called once.
pub unsafe fn install(machine: &Machine) {
    let Some(registers) = NonNull::new(machine.uart as *mut _) else {
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
        PSCI_BY_SMC.replace(token, machine.psci_by_smc);
        UART.replace(token, enabled.ok().map(|()| uart));
    });
}

/// Installs the controller, with the timer's interrupt enabled; the CPU still masks it.
///
/// # Safety
///
/// The tree describes this machine; called once.
pub unsafe fn install_gic(machine: &Machine) {
    // SAFETY: the caller's promise.
    let mut gic = unsafe { GicV2::new(machine.distributor as *mut _, machine.interface as *mut _) };
    gic.setup();
    gic.set_priority_mask(ANY_PRIORITY);
    let timer = IntId::ppi(machine.timer);
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

/// Ends the machine, by PSCI.
pub fn system_off() -> ! {
    let by_smc = critical_section::with(|token| PSCI_BY_SMC.take(token));
    // SAFETY: a function without arguments; what it may change is given up.
    unsafe {
        if by_smc {
            asm!(".inst 0xe1600070", inout("r0") SYSTEM_OFF => _, out("r1") _, out("r2") _, out("r3") _);
        } else {
            asm!(".inst 0xe1400070", inout("r0") SYSTEM_OFF => _, out("r1") _, out("r2") _, out("r3") _);
        }
    }
    aarch32_cpu::interrupt::disable();
    loop {
        aarch32_cpu::asm::wfi();
    }
}
