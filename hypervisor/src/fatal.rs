//! The end of a run that cannot go on: a refusal to start, or a panic.
//!
//! A refusal names the fault of the configuration and its remedy. A panic is a fault of the hypervisor; it
//! shows the place, the registers and the state of each VM. Both are sent directly to the serial port,
//! whatever state the console is in, and then turn the board off, so that the program that started the run
//! gets a failing exit code.

use crate::VmUnit;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use hanok_arch::vectors::FaultFrame;
use hanok_arch::{Host, Vcpu, last_words};
use hanok_arm_common::cpu::{self, Cpu};
use hanok_arm_common::sysreg::wait_for_interrupt;
use hanok_arm_common::{Conduit, Firmware, HostUart};
use hanok_hal::SerialPort;
use hanok_types::VcpuSet;

/// The panic console's serial port in one word ([`hanok_config::SerialKind::port`]); 0 if there is none.
static UART: AtomicU64 = AtomicU64::new(0);
/// The serial port that the image tool names, until it has been tried; 0 if there is none.
static EARLY_UART: AtomicU64 = AtomicU64::new(0);
/// Whether the line is framed (see `hanok_vm::Multiplexer`).
static FRAMED: AtomicBool = AtomicBool::new(false);
/// The way to turn the board off: 0 unknown, 1 SMC, 2 HVC.
static CONDUIT: AtomicU64 = AtomicU64::new(0);
/// The CPU that fails, once one does: its MPIDR with bit 63 set. Another CPU that fails then says
/// nothing and stops, and so does a failure while one is reported.
static FATAL: AtomicU64 = AtomicU64::new(0);

/// Sets the panic console's serial port, which is mapped.
pub fn set_console(port: u64) {
    UART.store(port, Ordering::Relaxed);
}

/// Sets the serial port that the image tool names, which is tried if the other one does not answer.
pub fn set_early_console(port: u64) {
    EARLY_UART.store(port, Ordering::Relaxed);
    set_console(port);
}

/// Sets whether the line is framed.
pub fn set_framed(framed: bool) {
    FRAMED.store(framed, Ordering::Relaxed);
}

/// Sets the way to turn the board off.
pub fn set_conduit(conduit: Conduit) {
    CONDUIT.store(
        if conduit == Conduit::Smc { 1 } else { 2 },
        Ordering::Relaxed,
    );
}

struct Line(Option<HostUart>);

impl Line {
    fn open() -> Self {
        // SAFETY: a port mapped for ever; other users of it are cut short, as this run ends.
        let mut line = Self(unsafe { HostUart::new(UART.load(Ordering::Relaxed)) });
        if FRAMED.load(Ordering::Relaxed) {
            line.send(0x10);
            line.send(0x3f);
        } else {
            line.send(b'\r');
            line.send(b'\n');
        }
        line
    }

    fn send(&mut self, byte: u8) {
        if let Some(uart) = &mut self.0 {
            uart.send_blocking(byte);
        }
    }

    fn say(&mut self, text: fmt::Arguments<'_>) {
        let framed = FRAMED.load(Ordering::Relaxed);
        if !framed {
            let _ = self.write_str("hanok: ");
        }
        let _ = self.write_fmt(text);
        let _ = self.write_str(if framed { "\n" } else { "\r\n" });
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.send(byte));
        Ok(())
    }
}

fn power_off() -> ! {
    match CONDUIT.load(Ordering::Relaxed) {
        1 => Firmware::new(Conduit::Smc).system_off(),
        2 => Firmware::new(Conduit::Hvc).system_off(),
        _ => {}
    }
    loop {
        wait_for_interrupt();
    }
}

/// Refuses to start: the configuration, the image or the board is at fault.
pub fn refuse(reason: fmt::Arguments<'_>) -> ! {
    claim_failure();
    refuse_now(reason)
}

fn refuse_now(reason: fmt::Arguments<'_>) -> ! {
    let mut line = Line::open();
    line.say(format_args!("refused: {reason}"));
    line.say(format_args!("end: refused"));
    power_off()
}

/// Lets the first CPU that fails go on; others wait for the end.
fn claim_failure() {
    let me = hanok_arch::read!("mpidr_el1") | 1 << 63;
    match FATAL.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {}
        Err(first) if first == me => speak_elsewhere(),
        Err(_) => loop {
            wait_for_interrupt();
        },
    }
}

