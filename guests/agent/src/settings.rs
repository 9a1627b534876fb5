//! The configuration: a file of lines, such as
//!
//! ```text
//! # Besides the tasks, the rest of Linux gets this on each vCPU that has any.
//! background period=1s execution=50ms
//! # What Linux needs for each job: two switches and an interrupt.
//! per-job 20us
//! user 1000
//! task name=control command=controld period=10ms execution=2ms
//! ```

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::keys::{Keys, needed};
use crate::request::{Declaration, declaration, task};
use crate::time;
use hanok_schedule::Task;

/// A task of a program that knows nothing of the agent: whoever has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The program's name, as /proc/PID/comm has it.
    pub command: String,
    /// The task that its first thread is.
    pub declaration: Declaration,
}

/// The configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The work of Linux beside the tasks, the agent's own included.
    pub background: Option<Task>,
    /// What Linux needs for each job beyond the program's own time.
    pub per_job: u64,
    /// The unit of budgets.
    pub tick: u64,
    /// Whether a vCPU keeps at least the budget that it had when the agent came.
    pub keeps: bool,
    /// Whether all tasks' execution times follow what is measured.
    pub measure: bool,
    /// The margin above what is measured, in per cent.
    pub margin: u32,
    /// The users, besides root, who may declare their own threads.
    pub users: Vec<u32>,
    /// Tasks of programs that know nothing of the agent.
    pub rules: Vec<Rule>,
}

impl Default for Settings {
    /// Linux since 6.12 gives everything that has no deadline 50 ms in each second (the fair server), by a deadline
    /// of its own. Older kernels are reckoned with in the same way, so that the agent itself gets to run.
    fn default() -> Self {
        Self {
            background: Some(Task::new(1_000_000_000, 50_000_000)),
            per_job: 20_000,
            tick: 1_000,
            keeps: false,
            measure: false,
            margin: 25,
            users: Vec::new(),
            rules: Vec::new(),
        }
    }
}

impl Settings {
    /// Reads a file's text; an error names its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut settings = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let read = settings.line(line);
            read.map_err(|error| format!("line {number}: {error}"))?;
        }
        Ok(settings)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let (first, mut keys) = Keys::of(line);
        match first {
            "" => {}
            "background" if keys.word("none") => self.background = None,
            "background" => self.background = Some(task(&mut keys)?),
            "per-job" => self.per_job = a_time(&mut keys)?,
            "tick" => self.tick = a_time(&mut keys)?.max(1),
            "keep" => self.keeps = true,
            "measure" => self.measure = true,
            "margin" => self.margin = a_number(&mut keys)?.min(1000),
            "user" => self.users.push(a_number(&mut keys)?),
            "task" => {
                let command = needed("command", keys.text("command"))?.to_string();
                let declaration = declaration(&mut keys)?;
                self.rules.push(Rule {
                    command,
                    declaration,
                });
            }
            other => return Err(format!("{other} is not known")),
        }
        keys.end()
    }
}

fn a_time(keys: &mut Keys<'_>) -> Result<u64, String> {
    let text = needed("a time", keys.next_word())?;
    time::parse(text).ok_or_else(|| format!("{text} is no time such as 20us"))
}

fn a_number(keys: &mut Keys<'_>) -> Result<u32, String> {
    let text = needed("a number", keys.next_word())?;
    text.parse().map_err(|_| format!("{text} is no number"))
}
