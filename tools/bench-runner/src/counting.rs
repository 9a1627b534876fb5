//! Counts where the hypervisor's instructions go: QEMU with our plugin, and the plugin's report.
//!
//! The plugin adds no instruction to what runs, so that a board with it gives the same figures as
//! one without. So the payload's boots on Hanok always have it. It only numbers stretches; the
//! console names their figures, in the same order.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use hanok_bench::FunctionCost;
use hanok_profile::profile::Profile;
use hanok_profile::report::{Report, Stretch};
use hanok_profile::symbols::{self, Symbols};
use hanok_system::Architecture;

use hanok_artifacts::cargo::{self, Variant};
use hanok_base::process;
use hanok_base::repo;
use hanok_base::ui::LongStep;
use hanok_boot::machine;

/// The plugin's package, and what cargo makes of it.
const PACKAGE: &str = "hanok-plugin";
const LIBRARY: &str = "libhanok_plugin.so";
/// The figure whose stretch begins by itself.
pub const KERNEL_TO_SHELL: &str = "kernel-to-shell";
/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// Each stretch between two markers that the guest executes.
    #[default]
    Stretches,
    /// The instructions from the reset to the first marker that ends a stretch.
    Boot,
    /// Operations, in each stretch: see [`hanok_profile::operations`].
    Operations,
    /// The whole run.
    Run,
}

/// The plugin, ready for QEMU.
pub struct Counting {
    plugin: PathBuf,
    elf: PathBuf,
    root: PathBuf,
}

impl Counting {
    /// Builds the plugin, and the hypervisor that it is to recognize.
    pub fn prepare(root: &Path, architecture: Architecture) -> Result<Self> {
        Self::prepare_variant(root, architecture, Variant::Shipped)
    }

    /// [`Self::prepare`], for another variant of the hypervisor.
    pub fn prepare_variant(
        root: &Path,
        architecture: Architecture,
        variant: Variant,
    ) -> Result<Self> {
        cargo::variant_of(root, architecture, variant)?;
        let step = LongStep::new("Building the plugin for QEMU");
        process::run(cargo::cargo(root).args(["build", "-p", PACKAGE]))?;
        step.done();
        Ok(Self {
            plugin: repo::target_dir(root).join("debug").join(LIBRARY),
            elf: cargo::variant_elf_of(root, architecture, variant),
            root: root.to_owned(),
        })
    }

    /// Makes QEMU count, and write what it counted to `report`.
    pub fn attach(&self, command: &mut Command, report: &Path, what: What) {
        let [plugin, elf, out] = [&self.plugin, &self.elf, report].map(machine::escaped);
        let what = match what {
            What::Stretches => "stretches",
            What::Boot => "boot",
            What::Operations => "operations",
            What::Run => "run",
        };
        command.arg("-plugin");
        command.arg(format!("{plugin},elf={elf},out={out},what={what}"));
    }

    /// Makes QEMU count all instructions of each stretch on a board without our hypervisor, and write them to `report`.
    pub fn attach_alone(&self, command: &mut Command, report: &Path, architecture: Architecture) {
        let [plugin, out] = [&self.plugin, report].map(machine::escaped);
        let bits = match architecture {
            Architecture::Arm64 => 64,
            Architecture::Arm => 32,
        };
        command.arg("-plugin");
        command.arg(format!("{plugin},out={out},what=stretches,bits={bits}"));
    }

    /// Makes QEMU count operations, and write them to `report`: those of the hypervisor, or on the machine itself
    /// those of all code. A stretch begins by itself at `start`, where that is known: the kernel's first instruction.
    pub fn attach_operations(
        &self,
        command: &mut Command,
        report: &Path,
        hypervisor: bool,
        start: Option<u64>,
    ) {
        let [plugin, elf, out] = [&self.plugin, &self.elf, report].map(machine::escaped);
        let mut words = format!("{plugin},out={out},what=operations");
        if hypervisor {
            words += &format!(",elf={elf}");
        }
        if let Some(start) = start {
            words += &format!(",from={start:#x}");
        }
        command.arg("-plugin").arg(words);
    }

