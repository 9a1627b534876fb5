//! A sample kernel with words that only look like an instruction that User mode would execute
//! otherwise, each of another kind.

use super::{BASE, ENTRY, FAR_TEXT, FUNCTIONS, address, function, kallsyms, words};

/// What the sample's function `lookalikes` calls and branches to: a load of [`LITERAL`] and returns.
pub const TARGET: u32 = 0x8001_8fe0;
/// What the function tracer calls.
pub const TRACER: u32 = 0x8001_99f4;
/// The number of the function in the entry code that Linux copies elsewhere.
pub const COPIED: u32 = 5;
/// The function of the first system call.
pub const CALLED: u32 = 0x8001_b664;
/// The table of the functions of system calls: [`CALLED`], [`TARGET`].
pub const SYSTEM_CALLS: u32 = FUNCTION - 0x10;
/// The function `lookalikes`. Its addresses have lower halves that are CPSID or SETEND of T32.
pub const FUNCTION: u32 = 0x8002_b600;
/// The literals that it loads: the first one with an instruction that is a lookalike itself.
pub const LITERAL: u32 = FUNCTION + 0x6d0;
/// Its last instruction in its first page.
pub const PAGE_END: u32 = FUNCTION + 0x9fc;
/// Its call of the function tracer, which is a lookalike, too.
pub const TRACED: u32 = PAGE_END + 0x64 + 4;
/// The places of its jump labels.
pub const JUMP_LABELS: u32 = PAGE_END + 4;
/// The number of jump labels.
const LABELS: u32 = 8;
const END: u32 = TRACED + 8;
const MOV: u32 = 0xe1a0_0001; // mov r0, r1

/// The words of the function `lookalikes`.
fn body() -> Vec<u32> {
    let start = [
        0xe92d_4010,     // push {r4, lr}
        0xe350_0003,     // cmp r0, #3
        0x979f_f100,     // ldrls pc, [pc, r0, lsl #2]
        0xea00_0003,     // b behind the table
        FUNCTION + 0x44, // the jump table
        FUNCTION + 0x48,
        FUNCTION + 0x64,
        FUNCTION + 0x50,
    ];
    let middle = [
        0xe1a0_0001, // mov r0, r1
        0xe1a0_0002, // mov r0, r2
        0xe1a0_0003, // mov r0, r3
        0xebff_b662, // bl TARGET
        0x0bff_b662, // bleq TARGET + 4
        0x0aff_b662, // beq TARGET + 8
        0xe996_0005, // ldmib r6, {r0, r2}, which with the half behind is RFE
        0xe1a0_c000, // mov r12, r0
        0xe59f_b664, // ldr r11, [pc, #0x664]: LITERAL
        0xe307_b674, // movw r11, #0x7674
        0xe59f_1660, // ldr r1, [pc, #0x660]: LITERAL + 4
        0x059f_165c, // ldreq r1, [pc, #0x65c]: the same
    ];
    let mut body = start.to_vec();
    body.resize(0x44 / 4, MOV);
    body.extend(middle);
    body.resize(0x6cc / 4, MOV);
    body.extend([0xea00_0001, 0x1234_5678, 0xc0f1_09b4]); // b, and the literals
    body.resize(0x9fc / 4, MOV);
    body.push(0xe996_0005); // ldmib r6, {r0, r2}, which may be RFE with what is in the next page
    body.extend([0xe320_f000; LABELS as usize]);
    body.resize((TRACED - FUNCTION) as usize / 4, MOV);
    body.extend([0xebff_b662, 0xe8bd_8010]); // bl TRACER; pop {r4, pc}
    body
}

/// The kernel's raw image. `jump_labels` says whether it has a table of them.
pub fn image(jump_labels: bool) -> Vec<u8> {
    let mut image = words(&[0xea00_0000 | (FAR_TEXT - 8) >> 2]);
    image.resize(FAR_TEXT as usize, 0);
    image.extend((0..FUNCTIONS).flat_map(function));
    let target = [0xe59f_0008, MOV, 0xe12f_ff1e, 0xe1a0_0000, 0x5555_5555];
    for (at, code) in [
        (TARGET, target.to_vec()),
        (TRACER, vec![0xe12f_ff1e]),
        (CALLED, vec![0xe12f_ff1e]),
        (SYSTEM_CALLS, vec![CALLED, TARGET]),
        (FUNCTION, body()),
    ] {
        image.resize((at - BASE) as usize, 0);
        image.extend(words(&code));
    }
    image.extend(words(&[0, 0]));
    if jump_labels {
        let entry = |n: u32| {
            [
                JUMP_LABELS + 4 * n,
                FUNCTION + 0x50,
                BASE + 0x10_0000 + 4 * n,
            ]
        };
        image.extend((0..LABELS).flat_map(|n| words(&entry(n))));
    }
    let text = BASE + FAR_TEXT;
    let mut symbols = vec![(text, "T_stext".to_owned())];
    symbols.extend((0..FUNCTIONS).map(|n| (text + address(n), format!("tfunction_{n}"))));
    let entry = [(0, "T__entry_text_start"), (ENTRY, "T__entry_text_end")];
    symbols.extend(entry.map(|(n, name)| (text + address(n), name.to_owned())));
    let copied = [
        (COPIED, "T__kuser_helper_start"),
        (COPIED + 1, "T__kuser_helper_end"),
    ];
    symbols.extend(copied.map(|(n, name)| (text + address(n), name.to_owned())));
    for (at, name) in [
        (TARGET, "ttarget"),
        (TRACER, "T__gnu_mcount_nc"),
        (CALLED, "tcalled"),
        (SYSTEM_CALLS, "Tsys_call_table"),
        (FUNCTION, "tlookalikes"),
        (END, "T_etext"),
        (END, "T_sinittext"),
        (END, "T_einittext"),
    ] {
        symbols.push((at, name.to_owned()));
    }
    symbols.sort_by_key(|(address, _)| *address);
    kallsyms(&mut image, &symbols, true);
    image
}
