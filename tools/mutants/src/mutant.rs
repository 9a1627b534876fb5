//! The list of mutants, as `cargo mutants --list --json` prints it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// A mutant: a fault that can be planted.
#[derive(Clone, Debug, Deserialize)]
pub struct Mutant {
    /// Its number, from 1: its position in the list.
    #[serde(skip)]
    pub id: u32,
    /// The package whose source it is in.
    pub package: String,
    /// The source file, below the workspace's root.
    pub file: String,
    /// The function that it is in; `None` in a constant.
    pub function: Option<Function>,
    /// The text that is replaced.
    pub span: Range,
    /// The text that replaces it.
    pub replacement: String,
    /// What kind of change it is.
    pub genre: Genre,
    /// The change as a patch; its second line says it in words.
    diff: String,
}

/// The function that a mutant is in.
#[derive(Clone, Debug, Deserialize)]
pub struct Function {
    /// Its name, with its type's.
    pub function_name: String,
    /// `-> Type`, or nothing.
    pub return_type: String,
}

/// A range of source text.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Range {
    /// Where it begins.
    pub start: Position,
    /// Behind its end.
    pub end: Position,
}

/// A place in source text: lines and columns are counted from 1, columns in characters.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// The kinds of change.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Genre {
    /// A function returns a fixed value.
    FnValue,
    /// Another operator stands between two operands.
    BinaryOperator,
    /// An operator before an operand is gone.
    UnaryOperator,
    /// An arm of a `match` is gone.
    MatchArm,
    /// A guard of an arm is always true, or never.
    MatchArmGuard,
    /// A field is left to the rest of a structure.
    StructField,
}

impl Mutant {
    /// Its place and its change, in one line.
    pub fn words(&self) -> String {
        let what = self.diff.lines().find_map(|line| line.strip_prefix("+++ "));
        let Position { line, column } = self.span.start;
        format!("{}:{line}:{column}: {}", self.file, what.unwrap_or("?"))
    }
}

/// All mutants of `packages` in the workspace at `root` that its list of accepted ones does not
/// name. `tool` is the program `cargo-mutants`.
///
/// # Errors
/// Where the tool does not run, or its list is not understood.
pub fn list(tool: &Path, root: &Path, packages: &[String]) -> Result<Vec<Mutant>> {
    let mut command = Command::new(tool);
    command
        .current_dir(root)
        .args(["mutants", "--list", "--json"]);
    for package in packages {
        command.args(["--package", package]);
    }
    let output = command.output().context("cannot start cargo-mutants")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo-mutants: {}", words.trim());
    read(&output.stdout)
}

fn read(json: &[u8]) -> Result<Vec<Mutant>> {
    let mut all: Vec<Mutant> =
        serde_json::from_slice(json).context("the list of cargo-mutants is not understood")?;
    (1..).zip(&mut all).for_each(|(id, mutant)| mutant.id = id);
    Ok(all)
}
