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

/// A list of heads. Of a list without any, `first` and `last` say nothing, nor do the neighbours of a head that is not in it.
#[derive(Debug)]
struct Order {
    first: u8,
    last: u8,
    before: [u8; MAX_QUEUE_SIZE as usize],
    after: [u8; MAX_QUEUE_SIZE as usize],
}

impl Order {
    const EMPTY: Self = Self {
        first: 0,
        last: 0,
        before: [0; MAX_QUEUE_SIZE as usize],
        after: [0; MAX_QUEUE_SIZE as usize],
    };

    fn after(&self, head: Head) -> u8 {
        self.after[usize::from(head.index() as u8)]
    }

    /// Adds a head at the end; `is_empty` says that it is the only one.
    fn push(&mut self, head: Head, is_empty: bool) {
        let head = head.index() as u8;
        if is_empty {
            self.first = head;
        }
        self.after[usize::from(self.last)] = head;
        self.before[usize::from(head)] = self.last;
        self.last = head;
    }

    /// Takes out a head that is in it.
    fn remove(&mut self, head: Head) {
        let head = head.index() as u8;
        let before = self.before[usize::from(head)];
        let after = self.after[usize::from(head)];
        if head == self.first {
            self.first = after;
        } else {
            self.after[usize::from(before)] = after;
        }
        if head == self.last {
            self.last = before;
        } else {
            self.before[usize::from(after)] = before;
        }
    }
}

const _: () = assert!(MAX_QUEUE_SIZE as usize == u8::MAX as usize + 1);

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
    /// The heads that are under way, in the order in which they were taken.
    order: Order,
    /// The first of `again`, if there is one: whatever was taken later is among them.
    next_again: u8,
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
        order: Order::EMPTY,
        next_again: 0,
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
        self.next_again = self.order.first;
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

    /// `request` was given to the driver VM: for the first time, and then this is the answer, or again.
    pub(super) fn took(&mut self, head: Head) -> bool {
        if self.is_again {
            self.again.remove(head);
            self.next_again = self.order.after(head);
            return false;
        }
        self.under_way.insert(head);
        self.order.push(head, self.count == 0);
        self.count += 1;
        true
    }

    /// A request that the driver VM has is given back.
    pub(super) fn gave_back(&mut self, head: Head) {
        self.reply = None;
        if self.under_way.remove(head) {
            self.order.remove(head);
            self.count -= 1;
        }
    }

    /// The request that was taken first among those that are to be given again.
    fn first_again(&self) -> Option<Head> {
        let some = !self.again.is_empty();
        some.then_some(Head::new(self.next_again.into(), MAX_QUEUE_SIZE))?
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
            self.request = Some(Request::new(head, queue.chain(head), bytes));
            self.is_again = true;
            return Ok(());
        }
        if let Some(head) = queue.peek(client)? {
            if self.under_way.contains(head) {
                return Err(Breach::Head.into());
            }
            if self.stale.contains(head) {
                // The driver VM still has the slot.
                (self.ask_client, self.looks_later) = (false, true);
                return Ok(());
            }
            self.request = Some(Request::new(head, queue.chain(head), bytes));
            self.is_again = false;
            return Ok(());
        }
        // One request alone is answered most often before the next one is made.
        self.looks_later = self.count > 1;
        let listening = queue.listen(client, self.count < QUIET_FROM)?;
        self.ask_client = listening == Listening::More;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Beside a list that is searched: requests are taken, given back in any order, given again after the driver VM came anew, and forgotten.
    #[test]
    fn what_is_given_again_keeps_its_order() {
        let mut traffic = Traffic::NONE;
        let (mut all, mut again): (Vec<u16>, Vec<u16>) = (Vec::new(), Vec::new());
        let mut state = 1_u32;
        let mut random = |below: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize % below
        };
        let (mut most, mut given_again) = (0, 0);
        for _ in 0..60_000 {
            let head = |index: u16| Head::new(index.into(), MAX_QUEUE_SIZE).unwrap();
            assert_eq!(
                traffic.first_again(),
                again.first().map(|index| head(*index))
            );
            match random(2_000) {
                0 => {
                    traffic.withdrawn();
                    again.clone_from(&all);
                }
                1 => {
                    traffic.forgotten();
                    (all, again) = (Vec::new(), Vec::new());
                }
                2..1000 => {
                    traffic.is_again = !again.is_empty();
                    if traffic.is_again {
                        let first = again.remove(0);
                        assert!(!traffic.took(head(first)));
                        given_again += 1;
                        continue;
                    }
                    let index = random(MAX_QUEUE_SIZE.into()) as u16;
                    if !all.contains(&index) {
                        assert!(traffic.took(head(index)));
                        all.push(index);
                    }
                }
                _ => {
                    let given: Vec<u16> = all
                        .iter()
                        .filter(|index| !again.contains(index))
                        .copied()
                        .collect();
                    if !given.is_empty() && random(100) < 20 {
                        let index = given[random(given.len())];
                        traffic.gave_back(head(index));
                        all.retain(|one| *one != index);
                    }
                }
            }
            assert_eq!(usize::from(traffic.count), all.len());
            most = most.max(all.len());
        }
        assert!(most > 200 && given_again > 1_000, "{most} {given_again}");
    }
}
