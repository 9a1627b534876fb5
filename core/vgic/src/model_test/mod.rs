//! Random sequences of events of a VM's interrupts against a plain model of the architecture: every
//! interrupt a struct, every rule one line, no list registers. A simulated CPU interface
//! acknowledges and ends interrupts in the list registers as hardware does.

mod check;
mod cpu;
mod guest;
mod lockstep;
mod world;

use hanok_types::GicVersion;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;
use world::World;

const SGIS: [u32; 2] = [1, 2];
const PPIS: [u32; 2] = [20, 27];
const SPIS: [u32; 7] = [33, 40, 48, 64, 70, 95, 287];
/// The interrupts with a physical one behind them.
const HARDWARE: [u32; 2] = [27, 64];
const CPUS: usize = 3;

/// An event.
#[derive(Clone, Debug)]
enum ModelEvent {
    Enable(usize, u32, bool),
    Pend(usize, u32, bool),
    Activate(usize, u32, bool),
    Priority(usize, u32, u8),
    Group(usize, u32, bool),
    Edge(u32, bool),
    /// An SGI to the vCPUs of this set.
    Route(u32, u8),
    Groups(bool, bool),
    Line(usize, u32, bool),
    Pulse(usize, u32),
    PhysicalLine(usize, u32, bool),
    Sgi(usize, u16, u32),
    /// GICv2: GICD_SPENDSGIR or GICD_CPENDSGIR.
    Senders(usize, u32, u8, bool),
    Acknowledge(usize),
    End(usize),
    Deactivate(usize, usize),
    Leave(usize),
    /// The vCPU leaves its pCPU, and another one enters there.
    Out(usize),
    In(usize),
    BringUpToDate(usize),
    Fold(usize),
    LookAhead(usize),
    ReadAll,
}

fn ids() -> Vec<u32> {
    [&SGIS[..], &PPIS[..], &SPIS[..]].concat()
}

fn any_id() -> impl Strategy<Value = u32> {
    proptest::sample::select(ids())
}

fn line_id() -> impl Strategy<Value = u32> {
    proptest::sample::select([&PPIS[..1], &[33, 40, 48, 70, 95, 287]].concat())
}

fn step() -> impl Strategy<Value = ModelEvent> {
    let cpu = 0..CPUS;
    let spi = proptest::sample::select(SPIS.to_vec());
    let hardware = proptest::sample::select(HARDWARE.to_vec());
    prop_oneof![
        2 => (cpu.clone(), any_id(), any::<bool>()).prop_map(|(c, i, b)| ModelEvent::Enable(c, i, b)),
        2 => (cpu.clone(), any_id(), any::<bool>()).prop_map(|(c, i, b)| ModelEvent::Pend(c, i, b)),
        1 => (cpu.clone(), any_id(), any::<bool>()).prop_map(|(c, i, b)| ModelEvent::Activate(c, i, b)),
        1 => (cpu.clone(), any_id(), any::<u8>()).prop_map(|(c, i, p)| ModelEvent::Priority(c, i, p)),
        1 => (cpu.clone(), any_id(), any::<bool>()).prop_map(|(c, i, b)| ModelEvent::Group(c, i, b)),
        1 => (spi.clone(), any::<bool>()).prop_map(|(i, b)| ModelEvent::Edge(i, b)),
        1 => (spi, 1..8u8).prop_map(|(i, t)| ModelEvent::Route(i, t)),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(a, b)| ModelEvent::Groups(a, b)),
        1 => Just(ModelEvent::Groups(true, true)),
        8 => (cpu.clone(), line_id(), any::<bool>()).prop_map(|(c, i, b)| ModelEvent::Line(c, i, b)),
        5 => (cpu.clone(), line_id()).prop_map(|(c, i)| ModelEvent::Pulse(c, i)),
        6 => (cpu.clone(), hardware, any::<bool>())
            .prop_map(|(c, i, b)| ModelEvent::PhysicalLine(c, i, b)),
        5 => (cpu.clone(), any::<u16>(), 1..3u32).prop_map(|(c, t, i)| ModelEvent::Sgi(c, t, i)),
        12 => cpu.clone().prop_map(ModelEvent::Acknowledge),
        10 => cpu.clone().prop_map(ModelEvent::End),
        5 => (cpu.clone(), any::<usize>()).prop_map(|(c, n)| ModelEvent::Deactivate(c, n)),
        1 => (cpu.clone(), 1..3u32, any::<u8>(), any::<bool>())
            .prop_map(|(c, i, t, b)| ModelEvent::Senders(c, i, t & 7, b)),
        1 => cpu.clone().prop_map(ModelEvent::Leave),
        2 => cpu.clone().prop_map(ModelEvent::Out),
        4 => cpu.clone().prop_map(ModelEvent::In),
        1 => cpu.clone().prop_map(ModelEvent::Fold),
        1 => cpu.clone().prop_map(ModelEvent::LookAhead),
        3 => cpu.prop_map(ModelEvent::BringUpToDate),
        1 => Just(ModelEvent::ReadAll),
    ]
}

fn version() -> impl Strategy<Value = GicVersion> {
    prop_oneof![Just(GicVersion::V2), Just(GicVersion::V3)]
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn lives_like_the_architecture_s_model(
        version in version(),
        count in 1..=16usize,
        few in any::<bool>(),
        split in any::<bool>(),
        short_path in any::<bool>(),
        folds in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let count = if few { count.min(4) } else { count };
        let mut world = World::new(version, count, split, true, short_path);
        world.folds = folds;
        for step in steps {
            world.step(step);
        }
        world.drain();
    }

    #[test]
    fn nothing_is_lost_when_kicks_come_late(
        version in version(),
        count in 1..=4usize,
        split in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let mut world = World::new(version, count, split, false, true);
        for step in steps {
            world.step(step);
        }
        world.drain();
    }
}
