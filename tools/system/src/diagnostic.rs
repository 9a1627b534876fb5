//! Diagnostics: what is wrong with a description, told to its author: where, what, why, and what
//! would mend it.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How a diagnostic is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text alone.
    Plain,
    /// Text with a terminal's colours.
    Coloured,
}

/// The largest width in characters. A sentence is not broken; a longer line of the file is cut
/// around its mark.
const WIDEST: usize = 140;

/// One diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file that it is about.
    pub file: PathBuf,
    /// The line, from 1; 0 where it is about the whole file.
    pub line: usize,
    /// The column in characters, from 1; 0 where it is about the whole file.
    pub column: usize,
    /// The number of characters of the line that it is about, as far as that is known.
    pub width: usize,
    /// What is wrong, in one phrase.
    pub what: String,
    /// The reason why it is wrong.
    pub why: String,
    /// What would mend it.
    pub remedy: String,
}

impl Diagnostic {
    /// A diagnostic about the place `mark` of `file`.
    pub(crate) fn at(file: &Path, mark: Mark, words: Words) -> Self {
        Self {
            file: file.to_path_buf(),
            line: mark.line,
            column: mark.column,
            width: mark.width,
            what: words.what,
            why: words.why,
            remedy: words.remedy,
        }
    }

    /// The diagnostic for the author of the file, whose text is `source`: with the line that it is
    /// about.
    pub fn shown(&self, source: &str, style: Style) -> String {
        let path = self.file.display().to_string();
        let (title, snippet) = match self.place(source) {
            Some((line, span)) => {
                let mark = AnnotationKind::Primary.span(span);
                let snippet = Snippet::source(line).line_start(self.line).path(path);
                (self.what.clone(), Some(snippet.annotation(mark)))
            }
            None => (self.header(), None),
        };
        let sentences = [("why", &self.why), ("fix", &self.remedy)].into_iter();
        let sentences = sentences.filter(|(_, sentence)| !sentence.is_empty());
        let notes = sentences.map(|(name, text)| Level::NOTE.with_name(name).message(text));
        let report = Level::ERROR.no_name().primary_title(title);
        let report = Group::with_title(report).elements(snippet).elements(notes);
        let renderer = match style {
            Style::Plain => Renderer::plain(),
            Style::Coloured => Renderer::styled(),
        };
        renderer.term_width(WIDEST).render(&[report])
    }

    /// The line of `source` that it is about, and the range of bytes in that line; `None` where
    /// `source` has no such place.
    fn place<'a>(&self, source: &'a str) -> Option<(&'a str, Range<usize>)> {
        let line = source.lines().nth(self.line.checked_sub(1)?)?;
        let starts = line.char_indices().map(|(at, _)| at).chain([line.len()]);
        let starts: Vec<_> = starts.collect();
        let first = self.column.checked_sub(1)?;
        let last = (first + self.width.max(1)).min(starts.len() - 1);
        Some((line, *starts.get(first)?..*starts.get(last)?))
    }

    /// The place and the fault.
    fn header(&self) -> String {
        let place = match self.line {
            0 => String::new(),
            line => format!("{line}:{}:", self.column),
        };
        format!("{}:{place} {}", self.file.display(), self.what)
    }

    /// A diagnostic about the whole of `file`.
    pub(crate) fn of_file(file: &Path, words: Words) -> Self {
        Self::at(file, Mark::default(), words)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.header())?;
        for (label, sentence) in [("why", &self.why), ("fix", &self.remedy)] {
            if !sentence.is_empty() {
                write!(f, "\n  {label}: {sentence}")?;
            }
        }
        Ok(())
    }
}

/// The three sentences of a diagnostic.
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

/// A place in a file: line and column in characters, from 1, or 0 for the whole file; and the
/// number of characters that it has in the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) width: usize,
}

/// A file's text and the diagnostics about it so far. The check goes on after the first one, so
/// that all faults are shown at once.
pub(crate) struct Report {
    pub(crate) path: PathBuf,
    text: String,
    /// The offset at which each line begins. A large file has a mark for each of thousands of
    /// parts.
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

    /// Notes a diagnostic about the bytes `span` of the text.
    pub(crate) fn refuse(&mut self, span: &Range<usize>, words: Words) {
        let mark = self.mark(span);
        self.found.push(Diagnostic::at(&self.path, mark, words));
    }

    /// The place of the bytes `span` of the text.
    pub(crate) fn mark(&self, span: &Range<usize>) -> Mark {
        let mut end = span.start.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let line = self.lines.partition_point(|start| *start <= end).max(1);
        let rest = self.text[end..].char_indices();
        let of_span = rest.take_while(|(at, c)| end + at < span.end && *c != '\n');
        Mark {
            line,
            column: self.text[self.lines[line - 1]..end].chars().count() + 1,
            width: of_span.count(),
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

/// The remedy for an unknown `word`, where it is close to one of `known`.
pub(crate) fn did_you_mean(word: &str, known: &[String]) -> Option<String> {
    let known = nearest(word, known.iter().map(String::as_str))?;
    Some(format!("did you mean \"{known}\"?"))
}

/// The one of `known` that is closest to `word`, if one is close enough.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |other: &&str| strsim::damerau_levenshtein(word, other);
    let best = known.into_iter().min_by_key(distance)?;
    (distance(&best) <= 1 + best.len() / 4).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostic(line: usize, column: usize, width: usize) -> Diagnostic {
        Diagnostic {
            file: "a.toml".into(),
            line,
            column,
            width,
            what: "unknown key".into(),
            why: "there is none".into(),
            remedy: "remove it".into(),
        }
    }

    #[test]
    fn the_line_is_shown_with_a_mark_below_the_span() {
        let shown = diagnostic(2, 3, 2).shown("a = 1\n\u{e9} cd = 2\n", Style::Plain);
        let wanted = "unknown key\n \
            --> a.toml:2:3\n  |\n2 | \u{e9} cd = 2\n  |   ^^\n  |\n  \
            = why: there is none\n  = fix: remove it";
        assert_eq!(shown, wanted);
    }

    #[test]
    fn a_refusal_of_a_whole_file_names_the_file() {
        let shown = diagnostic(0, 0, 0).shown("a = 1\n", Style::Plain);
        assert!(shown.starts_with("a.toml: unknown key\n"), "{shown}");
        assert!(shown.contains("why: there is none"), "{shown}");
    }

    #[test]
    fn a_place_that_the_file_has_not_is_named_all_the_same() {
        for (line, column) in [(9, 1), (1, 99), (usize::MAX, usize::MAX)] {
            let shown = diagnostic(line, column, 4).shown("a = 1\n", Style::Plain);
            assert!(
                shown.contains("a.toml:") && shown.contains("unknown key"),
                "{shown}"
            );
        }
        let shown = diagnostic(1, 5, usize::MAX / 2).shown("a = 1", Style::Plain);
        assert!(shown.contains("1 | a = 1"), "{shown}");
    }
}
