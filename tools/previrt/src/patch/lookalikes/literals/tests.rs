use super::*;
use crate::flow::marks::Marks;
use hanok_decode::aarch32::ItState;

/// The words that are examined: a function of 16 words of code and 16 of data, and the same again,
/// far enough to be out of each other's reach.
const BASE: u32 = 0xc030_0000;
const FUNCTION: u32 = 0x80;
const OTHER: u32 = 0x4000;
const DATA: u32 = 0x40;
/// The literal, behind the first function.
const LITERAL: u32 = BASE + DATA + 0x10;
const NOP: u32 = 0xe1a0_0001;

/// A jump's address, and those of its table's entries.
type FoundTable = (u32, Vec<u32>);

struct Case {
    words: Vec<u32>,
    marks: Marks,
    functions: Vec<(u32, String)>,
}

impl Case {
    /// The first instruction loads the literal.
    fn new() -> Self {
        let len = (OTHER + FUNCTION) as usize;
        let mut case = Self {
            words: vec![0x4444_4444; len / 4],
            marks: Marks::new(len),
            functions: [0, FUNCTION, OTHER, OTHER + FUNCTION]
                .map(|at| (BASE + at, format!("at {at:x}")))
                .to_vec(),
        };
        for function in [0, OTHER] {
            for at in (function..function + DATA).step_by(4) {
                case = case.code(at, NOP);
            }
            _ = case
                .marks
                .data((function + DATA) as usize, DATA as usize, true);
        }
        case.code(0, 0xe59f_0000 | (LITERAL - BASE - 8))
    }

    fn word(mut self, at: u32, word: u32) -> Self {
        self.words[at as usize / 4] = word;
        self
    }

    fn code(mut self, at: u32, word: u32) -> Self {
        self.marks.code(at as usize, 4, Isa::A32, ItState::NONE);
        self.word(at, word)
    }

    /// What loads the literal, and the jump and the entries of the table that `at` is in.
    fn look(self, at: u32) -> (Option<Vec<u32>>, Option<FoundTable>) {
        let bytes: Vec<u8> = self
            .words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let memory = Memory {
            bytes: &bytes,
            base: BASE,
        };
        let code = Code::marked(BASE, self.marks);
        let functions = SitePlace::with_functions(self.functions);
        let literals = Literals::of(memory, &code, Some(&functions));
        let loads = literals.loads(LITERAL).map(<[u32]>::to_vec);
        (loads, literals.table(at))
    }

    fn loads(self) -> Option<Vec<u32>> {
        self.look(BASE).0
    }
}

/// An instruction at offset 4 with the constant `distance` to offset `at`.
fn at_4(word: u32, at: u32) -> u32 {
    word | (at - 4 - 8)
}

const OFFSET: u32 = LITERAL - BASE;

#[test]
fn all_loads_of_a_literal_are_found() {
    assert_eq!(Case::new().loads(), Some(vec![BASE]));
    let more = Case::new().code(4, at_4(0x059f_3000, OFFSET));
    assert_eq!(more.loads(), Some(vec![BASE, BASE + 4]));
    // From the other side.
    let behind = Case::new().code(OFFSET + 0x10, 0xe51f_1018);
    assert_eq!(behind.loads(), Some(vec![BASE, LITERAL + 0x10]));
    let none = Case::new().code(0, NOP);
    assert_eq!(none.loads(), None);
}

#[test]
fn another_instruction_that_reads_it_by_the_pc_keeps_it() {
    let distance = OFFSET - 12;
    let extra = |word: u32| word | (distance & 0xf0) << 4 | distance & 0xf;
    for (word, name) in [
        (at_4(0xe59f_f000, OFFSET), "ldr pc"),
        (at_4(0xe5df_1000, OFFSET), "ldrb"),
        (at_4(0xe5df_1000, OFFSET + 3), "ldrb of its last byte"),
        (at_4(0xe59f_1000, OFFSET + 2), "ldr of a half"),
        (at_4(0xe59f_1000, OFFSET - 1), "ldr that begins before"),
        (at_4(0xe58f_1000, OFFSET), "str"),
        (extra(0xe1df_10b0), "ldrh"),
        (extra(0xe1df_10d0), "ldrsb"),
        (extra(0xe1cf_20d0), "ldrd"),
        (extra(0xe1cf_20d0) - 4, "ldrd of the word before, too"),
        (0xed9f_0b00 | (distance / 4), "vldr"),
        (0xed9f_0a00 | (distance / 4), "vldr of a single"),
        (0xe28f_1010, "adr in the same function"),
        (0xe24f_1004, "adr backwards"),
        (0xe08f_1002, "add r1, pc, r2"),
        (0xe082_100f, "add r1, r2, pc"),
        (0xe79f_1002, "ldr r1, [pc, r2]"),
        (0x979f_f102, "a jump table without a bound, up to it"),
    ] {
        let mut case = Case::new().code(4, word);
        if word == 0x979f_f102 {
            for at in (12..=OFFSET).step_by(4) {
                case = case.word(at, BASE + 0x20);
            }
        }
        assert_eq!(case.loads(), None, "{name}");
    }
    // Those that read something else do not matter.
    for (word, name) in [
        (at_4(0xe5df_1000, OFFSET + 4), "ldrb behind it"),
        (at_4(0xe59f_f000, OFFSET - 4), "ldr pc before it"),
        (extra(0xe1cf_20d0) + 4, "ldrd behind it"),
        (0xed9f_0b00 | (distance / 4 - 2), "vldr before it"),
        (0xe1a0_e00f, "mov lr, pc"),
        (0xeb00_0001, "bl"),
    ] {
        assert!(Case::new().code(4, word).loads().is_some(), "{name}");
    }
}

