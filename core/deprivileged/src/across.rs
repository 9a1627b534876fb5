//! T32 instructions that lie across two pages, executed elsewhere.
//!
//! The two halves of such an instruction stand in two frames. If one of these has doubtful words, it may be executed only
//! confined, which is alone: then the second half cannot be fetched beside the first one. So the monitor looks at the
//! whole instruction, as a fetch would. It carries out itself what is sensitive and what is a branch. What is left means
//! the same in User mode, and is copied to the end of a frame of the vCPU's own, its *slot*. The kernel executes
//! it there, confined, and whatever it is, no other instruction can follow: the slot is the end of the page, and the fetch of
//! the next one is refused.
//!
//! Kept true:
//! - While the kernel can execute the slot, it can execute nothing else, and no doubtful page; the entry that allows it goes
//!   as soon as the guest is left.
//! - The slot holds instructions that the decoder knows not to be sensitive, and zeroes in front of them. Only the
//!   monitor writes it.
//! - Outside of the guest the registers are those of the instruction's own place ([`Monitor::displace`],
//!   [`Monitor::take_back`]), so that an abort, an interrupt or an undefined instruction is served as any other.
//! - Nothing needs to be proven of either frame: what is executed is what was looked at.
//!
//! A load-exclusive and its store-exclusive (LDREX, STREX) are executed in the slot together, with what is between them, if they
//! stand in different pages, and a fetch of the first one is refused: as each exit clears the exclusive monitor, the store would
//! never succeed if only one of both pages can be executed at a time. Only the attempt behind a failed one comes so.
//!
//! An instruction that reads memory relative to the PC, or calculates an address from it, finds that base in a
//! register that it does not use otherwise, which is the guest's again afterwards.

use crate::answer::{Answer, Stopped};
use crate::code::Code;
use crate::decoded::Meaning;
use crate::displaced::{Displaced, NO_BASE};
use crate::host::Host;
use crate::monitor::Monitor;
use crate::translation::{regime, walk};
use crate::view::{Executable, View};
use crate::window::Place;
use hanok_cpu32::Registers;
use hanok_decode::Condition;
use hanok_decode::aarch32::{Encoding, Isa, ItState, Register, sensitive};
use hanok_hal::{Mutex, TableMemory};
use hanok_paging::short::{
    Access, AccessKind, GuestMapping, MappingSize, MemoryType, Permissions, Privilege,
    ShortFaultKind, ShortLevel, WalkError,
};
use hanok_proof::{Goes, step_t32};
use hanok_types::{GuestPage, Hpa, Ipa, PAGE_SIZE};

