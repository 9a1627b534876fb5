//! T32 instructions that lie across two pages, executed elsewhere.
//!
//! The two halves of such an instruction stand in two frames. If one of these has doubtful words, it may be executed only
//! confined, which is alone: then the second half cannot be fetched beside the first one. So the monitor looks at the
//! whole instruction, as a fetch would. It carries out itself what is sensitive and what is a branch. What is left means
//! the same in User mode, and is copied to the end of a frame that belongs to the vCPU, its *slot*. The kernel executes
//! it there, confined, and whatever it is, no other instruction can follow: the fetch of the next one is refused.
//!
//! Kept true:
//! - While the kernel can execute the slot, it can execute nothing else, and no doubtful page; the entry that allows it goes
//!   as soon as the guest is left.
//! - The slot holds one instruction that the decoder knows not to be sensitive, and zeroes in front of it. Only the
//!   monitor writes it.
//! - Outside of the guest the registers are those of the instruction's own place ([`Monitor::displace`],
//!   [`Monitor::take_back`]), so that an abort, an interrupt or an undefined instruction is served as any other.
//! - Nothing needs to be proven of either frame: what is executed is what was looked at.
//!
//! An instruction that reads memory relative to the PC, or calculates an address from it, finds that base in a
//! register that it does not use otherwise, which is the guest's again afterwards.

use crate::answer::{Answer, Stopped};
use crate::code::Code;
use crate::decoded::Meaning;
use crate::host::Host;
use crate::monitor::Monitor;
use crate::translation::{regime, walk};
use crate::view::{Executable, View};
use crate::window::Place;
use hanok_cpu32::Registers;
use hanok_decode::Condition;
use hanok_decode::aarch32::{Encoding, Isa, ItState, Register};
use hanok_hal::{Mutex, TableMemory};
use hanok_paging::short::{
    Access, AccessKind, GuestMapping, MappingSize, MemoryType, Permissions, Privilege,
    ShortFaultKind, ShortLevel, WalkError,
};
use hanok_proof::{Goes, step_t32};
use hanok_types::{GuestPage, Hpa, Ipa, PAGE_SIZE};

/// The last four bytes of a page.
const LAST: u32 = PAGE_SIZE as u32 - 4;
/// The pair of words of which the second one is there.
const LAST_PAIR: usize = PAGE_SIZE as usize / 8 - 1;
/// How the guest finds the slot, whose frame comes from [`Executable::Slot`].
const SLOT: GuestMapping = GuestMapping {
    output: Ipa::new(0),
    size: MappingSize::Small,
    memory: MemoryType::NON_CACHEABLE,
    global: false,
    permissions: Permissions::ALL,
    domain: 0,
    descriptor: 0,
    descriptor_at: 0,
};
/// The number of the PC.
const PC: u32 = 15;

/// An instruction that is executed in the slot, and what the guest has meanwhile in place of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Displaced {
    /// While the guest is in, its own PC; otherwise that of the slot.
    pc: u32,
    /// A register and its value, in the same way.
    base: (usize, u32),
}

