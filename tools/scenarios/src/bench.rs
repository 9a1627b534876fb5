//! Tests `hanok bench` as a whole, on two sides and few figures: two runs are identical to the last
//! bit, and a figure is what the guest measured.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use hanok_bench::{Results, Side};

use crate::step::{Tally, TestStep};

/// The steps.
pub const STEPS: &[TestStep] = &[TestStep {
    name: "bench",
    run: |root| match repeats(root) {
        Ok(()) => Tally::pass(),
        Err(error) => Tally::fail(format!("{error:#}")),
    },
}];

/// A row of lmbench without any part of a hypervisor, and the boot, which depends on all of it.
const FIGURES: [&str; 2] = ["syscall-null", "boot"];

fn repeats(root: &Path) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let figures = FIGURES.join(",");
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--yes", "bench", "--gic", "3", "--repeat", "2"])
        .args([
            "--sides",
            "native,hanok",
            "--figures",
            &figures,
            "-o",
            "out",
        ])
        .current_dir(dir.path())
        .env("HANOK_ROOT", root)
        .stdin(Stdio::null());
    hanok_base::process::run(&mut command)?;
    let out = dir.path().join("out");
    ensure!(out.join("report.html").is_file(), "there is no page");
    let results = Results::from_json(&fs::read_to_string(out.join("results.json"))?)?;
    let run = results.runs.first().context("there is no run")?;
    ensure!(run.failures.is_empty(), "{:?}", run.failures);
    for figure in FIGURES {
        let values = |side| run.measured(figure, side).map(|found| found.values.clone());
        let native = values(Side::Native).with_context(|| format!("no {figure} natively"))?;
        let ours = values(Side::Hanok).with_context(|| format!("no {figure} in Hanok"))?;
        for values in [&native, &ours] {
            let same = values.len() == 2 && values.first() == values.last();
            ensure!(same, "{figure} is not the same twice: {values:?}");
        }
        ensure!(
            figure != "boot" || ours > native,
            "a VM starts no sooner than the machine: {ours:?}, {native:?}"
        );
    }
    Ok(())
}
