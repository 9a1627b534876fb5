//! A virtio device of one VM, its client, with what a driver VM has of it, if one serves it.
//!
//! Both VMs reach the one record, each by a slot of its own. A request belongs to the client's queue until it is given
//! back: its head is under way, in the order in which it was taken. If the driver VM withdraws the device or dies, all heads that are under way
//! are given again, in that order, once the device is offered again. If the client resets the device, its
//! heads are *stale*: what the driver VM gives back of them is dropped, and their slots are not used before.
//!
//! [`SharedDevice::serve`] does a bounded piece of what there is to do, and says whether there is more.

use super::back_end::{BackEnd, Nature, Wanted};
use super::queue::{Head, Listening};
use super::transfer::{Between, BoardMemory, Copying, Given, Reply, Request, Step, Tail};
use super::transport::{CONFIG, Event, Identity, MAX_QUEUES, Transport};
use super::{Breach, Fail, Fault, Place, entropy, feature};
use crate::{Access, Unknown};
use hanok_abi::back_end::{MAX_CONFIG, MAX_QUEUE_SIZE, control, interrupt, mode};
use hanok_config::VirtioKind;
use hanok_hal::{AccessError, Mutex};
use hanok_types::{GuestPage, Ipa, Width};

/// The most steps of a piece: one of six descriptors, each with a small copy, takes most of what may be between two looks for interrupts.
const STEPS: usize = 1;
/// The offset of the first register of a transport that says what the back end offers; those before it say what device it is.
const FIRST_OFFERED: u64 = 0x10;
/// The part of the time for the first offer for which a client waits for the answer to a store to its configuration.
const PART_FOR_ANSWER: u64 = 10;
/// The client is not asked to notify of further requests while so many are under way: those are found as one of these is given back.
const QUIET_FROM: u16 = 4;
/// The size of the queue of a device that the hypervisor serves.
const OWN_QUEUE: u16 = 16;
/// The places of a set of heads, in words.
const WORDS: usize = MAX_QUEUE_SIZE as usize / 64;

/// Who serves a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backed {
    /// The hypervisor.
    ByHypervisor,
    /// A VM; `trusted` says whether it may have its clients' buffers named by the board's addresses.
    ByVm {
        /// Whether the description trusts it with all memory.
        trusted: bool,
    },
}

/// The levels of a device's interrupt lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// That of the client's.
    pub client: bool,
    /// That of the driver VM's.
    pub driver: bool,
}

/// What came of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Served {
    /// There is nothing left to do.
    All,
    /// There is more.
    Some,
    /// It goes on when this page of a VM's memory is there.
    Absent(GuestPage),
}

/// A set of a queue's heads.
#[derive(Clone, Copy, Debug, Default)]
struct Heads([u64; WORDS]);

impl Heads {
    fn word(&mut self, head: Head) -> Option<(&mut u64, u64)> {
        let index = usize::from(head.index());
        let word = self.0.get_mut(index / 64)?;
        Some((word, 1 << (index % 64)))
    }

    fn insert(&mut self, head: Head) {
        if let Some((word, bit)) = self.word(head) {
            *word |= bit;
        }
    }

