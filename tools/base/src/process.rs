//! Running other programs: their output captured, their failure told with what they said.

use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// Runs `command` to its end; an error says what it wrote.
pub fn run(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    checked(&name, output)
}

/// `output`, if the program called `name` ended well.
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

/// What `command` wrote to its stdout.
pub fn text(command: &mut Command) -> Result<String> {
    let output = run(command)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
