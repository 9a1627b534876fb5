//! What the window has for each pCPU.

use hanok_cpu32::Registers;
use hanok_decode::Psr;
use hanok_deprivileged::{Crossing, KnownSpace, KnownSpaces, SETS, Trap};
use hanok_paging::shadow::AsidPool;
use hanok_types::PAGE_SIZE;

/// How many pages the records have.
pub const RECORD_PAGES: u64 = 9;
/// The ASID of the hypervisor's own translation. ASID 0 is in use between two translations.
pub const OWN_ASID: u8 = 255;
/// The bytes from one record to the next, one for each CPU of a GICv2.
pub const STRIDE: u64 = 0x1200;

/// The registers of a guest in User mode, as they are stored and loaded.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct UserRegisters {
    /// R0 to R14.
    pub general: [u32; 15],
    /// The return address of the exception; at an entry, where the guest goes on.
    pub pc: u32,
    /// CPSR.
    pub psr: u32,
}

impl UserRegisters {
    /// Takes over R0 to R14.
    pub fn set_general(&mut self, general: &[u32; 15]) {
        copy(general, &mut self.general);
    }

    /// Gives all of them, with this PC.
    pub fn give(&self, registers: &mut Registers, pc: u32) {
        copy(&self.general, &mut registers.general);
        registers.pc = pc;
        registers.psr = Psr::from_bits(self.psr);
    }
}

/// Copies R0 to R14 by single words: the compiler's function for a copy takes four times as many instructions.
fn copy(from: &[u32; 15], to: &mut [u32; 15]) {
    let [r0, r1, r2, r3, r4, r5, r6, r7, rest @ ..] = *from;
    let [r8, r9, r10, r11, r12, r13, r14] = rest;
    *to = [
        r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r14,
    ];
}

/// One pCPU's record.
#[derive(Debug)]
#[repr(C)]
pub struct Record {
    /// The guest's registers.
    pub guest: UserRegisters,
    /// TTBR0 of the hypervisor's own translation.
    pub own_table: u32,
    /// TTBR0 of the guest.
    pub guest_table: u32,
    /// CONTEXTIDR of the guest: its ASID.
    pub guest_asid: u32,
    /// The top of the pCPU's stack.
    pub stack: u32,
    /// The function that handles exits.
    pub handler: u32,
    /// The vectors for the hypervisor's own faults.
    pub faults: u32,
    /// Which of them is taken.
    pub fault: u32,
    /// The A32 word that was undefined, or an SVC.
    pub word: u32,
    /// Of use to the window's code alone.
    pub spare: u32,
    /// Where the virtual CPU's page is in the window.
    pub page: u32,
    /// How the guest crosses.
    pub crossing: Crossing,
    /// The bits of CNTKCTL that let the guest read counters that are the CPU's own: PL0VCTEN and PL0PCTEN.
    pub counters: u32,
    /// The ASIDs of this CPU.
    pub asids: AsidPool,
    /// The spaces between which the guest may change.
    pub known: KnownSpaces,
}

impl Record {
    /// The address of the instruction by which the guest left, or where an interrupt came.
    pub fn pc_of(&self, trap: Option<&Trap>) -> u32 {
        let thumb = Psr::from_bits(self.guest.psr).thumb();
        let distance = trap.map_or(4, |trap| trap.distance(thumb));
        self.guest.pc.wrapping_sub(distance)
    }

    /// Lets the guest go on by the root of its kernel's or its programs' view that it crosses to.
    pub fn choose_root(&mut self, kernel: bool) {
        let roots = &self.crossing.roots;
        [self.guest_table, self.guest_asid] = if kernel { roots.kernel } else { roots.user };
    }
}

const _: () =
    assert!(size_of::<Record>() as u64 <= STRIDE && 8 * STRIDE <= RECORD_PAGES * PAGE_SIZE);
// The window's code finds a set by the lowest six bits of CONTEXTIDR, in steps of two entries of eight words.
const _: () = assert!(SETS == 64 && size_of::<KnownSpace>() == 32);
