//! Self-hosted debug: breakpoints and watchpoints, which are switched with a vCPU that uses them.
//!
//! A guest cannot access them itself: each access is an exit, which the core answers
//! (`core/vm/src/debug.rs`).

use crate::{read, write};
use hanok_decode::SysReg;

/// DBGBVR, DBGBCR, DBGWVR and DBGWCR, sixteen of each.
#[derive(Clone, Copy, Debug, Default)]
pub struct DebugState {
    breakpoints: [(u64, u64); 16],
    watchpoints: [(u64, u64); 16],
}

macro_rules! by_number {
    ($do:ident, $($n:literal)*) => { $($do!($n);)* };
}

/// The numbers of breakpoints and watchpoints of the CPU (ID_AA64DFR0_EL1 BRPs and WRPs).
fn counts() -> (usize, usize) {
    let dfr0 = read!("id_aa64dfr0_el1");
    (
        (dfr0 >> 12 & 0xf) as usize + 1,
        (dfr0 >> 20 & 0xf) as usize + 1,
    )
}

impl DebugState {
    /// Takes the registers out of the CPU.
    #[inline(never)]
    pub fn save(&mut self) {
        let (breakpoints, watchpoints) = counts();
        macro_rules! one {
            ($n:literal) => {
                if $n < breakpoints {
                    self.breakpoints[$n] = (
                        read!(concat!("dbgbvr", $n, "_el1")),
                        read!(concat!("dbgbcr", $n, "_el1")),
                    );
                }
                if $n < watchpoints {
                    self.watchpoints[$n] = (
                        read!(concat!("dbgwvr", $n, "_el1")),
                        read!(concat!("dbgwcr", $n, "_el1")),
                    );
                }
            };
        }
        by_number!(one, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }

    /// Puts the registers into the CPU.
    #[inline(never)]
    pub fn load(&self) {
        let (breakpoints, watchpoints) = counts();
        macro_rules! one {
            ($n:literal) => {
                if $n < breakpoints {
                    write!(concat!("dbgbvr", $n, "_el1"), self.breakpoints[$n].0);
                    write!(concat!("dbgbcr", $n, "_el1"), self.breakpoints[$n].1);
                }
                if $n < watchpoints {
                    write!(concat!("dbgwvr", $n, "_el1"), self.watchpoints[$n].0);
                    write!(concat!("dbgwcr", $n, "_el1"), self.watchpoints[$n].1);
                }
            };
        }
        by_number!(one, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }

    /// The registers of this CPU.
    fn of_this_cpu() -> Self {
        let mut now = Self::default();
        now.save();
        now
    }

    /// The place of the register with this encoding: op2 4 to 7 is its kind, one of four, and CRm is its
    /// number.
    fn place(&mut self, id: SysReg) -> &mut u64 {
        let n = usize::from(id.crm() & 0xf);
        match id.op2() {
            4 => &mut self.breakpoints[n].0,
            5 => &mut self.breakpoints[n].1,
            6 => &mut self.watchpoints[n].0,
            _ => &mut self.watchpoints[n].1,
        }
    }
}

/// MDSCR_EL1.
pub fn set_control(value: u64) {
    write!("mdscr_el1", value);
}

/// A breakpoint or watchpoint register of this CPU. This function and [`set_register`] read or write all of the
/// registers for one: only debuggers use them, and the code is short.
pub fn register(id: SysReg) -> u64 {
    *DebugState::of_this_cpu().place(id)
}

/// Sets all of these registers to zero.
pub fn clear() {
    DebugState::default().load();
}

/// Sets a breakpoint or watchpoint register of this CPU.
pub fn set_register(id: SysReg, value: u64) {
    let mut all = DebugState::of_this_cpu();
    *all.place(id) = value;
    all.load();
}
