//! Exits by stage 2: decodes a guest's access that stage 2 did not translate.

use crate::{read, space};
use hanok_decode::aarch32::is_wide;
use hanok_decode::{Fault, InstructionAbort, Psr};
use hanok_hal::{AccessError, Backend, Context, GuestMemory};
use hanok_pcpu::Vcpu;
use hanok_types::{Address, Ipa, PAGE_SIZE};
use hanok_vm::{DataAbort, Exit, Instruction, MmioAccess};

/// Why an address of a vCPU was not translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untranslated {
    /// The vCPU's own tables give no address, or memory is broken.
    NoMapping,
    /// Stage 2 refused the walk: one of the vCPU's tables lies in an absent page, or in no memory. PAR does
    /// not have the address of that page. The vCPU's own walk, which is an exit, gives it.
    ByStage2,
}

impl Untranslated {
    /// The page that PAR_EL1 names after an AT instruction, or PAR in its long format, whose address is in the
    /// bits of `mask`; or why it names none.
    pub const fn or_page(par: u64, mask: u64) -> Result<u64, Self> {
        const FAULT: u64 = 1;
        // S, or FSTAGE: the fault was stage 2's.
        const STAGE_2: u64 = 1 << 9;
        if par & FAULT == 0 {
            Ok(par & mask)
        } else if par & STAGE_2 != 0 {
            Err(Self::ByStage2)
        } else {
            Err(Self::NoMapping)
        }
    }
}

/// Why an instruction was not read.
enum Unread {
    /// The exit that the core gets instead of it.
    Known(Instruction),
    /// The vCPU is to try again.
    Retry,
}

/// The state of the vCPU whose access aborted that decoding needs. The vCPU is in this CPU.
pub trait Aborted {
    /// The intermediate physical address that the vCPU's stage 1 gives for a read of `at`, or why there is none.
    fn translate(&self, at: u64) -> Result<Ipa, Untranslated>;
    /// The virtual address of the fetch that exited.
    fn fetch_address() -> u64;
    /// The general register that the syndrome of a data abort means.
    fn register(&self, register: u8) -> u8;
}

/// The exit of a fetch; `None` if the guest must try again.
pub fn fetch_exit<B>(vcpu: &Vcpu<B>, abort: &InstructionAbort) -> Option<Exit>
where
    B: Backend<Context: Aborted>,
{
    let ipa = if abort.has_ipa() {
        fault_ipa(B::Context::fetch_address(), abort.on_walk)
    } else {
        // The fetch went to memory or a device from which fetches, and perhaps reads, are not allowed.
        let pc = vcpu.context.regs().pc;
        match vcpu.context.translate(pc) {
            Ok(ipa) => ipa,
            Err(Untranslated::NoMapping) => Ipa::default(),
            Err(Untranslated::ByStage2) => return walk_again(),
        }
    };
    Some(Exit::Fetch {
        ipa,
        walk: abort.on_walk,
    })
}

/// The exit of a load or store. After a permission fault HPFAR_EL2 is unknown, and the address is
/// translated by an AT instruction. If that fails, the guest's tables have changed since the CPU read them,
/// perhaps long ago. Then the guest tries again without cached translations: the CPU's walk leads to
/// memory, to a fault of the guest's own, or out of its memory, which is another exit.
pub fn data_exit<B>(vcpu: &Vcpu<B>, abort: &hanok_decode::DataAbort) -> Option<Exit>
where
    B: Backend<Context: Aborted>,
{
    let ipa = match abort.fault {
        _ if abort.has_ipa() => fault_ipa(read!("far_el2"), abort.on_walk),
        Fault::Permission(_) => match vcpu.context.translate(read!("far_el2")) {
            Ok(ipa) => ipa,
            Err(_) => return walk_again(),
        },
        _ => {
            return Some(Exit::Refused { write: abort.write });
        }
    };
    let Ok(data) = data(vcpu, abort, ipa) else {
        return walk_again();
    };
    Some(Exit::Data(data))
}

/// Lets the guest try again without cached translations.
#[cold]
fn walk_again() -> Option<Exit> {
    space::forget_current_vmid_here();
    None
}

/// The vCPU is to try again.
struct Retry;

/// The page that HPFAR_EL2 names, and the offset in it of the virtual address (which a walk's
/// fault does not give).
#[inline(always)]
pub fn fault_ipa(address: u64, walk: bool) -> Ipa {
    let page = (read!("hpfar_el2") >> 4 & 0xff_ffff_ffff) << 12;
    let offset = if walk { 0 } else { address & 0xfff };
    Ipa::new(page | offset)
}