    /// Whether it was in there.
    fn remove(&mut self, head: Head) -> bool {
        let Some((word, bit)) = self.word(head) else {
            return false;
        };
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    fn contains(&self, head: Head) -> bool {
        let index = usize::from(head.index());
        let word = self.0.get(index / 64).copied().unwrap_or(0);
        word >> (index % 64) & 1 != 0
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

/// What is known of the requests of one queue.
#[derive(Debug)]
struct Traffic {
    /// Heads that were taken of the client's queue and not given back.
    under_way: Heads,
    /// How many these are.
    count: u16,
    /// Those of them that the driver VM does not have, as it came anew.
    again: Heads,
    /// Heads of before the client's last reset that the driver VM still has.
    stale: Heads,
    /// When each head that is under way was taken: a count of all requests of the queue.
    taken: [u16; MAX_QUEUE_SIZE as usize],
    next: u16,
    request: Option<Request>,
    /// Whether `request` was taken before.
    is_again: bool,
    reply: Option<Reply>,
    /// Whether there may be requests that the client has made.
    ask_client: bool,
    /// Whether there may be requests that the driver VM has given back.
    ask_driver: bool,
}

impl Traffic {
    const NONE: Self = Self {
        under_way: Heads([0; WORDS]),
        count: 0,
        again: Heads([0; WORDS]),
        stale: Heads([0; WORDS]),
        taken: [0; MAX_QUEUE_SIZE as usize],
        next: 0,
        request: None,
        is_again: false,
        reply: None,
        ask_client: false,
        ask_driver: false,
    };

    /// The driver VM has none of the requests any more.
    fn withdrawn(&mut self) {
        self.again = self.under_way;
        self.stale = Heads::default();
        (self.request, self.reply) = (None, None);
        (self.ask_client, self.ask_driver) = (true, false);
    }

    /// The client has forgotten its requests.
    fn forgotten(&mut self) {
        for (index, again) in self.again.0.iter().enumerate() {
            let (Some(stale), Some(under_way)) =
                (self.stale.0.get_mut(index), self.under_way.0.get(index))
            else {
                continue;
            };
            *stale |= under_way & !again;
        }
        self.under_way = Heads::default();
        self.again = Heads::default();
        self.count = 0;
        (self.request, self.reply) = (None, None);
        self.ask_client = false;
        // Among what the driver VM gives back next may be stale ones.
        self.ask_driver = true;
    }

    /// Whether the driver VM has no request.
    fn is_idle(&self) -> bool {
        let given = self.under_way.0.iter().zip(&self.again.0);
        self.stale.is_empty() && given.map(|(all, again)| all & !again).all(|word| word == 0)
    }

    fn take(&mut self, head: Head) {
        self.under_way.insert(head);
        self.count += 1;
        if let Some(taken) = self.taken.get_mut(usize::from(head.index())) {
            *taken = self.next;
        }
        self.next = self.next.wrapping_add(1);
    }

    /// The request that was taken first among those that are to be given again.
    fn first_again(&self) -> Option<Head> {
        if self.again.is_empty() {
            return None;
        }
        let all = (0..MAX_QUEUE_SIZE.into()).filter_map(|index| Head::new(index, MAX_QUEUE_SIZE));
        let again = all.filter(|head| self.again.contains(*head));
        again.max_by_key(|head| {
            let taken = self.taken.get(usize::from(head.index()));
            self.next.wrapping_sub(taken.copied().unwrap_or(0))
        })
    }
}

/// The device.
#[derive(Debug)]
pub struct SharedDevice(Mutex<State>);

#[derive(Debug)]
struct State {
    kind: VirtioKind,
    backed: Backed,
    transport: Transport,
    back: BackEnd,
    /// Whether a back end has offered the device yet.
    was_offered: bool,
    /// The configuration that was offered last, and how much of it there is.
    config: [u8; MAX_CONFIG],
    config_size: usize,
    /// Whether a device of the board may still access memory that a back end had by its address, and that has not offered the
    /// device again since.
    unattended: bool,
    /// Whether the client was reset while a device of the board might access its memory: it waits until none can.
    held: bool,
    /// The queue that is looked at first.
    turn: usize,
    /// The levels of the lines as they were last asked for by [`SharedDevice::show`].
    shown: Lines,
    /// Whether the client's stores to its configuration are told to whoever serves it.
    has_stores: bool,
    /// Until when the client waits for the first offer, or for the answer to its last store; `None` before it asks.
    waits_until: Option<u64>,
    /// When [`SharedDevice::unheeded`] first found the driver VM's line raised, of which it has not accessed a register since.
    unheeded_since: Option<u64>,
    /// What the driver VM has asked for of the client's memory.
    fetch: Option<Copying>,
    traffic: [Traffic; MAX_QUEUES],
    /// Of each request of the first queue that is under way, what its reply has to copy if the driver VM leaves descriptors as they are. Other
    /// queues are of devices that have few parts in a request.
    tails: [Tail; MAX_QUEUE_SIZE as usize],
}

impl SharedDevice {
    /// A device of `kind` after a reset.
    pub fn new(kind: VirtioKind, backed: Backed) -> Self {
        let ring = feature::VERSION_1 | feature::EVENT_INDEX | feature::INDIRECT;
        let (features, queue_size, modes) = match backed {
            Backed::ByHypervisor => (ring, OWN_QUEUE, 0),
            Backed::ByVm { trusted } => {
                let any = mode::STORES | mode::KEEPS;
                (0, 0, (u32::from(trusted) * mode::DIRECT) | any)
            }
        };
        let (device, queues) = (kind.id(), kind.queues());
        Self(Mutex::new(State {
            kind,
            backed,
            transport: Transport::new(Identity {
                device,
                features,
                queues,
                queue_size,
            }),
            back: BackEnd::new(Nature {
                device,
                queues,
                modes,
            }),
            was_offered: backed == Backed::ByHypervisor,
            config: [0; MAX_CONFIG],
            config_size: 0,
            unattended: false,
            held: false,
            turn: 0,
            shown: Lines {
                client: false,
                driver: false,
            },
            has_stores: false,
            waits_until: None,
            unheeded_since: None,
            fetch: None,
            traffic: [Traffic::NONE; MAX_QUEUES],
            tails: [Tail::UNKNOWN; MAX_QUEUE_SIZE as usize],
        }))
    }

    /// Whether a load or store of the client at `offset` has to wait, at `now`, as a device of the board may still access the client's
    /// memory, as no back end has offered the device yet, or as the back end has not answered a store to the configuration. For an offer it waits for
    /// `longest` at most, from the first time on; after that the device has no features, which no driver accepts. For an answer it waits for a
    /// tenth of that; after that the configuration is as it was.
    pub fn has_to_wait(&self, offset: u64, now: u64, longest: u64) -> bool {
        let mut state = self.0.lock();
        if offset < FIRST_OFFERED {
            return false;
        }
        let mut longest = longest;
        if state.was_offered {
            if state.held || state.back.stored[0] == 0 || offset < CONFIG {
                return state.held;
            }
            longest /= PART_FOR_ANSWER;
        }
        let until = *state.waits_until.get_or_insert(now.saturating_add(longest));
        now < until
    }

    /// A load or store of the client's. Kept out of line: inlined, it would make every device's exit longer.
    #[inline(never)]
    pub fn access(&self, offset: u64, access: Access) -> u64 {
        self.0.lock().access(offset, access)
    }

    /// A load or store of the driver VM's. Kept out of line as well.
    #[inline(never)]
    pub fn access_back_end(&self, offset: u64, access: Access) -> u64 {
        self.0.lock().access_back_end(offset, access)
    }

    /// Whether a device of the board may still access memory of the client's, which was reset since.
    pub fn holds_memory(&self) -> bool {
        self.0.lock().held
    }

    /// The client is reset: the device is, too.
    pub fn reset(&self) {
        let mut state = self.0.lock();
        state.transport.reset();
        // While it is held the client does not come to it, and the driver VM knows of the reset already.
        if !state.held {
            state.reset();
        }
    }

    /// The driver VM is reset.
    pub fn reset_back_end(&self) {
        let mut state = self.0.lock();
        state.withdrawn();
        state.back.reset();
    }

    /// The levels of the interrupt lines.
    pub fn lines(&self) -> Lines {
        self.0.lock().lines()
    }

    /// The levels of the interrupt lines, for whoever brings the lines in both VMs up to date.
    pub fn show(&self) -> Lines {
        let mut state = self.0.lock();
        state.shown = state.lines();
        state.shown
    }

    /// For how long, at `now`, the driver VM's line is known to be raised without an access by the driver VM to one of its registers: since the
    /// first call that found it so. With `excused` the time begins anew. If the driver VM has requests and its line is low, it is interrupted, so that
    /// a later call finds out whether it heeds that; the caller brings the line up to date.
    pub fn unheeded(&self, now: u64, excused: bool) -> u64 {
        let mut state = self.0.lock();
        if !state.traffic.iter().all(Traffic::is_idle) {
            state.back.tell(interrupt::REQUESTS);
        }
        if state.back.interrupts == 0 || excused {
            state.unheeded_since = None;
            return 0;
        }
        now.saturating_sub(*state.unheeded_since.get_or_insert(now))
    }

    /// Whether there is work after an access by the driver VM (`for_driver`) or by the client: a piece for [`Self::serve`], or the other
    /// VM's line to be brought up to date.
    pub fn needs_attention(&self, for_driver: bool) -> bool {
        let state = self.0.lock();
        let (lines, shown) = (state.lines(), state.shown);
        let line = if for_driver {
            lines.client != shown.client
        } else {
            lines.driver != shown.driver
        };
        let asks = |traffic: &Traffic| traffic.ask_client || for_driver && traffic.ask_driver;
        let fetches = for_driver && state.fetch.is_some();
        line || state.is_served() && (fetches || state.traffic.iter().any(asks))
    }

    /// Does the next piece of work: of the client's asking alone, or also of the driver VM's, which is at `for_driver`. `all` are the memories
    /// of all VMs, among them the client's and the driver VM's. `fill` gives random bytes.
    pub fn serve<M: BoardMemory>(
        &self,
        (client, driver, all): (&M, Option<&M>, &[M]),
        for_driver: bool,
        fill: impl FnMut(&mut [u8]),
    ) -> Served {
        let mut state = self.0.lock();
        match driver {
            Some(driver) => {
                let direct = state.back.is_direct().then_some(all);
                let between = Between {
                    client,
                    driver,
                    direct,
                };
                state.serve_between(&between, for_driver)
            }
            None => state.serve_alone(client, fill),
        }
    }

    /// The counts of accesses to registers that do not exist, of the client's side.
    pub fn unknown(&self) -> Unknown {
        self.0.lock().transport.unknown()
    }

    /// The same of the driver VM's side.
    pub fn unknown_of_back_end(&self) -> Unknown {
        self.0.lock().back.unknown
    }
}

impl State {
    fn lines(&self) -> Lines {
        Lines {
            client: self.transport.level(),
            driver: self.back.interrupts != 0,
        }
    }

    /// Whether there is anybody who serves it now.
    fn is_served(&self) -> bool {
        self.backed == Backed::ByHypervisor || self.back.is_offered()
    }

    fn access(&mut self, offset: u64, access: Access) -> u64 {
        let config = self.config.get(..self.config_size).unwrap_or_default();
        let (value, event) = self.transport.access(offset, access, config);
        match event {
            Event::None => {}
            Event::Reset => self.reset(),
            Event::Ready => {
                let queues = self.kind.queues();
                let traffic = self.traffic.iter_mut().take(queues);
                traffic.for_each(|traffic| traffic.ask_client = true);
                self.back.tell(interrupt::CLIENT);
            }
            Event::Notified(queue) => {
                if let Some(traffic) = self.traffic.get_mut(queue) {
                    traffic.ask_client = true;
                }
            }
            Event::Config {
                offset,
                width,
                value,
            } => self.store_config(offset, width, value),
        }
        // What the client itself has lowered is to be raised anew.
        self.shown.client &= self.transport.level();
        value
    }

    fn access_back_end(&mut self, offset: u64, access: Access) -> u64 {
        self.unheeded_since = None;
        let client = (self.transport.is_live(), self.transport.features());
        let (value, wanted) = self.back.access(offset, access, client);
        match wanted {
            Wanted::Nothing => {}
            Wanted::Offer => self.offer(),
            Wanted::Withdraw => {
                self.withdrawn();
                self.back.end(control::WITHDRAW);
            }
            Wanted::Look(queue) => {
                if let Some(traffic) = self.traffic.get_mut(queue) {
                    traffic.ask_driver = true;
                }
            }
            Wanted::Answer => self.answer(),
            Wanted::Fetch(bytes) => self.begin_fetch(bytes),
        }
        self.shown.driver &= self.back.interrupts != 0;
        value
    }

    /// The client stores to its configuration.
    fn store_config(&mut self, offset: u64, width: Width, value: u64) {
        let end = offset.saturating_add(width.bytes());
        if !self.has_stores || width > Width::Word || end > self.config_size as u64 {
            return self.transport.count_unknown_store();
        }
        let at = offset as u32 | ((width.bytes() as u32) << 16);
        self.back.stored = [at, value as u32];
        self.waits_until = None;
        self.back.tell(interrupt::CONFIG);
    }

    /// The client has the configuration that the back end's registers have, as the answer to its store or as a change.
    fn answer(&mut self) {
        self.config_size = self.back.config().len();
        self.config = self.back.config;
        if self.back.stored[0] == 0 && self.transport.is_live() {
            self.transport.tell_changed();
        }
        self.back.stored[0] = 0;
    }

    /// Begins to copy bytes of the client's memory. A store that is made again, as an interrupt came, begins nothing.
    fn begin_fetch(&mut self, bytes: u32) {
        if self.fetch.is_some() {
            return;
        }
        self.back.left = bytes;
        let trusted = self.backed == Backed::ByVm { trusted: true };
        let may = trusted && self.back.is_offered() && self.transport.is_live();
        let [from, to] = self.back.fetch;
        self.fetch = (may && bytes > 0).then_some(Copying {
            from,
            to: Ipa::new(to),
            left: bytes,
        });
    }

    /// Copies the next bytes of the client's memory.
    fn step_fetch<M: BoardMemory>(&mut self, fetch: Copying, between: &Between<'_, M>) -> Served {
        match fetch.fetch(between) {
            Ok(next) => {
                self.back.left = next.map_or(0, |next| next.left);
                self.fetch = next;
            }
            Err(Fault {
                cause: Fail::Memory(AccessError::Absent(page)),
                ..
            }) => return Served::Absent(page),
            // What was not copied is in the register.
            Err(_) => self.fetch = None,
        }
        match self.fetch {
            Some(_) => Served::Some,
            None => Served::All,
        }
    }

    /// Offers the device as the back end's registers say.
    fn offer(&mut self) {
        if self.back.is_offered() {
            return;
        }
        self.withdrawn();
        let ring = feature::VERSION_1 | feature::EVENT_INDEX | feature::INDIRECT;
        // Bits 24 to 41 are the hypervisor's (virtio 1.2, 2.2), as is whatever it does not know.
        let features = self.back.features & feature::OF_DEVICES | ring;
        let size = self.back.queue_size();
        let accepted = size.is_some_and(|size| self.transport.offer(features, size));
        if !accepted || self.back.make_rings().is_none() {
            return self.back.end(control::REFUSED);
        }
        self.back.control = control::OFFER;
        self.back.again = self.traffic.each_ref().map(|traffic| traffic.count);
        // Whoever offers it has reset the board's device.
        (self.was_offered, self.unattended, self.held) = (true, false, false);
        let size = self.back.config().len();
        let changed = self.config != self.back.config || self.config_size != size;
        (self.config, self.config_size) = (self.back.config, size);
        self.has_stores = self.back.has_stores();
        if !self.has_stores {
            self.back.stored[0] = 0;
        }
        if self.back.stored[0] != 0 {
            self.back.tell(interrupt::CONFIG);
        }
        if self.transport.is_live() {
            if changed {
                self.transport.tell_changed();
            }
            self.back.tell(interrupt::CLIENT);
        }
    }

    /// The client's driver has reset the device, or the client was reset.
    fn reset(&mut self) {
        self.traffic.iter_mut().for_each(Traffic::forgotten);
        self.held = self.unattended || self.back.is_direct() && self.has_stale();
        self.fetch = None;
        self.back.resets = self.back.resets.wrapping_add(1);
        self.back.stored[0] = 0;
        self.back.tell(interrupt::CLIENT);
    }

    /// Whether the driver VM has requests of before the client's reset.
    fn has_stale(&self) -> bool {
        !self.traffic.iter().all(|traffic| traffic.stale.is_empty())
    }

    /// The driver VM has none of the requests any more. To be called before it loses its mode.
    fn withdrawn(&mut self) {
        let has_some = |traffic: &Traffic| !traffic.is_idle();
        self.unattended |= self.back.is_direct() && self.traffic.iter().any(has_some);
        self.traffic.iter_mut().for_each(Traffic::withdrawn);
        self.fetch = None;
    }

    /// What follows from a fault.
    fn fail(&mut self, fault: Fault) -> Served {
        match (fault.cause, fault.place) {
            (Fail::Memory(AccessError::Absent(page)), _) => return Served::Absent(page),
            (_, Place::Client) => {
                self.transport.break_down();
                // What is under way is given back to nobody.
                self.reset();
            }
            (_, Place::Driver) => {
                self.withdrawn();
                self.back.end(control::FAILED);
                self.back.interrupts |= interrupt::CLIENT;
            }
        }
        Served::All
    }

    /// A piece of work of a device that the hypervisor serves.
    fn serve_alone<M: BoardMemory>(&mut self, client: &M, fill: impl FnMut(&mut [u8])) -> Served {
        let [traffic, ..] = &mut self.traffic;
        let Some(queue) = self.transport.queue(0).filter(|_| traffic.ask_client) else {
            traffic.ask_client = false;
            return Served::All;
        };
        let served = entropy::serve(queue, client, fill).and_then(|served| {
            let tell = served && queue.has_to_tell(client)?;
            Ok((served, tell))
        });
        match served {
            Ok((served, tell)) => {
                traffic.ask_client = served;
                if tell {
                    self.transport.tell_used();
                }
                if served { Served::Some } else { Served::All }
            }
            Err(fault) => self.fail(fault),
        }
    }

    /// A piece of work of a device that a VM serves.
    fn serve_between<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        for_driver: bool,
    ) -> Served {
        for _ in 0..STEPS {
            if let Some(fetch) = self.fetch.filter(|_| for_driver) {
                match self.step_fetch(fetch, between) {
                    Served::Some => continue,
                    ended => return ended,
                }
            }
            let asks = |traffic: &Traffic| traffic.ask_client || for_driver && traffic.ask_driver;
            let turns = self.turn..self.turn + MAX_QUEUES;
            let mut turns = turns.map(|turn| turn % MAX_QUEUES);
            let index = turns.find(|index| self.traffic.get(*index).is_some_and(asks));
            let Some(index) = index.filter(|_| self.back.is_offered()) else {
                return Served::All;
            };
            self.turn = index;
            if let Err(fault) = self.step(between, index, for_driver) {
                return self.fail(fault);
            }
        }
        Served::Some
    }

    /// A step of one queue.
    fn step<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        index: usize,
        for_driver: bool,
    ) -> Result<(), Fault> {
        let Some(traffic) = self.traffic.get_mut(index) else {
            return Ok(());
        };
        let Some(Some(ring)) = self.back.rings.get_mut(index) else {
            // The device does not have this queue.
            (traffic.ask_client, traffic.ask_driver) = (false, false);
            return Ok(());
        };
        if for_driver && traffic.ask_driver {
            return self.step_back(between, index);
        }
        let Some(queue) = self.transport.queue(index) else {
            traffic.ask_client = false;
            return Ok(());
        };
        if traffic.request.is_none() {
            traffic.next_request(queue, between.client, self.back.head)?;
        }
        let Some(request) = &mut traffic.request else {
            return Ok(());
        };
        let head = request.head;
        let Given { count, tail } = match request.step(between, ring) {
            Ok(Step::Done(given)) => given,
            Ok(Step::More) => return Ok(()),
            Err(fault) => {
                // It is still the next one of the client's.
                traffic.request = None;
                return Err(fault);
            }
        };
        if count == 0 {
            return Err(Breach::Length.into());
        }
        let told = ring.publish(between.driver, head, count);
        let tell = told.map_err(|fault| fault.at(Place::Driver))?;
        traffic.request = None;
        if let Some(place) = self
            .tails
            .get_mut(usize::from(head.index()))
            .filter(|_| index == 0)
        {
            *place = tail;
        }
        if traffic.is_again {
            traffic.again.remove(head);
        } else {
            queue.advance();
            traffic.take(head);
        }
        if tell {
            self.back.tell(interrupt::REQUESTS);
        }
        Ok(())
    }

    /// A step of what the driver VM has given back.
    fn step_back<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        index: usize,
    ) -> Result<(), Fault> {
        let keeps = index == 0 && self.back.keeps();
        let (Some(traffic), Some(Some(ring))) =
            (self.traffic.get_mut(index), self.back.rings.get_mut(index))
        else {
            return Ok(());
        };
        let at_driver = |fault: Fault| fault.at(Place::Driver);
        let Some(reply) = &mut traffic.reply else {
            let Some(answer) = ring.peek(between.driver).map_err(at_driver)? else {
                traffic.ask_driver = false;
                traffic.ask_client = true;
                return Ok(());
            };
            if traffic.stale.contains(answer.head) {
                ring.took(between.driver).map_err(at_driver)?;
                traffic.stale.remove(answer.head);
                self.held &= self.unattended || self.has_stale();
                return Ok(());
            }
            let known =
                traffic.under_way.contains(answer.head) && !traffic.again.contains(answer.head);
            let queue = self.transport.queue(index);
            let (Some(queue), true) = (queue, known) else {
                return Err(at_driver(Breach::Head.into()));
            };
            let tail = self.tails.get(usize::from(answer.head.index()));
            let tail = tail.filter(|tail| keeps && tail.is_known());
            let Some(tail) = tail else {
                traffic.reply = Some(Reply::new(answer, queue.chain(answer.head)));
                return Ok(());
            };
            let given = tail.give(between, ring, answer)?;
            return self.finish(between, index, answer.head, given);
        };
        let Step::Done(given) = reply.step(between, ring)? else {
            return Ok(());
        };
        let head = reply.answer.head;
        self.finish(between, index, head, given)
    }