#[test]
fn an_address_in_another_function_keeps_what_is_near_it() {
    // add r1, pc, #8: within the function itself.
    let own = Case::new().code(OTHER, 0xe28f_1008);
    assert!(own.loads().is_some());
    // sub r1, pc, #0x4000: in the first function.
    let there = Case::new().code(OTHER, 0xe24f_1901);
    assert_eq!(there.loads(), None);
}

#[test]
fn code_that_is_not_known_may_read_it() {
    let unknown = 0x1000;
    let load = 0xe51f_0000 | (unknown + 8 - OFFSET);
    assert_eq!(Case::new().word(unknown, load).loads(), None);
    // So may a word that is taken for data, if it is an instruction that reads just this word.
    let data = DATA + 0x30;
    let load = |place: u32| Case::new().word(data, 0xe51f_0000 | (data + 8 - place));
    assert_eq!(load(OFFSET).loads(), None);
    assert!(load(OFFSET - 4).loads().is_some());
    let mut thumb = Case::new();
    thumb.marks.code(0x800, 2, Isa::T32, ItState::NONE);
    assert_eq!(thumb.loads(), None, "T32 is near");
}

#[test]
fn an_address_of_it_anywhere_keeps_it() {
    let far = OTHER + DATA;
    assert_eq!(Case::new().word(far, LITERAL).loads(), None, "a word");
    let [low, high] = [LITERAL << 16, LITERAL >> 16];
    let apart = Case::new().word(far, low).word(far + 4, high);
    assert_eq!(apart.loads(), None, "a word that is not aligned");
    let distance = OFFSET.wrapping_sub(far);
    assert_eq!(Case::new().word(far, distance).loads(), None, "a distance");
    let short = Case::new().word(far, distance & 0x7fff_ffff);
    assert_eq!(short.loads(), None, "a distance of 31 bits");
    let [low, high] = [LITERAL & 0xffff, LITERAL >> 16];
    let half = |half: u32| (half & 0xf000) << 4 | half & 0xfff | 0x5000;
    let made = Case::new().code(OTHER, 0xe300_0000 | half(low));
    let made = made.code(OTHER + 8, 0xe340_0000 | half(high));
    assert_eq!(made.loads(), None, "movw and movt");
    let mut named = Case::new();
    named.functions.insert(1, (LITERAL, "data".to_owned()));
    assert_eq!(named.loads(), None, "a name");
}

/// A jump with a bound at offset 8, with `entries`, and code behind them.
fn table(entries: &[u32]) -> Case {
    let mut case = Case::new()
        .code(4, 0xe350_0000 | (entries.len() as u32 - 1))
        .code(8, 0x979f_f100)
        .code(12, 0xea00_0000 | (entries.len() as u32 - 1));
    let mut marks = Marks::new(case.words.len() * 4);
    for at in (0..DATA).step_by(4) {
        if at < 16 || at >= 16 + 4 * entries.len() as u32 {
            marks.code(at as usize, 4, Isa::A32, ItState::NONE);
        }
    }
    _ = marks.data(16, 4 * entries.len(), true);
    case.marks = marks;
    for (n, entry) in entries.iter().enumerate() {
        case = case.word(16 + 4 * n as u32, *entry);
    }
    case
}

#[test]
fn a_jump_table_is_its_jump_s_alone() {
    let entries = [BASE + 0x20, BASE + 0x24, BASE + 0x28];
    let places = || (0..3).map(|n| BASE + 16 + 4 * n).collect::<Vec<_>>();
    for place in places() {
        let (_, found) = table(&entries).look(place);
        assert_eq!(found, Some((BASE + 8, places())));
    }
    let is_kept = |case: Case| case.look(BASE + 16).1.is_none();
    assert!(
        table(&entries).look(BASE + 16 + 12).1.is_none(),
        "behind it"
    );
    let loaded = table(&entries).code(0, 0xe59f_000c);
    assert!(is_kept(loaded), "something loads an entry");
    let named = table(&entries).word(OTHER, BASE + 24);
    assert!(is_kept(named), "something has an entry's address");
    let mut unknown = table(&entries);
    let mut marks = Marks::new(unknown.words.len() * 4);
    for at in [0, 4, 8, 12] {
        marks.code(at, 4, Isa::A32, ItState::NONE);
    }
    _ = marks.data(16, 12, true);
    unknown.marks = marks;
    assert!(is_kept(unknown), "what is behind it may be an entry");
    let unbound = table(&entries).code(4, NOP);
    assert!(is_kept(unbound), "no bound");
}
