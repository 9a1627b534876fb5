//! Advice for a person who types at the prompt: how a line may go on, which word was probably
//! meant, and what each command is for.
//!
//! The commands themselves and their meaning are the board's (`hanok_vm::prompt`). Nothing in this
//! module is in an image.

use std::fmt;

use hanok_vm::Names;
use hanok_vm::prompt::{Problem, Takes, WORDS, command};

/// The largest number of changed characters for a word to count as a mistyped other one.
const CHANGES: usize = 2;
/// The column at which the second column of `help` begins.
const COLUMN: usize = 16;

/// What each command is for.
const PURPOSES: [(&str, &str); WORDS.len()] = [
    ("list", "the VMs and their states"),
    ("attach", "go to a VM's console"),
    ("pause", "let a VM stand still"),
    ("resume", "let it go on"),
    ("restart", "begin its life anew"),
    ("stop", "turn a VM off"),
    ("dump", "registers, last exits, interrupts"),
    ("stats", "exits by cause, and their cost"),
    ("quit", "turn the board off, with all VMs"),
    ("help", "this list"),
];

/// One line about each command.
pub fn help() -> impl Iterator<Item = String> {
    WORDS.iter().map(|word| {
        let purpose = PURPOSES.iter().find(|(name, _)| *name == word.name);
        let purpose = purpose.map_or("", |(_, purpose)| purpose);
        format!("{:COLUMN$}{purpose}", word.to_string())
    })
}

/// What to tell a person whose line is not understood.
pub fn advice(problem: &Problem<'_>, names: &Names) -> String {
    match *problem {
        Problem::NoCommand(typed) => match nearest(typed, commands()) {
            Some(near) => format!("no command {typed}: {near}?"),
            None => problem.to_string(),
        },
        Problem::NoVm(typed) => match nearest(typed, vms(names)) {
            Some(near) => format!("no VM {typed}: {near}?"),
            None => format!("no VM {typed}; there is: {}", Candidates::vms("", names)),
        },
        Problem::SeveralCommands(typed) => {
            format!("{typed} may mean: {}", Candidates::commands(typed))
        }
        Problem::SeveralVms(typed) => {
            format!("{typed} may mean: {}", Candidates::vms(typed, names))
        }
        Problem::NotInFull | Problem::WhichVm(_) | Problem::TooMuch(_) => problem.to_string(),
    }
}

fn commands<'a>() -> impl Iterator<Item = &'a str> {
    WORDS.iter().map(|word| word.name)
}

fn vms(names: &Names) -> impl Iterator<Item = &str> {
    names.iter().map(|name| name.as_str())
}

/// The word that needs fewest changes to become `typed`, if they are few enough.
fn nearest<'a>(typed: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = all.map(|word| (distance(typed, word), word));
    let (changes, word) = near.min_by_key(|(changes, _)| *changes)?;
    // Some of what was typed must stay.
    (changes <= CHANGES && changes < typed.chars().count()).then_some(word)
}

/// The number of characters that must be inserted, removed or replaced to make `a` from `b`
/// (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    // For the part of `b` seen so far, the distance from each beginning of `a`.
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for of_b in b.chars() {
        let mut diagonal = row[0];
        row[0] += 1;
        for (at, of_a) in a.iter().enumerate() {
            let replaced = diagonal + usize::from(*of_a != of_b);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[a.len()]
}

/// The words that an unfinished word may become.
#[derive(Clone, Debug)]
pub struct Candidates<'a> {
    begun: &'a str,
    all: Vec<&'a str>,
}

/// What can be added to an unfinished word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// This text, which completes the word.
    Whole(String),
    /// This text, which all candidates have in common.
    Part(String),
    /// Nothing: there are several candidates, and a person must choose.
    Choice,
    /// Nothing: no word begins in this way.
    None,
}

impl<'a> Candidates<'a> {
    fn among(begun: &'a str, all: impl Iterator<Item = &'a str>) -> Self {
        let all = all.filter(|word| word.starts_with(begun)).collect();
        Self { begun, all }
    }

    fn commands(begun: &'a str) -> Self {
        Self::among(begun, commands())
    }

    fn vms(begun: &'a str, names: &'a Names) -> Self {
        Self::among(begun, vms(names))
    }

