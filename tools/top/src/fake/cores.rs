//! The simulated cores: time in steps, each given to the vCPU with the earliest deadline that has budget
//! and work, else to one that has work alone.

use std::collections::VecDeque;

use super::FREQUENCY;

/// The length of a step: 50 us.
const STEP: u64 = FREQUENCY / 20_000;
/// The number of steps between two jobs of a vCPU.
const JOBS: u64 = 100;
/// The number of steps of a turn among those that have no budget.
const SLICE: u64 = 20;
/// The number of turns that a core remembers.
pub(super) const TURNS: usize = 64;

/// A turn: which vCPU, from when to when.
pub(super) type Turn = (Option<usize>, u64, u64);

/// A simulated vCPU.
#[derive(Clone, Debug)]
pub(super) struct FakeVcpu {
    pub vm: usize,
    pub vcpu: usize,
    pub cpu: usize,
    pub kind: &'static str,
    /// Period (or weight), budget (or cap), deadline, in ticks.
    pub promise: [u64; 3],
    /// How much of a CPU it wants, in thousandths.
    wants: u64,
    pub begins: u64,
    pub left: u64,
    backlog: u64,
    pub used: u64,
    pub extra: u64,
    pub throttled: u64,
    pub late: u64,
    pub switches: u64,
    pub stolen: u64,
    pub exits: [u64; 4],
    /// A change that waits for the next period.
    next: Option<[u64; 3]>,
    is_dry: bool,
}

impl FakeVcpu {
    fn new(place: [usize; 3], kind: &'static str, promise: [u64; 3], wants: u64) -> Self {
        let [vm, vcpu, cpu] = place;
        let is_server = !matches!(kind, "credit" | "turn");
        let promise = if is_server {
            promise.map(|micros| micros * (FREQUENCY / 100_000) / 10)
        } else {
            promise
        };
        Self {
            vm,
            vcpu,
            cpu,
            kind,
            promise,
            wants,
            begins: 0,
            left: if is_server { promise[1] } else { 0 },
            backlog: 0,
            used: 0,
            extra: 0,
            throttled: 0,
            late: 0,
            switches: 0,
            stolen: 0,
            exits: [0; 4],
            next: None,
            is_dry: false,
        }
    }

    pub(super) fn is_server(&self) -> bool {
        !matches!(self.kind, "credit" | "turn")
    }

    pub(super) fn has_work(&self) -> bool {
        self.backlog >= STEP
    }

    /// Begins new periods, and gets new work.
    fn pass(&mut self, now: u64, luck: u64) {
        // Work comes as jobs, each vCPU's at a time of its own.
        let turn = (now / STEP + self.vm as u64 * 7 + self.vcpu as u64 * 3) % JOBS;
        if turn == 0 {
            let job = JOBS * STEP * self.wants / 1000 * (50 + luck % 100) / 100;
            self.backlog = (self.backlog + job).min(FREQUENCY / 10);
        }
        while self.is_server() && now >= self.begins + self.promise[0] {
            self.begins += self.promise[0];
            if let Some(next) = self.next.take() {
                self.promise = next;
            }
            // Now and then one is late, so that there is something to see.
            self.late += u64::from(self.wants > 900 && luck.is_multiple_of(4001));
            self.left = self.promise[1];
            self.is_dry = false;
        }
    }
}

/// All cores of the fake board.
#[derive(Clone, Debug)]
pub struct Cores {
    pub(super) names: Vec<String>,
    pub(super) vcpus: Vec<FakeVcpu>,
    pub(super) idle: Vec<u64>,
    pub(super) switches: Vec<u64>,
    pub(super) running: Vec<Option<usize>>,
    pub(super) turns: Vec<VecDeque<Turn>>,
    now: u64,
    seed: u64,
}

impl Cores {
    /// A Linux with two vCPUs, a motor control, a field bus, a display and two VMs that share by weight.
    pub(super) fn demo() -> Self {
        let names = ["linux", "axes", "fieldbus", "display", "web", "logger"];
        let server = FakeVcpu::new;
        let vcpus = vec![
            server([0, 0, 0], "deferrable", [10_000, 6_000, 10_000], 750),
            server([0, 1, 1], "bandwidth", [10_000, 5_000, 10_000], 450),
            server([1, 0, 2], "periodic", [5_000, 1_000, 5_000], 190),
            server([2, 0, 2], "periodic", [5_000, 600, 3_600], 110),
            server([3, 0, 1], "polling", [4_000, 1_226, 4_000], 240),
            server([3, 1, 2], "bandwidth", [20_000, 8_000, 20_000], 950),
            FakeVcpu::new([4, 0, 3], "credit", [512, 0, 0], 800),
            FakeVcpu::new([5, 0, 3], "credit", [256, 40, 0], 600),
        ];
        Self {
            names: names.map(str::to_owned).into(),
            vcpus,
            idle: vec![0; 4],
            switches: vec![0; 4],
            running: vec![None; 4],
            turns: vec![VecDeque::new(); 4],
            now: 0,
            seed: 1,
        }
    }

