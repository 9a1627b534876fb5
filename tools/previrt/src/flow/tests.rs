//! Small pieces of code, one for each thing that a compiler does.

use super::closed::{Closed, FunctionFacts};
use super::jump::Before;
use super::marks::{Mark, Marks};
use super::memory::Memory;
use super::{Follower, Root, Start};
use hanok_decode::aarch32::{Isa, ItState, Register};
use std::ops::Range;

const BASE: u32 = 0x8000_0000;
const LEN: usize = 0x100;
/// The address of a jump table.
const TABLE: u32 = BASE + 0x80;
const RETURN: u32 = 0xe12f_ff1e;
const NOP: u32 = 0xe320_f000;
/// The instruction by which a kernel marks a bug (BUG()).
const BUG: u32 = 0xe7f0_01f2;
/// `mrs r0, cpsr`: a literal may look like it.
const MRS: u32 = 0xe10f_0000;
/// A word that is no instruction of any kernel.
const NONE: u32 = 0xffff_ffff;

/// What was found, and the places where a guess was wrong to the end.
struct Found {
    marks: Marks,
    wrong: Vec<u32>,
}

struct Program {
    bytes: Vec<u8>,
    end: u32,
    /// The address at which another function begins.
    next: Option<u32>,
}

impl Program {
    fn new(words: &[u32]) -> Self {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let end = BASE + bytes.len() as u32;
        bytes.resize(LEN, 0);
        let next = None;
        Self { bytes, end, next }
    }

    fn with_table(mut self, table: &[u8]) -> Self {
        let at = (TABLE - BASE) as usize;
        self.bytes[at..at + table.len()].copy_from_slice(table);
        self
    }

    fn memory(&self) -> Memory<'_> {
        Memory {
            bytes: &self.bytes,
            base: BASE,
        }
    }

    fn followed(&self) -> (Found, Closed) {
        self.followed_with(&[])
    }

    /// Follows the program's code with these areas of trampolines.
    fn followed_with(&self, areas: &[Range<u32>]) -> (Found, Closed) {
        let starts = Start {
            areas: areas.to_vec(),
            certain: vec![Root {
                address: BASE,
                isa: Isa::A32,
            }],
            ..Start::default()
        };
        let text = [(BASE, self.end)];
        let mut follower = Follower::new(self.memory(), &text, &starts, Marks::new(LEN));
        let wrong = follower.guess(&[]);
        let unresolved = follower.unresolved();
        let marks = follower.into_marks();
        let known = FunctionFacts {
            entries: self.next.as_slice(),
            wrong: &wrong,
            unresolved: &unresolved,
        };
        let closed = Closed::new(self.memory(), &marks, &text, Isa::A32, known);
        (Found { marks, wrong }, closed)
    }
}

fn is_code(marks: &Marks, at: u32) -> bool {
    matches!(marks.get((at - BASE) as usize), Mark::Start(..))
}

/// Asserts about a jump by a table of distances, each of which leads to a return: every word is
/// explained, and the targets are certain.
fn distances(load: &[u32], table: &[u8]) {
    let mut words = vec![0xe350_0001, 0, 0]; // cmp r0, #1; bhi; ldr r1, [pc, ..]
    words.extend(load);
    words.extend([0xe08f_f100, NOP, RETURN, 0xe1a0_1001, RETURN, RETURN, TABLE]);
    let last = words.len() as u32 - 1;
    words[1] = 0x8a00_0000 | (last - 1 - 1 - 2);
    words[2] = 0xe59f_1000 | (4 * (last - 2) - 8);
    let program = Program::new(&words).with_table(table);
    let (found, closed) = program.followed();
    let first = BASE + 4 * (3 + load.len() as u32) + 8;
    assert!(is_code(&found.marks, first), "{load:x?}: the first target");
    assert!(is_code(&found.marks, first + 4), "{load:x?}: the second");
    assert!(closed.contains(BASE), "{load:x?}: {:x?}", closed.gaps);
    assert_eq!(found.marks.get((TABLE - BASE) as usize), Mark::Data);
    assert!(!is_code(&found.marks, BASE + 4 * last), "the literal");
}

#[test]
fn each_kind_of_load_is_followed() {
    distances(&[0xe7d1_0000], &[0, 1]); // ldrb r0, [r1, r0]
    distances(&[0xe191_00d0], &[0, 1]); // ldrsb
    // add r0, r0, r0; ldrh r0, [r1, r0]
    distances(&[0xe080_0000, 0xe191_00b0], &[0, 0, 1, 0]);
    // lsl r0, r0, #1; ldrsh r0, [r1, r0]
    distances(&[0xe1a0_0080, 0xe191_00f0], &[0, 0, 1, 0]);
    // add r1, r1, r0; ldrh r0, [r1, r0]
    distances(&[0xe081_1000, 0xe191_00b0], &[0, 0, 1, 0]);
}

