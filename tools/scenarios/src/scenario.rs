//! The format of `tests/*.toml`: a board, what is typed, what must and must not come.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::connect;
use super::damage::{Damage, Part};
use super::numbers::Numbers;
use super::serial::SerialStep;
use super::step_spec::{Means, StepSpec};
use super::unlike::Unlike;
use hanok_artifacts::qemu;
use hanok_base::ui::counted;
use hanok_boot::board::Loader;
use hanok_boot::form::Form;
use hanok_boot::key;
use hanok_console::script::ScriptStep;

/// One file, or one of the cases it lists.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// The test's name; the file's, without its ending, where it is not given.
    pub name: Option<String>,
    /// What the test is for, for its reader.
    #[serde(default)]
    pub about: String,
    /// Descriptions, relative to the repository; a case each.
    pub system: OneOrMore<String>,
    /// Boards, instead of the description's; a case each.
    pub board: Option<OneOrMore<String>>,
    /// Backends, instead of the description's; a case each.
    pub backend: Option<OneOrMore<String>>,
    /// The board's CPU models; a case each.
    pub cpu: Option<OneOrMore<String>>,
    /// Numbers of cores of the board; a case each.
    pub cores: Option<OneOrMore<u64>>,
    /// Sizes of the board's memory, such as "1G"; a case each.
    pub memory: Option<OneOrMore<String>>,
    /// Kernels of the first VM; a case each.
    pub kernel: Option<OneOrMore<String>>,
    /// Numbers of vCPUs of the first VM; a case each.
    pub vcpus: Option<OneOrMore<u64>>,
    /// Seeds of the random numbers of damage; a case each.
    pub seed: Option<OneOrMore<u64>>,
    /// Memory of the first VM.
    pub vm_memory: Option<String>,
    /// Changes to VMs, by their names.
    #[serde(default)]
    pub vms: BTreeMap<String, VmSpec>,
    /// Words added to the first VM's command line.
    #[serde(default)]
    pub cmdline: String,
    /// Words for the hypervisor.
    #[serde(default)]
    pub append: String,
    /// Whether the shipped image is used even where `append` asks for a fault, which that image
    /// refuses; otherwise such a case uses the image for tests.
    #[serde(default)]
    pub shipped: bool,
    /// The values of `@NAME@` in the texts.
    #[serde(default)]
    pub vars: BTreeMap<String, String>,
    /// Files that are added to the first VM's initramfs.
    #[serde(default)]
    pub initramfs_files: Vec<FileSpec>,
    /// Debian's packages that are added to its initramfs, each with the libraries it needs.
    #[serde(default)]
    pub initramfs_packages: Vec<String>,
    /// What is done to the image before the board boots it.
    #[serde(default)]
    pub image_damage: Vec<Damage>,
    /// Damage to the board's device tree; the tree is then not passed by QEMU.
    pub board_tree_damage: Option<Vec<Damage>>,
    /// The form of the first VM's kernel, a program of guests/, before it boots.
    pub kernel_as: Option<Form>,
    /// Boots the first VM's kernel without the hypervisor, to see what it does on QEMU itself.
    #[serde(default)]
    pub native: bool,
    /// Which of QEMU's programs a native boot takes: the 32-bit one, too.
    pub binary: Option<String>,
    /// What starts the image.
    #[serde(default)]
    pub boot: Loader,
    /// Whether the hypervisor frames the board's line. If not, everything that comes is the first
    /// VM's console, and what is sent or typed are keys.
    #[serde(default = "framed")]
    pub framed: bool,
    /// Makes time a count of instructions, so that all runs are alike.
    #[serde(default)]
    pub icount: bool,
    /// What to await and to type, in order.
    #[serde(default)]
    pub steps: Vec<StepSpec>,
    /// The VM and its port, as `VM:PORT`, to which a free port of the PC leads.
    pub forward: Option<String>,
    /// What is awaited and typed at the other end of the board's second serial port, in order.
    #[serde(default)]
    pub serial: Vec<SerialStep>,
    /// How it must end: one of these.
    #[serde(default = "off")]
    pub end: OneOrMore<Ending>,
    /// The watchdog in seconds of this PC's time: long, since only a hang reaches it.
    #[serde(default = "default_timeout")]
    pub timeout: f64,
    /// Texts that the hypervisor must have printed.
    #[serde(default)]
    pub expect_log: Vec<String>,
    /// The number of times that the case is run, with the same image if its key is given.
    #[serde(default = "once")]
    pub boots: u32,
    /// The image's key, 64 hexadecimal digits: zeros are none. A new one where it is not given.
    pub image_key: Option<String>,
    /// Texts whose continuation in their lines must differ each time, on each console and in each
    /// boot.
    #[serde(default)]
    pub unlike: Unlike,
    /// Numbers that the consoles must have printed, and their bounds.
    #[serde(default)]
    pub numbers: Numbers,
    /// Texts that neither a VM nor the hypervisor may have printed.
    #[serde(default)]
    pub forbid: Vec<String>,
    /// More arguments for QEMU.
    #[serde(default)]
    pub qemu_args: Vec<String>,
    /// Only run with --all, or when named.
    #[serde(default)]
    pub slow: bool,
    /// The boards, of several, on which the case is slow: the other ones show the same in every run.
    #[serde(default)]
    pub slow_on: Vec<String>,
    /// The fault of Debian's QEMU because of which only a QEMU that the user names can run it;
    /// otherwise it is reported as not run.
    pub needs_qemu: Option<String>,
}

