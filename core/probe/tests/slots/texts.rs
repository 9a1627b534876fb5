//! Trampolines as text, by a disassembler.

use crate::trampolines::{displaced, ring, site};
use hanok_probe::{Argument, InstructionSet, Probe, Ring, Site, trampoline};
use hanok_types::Gva;
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::{armv7, armv8::a64};

/// The instructions before the displaced one, and their number as the trampoline gives it.
fn text(set: InstructionSet, arguments: [Argument; 2]) -> (Vec<String>, u32) {
    let (code, slot) = (displaced(set, false), Gva::new(0x4010_0000));
    let (site, ring) = (site(set, &code), ring(false, 64));
    let made = trampoline(&Probe {
        site,
        slot,
        ring,
        number: 7,
        arguments,
    })
    .expect("fine");
    let before = (made.displaced_at.get() - slot.get()) as usize;
    let mut rest = &made.relocated.code.bytes()[..before];
    let mut texts = Vec::new();
    while !rest.is_empty() {
        let reader = &mut U8Reader::new(rest);
        let thumb = set == InstructionSet::T32;
        let text = match set {
            InstructionSet::A64 => a64::InstDecoder::default()
                .decode(reader)
                .map(|found| found.to_string())
                .ok(),
            _ => {
                let decoder = armv7::InstDecoder::default().with_thumb_mode(thumb);
                decoder.decode(reader).map(|found| found.to_string()).ok()
            }
        };
        texts.push(text.unwrap_or_else(|| format!("? {:02x?}", &rest[..4])));
        let narrow = thumb && rest[1] < 0xe8;
        rest = &rest[if narrow { 2 } else { 4 }..];
    }
    (texts, made.executed)
}

/// Of R0 or X0, which is on the stack by then, and of a word at R7 or X7.
const ARGUMENTS: [Argument; 2] = [
    Argument::Register(0),
    Argument::Word {
        base: 7,
        offset: 16,
    },
];

fn assert_text(set: InstructionSet, executed: u32, expected: &str) {
    let (texts, count) = text(set, ARGUMENTS);
    let expected: Vec<_> = expected
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(texts, expected);
    assert_eq!(count, executed);
}

#[test]
fn a64_trampolines_read_as_they_should() {
    let expected = "
        stp x0, x1, [sp, #-0x20]!
        stp x2, x3, [sp, #0x10]
        mov x0, #0x60000000
        ldr w3, [x0, #0x4]
        ldxr w1, [x0]
        sub w2, w1, w3
        lsr w2, w2, #0x6
        cbnz w2, $+0x48
        add w2, w1, #0x1
        stxr w3, w2, [x0]
        cbnz w3, $-0x1c
        mrs x3, cntvct_el0
        and w1, w1, #0x3f
        add x0, x0, #0x48
        add x0, x0, x1, lsl #5
        stur x3, [x0, #-0x8]
        movk x2, #0x7, lsl #32
        ldr x1, [sp]
        ldr x3, [x7, #0x10]
        stp x1, x3, [x0, #0x8]
        stlr x2, [x0]
        ldp x2, x3, [sp, #0x10]
        ldp x0, x1, [sp], #0x20";
    assert_text(InstructionSet::A64, 25, expected);
}

/// The disassembler does not know UBFX and DMB of A32.
#[test]
fn a32_trampolines_read_as_they_should() {
    let expected = "
        push {r0, r1, r2, r3, r4, r5}
        mrs r5, cpsr
        mov r0, 0x0
        movt r0, 0x6000
        ldr r3, [r0, 0x4]
        ldrex r1, [r0]
        sub r2, r1, r3
        movs r2, r2, lsr 6
        bne $+0x58
        add r4, r1, 0x1
        strex r3, r4, [r0]
        cmp r3, 0x0
        bne $-0x20
        mrrc p15, 1, r2, r3, c14
        ? [51, 10, e5, e7]
        add r0, r0, r1, lsl 5
        strd r2, r3, [r0, 0x40]
        mov r3, 0x0
        ldr r2, [sp]
        strd r2, r3, [r0, 0x50]
        ldr r2, [r7, 0x10]
        strd r2, r3, [r0, 0x58]
        mov r2, 0x7
        str r2, [r0, 0x4c]
        ? [5b, f0, 7f, f5]
        str r4, [r0, 0x48]
        msr apsr_nzcvq, r5
        pop {r0, r1, r2, r3, r4, r5}";
    assert_text(InstructionSet::A32, 30, expected);
}

/// Nor MRRC of T32, whose word is that of A32.
#[test]
fn t32_trampolines_read_as_they_should() {
    let expected = "
        push {r0, r1, r2, r3, r4, r5}
        mov r0, 0x0
        movt r0, 0x6000
        ldr r3, [r0, 0x4]
        ldrex r1, [r0]
        sub.w r2, r1, r3
        lsr.w r2, r2, 0x6
        cbz r2, $+0x4
        b.w $+0x4a
        add.w r4, r1, 0x1
        strex r3, r4, [r0]
        cbz r3, $+0x2
        b $-0x22
        ? [53, ec, 1e, 2f]
        ubfx r1, r1, 0x0, 0x6
        add.w r0, r0, r1, lsl 5
        strd r2, r3, [r0, 0x40]
        mov.w r3, 0x0
        ldr.w r2, [sp]
        strd r2, r3, [r0, 0x50]
        ldr.w r2, [r7, 0x10]
        strd r2, r3, [r0, 0x58]
        mov r2, 0x7
        str.w r2, [r0, 0x4c]
        dmb.w 0xb
        str.w r4, [r0, 0x48]
        pop {r0, r1, r2, r3, r4, r5}";
    assert_text(InstructionSet::T32, 27, expected);
}

/// How many instructions a probe costs where the addresses need as many as they can, and in a
/// kernel's usual places.
#[test]
fn the_costs_are_known() {
    let worst = [Argument::Fixed(Gva::new(0x8765_4321_1234_5678)); 2];
    let narrow = [Argument::Fixed(Gva::new(0x8765_4320)); 2];
    let few = [Argument::Register(7), Argument::None];
    let usual = (0xffff_8000_1234_5000u64, 0xffff_8000_1234_5040u64);
    let far = (0x1234_5678_9abc_def0, 0x1234_5678_aabc_dee0);
    for (set, at, ring, arguments, executed) in [
        (InstructionSet::A64, 0x4000_1000, usual, few, 25),
        (InstructionSet::A64, 0x4000_1000, far, worst, 39),
        (
            InstructionSet::A32,
            0x4000_1000,
            (0x6543_2000, 0x6543_2040),
            few,
            30,
        ),
        (
            InstructionSet::A32,
            0x4000_1000,
            (0x6543_2000, 0x7543_2040),
            narrow,
            36,
        ),
        (
            InstructionSet::T32,
            0x4000_1000,
            (0x6543_2000, 0x6543_2040),
            few,
            25,
        ),
        (
            InstructionSet::T32,
            0x4000_1000,
            (0x6543_2000, 0x7543_2040),
            narrow,
            33,
        ),
    ] {
        let (code, slot) = (displaced(set, false), Gva::new(at + 0x1000));
        let site = Site {
            at: Gva::new(at),
            ..site(set, &code)
        };
        let ring = Ring::new(Gva::new(ring.0), Gva::new(ring.1), 64).expect("a ring");
        let made = trampoline(&Probe {
            site,
            slot,
            ring,
            number: 7,
            arguments,
        })
        .expect("fine");
        assert_eq!(made.executed, executed, "{set:?} {arguments:?}");
        assert!(made.relocated.code.bytes().len() <= 220);
    }
}
