//! What can be asked for at the prompt, and how a typed line is understood: by whole words,
//! by beginnings that only one word has, and where neither fits, with the word meant perhaps.

use core::fmt;
use hanok_types::{MAX_VMS, VmId};
use heapless::{String, Vec};

/// Names of the VMs, in the description's order.
pub type Names = Vec<String<32>, MAX_VMS>;

/// What the person at the prompt wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// A line about each VM.
    List,
    /// Lets none of its vCPUs run.
    Pause(VmId),
    /// Lets them run again.
    Resume(VmId),
    /// Begins a new life.
    Restart(VmId),
    /// Turns it off.
    Stop(VmId),
    /// Shows registers, last exits, pending interrupts.
    Dump(VmId),
    /// Shows counters: of one VM, or of all.
    Stats(Option<VmId>),
    /// Turns the board off.
    Quit,
}

/// What a line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Of the multiplexer: show another VM.
    Attach(VmId),
    /// Of the multiplexer: show the commands.
    Help,
    /// Of everybody else.
    Command(Command),
}

/// What may stand behind a command.
#[derive(Clone, Copy, Debug)]
enum Takes {
    Nothing(Request),
    Vm(fn(VmId) -> Request),
    PerhapsVm(fn(Option<VmId>) -> Request),
}

/// A command's word, and what it is for.
#[derive(Debug)]
pub struct Word {
    name: &'static str,
    takes: Takes,
    help: &'static str,
}

const fn word(name: &'static str, takes: Takes, help: &'static str) -> Word {
    Word { name, takes, help }
}

/// Every command. (The closures name enum variants inside one another.)
pub const WORDS: [Word; 10] = {
    use Request::Command as Do;
    use Takes::{Nothing, PerhapsVm, Vm};
    [
        word(
            "list",
            Nothing(Do(Command::List)),
            "the VMs and their states",
        ),
        word("attach", Vm(Request::Attach), "go to a VM's console"),
        word(
            "pause",
            Vm(|vm| Do(Command::Pause(vm))),
            "let a VM stand still",
        ),
        word("resume", Vm(|vm| Do(Command::Resume(vm))), "let it go on"),
        word(
            "restart",
            Vm(|vm| Do(Command::Restart(vm))),
            "begin its life anew",
        ),
        word("stop", Vm(|vm| Do(Command::Stop(vm))), "turn a VM off"),
        word(
            "dump",
            Vm(|vm| Do(Command::Dump(vm))),
            "registers, last exits, interrupts",
        ),
        word(
            "stats",
            PerhapsVm(|vm| Do(Command::Stats(vm))),
            "exits by cause, and their cost",
        ),
        word(
            "quit",
            Nothing(Do(Command::Quit)),
            "turn the board off, with all VMs",
        ),
        word("help", Nothing(Request::Help), "this list"),
    ]
};

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = match self.takes {
            Takes::Nothing(_) => "",
            Takes::Vm(_) => " NAME",
            Takes::PerhapsVm(_) => " [NAME]",
        };
        write!(
            f,
            "{}{more:<w$}{}",
            self.name,
            self.help,
            w = 16 - self.name.len()
        )
    }
}

