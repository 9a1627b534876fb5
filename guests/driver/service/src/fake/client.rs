//! The other side of a back end: a client, and the hypervisor between both, as far as a driver VM sees them.

use super::{Registers, install};
use crate::memory::Split;
use crate::wanted::Wanted;
use core::sync::atomic::Ordering::Relaxed;
use hanok_abi::back_end::{client, control, mode, register};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The bytes of a back end's registers.
const SIZE: u64 = 0x1000;

/// What the registers know.
#[derive(Default)]
struct State {
    rings: Vec<&'static Split>,
    /// The size of each queue.
    places: u16,
    /// The queue that is chosen.
    chosen: usize,
    /// How many requests of each queue were given, and which answers were taken.
    given: Vec<u16>,
    taken: Vec<u16>,
    answers: Vec<Vec<(u16, u32)>>,
    /// How often the hypervisor was called because of a queue.
    calls: usize,
    resets: u32,
    is_live: bool,
    /// The last values of registers of which nothing else is known.
    values: BTreeMap<u64, u32>,
    /// What of the client's memory was asked for, and how much it has.
    fetched: Vec<(u64, u32)>,
    memory: u64,
    has_failed: bool,
}

impl State {
    /// Takes what is answered in a queue.
    fn take(&mut self, queue: usize) {
        self.calls += 1;
        let (Some(ring), Some(taken), Some(answers)) = (
            self.rings.get(queue),
            self.taken.get_mut(queue),
            self.answers.get_mut(queue),
        ) else {
            return;
        };
        while *taken != ring.used.index.load(Relaxed) {
            let [head, written] = &ring.used.elements[usize::from(*taken % self.places)];
            answers.push((head.load(Relaxed) as u16, written.load(Relaxed)));
            *taken = taken.wrapping_add(1);
        }
        ring.driver_event(self.places).store(*taken, Relaxed);
    }

    fn fetch(&mut self, bytes: u32) {
        let half = |at| u64::from(self.values.get(&at).copied().unwrap_or(0));
        let from = half(register::FETCH_FROM) | half(register::FETCH_FROM + 4) << 32;
        self.fetched.push((from, bytes));
        let end = from.checked_add(bytes.into());
        self.has_failed = end.is_none_or(|end| end > self.memory);
    }
}

impl Registers for State {
    fn read(&mut self, offset: u64) -> u32 {
        match offset {
            register::ID => register::MAGIC,
            register::CLIENT => self.resets << 1 | if self.is_live { client::LIVE } else { 0 },
            register::MODE => mode::DIRECT,
            register::FETCH => self.has_failed.into(),
            register::AGAIN => 0,
            // It has no interrupts: whoever asks looks at everything.
            register::TAKE => u32::MAX,
            _ => self.values.get(&offset).copied().unwrap_or(0),
        }
    }

    fn write(&mut self, offset: u64, value: u32) {
        match offset {
            register::QUEUE => self.chosen = value as usize,
            register::QUEUE_SIZE => self.places = value as u16,
            register::NOTIFY => self.take(value as usize),
            register::FETCH => self.fetch(value),
            _ => {
                self.values.insert(offset, value);
            }
        }
    }
}

/// A client, and what it does.
#[derive(Clone)]
pub struct Client {
    state: Rc<RefCell<State>>,
    /// How its back end is told of it.
    pub wanted: Wanted,
}

impl Client {
    /// A client number `number`, whose driver is ready, with these queues of so many places.
    pub fn new<const N: usize>(number: u32, rings: [&'static Split; N], places: u16) -> Self {
        let registers = 0x1_0000 + u64::from(number) * SIZE;
        let state = State {
            rings: rings.to_vec(),
            places,
            given: vec![0; N],
            taken: vec![0; N],
            answers: vec![Vec::new(); N],
            is_live: true,
            ..State::default()
        };
        let state = Rc::new(RefCell::new(state));
        install(registers..registers + SIZE, state.clone());
        Self {
            state,
            wanted: Wanted {
                registers,
                interrupt: 32 + number,
                client: "client",
                kind: "",
                device: None,
                mac: [2, 0, 0, 0, 0, number as u8],
                vlan: 0,
                cid: 3 + u64::from(number),
            },
        }
    }

    /// Gives a request, whose table of descriptors has so many bytes in the slot `head`.
    pub fn give(&self, queue: usize, head: u16, table: u64) {
        let mut state = self.state.borrow_mut();
        let places = state.places;
        let ring = state.rings[queue];
        ring.table[usize::from(head)].rest.store(table, Relaxed);
        let given = &mut state.given[queue];
        ring.available.entries[usize::from(*given % places)].store(head, Relaxed);
        *given = given.wrapping_add(1);
        ring.available.index.store(*given, Relaxed);
    }

    /// The answers that came since the last call: the request, and how many bytes were written.
    pub fn answers(&self, queue: usize) -> Vec<(u16, u32)> {
        let mut state = self.state.borrow_mut();
        state.take(queue);
        std::mem::take(&mut state.answers[queue])
    }

    /// The driver forgets its requests, and is ready again or not.
    pub fn reset(&self, is_live: bool) {
        let mut state = self.state.borrow_mut();
        state.resets += 1;
        state.is_live = is_live;
    }

    /// The hypervisor refuses what the back end said of its requests.
    pub fn refuse(&self) {
        let mut state = self.state.borrow_mut();
        state.values.insert(register::CONTROL, control::FAILED);
    }

    /// The lower half of the features that it is offered.
    pub fn offered(&self) -> u64 {
        let state = self.state.borrow();
        state
            .values
            .get(&register::FEATURES)
            .copied()
            .unwrap_or(0)
            .into()
    }

    /// It has so many bytes of memory, from 0 on.
    pub fn has_memory(&self, bytes: u64) {
        self.state.borrow_mut().memory = bytes;
    }

    /// What of its memory was asked for since the last call: addresses and bytes.
    pub fn fetched(&self) -> Vec<(u64, u32)> {
        std::mem::take(&mut self.state.borrow_mut().fetched)
    }

    /// Whether it is asked to tell of its next request in a queue.
    pub fn is_heard(&self, queue: usize) -> bool {
        let state = self.state.borrow();
        let event = state.rings[queue].device_event(state.places);
        event == state.given[queue]
    }
}

/// Memory that lives as long as the program.
pub fn leaked<T>(memory: T) -> &'static T {
    Box::leak(Box::new(memory))
}
