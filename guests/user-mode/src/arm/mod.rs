//! The program.

mod board;
mod boot;
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
use core::fmt::Write;
use judge::Judge;

/// The entry from `boot`, in Supervisor mode, with exceptions masked and the MMU on.
extern "C" fn main() -> ! {
    let mut console = Console::new();
    let _ = writeln!(console, "user-mode: {}", board::name());
    let mut judge = Judge::new(&mut console);
    cases::all(&mut judge);
    judge.finish();
    effects::all(&mut console);
    rewritten::all(&mut console);
    board::off()
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let _ = writeln!(Console::new(), "FAIL: {info}");
    board::off()
}
