//! A board that answers the calls, for tests on a PC.
//!
//! It keeps what it is told, and refuses what is more than its limits. It analyses nothing, and what it is asked for
//! takes effect at once. Calls can be made by [`Board::by_call`], which hands them over, and by
//! [`Board::by_registers`], through which the stores and loads of a [`crate::Page`] go.

extern crate std;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use crate::page::Registers;
use crate::transport::{Answer, Arguments, Transport, four};
use crate::vcpu::Interface;
use hanok_abi::schedule::{ASK, FEATURES, READ, VERSION, WAIT, feature, item, register, status};

/// A vCPU of the fake board, with what it answers.
#[derive(Clone, Debug)]
pub struct FakeVcpu {
    /// `hanok_abi::schedule::feature`.
    pub features: u32,
    /// The version that it answers.
    pub version: u32,
    /// The interface that it has.
    pub interface: Interface,
    /// The largest share that it may ask for, in parts of 65,536.
    pub limit: u64,
    /// The shortest period that it may ask for.
    pub shortest: u64,
    /// How often a question that is valid is answered PENDING before its answer is there.
    pub pieces: u32,
    /// The question that is under way, and how often it is answered PENDING yet.
    pub question: Option<(Interface, u32)>,
    /// What the next questions are answered instead, the last one first.
    pub instead: Vec<Answer>,
    /// The values of LEFT, USED, EXTRA, THROTTLED and STOLEN.
    pub used: [u64; 5],
    /// All interfaces that were asked for, with what was answered.
    pub asked: Vec<(Interface, Answer)>,
    /// How often a next period was waited for.
    pub waits: u64,
    /// The registers of the device, as they were last stored to.
    pub registers: [u32; 0x40 / 4],
}

impl Default for FakeVcpu {
    fn default() -> Self {
        Self {
            features: feature::ENFORCED | feature::ASKS,
            version: VERSION,
            interface: Interface::new(10_000_000, 1_000_000),
            limit: 52_429,
            shortest: 100_000,
            pieces: 3,
            question: None,
            instead: Vec::new(),
            used: [0; 5],
            asked: Vec::new(),
            waits: 0,
            registers: [0; 0x40 / 4],
        }
    }
}

impl FakeVcpu {
    fn answer(&mut self, function: u32, arguments: [u64; 4]) -> Answer {
        let [first, second, third, _] = arguments;
        match function {
            FEATURES => done(u64::from(self.features) << 32 | u64::from(self.version)),
            READ => self.read(first),
            ASK => self.ask([first, second, third]),
            WAIT => {
                self.waits += 1;
                done(0)
            }
            _ => of(-1, 0),
        }
    }

    fn read(&self, number: u64) -> Answer {
        let asks = self.features & feature::ASKS != 0;
        let [left, used, extra, throttled, stolen] = self.used;
        done(match u32::try_from(number) {
            Ok(item::PERIOD) => self.interface.period,
            Ok(item::BUDGET) => self.interface.budget,
            Ok(item::DEADLINE) => self.interface.deadline,
            Ok(item::LEFT) => left,
            Ok(item::USED) => used,
            Ok(item::EXTRA) => extra,
            Ok(item::THROTTLED) => throttled,
            Ok(item::STOLEN) => stolen,
            Ok(item::LIMIT) if asks => self.limit,
            Ok(item::LIMIT) => 0,
            Ok(item::SHORTEST_PERIOD) => self.shortest,
            _ => return of(status::INVALID, 0),
        })
    }

    fn ask(&mut self, wanted: [u64; 3]) -> Answer {
        let [period, budget, deadline] = wanted;
        let deadline = if deadline == 0 { period } else { deadline };
        let wanted = Interface {
            period,
            budget,
            deadline,
        };
        let verdict = self.verdict(&wanted);
        if verdict.status == status::DONE && self.is_under_way(wanted) {
            return of(status::PENDING, 0);
        }
        let answer = self.instead.pop().unwrap_or(verdict);
        self.asked.push((wanted, answer));
        if answer.status == status::DONE {
            self.interface = wanted;
        }
        answer
    }

