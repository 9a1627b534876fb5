//! Operations whose cost an emulator does not show: exceptions, maintenance of TLBs and caches, writes of system
//! registers, barriers. Each is told by its encoding (DDI 0406C, A5.7, B1.8, B3.17, B9.3), in A32 and in T32.
//!
//! What a guest may execute in User mode is counted whoever executes it. All else is counted where it is carried out:
//! natively by the kernel, otherwise by the hypervisor, since a guest in User mode that tries it takes an exception instead.

use serde::{Deserialize, Serialize};

use crate::code::Entry;

/// Declares the operations, with their names in reports.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $id:literal,)*) => {
        /// An operation that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Operation {
            $($(#[$doc])* #[serde(rename = $id)] $name,)*
        }

        impl Operation {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name in reports and results.
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$name => $id,)*
                }
            }
        }
    };
}

operations! {
    /// An undefined instruction was taken as an exception at PL1.
    TakenUndefined = "taken-undefined",
    /// SVC likewise.
    TakenCall = "taken-call",
    /// A prefetch abort likewise.
    TakenFetch = "taken-fetch",
    /// A data abort likewise.
    TakenAccess = "taken-access",
    /// IRQ and FIQ likewise.
    TakenInterrupt = "taken-interrupt",
    /// An undefined instruction of a guest that the window did not carry out: an exit.
    ExitUndefined = "exit-undefined",
    /// SVC likewise.
    ExitCall = "exit-call",
    /// A fetch likewise.
    ExitFetch = "exit-fetch",
    /// An access to memory likewise.
    ExitAccess = "exit-access",
    /// An interrupt likewise.
    ExitInterrupt = "exit-interrupt",
    /// An exception return: data processing to the PC with S, LDM with the PC and a caret, RFE.
    Return = "return",
    /// Invalidates a whole TLB.
    TlbAll = "tlb-all",
    /// Invalidates what a TLB has of an ASID.
    TlbAsid = "tlb-asid",
    /// Invalidates what a TLB has of an address.
    TlbAddress = "tlb-address",
    /// Invalidates the instruction cache.
    CodeAll = "icache-all",
    /// Invalidates a line of it.
    CodeAddress = "icache-address",
    /// Cleans or invalidates a line of the data cache by its address.
    DataAddress = "dcache-address",
    /// The same by set and way.
    DataSet = "dcache-set",
    /// Invalidates branch predictions.
    Predictor = "branch-predictor",
    /// Writes a translation table base register, or TTBCR.
    TableBase = "table-base",
    /// Writes CONTEXTIDR.
    ContextId = "context-id",
    /// Writes DACR.
    Domains = "dacr",
    /// Writes a thread register.
    Thread = "thread-register",
    /// Translates an address.
    Translation = "translation",
    /// Writes another system register.
    SystemWrite = "system-write",
    /// Reads a system register that User mode may not read.
    SystemRead = "system-read",
    /// Writes CPSR's control bits or an SPSR: MSR, CPS.
    Status = "status-write",
    /// ISB.
    Isb = "isb",
    /// DSB.
    Dsb = "dsb",
    /// DMB.
    Dmb = "dmb",
    /// The hypervisor made an entry of a shadow table for an abort.
    Fill = "shadow-fill",
}

impl Operation {
    /// Whether User mode may execute it, so that it counts whoever does.
    pub const fn is_free(self) -> bool {
        matches!(self, Self::Isb | Self::Dsb | Self::Dmb)
    }

    /// The exception that is taken through `entry`.
    pub const fn taken(entry: Entry) -> Option<Self> {
        match entry {
            Entry::Undefined => Some(Self::TakenUndefined),
            Entry::Call => Some(Self::TakenCall),
            Entry::Prefetch => Some(Self::TakenFetch),
            Entry::Data => Some(Self::TakenAccess),
            Entry::Interrupt => Some(Self::TakenInterrupt),
            _ => None,
        }
    }