    /// The candidates for the last word of an unfinished line, if it can have any.
    pub fn of(line: &'a str, names: &'a Names) -> Option<Self> {
        let Some((typed, rest)) = line.trim_start().split_once(' ') else {
            return Some(Self::commands(line.trim_start()));
        };
        match command(typed).ok()?.takes() {
            Takes::Nothing => None,
            Takes::Vm | Takes::PerhapsVm => Some(Self::vms(rest.trim_start(), names)),
        }
    }

    /// What can be added to the unfinished word.
    pub fn completion(&self) -> Completion {
        let Some((first, others)) = self.all.split_first() else {
            return Completion::None;
        };
        let common = others.iter().fold(*first, |common, word| {
            let mut ends = common.char_indices().zip(word.chars());
            match ends.find(|((_, ours), theirs)| ours != theirs) {
                Some(((at, _), _)) => &common[..at],
                None => &common[..common.len().min(word.len())],
            }
        });
        let more = common[self.begun.len()..].to_owned();
        if others.is_empty() {
            Completion::Whole(more)
        } else if more.is_empty() {
            Completion::Choice
        } else {
            Completion::Part(more)
        }
    }
}

impl fmt::Display for Candidates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanok_vm::prompt::parse;

    fn names() -> [hanok_vm::Name; 3] {
        ["linux", "rtos", "rtos-b"].map(|text| text.try_into().unwrap())
    }

    fn told(line: &str) -> String {
        advice(&parse(line, &names()).unwrap_err(), &names())
    }

    #[test]
    fn what_is_not_understood_is_answered_with_what_may_be_meant() {
        assert_eq!(told("atach rtos"), "no command atach: attach?");
        assert_eq!(told("lsit"), "no command lsit: list?");
        assert_eq!(told("xyzzy"), "no command xyzzy: help lists them");
        // Two changes are allowed, and some of what was typed must stay.
        assert_eq!(told("statistics"), "no command statistics: help lists them");
        assert_eq!(told("lt"), "no command lt: help lists them");
        assert_eq!(told("lit"), "no command lit: list?");
        assert_eq!(told("st rtos"), "st may mean: stop, stats");
        assert_eq!(told("q"), "quit turns the board off: type all of it");
        assert_eq!(told("dump"), "which VM? dump NAME");
        assert_eq!(told("dump linus"), "no VM linus: linux?");
        assert_eq!(told("dump z"), "no VM z; there is: linux, rtos, rtos-b");
        assert_eq!(told("dump rt"), "rt may mean: rtos, rtos-b");
        assert_eq!(told("list all"), "list takes nothing more");
    }

    #[test]
    fn every_command_has_its_purpose() {
        for (word, line) in WORDS.iter().zip(help()) {
            assert!(
                PURPOSES.iter().any(|(name, _)| *name == word.name),
                "{line}"
            );
        }
        let lines: Vec<String> = help().collect();
        assert!(lines.contains(&"attach NAME     go to a VM's console".to_owned()));
        assert!(lines.contains(&"stats [NAME]    exits by cause, and their cost".to_owned()));
    }

    #[test]
    fn lines_are_completed() {
        let names = names();
        let completed = |line| Candidates::of(line, &names).map(|all| all.completion());
        let whole = |more: &str| Some(Completion::Whole(more.to_owned()));
        let part = |more: &str| Some(Completion::Part(more.to_owned()));
        assert_eq!(completed("a"), whole("ttach"));
        assert_eq!(completed("re"), part("s"));
        assert_eq!(completed("  r"), part("es"));
        assert_eq!(completed("res"), Some(Completion::Choice));
        assert_eq!(completed("stop"), whole(""));
        assert_eq!(completed("xyz"), Some(Completion::None));
        assert_eq!(completed("dump "), Some(Completion::Choice));
        assert_eq!(completed("dump l"), whole("inux"));
        assert_eq!(completed("dump  r"), part("tos"));
        assert_eq!(completed("dump rtos"), Some(Completion::Choice));
        assert_eq!(completed("dump linux"), whole(""));
        assert_eq!(completed("list "), None);
        assert_eq!(completed("what "), None);
        let choice = Candidates::of("st", &names).unwrap();
        assert_eq!(choice.to_string(), "stop, stats");
    }

    #[test]
    fn distances_are_those_of_levenshtein() {
        for (a, b, wanted) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("list", "lst", 1),
            ("stats", "status", 1),
            ("ä", "a", 1),
        ] {
            assert_eq!(distance(a, b), wanted, "{a} {b}");
        }
    }
}