/// What is changed about a VM.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct VmSpec {
    /// Its kernel.
    pub kernel: Option<String>,
    /// Its number of vCPUs.
    pub vcpus: Option<u64>,
    /// The core of each vCPU.
    pub cpus: Option<Vec<u64>>,
    /// Its memory, such as "128M".
    pub memory: Option<String>,
    /// Whether it starts with the board.
    pub autostart: Option<bool>,
    /// Words added to its command line.
    #[serde(default)]
    pub cmdline: String,
    /// Files that its initramfs has besides.
    #[serde(default)]
    pub initramfs_files: Vec<FileSpec>,
    /// Debian's packages that its initramfs has besides.
    #[serde(default)]
    pub initramfs_packages: Vec<String>,
}

/// What an initramfs has besides.
#[derive(Clone, Copy, Debug)]
pub struct MoreSpec<'a> {
    /// Files.
    pub files: &'a [FileSpec],
    /// Debian's packages, each with the libraries it needs.
    pub packages: &'a [String],
}

/// A file for the initramfs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FileSpec {
    /// A file of the repository; of `package`, where one is named.
    pub file: String,
    /// Debian's package that it comes from, such as "busybox-static:armhf".
    pub package: Option<String>,
    /// Where it goes.
    pub to: String,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// All VMs powered off, after the last step.
    Off,
    /// The last step came; the board is switched off then.
    Until,
    /// A VM was stopped for what it did.
    Stopped,
    /// The hypervisor panicked.
    Panic,
    /// The hypervisor refused to start.
    Refused,
    /// The time limit was reached with all steps done: for something that must go on for ever.
    Timeout,
}

const fn default_timeout() -> f64 {
    300.0
}

const fn once() -> u32 {
    1
}

const fn framed() -> bool {
    true
}

const fn off() -> OneOrMore<Ending> {
    OneOrMore::One(Ending::Off)
}

impl Scenario {
    /// Reads one file: the scenario, or each of its `cases`, whose keys replace those of
    /// the file. Each comes with the mark that sets it apart.
    pub fn parse_all(text: &str) -> Result<Vec<(Option<String>, Self)>> {
        let mut common: toml::Table = toml::from_str(text)?;
        let Some(cases) = common.remove("cases") else {
            return Ok(vec![(None, Self::parse(common)?)]);
        };
        let cases: Vec<toml::Table> = cases.try_into().context("`cases` is a list of tables")?;
        if cases.is_empty() {
            bail!("`cases` is empty");
        }
        let read = |case: toml::Table| {
            let mark = mark_of(&case);
            let scenario = Self::parse(merged(&common, case));
            let scenario = scenario.with_context(|| format!("in the case {mark}"))?;
            Ok((Some(mark), scenario))
        };
        cases.into_iter().map(read).collect()
    }

    fn parse(table: toml::Table) -> Result<Self> {
        let scenario: Self = table.try_into()?;
        Duration::try_from_secs_f64(scenario.timeout)?;
        let ends = scenario.end.all();
        if ends.is_empty() {
            bail!("`end` names no ending");
        }
        if ends.contains(&Ending::Until) && (scenario.steps.is_empty() || ends.len() > 1) {
            bail!("end = \"until\" stands alone and needs steps: it ends after the last one");
        }
        if scenario.system.all().is_empty() {
            bail!("`system` names no description");
        }
        scenario.check_machine()?;
        let tree = scenario.board_tree_damage.iter().flatten();
        if tree.into_iter().any(|damage| damage.part != Part::Image) {
            bail!("a board's tree has no `part`");
        }
        scenario.steps(Means::default())?;
        Ok(scenario)
    }

    /// What the initramfs of each VM has besides; `None` is the first VM.
    pub fn more(&self) -> impl Iterator<Item = (Option<&str>, MoreSpec<'_>)> {
        let first = MoreSpec {
            files: &self.initramfs_files,
            packages: &self.initramfs_packages,
        };
        let others = self.vms.iter().map(|(name, vm)| {
            let more = MoreSpec {
                files: &vm.initramfs_files,
                packages: &vm.initramfs_packages,
            };
            (Some(name.as_str()), more)
        });
        let all = [(None, first)].into_iter().chain(others);
        all.filter(|(_, more)| !more.files.is_empty() || !more.packages.is_empty())
    }

