//! Ceilings: how many lines each crate may have in an image.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::count::Counts;

/// The ceilings of all images, by the image's name.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(transparent)]
pub struct Ceilings(BTreeMap<String, Image>);

/// The ceilings of an image.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Image {
    /// Of all crates of the repository together.
    own: usize,
    /// Of each crate.
    crates: BTreeMap<String, usize>,
}

/// The result for one image.
#[derive(Debug)]
pub struct Judged {
    /// A table for people: each crate, its lines and its ceiling.
    pub table: String,
    /// What is wrong, one line for each fault.
    pub broken: Vec<String>,
}

impl Ceilings {
    /// Reads the ceilings from TOML.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).context("the ceilings cannot be read")
    }

    /// Compares the lines of the image called `name` with its ceilings. `own` are the first folders
    /// of the repository's own crates.
    pub fn judge(&self, name: &str, counts: &Counts, own: &[&str]) -> Judged {
        let none = Image::default();
        let image = self.0.get(name).unwrap_or(&none);
        let is_own = |one: &str| {
            one.split('/')
                .next()
                .is_some_and(|first| own.contains(&first))
        };
        let sum = |own: bool| -> usize {
            let of = counts.iter().filter(|(one, _)| is_own(one) == own);
            of.map(|(_, lines)| lines).sum()
        };
        let mut judged = Judged {
            table: String::new(),
            broken: Vec::new(),
        };
        let names: BTreeSet<_> = counts.keys().chain(image.crates.keys()).collect();
        let (ours, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|one| is_own(one));
        let row = |one: &String| (one.clone(), counts.get(one), image.crates.get(one));
        let all = sum(true);
        let total = (
            "the repository's own".to_owned(),
            Some(&all),
            Some(&image.own),
        );
        let rows = ours.into_iter().map(row).chain([total]);
        for (one, lines, ceiling) in rows.chain(others.into_iter().map(row)) {
            judged.add(name, &one, lines.copied(), ceiling.copied());
        }
        let _ = writeln!(judged.table, "{:<24}{:>8}", "from elsewhere", sum(false));
        judged
    }
}

impl Judged {
    fn add(&mut self, image: &str, name: &str, lines: Option<usize>, ceiling: Option<usize>) {
        let number = |number: Option<usize>| number.map_or("-".to_owned(), |n| n.to_string());
        let (lines_shown, ceiling_shown) = (number(lines), number(ceiling));
        let _ = writeln!(self.table, "{name:<24}{lines_shown:>8}{ceiling_shown:>9}");
        let what = match (lines, ceiling) {
            (Some(lines), Some(ceiling)) if lines > ceiling => {
                format!(
                    "has {lines} lines, {} more than its ceiling",
                    lines - ceiling
                )
            }
            (Some(lines), None) => format!("has {lines} lines and no ceiling"),
            (None, Some(_)) => "has a ceiling, and no line of it is in the image".to_owned(),
            _ => return,
        };
        self.broken.push(format!("{image}: {name} {what}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
[arm64]\nown = 30\n[arm64.crates]\n\"core/a\" = 10\n\"arch/b\" = 20\nheapless = 5\n";

    fn judged(counts: &[(&str, usize)]) -> Judged {
        let counts = counts.iter().map(|&(name, lines)| (name.to_owned(), lines));
        let ceilings = Ceilings::parse(TEXT).unwrap();
        ceilings.judge("arm64", &counts.collect(), &["core", "arch"])
    }

    #[test]
    fn an_image_below_its_ceilings_is_sound_and_its_table_has_sums() {
        let judged = judged(&[("core/a", 10), ("arch/b", 19), ("heapless", 5)]);
        assert_eq!(judged.broken, [""; 0]);
        let rows: Vec<Vec<_>> = judged
            .table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[0], ["arch/b", "19", "20"]);
        assert_eq!(rows[1], ["core/a", "10", "10"]);
        assert_eq!(rows[2].last_chunk(), Some(&["own", "29", "30"]));
        assert_eq!(rows[3], ["heapless", "5", "5"]);
        assert_eq!(rows[4].last(), Some(&"5"));
    }

    #[test]
    fn a_crate_that_grew_is_named() {
        let judged = judged(&[("core/a", 11), ("arch/b", 1), ("heapless", 1)]);
        assert_eq!(
            judged.broken,
            ["arm64: core/a has 11 lines, 1 more than its ceiling"]
        );
    }

    #[test]
    fn all_crates_together_have_a_ceiling_of_their_own() {
        let text = TEXT.replace("own = 30", "own = 29");
        let counts = [("core/a", 10), ("arch/b", 20), ("heapless", 5)];
        let counts = counts.map(|(name, lines)| (name.to_owned(), lines)).into();
        let judged = Ceilings::parse(&text)
            .unwrap()
            .judge("arm64", &counts, &["core", "arch"]);
        assert_eq!(
            judged.broken,
            ["arm64: the repository's own has 30 lines, 1 more than its ceiling"]
        );
    }

    #[test]
    fn a_crate_without_a_ceiling_and_a_ceiling_without_a_crate_are_named() {
        let judged = judged(&[("core/a", 1), ("core/new", 3), ("heapless", 1)]);
        assert_eq!(
            judged.broken,
            [
                "arm64: arch/b has a ceiling, and no line of it is in the image",
                "arm64: core/new has 3 lines and no ceiling"
            ]
        );
    }

    #[test]
    fn an_image_that_is_not_described_fails() {
        let ceilings = Ceilings::parse("").unwrap();
        let counts = Counts::from([("core/a".to_owned(), 1)]);
        assert!(!ceilings.judge("arm", &counts, &["core"]).broken.is_empty());
        assert!(Ceilings::parse("[arm]\nown = 1\nother = 2\n[arm.crates]\n").is_err());
    }
}
