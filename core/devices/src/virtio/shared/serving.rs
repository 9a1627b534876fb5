//! The work of a shared device, a piece at a time: requests that the client has made, what its driver VM has given back, and what that
//! asks for of the client's memory.

use super::{Served, State};
use crate::virtio::queue::Head;
use crate::virtio::traffic::Traffic;
use crate::virtio::transfer::{Between, BoardMemory, Copying, Reply, Step};
use crate::virtio::transport::MAX_QUEUES;
use crate::virtio::{Breach, Fail, Fault, Place, entropy};
use hanok_abi::back_end::{control, interrupt};
use hanok_hal::AccessError;

/// The most steps of a piece: one of six descriptors, each with a small copy, takes most of what may be between two looks for interrupts.
const STEPS: usize = 1;

impl State {
    /// Copies the next bytes of the client's memory.
    fn step_fetch<M: BoardMemory>(&mut self, fetch: Copying, between: &Between<'_, M>) -> Served {
        let mut fetch = fetch;
        match fetch.fetch(between) {
            Ok(()) => {
                self.back.left = fetch.left;
                self.fetch = Some(fetch).filter(|fetch| fetch.left > 0);
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

    /// What follows from a fault.
    #[cold]
    #[inline(never)]
    fn fail(&mut self, fault: Fault) -> Served {
        match (fault.cause, fault.place) {
            (Fail::Memory(AccessError::Absent(page)), _) => return Served::Absent(page),
            (_, Place::Client) => self.breaks = true,
            (_, Place::Driver) => {
                self.withdrawn();
                self.back.end(control::FAILED);
                self.back.interrupts |= interrupt::CLIENT;
            }
        }
        Served::Some
    }

    /// What is a piece of its own: an offer was work enough for one, as is what was broken off.
    #[cold]
    #[inline(never)]
    fn settle(&mut self) -> Served {
        self.is_new = false;
        if self.breaks {
            self.transport.break_down();
            // What is under way is given back to nobody. If it was being given back, it is taken of the ring next: the driver VM, which
            // has told of it, tells no second time.
            self.reset();
        }
        Served::Some
    }

    /// A piece of work of a device that the hypervisor serves.
    pub(super) fn serve_alone<M: BoardMemory>(
        &mut self,
        client: &M,
        fill: impl FnMut(&mut [u8]),
    ) -> Served {
        if self.breaks {
            return self.settle();
        }
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
    pub(super) fn serve_between<M: BoardMemory>(
        &mut self,
        between: &Between<'_, M>,
        for_driver: bool,
    ) -> Served {
        if self.is_new || self.breaks {
            return self.settle();
        }
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
        match request.step(between, ring, &mut self.room) {
            Ok(Step::Done) => {}
            Ok(Step::More) => return Ok(()),
            Err(fault) => {
                // It is still the next one of the client's.
                traffic.request = None;
                return Err(fault);
            }
        }
        let (count, tail) = (request.count, request.tail);
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
        if traffic.took(head) {
            queue.advance();
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
        if traffic.reply.is_none() {
            let Some(answer) = ring.peek(between.driver).map_err(at_driver)? else {
                traffic.ask_driver = false;
                // Otherwise the client notifies by itself.
                traffic.ask_client |= traffic.looks_later;
                return Ok(());
            };
            if traffic.stale.contains(answer.head) {
                let took = ring.took(between.driver).map_err(at_driver);
                traffic.stale.remove(answer.head);
                self.held &= self.unattended || self.has_stale();
                return took;
            }
            let known =
                traffic.under_way.contains(answer.head) && !traffic.again.contains(answer.head);
            let queue = self.transport.queue(index);
            let (Some(queue), true) = (queue, known) else {
                return Err(at_driver(Breach::Head.into()));
            };
            let tail = self.tails.get(usize::from(answer.head.index()));
            let tail = tail.filter(|tail| keeps && tail.is_known());
            if let Some(tail) = tail {
                let given = tail.give(between, ring, answer)?;
                return self.finish(between, index, answer.head, given);
            }
            traffic.reply = Some(Reply::new(answer, queue.chain(answer.head)));
        }
        let Some(reply) = &mut traffic.reply else {
            return Ok(());
        };
        if reply.step(between, ring, &mut self.room)? == Step::More {
            return Ok(());
        }
        let (head, given) = (reply.head, reply.written - reply.left);
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
        traffic.gave_back(head);
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
