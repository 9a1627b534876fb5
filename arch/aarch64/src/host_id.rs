//! The CPU's own ID registers, by encoding.

use hanok_decode::SysReg;

macro_rules! id_space {
    ($crm:expr, $op2:expr, $($m:literal)*) => {
        match $crm {
            $($m => id_row!($op2, $m, 0 1 2 3 4 5 6 7),)*
            _ => 0,
        }
    };
}

macro_rules! id_row {
    ($op2:expr, $m:literal, $($n:literal)*) => {
        match $op2 {
            $($n => crate::read!(concat!("s3_0_c0_c", $m, "_", $n)),)*
            _ => 0,
        }
    };
}

/// The value of an ID register with op0 3, op1 0, CRn 0 and CRm 1 to 7; zero for others.
/// Unallocated encodings of that space read as zero by the architecture (DDI 0487, D24.3.1).
pub fn read(id: SysReg) -> u64 {
    if !id.is_feature_id() {
        return 0;
    }
    id_space!(id.crm(), id.op2(), 1 2 3 4 5 6 7)
}

/// Random numbers of the CPU's own generator (FEAT_RNG: DDI 0487, D24.2 "RNDRRS"), if it has one
/// and the generator answers. The generator is seeded anew for each, as they are asked for only once.
pub fn random() -> Option<[u64; 4]> {
    const TRIES: usize = 16;
    if crate::read!("id_aa64isar0_el1") >> 60 == 0 {
        return None;
    }
    let mut numbers = [0; 4];
    for number in &mut numbers {
        *number = (0..TRIES).find_map(|_| random_word())?;
    }
    Some(numbers)
}

/// RNDRRS; `None` where the generator has no number in a reasonable time (it sets PSTATE.Z).
fn random_word() -> Option<u64> {
    let (number, failed): (u64, u64);
    // SAFETY: the CPU has the register, as its caller found out; reading it changes the condition
    // flags alone, which the assembler block is allowed to.
    unsafe {
        core::arch::asm!(
            "mrs {number}, s3_3_c2_c4_1",
            "cset {failed}, eq",
            number = out(reg) number,
            failed = out(reg) failed,
            options(nostack, nomem),
        );
    }
    (failed == 0).then_some(number)
}