    /// The exit by the vector of this number (DDI 0406C, B1.8.1).
    pub const fn exit(vector: u64) -> Option<Self> {
        match vector {
            1 => Some(Self::ExitUndefined),
            2 => Some(Self::ExitCall),
            3 => Some(Self::ExitFetch),
            4 => Some(Self::ExitAccess),
            6 | 7 => Some(Self::ExitInterrupt),
            _ => None,
        }
    }

    /// The exception whose vector is at `address`, of a kernel that has its vectors at 0xffff_0000, as Linux does.
    pub const fn at_high_vector(address: u64) -> Option<Self> {
        match address {
            0xffff_0004 => Some(Self::TakenUndefined),
            0xffff_0008 => Some(Self::TakenCall),
            0xffff_000c => Some(Self::TakenFetch),
            0xffff_0010 => Some(Self::TakenAccess),
            0xffff_0018 | 0xffff_001c => Some(Self::TakenInterrupt),
            _ => None,
        }
    }
}

/// An operation, and the condition under which its instruction does it (DDI 0406C, A8.3): 14 is always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub operation: Operation,
    /// The condition; of T32, where an IT instruction has it, 14.
    pub condition: u8,
}

/// The condition that always holds.
pub const ALWAYS: u8 = 14;

/// What an instruction of A32 does.
pub fn a32(word: u32) -> Option<Found> {
    let condition = (word >> 28) as u8;
    let operation = if condition == 15 {
        unconditional(word)?
    } else {
        conditional(word)?
    };
    let condition = condition.min(ALWAYS);
    Some(Found {
        operation,
        condition,
    })
}

/// What an instruction that User mode executes does, whichever set it is of: no word is a barrier in one set and frequent in
/// the other, where bits 24 to 27 are those of SVC.
pub fn free(word: u32, bytes: usize) -> Option<Found> {
    let found = a32(word).or_else(|| t32(word, bytes));
    found.filter(|found| bytes == 4 && found.operation.is_free())
}

/// Barriers, CPS and RFE have no condition (DDI 0406C, A5.7).
fn unconditional(word: u32) -> Option<Operation> {
    match word {
        _ if word & 0xffff_fff0 == 0xf57f_f040 => Some(Operation::Dsb),
        _ if word & 0xffff_fff0 == 0xf57f_f050 => Some(Operation::Dmb),
        _ if word & 0xffff_fff0 == 0xf57f_f060 => Some(Operation::Isb),
        _ if word & 0xfff1_fe20 == 0xf100_0000 => Some(Operation::Status),
        _ if word & 0xfe50_ffff == 0xf810_0a00 => Some(Operation::Return),
        _ => None,
    }
}

fn conditional(word: u32) -> Option<Operation> {
    match word & 0x0fff_ffff {
        // Data processing to the PC with S, but comparisons, whose Rd is 0 (A5.2.1, A5.2.3).
        _ if word & 0x0c10_f000 == 0x0010_f000 && word & 0x0180_0000 != 0x0100_0000 => {
            // Multiplies and the like have 1001 in bits 4 to 7 and no immediate value.
            let other = word & 0x0200_0090 == 0x90;
            (!other).then_some(Operation::Return)
        }
        // LDM with the PC and a caret.
        _ if word & 0x0e50_8000 == 0x0850_8000 => Some(Operation::Return),
        // MSR of CPSR_c or SPSR; that of the flags alone is free.
        _ if word & 0x0fb0_fff0 == 0x0120_f000 || word & 0x0fb0_f000 == 0x0320_f000 => {
            let spsr = word & 1 << 22 != 0;
            let hint = word & 0x0fff_0000 == 0x0320_0000;
            (!hint && (spsr || word & 1 << 16 != 0)).then_some(Operation::Status)
        }
        _ => coprocessor(word),
    }
}