#[test]
fn what_limits_an_index_is_a_bound() {
    let limits = [
        (0xe200_0003, 4),   // and r0, r0, #3
        (0xe7e1_0052, 4),   // ubfx r0, r2, #0, #2
        (0xe6ef_0072, 256), // uxtb r0, r2
        (0xe1a0_0f22, 4),   // lsr r0, r2, #30
        (0xe5d2_0000, 256), // ldrb r0, [r2]
        (0xe7d2_0003, 256), // ldrb r0, [r2, r3]
    ];
    for (word, bound) in limits {
        assert_eq!(bound_of(&[word]), Some(bound), "{word:#x}");
    }
    assert_eq!(bound_of(&[0xe1a0_0002]), None, "mov r0, r2");
}

/// The bound of R0 that is found at `ldr pc, [pc, r0, lsl #2]` behind `words`.
fn bound_of(words: &[u32]) -> Option<u32> {
    let mut all = words.to_vec();
    all.push(0xe79f_f100);
    bound_at(&all)
}

fn bound_at(all: &[u32]) -> Option<u32> {
    let program = Program::new(all);
    let mut marks = Marks::new(LEN);
    for n in 0..all.len() {
        marks.code(4 * n, 4, Isa::A32, ItState::NONE);
    }
    let before = Before {
        memory: program.memory(),
        marks: &marks,
        isa: Isa::A32,
    };
    before.bound(Register::from_bits(0), BASE + 4 * (all.len() as u32 - 1))
}

#[test]
fn a_comparison_bounds_only_what_it_guards() {
    let (compare, jump) = (0xe350_0005, 0xe79f_f100);
    let bhi = 0x8a00_0004;
    assert_eq!(bound_at(&[compare, bhi, jump]), Some(6), "bhi");
    assert_eq!(bound_at(&[compare, 0x2a00_0004, jump]), Some(5), "bhs");
    let ldrls = 0x979f_f100;
    assert_eq!(bound_at(&[compare, ldrls]), Some(6), "ldrls");
    // Another condition, other flags, another register, a new index, another way to the jump.
    let beq = 0x0a00_0004;
    assert_eq!(bound_at(&[compare, beq, jump]), None, "beq");
    assert_eq!(bound_at(&[compare, 0xe353_0001, bhi, jump]), None, "r3");
    assert_eq!(bound_at(&[compare, bhi, 0xe280_0001, jump]), None, "add");
    assert_eq!(bound_at(&[compare, bhi, RETURN, jump]), None, "return");
    assert_eq!(bound_at(&[0xe353_0005, bhi, jump]), None, "cmp r3");
}

#[test]
fn branches_are_followed_where_all_of_them_are_some() {
    // cmp r0, #1; bhi; add pc, pc, r0, lsl #2; nop; b; b; return
    let words = [
        0xe350_0001,
        0x8a00_0003,
        0xe08f_f100,
        NOP,
        0xea00_0000,
        0xeaff_ffff,
        RETURN,
    ];
    let (found, closed) = Program::new(&words).followed();
    assert!(is_code(&found.marks, BASE + 16) && is_code(&found.marks, BASE + 20));
    assert!(closed.contains(BASE));
    // A literal in place of one branch: nothing is followed there.
    let mut words = words;
    words[5] = MRS;
    let (found, closed) = Program::new(&words).followed();
    assert!(!is_code(&found.marks, BASE + 20), "a literal is no branch");
    assert!(!closed.contains(BASE), "nothing explains it");
}

#[test]
fn a_literal_behind_a_call_is_none_if_something_loads_it() {
    // ldr r0, [pc, #0]; bl to itself; the literal
    let (found, closed) = Program::new(&[0xe59f_0000, 0xebff_fffd, MRS]).followed();
    assert_eq!(found.marks.get(8), Mark::Data);
    assert!(closed.contains(BASE));
}

