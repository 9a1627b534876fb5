//! What is wrong with a description, for whoever wrote it: where, what, why, and what
//! would mend it.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file it is about.
    pub file: PathBuf,
    /// Its line, from 1; 0 where it is about the whole file.
    pub line: usize,
    /// The column in characters, from 1; 0 where it is about the whole file.
    pub column: usize,
    /// What is wrong, in one phrase.
    pub what: String,
    /// Why that cannot be.
    pub why: String,
    /// What would mend it.
    pub remedy: String,
}

impl Diagnostic {
    /// A refusal of something at `mark` in `file`.
    pub(crate) fn at(file: &Path, mark: Mark, words: Words) -> Self {
        Self {
            file: file.to_path_buf(),
            line: mark.line,
            column: mark.column,
            what: words.what,
            why: words.why,
            remedy: words.remedy,
        }
    }

    /// A refusal of the whole of `file`.
    pub(crate) fn of_file(file: &Path, words: Words) -> Self {
        Self::at(file, Mark::default(), words)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        write!(f, " {}", self.what)?;
        for (label, sentence) in [("why", &self.why), ("fix", &self.remedy)] {
            if !sentence.is_empty() {
                write!(f, "\n  {label}: {sentence}")?;
            }
        }
        Ok(())
    }
}

/// The three sentences of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) what: String,
    pub(crate) why: String,
    pub(crate) remedy: String,
}

impl Words {
    pub(crate) fn new(
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            why: why.into(),
            remedy: remedy.into(),
        }
    }
}

/// A place in a file: line and column in characters, from 1; 0 for the whole file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A file's text and the refusals found in it so far. Going on after the first one shows
/// everything that is wrong at once.
pub(crate) struct Report {
    pub(crate) path: PathBuf,
    text: String,
    /// Where its lines begin: a large file has a mark for each of thousands of parts.
    lines: Vec<usize>,
    pub(crate) found: Vec<Diagnostic>,
}

impl Report {
    pub(crate) fn new(path: &Path, text: &str) -> Self {
        Self {
            path: path.to_path_buf(),
            text: text.to_owned(),
            lines: core::iter::once(0)
                .chain(text.match_indices('\n').map(|(at, _)| at + 1))
                .collect(),
            found: Vec::new(),
        }
    }

    /// Notes a refusal at the bytes `span` of the text.
    pub(crate) fn refuse(&mut self, span: &Range<usize>, words: Words) {
        let mark = self.mark(span);
        self.found.push(Diagnostic::at(&self.path, mark, words));
    }

    /// Where the bytes `span` of the text begin.
    pub(crate) fn mark(&self, span: &Range<usize>) -> Mark {
        let mut end = span.start.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let line = self.lines.partition_point(|start| *start <= end).max(1);
        Mark {
            line,
            column: self.text[self.lines[line - 1]..end].chars().count() + 1,
        }
    }
}

/// The text of the TOML file `path`.
pub(crate) fn read(path: &Path) -> Result<String, Diagnostic> {
    std::fs::read_to_string(path).map_err(|error| {
        let remedy = "give the path of a readable TOML file";
        let words = Words::new("this file cannot be read", error.to_string(), remedy);
        Diagnostic::of_file(path, words)
    })
}

/// What would mend `word`, where it is close to one of `known`.
pub(crate) fn did_you_mean(word: &str, known: &[String]) -> Option<String> {
    let known = nearest(word, known.iter().map(String::as_str))?;
    Some(format!("did you mean \"{known}\"?"))
}

/// The one of `known` that `word` was probably meant to be.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |other: &&str| strsim::damerau_levenshtein(word, other);
    let best = known.into_iter().min_by_key(distance)?;
    (distance(&best) <= 1 + best.len() / 4).then_some(best)
}
