//! Checks that the pCPUs' events of one run are consistent with what each event means.

use hanok_hal::fake::FakeBackend;
use hanok_trace::{Event, Source, recorded};
use std::collections::{BTreeMap, BTreeSet};

/// The state that the events so far imply.
#[derive(Default)]
struct Told {
    /// The vCPU whose state is in each pCPU.
    inside: BTreeMap<usize, (usize, usize)>,
    /// vCPUs that were started and have not stopped.
    started: BTreeSet<(usize, usize)>,
    /// vCPUs that have work.
    ready: BTreeSet<(usize, usize)>,
    /// The vCPU for which each pCPU has decided since it was idle.
    decided: BTreeMap<usize, (usize, usize)>,
}

/// Checks all events of a run.
pub(crate) fn check(backend: &FakeBackend) {
    let mut told = Told::default();
    let events = recorded(backend);
    assert!(!events.is_empty(), "something happened");
    for (cpu, source, event) in events {
        told.check(cpu, source, event);
    }
}

impl Told {
    fn check(&mut self, cpu: usize, source: Option<Source>, event: Event) {
        let what = format!("cpu {cpu}: {event:?} of {source:?}");
        let who = source.map(|source| (source.vm.index(), source.vcpu.index()));
        let vcpu = || who.unwrap_or_else(|| panic!("{what} is about a vCPU"));
        match event {
            Event::Interrupt(_) => assert_eq!(who, None, "{what}"),
            Event::Idle | Event::Spends => {
                self.decided.remove(&cpu);
            }
            Event::Start => assert!(self.started.insert(vcpu()), "{what}: twice"),
            Event::Stop => {
                assert!(self.started.remove(&vcpu()), "{what}: not started");
                self.inside.retain(|_, inside| *inside != vcpu());
            }
            Event::Wake => assert!(self.ready.insert(vcpu()), "{what}: twice"),
            Event::Block => assert!(self.ready.remove(&vcpu()), "{what}: it had no work"),
            Event::Decision { .. } => {
                assert!(self.ready.contains(&vcpu()), "{what}: it has no work");
                self.decided.insert(cpu, vcpu());
            }
            Event::SwitchIn => {
                assert!(self.started.contains(&vcpu()), "{what}: not started");
                assert_eq!(self.decided.get(&cpu), who.as_ref(), "{what}: not decided");
                let elsewhere = self.inside.values().any(|inside| *inside == vcpu());
                assert!(!elsewhere, "{what}: it is in a CPU");
                assert_eq!(self.inside.insert(cpu, vcpu()), None, "{what}: occupied");
            }
            Event::SwitchOut => assert_eq!(self.inside.remove(&cpu), who, "{what}"),
            Event::Exit { .. } | Event::Handled(_) | Event::Spent { .. } => {
                let started = self.started.contains(&vcpu()) || matches!(event, Event::Handled(_));
                assert!(started, "{what}: it was not started");
            }
        }
    }
}
