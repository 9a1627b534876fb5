//! Runs other programs: captures their output, and reports their failure with what they wrote.

use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// Runs `command` to its end. An error has what it wrote.
pub fn run(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    checked(&name, output)
}

/// Returns `output` if the program called `name` succeeded.
pub fn checked(name: &str, output: Output) -> Result<Output> {
    if output.status.success() {
        return Ok(output);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let words = if words.trim().is_empty() {
        String::from_utf8_lossy(&output.stdout)
    } else {
        words
    };
    bail!("{name} failed ({}):\n{}", output.status, words.trim_end())
}

/// Runs `command` and returns what it wrote to its stdout.
pub fn text(command: &mut Command) -> Result<String> {
    let output = run(command)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
