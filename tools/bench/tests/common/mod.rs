//! Made-up results, with everything in them that can be: each verdict, a spread, holes, a
//! side that failed, hostile text.

#![allow(dead_code, reason = "each test binary uses its part")]

use hanok_bench::{
    FIGURES, Failure, Figure, FunctionCost, Gic, Group, Machine, Operations, Profile, Results, Run,
    Side, Unit,
};

/// What must be escaped, or it becomes markup, ends an attribute, or breaks the parser.
pub const HOSTILE: &str = "</td><script>alert('1')</script> \"&amp;' ]]> \u{1b}[2J \u{0} é";

pub fn machine(gic: Gic) -> Machine {
    Machine {
        cpu: "cortex-a57".into(),
        gic,
        bits: 64,
        extensions: true,
        memory_mib: 256,
        qemu: "10.0.2".into(),
        kernel: "6.1.0-28-arm64".into(),
        lmbench: "3.0-a9".into(),
        peers: [(Side::Xen, "4.17.3".into()), (Side::Kvm, "6.1.0".into())].into(),
        settings: vec![
            "-icount shift=0,sleep=off".into(),
            "nokaslr kpti=off mitigations=off norandmaps".into(),
            "ENOUGH=2000 TIMING_O=0 LOOP_O=0, -P 1 -W 0 -N 3".into(),
        ],
    }
}

/// A value that differs by figure and is the same on every call.
fn noise(seed: usize) -> f64 {
    let mixed = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    mixed as f64 / (1u64 << 24) as f64 - 0.5
}

fn native(figure: &Figure, at: usize) -> f64 {
    match figure.unit {
        Unit::MegabytesPerSecond => 1600.0 + 700.0 * at as f64,
        Unit::Nanoseconds => 1.03,
        _ => 0.112 * 1.6_f64.powi(at as i32 - 9),
    }
}

fn lmbench(run: &mut Run, worse: f64) {
    for (at, figure) in FIGURES.iter().enumerate() {
        if figure.group != Group::Lmbench {
            continue;
        }
        let native = native(figure, at);
        let extra = if figure.id.starts_with("ctx") {
            0.05
        } else {
            0.0
        };
        for (side, cost) in [
            (Side::Native, 0.0),
            (Side::Hanok, 0.004 + worse + 0.01 * noise(at)),
            (Side::Xen, 0.01 + extra + 0.04 * noise(at + 50)),
            (Side::Kvm, extra + 0.03 * noise(at + 90)),
        ] {
            let value = match figure.unit {
                Unit::MegabytesPerSecond => native / (1.0 + cost),
                _ => native * (1.0 + cost),
            };
            run.add(figure.id, side, value).unwrap();
            let again = if at % 7 == 0 { value * 1.003 } else { value };
            run.add(figure.id, side, again).unwrap();
        }
    }
}

fn micro(run: &mut Run, worse: f64) {
    let rows: [(&str, Side, f64); 20] = [
        ("hypercall", Side::Hanok, 118.0 * (1.0 + worse)),
        ("hypercall", Side::Xen, 423.0),
        ("smccc-version", Side::Hanok, 131.0),
        ("smccc-version", Side::Xen, 459.0),
        ("smccc-version", Side::Kvm, 1542.0),
        ("gicd-read", Side::Native, 1.0),
        ("gicd-read", Side::Hanok, 262.5),
        ("gicd-read", Side::Xen, 596.0),
        ("gicd-read", Side::Kvm, 2336.0),
        ("timer-interrupt", Side::Native, 612.0),
        ("timer-interrupt", Side::Hanok, 791.0),
        ("timer-interrupt", Side::Xen, 2031.0),
        ("switch", Side::Hanok, 640.0),
        ("nanosleep", Side::Native, 5360.0),
        ("nanosleep", Side::Hanok, 5900.0),
        ("nanosleep", Side::Xen, 10_600.0),
        ("boot", Side::Native, 905e6),
        ("boot", Side::Hanok, 941e6),
        ("boot", Side::Xen, 1104e6),
        ("image", Side::Hanok, 198_344.0),
    ];
    for (figure, side, value) in rows {
        run.add(figure, side, value).unwrap();
        run.add(figure, side, value).unwrap();
    }
}

fn profile() -> Profile {
    let functions = [
        ("hanok_aarch64::vector::lower_sync", 52_000),
        (
            "hanok_vm::call::<impl hanok_vm::Machine<Gic>>::hypercall",
            31_000,
        ),
        (
            "<hanok_vgic::state::Vgic<8> as core::iter::Iterator>::next",
            16_000,
        ),
        ("hanok_aarch64::enter", 12_000),
        (HOSTILE, 4_000),
    ];
    Profile {
        figure: "hypercall".into(),
        rounds: 1000,
        total: 118_000,
        functions: functions
            .map(|(name, instructions)| FunctionCost {
                name: name.into(),
                instructions,
            })
            .into(),
    }
}

fn operations() -> Vec<Operations> {
    let of = |side, counts: &[(&str, u64)]| Operations {
        figure: "pipe".into(),
        side,
        of: "one".into(),
        times: 1000.0,
        hypervisor: if side == Side::Native { 0 } else { 300_000 },
        others: 1_000_000,
        counts: counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect(),
    };
    vec![
        of(
            Side::Native,
            &[("return", 4000), ("dacr", 8000), ("taken-call", 4000)],
        ),
        of(
            Side::Hanok,
            &[
                ("return", 9000),
                ("taken-call", 6000),
                ("tlb-address", 12),
                ("exit-fetch", 3),
                ("shadow-fill", 2),
                (HOSTILE, 1),
            ],
        ),
    ]
}

/// Results of `commit`, worse than the usual by the fraction `worse`.
pub fn results_of(commit: &str, date: &str, worse: f64) -> Results {
    let mut results = Results::new(commit);
    results.date = date.into();
    let mut first = Run::new(machine(Gic::V3));
    micro(&mut first, worse);
    lmbench(&mut first, worse);
    first.profiles.push(profile());
    first.operations = operations();
    let mut second = Run::new(machine(Gic::V2));
    lmbench(&mut second, worse);
    second
        .measurements
        .retain(|one| one.side != Side::Kvm && one.figure != "exec");
    second.failures.push(Failure {
        side: Side::Kvm,
        why: "no line \"bench: done\" within the limit".into(),
        console: vec!["[    0.000000] Linux version 6.1".into(), HOSTILE.into()],
    });
    results.runs = vec![first, second];
    results
}

pub fn results() -> Results {
    results_of(
        "3f2a9c41d07be68851d1a2c0ffee5eed00112233",
        "2026-11-22T03:00:00Z",
        0.0,
    )
}
