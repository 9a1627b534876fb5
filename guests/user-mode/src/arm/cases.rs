//! Which instructions are run: of each class all that differ in the bits that select the class.

use super::board;
use super::judge::Judge;
use hanok_decode::aarch32::Encoding;

/// Runs all cases.
pub fn all(judge: &mut Judge<'_>) {
    status_register(judge);
    unprivileged(judge);
    others(judge);
    coprocessors(judge);
    opened(judge);
}

/// A wide T32 instruction whose second halfword has the number that is A32's condition: the lower
/// 28 bits are the same.
fn both(judge: &mut Judge<'_>, bits: u32) {
    for kind in [0xe000_0000, 0xf000_0000] {
        judge.run(Encoding::A32(kind | bits));
        judge.run(Encoding::Wide(kind | bits));
    }
}

/// CPS, MRS and MSR (DDI 0406C B9.3.1, B9.3.8, B9.3.11, B9.3.12).
fn status_register(judge: &mut Judge<'_>) {
    for flags in 1..8 {
        for disable in [0, 1] {
            judge.differs(Encoding::A32(0xf108_0000 | disable << 18 | flags << 6));
            judge.differs(Encoding::Narrow(0xb660 | (disable << 4 | flags) as u16));
            judge.differs(Encoding::Wide(0xf3af_8400 | disable << 9 | flags << 5));
            for mode in [0x10, 0x11, 0x12, 0x13, 0x17, 0x1b, 0x1f] {
                judge.run(Encoding::A32(
                    0xf10a_0000 | disable << 18 | flags << 6 | mode,
                ));
                judge.run(Encoding::Wide(
                    0xf3af_8500 | disable << 9 | flags << 5 | mode,
                ));
            }
        }
    }
    for mode in [0x10, 0x11, 0x12, 0x13, 0x17, 0x1b, 0x1f] {
        judge.run(Encoding::A32(0xf102_0000 | mode));
        judge.run(Encoding::Wide(0xf3af_8100 | mode));
    }
    for register in 0..13 {
        judge.differs(Encoding::A32(0xe10f_0000 | register << 12));
        judge.differs(Encoding::Wide(0xf3ef_8000 | register << 8));
    }
    for mask in 1..16 {
        // MSR CPSR_mask, R0, and with a constant of a User mode.
        let (register, constant) = (0xe120_f000 | mask << 16, 0xe320_f010 | mask << 16);
        let wide = Encoding::Wide(0xf380_8000 | mask << 8);
        if mask & 1 == 0 {
            judge.run(Encoding::A32(register));
            judge.run(wide);
        } else {
            judge.differs(Encoding::A32(register));
            judge.differs(wide);
        }
        judge.run(Encoding::A32(constant));
        // SPSR, which User mode does not have: UNPREDICTABLE.
        judge.run(Encoding::A32(0xe160_f000 | mask << 16));
        judge.run(Encoding::Wide(0xf390_8000 | mask << 8));
    }
}

/// LDRT and similar instructions: R0 from or to the address in R1.
fn unprivileged(judge: &mut Judge<'_>) {
    for load in [0, 1 << 20] {
        for byte in [0, 1 << 22] {
            for add in [0, 1 << 23] {
                judge.differs(Encoding::A32(0xe421_0000 | load | byte | add));
                judge.differs(Encoding::A32(0xe421_0008 | load | byte | add));
                judge.differs(Encoding::A32(0xe621_0002 | load | byte | add));
                judge.differs(Encoding::A32(0xe621_0162 | load | byte | add));
            }
        }
    }
    for kind in [0xb0, 0xd0, 0xf0] {
        for load in [0, 1 << 20] {
            for add in [0, 1 << 23] {
                if kind == 0xb0 || load != 0 {
                    judge.differs(Encoding::A32(0xe021_0002 | kind | load | add));
                    judge.differs(Encoding::A32(0xe061_0004 | kind | load | add));
                }
            }
        }
    }
    for size in 0..3 {
        for constant in [0, 4] {
            let offset = size << 21 | 0x1_0e00 | constant;
            judge.differs(Encoding::Wide(0xf800_0000 | offset));
            judge.differs(Encoding::Wide(0xf810_0000 | offset));
            if size < 2 {
                judge.differs(Encoding::Wide(0xf910_0000 | offset));
            }
        }
    }
}