    pub(super) fn rename(&mut self, vm: usize, name: &str) {
        if let Some(own) = self.names.get_mut(vm) {
            *own = name.to_owned();
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn count(&self) -> usize {
        self.idle.len()
    }

    fn luck(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }

    pub(super) fn advance(&mut self, from: u64, to: u64) {
        self.now = from;
        while self.now + STEP <= to {
            for place in 0..self.vcpus.len() {
                let (luck, now) = (self.luck(), self.now);
                self.vcpus[place].pass(now, luck);
            }
            for cpu in 0..self.count() {
                self.step(cpu);
            }
            self.now += STEP;
        }
    }

    fn step(&mut self, cpu: usize) {
        let runs = self.choice(cpu);
        let (now, luck) = (self.now, self.luck());
        if self.running[cpu] != runs {
            self.switches[cpu] += 1;
            self.running[cpu] = runs;
            if let Some(place) = runs {
                self.vcpus[place].switches += 1;
            }
        }
        match runs {
            None => self.idle[cpu] += STEP,
            Some(place) => run(&mut self.vcpus[place], luck),
        }
        let turns = &mut self.turns[cpu];
        match turns.back_mut() {
            Some(last) if last.0 == runs && last.2 == now => last.2 = now + STEP,
            _ => turns.push_back((runs, now, now + STEP)),
        }
        if turns.len() > TURNS {
            turns.pop_front();
        }
    }

    /// Who runs on a core.
    fn choice(&self, cpu: usize) -> Option<usize> {
        let all = self.vcpus.iter().enumerate();
        let ready = all.filter(|(_, vcpu)| vcpu.cpu == cpu && vcpu.has_work());
        let promised = ready.clone().filter(|(_, vcpu)| vcpu.left >= STEP);
        let first = promised.min_by_key(|(_, vcpu)| vcpu.begins + vcpu.promise[2]);
        // Those that have no budget left, or none at all: by what they had for their weight.
        let runs = self.running[cpu].filter(|_| !(self.now / STEP).is_multiple_of(SLICE));
        let free = ready
            .min_by_key(|(place, vcpu)| (Some(*place) != runs, vcpu.used / vcpu.promise[0].max(1)));
        first.or(free).map(|(place, _)| place)
    }

    /// Changes an interface, from the next period on.
    pub(super) fn change(&mut self, id: [u64; 2], nanos: [u64; 3]) -> String {
        let [vm, vcpu] = id;
        let no = |why: &str, rest: &str| format!("refused {vm} {vcpu} {why} {rest}\n");
        let [period, budget, deadline] = nanos;
        let ticks = nanos.map(|nanos| u128::from(nanos) * u128::from(FREQUENCY) / 1_000_000_000);
        let place = self.place(id);
        let valid = budget > 0 && budget <= deadline && deadline <= period && period < 1 << 40;
        let (Some(place), true) = (place, valid) else {
            return no("invalid", "0 0 0");
        };
        if !self.vcpus[place].is_server() {
            return no("not-allowed", "0 0 0");
        }
        let cpu = self.vcpus[place].cpu;
        let others = self.vcpus.iter().enumerate();
        let others =
            others.filter(|(other, vcpu)| *other != place && vcpu.cpu == cpu && vcpu.is_server());
        let share = |budget: u64, period: u64| budget as f64 / period.max(1) as f64;
        let sum: f64 = others
            .map(|(_, vcpu)| share(vcpu.promise[1], vcpu.promise[0]))
            .sum();
        let all = sum + share(budget, period);
        if all > 1.0 {
            let demand = (FREQUENCY as f64 * all) as u64;
            return no("overload", &format!("{FREQUENCY} {demand} {FREQUENCY}"));
        }
        let own = &mut self.vcpus[place];
        own.next = Some(ticks.map(|ticks| u64::try_from(ticks).unwrap_or(u64::MAX)));
        format!("changed {vm} {vcpu} {}\n", own.begins + own.promise[0])
    }

    /// Changes a weight, at once.
    pub(super) fn weight(&mut self, id: [u64; 2], weight: u64, cap: u64) -> String {
        let [vm, vcpu] = id;
        let now = self.now;
        match self.place(id).map(|place| &mut self.vcpus[place]) {
            Some(own) if own.kind == "credit" && weight > 0 => {
                own.promise = [weight, cap, 0];
                format!("changed {vm} {vcpu} {now}\n")
            }
            Some(_) => format!("refused {vm} {vcpu} not-allowed 0 0 0\n"),
            None => format!("refused {vm} {vcpu} invalid 0 0 0\n"),
        }
    }

    fn place(&self, [vm, vcpu]: [u64; 2]) -> Option<usize> {
        let own = |one: &FakeVcpu| one.vm as u64 == vm && one.vcpu as u64 == vcpu;
        self.vcpus.iter().position(own)
    }
}

/// Lets a vCPU run for a step.
fn run(vcpu: &mut FakeVcpu, luck: u64) {
    vcpu.used += STEP;
    vcpu.backlog -= STEP;
    let interrupted = luck.is_multiple_of(10);
    vcpu.stolen += u64::from(interrupted) * STEP / 20;
    vcpu.exits[0] += u64::from(luck.is_multiple_of(20));
    vcpu.exits[1] += u64::from(luck.is_multiple_of(37));
    vcpu.exits[2] += u64::from(interrupted);
    vcpu.exits[3] += u64::from(luck.is_multiple_of(1013));
    if !vcpu.is_server() {
        return;
    }
    if vcpu.left >= STEP {
        vcpu.left -= STEP;
    } else {
        vcpu.extra += STEP;
        if !std::mem::replace(&mut vcpu.is_dry, true) {
            vcpu.throttled += 1;
        }
    }
}
