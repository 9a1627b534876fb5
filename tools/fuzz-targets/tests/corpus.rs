//! Each target over its seeds and 20,000 damaged ones, the same on every run.
//! `FUZZ_CASES` sets another number, `FUZZ_SEED` another start.

use hanok_fuzz_targets::mutate::{Random, damaged};
use hanok_fuzz_targets::{TARGETS, Target};

const CASES: u64 = 20_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn run(name: &str) {
    let target: Target = *TARGETS.iter().find(|target| target.name == name).expect("a target");
    let seeds = (target.seeds)();
    seeds.iter().for_each(|seed| (target.run)(seed));
    let mut random = Random::new(setting("FUZZ_SEED", 0));
    for case in 0..setting("FUZZ_CASES", CASES) {
        let input = damaged(&seeds, &mut random);
        let outcome = std::panic::catch_unwind(|| (target.run)(&input));
        if let Err(panic) = outcome {
            eprintln!("{name}, case {case}: {input:02x?}");
            std::panic::resume_unwind(panic);
        }
    }
}

macro_rules! tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*

        #[test]
        fn every_target_is_tested() {
            let names = TARGETS.map(|target| target.name);
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

tests! {
    system_tree board_tree guest_tree description board_file kernel_image hypervisor_binary
    syndrome load_store vgic pl011 pl031 bus paging memory console
}