    /// Makes a piece of a question: whether more is to be done.
    fn is_under_way(&mut self, wanted: Interface) -> bool {
        let left = match self.question {
            Some((asked, left)) if asked == wanted => left,
            _ => self.pieces,
        };
        let less = left.checked_sub(1);
        self.question = less.map(|left| (wanted, left));
        less.is_some()
    }

    fn verdict(&self, wanted: &Interface) -> Answer {
        let Interface {
            period,
            budget,
            deadline,
        } = *wanted;
        if self.features & feature::ASKS == 0 || period < self.shortest {
            return of(status::NOT_ALLOWED, 0);
        }
        if budget == 0 || budget > deadline || deadline > period {
            return of(status::INVALID, 0);
        }
        if u128::from(budget) << 16 > u128::from(period) * u128::from(self.limit) {
            return of(status::NOT_ALLOWED, 0);
        }
        done(1)
    }
}

const fn of(status: i32, value: u64) -> Answer {
    Answer { status, value }
}

const fn done(value: u64) -> Answer {
    of(status::DONE, value)
}

/// A board with vCPUs that answer. Clones are the same board.
#[derive(Clone, Debug)]
pub struct Board(Arc<Mutex<Vec<FakeVcpu>>>);

impl Default for Board {
    /// A board with one vCPU.
    fn default() -> Self {
        Self::new([FakeVcpu::default()])
    }
}

impl Board {
    /// A board with these vCPUs.
    pub fn new(vcpus: impl IntoIterator<Item = FakeVcpu>) -> Self {
        Self(Arc::new(Mutex::new(vcpus.into_iter().collect())))
    }

    /// Looks at a vCPU, or changes it.
    ///
    /// # Panics
    ///
    /// If there is no such vCPU.
    pub fn vcpu<R>(&self, vcpu: usize, look: impl FnOnce(&mut FakeVcpu) -> R) -> R {
        look(&mut self.all()[vcpu])
    }

    fn all(&self) -> MutexGuard<'_, Vec<FakeVcpu>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls of a vCPU that are handed over as HVC does.
    pub fn by_call(&self, vcpu: usize) -> ByCall {
        ByCall(self.clone(), vcpu)
    }

    /// The registers of a vCPU.
    pub fn by_registers(&self, vcpu: usize) -> ByRegisters {
        ByRegisters(self.clone(), vcpu)
    }
}

/// Calls that are handed over to the fake.
#[derive(Clone, Debug)]
pub struct ByCall(Board, usize);

impl Transport for ByCall {
    fn call(&mut self, function: u32, arguments: Arguments<'_>) -> Answer {
        self.0
            .vcpu(self.1, |vcpu| vcpu.answer(function, four(arguments)))
    }
}

/// Registers of the fake. What is loaded or stored outside of them is counted as nothing.
#[derive(Clone, Debug)]
pub struct ByRegisters(Board, usize);

impl Registers for ByRegisters {
    fn load(&mut self, offset: u64) -> u32 {
        if offset == register::ID {
            return register::MAGIC;
        }
        self.0.vcpu(self.1, |vcpu| {
            vcpu.registers
                .get(offset as usize / 4)
                .copied()
                .unwrap_or(0)
        })
    }

    fn store(&mut self, offset: u64, value: u32) {
        self.0.vcpu(self.1, |vcpu| {
            if offset != register::CALL {
                if let Some(place) = vcpu.registers.get_mut(offset as usize / 4) {
                    *place = value;
                }
                return;
            }
            let at = |offset: u64| vcpu.registers[offset as usize / 4];
            let pair = |offset| u64::from(at(offset + 4)) << 32 | u64::from(at(offset));
            let arguments = [0, 8, 16, 24].map(|from| pair(register::ARGUMENTS + from));
            let answer = vcpu.answer(value, arguments);
            vcpu.registers[register::STATUS as usize / 4] = answer.status as u32;
            vcpu.registers[register::VALUE as usize / 4] = answer.value as u32;
            vcpu.registers[register::VALUE as usize / 4 + 1] = (answer.value >> 32) as u32;
        });
    }
}
