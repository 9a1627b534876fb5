//! Counts the instructions of a question for another interface beside a hundred servers, in the pieces in which the
//! hypervisor answers it.

use crate::{Costs, Random, counter};
use hanok_sched::admission::{Progress, Refusal, SizedQuestion, Terms};
use hanok_sched::{Interface, Kind, Order, Reservation};

/// More than a home has on the board, where 64 fit.
const SERVERS: usize = 100;

/// The number of servers that are added in a piece, as in `core/sched/src/asking.rs`.
const FEW: usize = 3;

/// Milliseconds in ticks of a counter of 62.5 MHz, as QEMU's board has it.
const MS: u64 = 62_500;

/// The number of questions of each kind, each about another set.
const QUESTIONS: usize = 20;

type Servers = [Reservation; SERVERS];

/// How the servers of a set come about.
struct Shape {
    name: &'static str,
    order: Order,
    /// Of the periods.
    periods: fn(&mut Random) -> u64,
    /// The earliest deadlines, in percent of the period.
    earliest: u64,
    /// What the servers get together, in thousandths of what they get their time from.
    load: u64,
    supply: Option<(u64, u64)>,
}

const WIDE: fn(&mut Random) -> u64 = |random| (1_000 + random.below(99_000)) * MS / 1_000;
const NEAR: fn(&mut Random) -> u64 = |random| (8_000 + random.below(8_000)) * MS / 1_000;
const HARMONIC: fn(&mut Random) -> u64 = |random| MS << random.below(8);

const SHAPES: [Shape; 9] = [
    shape("edf-periods", Order::EarliestDeadline, WIDE, 100, 998),
    shape("edf-deadlines", Order::EarliestDeadline, WIDE, 60, 990),
    shape("edf-near", Order::EarliestDeadline, NEAR, 70, 999),
    shape("edf-harmonic", Order::EarliestDeadline, HARMONIC, 80, 1_000),
    Shape {
        supply: Some((2 * MS, 9 * MS / 10)),
        ..shape("edf-group", Order::EarliestDeadline, WIDE, 90, 900)
    },
    shape("rm-wide", Order::Priority, WIDE, 100, 780),
    shape("rm-near", Order::Priority, NEAR, 100, 700),
    shape("rm-harmonic", Order::Priority, HARMONIC, 100, 1_000),
    Shape {
        supply: Some((2 * MS, 9 * MS / 10)),
        ..shape("rm-group", Order::Priority, WIDE, 100, 700)
    },
];

const fn shape(
    name: &'static str,
    order: Order,
    periods: fn(&mut Random) -> u64,
    earliest: u64,
    load: u64,
) -> Shape {
    Shape {
        name,
        order,
        periods,
        earliest,
        load,
        supply: None,
    }
}

pub fn measure() {
    let (mut all, mut pieces) = (Costs::default(), Costs::default());
    let mut question = SizedQuestion::none();
    for shape in &SHAPES {
        let (mut costs, mut yes, mut late, mut other) = (Costs::default(), 0, 0, 0);
        let mut longest = 0;
        let mut random = Random(0x5eed);
        for _ in 0..QUESTIONS {
            let Some(servers) = shape.servers(&mut random) else {
                println!("FAIL sched: a server of {} makes no sense", shape.name);
                return;
            };
            // Beside the others, with little more and with much more than it has.
            let asker = random.below(SERVERS as u64) as usize;
            for more in [1, 50] {
                let mut cost = 0;
                match shape.ask(&mut question, &servers, asker, more, |piece| {
                    pieces.add(piece);
                    longest = longest.max(piece);
                    cost += piece;
                }) {
                    Ok(()) => yes += 1,
                    Err(Refusal::Late(_) | Refusal::Overload) => late += 1,
                    Err(_) => other += 1,
                }
                costs.add(cost);
                all.add(cost);
            }
        }
        let (name, mean, most) = (shape.name, costs.mean(), costs.most);
        println!(
            "sched-info: {name}: {yes} yes, {late} late, {other} other; mean {mean}, most {most}, a piece {longest}"
        );
    }
    println!("sched: question-100 mean {}", all.mean());
    println!("sched: question-100 most {}", all.most);
    println!("sched: question-piece most {}", pieces.most);
}

impl Shape {
    /// Servers that share the load by random weights; `None` if one makes no sense.
    fn servers(&self, random: &mut Random) -> Option<Servers> {
        let weights: [u64; SERVERS] = core::array::from_fn(|_| 50 + random.below(100));
        let all: u64 = weights.iter().sum();
        let (of, there) = self.supply.unwrap_or((1, 1));
        let mut servers = [Reservation {
            kind: Kind::Periodic,
            interface: Interface::periodic(1, 1).ok()?,
            priority: 0,
        }; SERVERS];
        for (server, weight) in servers.iter_mut().zip(weights) {
            let period = (self.periods)(random);
            let share = u128::from(period * there) * u128::from(weight * self.load);
            let budget = u64::try_from(share / u128::from(all * 1_000 * of)).ok()?;
            let early = period * (100 - self.earliest) / 100;
            let deadline = period - random.below(early + 1);
            server.interface = Interface::new(period, budget.max(1), deadline).ok()?;
            server.priority = deadline;
        }
        Some(servers)
    }

    /// Asks for so many percent more for one of the servers; tells `counted` what each piece costs.
    fn ask(
        &self,
        question: &mut SizedQuestion<SERVERS>,
        servers: &Servers,
        asker: usize,
        more: u64,
        mut counted: impl FnMut(u64),
    ) -> Result<(), Refusal> {
        let supply = self.supply.map(|(period, budget)| {
            let interface = Interface::periodic(period, budget);
            interface.map(|interface| (interface, Kind::Periodic))
        });
        let terms = Terms {
            order: self.order,
            supply: supply.transpose()?,
            cost: 0,
        };
        let (begun, cost) = counter::count(|| question.begin(terms));
        counted(cost);
        begun?;
        for (chunk, few) in servers.chunks(FEW).enumerate() {
            let (added, cost) = counter::count(|| {
                (chunk * FEW..).zip(few).try_for_each(|(index, server)| {
                    if index != asker {
                        return question.add(*server);
                    }
                    let old = server.interface;
                    let budget = old.budget() + old.budget() * more / 100;
                    let wanted = Interface::new(old.period(), budget, old.deadline())?;
                    question.add_changed(*server, wanted)
                })
            });
            counted(cost);
            added?;
        }
        loop {
            let (progress, cost) = counter::count(|| question.step());
            counted(cost);
            match progress {
                Progress::More => {}
                Progress::Yes => return Ok(()),
                Progress::No(refusal) => return Err(refusal),
            }
        }
    }
}
