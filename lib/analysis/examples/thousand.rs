//! How long a large model takes: 1,000 tasks in 100 components, in groups of ten on eight
//! cores.
//!
//! `cargo run --release -p hanok-analysis --example thousand`

use hanok_analysis::{Verdict, analyse};
use hanok_certificate_checker::check;
use hanok_task_model::{
    Component, CoreId, Home, Model, Nanos, Periods, Plan, Policy, Pool, PoolId, Task, Window,
};
use std::time::{Duration, Instant};

/// How many models are tried.
const MODELS: u64 = 20;

fn main() {
    let (mut slowest, mut slowest_check, mut admitted) = (Duration::ZERO, Duration::ZERO, 0);
    for seed in 1..=MODELS {
        let model = model(seed);
        let began = Instant::now();
        let analysis = match analyse(&model) {
            Ok(analysis) => analysis,
            Err(faults) => panic!("{faults:?}"),
        };
        let took = began.elapsed();
        slowest = slowest.max(took);
        let proven = |verdict: &&Verdict<_>| matches!(verdict, Verdict::Proven(_));
        let proven = analysis.components.iter().filter(proven).count();
        let mut line = format!("model {seed}: {took:?}, {proven} components proven");
        if let Some(certificate) = analysis.certificate() {
            let began = Instant::now();
            let believed = check(&model, &certificate);
            slowest_check = slowest_check.max(began.elapsed());
            admitted += u32::from(believed.is_ok());
            line += &format!(
                ", certificate checked in {:?}: {believed:?}",
                began.elapsed()
            );
        }
        println!("{line}");
    }
    println!(
        "slowest of {MODELS}: analysis {slowest:?}, checker {slowest_check:?}; {admitted} admitted"
    );
}

/// Ten groups with nine VMs each, ten more VMs; ten tasks in each VM, periods from 10 ms to 1 s
/// in steps of 1 us, together some 30 % of eight cores.
fn model(seed: u64) -> Model {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut below = move |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % bound
    };
    let pools = vec![Pool::new("all", (0..8).map(CoreId))];
    let mut model = Model::new(Nanos::from_micros(1), pools);
    model.cost.switch = Nanos::from_micros(2);
    let find = |millis| Plan::Find {
        periods: Periods::One(Nanos::from_millis(millis)),
        window: Window::Period,
    };
    let root = Home::Pool(PoolId(0));
    let mut homes = vec![root; 10];
    for group in 0..10 {
        let id = model.add(Component::new(format!("group-{group}"), root, find(2)));
        homes.extend([Home::Component(id); 9]);
    }
    for (index, home) in homes.into_iter().enumerate() {
        let mut component = Component::new(format!("vm-{index}"), home, find(4));
        component.policy = [Policy::Edf, Policy::RateMonotonic][index % 2];
        let id = model.add(component);
        for task in 0..10 {
            let period = 10_000 + below(990_000);
            let execution = period / 2_000 + below(period / 500);
            let mut task = Task::new(
                format!("task-{task}"),
                id,
                Nanos::from_micros(period),
                Nanos::from_micros(execution),
            );
            task.deadline = Nanos::from_micros(period - below(period / 4));
            model.add_task(task);
        }
    }
    model
}
