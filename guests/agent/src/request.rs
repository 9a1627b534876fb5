//! What programs ask the agent, a line each (docs/real-time-guests.md).

use alloc::format;
use alloc::string::{String, ToString};

use crate::keys::{self, Keys, needed};
use hanok_schedule::Task;

/// The longest line, its end included.
pub const LONGEST: usize = 256;

/// A task that is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Its name, for people.
    pub name: String,
    /// Its times.
    pub task: Task,
    /// The thread; none: the one that connected.
    pub thread: Option<i32>,
    /// Whether it belongs to its thread, and not to the connection that declares it.
    pub stays: bool,
    /// Whether its execution time follows what is measured.
    pub measured: bool,
    /// The CPU that it must be on, if it must be on one.
    pub cpu: Option<usize>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Declares a task.
    Declare(Declaration),
    /// Takes one back.
    Revoke(u32),
    /// Tells the longest CPU time of a task's jobs.
    Used(u32, u64),
    /// Asks for all tasks.
    List,
    /// Asks for the vCPUs.
    Status,
}

impl Request {
    /// Reads a line; an error says what is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let line = core::str::from_utf8(line).map_err(|_| "the line is no text".to_string())?;
        let (first, mut keys) = Keys::of(line);
        let request = match first {
            "declare" => Self::Declare(declaration(&mut keys)?),
            "revoke" => Self::Revoke(needed("id", keys.number("id")?)?),
            "used" => {
                let id = needed("id", keys.number("id")?)?;
                Self::Used(id, needed("longest", keys.time("longest")?)?)
            }
            "list" => Self::List,
            "status" => Self::Status,
            _ => return Err("declare, revoke, used, list or status is wanted".to_string()),
        };
        keys.end()?;
        Ok(request)
    }
}

/// The declaration in a line's keys.
pub fn declaration(keys: &mut Keys<'_>) -> Result<Declaration, String> {
    let name = keys::name(keys.text("name").unwrap_or("task"))?;
    let task = task(keys)?;
    if task.deadline > task.period {
        return Err("Linux wants deadlines of at most the period".to_string());
    }
    let thread = keys.number("thread")?.map(|thread| thread as i32);
    if thread == Some(0) {
        return Err("thread wants the number of a thread".to_string());
    }
    Ok(Declaration {
        name,
        task,
        thread,
        stays: keys.word("stays"),
        measured: keys.word("measured"),
        cpu: keys.number("cpu")?.map(|cpu| cpu as usize),
    })
}

/// A task's times.
pub fn task(keys: &mut Keys<'_>) -> Result<Task, String> {
    let period = needed("period", keys.time("period")?)?;
    let execution = needed("execution", keys.time("execution")?)?;
    let deadline = keys.time("deadline")?.filter(|deadline| *deadline > 0);
    let deadline = deadline.unwrap_or(period);
    if execution == 0 || execution > deadline || execution > period {
        return Err(format!(
            "execution wants more than 0, and at most {}",
            deadline.min(period)
        ));
    }
    Ok(Task {
        period,
        execution,
        deadline,
    })
}