    /// How often functions with this name were called in `stretches`: how often their first instruction was executed.
    ///
    /// # Errors
    /// The hypervisor has none.
    pub fn calls(&self, stretches: &[Stretch], function: &str) -> Result<u64> {
        let starts = symbols::starts(&fs::read(&self.elf)?, function)?;
        ensure!(
            !starts.is_empty(),
            "the hypervisor has no function {function}"
        );
        let cpus = stretches.iter().flat_map(|stretch| &stretch.cpus);
        let counts = cpus.flat_map(|cpu| &cpu.counts);
        let called = counts.filter(|(address, _)| starts.contains(address));
        Ok(called.map(|(_, count)| count).sum())
    }

    /// Where the instructions of `stretches` went.
    pub fn profile(&self, stretches: &[Stretch]) -> Result<Profile> {
        let elf = fs::read(&self.elf)?;
        let symbols = Symbols::parse(&elf, &self.root.to_string_lossy())?;
        Ok(Profile::of(stretches, &symbols))
    }
}

/// What was counted of one figure.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The figure's name.
    pub figure: String,
    /// The number of rounds of a stretch, where the guest reports it.
    pub rounds: Option<u64>,
    /// The stretches.
    pub stretches: Vec<Stretch>,
}

impl Counted {
    /// The hypervisor's instructions of one round on all CPUs, in the shortest stretch.
    pub fn a_round(&self) -> Option<f64> {
        let least = self.stretches.iter().map(ours).min()?;
        Some(least as f64 / self.rounds? as f64)
    }

    /// The rounds of all stretches.
    pub fn all_rounds(&self) -> Option<u64> {
        Some(self.rounds? * self.stretches.len() as u64)
    }

    /// The profile in the form of the results.
    pub fn kept(&self, counting: &Counting) -> Result<hanok_bench::Profile> {
        let profile = counting.profile(&self.stretches)?;
        let functions = profile.functions.iter().filter(|function| function.own > 0);
        Ok(hanok_bench::Profile {
            figure: self.figure.clone(),
            rounds: self.all_rounds().unwrap_or(1),
            total: profile.total().hypervisor,
            functions: functions.map(cost).collect(),
        })
    }
}

fn cost(function: &hanok_profile::profile::Function) -> FunctionCost {
    let place = function.place.as_ref();
    FunctionCost {
        name: place.map_or(function.name.clone(), |place| {
            format!("{} ({place})", function.name)
        }),
        instructions: function.own,
    }
}

fn ours(stretch: &Stretch) -> u64 {
    stretch.cpus.iter().map(|cpu| cpu.hypervisor).sum()
}

/// What the plugin wrote to `path`, by the figures that `console` names.
pub fn read(path: &Path, console: &str, what: What) -> Result<Vec<Counted>> {
    let text = fs::read_to_string(path).context("QEMU's plugin wrote no report")?;
    let report = Report::parse(&text).context("the report of QEMU's plugin")?;
    for stretch in &report.stretches {
        ensure!(stretch.found, "QEMU's plugin never saw the hypervisor");
        ensure!(
            stretch.differing == 0,
            "{} instructions in memory are others than in the hypervisor's ELF file",
            stretch.differing
        );
    }
    match what {
        What::Stretches => by_figure(report.stretches, console),
        What::Operations => operations(report.stretches, console),
        What::Boot | What::Run => Ok(vec![Counted {
            figure: "boot".to_owned(),
            rounds: None,
            stretches: report.stretches,
        }]),
    }
}

/// The first stretch is from the kernel's first instruction to a shell, if as many stretches say that it is there; then come
/// the rows.
fn operations(mut stretches: Vec<Stretch>, console: &str) -> Result<Vec<Counted>> {
    let rows = console.lines().filter_map(|line| told(line.trim()));
    let rows: usize = rows.map(|(_, number, _)| number).sum();
    let mut counted = Vec::new();
    if stretches.len() == rows + 1 {
        counted.push(Counted {
            figure: KERNEL_TO_SHELL.to_owned(),
            rounds: None,
            stretches: vec![stretches.remove(0)],
        });
    }
    counted.extend(by_figure(stretches, console)?);
    Ok(counted)
}

/// Assigns stretches to figures: they come in the order in which the console names the figures.
fn by_figure(stretches: Vec<Stretch>, console: &str) -> Result<Vec<Counted>> {
    let (mut left, all) = (stretches.into_iter(), console.lines());
    let mut counted = Vec::new();
    for (figure, number, rounds) in all.filter_map(|line| told(line.trim())) {
        let stretches: Vec<_> = left.by_ref().take(number).collect();
        ensure!(
            stretches.len() == number,
            "{figure}: the guest told of {number} stretches, the plugin counted {}",
            stretches.len()
        );
        counted.push(Counted {
            figure: figure.to_owned(),
            rounds,
            stretches,
        });
    }
    match left.len() {
        0 => Ok(counted),
        more => bail!("the plugin counted {more} stretches that the guest did not tell of"),
    }
}

