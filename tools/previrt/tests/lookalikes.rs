//! Words that only look like an instruction that User mode would execute otherwise: what replaces
//! them does the same, and the hypervisor's own look at the code has no doubts left.

use hanok_abi::trampoline::{PAGE, branch_target};
use hanok_previrt::sample::lookalikes::{
    CALLED, COPIED, FUNCTION, JUMP_LABELS, LITERAL, PAGE_END, SYSTEM_CALLS, TARGET, TRACED, TRACER,
    image,
};
use hanok_previrt::sample::{BASE, ENTRY, image_with_area, tight_image};
use hanok_previrt::{
    Change, Form, Lookalikes, Options, Patched, Scan, Sites, patch, revert, rewritten, scan,
};
use hanok_proof::{AfterCall, Doubts, FrameProof, Looked, WORDS, Words, is_part_of_doubt};

fn options() -> Options {
    Options {
        sites: Sites::Silent,
        lookalikes: Lookalikes::Replace,
        ..Options::default()
    }
}

fn rewrite(file: &[u8]) -> (Scan, Patched) {
    let scan = scan(file).expect("sound");
    let patched = patch(&scan, options()).expect("rewritten");
    (scan, patched)
}

fn word(bytes: &[u8], address: u32) -> u32 {
    let at = (address - BASE) as usize;
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"))
}

/// The first doubt of the page that contains `address`, as the hypervisor sees it before anything
/// of the page was executed.
fn doubt(bytes: &[u8], address: u32) -> Option<u32> {
    let page = address & !(PAGE - 1);
    let at = (page - BASE) as usize;
    let mut words: Words = [0; WORDS];
    for (to, from) in words.iter_mut().zip(bytes[at..].chunks_exact(4)) {
        *to = u32::from_le_bytes(from.try_into().expect("four"));
    }
    let mut doubts = Doubts::new();
    assert_eq!(doubts.look(&words, WORDS as u32), Looked::Everywhere);
    let found = FrameProof::new(0, AfterCall::Stop).doubtful(&doubts);
    found.map(|offset| page + offset)
}

fn change(patched: &Patched, address: u32) -> Option<&Change> {
    let mut changes = patched.side.changes.iter();
    changes.find(|change| change.address == address)
}

/// A processor that executes what replaced an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Machine {
    registers: [u32; 15],
    pc: u32,
    /// Words that it met and does not know.
    met: Vec<u32>,
}

impl Machine {
    fn at(pc: u32) -> Self {
        let registers = std::array::from_fn(|n| 0x0101_0101 * n as u32);
        Self {
            registers,
            pc,
            met: Vec::new(),
        }
    }

    fn register(&self, number: u32) -> u32 {
        if number == 15 {
            self.pc + 8
        } else {
            self.registers[number as usize]
        }
    }

    /// Executes `word` at the PC, as if its condition held.
    fn step(&mut self, word: u32) {
        let (rd, constant) = (
            (word >> 12 & 0xf) as usize,
            word >> 4 & 0xf000 | word & 0xfff,
        );
        let rotated = (word & 0xff).rotate_right(2 * (word >> 8 & 0xf));
        let first = self.register(word >> 16 & 0xf);
        let mut next = self.pc + 4;
        match word >> 20 & 0xff {
            0x30 => self.registers[rd] = constant,
            0x34 => self.registers[rd] = constant << 16 | self.registers[rd] & 0xffff,
            0x22 => self.registers[rd] = first ^ rotated,
            0x24 => self.registers[rd] = first.wrapping_sub(rotated),
            0x28 => self.registers[rd] = first.wrapping_add(rotated),
            0x1a if word & 0x0fff_ffff == 0x01a0_0000 => {}
            kind if kind >> 4 == 0xa => next = branch_target(word, self.pc).expect("B"),
            _ => self.met.push(word),
        }
        self.pc = next;
    }
}

/// What is to be after the instruction `was` at `address` of the original file.
fn expected(file: &[u8], was: u32, address: u32) -> Machine {
    let mut machine = Machine::at(address + 4);
    match was >> 24 & 0xf {
        0xa => machine.pc = branch_target(was, address).expect("B"),
        0xb => {
            machine.pc = branch_target(was ^ 1 << 24, address).expect("BL");
            machine.registers[14] = address + 4;
        }
        5 if was & 0x0f7f_0000 == 0x051f_0000 => {
            let add = was & 1 << 23 != 0;
            let distance = was & 0xfff;
            let place = if add {
                address + 8 + distance
            } else {
                address + 8 - distance
            };
            machine.registers[(was >> 12 & 0xf) as usize] = word(file, place);
        }
        _ => {
            machine.pc = address;
            machine.step(was);
        }
    }
    machine
}