/// Why a line is not understood, in words for the person who typed it.
#[derive(Debug, PartialEq, Eq)]
pub enum Problem<'a> {
    /// No command begins so.
    NoCommand(&'a str, Option<&'a str>),
    /// Several do.
    SeveralCommands(&'a str),
    /// `quit`, but not in full.
    NotInFull,
    /// A VM's name is missing.
    WhichVm(&'a str),
    /// No VM has this name.
    NoVm(&'a str, Option<&'a str>, &'a Names),
    /// Several VMs' names begin so.
    SeveralVms(&'a str, &'a Names),
    /// More words than the command takes.
    TooMuch(&'a str),
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCommand(typed, Some(near)) => write!(f, "no command {typed}: {near}?"),
            Self::NoCommand(typed, None) => write!(f, "no command {typed}: help lists them"),
            Self::SeveralCommands(typed) => {
                let list = Candidates::commands(typed);
                write!(f, "{typed} may mean: {list}")
            }
            Self::NotInFull => f.write_str("quit turns the board off: type all of it"),
            Self::WhichVm(command) => write!(f, "which VM? {command} NAME"),
            Self::NoVm(typed, Some(near), _) => write!(f, "no VM {typed}: {near}?"),
            Self::NoVm(typed, None, names) => {
                write!(f, "no VM {typed}; there is: {}", Candidates::vms("", names))
            }
            Self::SeveralVms(typed, names) => {
                write!(f, "{typed} may mean: {}", Candidates::vms(typed, names))
            }
            Self::TooMuch(command) => write!(f, "{command} takes nothing more"),
        }
    }
}

/// Splits a line into its first word and the rest (a VM's name may have spaces).
fn split(line: &str) -> (&str, &str) {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    (word, rest.trim())
}

/// Understands a line.
pub fn parse<'a>(line: &'a str, names: &'a Names) -> Result<Request, Problem<'a>> {
    let (typed, rest) = split(line.trim());
    let word = command(typed)?;
    let named = || vm(rest, names);
    match (word.takes, rest.is_empty()) {
        (Takes::Nothing(Request::Command(Command::Quit)), _) if typed != word.name => {
            Err(Problem::NotInFull)
        }
        (Takes::Nothing(request), true) => Ok(request),
        (Takes::Nothing(_), false) => Err(Problem::TooMuch(word.name)),
        (Takes::Vm(_), true) => Err(Problem::WhichVm(word.name)),
        (Takes::Vm(request), false) => named().map(request),
        (Takes::PerhapsVm(request), true) => Ok(request(None)),
        (Takes::PerhapsVm(request), false) => named().map(|vm| request(Some(vm))),
    }
}

fn command(typed: &str) -> Result<&'static Word, Problem<'_>> {
    match find(typed, WORDS.iter().map(|word| word.name)) {
        Found::One(at) => WORDS.get(at).ok_or(Problem::NoCommand(typed, None)),
        Found::Several => Err(Problem::SeveralCommands(typed)),
        Found::None(near) => Err(Problem::NoCommand(typed, near)),
    }
}

fn vm<'a>(typed: &'a str, names: &'a Names) -> Result<VmId, Problem<'a>> {
    match find(typed, names.iter().map(String::as_str)) {
        Found::One(at) => Ok(VmId::new(at as u8)),
        Found::Several => Err(Problem::SeveralVms(typed, names)),
        Found::None(near) => Err(Problem::NoVm(typed, near, names)),
    }
}

/// What a typed word is among those that there are.
enum Found<'a> {
    One(usize),
    Several,
    /// None of them; perhaps this one was meant.
    None(Option<&'a str>),
}

fn find<'a>(typed: &str, all: impl Iterator<Item = &'a str> + Clone) -> Found<'a> {
    if let Some(at) = all.clone().position(|word| word == typed) {
        return Found::One(at);
    }
    let mut begun = all
        .clone()
        .enumerate()
        .filter(|(_, word)| word.starts_with(typed));
    match (begun.next(), begun.next()) {
        (Some((at, _)), None) => Found::One(at),
        (Some(_), Some(_)) => Found::Several,
        (None, _) => Found::None(nearest(typed, all)),
    }
}

/// The word that fewest changes make of `typed`, if two are enough.
fn nearest<'a>(typed: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = all.map(|word| (distance(typed, word), word));
    let (changes, word) = near.min_by_key(|(changes, _)| *changes)?;
    (changes <= 2 && usize::from(changes) < typed.len()).then_some(word)
}

/// How many characters must be put in, taken out or replaced to make `a` of `b`
/// (Levenshtein), as far as the first 32 of each go.
fn distance(a: &str, b: &str) -> u8 {
    const MOST: usize = 32;
    let a = a.get(..MOST).unwrap_or(a);
    // For the beginning of `b` so far: the distance from each beginning of `a` but the
    // empty one, whose distance is `empty`.
    let mut row: [u8; MOST] = core::array::from_fn(|at| at as u8 + 1);
    let mut empty = 0;
    for of_b in b.bytes().take(MOST) {
        let (mut diagonal, mut left) = (empty, empty + 1);
        empty = left;
        for (cell, of_a) in row.iter_mut().zip(a.bytes()) {
            let replaced = diagonal + u8::from(of_a != of_b);
            diagonal = *cell;
            left = replaced.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
    }
    let last = a.len().checked_sub(1).and_then(|at| row.get(at));
    last.copied().unwrap_or(empty)
}

/// The words that a beginning may become.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    begun: &'a str,
    /// VMs' names, or else the commands.
    names: Option<&'a Names>,
}

impl<'a> Candidates<'a> {
    fn commands(begun: &'a str) -> Self {
        Self { begun, names: None }
    }

    fn vms(begun: &'a str, names: &'a Names) -> Self {
        let names = Some(names);
        Self { begun, names }
    }

    /// Those for the last word of an unfinished line, if there may be any.
    pub fn of(line: &'a str, names: &'a Names) -> Option<Self> {
        let line = line.trim_start();
        if !line.contains(' ') {
            return Some(Self::commands(line));
        }
        let (typed, _) = split(line);
        let rest = line.get(typed.len()..)?.trim_start();
        match command(typed).ok()?.takes {
            Takes::Nothing(_) => None,
            Takes::Vm(_) | Takes::PerhapsVm(_) => Some(Self::vms(rest, names)),
        }
    }

