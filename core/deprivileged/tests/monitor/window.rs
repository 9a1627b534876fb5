//! The window, as far as a guest crosses there: what a backend's few instructions do by [`Crossing`], which the monitor
//! fills, and by the virtual CPU's page.

use crate::guest::Guest;
use crate::interpret::Bus;
use crate::reach::{Reach, page_word, set_page_word};
use hanok_abi::crossing::{CROSSING_TRAP, CROSSING_TRAPS};
use hanok_abi::trampoline::{Field, MASKED};
use hanok_abi::trap::{Original, original_a32};
use hanok_cpu32::Mode;
use hanok_decode::Psr;
use hanok_decode::aarch32::Encoding;
use hanok_paging::shadow::{HardwareRoot, Owed};
use hanok_types::Hpa;

/// How often the guest did without the monitor what may be part of a crossing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crossed {
    /// SVC of a program.
    pub calls: u32,
    /// STMDB Rn, {SP, LR}^.
    pub stores: u32,
    /// MOVS PC, LR.
    pub returns: u32,
    /// MCR of TPIDRURO.
    pub threads: u32,
    /// Reads and writes of status registers.
    pub status: u32,
    /// STRT and STRBT.
    pub stores_as_program: u32,
    /// Changes of the space.
    pub spaces: u32,
    /// MCR of DACR.
    pub domains: u32,
    /// MRC of other registers.
    pub reads: u32,
    /// MOVS PC, LR to Supervisor mode.
    pub arrivals: u32,
    /// Maintenance of all of the instruction caches and branch predictors.
    pub caches: u32,
    /// What was served at once: entries, faults of the guest's own, and other exits.
    pub at_once: [u32; 3],
    /// Pages that were invalidated at once, after which the guest went on, and after which it had to leave.
    pub invalidated: [u32; 2],
}

const USER: u32 = 0x10;
const SUPERVISOR: u32 = 0x13;
/// E, A, I, F, T and the mode of a status register.
const LOW: u32 = 0x3ff;
const BIG_ENDIAN: u32 = 1 << 9;
const THUMB: u32 = 1 << 5;
/// A, F and the mode.
const STATUS: u32 = 0x15f;
/// The IT state and J.
const IT_AND_J: u32 = 0x0700_fc00;
/// N, Z, C, V, Q and GE.
const FLAGS: u32 = 0xf80f_0000;
/// ICIALLU, ICIALLUIS, BPIALL and BPIALLIS with R0.
const INSTRUCTION_CACHES: [u32; 6] = [
    0xee07_0f15,
    0xee07_0f11,
    0xee07_0fd5,
    0xee07_0fd1,
    0xee07_0f35,
    0xee07_0ff5,
];
/// Of lines of the data caches: cleaning by address, and all by set and way.
const DATA_CACHES: [u32; 6] = [
    0xee07_0f3a,
    0xee07_0f3b,
    0xee07_0f3e,
    0xee07_0f56,
    0xee07_0f5a,
    0xee07_0f5e,
];
/// MCR p15, 0, R0, c13, c0, 3.
const SETS_THREAD: u32 = 0xee0d_0f70;

impl<const ROOTS: usize, const TABLES: usize> Guest<ROOTS, TABLES> {
    fn field(&self, field: Field) -> u32 {
        page_word(&self.tables, self.monitor.page(), field)
    }

    fn set_field(&mut self, field: Field, value: u32) {
        set_page_word(&self.tables, self.monitor.page(), field, value);
    }

    fn change_root(&mut self, [table, asid]: [u32; 2]) {
        self.root = HardwareRoot {
            table: Hpa::new(table.into()),
            asid: asid as u8,
            owed: Owed::Nothing,
        };
        self.mmu.enter(&self.root);
    }

    fn crosses_to(&mut self, mode: Mode) {
        self.crossing.status = mode.into_bits().into();
        self.crossing.crossed = 1;
    }

    /// Whether a kernel runs, in A32 and not big-endian, that may do something by itself.
    fn may_cross(&self) -> bool {
        self.monitor.registers.psr.into_bits() & LOW == USER && self.crossing.status & 0xf != 0
    }

    fn done(&mut self) -> bool {
        self.monitor.registers.pc += 4;
        true
    }

