//! A machine for tests: the calls go to the fake board of hanok-schedule, and Linux is a table of threads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hanok_agent::agent::{Agent, Peer, Reply};
use hanok_agent::machine::{Found, Kind, Machine, Thread, Times};
use hanok_agent::settings::Settings;
use hanok_agent::task::Client;
use hanok_schedule::fake::Board;
use hanok_schedule::{Error, Interface, Limits, Usage, Vcpu};

/// What a test sees and changes.
#[derive(Debug, Default)]
pub struct State {
    pub now: u64,
    /// The threads that are there, by their numbers, with their CPU times.
    pub threads: BTreeMap<i32, (Thread, u64)>,
    /// How threads are scheduled by deadlines.
    pub scheduled: BTreeMap<i32, (usize, Times)>,
    pub programs: BTreeMap<String, Vec<i32>>,
    pub prepared: Vec<usize>,
    pub said: Vec<String>,
    /// What Linux says to the next thread that is to be scheduled.
    pub linux_says: Option<String>,
    /// The kind of all vCPUs, if not the board says it.
    pub kind: Option<Kind>,
}

/// The fake machine. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Fake {
    pub state: Rc<RefCell<State>>,
    pub board: Board,
    cpus: usize,
}

impl Fake {
    pub fn new(board: Board, cpus: usize) -> Self {
        let state = Rc::default();
        Self { state, board, cpus }
    }

    /// Threads of root with these numbers.
    pub fn threads(&self, numbers: impl IntoIterator<Item = i32>) {
        for number in numbers {
            self.thread_of(number, 0, 1);
        }
    }

    pub fn thread_of(&self, number: i32, user: u32, start: u64) {
        let thread = Thread {
            number,
            process: number,
            user,
            start,
        };
        self.state.borrow_mut().threads.insert(number, (thread, 0));
    }

    pub fn pass(&self, time: u64) {
        self.state.borrow_mut().now += time;
    }

    pub fn interface(&self, cpu: usize) -> Interface {
        self.board.vcpu(cpu, |vcpu| vcpu.interface)
    }
}

impl Machine for Fake {
    fn now(&mut self) -> u64 {
        self.state.borrow().now
    }

    fn cpus(&mut self) -> usize {
        self.cpus
    }

    fn look(&mut self, cpu: usize) -> Result<Found, String> {
        let mut vcpu = Vcpu::new(self.board.by_call(cpu));
        let all = |error: Error| error.to_string();
        let features = vcpu.features().map_err(all)?;
        let kind = match (features.is_enforced(), features.may_ask()) {
            (false, _) => Kind::Unpromised,
            (true, false) => Kind::Fixed,
            (true, true) => Kind::Asks,
        };
        let kind = self.state.borrow().kind.unwrap_or(kind);
        let whole = kind == Kind::Whole;
        Ok(Found {
            kind,
            interface: if whole {
                Interface::new(10_000_000, 10_000_000)
            } else {
                vcpu.interface().map_err(all)?
            },
            limits: vcpu.limits().unwrap_or(Limits {
                share: 0,
                period: 1,
            }),
        })
    }

    fn usage(&mut self, cpu: usize) -> Option<Usage> {
        Vcpu::new(self.board.by_call(cpu)).usage().ok()
    }

    fn ask(&mut self, cpu: usize, wanted: &Interface) -> Result<(), Error> {
        Vcpu::new(self.board.by_call(cpu)).ask(wanted).map(|_| ())
    }

    fn prepare(&mut self, cpu: usize) -> Result<(), String> {
        self.state.borrow_mut().prepared.push(cpu);
        Ok(())
    }

    fn give_back(&mut self, cpu: usize) {
        self.state
            .borrow_mut()
            .prepared
            .retain(|other| *other != cpu);
    }

    fn is_last(&mut self, cpu: usize) -> bool {
        self.cpus > 1 && cpu == 0
    }

    fn schedule(&mut self, thread: &Thread, cpu: usize, times: &Times) -> Result<(), String> {
        let mut state = self.state.borrow_mut();
        if let Some(says) = state.linux_says.take() {
            return Err(says);
        }
        state.scheduled.insert(thread.number, (cpu, *times));
        Ok(())
    }

    fn catch_up(&mut self) -> bool {
        false
    }

    fn release(&mut self, thread: &Thread) {
        self.state.borrow_mut().scheduled.remove(&thread.number);
    }

    fn thread(&mut self, number: i32) -> Option<Thread> {
        let state = self.state.borrow();
        state.threads.get(&number).map(|(thread, _)| *thread)
    }

    fn used(&mut self, thread: &Thread) -> Option<u64> {
        let state = self.state.borrow();
        state.threads.get(&thread.number).map(|(_, used)| *used)
    }

    fn programs(&mut self, name: &str) -> Vec<i32> {
        let state = self.state.borrow();
        state.programs.get(name).cloned().unwrap_or_default()
    }

    fn say(&mut self, text: &str) {
        self.state.borrow_mut().said.push(text.into());
    }
}

pub const ROOT: Peer = Peer {
    process: 1,
    user: 0,
};
pub const CLIENT: Client = Client(1);

/// An agent upon a fake machine with threads 1 to 999 of root.
pub fn agent(board: Board, cpus: usize, settings: Settings) -> (Agent<Fake>, Fake) {
    let machine = Fake::new(board, cpus);
    machine.threads(1..1000);
    let agent = Agent::new(machine.clone(), settings).unwrap();
    (agent, machine)
}

/// Without the rest of Linux, and what it needs for jobs.
pub fn bare() -> Settings {
    Settings {
        background: None,
        per_job: 0,
        ..Settings::default()
    }
}

/// What root is answered at once.
pub fn say(agent: &mut Agent<Fake>, line: &str) -> String {
    match agent.line(CLIENT, ROOT, line.as_bytes()) {
        Reply::Now(answer) => answer,
        Reply::Later => "later".into(),
    }
}
