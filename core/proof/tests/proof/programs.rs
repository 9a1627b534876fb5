//! Functions as a compiler makes them, with literals behind: their frames are executable, whatever
//! the literals are.

use crate::frames::{a32, data, doubts, followed, t32};
use hanok_proof::{CAPACITY, Execution, Place, Progress, Rewritten, Verdict, WORDS, Words};
use proptest::prelude::*;

/// A frame with one function, and what has to be found in it.
#[derive(Debug)]
struct Program {
    words: Words,
    entry: Place,
    sites: Vec<u32>,
    literals: Vec<u32>,
}

/// Pieces of A32, and which of them are sites: moves, a branch over the next one, sites.
const A32: [(u32, bool); 8] = [
    (0xe1a0_0001, false),
    (0x0aff_ffff, false), // beq, to the next one
    (0xe594_1004, false),
    (0xe10f_0000, true), // mrs r0, cpsr
    (0x112f_f001, true), // msrne cpsr_fsxc, r1
    (0xf10c_0080, true), // cpsid i
    (0xe4b1_0004, true), // ldrt r0, [r1], #4
    (0xe320_f003, true), // wfi
];

/// Pieces of T32, and the offset of a site in each.
const T32: [(&[u16], Option<u32>); 8] = [
    (&[0x2001], None),
    (&[0xf44f, 0x7080], None),
    (&[0xbf08, 0x2001], None), // it eq; moveq r0, #1
    (&[0xb662], Some(0)),      // cpsie i
    (&[0xf3ef, 0x8000], Some(0)),
    (&[0xf380, 0x8900], Some(0)),
    (&[0xbf08, 0xf3ef, 0x8000], Some(2)), // it eq; mrseq r0, cpsr
    (&[0xbf18, 0xbf30], Some(2)),         // it ne; wfine
];

/// A literal; many look like sensitive instructions.
fn literal() -> impl Strategy<Value = u32> {
    let sensitive = prop_oneof![Just(0xe10f_0000), Just(0x8000_f3ef), Just(0xb662_b662)];
    prop_oneof![sensitive, any::<u32>()]
}

fn parts() -> impl Strategy<Value = (Vec<usize>, Vec<u32>, usize)> {
    let body = proptest::collection::vec(0usize..8, 0..120);
    // The last one is zero: a literal's upper half may begin a doubtful T32 instruction with what is
    // behind it.
    let literals = proptest::collection::vec(literal(), 0..12).prop_map(|mut all| {
        all.push(0);
        all
    });
    (body, literals, 0usize..800)
}

/// Each literal is loaded first; then come the pieces, `bx lr`, and the literals.
fn program_a32((body, literals, at): (Vec<usize>, Vec<u32>, usize)) -> Program {
    let pool = literals.len() + body.len() + 1;
    let loads = (0..literals.len()).map(|number| {
        let distance = (pool + number) as u32 * 4 - (number as u32 * 4 + 8);
        0xe59f_0000 | distance
    });
    let pieces = body.iter().map(|piece| A32[*piece].0);
    let code: Vec<u32> = loads
        .chain(pieces)
        .chain([0xe12f_ff1e])
        .chain(literals.iter().copied())
        .collect();
    let offset = |number: usize| (at + number) as u32 * 4;
    let sites = (0..body.len()).filter(|number| A32[body[*number]].1);
    let mut words = [0; WORDS];
    words[at..at + code.len()].copy_from_slice(&code);
    Program {
        words,
        entry: a32(offset(0)),
        sites: sites
            .map(|number| offset(literals.len() + number))
            .collect(),
        literals: (pool..code.len()).map(offset).collect(),
    }
}

fn program_t32((body, literals, at): (Vec<usize>, Vec<u32>, usize)) -> Program {
    let (mut code, mut sites) = (vec![0u16; literals.len()], Vec::new());
    let first = at as u32 * 4;
    for piece in body {
        let (halves, site) = T32[piece];
        sites.extend(site.map(|site| first + code.len() as u32 * 2 + site));
        code.extend(halves);
    }
    code.push(0x4770);
    if code.len() % 2 != 0 {
        code.push(0);
    }
    let pool = code.len();
    for (number, load) in code.iter_mut().take(literals.len()).enumerate() {
        let pc = (number * 2 + 4) & !3;
        let distance = (pool * 2 + number * 4 - pc) / 4;
        *load = 0x4800 | distance as u16;
    }
    code.extend(
        literals
            .iter()
            .flat_map(|word| [*word as u16, (*word >> 16) as u16]),
    );
    let mut words = [0; WORDS];
    for (number, two) in code.chunks(2).enumerate() {
        words[at + number] = u32::from(two[1]) << 16 | u32::from(two[0]);
    }
    Program {
        words,
        entry: t32(first),
        sites,
        literals: (pool..code.len())
            .step_by(2)
            .map(|half| first + half as u32 * 2)
            .collect(),
    }
}

fn check(program: &Program) -> Result<(), TestCaseError> {
    let original = program.words;
    let (proof, progress) = followed(&original, &[program.entry]);
    prop_assert_eq!(progress, Progress::Finished);
    let sites: Vec<u32> = proof
        .sites(&original, Execution::Free)
        .map(|site| site.offset)
        .collect();
    prop_assert_eq!(&sites, &program.sites);
    let found: Vec<u32> = data(&proof).into_iter().step_by(2).collect();
    prop_assert_eq!(&found, &program.literals);
    prop_assert_eq!(proof.verdict(&doubts(&original)), Verdict::Executable);
    let (mut words, mut rewritten) = (original, Rewritten::NONE);
    let mut seen = doubts(&words);
    let done = rewritten.rewrite(&proof, &mut seen, &mut words);
    prop_assert_eq!(done.is_ok(), sites.len() <= CAPACITY);
    prop_assert_eq!(words != original, done.is_ok() && !sites.is_empty());
    for literal in &program.literals {
        let at = *literal as usize / 4;
        prop_assert_eq!(words[at], original[at]);
    }
    rewritten.restore(&mut seen, &mut words);
    prop_assert_eq!(words, original);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_function_of_a32_is_executable(program in parts().prop_map(program_a32)) {
        check(&program)?;
    }

    #[test]
    fn a_function_of_t32_is_executable(program in parts().prop_map(program_t32)) {
        check(&program)?;
    }
}
