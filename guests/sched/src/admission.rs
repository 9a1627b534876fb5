//! Counts the instructions of admitting one more task among a hundred components.

use crate::{Costs, Random, counter};
use hanok_sched::admission::{Change, Demand, Ledger, Plan, Refusal, Window, Work};
use hanok_sched::{Kind, Order};
use spin::Mutex;

const COMPONENTS: usize = 100;
/// The largest number of tasks of a component: ten, and one more.
const TASKS: usize = 11;
type Core = Mutex<Ledger<COMPONENTS, TASKS>>;

static EDF: Core = Mutex::new(Ledger::new(Order::EarliestDeadline));
static FIXED: Core = Mutex::new(Ledger::new(Order::Priority));

/// Milliseconds in ticks of a counter of 62.5 MHz, as QEMU's board has it.
const MS: u64 = 62_500;

/// The largest number of steps for one answer.
const WORK: u32 = 35_000;

pub fn measure() {
    run("edf", Order::EarliestDeadline, &mut EDF.lock());
    run("fixed", Order::Priority, &mut FIXED.lock());
}

/// A thousand tasks, and then one more for each component in turn.
fn run(name: &str, order: Order, ledger: &mut Ledger<COMPONENTS, TASKS>) {
    let mut random = Random(0x5eed);
    for component in 0..COMPONENTS {
        if let Err(why) = fill(&mut random, order, ledger, component) {
            println!("FAIL sched: component {component} is refused: {why}");
            return;
        }
    }
    let (mut costs, mut refused, mut larger) = (Costs::default(), 0, 0);
    for component in 0..COMPONENTS {
        for _ in 0..5 {
            let change = Change::Task {
                place: TASKS - 1,
                demand: task(&mut random, 1_000),
            };
            let mut work = Work::new(WORK);
            let (answer, cost) = counter::count(|| ledger.check(component, change, &mut work));
            costs.add(cost);
            refused += u32::from(answer.is_err());
            larger += u32::from(answer.is_ok_and(|admitted| !admitted.exact));
        }
    }
    println!(
        "sched-info: {name}: {} tasks checked, {refused} refused, {larger} with more than the least",
        costs.number
    );
    println!("sched: admission-{name} mean {}", costs.mean());
    println!("sched: admission-{name} most {}", costs.most);
}

/// A component of ten tasks, one after the other.
fn fill(
    random: &mut Random,
    order: Order,
    ledger: &mut Ledger<COMPONENTS, TASKS>,
    component: usize,
) -> Result<(), Refusal> {
    let period = MS * [1, 2, 5, 10][random.below(4) as usize];
    let window = match component % 2 {
        0 => Window::Period,
        _ => Window::Deadline(period / 2),
    };
    let change = Change::Component {
        plan: Plan { period, window },
        order,
        kind: Kind::Periodic,
        priority: period,
    };
    ledger.admit(component, change, &mut Work::new(WORK))?;
    for place in 0..TASKS - 1 {
        let demand = task(random, 2_500);
        let change = Change::Task { place, demand };
        ledger.admit(component, change, &mut Work::new(WORK))?;
    }
    Ok(())
}

/// A task that needs about 1/`part` of a CPU: its period is from 50 ms to a second, in steps of
/// half a millisecond; often its deadline is earlier, and it has some jitter.
fn task(random: &mut Random, part: u64) -> Demand {
    let period = (100 + random.below(1900)) * MS / 2;
    let execution = 1 + random.below(2 * period / part);
    let deadline = period - random.below(period / 4);
    let jitter = random.below(period / 20);
    match Demand::new(period, execution, deadline, jitter, deadline) {
        Ok(demand) => demand,
        Err(_) => Demand::NONE,
    }
}
