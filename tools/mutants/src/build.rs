//! Builds a copy of the workspace with all mutants in it.
//!
//! Which mutants do not compile only the compiler knows: what it objects to is left out, until it
//! objects to nothing. An error within the marks of a mutant is that one's. Where a constant calls
//! a function that is no longer `const`, functions of this name stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::mutant::{Genre, Mutant};
use crate::plant::plant;

/// The crate that is added to the copy ([`crate::plant::SWITCH`]).
const SWITCH: &str = include_str!("../switch/lib.rs");
const SWITCH_NAME: &str = "hanok-mutant-switch";
/// After so many rounds of building another cause than mutants is assumed.
const MOST_ROUNDS: u32 = 100;

/// How to build.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// The workspace.
    pub root: &'a Path,
    /// The folder of the copy; its former contents are deleted.
    pub copy: &'a Path,
    /// Packages whose tests are built.
    pub packages: &'a [String],
    /// Makes the command `cargo`, to run in a folder.
    pub cargo: &'a dyn Fn(&Path) -> Command,
}

/// A test program with the mutants in it.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its package.
    pub package: String,
    /// The package's folder, where its tests run.
    pub folder: PathBuf,
    /// The program.
    pub path: PathBuf,
}

/// The result of a build.
#[derive(Debug)]
pub struct Built {
    /// All test programs.
    pub programs: Vec<Program>,
    /// Mutants that do not compile.
    pub unviable: BTreeSet<u32>,
    /// Mutants for which there is no place for a switch.
    pub left_out: BTreeSet<u32>,
}

/// A line of cargo's messages.
#[derive(Deserialize)]
struct Message {
    message: Option<Diagnostic>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    message: String,
    code: Option<Code>,
    spans: Vec<CompilerSpan>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct CompilerSpan {
    file_name: PathBuf,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

/// Where in a planted text a mutant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Region {
    from: usize,
    to: usize,
    id: u32,
}

/// Plants `mutants` and builds the tests.
pub fn build(plan: Plan<'_>, mutants: &[Mutant]) -> Result<Built> {
    copy_sources(plan)?;
    add_switch(plan.copy, mutants)?;
    let mut field = Field::new(plan, mutants)?;
    for _ in 0..MOST_ROUNDS {
        field.plant()?;
        let check = field.cargo(&["check", "--keep-going"])?;
        if check.ended_well {
            let test = field.cargo(&["test", "--no-run"])?;
            let programs = test
                .messages
                .iter()
                .filter_map(program)
                .collect::<Result<_>>()?;
            return if test.ended_well {
                Ok(field.built(programs))
            } else {
                bail!("the tests do not link:\n{}", test.words())
            };
        }
        if field.learn(&check.messages) == Learned::Nothing {
            bail!("not the mutants' fault:\n{}", check.words());
        }
    }
    bail!("there is no end to the compiler's objections")
}

/// The files that git tracks or would add.
fn copy_sources(plan: Plan<'_>) -> Result<()> {
    if plan.copy.exists() {
        fs::remove_dir_all(plan.copy)?;
    }
    let mut git = Command::new("git");
    git.current_dir(plan.root)
        .args(["ls-files", "-co", "--exclude-standard", "-z"]);
    let output = git.output().context("cannot start git")?;
    let names = String::from_utf8(output.stdout).context("a file's name is no text")?;
    for name in names.split_terminator('\0') {
        let (from, to) = (plan.root.join(name), plan.copy.join(name));
        // A file that git tracks and that was deleted is left out.
        if from.is_file() {
            fs::create_dir_all(to.parent().unwrap_or(plan.copy))?;
            fs::copy(&from, &to).with_context(|| format!("cannot copy {name}"))?;
        }
    }
    Ok(())
}

/// The folder of the package that a source file is of.
fn folder_of(file: &str) -> &str {
    file.split_once("/src/").map_or("", |(folder, _)| folder)
}

/// Puts the switch's package into the copy, and makes each mutant's package depend on it.
fn add_switch(copy: &Path, mutants: &[Mutant]) -> Result<()> {
    let own = copy.join(SWITCH_NAME);
    fs::create_dir_all(own.join("src"))?;
    fs::write(own.join("src").join("lib.rs"), SWITCH)?;
    let package = format!("[package]\nname = \"{SWITCH_NAME}\"\nedition = \"2024\"\n");
    fs::write(own.join("Cargo.toml"), package)?;
    let folders: BTreeSet<_> = mutants.iter().map(|one| folder_of(&one.file)).collect();
    for folder in folders {
        let path = copy.join(folder).join("Cargo.toml");
        let text = fs::read_to_string(&path)?;
        let up = "../".repeat(folder.split('/').count());
        let line = format!("{SWITCH_NAME} = {{ path = \"{up}{SWITCH_NAME}\" }}");
        fs::write(path, with_dependency(&text, &line))?;
    }
    Ok(())
}

/// A manifest with one more line in its table of dependencies.
fn with_dependency(manifest: &str, line: &str) -> String {
    const TABLE: &str = "\n[dependencies]\n";
    match manifest.split_once(TABLE) {
        Some((before, after)) => format!("{before}{TABLE}{line}\n{after}"),
        None => format!("{manifest}{TABLE}{line}\n"),
    }
}

/// Whether the compiler's messages said anything new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
enum Learned {
    /// At least one more mutant is excluded.
    Something,
    /// No further mutant is excluded.
    Nothing,
}

/// The copy, and the state of its mutants.
struct Field<'a> {
    plan: Plan<'a>,
    mutants: &'a [Mutant],
    /// The original source files, by their names, with their mutants.
    files: BTreeMap<String, (String, Vec<&'a Mutant>)>,
    constant: BTreeSet<String>,
    unviable: BTreeSet<u32>,
    left_out: BTreeSet<u32>,
}

/// The messages of a run of cargo.
struct Said {
    ended_well: bool,
    messages: Vec<Message>,
    errors: String,
}

impl Said {
    /// The first errors, as the compiler prints them.
    fn words(&self) -> String {
        let rendered = |one: &Message| one.message.as_ref()?.rendered.clone();
        let all: Vec<_> = self.messages.iter().filter_map(rendered).take(5).collect();
        if all.is_empty() {
            self.errors.clone()
        } else {
            all.concat()
        }
    }
}

impl<'a> Field<'a> {
    /// All sources of the packages with mutants: those without any may hold a `const fn` that
    /// calls one with some.
    fn new(plan: Plan<'a>, mutants: &'a [Mutant]) -> Result<Self> {
        let mut files = BTreeMap::new();
        let folders: BTreeSet<_> = mutants.iter().map(|one| folder_of(&one.file)).collect();
        for folder in folders {
            let mut names = Vec::new();
            sources(&plan.copy.join(folder).join("src"), &mut names)?;
            for path in names {
                let name = path.strip_prefix(plan.copy)?.to_string_lossy().into_owned();
                let here = mutants.iter().filter(|one| one.file == name).collect();
                files.insert(name, (fs::read_to_string(path)?, here));
            }
        }
        Ok(Self {
            plan,
            mutants,
            files,
            constant: BTreeSet::new(),
            unviable: BTreeSet::new(),
            left_out: BTreeSet::new(),
        })
    }

