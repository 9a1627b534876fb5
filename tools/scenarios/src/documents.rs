//! What the documents say is where they say: each file and folder of the repository that one names exists,
//! each link leads somewhere, and each entry of the list of what an emulator cannot show
//! (docs/architecture-review.md) names code that is in the files beside it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The list whose entries name their place in the code.
const REVIEW: &str = "docs/architecture-review.md";

/// What is broken in these documents, a line each. `sources` are the files of Rust and assembly.
pub(crate) fn broken(
    root: &Path,
    documents: &[PathBuf],
    sources: &[PathBuf],
) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for document in documents {
        let shown = document.strip_prefix(root).unwrap_or(document);
        let text = fs::read_to_string(document)
            .with_context(|| format!("cannot read {}", document.display()))?;
        for (at, line) in text.lines().enumerate() {
            let lost = paths(line).filter(|path| !is_there(root, path));
            let lost = lost.map(|path| format!("{path} is not there"));
            let folder = document.parent().unwrap_or(root);
            let dead = links(line).filter(|link| !folder.join(link).exists());
            let dead = dead.map(|link| format!("the link to {link} leads nowhere"));
            let wrong = if shown == Path::new(REVIEW) {
                unnamed(root, line, sources)?
            } else {
                Vec::new()
            };
            let told = |what| format!("{}:{}: {what}", shown.display(), at + 1);
            broken.extend(lost.chain(dead).chain(wrong).map(told));
        }
    }
    Ok(broken)
}

/// What stands between backticks in a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The files and folders of the repository that a line names between backticks. A name in capitals
/// stands for any (`systems/NAME.toml`), and one with a star for several.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    const FOLDERS: [&str; 10] = [
        "core",
        "lib",
        "arch",
        "hypervisor",
        "guests",
        "tools",
        "boards",
        "tests",
        "docs",
        "fuzz",
    ];
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let is_any = |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
    quoted(line).filter(move |path| {
        let of_the_house = path
            .split_once('/')
            .is_some_and(|(first, _)| FOLDERS.contains(&first));
        of_the_house && path.chars().all(is_word) && !path.split(['/', '.']).any(is_any)
    })
}

fn is_there(root: &Path, path: &str) -> bool {
    /// What a document tells its reader to make, and where others keep theirs.
    const EXAMPLES: [&str; 4] = ["guests/hello", "fuzz/artifacts", "arch/arm64", "docs/devel"];
    root.join(path).exists() || EXAMPLES.iter().any(|known| path.starts_with(known))
}

/// The links of a line of Markdown that lead into the repository, without what follows a `#`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let link = rest.split([')', '#']).next()?;
        let inside = !link.is_empty() && !link.contains("://") && !link.contains(' ');
        inside.then_some(link)
    })
}

/// What a row of the list names as its place and is not there: its second column has files, and behind
/// each the names that are in it, up to the next semicolon.
fn unnamed(root: &Path, row: &str, sources: &[PathBuf]) -> Result<Vec<String>> {
    let cells: Vec<_> = row.trim().trim_matches('|').split(" | ").collect();
    let &[_, places, _] = cells.as_slice() else {
        return Ok(Vec::new());
    };
    let mut wrong = Vec::new();
    for place in places.split(';') {
        let (files, names): (Vec<_>, Vec<_>) = quoted(place).partition(|word| word.contains(".rs"));
        let mut found = BTreeSet::new();
        for file in files
            .iter()
            .copied()
            .chain(quoted(place).filter(|word| word.contains('/')))
        {
            found.extend(sources.iter().filter(|source| names_it(root, source, file)));
        }
        if found.is_empty() && !files.is_empty() {
            wrong.push(format!("there is no {}", files.join(", ")));
        }
        let texts: Result<Vec<_>, _> = found.into_iter().map(fs::read_to_string).collect();
        let texts = texts?;
        for name in names.into_iter().filter(|name| !name.contains('/')) {
            if !texts.iter().any(|text| has_word(text, name)) {
                wrong.push(format!("{name} is in none of {}", files.join(", ")));
            }
        }
    }
    Ok(wrong)
}

/// Whether a file of the repository is what a row calls `file`: its whole path or its end, also of a
/// module that became a folder.
fn names_it(root: &Path, source: &Path, file: &str) -> bool {
    let source = source.strip_prefix(root).unwrap_or(source);
    let stem = Path::new(file).with_extension("");
    source.ends_with(file)
        || source
            .parent()
            .is_some_and(|folder| folder.ends_with(&stem))
}

fn has_word(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_part(c)).any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house(document: &str, text: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("docs/adr")).unwrap();
        fs::create_dir_all(root.join("core/x/src")).unwrap();
        let source = root.join("core/x/src/a.rs");
        fs::write(&source, "fn present() {}\n").unwrap();
        let document = root.join(document);
        fs::write(&document, text).unwrap();
        broken(root, &[document], &[source]).unwrap()
    }

    #[test]
    fn what_is_there_may_be_named() {
        let text = "`core/x`, `core/x/src/a.rs`, `systems/NAME.toml`, `tests/NAME.toml`, `core/*/b`,\n\
                    [one](../core/x/src/a.rs#there), [two](https://example.org/x), `no/folder`\n";
        assert_eq!(house("docs/a.md", text), [""; 0]);
    }

    #[test]
    fn a_path_that_is_not_there_and_a_dead_link_are_found() {
        let text = "first\n`core/x/src/b.rs` [one](b.md) [two](adr)\n";
        assert_eq!(
            house("docs/a.md", text),
            [
                "docs/a.md:2: core/x/src/b.rs is not there",
                "docs/a.md:2: the link to b.md leads nowhere"
            ]
        );
    }

    #[test]
    fn an_entry_of_the_review_names_code_that_is_in_its_file() {
        let row = |place: &str| format!("| a rule | {place} | D1.2 |\n");
        for sound in [
            "`core/x/src/a.rs`, `present`",
            "`a.rs`, before `present`",
            "none yet",
        ] {
            assert_eq!(house(REVIEW, &row(sound)), [""; 0], "{sound}");
        }
        assert_eq!(
            house(REVIEW, &row("`a.rs`, `absent`; `c.rs`, `present`")),
            [
                format!("{REVIEW}:1: absent is in none of a.rs"),
                format!("{REVIEW}:1: there is no c.rs"),
                format!("{REVIEW}:1: present is in none of c.rs"),
            ]
        );
    }
}
