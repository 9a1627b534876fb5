//! Checks the competing work by hand, and the number of steps that one try may take.

use super::*;
use crate::search_tests::{loads, work};
use std::vec::Vec;

/// A member's earlier jobs run before the late job's release, even if they take longer than there
/// is time until then: 5 in 3 on two CPUs, whose late job runs in at most 4 instants.
#[test]
fn earlier_jobs_run_before_the_late_one() {
    let alone = loads(&[(3, 5, 3)]);
    for (t, before) in [(2, 0), (3, 0), (4, 1), (6, 3), (8, 5)] {
        assert_eq!(competing(&alone, 0, 2, t), 2 * 4 + 1 + before, "{t}");
    }
    // Beside it is a member whose two jobs until 6 need 6, but have only two instants.
    let both = loads(&[(3, 5, 3), (3, 3, 3)]);
    assert_eq!(competing(&both, 0, 2, 6), 2 * 4 + 1 + 3 + 2);
}

/// For many members the test examines each for each, twice: more steps than one try may take.
#[test]
fn one_try_does_not_take_all_that_is_left() {
    let many: Vec<_> = (0..600).map(|_| (1_000_000, 1, 1_000_000)).collect();
    let loads = loads(&many);
    let supply = Supply::parallel(1_000, 2_000, 2).unwrap();
    let mut all = work();
    let kept = test(&loads, 2, &supply, &mut all);
    assert!(matches!(kept, Ok(Outcome::Kept(_))));
    assert!(Work::TEST - all.left() > Work::TEST / 32);
    let mut all = work();
    let found = least(&loads, 2, (1_000, 1), &mut all);
    assert_eq!(found, Err(Undecided::TooLong));
    assert!(Work::TEST - all.left() <= Work::TEST / 32);
}
