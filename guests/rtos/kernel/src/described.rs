//! Tasks that the command line describes:
//! `NAME:PERIOD:EXECUTION[:DEADLINE[:OFFSET[:PRIORITY]]],...`, times in whole microseconds.
//!
//! The text is checked once, and read again whenever the tasks are asked for: so a description is
//! as small as a reference, and needs no storage for tasks.

use crate::sets::task;
use crate::{Entry, MAX_TASKS};

/// The largest length of a name in bytes: what a debugger sees of it.
pub const NAME_LENGTH: usize = 16;
/// The shortest period and deadline in microseconds: the kernel takes a part of each.
pub const LEAST_PERIOD: u64 = 100;
/// The shortest execution time in microseconds; the image cannot end a job much earlier.
pub const LEAST_EXECUTION: u64 = 5;

/// Between the parts of a task.
const PART: char = ':';
/// Between tasks.
const TASK: char = ',';

/// A list of tasks, 1 to [`MAX_TASKS`], with different names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description(&'static str);

impl Description {
    /// Checks a list of tasks.
    ///
    /// # Errors
    ///
    /// The first task of the text that is wrong or too many, or has the name of one before it.
    pub fn parse(text: &'static str) -> Result<Self, &'static str> {
        for (index, part) in text.split(TASK).enumerate() {
            let entry = entry(part).filter(|_| index < MAX_TASKS).ok_or(part)?;
            let mut before = text.split(TASK).take(index).filter_map(self::entry);
            if before.any(|other| other.name == entry.name) {
                return Err(part);
            }
        }
        Ok(Self(text))
    }

    /// The tasks, in the order of the text.
    pub fn entries(self) -> impl Iterator<Item = Entry> {
        self.0.split(TASK).filter_map(entry)
    }
}

/// Reads a task.
fn entry(text: &'static str) -> Option<Entry> {
    let (name, times) = text.split_once(PART)?;
    let mut times = times.split(PART);
    let (period, execution) = (number(times.next()?)?, number(times.next()?)?);
    let mut other = |default| times.next().map_or(Some(default), number);
    let entry = Entry {
        deadline: other(period)?,
        offset: other(0)?,
        priority: other(0)?,
        ..task(name, period, execution)
    };
    let right = times.next().is_none()
        && (1..=NAME_LENGTH).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic())
        && entry.period.min(entry.deadline) >= LEAST_PERIOD
        && entry.budget >= LEAST_EXECUTION;
    right.then_some(entry)
}

/// A number of digits alone: `parse` would take a sign.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{format, string::String, vec::Vec};

    fn read(text: &'static str) -> Vec<Entry> {
        Description::parse(text).unwrap().entries().collect()
    }

    /// `count` tasks, with names of their own.
    fn many(count: usize) -> &'static str {
        let tasks: Vec<String> = (0..count).map(|at| format!("t{at}:1000:10")).collect();
        tasks.join(",").leak()
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let tasks = read("a:5000:400,b:100:5:200,c:7000000:6:900:50");
        assert_eq!(tasks[0], task("a", 5_000, 400));
        assert_eq!((tasks[1].deadline, tasks[1].offset), (200, 0));
        assert_eq!((tasks[2].deadline, tasks[2].offset), (900, 50));
        assert_eq!(read("x:500:10:300:0:7")[0].priority, 7);
    }

    #[test]
    fn times_are_ticks_and_never_ask_for_more_than_they_say() {
        let specs = crate::Set::described(Description::parse("a:101:21:101:3").unwrap());
        let spec = specs.specs(62_500_000)[0];
        // 101 us are 6312.5 ticks; two microseconds of the job are for its end.
        assert_eq!((spec.period, spec.deadline), (6_313, 6_312));
        assert_eq!(
            (spec.offset, spec.budget, spec.execution),
            (187, 1_312, 1_187)
        );
    }

    #[test]
    fn many_tasks_are_read_in_order() {
        let tasks = read(many(MAX_TASKS));
        assert_eq!(tasks.len(), MAX_TASKS);
        assert_eq!((tasks[0].name, tasks[31].name), ("t0", "t31"));
        assert_eq!(Description::parse(many(MAX_TASKS + 1)), Err("t32:1000:10"));
    }

    #[test]
    fn the_wrong_task_is_named() {
        for wrong in [
            "",
            "b",
            "b:1000",
            ":1000:10",
            "b:99:10",
            "b:1000:4",
            "b:1000:10:99",
            "b:1000:+10",
            "b:1000:10.5",
            "b:1000:10:",
            "b:1000:10:900:0:0:0",
            "b:1000:99999999999999999999",
            "a:1000:10",
            "a-name-of-17-char:1000:10",
        ] {
            let text = format!("a:1000:10,{wrong},c:1000:10").leak();
            assert_eq!(Description::parse(text), Err(wrong));
        }
    }
}