/// MCR, MRC, MCRR and MRRC of CP15 have the same bits below the condition in both sets.
fn coprocessor(word: u32) -> Option<Operation> {
    // MCRR: translation table bases of 64 bits, and the timers' comparators.
    if word & 0x0ff0_0f00 == 0x0c40_0f00 {
        return Some(match word & 0xf {
            2 => Operation::TableBase,
            _ => Operation::SystemWrite,
        });
    }
    if word & 0x0f00_0f10 != 0x0e00_0f10 {
        return None;
    }
    let field = |at: u32, bits: u32| word >> at & ((1 << bits) - 1);
    let place = [field(16, 4), field(21, 3), field(0, 4), field(5, 3)];
    if field(20, 1) == 1 {
        return read(place);
    }
    written(place)
}

/// A read; thread registers and the counters are not counted, which guests read in User mode, too.
fn read([crn, opc1, _, _]: [u32; 4]) -> Option<Operation> {
    match (crn, opc1) {
        (13 | 14, 0) => None,
        _ => Some(Operation::SystemRead),
    }
}

/// CRn, opc1, CRm and opc2 of a write (DDI 0406C, table B3-43 and those after it).
fn written(place: [u32; 4]) -> Option<Operation> {
    Some(match place {
        [2, 0, 0, _] => Operation::TableBase,
        [3, 0, 0, 0] => Operation::Domains,
        [7, 0, 5, 4] => Operation::Isb,
        [7, 0, 10, 4] => Operation::Dsb,
        [7, 0, 10, 5] => Operation::Dmb,
        [7, 0, 1 | 5, 0] => Operation::CodeAll,
        [7, 0, 5, 1] => Operation::CodeAddress,
        [7, 0, 1 | 5, 6] | [7, 0, 5, 7] => Operation::Predictor,
        [7, 0, 6 | 10 | 11 | 14, 1] => Operation::DataAddress,
        [7, 0, 6 | 10 | 14, 2] => Operation::DataSet,
        [7, 0, 8, _] => Operation::Translation,
        [8, 0, 3 | 5 | 6 | 7, 0] => Operation::TlbAll,
        [8, 0, 3 | 5 | 6 | 7, 2] => Operation::TlbAsid,
        [8, 0, 3 | 5 | 6 | 7, 1 | 3] => Operation::TlbAddress,
        [13, 0, 0, 1] => Operation::ContextId,
        [13, 0, 0, 2..=4] => Operation::Thread,
        _ => Operation::SystemWrite,
    })
}

/// What an instruction of T32 of so many bytes does. It is as in memory: the first halfword is the lower one.
pub fn t32(word: u32, bytes: usize) -> Option<Found> {
    if bytes == 2 {
        return narrow(word as u16);
    }
    let word = word.rotate_left(16);
    let operation = match word {
        _ if word & 0xffff_fff0 == 0xf3bf_8f40 => Operation::Dsb,
        _ if word & 0xffff_fff0 == 0xf3bf_8f50 => Operation::Dmb,
        _ if word & 0xffff_fff0 == 0xf3bf_8f60 => Operation::Isb,
        // SUBS PC, LR, #imm8.
        _ if word & 0xffff_ff00 == 0xf3de_8f00 => Operation::Return,
        _ if word & 0xffd0_ffff == 0xe810_c000 || word & 0xffd0_ffff == 0xe990_c000 => {
            Operation::Return
        }
        // MSR of CPSR_c or SPSR.
        _ if word & 0xffe0_f0ff == 0xf380_8000 => {
            let spsr = word & 1 << 20 != 0;
            if !spsr && word & 1 << 8 == 0 {
                return None;
            }
            Operation::Status
        }
        // CPS in its wide form; the narrow one has 16 bits.
        _ if word & 0xffff_f800 == 0xf3af_8000 && word & 0x0000_0700 != 0 => Operation::Status,
        _ if word >> 28 == 0xe => coprocessor(word)?,
        _ => return None,
    };
    Some(Found {
        operation,
        condition: ALWAYS,
    })
}