    /// Gives a request back to the client, with `given` bytes.
    fn finish<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        index: usize,
        head: Head,
        given: u32,
    ) -> Result<(), Fault> {
        let (Some(traffic), Some(Some(ring))) =
            (self.traffic.get_mut(index), self.back.rings.get_mut(index))
        else {
            return Ok(());
        };
        let Some(queue) = self.transport.queue(index) else {
            traffic.reply = None;
            return Ok(());
        };
        queue.finish(between.client, head, given)?;
        traffic.reply = None;
        traffic.under_way.remove(head);
        traffic.count = traffic.count.saturating_sub(1);
        // The request is done: what fails now is no reason to do it again. An interrupt too many does no harm.
        if queue.has_to_tell(between.client).unwrap_or(true) {
            self.transport.tell_used();
        }
        // The next queue has its turn.
        self.turn = index + 1;
        ring.took(between.driver)
            .map_err(|fault| fault.at(Place::Driver))
    }
}

impl Traffic {
    /// Finds the next request to give: of those that are given again, or a new one of the client's. If there is none, the client is
    /// asked to notify of the next one. The first `bytes` of what the driver VM may read are copied in each mode.
    fn next_request<M: BoardMemory>(
        &mut self,
        queue: &super::Queue,
        client: &M,
        bytes: u32,
    ) -> Result<(), Fault> {
        if let Some(head) = self.first_again() {
            (self.request, self.is_again) =
                (Some(Request::new(head, queue.chain(head), bytes)), true);
            return Ok(());
        }
        if let Some((head, chain)) = queue.peek(client)? {
            if self.under_way.contains(head) {
                return Err(Breach::Head.into());
            }
            if self.stale.contains(head) {
                // The driver VM still has the slot.
                self.ask_client = false;
                return Ok(());
            }
            (self.request, self.is_again) = (Some(Request::new(head, chain, bytes)), false);
            return Ok(());
        }
        let listening = queue.listen(client, self.count < QUIET_FROM)?;
        self.ask_client = listening == Listening::More;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