#[test]
fn a_literal_that_is_loaded_by_its_address_is_data() {
    // ldrd r0, r1, [r0]; ldr r1, [r0, #4]; vldr d0, [r0]; ldm r0, {r1, r2}
    let loads = [
        (0xe1c0_00d0, 20),
        (0xe590_1004, 24),
        (0xed90_0b00, 20),
        (0xe890_0006, 24),
    ];
    for (load, literal) in loads {
        // add r0, pc, #12; the load; bl to its start; two words behind it, of which only one is a
        // literal
        let words = [0xe28f_000c, load, NOP, NOP, 0xebff_fffa, MRS, MRS, RETURN];
        let (found, _) = Program::new(&words).followed();
        assert_eq!(found.marks.get(literal), Mark::Data, "{load:#x}");
        assert!(!is_code(&found.marks, BASE + 20), "{load:#x}");
    }
}

#[test]
fn a_word_that_may_load_a_guess_leaves_its_function_unproven() {
    // bl to itself; a word that may be a literal; return; a word that nothing explains
    let with = |word| [0xebff_fffe, MRS, RETURN, word];
    let harmful = [
        (0xe51f_0010, "ldr r0, [pc, #-16], which is the guess"),
        (0xe24f_0010, "sub r0, pc, #16, its address"),
        (
            0xe79f_f100,
            "ldr pc, [pc, r0, lsl #2], perhaps by what is behind",
        ),
        (0xe12f_ff13, "bx r3, wherever that is"),
    ];
    for (word, why) in harmful {
        let (found, closed) = Program::new(&with(word)).followed();
        assert!(is_code(&found.marks, BASE + 4) && found.marks.is_soft(4));
        assert!(!closed.contains(BASE + 4), "{word:#x}, {why}, is no proof");
    }
    let (_, closed) = Program::new(with(NONE).get(..3).unwrap_or(&[])).followed();
    assert!(closed.contains(BASE + 4), "all is explained");
}

#[test]
fn a_word_that_loads_no_code_does_no_harm() {
    let harmless = [
        (NONE, "no instruction"),
        (MRS, "an instruction that loads nothing"),
        (0xe8bd_8010, "pop {r4, pc}"),
        (0xe12f_ff1e, "bx lr"),
        (0xebff_fffa, "bl"),
        (0xe51f_0008, "ldr r0, [pc, #-8], which is itself"),
    ];
    for (word, why) in harmless {
        let program = Program::new(&[0xebff_fffe, MRS, RETURN, word]);
        let (found, closed) = program.followed();
        assert!(closed.contains(BASE + 4), "{word:#x}: {why}");
        assert!(!is_code(&found.marks, BASE + 12), "{word:#x} is no code");
        assert!(closed.is_gap(BASE + 12), "{word:#x} is not explained");
    }
}

#[test]
fn where_a_jump_is_not_understood_no_word_is_harmless() {
    // A jump by a table without a bound, and words that may be that table.
    let jumps = [0xe79f_f100, 0xe083_f002, 0xe593_f004, 0xe12f_ff13];
    for jump in jumps {
        let call = [NOP, 0xebff_fffe, MRS, RETURN, NONE];
        let (_, closed) = Program::new(&call).followed();
        assert!(closed.contains(BASE + 8), "without a jump");
        // beq to the jump, which stands behind
        let words = [0x0a00_0003, 0xebff_fffe, MRS, RETURN, NONE, jump, NONE];
        let (_, closed) = Program::new(&words).followed();
        assert!(!closed.contains(BASE + 8), "{jump:#x}");
    }
}

#[test]
fn what_lld_fills_up_with_is_no_table() {
    const FILL: u32 = 0xd4d4_d4d4;
    let closed = |words: &[u32], next: u32| {
        let mut program = Program::new(words);
        program.next = Some(BASE + next);
        let (_, closed) = program.followed();
        closed.contains(BASE + 8)
    };
    // beq to a jump that stands behind and is not understood
    let words = |fill| {
        [
            0x0a00_0002,
            0xebff_fffe,
            MRS,
            RETURN,
            0xe12f_ff13,
            fill,
            RETURN,
        ]
    };
    assert!(closed(&words(FILL), 24), "up to the next function");
    assert!(!closed(&words(0xd4d4_d4d3), 24), "something else, too");
    assert!(!closed(&words(FILL), 28), "not up to the next function");
}

/// Whether a word that nothing explains leaves the function proven: behind `words`, `jump` and the
/// unrolled loop that it goes into.
fn unrolled(words: &[u32], jump: u32) -> bool {
    let mut all = words.to_vec();
    all.extend([jump, NONE, MRS, MRS, RETURN]);
    let (found, closed) = Program::new(&all).followed();
    let place = BASE + 4 * words.len() as u32 + 8;
    assert!(is_code(&found.marks, place), "{words:x?}, {jump:#x}");
    closed.contains(place)
}

