//! The `hanok` command: builds, checks, runs and tests a system described in one TOML file.
//!
//! This crate does what touches the developer's machine: downloads, processes, terminals.
//! Reading descriptions and making images is `hanok_system`'s.

#![forbid(unsafe_code)]

mod apt;
mod args;
mod artifacts;
mod bench;
mod board;
mod cache;
mod cargo;
mod commands;
mod console;
mod exit;
mod image;
mod initramfs;
mod key;
mod machine;
mod outputs;
mod overrides;
mod process;
mod repo;
mod run_image;
mod scratch;
mod signals;
mod system;
mod test;
mod ui;
mod values;

/// What reads text or bytes that come from elsewhere; public for the fuzz targets.
pub mod parsers {
    pub use crate::apt::index::parse as apt_index;
    pub use crate::apt::sources::{parse_deb822, parse_list};
    pub use crate::console::demux::{Channel, Demux, Piece, Receiver, frame, select};
    pub use crate::console::filter::Filter;
    pub use crate::console::modes::Modes;
    pub use crate::console::outbox::Outbox;
    pub use crate::console::script::parse as script;
    pub use crate::test::scenario::Scenario;
}

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};
use exit::{Blame, Code, Outcome};

/// The command: its arguments to its exit code.
pub fn main() -> ExitCode {
    let ended = match Cli::try_parse() {
        Ok(cli) => dispatch(cli),
        Err(words) => Ok(told(&words)),
    };
    match ended {
        Ok(code) => match (code, ui::lost()) {
            (Code::Success, Some(error)) => {
                eprintln!("{} cannot write the output: {error}", ui::red("error:"));
                Code::Output.into()
            }
            _ => code.into(),
        },
        Err(failure) => {
            let interrupted = signals::settled();
            eprintln!("{} {:#}", ui::red("error:"), failure.error);
            match interrupted {
                true => Code::Interrupted.into(),
                false => failure.code.into(),
            }
        }
    }
}

/// Says what there is to say instead of a command: help or the version, which are output as any
/// other is, or what is wrong with the command line.
fn told(words: &clap::Error) -> Code {
    let written = words.print().and_then(|()| std::io::stdout().flush());
    match words.use_stderr() {
        true => Code::Usage,
        false => {
            ui::written(written);
            Code::Success
        }
    }
}

fn dispatch(cli: Cli) -> Outcome {
    signals::listen();
    if let Command::Completions { shell } = cli.command {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "hanok", &mut script);
        let script = String::from_utf8_lossy(&script);
        ui::line(format_args!("{}", script.trim_end_matches('\n')));
        return Ok(Code::Success);
    }
    let root = repo::root().blame(Code::Usage)?;
    match cli.command {
        Command::Run(args) => commands::run::run(&root, &args, cli.yes),
        Command::Attach(args) => commands::attach::run(&root, &args),
        Command::List => commands::attach::list(&root),
        Command::Check { file } => commands::check::run(&root, &file, cli.yes),
        Command::Build { file, output, key } => {
            let key = key::of_image(key.build_key, false)?;
            commands::build(&root, &file, &output, &key, cli.yes)
        }
        Command::Boards => commands::boards(&root),
        Command::Setup { update } => commands::setup(&root, update, cli.yes),
        Command::Test(args) => test::run(&root, &args, cli.yes),
        Command::Bench(args) => bench::run(&root, &args, cli.yes),
        Command::Sched(command) => commands::sched::run(&root, &command),
        Command::Previrt(command) => commands::previrt::run(&command),
        Command::Completions { .. } => Ok(Code::Success),
    }
}
