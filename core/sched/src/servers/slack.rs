//! Who gets the time that a server without work pays for, or that nobody was promised.

use super::bank::Bank;
use super::server::{Server, State};
use crate::Entity;

impl<const N: usize> Bank<N> {
    /// The first of the ready servers that have work.
    pub fn next_ready(&self) -> Option<Entity<N>> {
        self.first_with_work(State::Ready, |server| server.key)
    }

    /// Of the servers that have work and are out of budget, the one whose budget is replenished first.
    pub fn next_spent(&self) -> Option<Entity<N>> {
        let (first, _) = self.timers.first()?;
        if self.is_spent(first) {
            return Some(first);
        }
        self.first_with_work(State::Spent, |server| server.next)
    }

    /// Of the servers that have work and are in `state`, the one with the least `key`: a look at each, as whoever is
    /// before it sleeps.
    #[inline(never)]
    fn first_with_work(&self, state: State, key: fn(&Server) -> u64) -> Option<Entity<N>> {
        let servers = self.servers.iter().take(self.used).enumerate();
        let with_work = servers.filter(|(_, server)| server.work && server.state == state);
        let (index, _) = with_work.min_by_key(|(_, server)| key(server))?;
        Entity::new(index)
    }
}
