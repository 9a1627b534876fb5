//! What is known of the requests of a queue of a shared device: which heads are under way, and in which order they were taken.

use super::queue::{Head, Listening, Queue};
use super::transfer::{BoardMemory, Reply, Request};
use super::{Breach, Fault};
use hanok_abi::back_end::MAX_QUEUE_SIZE;

/// The client is not asked to notify of further requests while so many are under way: those are found as one of these is given back.
const QUIET_FROM: u16 = 4;
/// The places of a set of heads, in words.
const WORDS: usize = MAX_QUEUE_SIZE as usize / 64;

/// A set of a queue's heads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heads([u64; WORDS]);

impl Heads {
    fn word(&mut self, head: Head) -> Option<(&mut u64, u64)> {
        let index = usize::from(head.index());
        let word = self.0.get_mut(index / 64)?;
        Some((word, 1 << (index % 64)))
    }

    pub(super) fn insert(&mut self, head: Head) {
        if let Some((word, bit)) = self.word(head) {
            *word |= bit;
        }
    }

    /// Whether it was in there.
    pub(super) fn remove(&mut self, head: Head) -> bool {
        let Some((word, bit)) = self.word(head) else {
            return false;
        };
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    pub(super) fn contains(&self, head: Head) -> bool {
        let index = usize::from(head.index());
        let word = self.0.get(index / 64).copied().unwrap_or(0);
        word >> (index % 64) & 1 != 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

/// What is known of the requests of one queue.
#[derive(Debug)]
pub(super) struct Traffic {
    /// Heads that were taken of the client's queue and not given back.
    pub(super) under_way: Heads,
    /// How many these are.
    pub(super) count: u16,
    /// Those of them that the driver VM does not have, as it came anew.
    pub(super) again: Heads,
    /// Heads of before the client's last reset that the driver VM still has.
    pub(super) stale: Heads,
    /// When each head that is under way was taken: a count of all requests of the queue.
    pub(super) taken: [u16; MAX_QUEUE_SIZE as usize],
    pub(super) next: u16,
    pub(super) request: Option<Request>,
    /// Whether `request` was taken before.
    pub(super) is_again: bool,
    pub(super) reply: Option<Reply>,
    /// Whether there may be requests that the client has made.
    pub(super) ask_client: bool,
    /// Whether the client's queue is looked at again once the driver VM has given something back: several are under way, of which the
    /// client may have been asked not to notify, or one waits for its slot.
    pub(super) looks_later: bool,
    /// Whether there may be requests that the driver VM has given back.
    pub(super) ask_driver: bool,
}

impl Traffic {
    pub(super) const NONE: Self = Self {
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
        looks_later: false,
        ask_driver: false,
    };

    /// The driver VM has none of the requests any more.
    pub(super) fn withdrawn(&mut self) {
        self.again = self.under_way;
        self.stale = Heads::default();
        (self.request, self.reply) = (None, None);
        (self.ask_client, self.ask_driver) = (true, false);
    }

    /// The client has forgotten its requests.
    pub(super) fn forgotten(&mut self) {
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
    pub(super) fn is_idle(&self) -> bool {
        let given = self.under_way.0.iter().zip(&self.again.0);
        self.stale.is_empty() && given.map(|(all, again)| all & !again).all(|word| word == 0)
    }

    pub(super) fn take(&mut self, head: Head) {
        self.under_way.insert(head);
        self.count += 1;
        if let Some(taken) = self.taken.get_mut(usize::from(head.index())) {
            *taken = self.next;
        }
        self.next = self.next.wrapping_add(1);
    }

    /// The request that was taken first among those that are to be given again.
    pub(super) fn first_again(&self) -> Option<Head> {
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

impl Traffic {
    /// Finds the next request to give: of those that are given again, or a new one of the client's. If there is none, the client is
    /// asked to notify of the next one. The first `bytes` of what the driver VM may read are copied in each mode.
    pub(super) fn next_request<M: BoardMemory>(
        &mut self,
        queue: &Queue,
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
                (self.ask_client, self.looks_later) = (false, true);
                return Ok(());
            }
            (self.request, self.is_again) = (Some(Request::new(head, chain, bytes)), false);
            return Ok(());
        }
        // One request alone is answered most often before the next one is made.
        self.looks_later = self.count > 1;
        let listening = queue.listen(client, self.count < QUIET_FROM)?;
        self.ask_client = listening == Listening::More;
        Ok(())
    }
}