    /// MRS of a status register, or MSR of SPSR, for which an SVC stands.
    fn status(&mut self, svc: u32) -> bool {
        let Some(Original::Word(word)) = original_a32(svc) else {
            return false;
        };
        if word & 0x0fa0_0000 == 0x04a0_0000 && word & 1 << 20 == 0 {
            return self.stores_as_program(word);
        }
        let to = (word >> 12 & 0xf) as usize;
        let value = match word & !0xf00f {
            0xe16f_0000 if to == 15 && word & 0xf <= 4 => {
                let value = self.monitor.registers.general[(word & 0xf) as usize];
                self.set_field(Field::SPSR, value);
                self.crossed.status += 1;
                return self.done();
            }
            0xe14f_0000 => self.field(Field::SPSR),
            0xe10f_0000 => {
                let flags = self.monitor.registers.psr.into_bits() & FLAGS;
                flags | self.field(Field::PSR) | self.field(Field::MASK) & MASKED
            }
            _ => return false,
        };
        if word & 0xf != 0 || !matches!(to, 0..=4 | 14) {
            return false;
        }
        self.monitor.registers.general[to] = value;
        self.crossed.status += 1;
        self.done()
    }

    /// STRT or STRBT with a constant that is added.
    fn stores_as_program(&mut self, word: u32) -> bool {
        let [base, from] = [16, 12].map(|at| (word >> at & 0xf) as usize);
        let bytes = if word & 1 << 22 != 0 { 1 } else { 4 };
        let roots = self.crossing.roots;
        let allowed = roots.user[0] != 0 && self.field(Field::DACR) == roots.domains;
        if base > 12 || from > 12 || !allowed {
            return false;
        }
        let general = &self.monitor.registers.general;
        let (to, value) = (general[base], general[from]);
        if !to.is_multiple_of(bytes) {
            return false;
        }
        self.change_root(roots.user);
        let done = self.reach().write(to, bytes, value).is_ok();
        self.change_root(roots.kernel);
        if done {
            self.monitor.registers.general[base] = to.wrapping_add(word & 0xfff);
            self.crossed.stores_as_program += 1;
            self.done();
        }
        done
    }

    /// MCR of TTBR0, of CONTEXTIDR or of DACR, or MRC of what is on the page.
    fn system(&mut self, word: u32) -> bool {
        let register = (word >> 12 & 0xf) as usize;
        if register > 12 {
            return false;
        }
        let value = self.monitor.registers.general[register];
        let [table, context] = self.crossing.space;
        let read = match word & !0xf000 {
            0xee03_0f10 => {
                self.set_field(Field::DACR, value);
                self.crossed.domains += 1;
                return self.done();
            }
            0xee02_0f10 => return self.changes_space([value, context]),
            0xee0d_0f30 => return self.changes_space([table, value]),
            0xee15_0f10 => self.field(Field::DFSR),
            0xee16_0f10 => self.field(Field::DFAR),
            0xee15_0f30 => self.field(Field::IFSR),
            0xee16_0f50 => self.field(Field::IFAR),
            0xee10_0ff1 => self.crossing.mmfr3,
            _ => return false,
        };
        self.monitor.registers.general[register] = read;
        self.crossed.reads += 1;
        self.done()
    }

    fn changes_space(&mut self, space: [u32; 2]) -> bool {
        let Some(found) = self.known.find(self.crossing.stamp, space) else {
            return false;
        };
        (self.crossing.space, self.crossing.roots) = (space, found.roots);
        self.crossing.crossed = 1;
        self.set_field(Field::TTBR0, space[0]);
        self.set_field(Field::CONTEXTIDR, space[1]);
        self.change_root(self.crossing.roots.kernel);
        self.crossed.spaces += 1;
        self.done()
    }

    /// Carries out SVC if a program calls its kernel and may cross, or if it stands for an instruction of a kernel's that may.
    /// Answers whether it did. In an IT block, where a CPU says that it is behind the SVC, it leaves that to the monitor.
    pub fn calls(&mut self, svc: Encoding) -> bool {
        if let Encoding::A32(svc) = svc
            && self.may_cross()
        {
            return self.status(svc);
        }
        let psr = self.monitor.registers.psr;
        if self.crossing.status != USER || psr.it() != 0 {
            return false;
        }
        let bits = psr.into_bits();
        self.set_field(Field::SPSR, bits);
        self.set_field(Field::PSR, self.crossing.kernel_psr[0]);
        self.set_field(Field::MASK, MASKED);
        self.set_field(Field::TPIDRURW, self.thread.rw);
        self.thread.rw = self.crossing.tpidrprw;
        self.thread.ro = self.crossing.foreseen;
        let registers = &mut self.monitor.registers;
        let behind = registers.pc.wrapping_add(if psr.thumb() { 2 } else { 4 });
        let [.., sp, lr] = &mut registers.general;
        let user = [*sp, *lr];
        (*sp, *lr) = (self.crossing.banks.supervisor[0], behind);
        registers.pc = self.crossing.vector;
        registers.psr = Psr::from_bits(bits & FLAGS | self.crossing.kernel_psr[1]);
        self.set_field(Field::USER_SP, user[0]);
        self.set_field(Field::USER_LR, user[1]);
        self.crosses_to(Mode::Supervisor);
        self.change_root(self.crossing.roots.kernel);
        self.crossed.calls += 1;
        true
    }