/// Calls of a hypervisor and a monitor, hints, SETEND, PLDW; exception returns and similar
/// instructions, which are UNPREDICTABLE, one of each.
fn others(judge: &mut Judge<'_>) {
    for number in 0..16 {
        judge.run(Encoding::A32(0xe160_0070 | number));
        judge.run(Encoding::Wide(0xf7f0_8000 | number << 16));
        judge.run(Encoding::A32(0xe140_0070 | number << 8 | number));
        judge.run(Encoding::Wide(0xf7e0_8000 | number << 16 | number));
    }
    for hint in 1..5 {
        judge.run(Encoding::A32(0xe320_f000 | hint));
        judge.run(Encoding::Wide(0xf3af_8000 | hint));
        judge.run(Encoding::Narrow(0xbf00 | (hint << 4) as u16));
    }
    for big in [0, 1] {
        judge.run(Encoding::A32(0xf101_0000 | big << 9));
        judge.run(Encoding::Narrow(0xb650 | (big << 3) as u16));
    }
    for word in [0xf511_f004, 0xf591_f004, 0xf711_f002, 0xf791_f102] {
        judge.run(Encoding::A32(word));
    }
    for both in [0xf8b1_f004, 0xf831_fc04, 0xf831_f002, 0xf831_f012] {
        judge.run(Encoding::Wide(both));
    }
    for operation in [0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15] {
        let first = if operation & 0b1101 == 0b1101 { 0 } else { 0xe };
        judge.run(Encoding::A32(0xe210_f004 | operation << 21 | first << 16));
    }
    for shift in [0x0e, 0x8e, 0xae, 0xce, 0xee, 0x6e] {
        judge.run(Encoding::A32(0xe1b0_f000 | shift));
    }
    judge.run(Encoding::Wide(0xf3de_8f04));
    let blocks = [
        0xe8fd_8001,
        0xe8dd_7fff,
        0xe8cd_7fff,
        0xf8bd_0a00,
        0xf96d_0513,
    ];
    blocks
        .into_iter()
        .for_each(|word| judge.run(Encoding::A32(word)));
    judge.run(Encoding::Wide(0xe9bd_c000));
    judge.run(Encoding::Wide(0xe82d_c013));
}

/// Registers that become accessible in User mode are tried a second time with access open: each
/// register of the performance monitors and the timer behaves as before or is executed now, and
/// some of them are executed.
fn opened(judge: &mut Judge<'_>) {
    let executed = judge.coprocessors_executed();
    let run = |judge: &mut Judge<'_>| {
        for selected in 0..1u32 << 7 {
            let (crm, opc2) = (selected >> 3, selected & 7);
            for crn in [9, 14] {
                let bits = 0xee00_0f10 | crn << 16 | opc2 << 5 | crm;
                judge.run(Encoding::A32(bits | 1 << 20));
                judge.run(Encoding::Wide(bits | 1 << 20));
            }
        }
    };
    run(judge);
    let closed = judge.coprocessors_executed() - executed;
    board::open();
    run(judge);
    let open = judge.coprocessors_executed() - executed - closed;
    judge.opens(closed, open);
}

/// Every MRC and MCR of CP14 and CP15, every MRRC and MCRR, and some instructions of all other
/// coprocessors.
fn coprocessors(judge: &mut Judge<'_>) {
    for number in [14, 15] {
        for selected in 0..1u32 << 14 {
            // opc1, CRn, CRm and opc2.
            let (opc1, crn) = (selected >> 11 & 7, selected >> 7 & 0xf);
            let (crm, opc2) = (selected >> 3 & 0xf, selected & 7);
            let bits = 0x0e00_0010 | opc1 << 21 | crn << 16 | number << 8 | opc2 << 5 | crm;
            for read in [0, 1 << 20] {
                judge.run(Encoding::A32(0xe000_0000 | bits | read));
                judge.run(Encoding::Wide(0xe000_0000 | bits | read));
            }
        }
    }
    for number in (0..10).chain(12..16) {
        for selected in 0..1u32 << 8 {
            let bits = 0x0c40_0000 | 2 << 16 | number << 8 | selected;
            both(judge, bits);
            both(judge, bits | 1 << 20);
        }
        for selected in 0..16 {
            let some = number << 8 | selected << 16 | selected;
            both(judge, 0x0e00_0000 | some);
            both(judge, 0x0e00_0010 | some & !0xf_0000);
            both(judge, 0x0e10_0010 | some & !0xf_0000);
            let transfer = 0x0d81_0000 | number << 8 | selected << 12;
            for form in [0, 1 << 20, 1 << 22, 5 << 20] {
                both(judge, transfer | form);
            }
        }
    }
    // FPSID, FPEXC, FPINST and FPINST2 both ways; MVFR0 and MVFR1.
    for system in [0, 8, 9, 10] {
        for bits in [0xeee0_0a10, 0xeef0_0a10] {
            judge.run(Encoding::A32(bits | system << 16));
            judge.run(Encoding::Wide(bits | system << 16));
        }
    }
    for system in [6, 7] {
        judge.run(Encoding::A32(0xeef0_0a10 | system << 16));
        judge.run(Encoding::Wide(0xeef0_0a10 | system << 16));
    }
}
