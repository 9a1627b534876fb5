//! Finds when the servers of a core began: all begin their first periods together.
//!
//! The board names ends of periods: a change of an interface, to the very same one as well, takes effect at one. So
//! each answer tells the start modulo that server's period, and together they tell it modulo a common multiple.
//! Where that is large, one instant alone is early enough. Else all periods have to divide it, and no more has to be
//! known: a server that nothing has happened to for a period is, at any of its periods' starts, as it was at the first.

use anyhow::{Context, Result, ensure};

const DIFFER: &str = "the board's periods do not begin together";

/// An instant, not after `latest`, at which all servers began a period.
///
/// Each of `boundaries` is a period and an end of it. `periods` are those of all servers of the core.
///
/// # Errors
/// The boundaries contradict one another, or do not tell enough for one of the periods.
pub fn start(boundaries: &[(u64, u64)], periods: &[u64], latest: u64) -> Result<u64> {
    ensure!(
        !boundaries.is_empty(),
        "no end of a server's period is known: ask for a change to the same interface"
    );
    let (mut at, mut common) = (0_u64, 1_u64);
    for (period, boundary) in boundaries {
        ensure!(*period > 0, "a period of nothing");
        let wanted = boundary % period;
        if common > latest {
            ensure!(at % period == wanted, DIFFER);
            continue;
        }
        // One of the first `period` instants that suit what is known has the wanted remainder, or none does.
        let steps = period / gcd(common, *period);
        let found = (0..steps).find(|step| (at + step * common) % period == wanted);
        let found = found.context(DIFFER)?;
        at += found * common;
        common = common
            .checked_mul(steps)
            .context("the periods' common multiple is too large")?;
    }
    ensure!(at <= latest, "all began at {at}, which is after {latest}");
    if latest - at < common {
        return Ok(at);
    }
    for period in periods {
        ensure!(
            common % period == 0,
            "when periods of {period} ticks begin is not known"
        );
    }
    Ok(latest - (latest - at) % common)
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a.max(1),
        b => gcd(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_found_as_far_as_it_matters() {
        // Periods of 4, 6 and 10 that began at 7.
        let said = [(4, 7 + 8), (6, 7 + 6), (10, 7 + 30)];
        assert_eq!(start(&said, &[4, 6, 10, 20], 66).unwrap(), 7);
        assert_eq!(start(&said, &[60], 67).unwrap(), 67);
        assert_eq!(start(&said[..1], &[4, 2], 20).unwrap(), 19);
        // 60 more would be too late.
        assert_eq!(start(&said, &[7], 66).unwrap(), 7);
        let more = [&said[..], &[(7, 7 + 14)]].concat();
        assert_eq!(start(&more, &[11], 66).unwrap(), 7);
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        assert!(start(&[], &[4], 10).is_err());
        assert!(start(&[(4, 15)], &[4, 6], 30).is_err());
        // 3 modulo 4 is odd, 2 modulo 6 is even.
        assert!(start(&[(4, 15), (6, 14)], &[4, 6], 30).is_err());
        assert!(start(&[(10, 37)], &[10], 6).is_err());
        assert!(start(&[(10, 37), (10, 38)], &[10], 20).is_err());
        assert!(start(&[(10, 37), (6, 14)], &[10], 8).is_err());
    }
}