/// Parses a line about a figure whose stretches are over: its name, their number, the rounds of
/// each.
fn told(line: &str) -> Option<(&str, usize, Option<u64>)> {
    let words: Vec<_> = line.split_whitespace().collect();
    match words[..] {
        // The payload.
        [
            "bench-info:",
            figure,
            number,
            "stretches",
            "of",
            rounds,
            "rounds",
        ] => Some((figure, number.parse().ok()?, Some(rounds.parse().ok()?))),
        // The script in Linux: each row is one.
        ["bench:", "begin", figure] => Some((figure, 1, None)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use hanok_profile::report::Cpu;

    use super::*;

    fn stretch(number: u64, ours: &[u64]) -> Stretch {
        let cpu = |hypervisor: &u64| Cpu {
            hypervisor: *hypervisor,
            ..Cpu::default()
        };
        Stretch {
            number,
            cpus: ours.iter().map(cpu).collect(),
            found: true,
            ..Stretch::default()
        }
    }

    const CONSOLE: &str = "bench-info: GICv3, 2 vCPUs\r\n\
        bench-info: hypercall 2 stretches of 10 rounds\r\n\
        bench: hypercall 283 instructions\r\n\
        bench-info: ipi 1 stretches of 4 rounds\r\n";

    #[test]
    fn stretches_go_to_the_figures_that_the_console_names() {
        let all = vec![
            stretch(0, &[2840, 0]),
            stretch(1, &[2830, 0]),
            stretch(2, &[100, 60]),
        ];
        let counted = by_figure(all.clone(), CONSOLE).unwrap();
        let names: Vec<_> = counted.iter().map(|one| &*one.figure).collect();
        assert_eq!(names, ["hypercall", "ipi"]);
        assert_eq!(counted[0].a_round(), Some(283.0));
        assert_eq!(counted[0].all_rounds(), Some(20));
        assert_eq!(counted[1].a_round(), Some(40.0));
        // A row in Linux is one stretch with an unknown number of rounds.
        let row = by_figure(all[..1].to_vec(), "bench: begin pipe\nPipe latency\n").unwrap();
        assert_eq!((&*row[0].figure, row[0].a_round()), ("pipe", None));
        let error = by_figure(all[..2].to_vec(), CONSOLE).unwrap_err();
        assert!(error.to_string().contains("ipi"), "{error}");
        assert!(by_figure(all, "").is_err());
    }

    #[test]
    fn the_stretch_before_all_rows_is_the_kernel_s_way_to_a_shell() {
        let console = "bench: begin pipe\nbench: begin pipe\n";
        let all: Vec<_> = (0..3).map(|at| stretch(at, &[at])).collect();
        let counted = operations(all.clone(), console).unwrap();
        let names: Vec<_> = counted.iter().map(|one| &*one.figure).collect();
        assert_eq!(names, [KERNEL_TO_SHELL, "pipe", "pipe"]);
        assert_eq!(counted[2].stretches, [all[2].clone()]);
        let rows = operations(all[1..].to_vec(), console).unwrap();
        assert_eq!((rows.len(), &*rows[0].figure), (2, "pipe"));
        assert!(operations(all[..1].to_vec(), console).is_err());
    }

    #[test]
    fn a_report_that_is_not_of_this_hypervisor_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report");
        let write = |stretch: &Stretch| {
            use hanok_profile::report::{Line, VERSION};
            let start = Line::Start { version: VERSION }.text();
            let stretch = Line::Stretch(stretch.clone()).text();
            fs::write(&path, format!("{start}\n{stretch}\n")).unwrap();
            read(&path, "", What::Boot)
        };
        let mut one = stretch(0, &[7]);
        assert_eq!(write(&one).unwrap()[0].figure, "boot");
        one.differing = 3;
        assert!(write(&one).unwrap_err().to_string().contains("3 instr"));
        one.found = false;
        assert!(write(&one).unwrap_err().to_string().contains("never saw"));
        fs::remove_file(&path).unwrap();
        assert!(read(&path, "", What::Boot).is_err());
    }
}