#[test]
fn a_jump_into_a_loop_that_was_unrolled_is_understood() {
    let by_pc = 0xe08f_f00c; // add pc, pc, ip
    let masks = [0xe212_c01c, 0xe202_c01c]; // ands ip, r2, #28; and
    for mask in masks {
        assert!(unrolled(&[mask], by_pc), "{mask:#x}");
        // rsb ip, ip, #32
        assert!(unrolled(&[mask, 0xe26c_c020], by_pc), "{mask:#x}, rsb");
        // add r4, pc, #4: the address of the loop
        assert!(unrolled(&[mask, 0xe28f_4004], 0xe084_f00c), "{mask:#x}, r4");
    }
    // add pc, pc, ip; b behind the loop; the first part; the same jump; the second part
    let twin = [0xe212_c01c, 0x108f_f00c, 0xea00_0004, NOP, 0xe1a0_1001];
    assert!(unrolled(&twin, by_pc), "the second part");
    // A number that was loaded may be an entry of a table.
    assert!(!unrolled(&[0xe7d1_c002], by_pc), "ldrb ip, [r1, r2]");
    assert!(!unrolled(&[0xe7d1_c002, 0xe26c_c020], by_pc), "and rsb");
    assert!(!unrolled(&[0xe1a0_c002], by_pc), "mov ip, r2");
}

#[test]
fn code_behind_the_mark_of_a_bug_is_found() {
    let (found, closed) = Program::new(&[BUG, 0xe1a0_1001, RETURN]).followed();
    assert!(is_code(&found.marks, BASE + 4) && closed.contains(BASE));
}

#[test]
fn a_guess_that_runs_into_data_is_none() {
    // ldr r0, [pc, #8]; bl to itself; mov r1, r1; mrs; the literal
    let words = [0xe59f_0008, 0xebff_fffd, 0xe1a0_1001, MRS, RETURN];
    let (found, _) = Program::new(&words).followed();
    assert!(!is_code(&found.marks, BASE + 8) && !is_code(&found.marks, BASE + 12));
}

#[test]
fn a_branch_to_a_trampoline_comes_back() {
    let area = TABLE..TABLE + 0x40;
    let branch = 0xea00_0000 | (TABLE - BASE - 4 - 8) >> 2;
    let program = Program::new(&[NOP, branch, NOP, RETURN]);
    let (found, closed) = program.followed_with(std::slice::from_ref(&area));
    assert!(is_code(&found.marks, BASE + 8) && is_code(&found.marks, BASE + 12));
    assert!(found.wrong.is_empty() && closed.contains(BASE));
    assert!(!is_code(&found.marks, TABLE), "the area itself");
    // Where there is no such area, the branch leads out of the text, and the code does not go on
    // behind it.
    let (found, closed) = program.followed();
    assert!(!is_code(&found.marks, BASE + 8));
    assert!(!found.wrong.is_empty() && !closed.contains(BASE));
}

#[test]
fn a_jump_is_looked_at_again_when_more_is_known() {
    // The jump is met first, by a branch past the instructions that make the table's address: b to
    // the compare; movw r9, #128; movt r9, #0x8000; bl; cmp r0, #1; bhi to the return; ldrb r0,
    // [r9, r0]; add pc, pc, r0, lsl #2; nop; mov; return; return; b to the movw
    let words = [
        0xea00_0003,
        0xe300_9080,
        0xe348_9000,
        0xebff_fffb,
        NOP,
        0xe350_0001,
        0x8a00_0005,
        0xe7d9_0000,
        0xe08f_f100,
        NOP,
        0xe1a0_1001,
        RETURN,
        RETURN,
        RETURN,
    ];
    let program = Program::new(&words).with_table(&[0, 2]);
    let starts = Start {
        certain: vec![Root {
            address: BASE,
            isa: Isa::A32,
        }],
        ..Start::default()
    };
    let text = [(BASE, program.end)];
    let mut follower = Follower::new(program.memory(), &text, &starts, Marks::new(LEN));
    assert_eq!(follower.unresolved(), [BASE + 32]);
    let found = follower.guess(&[Root {
        address: BASE + 4,
        isa: Isa::A32,
    }]);
    assert!(found.is_empty(), "{found:x?}");
    let marks = follower.marks();
    assert!(is_code(marks, BASE + 40) && is_code(marks, BASE + 48));
    assert!(marks.is_soft(48), "by a guess");
}
