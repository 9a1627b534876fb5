//! What a core of a partitioned pool is told, and that the others are not.

use super::*;
use crate::noted::{Noted, Told};

#[test]
fn each_core_is_told_what_is_its_own() {
    let mut pool = Partitioned::<_, N, 3>::new([0; 3].map(|_| Noted::<N>::new()));
    for index in 0..N {
        assert!(pool.place(entity(index), index % 3));
    }
    pool.wake(entity(4), 1);
    pool.block(entity(5), 2);
    pool.yield_now(entity(7), 3);
    pool.excuse(2, 4);
    pool.suspend(0, 5);
    pool.pick(1, 6);
    // Beyond the last core there is nobody to be told.
    pool.excuse(3, 7);
    pool.suspend(3, 7);
    let heard = [0, 1, 2].map(|core| pool.core(core).unwrap().heard());
    assert_eq!(heard[0], [Told::Suspend(5)]);
    let second = [Told::Wake(4, 1), Told::GiveWay(7, 3), Told::Pick(6)];
    assert_eq!(heard[1], second);
    assert_eq!(heard[2], [Told::Block(5, 2), Told::Excuse(4)]);
}

/// An event asks the core of the one that it is about, until that has been asked.
#[test]
fn each_event_asks_the_core_that_it_is_about() {
    let mut pool = Partitioned::<_, N, 3>::new([0; 3].map(|_| Noted::<N>::new()));
    for index in 0..3 {
        assert!(pool.place(entity(index), index));
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