/// CPS of 16 bits (DDI 0406C, A6.2.5).
fn narrow(half: u16) -> Option<Found> {
    (half & 0xffe8 == 0xb660).then_some(Found {
        operation: Operation::Status,
        condition: ALWAYS,
    })
}

/// Whether `condition` holds with these flags (DDI 0406C, table A8-1).
pub const fn holds(condition: u8, cpsr: u32) -> bool {
    let (n, z) = (cpsr & 1 << 31 != 0, cpsr & 1 << 30 != 0);
    let (c, v) = (cpsr & 1 << 29 != 0, cpsr & 1 << 28 != 0);
    let plain = match condition >> 1 {
        0 => z,
        1 => c,
        2 => n,
        3 => v,
        4 => c && !z,
        5 => n == v,
        6 => n == v && !z,
        _ => return true,
    };
    plain == (condition & 1 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(word: u32) -> Option<Operation> {
        a32(word).map(|found| found.operation)
    }

    /// As GNU as 2.40 assembles them.
    const A32: [(u32, &str); 26] = [
        (0xee08_0f17, "tlb-all"),          // mcr p15, 0, r0, c8, c7, 0
        (0xee08_0f13, "tlb-all"),          // mcr p15, 0, r0, c8, c3, 0
        (0x1e08_0f37, "tlb-address"),      // mcrne p15, 0, r0, c8, c7, 1
        (0xee08_3f53, "tlb-asid"),         // mcr p15, 0, r3, c8, c3, 2
        (0xee08_3f73, "tlb-address"),      // mcr p15, 0, r3, c8, c3, 3
        (0xee07_0f15, "icache-all"),       // mcr p15, 0, r0, c7, c5, 0
        (0xee07_0fd5, "branch-predictor"), // mcr p15, 0, r0, c7, c5, 6
        (0xee07_0f3a, "dcache-address"),   // mcr p15, 0, r0, c7, c10, 1
        (0xee07_0f3b, "dcache-address"),   // mcr p15, 0, r0, c7, c11, 1
        (0xee07_0f5e, "dcache-set"),       // mcr p15, 0, r0, c7, c14, 2
        (0xee07_0f95, "isb"),              // mcr p15, 0, r0, c7, c5, 4
        (0xee07_0f9a, "dsb"),              // mcr p15, 0, r0, c7, c10, 4
        (0xee07_0fba, "dmb"),              // mcr p15, 0, r0, c7, c10, 5
        (0xf57f_f06f, "isb"),
        (0xf57f_f04a, "dsb"), // dsb ishst
        (0xf57f_f05b, "dmb"),
        (0xee02_0f10, "table-base"),      // mcr p15, 0, r0, c2, c0, 0
        (0xee0d_0f30, "context-id"),      // mcr p15, 0, r0, c13, c0, 1
        (0xee03_0f10, "dacr"),            // mcr p15, 0, r0, c3, c0, 0
        (0xee0d_0f70, "thread-register"), // mcr p15, 0, r0, c13, c0, 3
        (0xe1b0_f00e, "return"),          // movs pc, lr
        (0xe25e_f004, "return"),          // subs pc, lr, #4
        (0xe8fd_ffff, "return"),          // ldm sp!, {r0-pc}^
        (0xf8bd_0a00, "return"),          // rfeia sp!
        (0xf10c_0080, "status-write"),    // cpsid i
        (0xe169_f00d, "status-write"),    // msr SPSR_fc, sp
    ];

    #[test]
    fn each_operation_is_known_in_a32() {
        for (word, id) in A32 {
            assert_eq!(told(word).map(Operation::id), Some(id), "{word:#x}");
        }
    }

    #[test]
    fn each_operation_of_a_coprocessor_is_known_in_t32() {
        for (word, id) in A32 {
            if word >> 24 != 0xee {
                continue;
            }
            let in_memory = word.rotate_left(16);
            let found = t32(in_memory, 4).map(|found| found.operation.id());
            assert_eq!(found, Some(id), "{word:#x}");
        }
        let told = |word, bytes| t32(word, bytes).map(|found| found.operation);
        let wide = |first: u32, second: u32| told(second << 16 | first, 4);
        assert_eq!(wide(0xf3bf, 0x8f4f), Some(Operation::Dsb));
        assert_eq!(wide(0xf3bf, 0x8f6f), Some(Operation::Isb));
        assert_eq!(wide(0xf3de, 0x8f04), Some(Operation::Return));
        assert_eq!(wide(0xe9bd, 0xc000), Some(Operation::Return));
        assert_eq!(wide(0xf392, 0x8100), Some(Operation::Status));
        assert_eq!(wide(0xf380, 0x8900), Some(Operation::Status));
        assert_eq!(wide(0xf380, 0x8800), None, "the flags alone");
        assert_eq!(told(0xb672, 2), Some(Operation::Status));
        assert_eq!(told(0xb660 | 8, 2), None);
    }

    #[test]
    fn a_word_means_another_thing_in_the_other_set() {
        // STR.W R0, [R0, #0x10], whose word is ANDSEQ PC, R0, R0, ASR #17 in A32.
        let store = 0x0010_f8c0;
        assert_eq!(told(store), Some(Operation::Return));
        assert_eq!(t32(store, 4), None);
        // Of programs only barriers count, in either set.
        assert!(free(0xf57f_f05b, 4).is_some() && free(0x8f5b_f3bf, 4).is_some());
        assert_eq!(free(0xe1b0_f00e, 4), None);
        assert_eq!(free(0xb672, 2), None);
    }

    #[test]
    fn other_instructions_are_none() {
        let others = [
            (0xe1a0_f00e, "mov pc, lr"),
            (0xe33f_f000, "teqp pc, #0"),
            (0xe8bd_800f, "pop {r0-r3, pc}"),
            (0xe12f_ff1e, "bx lr"),
            (0xe128_f000, "msr CPSR_f, r0"),
            (0xe320_f000, "nop"),
            (0xe31f_0001, "tst pc, #1"),
            (0xe35f_0000, "cmp pc, #0"),
            (0xe011_f291, "muls r1, r1, r2, with 15 in Rn's place"),
            (0xee1d_0f70, "mrc p15, 0, r0, c13, c0, 3"),
            (0xee1d_0f90, "mrc p15, 0, r0, c13, c0, 4"),
            (0xee07_0a90, "vmov s15, r0"),
            (0xef00_0000, "svc #0"),
            (0xeaff_fffe, "b ."),
            (0xf5d0_f000, "pld [r0]"),
        ];
        for (word, what) in others {
            assert_eq!(a32(word), None, "{what}");
        }
    }

    #[test]
    fn a_condition_is_kept_and_judged_by_the_flags() {
        assert_eq!(a32(0x1e08_0f37).map(|found| found.condition), Some(1));
        assert_eq!(a32(0xf57f_f06f).map(|found| found.condition), Some(14));
        let (z, c, n, v) = (1 << 30, 1 << 29, 1 << 31, 1 << 28);
        assert!(holds(0, z) && !holds(0, 0) && holds(1, 0) && !holds(1, z));
        assert!(holds(8, c) && !holds(8, c | z) && holds(9, c | z));
        assert!(holds(10, n | v) && !holds(10, n) && holds(11, v));
        assert!(holds(12, 0) && !holds(12, z) && holds(13, z));
        assert!(holds(14, 0) && holds(15, z));
    }

    #[test]
    fn names_are_unique_and_survive_a_report() {
        for (at, one) in Operation::ALL.iter().enumerate() {
            assert!(
                Operation::ALL[at + 1..]
                    .iter()
                    .all(|other| other.id() != one.id())
            );
            let text = serde_json::to_string(one).unwrap();
            assert_eq!(text, format!("\"{}\"", one.id()));
            assert_eq!(*one as usize, at);
        }
    }
}