/// The size of a page.
const PAGE: u32 = PAGE_SIZE as u32;
/// How many halfwords are executed in the slot at most: those in the last 32 bytes of its frame.
const MOST: usize = 16;
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

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Monitor<M, ROOTS, TABLES> {
    /// Carries out the instruction at the kernel's PC, or lets it be executed in the slot, if it lies across two pages.
    #[inline(never)]
    pub(crate) fn across(&mut self, code: &Mutex<Code>, host: &impl Host) -> Option<Answer> {
        let Registers { pc, psr, .. } = self.registers;
        let left = PAGE - pc % PAGE;
        if !psr.thumb() || left > 2 * MOST as u32 {
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
        let exclusive = self.exclusive(both, code, host);
        if left > 2 || exclusive.is_some() {
            return exclusive;
        }
        Some(if Meaning::of(encoding, it).is_some() {
            self.execute(encoding, code, host)
        } else if self.branch(both, it) {
            Answer::Resume
        } else {
            let (both, base) = self.with_base(both);
            let halves = [(both >> 16) as u16, both as u16];
            self.displace(&halves, base, code, host)
        })
    }

    /// Lets the kernel execute a load-exclusive and what follows, up to the store-exclusive, if that is in the next page:
    /// with an exit between them the store never succeeds.
    fn exclusive(&mut self, both: u32, code: &Mutex<Code>, host: &impl Host) -> Option<Answer> {
        if !is_exclusive(both, true) {
            return None;
        }
        let pc = self.registers.pc;
        let next = (pc | (PAGE - 1)).wrapping_add(1);
        let pages = match (self.code_at(pc, code, host), self.code_at(next, code, host)) {
            (Ok(first), Ok(second)) => [first.get() & !(PAGE_SIZE - 1), second.get()],
            // It takes its fault when it comes there.
            _ => return None,
        };
        let mut halves = [0; MOST];
        for (half, at) in halves.iter_mut().zip((pc..).step_by(2)) {
            let page = pages[usize::from(at >= next)];
            let word = host
                .word(Ipa::new(page + u64::from((at % PAGE) & !3)))
                .ok()?;
            *half = (word >> (at % 4 * 8)) as u16;
        }
        let mut it = ItState::from_bits(self.registers.psr.it());
        let mut number = 0;
        while let [first, second, ..] = *halves.get(number..)? {
            let encoding = Encoding::t32(first, second);
            let step = step_t32(first, second, it);
            let stays = step.goes == Goes::Next && step.loads.is_none() && !reads_pc(encoding);
            if !stays || sensitive(encoding, it).is_some() {
                return None;
            }
            number += encoding.bytes() as usize / 2;
            it = if step.opens.is_inside() {
                step.opens
            } else {
                it.next()
            };
            if let Encoding::Wide(both) = encoding
                && is_exclusive(both, false)
            {
                let crosses = 2 * number as u32 > next.wrapping_sub(pc);
                let halves = halves.get(..number).filter(|_| crosses)?;
                return Some(self.displace(halves, NO_BASE, code, host));
            }
        }
        None
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

    /// Lets the kernel execute these halfwords in the slot, and nothing else.
    fn displace(
        &mut self,
        halves: &[u16],
        base: (usize, u32),
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        let place = match self.free_place(code, host) {
            Ok(place) => place,
            Err(answer) => return answer,
        };
        let before = core::iter::repeat_n(&0, MOST - halves.len());
        let mut pair = 0;
        for (half, left) in before.chain(halves).zip((0..MOST).rev()) {
            pair = pair >> 16 | u64::from(*half) << 48;
            if left % 4 == 0 {
                let index = PAGE_SIZE as usize / 8 - 1 - left / 4;
                self.shadow
                    .memory_mut()
                    .write_unseen(self.slot, index, pair);
            }
        }
        host.show_code(Hpa::new(self.slot.get() + PAGE_SIZE - 2 * MOST as u64));
        self.close();
        // Which page this is, means nothing: none can be executed.
        self.confined = GuestPage::of(SLOT.output);
        let code = code.lock();
        let view = View::new(host, &code, Executable::Slot(self.slot));
        if self.open(place.address(), &SLOT, &view) {
            let length = 2 * halves.len() as u32;
            self.displaced = Some(Displaced {
                start: place.address() + PAGE - length,
                own: self.registers.pc,
                length,
                base,
            });
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
        let address = is_address(both);
        if field(16) != PC || !(loads && both & LOAD != 0 || address) {
            return (both, NO_BASE);
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
            displaced.leave(&mut self.registers);
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

/// Whether a T32 instruction of two halfwords is an ADD or SUB of twelve bits, which is an ADR if its base is the PC.
const fn is_address(both: u32) -> bool {
    matches!(both & 0xfbf0_8000, 0xf200_0000 | 0xf2a0_0000)
}

/// Whether a T32 instruction is one of LDREX or, if it is no `load`, of STREX and their kind (DDI 0406C, A6.3.6).
const fn is_exclusive(both: u32, load: bool) -> bool {
    let word = both & 0xffe0_0000 == 0xe840_0000;
    let other = both & 0xffe0_00c0 == 0xe8c0_0040;
    (word || other) && (both & 1 << 20 != 0) == load
}

/// Whether an instruction that does not load a literal reads the PC: ADR, and ADD, CMP and MOV of any register.
fn reads_pc(encoding: Encoding) -> bool {
    match encoding {
        Encoding::Narrow(half) => half & 0xf800 == 0xa000 || half & 0xfc78 == 0x4478,
        Encoding::Wide(both) => is_address(both) && both >> 16 & 0xf == PC,
        Encoding::A32(_) => true,
    }
}
