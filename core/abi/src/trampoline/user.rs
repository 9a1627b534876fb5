//! The templates for SP and LR of User mode, which are on the virtual CPU's page while the kernel runs.

use super::{Field, Free, Register, SP, Template, TrampolineStep};

/// STMDB and LDMDB of registers of the current mode, without writeback.
const STMDB: u32 = 0xe900_0000;
const LDMDB: u32 = 0xe910_0000;
/// SUB Rd, Rn, #8.
const SUB_8: u32 = 0xe240_0008;

/// The two lowest registers of a set from R0 to R12 but for one; `None` if there are fewer.
fn two_of(registers: u32, but: Register) -> Option<[Register; 2]> {
    let mut found = (0..SP).filter(|register| registers >> register & 1 == 1 && *register != but);
    Some([found.next()?, found.next()?])
}

/// The trampoline for STMDB of SP and LR of User mode, if two registers are free.
pub(super) fn store_user(base: Register, free: Free) -> Option<Template> {
    let [sp, lr] = two_of(free.registers.into(), base).filter(|_| base < SP)?;
    Some(Template::new(&[
        TrampolineStep::Load(sp, Field::USER_SP),
        TrampolineStep::Load(lr, Field::USER_LR),
        TrampolineStep::Word(STMDB | base << 16 | 1 << sp | 1 << lr),
        TrampolineStep::Back,
    ]))
}

/// The trampoline for LDMDB of these registers, and of SP and LR of User mode. Two of them hold what is on its way
/// before they are loaded themselves: an LDM that is interrupted may have changed any register of its list, too.
pub(super) fn load_user(base: Register, registers: u32) -> Option<Template> {
    let [sp, lr] = two_of(registers, base).filter(|_| base < SP)?;
    Some(Template::new(&[
        TrampolineStep::Word(LDMDB | base << 16 | 1 << sp | 1 << lr),
        TrampolineStep::Store(sp, Field::USER_SP),
        TrampolineStep::Store(lr, Field::USER_LR),
        TrampolineStep::Word(SUB_8 | base << 16 | sp << 12),
        TrampolineStep::Word(LDMDB | sp << 16 | registers),
        TrampolineStep::Back,
    ]))
}