/// Checks that each change of an instruction does the same as before.
fn same(before: &[u8], patched: &Patched) {
    let area = patched.side.reserved.iter().find(|area| area.plain);
    let area = area.expect("an area");
    for change in &patched.side.changes {
        let address = change.address;
        match change.form {
            Form::Constant | Form::Moved => {
                let mut machine = Machine::at(address);
                machine.step(word(&patched.bytes, address));
                assert!((area.address..area.address + area.len).contains(&machine.pc));
                let condition = |word: u32| if word >> 28 == 0xf { 0xe } else { word >> 28 };
                assert_eq!(condition(change.is), condition(change.was));
                while (area.address..area.address + area.len).contains(&machine.pc) {
                    machine.step(word(&patched.bytes, machine.pc));
                }
                assert_eq!(
                    machine,
                    expected(before, change.was, address),
                    "{change:x?}"
                );
            }
            Form::Table if change.is >> 24 & 0xf == 0 => {
                assert_eq!(change.is & 0x0fff_fff0, 0x008f_f100);
                assert_eq!(change.is & 0xf000_000f, change.was & 0xf000_000f);
            }
            Form::Table => assert_eq!(branch_target(change.is, address), Some(change.was)),
            Form::Pointer => {
                let branch = word(&patched.bytes, change.is);
                assert_eq!(branch_target(branch, change.is), Some(change.was));
            }
            Form::Unused => assert_eq!(change.is & 0xfff0_00f0, 0xe7f0_00f0),
            form => assert_eq!(form, Form::Trap),
        }
        // No other word of an image is different.
        assert_eq!(change.was, word(before, address));
        assert_eq!(change.is, word(&patched.bytes, address));
    }
}

fn undone(scan: &Scan, patched: &Patched) {
    assert_eq!(patched.bytes.len(), scan.content.len());
    let before = revert(&patched.bytes, &patched.side).expect("undone");
    assert!(before == scan.content);
    let again = hanok_previrt::scan(&patched.bytes).expect("still readable");
    assert!(rewritten(&again));
    let areas = patched.side.reserved.iter();
    let areas: Vec<_> = areas
        .map(|area| area.address..area.address + area.len)
        .collect();
    assert_eq!(again.areas, areas);
    assert!(patch(&again, options()).is_err());
}

#[test]
fn each_kind_is_replaced_by_what_does_the_same() {
    let before = image(true);
    let (scan, patched) = rewrite(&before);
    same(&before, &patched);
    undone(&scan, &patched);
    let form = |address| change(&patched, address).map(|change| change.form);
    let at = |offset| form(FUNCTION + offset);
    assert_eq!(at(0x08), Some(Form::Table), "the jump");
    for entry in 0..4 {
        assert_eq!(at(0x10 + 4 * entry), Some(Form::Table), "an entry");
    }
    assert_eq!(at(0x50), Some(Form::Moved), "bl");
    assert_eq!(at(0x54), Some(Form::Moved), "bleq");
    assert_eq!(at(0x58), Some(Form::Moved), "beq");
    assert_eq!(at(0x5c), Some(Form::Moved), "ldmib, and what is behind");
    assert_eq!(at(0x60), None);
    assert_eq!(at(0x64), Some(Form::Constant), "ldr r11");
    assert_eq!(at(0x68), Some(Form::Moved), "movw r11");
    assert_eq!(at(0x6c), Some(Form::Constant), "ldr r1");
    assert_eq!(at(0x70), Some(Form::Constant), "ldreq r1");
    assert_eq!(form(LITERAL), None, "it does not look like anything");
    assert_eq!(form(LITERAL + 4), Some(Form::Unused));
    assert_eq!(form(PAGE_END), Some(Form::Moved));
    assert_eq!(form(SYSTEM_CALLS), Some(Form::Pointer));
    assert_eq!(
        form(SYSTEM_CALLS + 4),
        None,
        "it does not look like anything"
    );
    assert_eq!(word(&before, SYSTEM_CALLS), CALLED);
    assert_eq!(form(TRACED), None, "Linux changes it");
    for address in [TARGET, TRACER, JUMP_LABELS] {
        assert_eq!(form(address), None);
    }
}