fn data<B>(vcpu: &Vcpu<B>, abort: &hanok_decode::DataAbort, ipa: Ipa) -> Result<DataAbort, Retry>
where
    B: Backend<Context: Aborted>,
{
    let access = abort
        .access
        .filter(|_| !abort.cache_maintenance)
        .map(|access| MmioAccess {
            width: access.width,
            register: vcpu.context.register(access.register),
            sign_extend: access.sign_extend,
            wide: access.wide,
        });
    Ok(DataAbort {
        ipa,
        write: abort.write,
        walk: abort.on_walk,
        access,
        instruction: if access.is_none() && !abort.on_walk {
            instruction(vcpu)?
        } else {
            Instruction::Unknown
        },
        reach: match access {
            None if !abort.on_walk => reach(vcpu, ipa),
            _ => PAGE_SIZE,
        },
    })
}

/// The most bytes that an instruction loads or stores: those of a VLDM.
const MOST: u64 = 128;

/// See [`DataAbort::reach`].
#[cold]
fn reach<B>(vcpu: &Vcpu<B>, ipa: Ipa) -> u64
where
    B: Backend<Context: Aborted>,
{
    let next = ipa.align_down(PAGE_SIZE).checked_add(PAGE_SIZE);
    let near = ipa.get() % PAGE_SIZE > PAGE_SIZE - MOST;
    let Some(next) = next.filter(|_| near) else {
        return PAGE_SIZE;
    };
    let at = (read!("far_el2") | (PAGE_SIZE - 1)).wrapping_add(1);
    match vcpu.context.translate(at) {
        Ok(beyond) if beyond == next => 2 * PAGE_SIZE,
        _ => PAGE_SIZE,
    }
}

/// The instruction at the vCPU's program counter, through its own stage 1: an A64 or A32 word, or one or
/// two halfwords of T32, the first one above. It may have changed since the trap, so the core does not
/// trust it.
fn instruction<B>(vcpu: &Vcpu<B>) -> Result<Instruction, Retry>
where
    B: Backend<Context: Aborted>,
{
    match word(vcpu) {
        Ok(word) => Ok(Instruction::Word(word)),
        Err(Unread::Known(instruction)) => Ok(instruction),
        Err(Unread::Retry) => Err(Retry),
    }
}

/// The word, or what is known without it.
fn word<B>(vcpu: &Vcpu<B>) -> Result<u32, Unread>
where
    B: Backend<Context: Aborted>,
{
    let regs = vcpu.context.regs();
    let pc = regs.pc;
    let psr = Psr::from_bits(regs.pstate as u32);
    if !regs.is_aarch32() || !psr.thumb() {
        return fetch(vcpu, pc).map(u32::from_le_bytes);
    }
    // ThumbEE state is excluded, as it has other loads and stores; on Armv8 this bit is DIT.
    if cfg!(target_arch = "arm") && psr.jazelle() {
        return Err(Unread::Known(Instruction::Unknown));
    }
    let half = |at| fetch(vcpu, at).map(u16::from_le_bytes);
    let first = half(pc)?;
    // Of two halfwords the second may lie in another page.
    let second = if is_wide(first) {
        half(pc.wrapping_add(2) & u64::from(u32::MAX))?
    } else {
        0
    };
    Ok(u32::from(first) << 16 | u32::from(second))
}

/// `N` bytes of code at `at`, a multiple of `N`.
fn fetch<const N: usize, B>(vcpu: &Vcpu<B>, at: u64) -> Result<[u8; N], Unread>
where
    B: Backend<Context: Aborted>,
{
    let mut bytes = [0; N];
    fill(vcpu, at, &mut bytes)?;
    Ok(bytes)
}

/// Fills `bytes` with code at `at`, a multiple of their number, in RAM or in the firmware's flash. It is
/// kept out of line, so that words and halfwords are fetched by the same copy.
#[inline(never)]
fn fill<B>(vcpu: &Vcpu<B>, at: u64, bytes: &mut [u8]) -> Result<(), Unread>
where
    B: Backend<Context: Aborted>,
{
    let ipa = match vcpu.context.translate(at) {
        Ok(ipa) => Ipa::new(ipa.get() & !(bytes.len() as u64 - 1)),
        Err(Untranslated::NoMapping) => return Err(Unread::Known(Instruction::Unknown)),
        Err(Untranslated::ByStage2) => return Err(Unread::Retry),
    };
    vcpu.unit.read(ipa, bytes).map_err(|error| {
        Unread::Known(match error {
            AccessError::Absent(page) => Instruction::Absent(page),
            AccessError::NoMemory(_) => Instruction::Unknown,
        })
    })
}
