//! Changes of admitted VMs while the board runs. Whatever the board answers, nobody is to miss a deadline: what is
//! granted gives the VM no less than it had, and a refusal changes nothing.

use hanok_random_systems::random::Random;
use hanok_random_systems::system::{Server, System};

/// A VM, its vCPU, and the period, budget and deadline in nanoseconds that it is to have: in even rounds a VM with tasks,
/// or the spread one, is to have another interface than the description's, and in odd ones that again.
pub fn promised(system: &System, seed: u64, round: usize) -> (usize, usize, [u64; 3]) {
    let mut random = Random::new(seed.wrapping_add(round as u64 / 2));
    let tasks = system.vms.len() - 1;
    let to_spread = system.spread.as_ref().filter(|_| random.chance(1, 4));
    let (vm, vcpu, server) = match to_spread {
        Some(spread) => {
            let vcpu = random.below(system.cores.len() as u64);
            (tasks + 1, vcpu, &spread.server)
        }
        None => {
            let vm = random.below(tasks as u64) as usize;
            (vm, 0, &system.vms[vm].server)
        }
    };
    let wanted = another(server, &mut random);
    let [period, budget, deadline] = if round.is_multiple_of(2) {
        wanted
    } else {
        given(server)
    };
    let times = [period, budget, deadline].map(|time| time * 1_000);
    (vm, vcpu as usize, times)
}

/// Period, budget and deadline of the description, in microseconds.
fn given(server: &Server) -> [u64; 3] {
    let budget = server.budget.unwrap_or(0);
    let deadline = server.deadline.unwrap_or(server.period);
    [server.period, budget, deadline]
}

/// Another interface that supplies no less at any time: a larger budget; or half of it in half of the period, where the
/// deadline is the period.
fn another(server: &Server, random: &mut Random) -> [u64; 3] {
    let [period, budget, deadline] = given(server);
    if deadline == period && random.chance(1, 2) {
        // A period of whole halves, so that none is later than the old one's end.
        let half = period / 2;
        return [half, budget.div_ceil(2).min(half), half];
    }
    let more = budget + 1 + budget * random.from(1, 30) / 100;
    // In ticks of the board a budget is rounded up, and a deadline down: a budget that is the whole deadline is invalid.
    let most = deadline.saturating_sub(1).max(budget);
    [period, more.min(most), deadline]
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanok_random_systems::system::{Kind, Policy};

    #[test]
    fn what_is_wanted_is_no_less_than_what_was_given() {
        for seed in 0..1_000 {
            let mut random = Random::new(seed);
            let period = random.from(10, 5_000);
            let budget = random.from(1, period);
            let deadline = random.from(budget, period);
            let server = Server {
                home: None,
                core: 0,
                kind: Kind::Periodic,
                period,
                budget: Some(budget),
                deadline: Some(deadline),
                window: "period",
                priority: 0,
                policy: Policy::Edf,
            };
            let [other_period, other_budget, other_deadline] = another(&server, &mut random);
            assert!(other_budget <= other_deadline && other_deadline <= other_period);
            assert!(other_period <= period && other_deadline <= deadline);
            assert!(other_budget * period >= budget * other_period);
        }
    }
}