    fn iter(self) -> impl Iterator<Item = &'a str> {
        let commands = WORDS.iter().filter(move |_| self.names.is_none());
        let vms = self.names.into_iter().flatten().map(String::as_str);
        let all = commands.map(|word| word.name).chain(vms);
        all.filter(move |word| word.starts_with(self.begun))
    }

    /// What can be put to the end of the line without a choice, and whether the word is
    /// complete with it. Empty where there is nothing, or a choice.
    pub fn completion(self) -> (&'a str, bool) {
        let mut all = self.iter();
        let Some(first) = all.next() else {
            return ("", false);
        };
        let mut end = first.len();
        let mut alone = true;
        for other in all {
            let same = first.bytes().zip(other.bytes()).take_while(|(a, b)| a == b);
            end = end.min(same.count());
            alone = false;
        }
        let more = first.get(self.begun.len()..end).unwrap_or("");
        (more, alone)
    }

    /// Whether there is a choice.
    pub fn are_several(self) -> bool {
        self.iter().nth(1).is_some()
    }
}

impl fmt::Display for Candidates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, word) in self.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            f.write_str(word)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn names() -> Names {
        let name = |text| String::try_from(text).unwrap();
        ["linux", "rtos", "rtos-b"].map(name).into_iter().collect()
    }

    fn problem(line: &str) -> std::string::String {
        parse(line, &names()).unwrap_err().to_string()
    }

    #[test]
    fn words_are_known_by_their_beginnings() {
        let names = names();
        let rtos = VmId::new(1);
        for (line, wanted) in [
            ("l", Request::Command(Command::List)),
            ("  list  ", Request::Command(Command::List)),
            ("att l", Request::Attach(VmId::new(0))),
            ("rest rtos", Request::Command(Command::Restart(rtos))),
            ("p rtos-", Request::Command(Command::Pause(VmId::new(2)))),
            ("d  rtos", Request::Command(Command::Dump(rtos))),
            ("sta", Request::Command(Command::Stats(None))),
            ("stats rtos", Request::Command(Command::Stats(Some(rtos)))),
            ("h", Request::Help),
            ("quit", Request::Command(Command::Quit)),
        ] {
            assert_eq!(parse(line, &names), Ok(wanted), "{line}");
        }
    }

    #[test]
    fn what_is_not_understood_is_answered_with_what_may_be_meant() {
        assert_eq!(problem("atach rtos"), "no command atach: attach?");
        assert_eq!(problem("lsit"), "no command lsit: list?");
        assert_eq!(problem("xyzzy"), "no command xyzzy: help lists them");
        // Two changes are enough, and some of what was typed is to stay.
        assert_eq!(
            problem("statistics"),
            "no command statistics: help lists them"
        );
        assert_eq!(problem("lt"), "no command lt: help lists them");
        assert_eq!(problem("lit"), "no command lit: list?");
        assert_eq!(problem("st rtos"), "st may mean: stop, stats");
        assert_eq!(problem("q"), "quit turns the board off: type all of it");
        assert_eq!(problem("dump"), "which VM? dump NAME");
        assert_eq!(problem("dump linus"), "no VM linus: linux?");
        assert_eq!(problem("dump z"), "no VM z; there is: linux, rtos, rtos-b");
        assert_eq!(problem("dump rt"), "rt may mean: rtos, rtos-b");
        assert_eq!(problem("list all"), "list takes nothing more");
    }

    #[test]
    fn lines_are_completed() {
        let names = names();
        let completed = |line| Candidates::of(line, &names).map(Candidates::completion);
        assert_eq!(completed("a"), Some(("ttach", true)));
        assert_eq!(completed("re"), Some(("s", false)));
        assert_eq!(completed("r"), Some(("es", false)));
        assert_eq!(completed("res"), Some(("", false)));
        assert_eq!(completed("dump "), Some(("", false)));
        assert_eq!(completed("dump l"), Some(("inux", true)));
        assert_eq!(completed("dump r"), Some(("tos", false)));
        assert_eq!(completed("dump linux"), Some(("", true)));
        assert_eq!(completed("list "), None);
        assert_eq!(completed("what "), None);
        let choice = Candidates::of("st", &names).unwrap();
        assert!(choice.are_several());
        assert_eq!(choice.to_string(), "stop, stats");
        for line in ["stop", "sto", "xyz", "dump l", "dump z"] {
            let one = Candidates::of(line, &names).unwrap();
            assert!(!one.are_several(), "{line}");
        }
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
        ] {
            assert_eq!(distance(a, b), wanted, "{a} {b}");
        }
        let long = "x".repeat(200);
        assert_eq!(distance(&long, "y"), 32);
    }
}
