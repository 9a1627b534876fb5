//! A core of a partitioned pool receives its own calls, and no others.

use super::*;
use crate::recording::{PolicyCall, RecordingPolicy};

#[test]
fn each_core_receives_only_its_own_calls() {
    let mut pool = Partitioned::<_, N, 3>::new([0; 3].map(|_| RecordingPolicy::<N>::new()));
    for index in 0..N {
        assert_eq!(pool.place(entity(index), index % 3), Ok(()));
    }
    pool.wake(entity(4), 1);
    pool.block(entity(5), 2);
    pool.yield_now(entity(7), 3);
    pool.exempt_switch(2, 4);
    pool.suspend(0, 5);
    pool.pick(1, 6);
    // Beyond the last core there is no policy to call.
    pool.exempt_switch(3, 7);
    pool.suspend(3, 7);
    let take_calls = [0, 1, 2].map(|core| pool.core(core).unwrap().take_calls());
    assert_eq!(take_calls[0], [PolicyCall::Suspend(5)]);
    let second = [
        PolicyCall::Wake(4, 1),
        PolicyCall::Yield(7, 3),
        PolicyCall::Pick(6),
    ];
    assert_eq!(take_calls[1], second);
    assert_eq!(
        take_calls[2],
        [PolicyCall::Block(5, 2), PolicyCall::ExemptSwitch(4)]
    );
}

/// After an event the core of its entity is to be asked, until it has been.
#[test]
fn each_event_makes_the_core_of_its_entity_choose_again() {
    let mut pool = Partitioned::<_, N, 3>::new([0; 3].map(|_| RecordingPolicy::<N>::new()));
    for index in 0..3 {
        assert_eq!(pool.place(entity(index), index), Ok(()));
    }
    assert_eq!(pool.kick(), None);
    for index in 0..3 {
        pool.wake(entity(index), 0);
        assert_eq!(pool.kick(), Some(index));
        pool.pick(index, 0);
        assert_eq!(pool.kick(), None);
        pool.yield_now(entity(index), 1);
        assert_eq!(pool.kick(), Some(index));
        pool.pick((index + 1) % 3, 1);
        assert_eq!(pool.kick(), Some(index));
        pool.pick(index, 1);
        pool.block(entity(index), 2);
        assert_eq!(pool.kick(), Some(index));
        pool.pick(index, 2);
        assert_eq!(pool.kick(), None);
    }
}