impl Displaced {
    /// Exchanges the registers of the instruction's own place and those of the slot.
    pub fn exchange(&mut self, registers: &mut Registers) {
        core::mem::swap(&mut self.pc, &mut registers.pc);
        if let Some(register) = registers.general.get_mut(self.base.0) {
            core::mem::swap(&mut self.base.1, register);
        }
    }
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Monitor<M, ROOTS, TABLES> {
    /// Carries out the instruction at the kernel's PC, or lets it be executed in the slot, if it lies across two pages.
    #[inline(never)]
    pub(crate) fn across(&mut self, code: &Mutex<Code>, host: &impl Host) -> Option<Answer> {
        let Registers { pc, psr, .. } = self.registers;
        if !psr.thumb() || pc % PAGE_SIZE as u32 != LAST + 2 {
            return None;
        }
        let encoding = match self.undefined_instruction(code, host) {
            Ok(encoding) => encoding,
            Err(answer) => return Some(answer),
        };
        let Encoding::Wide(both) = encoding else {
            return None;
        };
        let it = ItState::from_bits(psr.it());
        Some(if Meaning::of(encoding, it).is_some() {
            self.execute(encoding, code, host)
        } else if self.branch(both, it) {
            Answer::Resume
        } else {
            self.displace(both, code, host)
        })
    }

    /// Carries out a direct branch. Answers whether it is one.
    fn branch(&mut self, both: u32, it: ItState) -> bool {
        let Registers { pc, psr, .. } = self.registers;
        let step = step_t32((both >> 16) as u16, both as u16, it);
        let (target, isa) = match step.goes {
            Goes::Jump(target) => (target, Isa::T32),
            Goes::Call(target, isa) => (target, isa),
            _ => return false,
        };
        // The condition of B<c> (DDI 0406C, A8.8.18, encoding T3), which stands in no IT block, or that of the block.
        let condition = if step.conditional && !it.is_inside() {
            Condition::Code((both >> 22 & 0xf) as u8)
        } else {
            Condition::Unknown
        };
        self.registers.advance(4);
        if psr.passes(condition) {
            if let Goes::Call(..) = step.goes {
                self.registers.write(Register::LR, self.registers.pc | 1);
            }
            self.registers.pc = target.from(pc);
            self.registers.psr.set_thumb(isa == Isa::T32);
        }
        true
    }

    /// Lets the kernel execute an instruction in the slot, and nothing else.
    fn displace(&mut self, both: u32, code: &Mutex<Code>, host: &impl Host) -> Answer {
        let place = match self.free_place(code, host) {
            Ok(place) => place,
            Err(answer) => return answer,
        };
        let (both, base) = self.with_base(both);
        let word = u64::from(both.rotate_left(16)) << u32::BITS;
        self.shadow
            .memory_mut()
            .write_unseen(self.slot, LAST_PAIR, word);
        host.show_code(Hpa::new(self.slot.get() + u64::from(LAST)));
        self.close();
        // Which page this is, means nothing: none can be executed.
        self.confined = GuestPage::of(SLOT.output);
        let code = code.lock();
        let view = View::new(host, &code, Executable::Slot(self.slot));
        if self.open(place.address(), &SLOT, &view) {
            let pc = place.address() + LAST;
            self.displaced = Some(Displaced { pc, base });
        }
        Answer::Resume
    }

    /// The instruction with a register in place of the PC as a base, and what that register has to be; a register that
    /// stays as it is if there is no such base.
    fn with_base(&self, mut both: u32) -> (u32, (usize, u32)) {
        const LOAD: u32 = 1 << 20;
        const UP: u32 = 1 << 23;
        let field = |lowest: u32| both >> lowest & 0xf;
        // LDR and the like, LDRD, LDC and VLDR of literals, and both forms of ADR (A8.8.12).
        let single = both >> 25 == 0b111_1100;
        let loads = single || matches!(both >> 25, 0b111_0100 | 0b111_0110);
        let address = matches!(both & 0xfbf0_8000, 0xf200_0000 | 0xf2a0_0000);
        if field(16) != PC || !(loads && both & LOAD != 0 || address) {
            return (both, (usize::MAX, 0));
        }
        // The lowest one that is in none of the places for a register.
        let used = 1 << field(12) | 1 << field(8) | 1u32 << field(0);
        let register = used.trailing_ones();
        let mut base = self.registers.read(Register::PC) & !3;
        if single && both & UP == 0 {
            // With a register as base this would be another instruction.
            base = base.wrapping_sub(both & 0xfff);
            both = both & !0xfff | UP;
        }
        let both = both & !(PC << 16) | register << 16;
        (both, (register as usize, base))
    }

    /// The guest has left: the registers are those of the instruction's own place again, or of what comes behind it.
    pub(crate) fn take_back(&mut self) {
        if let Some(mut displaced) = self.displaced {
            let done = self.registers.pc & LAST == 0;
            displaced.exchange(&mut self.registers);
            if done {
                self.registers.pc = self.registers.pc.wrapping_add(4);
            }
            self.close();
        }
    }

    /// A megabyte in which the guest has nothing, and the window is not.
    pub(crate) fn free_place(&self, code: &Mutex<Code>, host: &impl Host) -> Result<Place, Answer> {
        let code = code.lock();
        let view = View::new(host, &code, Executable::Sound);
        let regime = regime(&self.cpu);
        for place in Place::all() {
            let access = Access {
                address: place.address(),
                kind: AccessKind::Read,
                by: Privilege::Kernel,
            };
            let free = match walk(&regime, &access, &view) {
                Err(WalkError::Fault(fault)) => {
                    fault.kind == ShortFaultKind::Translation && fault.level == ShortLevel::First
                }
                Err(WalkError::Beyond(_)) => false,
                // Mapped to itself, as all is without the MMU: no device is at such an address.
                Ok(found) => {
                    found.output == Ipa::new(access.address.into())
                        && host.frame(found.output).is_err()
                }
            };
            if free && place != self.window {
                return Ok(place);
            }
        }
        Err(match view.absent.get() {
            Some(page) => Answer::Page(page),
            None => Answer::Stop(Stopped::NoWindow),
        })
    }
}
