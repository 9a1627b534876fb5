//! Makes cases from scenario files: one for each combination of a scenario's lists.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};

use super::scenario::{OneOrMore, Scenario};
use super::step_spec::Means;
use hanok_base::ui::counted;
use hanok_base::values;
use hanok_boot::overrides::{Overrides, VmOverrides, Whose};

/// One combination.
#[derive(Clone, Debug)]
pub struct Case {
    /// The scenario's name and what distinguishes this case: `boot [max, 4 cores]`.
    pub name: String,
    /// Its file, from the repository on.
    pub file: String,
    /// The file's content.
    pub scenario: Arc<Scenario>,
    /// The description.
    pub system: String,
    /// The changes to the board and its first VM.
    pub overrides: Overrides,
    /// The seed of the random numbers of damage.
    pub seed: u64,
}

/// Every case of `tests/*.toml`, in the order of the files' names.
pub fn load(root: &Path) -> Result<Vec<Case>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("tests")).context("cannot read tests/")? {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "toml") {
            files.push(path);
        }
    }
    files.sort();
    let mut cases: Vec<Case> = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let found = parse(&stem, &text).with_context(|| format!("in {}", path.display()))?;
        for case in found {
            if cases.iter().any(|other| other.name == case.name) {
                bail!("two scenarios are called {}", case.name);
            }
            cases.push(case);
        }
    }
    Ok(cases)
}

/// The cases of one file's text.
pub fn parse(stem: &str, text: &str) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (mark, scenario) in Scenario::parse_all(text)? {
        cases.extend(expand(stem, mark.as_deref(), &scenario)?);
    }
    for case in &mut cases {
        case.file = format!("tests/{stem}.toml");
    }
    Ok(cases)
}

/// The cases of one scenario: its lists multiplied.
fn expand(stem: &str, mark: Option<&str>, scenario: &Scenario) -> Result<Vec<Case>> {
    let marks = mark.map(str::to_owned).into_iter().collect();
    let systems = scenario.system.all();
    let mut drafts = Vec::new();
    for system in &systems {
        let mut draft = Draft {
            marks: Vec::clone(&marks),
            system: system.clone(),
            ..Draft::default()
        };
        if systems.len() > 1 {
            let short = system.rsplit('/').next().unwrap_or(system);
            draft.marks.push(short.trim_end_matches(".toml").to_owned());
        }
        drafts.push(draft);
    }
    let s = scenario;
    let boards = s.board.as_ref().map(OneOrMore::all).unwrap_or_default();
    if let Some(board) = s.slow_on.iter().find(|&board| !boards.contains(board)) {
        bail!("`slow-on` names {board}, which is not in `board`");
    }
    let drafts = by(
        drafts,
        &s.board,
        |d, v| d.overrides.board = v,
        String::clone,
    );
    let drafts = by(
        drafts,
        &s.backend,
        |d, v| d.overrides.backend = v,
        String::clone,
    );
    let drafts = by(
        drafts,
        &s.kernel,
        |d, v| d.overrides.vm.kernel = v,
        |v| v.trim_start_matches("debian:").to_owned(),
    );
    let drafts = by(drafts, &s.cpu, |d, v| d.overrides.cpu = v, String::clone);
    let drafts = by(
        drafts,
        &s.vcpus,
        |d, v| d.overrides.vm.vcpus = v,
        |v| counted(*v, "vCPU"),
    );
    let drafts = by(
        drafts,
        &s.cores,
        |d, v| d.overrides.cores = v,
        |v| counted(*v, "core"),
    );
    let drafts = by(drafts, &s.memory, |d, v| d.memory = v, String::clone);
    let drafts = by(drafts, &s.seed, |d, v| d.seed = v, |v| format!("seed {v}"));
    let base = scenario.name.as_deref().unwrap_or(stem);
    drafts
        .into_iter()
        .map(|draft| draft.finish(base, scenario))
        .collect()
}

/// A case in the making.
#[derive(Clone, Default)]
struct Draft {
    marks: Vec<String>,
    system: String,
    overrides: Overrides,
    memory: Option<String>,
    seed: Option<u64>,
}

