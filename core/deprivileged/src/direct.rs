//! What a kernel does to its timer and to devices, where that needs nothing of the monitor.
//!
//! Each tick of a kernel is some five accesses to its timer and three to its interrupt controller. What is the same for each
//! of them is known beforehand: the translation of a device's page is remembered, and the instruction is one of few forms. So
//! the virtual CPU is not looked at, and its page stays as it is: the backend carries the access out and the guest goes on, if
//! no interrupt waits.
//!
//! Kept true: a translation is used only as long as a TLB may keep it. It is one that all ASIDs have, and it goes with the
//! guest's next invalidation of anything, by whichever vCPU, and with each change of a register that walks depend on, but for
//! those of TTBR0, CONTEXTIDR and DACR that the kernel makes by itself. While it is used, the vCPU stays in its
//! [`Seat`](crate::siblings::Seat).

use crate::answer::Trap;
use crate::at_once::is_of_tables;
use crate::crossing::Crossing;
use crate::faults::data_kind;
use crate::monitor::Monitor;
use hanok_cpu32::TimerRegister;
use hanok_hal::TableMemory;
use hanok_paging::short::AccessKind;
use hanok_types::Ipa;

/// What is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accessed {
    /// A register of the timer.
    Timer(TimerRegister),
    /// An aligned word of a device.
    Device(Ipa),
}

/// An access that changes nothing of the virtual CPU but its general registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// What is accessed.
    pub what: Accessed,
    /// Whether it is written.
    pub write: bool,
    /// The general registers with the lower and the upper half of the value, or [`NONE`].
    registers: [u8; 2],
}

/// The number of no general register: R15 is none here.
const NONE: u8 = 15;

impl Direct {
    fn new(what: Accessed, write: bool, word: u32, upper: u8) -> Option<Self> {
        let register = (word >> 12) as u8 & 0xf;
        (register != NONE).then_some(Self {
            what,
            write,
            registers: [register, upper],
        })
    }

    /// The value that is written.
    pub fn value(&self, general: &[u32; 15]) -> u64 {
        let [low, high] = self
            .registers
            .map(|number| general.get(usize::from(number)).copied().unwrap_or(0));
        u64::from(low) | u64::from(high) << u32::BITS
    }

    /// Gives the guest the value that was read.
    pub fn finish(&self, general: &mut [u32; 15], value: u64) {
        let [low, high] = self.registers.map(usize::from);
        if let Some(register) = general.get_mut(low) {
            *register = value as u32;
        }
        if let Some(register) = general.get_mut(high) {
            *register = (value >> u32::BITS) as u32;
        }
    }

    /// Whether the word can be one of [`Self::timer`], as few others can.
    const fn is_of_timer(word: u32) -> bool {
        match word >> 24 {
            0xee => word >> 16 & 0xf == 14,
            0xec => word & 0xf == 14,
            _ => false,
        }
    }

    /// An A32 word that accesses the timer, whatever mode it is in (DDI 0406C, A8.8.98, A8.8.99, A8.8.107, A8.8.108 and
    /// B8.1): MRC or MCR with CRn = 14, CRm = 2 or 3 and opc2 = 0 or 1; MRRC or MCRR with CRm = 14 and opc1 = 2 or 3.
    #[inline(never)]
    fn timer(word: u32) -> Option<Self> {
        use TimerRegister::*;
        let write = word >> 20 & 1 == 0;
        if word & 0xffef_0fde == 0xee0e_0f12 {
            let what = match (word & 1, word >> 5 & 1) {
                (0, 0) => CntpTval,
                (0, _) => CntpCtl,
                (_, 0) => CntvTval,
                _ => CntvCtl,
            };
            return Self::new(Accessed::Timer(what), write, word, NONE);
        }
        let upper = (word >> 16) as u8 & 0xf;
        if word & 0xffe0_0fef == 0xec40_0f2e && upper != NONE {
            let what = if word & 0x10 == 0 { CntpCval } else { CntvCval };
            return Self::new(Accessed::Timer(what), write, word, upper);
        }
        None
    }

