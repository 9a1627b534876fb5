//! Changes without a terminal, of a board that is none: how each of them ends, and what the board has then.

use std::time::Duration;

use hanok_base::exit::{Code, Failure};
use hanok_system::Schedule;
use hanok_top::apply::{self, Until, Wanted};
use hanok_top::asked::Asked;
use hanok_top::change::Promised;
use hanok_top::fake::{self, FakeBoard, Manner};
use hanok_top::state::{Shared, State};

/// A board that is watched, and the description of its system.
struct World {
    shared: Shared,
    description: Schedule,
}

impl World {
    fn new(manner: Manner) -> Self {
        Self {
            shared: FakeBoard::new(manner).watched("x", Duration::from_millis(50)),
            description: fake::description(),
        }
    }

    fn ask(&self, text: &str, until: Until) -> Result<(), Failure> {
        let asked = Asked::parse(text).unwrap();
        apply::run(
            &self.shared,
            Some(&self.description),
            &Wanted { asked, until },
        )
    }

    /// How a change ends that is not made.
    fn no(&self, text: &str, until: Until) -> (Code, String) {
        let failure = self.ask(text, until).unwrap_err();
        (failure.code, failure.error.to_string())
    }

    /// What a vCPU is promised by a report that was asked for after this.
    fn promised(&self, name: &str) -> String {
        let known = self.shared.lock().view.ticks;
        let later =
            |than: u64| move |state: &State| (state.view.ticks > than).then_some(state.view.ticks);
        let wait = |than| {
            self.shared
                .wait(Duration::from_secs(60), later(than))
                .unwrap()
        };
        // The next one may have been asked for before.
        wait(wait(known));
        let state = self.shared.lock();
        let vcpu = state.view.vcpus.iter().find(|vcpu| vcpu.name == name);
        Promised::of(vcpu.unwrap()).unwrap().words()
    }
}

#[test]
fn what_is_granted_is_in_force() {
    let world = World::new(Manner::Good);
    world.ask("axes budget=2ms", Until::Preview).unwrap();
    assert_eq!(world.promised("axes"), "1ms in 5ms", "only looked at");
    world.ask("axes budget=2ms", Until::Change).unwrap();
    assert_eq!(world.promised("axes"), "2ms in 5ms");
    world.ask("web weight=100 cap=7", Until::Change).unwrap();
    assert_eq!(world.promised("web"), "weight 100, cap 7 %");
}

#[test]
fn what_is_refused_changes_nothing_and_says_why() {
    let world = World::new(Manner::Good);
    for until in [Until::Change, Until::Preview] {
        let (code, why) = world.no("axes budget=500us", until);
        assert_eq!(code, Code::Refused, "{why}");
        assert!(why.contains("of axes misses"), "{why}");
    }
    let (code, why) = world.no("axes budget=4.9ms", Until::Anyway);
    assert_eq!(code, Code::Denied, "{why}");
    assert!(why.contains("axes: the board says no: "), "{why}");
    assert_eq!(world.promised("axes"), "1ms in 5ms");
    for wrong in ["nobody budget=2ms", "axes weight=5", "axes budget=6ms"] {
        let (code, why) = world.no(wrong, Until::Anyway);
        assert_eq!(code, Code::Usage, "{wrong}: {why}");
    }
    // The analysis has no say where a person wants it so.
    world.ask("axes budget=500us", Until::Anyway).unwrap();
    assert_eq!(world.promised("axes"), "500us in 5ms");
}

#[test]
fn no_answer_is_neither_a_yes_nor_a_no() {
    let (code, why) = World::new(Manner::Mute).no("axes budget=2ms", Until::Change);
    assert_eq!(code, Code::Timeout, "{why}");
    assert!(why.contains("look whether it has changed"), "{why}");
    let (code, why) = World::new(Manner::Old).no("axes budget=2ms", Until::Change);
    assert_eq!(code, Code::Timeout, "{why}");
    assert!(
        why.contains("does not answer on the report channel"),
        "{why}"
    );
}
