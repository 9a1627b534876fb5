//! A board that is none, for `hanok top` without a board.
//!
//! ```text
//! cargo run -p hanok-top --example fake-board -- socket PATH [good|old|garbled|deaf|mute]
//! cargo run -p hanok-top --example fake-board -- run [DESCRIPTION] [good|old|garbled|deaf|mute]
//! ```
//!
//! `socket` listens at a UNIX socket, for `hanok top --line PATH`; `run` is a run with this board in the
//! place of QEMU, which `hanok top`, `hanok attach` and `hanok list` find as they find any other.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use hanok_base::repo;
use hanok_console::attach_socket::{self, RunInfo};
use hanok_console::request::{Extras, Input, Request, Sink};
use hanok_console::run;
use hanok_top::fake::{FakeBoard, Manner};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    match word(0) {
        "socket" => listen(Path::new(word(1)), manner(word(2))?),
        "stdio" => Ok(FakeBoard::new(manner(word(1))?).serve(std::io::stdin(), std::io::stdout())?),
        "run" => start(word(1), word(2)),
        _ => bail!("say `socket PATH`, or `run [DESCRIPTION]`"),
    }
}

fn manner(word: &str) -> Result<Manner> {
    Ok(match word {
        "" | "good" => Manner::Good,
        "old" => Manner::Old,
        "garbled" => Manner::Garbled,
        "deaf" => Manner::Deaf,
        "mute" => Manner::Mute,
        other => bail!("no manner {other}"),
    })
}

/// One board for all that connect, one after the other.
fn listen(path: &Path, manner: Manner) -> Result<()> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).context("cannot listen")?;
    loop {
        let (stream, _) = listener.accept()?;
        let from = stream.try_clone()?;
        // That somebody goes is no fault.
        let _ = FakeBoard::new(manner).serve(from, stream);
    }
}

fn start(description: &str, manner: &str) -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["stdio", manner]);
    let names = ["linux", "axes", "fieldbus", "display", "web", "logger"];
    let vms = names.map(str::to_owned).to_vec();
    let mut running = RunInfo::new("fake", &vms);
    if !description.is_empty() {
        running = running.described_by(&PathBuf::from(description));
    }
    let root = repo::root()?;
    let extras = Extras {
        attach_socket: attach_socket::of_run(&repo::target_dir(&root), &running),
        by_the_wall: true,
        ..Extras::default()
    };
    let request = Request {
        command,
        consoles: vms.iter().map(|_| Sink::Show).collect(),
        vms,
        framed: true,
        steps: Vec::new(),
        until: None,
        timeout: None,
        log: Sink::Show,
        input: Input::Stdin,
        poweroff: true,
        before_end: None,
    };
    let report = run::run_with(request, extras).map_err(|failure| failure.error)?;
    eprintln!("{}", report.why);
    Ok(())
}
