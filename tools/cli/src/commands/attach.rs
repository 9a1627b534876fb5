//! `hanok attach` and `hanok list`: other terminals of a running system.

use std::io::{IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::{repo, ui};
use hanok_console::attach_socket::{self, RunInfo, STAY, VERSION};
use hanok_console::request::{Input, Request, Sink};
use hanok_console::run;

/// What `hanok attach --help` ends with.
pub const HELP: &str = "\
Shows a VM of a system that another `hanok run` of the same person's runs, with the same keys: Ctrl-] \
opens the hypervisor's prompt, where `attach NAME` goes to another VM, and Ctrl-A x goes away; the \
system runs on. Each terminal has a VM of its own that it shows, and a prompt of its own. Without a \
terminal each line of output is marked with its VM, and what is piped in goes to the VM.

Examples:
  hanok attach
  hanok attach demo --vm rtos
  hanok attach demo-4711 </dev/null

Exit codes:
  0  the run has ended, or Ctrl-A x was typed
  2  no such system, or VM, runs      130  interrupted by a signal
  10 the output cannot be written";

/// Arguments of `attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Which system, where several run: as `hanok list` names it, or its description's name.
    pub name: Option<String>,
    /// The VM that is shown at first, instead of the description's first.
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
}

/// `hanok list`.
pub fn list(root: &Path) -> Outcome {
    let runs = attach_socket::runs(&repo::target_dir(root));
    if runs.is_empty() {
        ui::line(format_args!("Nothing runs."));
    }
    for (running, _) in &runs {
        let vms = running.vms.iter().map(|name| ui::plain(name));
        let vms = vms.collect::<Vec<_>>().join(", ");
        ui::line(format_args!("{:<24} {vms}", ui::plain(&running.name())));
    }
    Ok(Code::Success)
}

/// `hanok attach`.
pub fn run(root: &Path, args: &AttachArgs) -> Outcome {
    let runs = attach_socket::runs(&repo::target_dir(root));
    let (running, mut stream) = chosen(args.name.as_deref(), runs).blame(Code::Usage)?;
    let first = place(args.vm.as_deref(), &running).blame(Code::Usage)?;
    stream.write_all(STAY.as_bytes()).blame(Code::Usage)?;
    if std::io::stdin().is_terminal() {
        eprintln!("{}", welcome(&running, first));
    }
    let request = Request {
        command: Command::new(""),
        consoles: running.vms.iter().map(|_| Sink::Show).collect(),
        vms: running.vms,
        framed: true,
        steps: Vec::new(),
        until: None,
        timeout: None,
        log: Sink::Show,
        input: Input::Stdin,
        poweroff: true,
        before_end: None,
    };
    let report = run::visit(request, first, stream)?;
    ui::last_word(format!("hanok: {}", report.why));
    Ok(report.code)
}

/// The run that the arguments name.
pub(super) fn chosen(
    name: Option<&str>,
    mut runs: Vec<(RunInfo, UnixStream)>,
) -> Result<(RunInfo, UnixStream)> {
    let names: Vec<_> = runs
        .iter()
        .map(|(running, _)| ui::plain(&running.name()))
        .collect();
    let all = names.join(", ");
    if let Some(name) = name {
        let process = |running: &RunInfo| running.process.to_string() == name;
        runs.retain(|(running, _)| {
            running.system == name || running.name() == name || process(running)
        });
    }
    let several = runs.len() > 1;
    match (runs.pop(), name) {
        (Some((running, stream)), _) if !several => {
            let (theirs, name) = (running.version, running.name());
            if theirs != VERSION {
                bail!("{name} speaks version {theirs}, this program version {VERSION}");
            }
            Ok((running, stream))
        }
        (Some(_), _) => bail!("several run: {all}\n  fix: say which, as in `hanok attach NAME`"),
        (None, Some(name)) if !all.is_empty() => bail!("no {name} runs; there is: {all}"),
        (None, _) => bail!("nothing runs\n  fix: `hanok run` starts a system"),
    }
}

fn place(vm: Option<&str>, running: &RunInfo) -> Result<usize> {
    let Some(vm) = vm else { return Ok(0) };
    let place = running.vms.iter().position(|name| name == vm);
    place.with_context(|| {
        format!(
            "no VM {vm} runs there; there is: {}",
            running.vms.join(", ")
        )
    })
}

fn welcome(running: &RunInfo, first: usize) -> String {
    let vm = running.vms.get(first).map_or("", String::as_str);
    let vm = ui::plain(vm);
    format!(
        "This is the console of {vm}. Ctrl-] opens Hanok's prompt, Ctrl-A x goes away, Ctrl-A h \
         shows the keys."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(names: &[(&str, u32)]) -> Vec<(RunInfo, UnixStream)> {
        let run = |(system, process): &(&str, u32)| {
            let mut running = RunInfo::new(system, &["a".to_owned()]);
            running.process = *process;
            (running, UnixStream::pair().unwrap().0)
        };
        names.iter().map(run).collect()
    }

    fn named(name: Option<&str>, all: &[(&str, u32)]) -> Result<String> {
        chosen(name, runs(all)).map(|(running, _)| running.name())
    }

    #[test]
    fn a_run_is_found_by_its_names() {
        let two = [("demo", 7), ("linux", 8)];
        for (name, all, wanted) in [
            (None, &two[..1], "demo-7"),
            (Some("linux"), &two[..], "linux-8"),
            (Some("linux-8"), &two[..], "linux-8"),
            (Some("7"), &two[..], "demo-7"),
        ] {
            assert_eq!(named(name, all).unwrap(), wanted, "{name:?}");
        }
    }

    #[test]
    fn who_says_too_little_is_told_what_there_is() {
        let two = [("demo", 7), ("demo", 8)];
        let why = |name, all: &[(&str, u32)]| named(name, all).unwrap_err().to_string();
        assert!(why(None, &two).contains("demo-7, demo-8"));
        assert!(why(Some("demo"), &two).contains("demo-7, demo-8"));
        assert!(why(Some("x"), &two).starts_with("no x runs; there is: demo-7"));
        assert!(why(Some("x"), &[]).starts_with("nothing runs"));
        let mut old = runs(&two[..1]);
        old[0].0.version = 99;
        assert!(
            chosen(None, old)
                .unwrap_err()
                .to_string()
                .contains("version 99")
        );
        let running = RunInfo::new("demo", &["a".to_owned(), "b".to_owned()]);
        assert_eq!(place(Some("b"), &running).unwrap(), 1);
        assert!(
            place(Some("c"), &running)
                .unwrap_err()
                .to_string()
                .contains("a, b")
        );
    }
}
