//! The `hanok` command: builds, checks, runs and tests a system described in one TOML file.
//!
//! This crate has the command line and the shorter subcommands. `hanok_artifacts` does downloads,
//! `hanok_boot` makes a board that starts from a description, `hanok_console` handles terminals,
//! `hanok_scenarios` is `hanok test`, and `hanok_bench_runner` is `hanok bench`.

#![forbid(unsafe_code)]

mod args;
mod commands;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::{repo, signals, ui};
use hanok_boot::key;

/// Runs the command, from its arguments to its exit code.
pub fn main() -> ExitCode {
    let ended = match Cli::try_parse() {
        Ok(cli) => dispatch(cli),
        Err(words) => Ok(print_clap(&words)),
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
            let interrupted = signals::was_interrupted();
            eprintln!("{} {:#}", ui::red("error:"), failure.error);
            if interrupted {
                Code::Interrupted.into()
            } else {
                failure.code.into()
            }
        }
    }
}

/// Prints what clap gives instead of a command: help or the version, which are output like any
/// other, or what is wrong with the command line.
fn print_clap(words: &clap::Error) -> Code {
    let written = words.print().and_then(|()| std::io::stdout().flush());
    if words.use_stderr() {
        Code::Usage
    } else {
        ui::written(written);
        Code::Success
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
        Command::Top(args) => commands::top::run(&root, &args),
        Command::Trace(command) => commands::trace::run(&root, &command),
        Command::List => commands::attach::list(&root),
        Command::Check { file } => commands::check::run(&root, &file, cli.yes),
        Command::Build { file, output, key } => {
            let key = key::of_image(key.build_key, false)?;
            commands::build(&root, &file, &output, &key, cli.yes)
        }
        Command::Image(command) => hanok_image::run(&root, &command, cli.yes),
        Command::Boards => commands::boards(&root),
        Command::Setup { update } => commands::setup(&root, update, cli.yes),
        Command::Test(args) => hanok_scenarios::run(&root, &args, cli.yes),
        Command::Bench(args) => hanok_bench_runner::run(&root, &args, cli.yes),
        Command::Sched(command) => commands::sched::run(&root, &command),
        Command::Previrt(command) => commands::previrt::run(&command),
        Command::Completions { .. } => Ok(Code::Success),
    }
}