/// Reporting a failure has failed: says so once on the console that the image tool names.
#[cold]
fn speak_elsewhere() -> ! {
    let early = EARLY_UART.swap(0, Ordering::Relaxed);
    if early != 0 && UART.swap(early, Ordering::Relaxed) != early {
        refuse_now(format_args!(
            "the serial port that the board's device tree names does not answer"
        ));
    }
    power_off()
}

/// Whether no VM has run yet: until then, an address that nothing answers is one that the board's
/// tree named.
fn is_booting() -> bool {
    let here: *mut Cpu<Host> = cpu::current();
    // SAFETY: null, or installed: this CPU's own data, live for ever.
    let pcpu = unsafe { here.as_ref() }.and_then(|here| here.pcpu.as_ref());
    let board = pcpu.map(|pcpu| pcpu.local.board);
    let ran = |unit: &VmUnit| unit.vm.lifecycle().number() > 1 || unit.vm.lifecycle().is_running();
    !board.is_some_and(|board| board.vms.iter().any(ran))
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    claim_failure();
    let mut line = Line::open();
    match info.location() {
        Some(at) => line.say(format_args!(
            "panic: {} at {}:{}",
            info.message(),
            at.file(),
            at.line()
        )),
        None => line.say(format_args!("panic: {}", info.message())),
    }
    last_words::cpu(|text| line.say(text));
    show_state(&mut line);
    line.say(format_args!("end: panic"));
    power_off()
}

/// An exception that the hypervisor itself took. `vector` is the number of its entry among those
/// for the current exception level.
#[unsafe(no_mangle)]
extern "C" fn hanok_on_el2_fault(vector: u64, frame: &FaultFrame) -> ! {
    claim_failure();
    if let Some(address) = last_words::unanswered(vector).filter(|_| is_booting()) {
        refuse_now(format_args!(
            "nothing answers at {address:#x}, where the board's device tree names a device or memory"
        ));
    }
    let mut line = Line::open();
    last_words::fault(vector, frame, |text| line.say(text));
    show_state(&mut line);
    line.say(format_args!("end: panic"));
    power_off()
}

/// Shows the registers of the vCPU that this CPU ran, and the state of each VM.
fn show_state(line: &mut Line) {
    let here: *mut Cpu<Host> = cpu::current();
    if here.is_null() {
        return;
    }
    // SAFETY: not null, so installed: this CPU's own data, live for ever. What is read of
    // others' may be changing; this run ends, and a torn value is shown as it is.
    let here = unsafe { &*here };
    line.say(format_args!("  on pCPU {}", here.id));
    // SAFETY: as above.
    if let Some(vcpu) = unsafe { here.current.as_ref() } {
        show_vcpu(line, vcpu);
    }
    for unit in here
        .pcpu
        .as_ref()
        .map_or(&[][..], |pcpu| pcpu.local.board.vms)
    {
        let vm = &unit.vm;
        let life = vm.lifecycle();
        let any_on = VcpuSet::first(vm.vcpus())
            .iter()
            .any(|vcpu| vm.power(vcpu).is_on());
        let state = match (life.is_running(), life.is_ended()) {
            (true, _) if any_on => "running",
            (true, _) => "not begun",
            (_, true) => "ended",
            _ => "ending",
        };
        line.say(format_args!("  vm {}: {state}", vm.config().name));
        for vcpu in VcpuSet::first(vm.vcpus()).iter() {
            let on = if vm.power(vcpu).is_on() { "on" } else { "off" };
            line.say(format_args!("    vCPU {vcpu}: {on}"));
        }
    }
}

/// Shows the vCPU of the CPU that failed.
fn show_vcpu(line: &mut Line, vcpu: &Vcpu) {
    let (name, id, regs) = (
        &vcpu.unit.vm.config().name,
        vcpu.core.id,
        &vcpu.context.regs,
    );
    if !vcpu.is_on() {
        line.say(format_args!("  its vCPU {id} of vm {name} is off"));
        return;
    }
    line.say(format_args!(
        "  its vCPU {id} of vm {name}, as it left the guest: pc {:#x} pstate {:#x}",
        regs.pc, regs.pstate
    ));
    last_words::registers(regs, |text| line.say(text));
}
