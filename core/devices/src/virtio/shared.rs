//! A virtio device of one VM, its client, with what a driver VM has of it, if one serves it.
//!
//! Both VMs reach the one record, each by a slot of its own. A request belongs to the client's queue until it is given
//! back: its head is under way, in the order in which it was taken. If the driver VM withdraws the device or dies, all heads that are under way
//! are given again, in that order, once the device is offered again. If the client resets the device, its
//! heads are *stale*: what the driver VM gives back of them is dropped, and their slots are not used before.
//!
//! [`SharedDevice::serve`] does a bounded piece of what there is to do, and says whether there is more.

use super::back_end::{BackEnd, Nature, Wanted};
use super::chain::Table;
use super::feature;
use super::traffic::Traffic;
use super::transfer::{Between, BoardMemory, Copying, Room, Tail};
use super::transport::{CONFIG, Event, Identity, MAX_QUEUES, Transport};
use crate::{Access, Unknown};
use hanok_abi::back_end::{MAX_CONFIG, MAX_QUEUE_SIZE, control, interrupt, mode};
use hanok_config::VirtioKind;
use hanok_hal::Mutex;
use hanok_types::{GuestPage, Ipa, Width};

/// The offset of the first register of a transport that says what the back end offers; those before it say what device it is.
const FIRST_OFFERED: u64 = 0x10;
/// The part of the time for the first offer for which a client waits for the answer to a store to its configuration.
const PART_FOR_ANSWER: u64 = 10;
/// The size of the queue of a device that the hypervisor serves.
const OWN_QUEUE: u16 = 16;

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

/// Something of each of a device's interrupt lines, such as its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Of the client's.
    pub client: bool,
    /// Of the driver VM's.
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
    /// Whether it was offered since its work was last looked at.
    is_new: bool,
    /// Whether the client has broken a rule, for which its device is to be broken next.
    breaks: bool,
    /// When [`SharedDevice::unheeded`] first found the driver VM's line raised, of which it has not accessed a register since.
    unheeded_since: Option<u64>,
    /// What the driver VM has asked for of the client's memory.
    fetch: Option<Copying>,
    traffic: [Traffic; MAX_QUEUES],
    room: Room,
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
            is_new: false,
            breaks: false,
            unheeded_since: None,
            fetch: None,
            traffic: [Traffic::NONE; MAX_QUEUES],
            room: (Table::EMPTY, Table::EMPTY),
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

    /// Which of the interrupt lines have another level than at the last call, for whoever brings the lines in both VMs up to date.
    #[must_use]
    pub fn show(&self) -> Lines {
        let mut state = self.0.lock();
        let (lines, shown) = (state.lines(), state.shown);
        state.shown = lines;
        Lines {
            client: lines.client != shown.client,
            driver: lines.driver != shown.driver,
        }
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
        self.0.lock().needs_attention(for_driver)
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

    /// [`SharedDevice::needs_attention`].
    fn needs_attention(&self, for_driver: bool) -> bool {
        let (lines, shown) = (self.lines(), self.shown);
        let line = if for_driver {
            lines.client != shown.client
        } else {
            lines.driver != shown.driver
        };
        let asks = |traffic: &Traffic| traffic.ask_client || for_driver && traffic.ask_driver;
        let fetches = for_driver && self.fetch.is_some();
        line || self.is_served() && (fetches || self.traffic.iter().any(asks))
    }

    fn access(&mut self, offset: u64, access: Access) -> u64 {
        let config = self.config.get(..self.config_size).unwrap_or_default();
        let was_live = self.transport.is_live();
        let (value, event) = self.transport.access(offset, access, config);
        match event {
            // A rule is broken: as after a fault, what is under way is given back to nobody.
            Event::None if was_live && !self.transport.is_live() => self.reset(),
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
        self.is_new = true;
        self.back.again = self.traffic.each_ref().map(|traffic| traffic.count);
        // Whoever offers it has reset the board's device.
        (self.was_offered, self.unattended, self.held) = (true, false, false);
        let size = self.back.config().len();
        // By words: the routine that compares bytes takes a thousand instructions.
        let (was, now) = (
            self.config.as_chunks::<4>().0,
            self.back.config.as_chunks::<4>().0,
        );
        let word = |bytes: &[u8; 4]| u32::from_ne_bytes(*bytes);
        let same = was.iter().map(word).eq(now.iter().map(word));
        let changed = !same || self.config_size != size;
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
        self.breaks = false;
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
}

mod at_once;
mod serving;
#[cfg(test)]
mod tests;
