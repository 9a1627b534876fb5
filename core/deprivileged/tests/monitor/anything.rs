//! Whatever a guest does, the monitor answers, with little work.

use crate::board::{Board, RAM, WORDS};
use crate::guest::Guest;
use crate::random::Rng;
use hanok_deprivileged::Trap;

fn trap(rng: &mut Rng, address: u32) -> Trap {
    match rng.below(6) {
        0 | 1 => Trap::Undefined,
        2 => Trap::SupervisorCall,
        3 => Trap::PrefetchAbort {
            status: rng.below(16) | rng.below(2) << 10,
            address: if rng.once_in(8) { rng.next() } else { address },
        },
        _ => Trap::DataAbort {
            status: rng.below(16) | rng.below(4) << 10,
            address: if rng.once_in(2) { rng.next() } else { address },
        },
    }
}

#[test]
fn every_exception_has_an_answer() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut words = vec![0; WORDS];
        for word in words.iter_mut().take(0x8000) {
            *word = crate::random::any_word(&mut rng);
        }
        let mut guest = Guest::<2, 4>::new(Board::new(words, rng.once_in(2)), 2, 3);
        guest.monitor.boot(RAM, [0; 3]);
        for _ in 0..200 {
            let pc = match rng.below(4) {
                0 => guest.monitor.registers.pc,
                1 => rng.next() & !1,
                _ => RAM + (rng.below(0x8000) & !1),
            };
            let registers = &mut guest.monitor.registers;
            registers.pc = pc;
            for register in &mut registers.general {
                if rng.once_in(3) {
                    *register = rng.one(&[RAM, RAM + 0x2000, rng_value(seed), pc, !3]);
                }
            }
            registers.psr = registers.psr.with_thumb(pc & 3 != 0 || rng.once_in(2));
            let it = if registers.psr.thumb() && rng.once_in(4) {
                rng.next() as u8
            } else {
                0
            };
            registers.psr = registers.psr.with_it_high(it >> 2).with_it_low(it & 3);
            let trap = trap(&mut rng, pc);
            // The bound of its work is asserted there.
            let _outcome = guest.serve_any(trap);
        }
    }
}

fn rng_value(seed: u64) -> u32 {
    Rng::new(seed).next()
}
