//! The format of `tests/*.toml`: a board, what is typed, what must and must not come.

use std::time::Duration;

use anyhow::{Result, bail};
use serde::Deserialize;

use crate::console::script::Step;

/// One file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// The test's name; the file's, without its ending, where it is not given.
    pub name: Option<String>,
    /// Why it is there, for whoever reads it.
    #[serde(default)]
    pub about: String,
    /// Descriptions, relative to the repository; a case each.
    pub system: OneOrMore<String>,
    /// The board's CPU models; a case each.
    pub cpu: Option<OneOrMore<String>>,
    /// Numbers of cores of the board; a case each.
    pub cores: Option<OneOrMore<u64>>,
    /// Sizes of the board's memory, such as "1G"; a case each.
    pub memory: Option<OneOrMore<String>>,
    /// Boots the first VM's kernel without the hypervisor: what it does on QEMU itself.
    #[serde(default)]
    pub native: bool,
    /// What to await and to type, in order.
    #[serde(default)]
    pub steps: Vec<StepSpec>,
    /// How it must end.
    #[serde(default)]
    pub end: Ending,
    /// Watchdog in seconds of this PC's time: generous, since only a hang reaches it.
    #[serde(default = "default_timeout")]
    pub timeout: f64,
    /// Texts that the hypervisor must have said.
    #[serde(default)]
    pub expect_log: Vec<String>,
    /// Texts that neither a VM nor the hypervisor may have said.
    #[serde(default)]
    pub forbid: Vec<String>,
    /// More arguments for QEMU.
    #[serde(default)]
    pub qemu_args: Vec<String>,
    /// Only run with --all, or when named.
    #[serde(default)]
    pub slow: bool,
}

/// A value, or a list that makes a matrix.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum OneOrMore<T> {
    /// One.
    One(T),
    /// A case each.
    More(Vec<T>),
}

impl<T: Clone> OneOrMore<T> {
    /// All values.
    pub fn all(&self) -> Vec<T> {
        match self {
            Self::One(value) => vec![value.clone()],
            Self::More(values) => values.clone(),
        }
    }
}

/// How a scenario must end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// All VMs powered off, after the last step.
    #[default]
    Off,
    /// The last step came; the board is switched off then.
    Until,
    /// A VM was stopped for what it did.
    Stopped,
    /// The hypervisor panicked.
    Panic,
}

/// A step: exactly one of these.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum StepSpec {
    /// Go on once this text comes on the console.
    Expect(String),
    /// Go on once this text comes in the hypervisor's messages.
    ExpectLog(String),
    /// Type this.
    Send(String),
    /// Go on after this many seconds of this PC's time.
    Wait(f64),
    /// The following steps are about this VM.
    Vm(String),
}

const fn default_timeout() -> f64 {
    300.0
}

impl Scenario {
    /// Reads one file.
    pub fn parse(text: &str) -> Result<Self> {
        let scenario: Self = toml::from_str(text)?;
        Duration::try_from_secs_f64(scenario.timeout)?;
        if scenario.end == Ending::Until && scenario.steps.is_empty() {
            bail!("end = \"until\" needs steps: it ends after the last one");
        }
        if scenario.system.all().is_empty() {
            bail!("`system` names no description");
        }
        scenario.steps()?;
        Ok(scenario)
    }

    /// The steps as the console's watcher takes them.
    pub fn steps(&self) -> Result<Vec<Step>> {
        let steps = self.steps.iter().map(StepSpec::step);
        let mut steps = steps.collect::<Result<Vec<_>>>()?;
        if self.end == Ending::Until {
            steps.push(Step::End);
        }
        Ok(steps)
    }
}

impl StepSpec {
    fn step(&self) -> Result<Step> {
        Ok(match self {
            Self::Expect(text) | Self::ExpectLog(text) if text.is_empty() => {
                bail!("an empty text is always there")
            }
            Self::Expect(text) => Step::Expect(text.clone()),
            Self::ExpectLog(text) => Step::ExpectLog(text.clone()),
            Self::Send(text) => Step::Send(text.clone().into_bytes()),
            Self::Wait(seconds) => Step::Wait(Duration::try_from_secs_f64(*seconds)?),
            Self::Vm(name) => Step::Vm(name.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
        about = "to the shell and off"
        system = ["systems/demo.toml", "systems/other.toml"]
        cpu = ["cortex-a57", "max"]
        cores = 4
        timeout = 60
        end = "until"
        expect-log = ["vm linux: started"]
        forbid = ["Oops"]
        qemu-args = ["-d", "guest_errors"]
        steps = [
            { expect = "linux:~# " },
            { send = "echo a\u0003\n" },
            { wait = 0.5 },
            { expect-log = "off" },
        ]
    "#;

    #[test]
    fn a_whole_scenario_is_read() {
        let scenario = Scenario::parse(WHOLE).unwrap();
        assert_eq!(scenario.cpu.as_ref().unwrap().all(), ["cortex-a57", "max"]);
        let steps = scenario.steps().unwrap();
        assert_eq!(steps[1], Step::Send(b"echo a\x03\n".to_vec()));
        assert_eq!(steps.last(), Some(&Step::End));
    }

    #[test]
    fn mistakes_are_refused() {
        let mistakes = [
            "system = 'x'\nsteps = [{ expct = 'x' }]",
            "system = 'x'\nsteps = [{ expect = 'x', send = 'y' }]",
            "system = 'x'\nsteps = [{ expect = '' }]",
            "system = 'x'\nend = 'well'",
            "system = 'x'\nend = 'until'",
            "system = 'x'\ntimeout = -1.0",
            "system = []",
            "system = 'x'\ncpus = 'max'",
            "",
        ];
        for text in mistakes {
            assert!(Scenario::parse(text).is_err(), "{text}");
        }
    }
}