    /// Writes each file whose text differs from the one on the disk.
    fn plant(&mut self) -> Result<()> {
        self.left_out.clear();
        for (name, (source, mutants)) in &self.files {
            let viable = |one: &&&Mutant| !self.unviable.contains(&one.id);
            let mutants: Vec<_> = mutants.iter().filter(viable).copied().collect();
            let planted = plant(source, &mutants, &self.constant)?;
            self.left_out.extend(planted.left_out);
            let path = self.plan.copy.join(name);
            if fs::read_to_string(&path)? != planted.text {
                fs::write(path, planted.text)?;
            }
        }
        Ok(())
    }

    fn cargo(&self, arguments: &[&str]) -> Result<Said> {
        let mut command = (self.plan.cargo)(self.plan.copy);
        command
            .args(arguments)
            .args(["--message-format", "json", "--lib", "--tests"])
            // A variant beside a text causes many warnings.
            .env("RUSTFLAGS", "--cap-lints allow");
        for package in self.plan.packages {
            command.args(["--package", package]);
        }
        let output = command.output().context("cannot start cargo")?;
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let messages = lines.lines().map(serde_json::from_str);
        Ok(Said {
            ended_well: output.status.success(),
            messages: messages.collect::<Result<_, _>>()?,
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Excludes the mutants that the compiler rejects. The answer says whether any was not excluded before.
    fn learn(&mut self, messages: &[Message]) -> Learned {
        let before = (self.unviable.len(), self.constant.len());
        let errors = messages.iter().filter_map(|one| one.message.as_ref());
        for error in errors.filter(|error| error.level == "error") {
            let code = error.code.as_ref().map(|code| code.code.as_str());
            match (code, called(&error.message)) {
                (Some("E0015"), Some(name)) if name != "is_active" => {
                    self.constant.insert(name.to_owned());
                }
                _ => self.blame(error, code == Some("E0004")),
            }
        }
        if before == (self.unviable.len(), self.constant.len()) {
            Learned::Nothing
        } else {
            Learned::Something
        }
    }

    /// The mutants that an error is about. `of_patterns` says that a pattern is missing: then an
    /// arm was removed somewhere behind the place, and all such mutants of that function are
    /// excluded.
    fn blame(&mut self, error: &Diagnostic, of_patterns: bool) {
        for place in error.spans.iter().filter(|place| place.is_primary) {
            let path = self.plan.copy.join(&place.file_name);
            let Ok(text) = fs::read_to_string(path) else {
                continue;
            };
            let all = regions(&text);
            if of_patterns {
                self.unviable
                    .extend(arms_behind(self.mutants, &all, place.byte_start));
            }
            let holds = |one: &&Region| one.from <= place.byte_start && place.byte_end <= one.to;
            let touches = |one: &&Region| one.from < place.byte_end && place.byte_start < one.to;
            let inner = all.iter().filter(holds).min_by_key(|one| one.to - one.from);
            match inner {
                Some(inner) => self.unviable.extend(beside(&all, *inner)),
                None => self
                    .unviable
                    .extend(all.iter().filter(touches).map(|one| one.id)),
            }
        }
    }

    fn built(self, programs: Vec<Program>) -> Built {
        Built {
            programs,
            unviable: self.unviable,
            left_out: self.left_out,
        }
    }
}

/// The name of the function that, by the error, cannot be called in a constant.
fn called(message: &str) -> Option<&str> {
    let quoted = message.split('`').nth(1)?;
    let name = quoted.rsplit("::").next()?;
    name.split('<').next().filter(|name| !name.is_empty())
}

/// All mutants of one expression: their marks begin and end side by side.
fn beside(all: &[Region], inner: Region) -> impl Iterator<Item = u32> {
    const MARK: usize = "/*m65535*/".len();
    let most = all.len() * MARK;
    let near = move |one: &&Region| {
        let begins = inner.from.abs_diff(one.from);
        begins == inner.to.abs_diff(one.to) && begins <= most || **one == inner
    };
    all.iter().filter(near).map(|one| one.id)
}

/// Mutants that remove arms behind `at`, in the function of the first of them.
fn arms_behind(mutants: &[Mutant], all: &[Region], at: usize) -> Vec<u32> {
    let mutant = |one: &&Region| mutants.get(one.id as usize - 1);
    let name = |one: &Mutant| one.function.as_ref().map(|of| of.function_name.clone());
    let behind = all.iter().filter(|one| one.from >= at);
    let arms = behind.filter_map(|one| mutant(&one).filter(|one| one.genre == Genre::MatchArm));
    let arms: Vec<_> = arms.collect();
    let first = arms.first().map(|one| name(one));
    let same = |one: &&&Mutant| Some(name(one)) == first;
    arms.iter().filter(same).map(|one| one.id).collect()
}

/// Where the mutants of a planted text are, by the places of their ends.
fn regions(text: &str) -> Vec<Region> {
    let mut begun = BTreeMap::new();
    let mut all = Vec::new();
    for (at, _) in text.match_indices("/*") {
        let rest = text.get(at + 2..).unwrap_or("");
        let Some((mark, _)) = rest.split_once("*/").filter(|(mark, _)| mark.len() > 1) else {
            continue;
        };
        let (kind, number) = mark.split_at_checked(1).unwrap_or_default();
        let Ok(id) = number.parse() else { continue };
        match (kind, begun.get(&id)) {
            ("m", _) => {
                begun.insert(id, at);
            }
            ("e", Some(from)) => all.push(Region {
                from: *from,
                to: at + mark.len() + 4,
                id,
            }),
            _ => {}
        }
    }
    all
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, into)?;
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            into.push(path);
        }
    }
    Ok(())
}

/// The test program of a message; `None` if the message is about something else.
fn program(message: &Message) -> Option<Result<Program>> {
    let path = message.executable.clone()?;
    let manifest = message.manifest_path.as_ref()?;
    message.profile.as_ref().filter(|profile| profile.test)?;
    Some(named(manifest).map(|package| Program {
        package,
        folder: manifest.parent().unwrap_or(Path::new("")).to_owned(),
        path,
    }))
}

/// The package's name, from its manifest.
fn named(manifest: &Path) -> Result<String> {
    let text = fs::read_to_string(manifest)?;
    let line = text.lines().find(|line| line.starts_with("name = "));
    let name = line.and_then(|line| line.split('"').nth(1));
    Ok(name.context("a manifest without a name")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_tell_where_a_mutant_is() {
        let text = "a(/*m1*//*m22*/x /* m3 */ (/*m4*/y/*e4*/)/*e22*//*e1*/)";
        let found = regions(text);
        let text_of = |id| {
            let one = found.iter().find(|one| one.id == id).expect("it is there");
            text.get(one.from..one.to).expect("boundaries")
        };
        assert_eq!(found.len(), 3);
        assert_eq!(text_of(4), "/*m4*/y/*e4*/");
        assert_eq!(text_of(22), "/*m22*/x /* m3 */ (/*m4*/y/*e4*/)/*e22*/");
        assert!(text_of(1).starts_with("/*m1*//*m22*/") && text_of(1).ends_with("/*e1*/"));
    }

    #[test]
    fn the_called_function_is_the_last_of_a_path() {
        let text = "cannot call non-const associated function `types::Id::<N>::ppi` in constants";
        assert_eq!(called(text), Some("ppi"));
        assert_eq!(called("mismatched types"), None);
    }

    #[test]
    fn a_dependency_is_added_with_a_table_and_without() {
        let line = "a = { path = \"../a\" }";
        let with = with_dependency("[package]\n\n[dependencies]\nb = \"1\"\n", line);
        assert_eq!(
            with,
            format!("[package]\n\n[dependencies]\n{line}\nb = \"1\"\n")
        );
        let without = with_dependency("[package]\n", line);
        assert_eq!(without, format!("[package]\n\n[dependencies]\n{line}\n"));
    }
}