/// Combines each of `drafts` with each value of `list`; names only have what differs.
fn by<T: Clone>(
    drafts: Vec<Draft>,
    list: &Option<OneOrMore<T>>,
    put: impl Fn(&mut Draft, Option<T>),
    mark: impl Fn(&T) -> String,
) -> Vec<Draft> {
    let Some(list) = list else { return drafts };
    let values = list.all();
    let mut all = Vec::new();
    for draft in drafts {
        for value in &values {
            let mut draft = draft.clone();
            if values.len() > 1 {
                draft.marks.push(mark(value));
            }
            put(&mut draft, Some(value.clone()));
            all.push(draft);
        }
    }
    all
}

impl Draft {
    fn finish(mut self, base: &str, scenario: &Scenario) -> Result<Case> {
        let mut scenario = scenario.clone();
        let vm = &mut self.overrides.vm;
        let mut vars = std::mem::take(&mut scenario.vars);
        let vcpus = vm
            .vcpus
            .map(|vcpus| ("vcpus".to_owned(), vcpus.to_string()));
        vars.extend(vcpus);
        scenario.fill(&vars)?;
        // The texts are complete only now.
        scenario.steps(Means::default())?;
        vm.memory = scenario.vm_memory.as_deref().map(bytes).transpose()?;
        vm.cmdline = scenario.cmdline.clone();
        let board = self.overrides.board.as_ref();
        scenario.slow |= board.is_some_and(|board| scenario.slow_on.contains(board));
        self.overrides.whose = Whose::Scenario;
        for (name, spec) in &scenario.vms {
            let memory = spec.memory.as_deref().map(bytes).transpose()?;
            let changed = VmOverrides {
                kernel: spec.kernel.clone(),
                vcpus: spec.vcpus,
                cpus: spec.cpus.clone(),
                memory,
                autostart: spec.autostart,
                cmdline: spec.cmdline.clone(),
            };
            self.overrides.vms.insert(name.clone(), changed);
        }
        self.overrides.memory = self.memory.as_deref().map(bytes).transpose()?;
        Ok(Case {
            name: named(base, &self.marks),
            file: String::new(),
            scenario: Arc::new(scenario),
            system: self.system,
            overrides: self.overrides,
            seed: self.seed.unwrap_or(1),
        })
    }
}

/// The size of a memory.
fn bytes(text: &str) -> Result<u64> {
    values::size(text).map_err(|why| anyhow!("`{text}`: {why}"))
}

fn named(base: &str, marks: &[String]) -> String {
    if marks.is_empty() {
        base.to_owned()
    } else {
        format!("{base} [{}]", marks.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let cases = parse("boot", text).unwrap();
        cases.into_iter().map(|case| case.name).collect()
    }

    #[test]
    fn lists_make_a_matrix() {
        let text = "system = ['systems/a.toml', 'systems/b.toml']\ncores = [1, 4]\nmemory = '1G'";
        let wanted = [
            "boot [a, 1 core]",
            "boot [a, 4 cores]",
            "boot [b, 1 core]",
            "boot [b, 4 cores]",
        ];
        assert_eq!(names(text), wanted);
        let text = "system = 'x'\nvcpus = [1, 2]\n[[cases]]\ncpu = 'max'\n\
            [[cases]]\nname = 'a'\nvcpus = 4";
        let wanted = ["boot [max, 1 vCPU]", "boot [max, 2 vCPUs]", "boot [a]"];
        assert_eq!(names(text), wanted);
        let text = "system = 'x'\nboard = ['a', 'b']\nvcpus = 2";
        assert_eq!(names(text), ["boot [a]", "boot [b]"]);
        assert_eq!(names("system = 'x'"), ["boot"]);
        assert_eq!(names("system = 'x'\nname = 'other'"), ["other"]);
    }

    #[test]
    fn a_case_is_slow_on_the_boards_that_say_so() {
        let text = "system = 'x'\nboard = ['a', 'b']\nslow-on = ['b']";
        let slow = |text| -> Vec<bool> {
            let cases = parse("boot", text).unwrap();
            cases.iter().map(|case| case.scenario.slow).collect()
        };
        assert_eq!(slow(text), [false, true]);
        assert_eq!(slow(&format!("{text}\nslow = true")), [true, true]);
        let absent = parse("boot", "system = 'x'\nboard = 'a'\nslow-on = ['b']").unwrap_err();
        assert!(absent.to_string().contains("names b"), "{absent}");
    }

    #[test]
    fn a_wrong_size_is_told() {
        assert!(parse("x", "system = 'x'\nmemory = 'much'").is_err());
        assert!(parse("x", "system = 'x'\nvm-memory = 'much'").is_err());
    }
}
