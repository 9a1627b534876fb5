//! Runs each target over its seeds and thousands of damaged ones, the same on every run: as many as
//! fit a few seconds of a build without optimization. `FUZZ_CASES` sets another number, `FUZZ_SEED`
//! another first seed.

use hanok_fuzz_targets::mutate::{Random, damaged};
use hanok_fuzz_targets::{TARGETS, Target};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn run(name: &str, cases: u64) {
    let target: Target = *TARGETS
        .iter()
        .find(|target| target.name == name)
        .expect("a target");
    let seeds = (target.seeds)();
    seeds.iter().for_each(|seed| (target.run)(seed));
    let mut random = Random::new(setting("FUZZ_SEED", 0));
    for case in 0..setting("FUZZ_CASES", cases) {
        let input = damaged(&seeds, &mut random);
        let outcome = std::panic::catch_unwind(|| (target.run)(&input));
        if let Err(panic) = outcome {
            eprintln!("{name}, case {case}: {input:02x?}");
            std::panic::resume_unwind(panic);
        }
    }
}

macro_rules! tests {
    ($($name:ident $cases:literal)*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name), $cases);
        })*

        #[test]
        fn every_target_is_tested() {
            let names = TARGETS.map(|target| target.name);
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

tests! {
    system_tree 20_000
    board_tree 10_000
    guest_tree 2_000
    description 20_000
    schedule 5_000
    board_file 20_000
    kernel_image 10_000
    hypervisor_binary 5_000
    syndrome 20_000
    load_store 20_000
    aarch32 10_000
    vgic 20_000
    pl011 20_000
    pl031 20_000
    bus 20_000
    virtio 20_000
    back_end 20_000
    paging 300
    memory 20_000
    exits 2_000
    console 1_000
    apt_sources 20_000
    apt_packages 20_000
    run_script 20_000
    scenario 2_000
    demultiplexer 20_000
    previrt_file 300
    previrt_side 5_000
    previrt_unpack 5_000
}
