//! What the instructions that have trampolines do to a virtual CPU, by the manual. Tests compare
//! trampolines with this model, on a PC with an interpreter and on a CPU in User mode.

use super::{Field, MASKED};

/// The bits of the CPSR that a program sees: N to Q, and GE.
pub const FLAGS: u32 = 0xf80f_0000;
/// Mode and F: what MSR of CPSR_c changes besides I (T cannot be written).
const CONTROL: u32 = 0x5f;
const CPSID_I: u32 = 0xf10c_0080;
const CPSIE_I: u32 = 0xf108_0080;
/// The number of words at the start of the page that are fields.
const WORDS: usize = Field::SCRATCH.offset() as usize / 4 + 1;

/// The fields of a virtual CPU's page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Page {
    words: [u32; WORDS],
    mask: u32,
}

impl Page {
    /// The value of a field.
    pub fn get(&self, field: Field) -> u32 {
        match field {
            Field::MASK => self.mask,
            _ => self
                .words
                .get(field.offset() as usize / 4)
                .copied()
                .unwrap_or(0),
        }
    }

    /// Sets a field.
    pub fn put(&mut self, field: Field, value: u32) {
        match field {
            Field::MASK => self.mask = value,
            _ => {
                if let Some(word) = self.words.get_mut(field.offset() as usize / 4) {
                    *word = value;
                }
            }
        }
    }

    /// Whether both pages show the same virtual CPU; of the mask, one bit is compared.
    pub fn same(&self, other: &Self) -> bool {
        let mut fields = Field::all().filter(|field| *field != Field::MASK);
        fields.all(|field| self.get(field) == other.get(field))
            && (self.mask ^ other.mask) & MASKED == 0
    }
}

/// A virtual CPU: registers, flags (which are the real ones), and its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// R0 to R12, SP and LR.
    pub registers: [u32; 15],
    /// The flags, at their places in the CPSR.
    pub flags: u32,
    /// The page.
    pub page: Page,
}

impl Cpu {
    /// The virtual CPSR (DDI 0406C B1.3.3).
    pub fn psr(&self) -> u32 {
        self.flags | self.page.get(Field::PSR) | self.page.get(Field::MASK) & MASKED
    }

    /// Whether an instruction with this condition executes (DDI 0406C A8.3).
    pub fn holds(&self, condition: u32) -> bool {
        let [n, z, c, v] = [31, 30, 29, 28].map(|flag| self.flags >> flag & 1 == 1);
        let positive = match condition >> 1 {
            0 => z,
            1 => c,
            2 => n,
            3 => v,
            4 => c && !z,
            5 => n == v,
            6 => n == v && !z,
            _ => return true,
        };
        positive == (condition & 1 == 0)
    }

    /// Executes the A32 instruction `word`. If it is none that a trampoline stands for, nothing is changed, and the
    /// answer is `None`.
    #[must_use]
    pub fn emulate(&mut self, word: u32) -> Option<()> {
        match word {
            CPSID_I => self.page.put(Field::MASK, MASKED),
            CPSIE_I => self.page.put(Field::MASK, 0),
            _ if word >> 28 == 0xf => return None,
            _ if !self.holds(word >> 28) => {}
            _ => return self.execute(word),
        }
        Some(())
    }

    fn execute(&mut self, word: u32) -> Option<()> {
        let (rt, rm) = ((word >> 12 & 0xf) as usize, (word & 0xf) as usize);
        let value = match word & 0x0ff0_0000 {
            0x0100_0000 => self.psr(),
            0x0140_0000 => self.page.get(Field::SPSR),
            0x0160_0000 => {
                self.page.put(Field::SPSR, *self.registers.get(rm)?);
                return Some(());
            }
            0x0120_0000 => {
                self.control(*self.registers.get(rm)?);
                return Some(());
            }
            _ if word & 1 << 20 == 0 => {
                self.page.put(system(word)?, *self.registers.get(rt)?);
                return Some(());
            }
            _ => self.page.get(system(word)?),
        };
        *self.registers.get_mut(rt)? = value;
        Some(())
    }

    /// MSR of CPSR_c, which does not write A and E.
    fn control(&mut self, value: u32) {
        let psr = self.page.get(Field::PSR) & !CONTROL | value & CONTROL;
        self.page.put(Field::PSR, psr);
        self.page.put(Field::MASK, value & MASKED);
    }
}

/// The field of a system register that MRC, MCR or VMRS names (DDI 0406C B3.17.1, A8.8.355).
fn system(word: u32) -> Option<Field> {
    if word & 0x0fff_0fff == 0x0ef8_0a10 {
        return Some(Field::FPEXC);
    }
    if word & 0x0fe0_0f10 != 0x0e00_0f10 {
        return None;
    }
    // CRn, CRm and opc2; opc1 is 0.
    Some(match (word >> 16 & 0xf, word & 0xf, word >> 5 & 7) {
        (0, 0, 0) => Field::MIDR,
        (0, 0, 1) => Field::CTR,
        (0, 0, 5) => Field::MPIDR,
        (1, 0, 0) => Field::SCTLR,
        (1, 0, 1) => Field::ACTLR,
        (1, 0, 2) => Field::CPACR,
        (2, 0, 0) => Field::TTBR0,
        (2, 0, 1) => Field::TTBR1,
        (2, 0, 2) => Field::TTBCR,
        (3, 0, 0) => Field::DACR,
        (5, 0, 0) => Field::DFSR,
        (5, 0, 1) => Field::IFSR,
        (6, 0, 0) => Field::DFAR,
        (6, 0, 2) => Field::IFAR,
        (7, 4, 0) => Field::PAR,
        (13, 0, 1) => Field::CONTEXTIDR,
        (13, 0, 2) => Field::TPIDRURW,
        _ => return None,
    })
}