    /// Carries out an instruction that is undefined in User mode, if it is a part of a crossing. Answers whether it did.
    pub fn crosses_by(&mut self, encoding: Encoding) -> bool {
        let Encoding::A32(word) = encoding else {
            return false;
        };
        if !self.may_cross() {
            return false;
        }
        if self.system(word) {
            return true;
        }
        let part = word & 0xffff;
        if word & !0xf000 == SETS_THREAD && word >> 12 & 0xf <= 12 {
            self.thread.ro = self.monitor.registers.general[(word >> 12 & 0xf) as usize];
            self.set_field(Field::TPIDRURO, self.thread.ro);
            self.monitor.registers.pc += 4;
            self.crossed.threads += 1;
            return true;
        }
        let operation = word & !0xf000;
        if INSTRUCTION_CACHES.contains(&operation) || DATA_CACHES.contains(&operation) {
            self.monitor.registers.pc += 4;
            self.crossed.caches += 1;
            return true;
        }
        let known = part & 0xf0 == 0xf0 && part >> 8 < CROSSING_TRAPS;
        if word >> 16 != CROSSING_TRAP >> 16 || !known {
            return false;
        }
        match (part >> 8, part & 0xf) {
            (0, base @ 0..=12) => self.stores_user(base),
            (1, _) => self.returns(),
            _ => false,
        }
    }

    fn reach(&mut self) -> Reach<'_> {
        Reach {
            board: &self.board,
            mmu: &mut self.mmu,
            tables: &self.tables,
            root: self.root,
            rewritten: Vec::new(),
            refused: None,
        }
    }

    fn stores_user(&mut self, base: u32) -> bool {
        let to = self.monitor.registers.general[base as usize].wrapping_sub(8);
        let [sp, lr] = [Field::USER_SP, Field::USER_LR].map(|field| self.field(field));
        let mut reach = self.reach();
        let done = to & 3 == 0
            && reach.write(to, 4, sp).is_ok()
            && reach.write(to.wrapping_add(4), 4, lr).is_ok();
        if done {
            self.monitor.registers.pc += 4;
            self.crossed.stores += 1;
        }
        done
    }

    /// MOVS PC, LR.
    fn returns(&mut self) -> bool {
        let spsr = self.field(Field::SPSR);
        if self.crossing.status & 0x1f != SUPERVISOR {
            return self.arrives(spsr);
        }
        let fine = spsr & LOW & !THUMB == USER
            && spsr & IT_AND_J == 0
            && self.field(Field::DACR) == self.crossing.roots.domains;
        if self.crossing.roots.user[0] == 0 || !fine {
            return false;
        }
        let user = [Field::USER_SP, Field::USER_LR].map(|field| self.field(field));
        let registers = &mut self.monitor.registers;
        let [.., sp, lr] = registers.general;
        let banks = &mut self.crossing.banks;
        (banks.supervisor, banks.spsr) = ([sp, lr], spsr);
        registers.general[13..].copy_from_slice(&user);
        (registers.pc, registers.psr) = (lr, Psr::from_bits(spsr));
        self.thread.rw = self.field(Field::TPIDRURW);
        self.crossing.foreseen = self.thread.ro;
        self.thread.ro = self.field(Field::TPIDRURO);
        self.crosses_to(Mode::User);
        self.change_root(self.crossing.roots.user);
        self.crossed.returns += 1;
        true
    }

    /// MOVS PC, LR from the mode of another exception.
    fn arrives(&mut self, spsr: u32) -> bool {
        let fine = spsr & 0x1f == SUPERVISOR
            && spsr & (THUMB | BIG_ENDIAN | IT_AND_J) == 0
            && self.crossing.waits & !spsr == 0;
        if !fine {
            return false;
        }
        let registers = &mut self.monitor.registers;
        let [.., sp, lr] = registers.general;
        let banks = &mut self.crossing.banks;
        banks.other = [sp, lr, spsr];
        registers.general[13..].copy_from_slice(&banks.supervisor);
        (registers.pc, registers.psr) = (lr, Psr::from_bits(spsr & FLAGS | USER));
        let (masked, status) = (spsr & MASKED, spsr & STATUS);
        let before = banks.spsr;
        self.set_field(Field::SPSR, before);
        self.set_field(Field::MASK, masked);
        self.set_field(Field::PSR, status);
        self.crossing.status = status;
        self.crossing.crossed = 1;
        self.crossed.arrivals += 1;
        true
    }
}
