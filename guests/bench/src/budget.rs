//! Measures what the vCPU has of its CPU in each period of its budget, by reading the counter all the while.

use crate::measure::{frequency, not_here};
use hanok_bench_plan::{Figure, Least, Periods, Said, Spread};
use hanok_guest_runtime::{gic, mmio, timer};
use hanok_schedule::{Hvc, Item, Vcpu};

/// Two readings of the counter that are further apart, in nanoseconds, have somebody else's work between them: the
/// loop below is some twenty instructions.
const OWN_NS: u64 = 100;
/// The same where there is an exit between two readings, which takes less than 5,000 instructions.
const EXIT_NS: u64 = 20_000;
/// How often the time of a question is taken.
const TRIES: u32 = 16;

/// The vCPU does nothing else.
pub fn quiet(periods: u32) {
    measure(Figure::Budget, periods, OWN_NS, || {});
}

/// It makes the hypervisor look at 32 interrupts again and again.
pub fn with_exits(periods: u32) {
    let active = gic::distributor() + gic::ISACTIVER + 4;
    let mut value = 0;
    let inactive = gic::ICACTIVER - gic::ISACTIVER;
    measure(Figure::BudgetExits, periods, EXIT_NS, || {
        // By turns, so that each changes all.
        value ^= inactive;
        mmio::write32(active + value, u32::MAX);
    });
}

fn measure(figure: Figure, wanted: u32, own: u64, mut between: impl FnMut()) {
    let mut vcpu = Vcpu::new(Hvc);
    let Ok(interface) = vcpu.interface() else {
        return not_here(figure, "no budget");
    };
    let own = frequency() * own / 1_000_000_000;
    let mut ask = || match (vcpu.read(Item::Left), vcpu.read(Item::Used)) {
        (Ok(left), Ok(used)) => Said { left, used },
        _ => Said { left: 0, used: 0 },
    };
    let mut tried = Periods::new(interface.budget, frequency(), 0);
    let usual = (0..TRIES).map(|_| {
        let before = timer::now();
        tried.piece(0, before, &mut ask);
        timer::now() - before
    });
    let usual = usual.collect::<Least>().get().unwrap_or(0);
    // A question that takes longer had somebody else's work in it.
    let longest = usual + usual / 2 + frequency() * OWN_NS / 1_000_000_000;
    let mut periods = Periods::new(interface.budget, frequency(), ask().left);
    let mut last = timer::now();
    while periods.count() < u64::from(wanted) {
        between();
        let now = timer::now();
        if now - last <= own {
            last = now;
            continue;
        }
        periods.piece(last, now, &mut ask);
        let mut asked = now;
        loop {
            last = timer::now();
            if last - asked <= longest {
                break;
            }
            // In the question another piece has ended.
            periods.doubt();
            periods.piece(asked, last, &mut ask);
            asked = last;
        }
    }
    print(figure, &periods);
    println!("bench: {}-promised {} ns", figure.name(), interface.budget);
    println!("bench: {}-period {} ns", figure.name(), interface.period);
}

fn print(figure: Figure, periods: &Periods) {
    let name = figure.name();
    for (value, what) in [
        (periods.count(), "periods"),
        (periods.doubtful, "doubtful"),
        (periods.length(), "length"),
    ] {
        println!("bench: {name}-{what} {value}");
    }
    println!("bench: {name}-used {} ns", periods.used());
    for (spread, what) in [(&periods.got, "got"), (&periods.spent, "spent")] {
        let Spread { least, most, .. } = spread;
        println!("bench: {name}-{what}-least {least} ns");
        println!("bench: {name}-{what}-mean {} ns", spread.mean());
        println!("bench: {name}-{what}-most {most} ns");
    }
}
