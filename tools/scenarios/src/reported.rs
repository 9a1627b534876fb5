//! Boots a described board by instructions, and keeps what its consoles and its report channel say.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hanok_artifacts::Store;
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::repo;
use hanok_boot::board::{self, Ready, Start};
use hanok_boot::overrides::Overrides;
use hanok_boot::{key, machine, system};
use hanok_console::request::{Extras, Input, Request, Sink};
use hanok_console::run;
use hanok_console::script::ScriptStep;

/// No board takes that long, on however slow a PC.
const PATIENCE: Duration = Duration::from_secs(600);

/// A line for the report channel (docs/top.md).
pub(crate) fn request(line: &str) -> ScriptStep {
    ScriptStep::Raw([b"\x10\x7f\x10\x3d", line.as_bytes(), b"\n"].concat())
}

/// Asks for another interface of a vCPU, of this period, budget and deadline in nanoseconds, and awaits the board's answer,
/// be it a yes, or a no for whatever reason.
pub(crate) fn change(vm: usize, vcpu: usize, times: [u64; 3]) -> [ScriptStep; 3] {
    let [period, budget, deadline] = times;
    let answers = ["changed", "refused"].map(|word| format!("{word} {vm} {vcpu} "));
    [
        request(&format!("change {vm} {vcpu} {period} {budget} {deadline}")),
        ScriptStep::ExpectAnyReport(answers.to_vec()),
        ScriptStep::ExpectReport("\n".to_owned()),
    ]
}

/// A file's text, whatever bytes a hostile guest has put into it.
pub(crate) fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Boots the described system by instructions, with more arguments for the emulator, does `steps`, and ends it. What consoles and the report channel say is in
/// `dir`.
pub(crate) fn boot(
    root: &Path,
    dir: &Path,
    described: &str,
    steps: Vec<ScriptStep>,
    emulator: &[String],
) -> Result<()> {
    boot_within(root, dir, described, steps, emulator, PATIENCE)
}

/// The same, within `patience`.
pub(crate) fn boot_within(
    root: &Path,
    dir: &Path,
    described: &str,
    steps: Vec<ScriptStep>,
    emulator: &[String],
    patience: Duration,
) -> Result<()> {
    let mut prepared = ready(root, dir, described).map_err(|failure| failure.error)?;
    prepared.command.args(emulator);
    fs::write(
        dir.join("command"),
        machine::typed(&prepared.command) + "\n",
    )?;
    let file = |name: &str| Sink::create(&dir.join(name));
    let consoles = prepared.vms.iter().map(|vm| file(&format!("{vm}.console")));
    let request = Request {
        consoles: consoles.collect::<Result<_>>()?,
        command: prepared.command,
        framed: prepared.framed,
        poweroff: prepared.poweroff,
        steps: prepared.first.into_iter().chain(steps).collect(),
        until: None,
        timeout: Some(patience),
        log: file("hanok.log")?,
        input: Input::None,
        before_end: None,
        vms: prepared.vms,
    };
    let extras = Extras {
        reports: Some(file("reports")?),
        ..Extras::default()
    };
    let report = run::run_with(request, extras).map_err(|failure| failure.error)?;
    ensure!(report.code == Code::Success, "{}", report.why);
    let _ = fs::remove_file(image(dir));
    Ok(())
}

fn image(dir: &Path) -> PathBuf {
    dir.join("image")
}

pub(crate) fn ready(root: &Path, dir: &Path, described: &str) -> Outcome<Ready> {
    let path = dir.join("system.toml");
    fs::write(&path, described).blame(Code::Usage)?;
    let store = Store::open(true, false).blame(Code::Setup)?;
    let system = system::load(root, &path, &Overrides::default())?;
    let start = Start {
        icount: true,
        ..Start::default()
    };
    let tools = start.tools(&store, &system)?;
    let resolved = system::resolve(root, &store, &system.artifacts())?;
    let tree = board::tree(&store, &system)?;
    let bytes = system::build(root, &system, &resolved, tree.as_deref(), &key::NONE)?;
    repo::write_whole(&image(dir), &bytes).blame(Code::Usage)?;
    Ok(tools.ready(&system, &image(dir), &start))
}