    /// What of its machine does not go together.
    fn check_machine(&self) -> Result<()> {
        let known = [qemu::PROGRAM, qemu::PROGRAM_32];
        match &self.binary {
            Some(_) if !self.native => bail!("`binary` is for native boots: a board has its own"),
            Some(binary) if !known.contains(&binary.as_str()) => {
                bail!("`binary` is one of {}", known.join(", "))
            }
            _ => {}
        }
        if !self.serial.is_empty() && (self.native || self.board_tree_damage.is_some()) {
            bail!("`serial` is for boards that boot the hypervisor as it is");
        }
        let connects = |step: &StepSpec| matches!(step, StepSpec::Connect(..));
        match &self.forward {
            Some(_) if self.native => bail!("`forward` is for boards that boot the hypervisor"),
            Some(to) => drop(connect::way(to)?),
            None if self.steps.iter().any(connects) => {
                bail!("a step `connect` needs `forward`, such as forward = \"left:80\"")
            }
            None => {}
        }
        if self.boots == 0 {
            bail!("`boots` is one or more");
        }
        if let Some(text) = &self.image_key {
            key::parse(text).context("`image-key`")?;
        }
        if self.native && self.more().any(|(vm, _)| vm.is_some()) {
            bail!("a native boot has the first VM alone");
        }
        if !self.framed && (self.native || self.board_tree_damage.is_some()) {
            bail!("`framed` is for boards that boot the hypervisor as it is");
        }
        if self.boot == Loader::UBoot && (self.native || self.board_tree_damage.is_some()) {
            bail!("U-Boot starts the hypervisor, with the tree that QEMU makes");
        }
        Ok(())
    }

    /// Puts in what `@NAME@` stands for, wherever a text may have it.
    pub fn fill(&mut self, vars: &BTreeMap<String, String>) -> Result<()> {
        let mut texts = vec![&mut self.cmdline, &mut self.append];
        texts.extend(self.vms.values_mut().map(|vm| &mut vm.cmdline));
        texts.extend(&mut self.expect_log);
        texts.extend(&mut self.forbid);
        texts.extend(self.steps.iter_mut().flat_map(StepSpec::texts));
        for text in texts {
            for (name, value) in vars {
                *text = text.replace(&format!("@{name}@"), value);
            }
            let parts: Vec<_> = text.split('@').collect();
            let name = |part: &&&str| {
                !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c == '-')
            };
            // What has an @ on both sides.
            let enclosed = parts.get(1..parts.len().saturating_sub(1));
            if let Some(unknown) = enclosed.unwrap_or_default().iter().find(name) {
                bail!("@{unknown}@ stands for nothing: name it in `vars`");
            }
        }
        Ok(())
    }

    /// The steps as the console's watcher takes them.
    pub fn steps(&self, means: Means<'_>) -> Result<Vec<ScriptStep>> {
        let steps = self.steps.iter().flat_map(|step| {
            let times = match step {
                StepSpec::ExpectTimes(_, times) => *times,
                _ => 1,
            };
            (0..times).map(|_| step.step(means))
        });
        let mut steps = steps.collect::<Result<Vec<_>>>()?;
        self.check_echoes()?;
        if self.end.all().contains(&Ending::Until) {
            steps.push(ScriptStep::End);
        }
        Ok(steps)
    }

    /// Whether a step speaks to QEMU's monitor.
    pub fn has_monitor(&self) -> bool {
        let speaks = |step: &StepSpec| matches!(step, StepSpec::Monitor(_) | StepSpec::Screen(_));
        self.steps.iter().any(speaks)
    }

    /// A console shows what is typed. So a step that awaits a part of the line typed right before
    /// it would be done by the echo, whatever the guest answers.
    fn check_echoes(&self) -> Result<()> {
        for pair in self.steps.windows(2) {
            if let [
                StepSpec::Send(typed) | StepSpec::Key(typed),
                StepSpec::Expect(text),
            ] = pair
                && typed.contains(text.as_str())
            {
                bail!("{text:?} stands in what is typed before it, and would be found in its echo");
            }
        }
        Ok(())
    }
}

/// The keys of `case` over those of `common`; variables are put together.
fn merged(common: &toml::Table, mut case: toml::Table) -> toml::Table {
    let mut all = common.clone();
    case.remove("name");
    if let (Some(toml::Value::Table(vars)), Some(toml::Value::Table(more))) =
        (all.get("vars").cloned(), case.get_mut("vars"))
    {
        for (name, value) in vars {
            more.entry(name).or_insert(value);
        }
    }
    all.extend(case);
    all
}

/// What sets a case apart: its `name`, else its short values.
fn mark_of(case: &toml::Table) -> String {
    if let Some(name) = case.get("name").and_then(toml::Value::as_str) {
        return name.to_owned();
    }
    let dimensions = ["board", "kernel", "cpu", "vcpus", "cores", "memory"];
    let value = |key: &&str| match case.get(*key)? {
        toml::Value::String(text) => Some(text.trim_start_matches("debian:").to_owned()),
        toml::Value::Integer(number) => {
            let what = match *key {
                "vcpus" => "vCPU",
                key => key.trim_end_matches('s'),
            };
            Some(counted(u64::try_from(*number).ok()?, what))
        }
        _ => None,
    };
    dimensions
        .iter()
        .filter_map(value)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests;
