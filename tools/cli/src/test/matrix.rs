//! From scenario files to cases: one for each combination of its lists.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use super::scenario::{OneOrMore, Scenario};
use crate::system::{Overrides, parse_size};

/// One combination.
#[derive(Clone, Debug)]
pub struct Case {
    /// The scenario's name and what sets this case apart: `boot [max, 4 cores]`.
    pub name: String,
    /// The file's content.
    pub scenario: Arc<Scenario>,
    /// The description.
    pub system: String,
    /// What is changed about the board.
    pub overrides: Overrides,
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
        let scenario = Scenario::parse(&text).with_context(|| format!("in {}", path.display()))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        for case in expand(&stem, scenario)? {
            if cases.iter().any(|other| other.name == case.name) {
                bail!("two scenarios are called {}", case.name);
            }
            cases.push(case);
        }
    }
    Ok(cases)
}

/// The cases of one scenario.
fn expand(stem: &str, scenario: Scenario) -> Result<Vec<Case>> {
    let base = scenario.name.clone().unwrap_or_else(|| stem.to_owned());
    let systems = scenario.system.all();
    let memories = values(scenario.memory.as_ref());
    let (cpus, cores) = (
        values(scenario.cpu.as_ref()),
        values(scenario.cores.as_ref()),
    );
    let scenario = Arc::new(scenario);
    let mut cases = Vec::new();
    for system in &systems {
        for cpu in &cpus {
            for count in &cores {
                for memory in &memories {
                    let mut marks = Vec::new();
                    let short = system.rsplit('/').next().unwrap_or(system);
                    mark(
                        &mut marks,
                        systems.len(),
                        Some(short.trim_end_matches(".toml").into()),
                    );
                    mark(&mut marks, cpus.len(), cpu.clone());
                    mark(
                        &mut marks,
                        cores.len(),
                        count.map(|count| format!("{count} cores")),
                    );
                    mark(&mut marks, memories.len(), memory.clone());
                    let bytes = memory.as_deref().map(parse_size).transpose()?;
                    let overrides = Overrides {
                        cpu: cpu.clone(),
                        cores: *count,
                        memory: bytes,
                    };
                    cases.push(Case {
                        name: named(&base, &marks),
                        scenario: Arc::clone(&scenario),
                        system: system.clone(),
                        overrides,
                    });
                }
            }
        }
    }
    Ok(cases)
}

/// The values of a list, or once nothing.
fn values<T: Clone>(list: Option<&OneOrMore<T>>) -> Vec<Option<T>> {
    list.map_or_else(
        || vec![None],
        |list| list.all().into_iter().map(Some).collect(),
    )
}

/// Only what differs between cases stands in their names.
fn mark(marks: &mut Vec<String>, count: usize, value: Option<String>) {
    if count > 1 {
        marks.extend(value);
    }
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
        let cases = expand("boot", Scenario::parse(text).unwrap()).unwrap();
        cases.into_iter().map(|case| case.name).collect()
    }

    #[test]
    fn lists_make_a_matrix() {
        let text = "system = ['systems/a.toml', 'systems/b.toml']\ncores = [1, 4]\nmemory = '1G'";
        let wanted = [
            "boot [a, 1 cores]",
            "boot [a, 4 cores]",
            "boot [b, 1 cores]",
            "boot [b, 4 cores]",
        ];
        assert_eq!(names(text), wanted);
        assert_eq!(names("system = 'x'"), ["boot"]);
        assert_eq!(names("system = 'x'\nname = 'other'"), ["other"]);
    }

    #[test]
    fn a_wrong_size_is_told() {
        let scenario = Scenario::parse("system = 'x'\nmemory = 'much'").unwrap();
        assert!(expand("x", scenario).is_err());
    }
}