#[test]
fn no_doubt_is_left_but_in_what_linux_changes() {
    let before = image(true);
    let (_, patched) = rewrite(&before);
    assert_eq!(doubt(&before, FUNCTION), Some(SYSTEM_CALLS));
    assert_eq!(doubt(&patched.bytes, FUNCTION), None);
    assert_eq!(doubt(&patched.bytes, TRACED), Some(TRACED));
    let area = patched.side.reserved[0];
    for page in (area.address..area.address + area.len).step_by(PAGE as usize) {
        assert_eq!(doubt(&patched.bytes, page), None);
    }
    assert!(is_part_of_doubt(None, word(&before, PAGE_END), None));
}

#[test]
fn a_branch_stays_if_the_jump_labels_are_not_known() {
    let before = image(false);
    let (scan, patched) = rewrite(&before);
    same(&before, &patched);
    undone(&scan, &patched);
    assert_eq!(change(&patched, FUNCTION + 0x58), None, "beq");
    assert!(change(&patched, FUNCTION + 0x54).is_some(), "bleq");
    assert_eq!(doubt(&patched.bytes, FUNCTION), Some(FUNCTION + 0x58));
}

#[test]
fn all_literals_of_a_kernel_s_entry_code_are_replaced() {
    let before = image_with_area();
    let (scan, patched) = rewrite(&before);
    same(&before, &patched);
    undone(&scan, &patched);
    let count = |form| {
        let changes = patched.side.changes.iter();
        changes.filter(|change| change.form == form).count()
    };
    // All other functions may be copied elsewhere.
    assert_eq!(
        [Form::Constant, Form::Unused].map(count),
        [ENTRY as usize; 2]
    );
    let area = patched.side.reserved[0];
    let unused = scan
        .code
        .and_then(|code| code.unused)
        .expect("unused pages");
    assert_eq!(area.address, unused.start);
}

#[test]
fn what_linux_copies_elsewhere_keeps_its_literals() {
    let (_, patched) = rewrite(&image(true));
    let has = |name: &str| {
        let mut changes = patched.side.changes.iter();
        changes
            .any(|change| change.form == Form::Unused && change.function.as_deref() == Some(name))
    };
    for n in [COPIED - 1, COPIED + 2, ENTRY - 1] {
        assert!(has(&format!("function_{n}")), "{n}");
    }
    for name in [&format!("function_{COPIED}"), "__kuser_helper_start"] {
        assert!(!has(name), "{name}");
    }
    assert!(!has(&format!("function_{ENTRY}")), "it may be copied");
}

#[test]
fn trampolines_and_what_was_moved_share_the_unused_pages() {
    let before = image_with_area();
    let scan = scan(&before).expect("sound");
    let options = Options {
        sites: Sites::All,
        ..options()
    };
    let patched = patch(&scan, options).expect("rewritten");
    let plain: Vec<_> = patched
        .side
        .reserved
        .iter()
        .map(|area| area.plain)
        .collect();
    assert_eq!(plain, [false, true]);
    let [first, second] = [0, 1].map(|n| patched.side.reserved[n]);
    assert_eq!(first.address + first.len, second.address);
    undone(&scan, &patched);
}

#[test]
fn the_same_file_gives_the_same_result() {
    let before = image(true);
    let (_, first) = rewrite(&before);
    let (_, second) = rewrite(&before);
    assert!(first.bytes == second.bytes);
    assert_eq!(first.side, second.side);
}

#[test]
fn nothing_is_replaced_unless_there_are_unused_pages_and_it_is_asked_for() {
    let keep = Options {
        lookalikes: Lookalikes::Keep,
        ..options()
    };
    for (file, options) in [(tight_image(), options()), (image(true), keep)] {
        let patched = patch(&scan(&file).expect("sound"), options).expect("rewritten");
        assert!(patched.side.reserved.is_empty());
        assert!(
            patched
                .side
                .changes
                .iter()
                .all(|change| change.form == Form::Trap)
        );
    }
}
