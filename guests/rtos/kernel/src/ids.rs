//! A task's number, and sets of tasks.

use core::fmt;

/// The largest number of tasks: a [`TaskSet`] has a bit for each.
pub const MAX_TASKS: usize = 32;

/// A task: its index in the kernel's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(u8);

impl TaskId {
    /// The task at this place of the table, which is below [`MAX_TASKS`].
    pub const fn new(index: u8) -> Self {
        Self(index)
    }

    /// The task's index in tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of tasks, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskSet(u32);

impl TaskSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// Adds one.
    pub fn insert(&mut self, task: TaskId) {
        self.0 |= 1 << task.0;
    }

    /// Takes one out.
    pub fn remove(&mut self, task: TaskId) {
        self.0 &= !(1 << task.0);
    }

    /// Whether this one is in it.
    pub const fn contains(self, task: TaskId) -> bool {
        self.0 & (1 << task.0) != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its members, lowest first.
    pub fn iter(self) -> impl Iterator<Item = TaskId> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let lowest = TaskId(left.trailing_zeros() as u8);
            left &= left.checked_sub(1)?;
            Some(lowest)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_keeps_its_members() {
        let mut set = TaskSet::EMPTY;
        for index in [31, 0, 7, 9] {
            set.insert(TaskId::new(index));
        }
        set.remove(TaskId::new(9));
        assert!(set.iter().map(TaskId::index).eq([0, 7, 31]));
        assert!(set.contains(TaskId::new(31)) && !set.contains(TaskId::new(9)));
    }
}