    /// An A32 word that loads or stores a word at `at`, without write-back and with the rights of its mode (A5.3). All others are
    /// rare, and left to the monitor.
    #[inline(never)]
    fn device(word: u32, at: Ipa, write: bool) -> Option<Self> {
        const REGISTER: u32 = 1 << 25 | 1 << 4;
        let load = u32::from(!write) << 20;
        let fits = word & 0x0d70_0000 == 0x0500_0000 | load
            && word >> 28 != 0xf
            && word & REGISTER != REGISTER
            && at.get() & 3 == 0;
        if !fits {
            return None;
        }
        Self::new(Accessed::Device(at), write, word, NONE)
    }
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Monitor<M, ROOTS, TABLES> {
    /// Whether the guest, which was entered with `crossing` and has not [left](Self::left), is in its kernel.
    fn is_in_kernel(&self, crossing: &Crossing) -> bool {
        match crossing.status {
            0 => self.cpu.mode().is_privileged(),
            status => status & 0xf != 0,
        }
    }

    /// What waits for that guest, masked or not, as I and F of a status register.
    pub fn kept_waiting(&self, crossing: &Crossing) -> u32 {
        match crossing.status {
            0 => self.cpu.pending(),
            _ => crossing.waits,
        }
    }

    /// The access by which the guest, which was entered with `crossing` and has not left, comes to the backend, if it may be
    /// carried out so. `word` is the word at its PC if it executes A32, and `psr` its status register in User mode. When it is
    /// carried out, the guest goes on behind it by its kernel's root, if nothing waits for it.
    #[inline(always)]
    pub fn direct(&self, trap: &Trap, word: u32, psr: u32, crossing: &Crossing) -> Option<Direct> {
        const THUMB_OR_BIG_ENDIAN: u32 = 0x220;
        let may_be = || psr & THUMB_OR_BIG_ENDIAN == 0 && self.is_in_kernel(crossing);
        match *trap {
            Trap::Undefined if Direct::is_of_timer(word) && may_be() => Direct::timer(word),
            Trap::DataAbort { status, address } if may_be() && is_of_tables(status) => {
                let write = data_kind(status) == AccessKind::Write;
                let at = self.devices.find(address, write)?;
                Direct::device(word, at, write)
            }
            _ => None,
        }
    }

    /// Where an access of the kernel's to a device leads, if that is remembered.
    pub fn device_at(&self, address: u32, write: bool) -> Option<Ipa> {
        self.devices.find(address, write)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use hanok_decode::aarch32::{Encoding, ItState, load_store, sensitive};
    use hanok_types::Width;
    use proptest::prelude::*;

    const LOAD: u32 = 0xe590_300c; // ldr r3, [r0, #12]
    const AT: Ipa = Ipa::new(0x0801_000c);

    #[test]
    fn registers_are_read_and_written_as_the_word_says() {
        let mut general = core::array::from_fn(|number| number as u32);
        // MRC p15, 0, R3, c14, c3, 1 and MCRR p15, 3, R4, R5, c14.
        let read = Direct::timer(0xee1e_3f33).expect("a read");
        assert_eq!(read.what, Accessed::Timer(TimerRegister::CntvCtl));
        read.finish(&mut general, 0x1_0000_0009);
        assert_eq!(general[3], 9);
        let write = Direct::timer(0xec45_4f3e).expect("a write");
        assert_eq!(write.what, Accessed::Timer(TimerRegister::CntvCval));
        assert!(write.write && !read.write);
        assert_eq!(write.value(&general), 0x5_0000_0004);
        // MRRC p15, 2, R6, R7, c14.
        let pair = Direct::timer(0xec57_6f2e).expect("a read");
        assert!(
            [0xee1e_3f33, 0xec45_4f3e, 0xec57_6f2e]
                .into_iter()
                .all(Direct::is_of_timer)
        );
        pair.finish(&mut general, 0x22_0000_0011);
        assert_eq!((general[6], general[7]), (0x11, 0x22));
        let load = Direct::device(LOAD, AT, false).expect("a load");
        assert_eq!(load.what, Accessed::Device(AT));
        load.finish(&mut general, 77);
        assert_eq!((general[3], general[4]), (77, 4));
    }

    #[test]
    fn other_forms_are_left_to_the_monitor() {
        assert!(Direct::timer(0xee1e_ff33).is_none(), "to the flags");
        assert!(Direct::timer(0x0e1e_3f33).is_none(), "a condition");
        assert!(Direct::timer(0xec5f_6f2e).is_none(), "R15");
        for word in [
            0xe5b0_300c, // ldr r3, [r0, #12]!
            0xe4b0_300c, // ldrt r3, [r0], #12
            0xe490_300c, // ldr r3, [r0], #12
            0xe590_f00c, // ldr pc, [r0, #12]
            0xe1d0_30bc, // ldrh r3, [r0, #12]
            0xe5d0_300c, // ldrb r3, [r0, #12]
            0xe790_3011, // undefined: a media instruction
            0xf590_f00c, // pldw
            0xe580_300c, // str r3, [r0, #12]
        ] {
            assert_eq!(Direct::device(word, AT, false), None, "{word:#x}");
        }
        let halfway = Ipa::new(AT.get() + 2);
        assert_eq!(Direct::device(LOAD, halfway, false), None);
    }

    proptest! {
        /// As the decoders of all instructions say.
        #[test]
        fn forms_agree_with_the_decoders(word: u32, write: bool) {
            for word in [word, word & 0x0390_ffff | 0xe500_0000, word & 0x0010_f021 | 0xee0e_0f12] {
                if let Some(direct) = Direct::device(word, AT, write) {
                    let access = load_store(Encoding::A32(word), ItState::NONE).expect("a form");
                    let piece = access.piece(0, false).expect("a piece");
                    prop_assert!(access.load != write && access.piece(1, false).is_none());
                    prop_assert_eq!(direct.what, Accessed::Device(AT));
                    prop_assert_eq!(piece.general.width, Width::Word);
                }
                if Direct::timer(word).is_some() {
                    prop_assert!(Direct::is_of_timer(word));
                    prop_assert!(sensitive(Encoding::A32(word), ItState::NONE).is_some());
                }
            }
        }
    }
}
