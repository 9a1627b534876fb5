//! The program.

mod board;
mod case;
mod cases;
mod effects;
mod judge;
mod memory;
mod mmu;
mod rewritten;
mod run;
mod trampolines;

use board::Console;
use core::arch::asm;
use core::fmt::Write;
use judge::Judge;

/// Where the runtime hands over, in System mode with exceptions masked. The boards are known without
/// their trees.
// SAFETY: the one function of this name; the runtime declares it so.
#[unsafe(no_mangle)]
fn guest_main(_tree: u64) -> ! {
    // SAFETY: Supervisor mode goes on with the same stack. User mode has System mode's registers, so
    // these are free for what is run in either.
    unsafe { asm!("mov {0}, sp", "cps #0x13", "mov sp, {0}", out(reg) _, out("lr") _) };
    enable_vfp();
    board::install();
    let mut console = Console;
    let _ = writeln!(console, "user-mode: {}", board::name());
    let mut judge = Judge::new(&mut console);
    cases::all(&mut judge);
    judge.finish();
    effects::all(&mut console);
    rewritten::all(&mut console);
    board::off()
}

/// VFP and Advanced SIMD, for everybody.
fn enable_vfp() {
    write_sysreg!("cpacr_el1", 0xf << 20);
    // SAFETY: FPEXC.EN; no code of the compiler's uses these registers. The instruction is VMSR
    // FPEXC, R0.
    unsafe { asm!(".inst 0xeee80a10", in("r0") 1 << 30) };
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let _ = writeln!(Console, "FAIL: {info}");
    board::off()
}
