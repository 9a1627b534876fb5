//! The templates for CPSR, which need a register for themselves.

use super::{ALWAYS, Field, Free, Register, SP, Template, TrampolineStep, rm};
use crate::trap::trap_a32;

const R0: Register = 0;
const R12: Register = 12;
/// Never executed.
const UDF: TrampolineStep = TrampolineStep::Word(0xe7f0_00f0);

/// The register that a template uses for itself.
#[derive(Clone, Copy)]
struct Scratch {
    register: Register,
    /// Whether it is not free, and has to be spilled.
    spilled: bool,
}

impl Scratch {
    /// A register other than `taken` from R0 to R12, a free one if there is one. LR is none: the hypervisor takes MRS to
    /// it for an instruction that User mode executes wrongly (`core/proof`, `halved`).
    fn beside(taken: Register, free: Free) -> Self {
        let is_free =
            |register: &Register| free.registers >> register & 1 == 1 && *register != taken;
        let found = (R0..SP).find(is_free);
        Self {
            register: found.unwrap_or(if taken == R12 { R0 } else { R12 }),
            spilled: found.is_none(),
        }
    }

    /// The beginning of a template.
    fn begin(self) -> Template {
        self.if_spilled(
            Template::EMPTY,
            TrampolineStep::Store(self.register, Field::SCRATCH),
        )
    }

    /// With what ends the use of the register.
    fn end(self, template: Template) -> Template {
        self.if_spilled(
            template,
            TrampolineStep::Load(self.register, Field::SCRATCH),
        )
    }

    fn if_spilled(self, template: Template, step: TrampolineStep) -> Template {
        if self.spilled {
            template.with(&[step])
        } else {
            template
        }
    }
}

/// The trampoline for MRS of CPSR: flags and GE are the real ones, the rest comes from the page.
pub(super) fn mrs_current(to: Register, free: Free) -> Template {
    let scratch = Scratch::beside(to, free);
    let with = scratch.register;
    let read = scratch.begin().with(&[
        TrampolineStep::Word(0xe10f_0000 | with << 12), // mrs with, cpsr
        // At once, so that nobody sees what is not the guest's own.
        TrampolineStep::Word(0xe1a0_0820 | with << 12 | with), // lsr with, with, #16
        TrampolineStep::Load(to, Field::PSR),
        TrampolineStep::Word(0xe180_0800 | to << 16 | to << 12 | with), // orr to, to, with, lsl #16
        TrampolineStep::Load(with, Field::MASK),
        TrampolineStep::Word(0xe200_0080 | with << 16 | with << 12), // and with, with, #I
        TrampolineStep::Word(0xe180_0000 | to << 16 | to << 12 | with), // orr to, to, with
    ]);
    scratch.end(read).with(&[TrampolineStep::Back])
}

/// The trampoline for MSR of CPSR_c: if mode and F stay as they are, only I changes; else it traps.
pub(super) fn msr_control(word: u32, free: Free) -> Option<Template> {
    let from = rm(word)?;
    let scratch = Scratch::beside(from, free);
    let (with, spilled) = (scratch.register, scratch.spilled);
    let svc = trap_a32(ALWAYS | word & !0xf000_0000)?;
    let both = with << 16 | with << 12;
    let compared = scratch.begin().with(&[
        TrampolineStep::Load(with, Field::PSR),
        TrampolineStep::Word(0xe020_0000 | both | from), // eor with, with, from
    ]);
    // If it begins again, it has other flags than its site, whose condition may depend on them.
    let by_flags = free.flags && word >> 28 == ALWAYS >> 28;
    let decided = if by_flags {
        compared.with(&[
            TrampolineStep::Word(0xe310_005f | with << 16), // tst with, #mode, T and F
            TrampolineStep::Word(0x1a00_0001 + u32::from(spilled)), // bne behind the way back
        ])
    } else {
        let shift = if spilled { 0x1a0 } else { 0x220 };
        compared.with(&[
            TrampolineStep::Word(0xe200_005f | both), // and with, with, #mode, T and F
            TrampolineStep::Word(0xe280_007f | both), // add with, with, #0x7f
            TrampolineStep::Word(0xe200_0080 | both), // and with, with, #0x80: it is another mode
            // To STR, or two words behind it, of a spilled one four: add pc, pc, with, lsr #4 or #3.
            TrampolineStep::Word(0xe08f_f000 | shift | with),
            UDF,
        ])
    };
    let stored = scratch.end(decided.with(&[TrampolineStep::Store(from, Field::MASK)]));
    let back = [TrampolineStep::Back, UDF];
    let fills = spilled && !by_flags;
    let stored = stored.with(if fills { &back } else { &back[..1] });
    // In another mode the register may be another one.
    let trapped = scratch
        .end(stored)
        .with(&[TrampolineStep::Word(svc), TrampolineStep::Back]);
    Some(trapped)
}
