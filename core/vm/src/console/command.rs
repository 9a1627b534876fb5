//! The commands of the prompt, and the rules by which a typed line is understood: each word may be
//! typed in full, or as a beginning that only one word has.
//!
//! The board needs no more than that. Help for the user (completion, suggestions, explanations of commands)
//! is on the PC, and made from this table (`tools/console`).

use core::fmt;
use hanok_types::VmId;
use heapless::String;

/// A VM's name.
pub type Name = String<32>;
/// Names of the VMs, in the description's order.
pub type Names = [Name];

/// A command, with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Prints a line about each VM.
    List,
    /// Pauses the VM: none of its vCPUs runs.
    Pause(VmId),
    /// Resumes a paused VM.
    Resume(VmId),
    /// Begins a new boot of the VM.
    Restart(VmId),
    /// Turns the VM off.
    Stop(VmId),
    /// Prints registers, last exits and pending interrupts of the VM.
    Dump(VmId),
    /// Prints counters of one VM or of all.
    Stats(Option<VmId>),
    /// Turns the board off.
    Quit,
}

/// The request of a typed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Show another VM; the multiplexer does that.
    Attach(VmId),
    /// Show the commands; the multiplexer does that.
    Help,
    /// A command for the caller of the multiplexer.
    Command(Command),
}

/// The operand of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// A VM's name.
    Vm,
    /// A VM's name, or nothing.
    PerhapsVm,
}

/// How a request is made from the VM that a line names.
#[derive(Clone, Copy, Debug)]
enum Make {
    Plain(Request),
    OfVm(fn(VmId) -> Request),
    OfAny(fn(Option<VmId>) -> Request),
}

/// A command's word, its operand and its request.
#[derive(Debug)]
pub struct Word {
    /// The word.
    pub name: &'static str,
    make: Make,
}

const fn word(name: &'static str, make: Make) -> Word {
    Word { name, make }
}

/// Every command. (The closures name enum variants inside one another.)
pub const WORDS: [Word; 10] = {
    use Make::{OfAny, OfVm, Plain};
    use Request::Command as Do;
    [
        word("list", Plain(Do(Command::List))),
        word("attach", OfVm(Request::Attach)),
        word("pause", OfVm(|vm| Do(Command::Pause(vm)))),
        word("resume", OfVm(|vm| Do(Command::Resume(vm)))),
        word("restart", OfVm(|vm| Do(Command::Restart(vm)))),
        word("stop", OfVm(|vm| Do(Command::Stop(vm)))),
        word("dump", OfVm(|vm| Do(Command::Dump(vm)))),
        word("stats", OfAny(|vm| Do(Command::Stats(vm)))),
        word("quit", Plain(Do(Command::Quit))),
        word("help", Plain(Request::Help)),
    ]
};

impl Word {
    /// The operand that follows the word.
    pub const fn takes(&self) -> Takes {
        match self.make {
            Make::Plain(_) => Takes::Nothing,
            Make::OfVm(_) => Takes::Vm,
            Make::OfAny(_) => Takes::PerhapsVm,
        }
    }
}

/// The word and its operand, as in a line of `help`.
impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        f.write_str(match self.takes() {
            Takes::Nothing => "",
            Takes::Vm => " NAME",
            Takes::PerhapsVm => " [NAME]",
        })
    }
}

/// The reason why a line is not understood, in words for the person who typed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem<'a> {
    /// No command begins with this.
    NoCommand(&'a str),
    /// No VM's name begins with this.
    NoVm(&'a str),
    /// Several commands begin with this.
    SeveralCommands(&'a str),
    /// The names of several VMs begin with this.
    SeveralVms(&'a str),
    /// `quit` was not typed in full.
    NotInFull,
    /// This command needs a VM's name.
    WhichVm(&'static str),
    /// There are more words than this command takes.
    TooMuch(&'static str),
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, word, after) = match *self {
            Self::NoCommand(typed) => ("no command ", typed, ": help lists them"),
            Self::NoVm(typed) => ("no VM ", typed, ": list shows them"),
            Self::SeveralCommands(typed) | Self::SeveralVms(typed) => {
                ("", typed, " is the beginning of several")
            }
            Self::NotInFull => ("quit turns the board off", "", ": type all of it"),
            Self::WhichVm(command) => ("which VM? ", command, " NAME"),
            Self::TooMuch(command) => ("", command, " takes nothing more"),
        };
        write!(f, "{before}{word}{after}")
    }
}

/// Splits a line into its first word and the rest (a VM's name may have spaces).
fn split(line: &str) -> (&str, &str) {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    (word, rest.trim_ascii())
}

/// Understands a line.
pub fn parse<'a>(line: &'a str, names: &Names) -> Result<Request, Problem<'a>> {
    let (typed, rest) = split(line.trim_ascii());
    let word = command(typed)?;
    let named = || vm(rest, names);
    match (word.make, rest.is_empty()) {
        (Make::Plain(Request::Command(Command::Quit)), _) if typed != word.name => {
            Err(Problem::NotInFull)
        }
        (Make::Plain(request), true) => Ok(request),
        (Make::Plain(_), false) => Err(Problem::TooMuch(word.name)),
        (Make::OfVm(_), true) => Err(Problem::WhichVm(word.name)),
        (Make::OfVm(request), false) => named().map(request),
        (Make::OfAny(request), true) => Ok(request(None)),
        (Make::OfAny(request), false) => named().map(|vm| request(Some(vm))),
    }
}

/// The command that a word or its beginning names.
pub fn command(typed: &str) -> Result<&'static Word, Problem<'_>> {
    match find(typed, WORDS.iter().map(|word| word.name)) {
        Found::One(at) => WORDS.get(at).ok_or(Problem::NoCommand(typed)),
        Found::Several => Err(Problem::SeveralCommands(typed)),
        Found::None => Err(Problem::NoCommand(typed)),
    }
}

fn vm<'a>(typed: &'a str, names: &Names) -> Result<VmId, Problem<'a>> {
    match find(typed, names.iter().map(String::as_str)) {
        Found::One(at) => Ok(VmId::new(at as u8)),
        Found::Several => Err(Problem::SeveralVms(typed)),
        Found::None => Err(Problem::NoVm(typed)),
    }
}

/// The result of a search for a typed word.
enum Found {
    One(usize),
    Several,
    None,
}

fn find<'w>(typed: &str, all: impl Iterator<Item = &'w str>) -> Found {
    let mut found = Found::None;
    for (at, word) in all.enumerate() {
        if word == typed {
            return Found::One(at);
        }
        if word.starts_with(typed) {
            found = match found {
                Found::None => Found::One(at),
                Found::One(_) | Found::Several => Found::Several,
            };
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn names() -> [String<32>; 3] {
        let name = |text| String::try_from(text).unwrap();
        ["linux", "rtos", "rtos-b"].map(name)
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
    fn a_line_that_is_not_understood_is_answered_in_one_line() {
        assert_eq!(problem("lsit"), "no command lsit: help lists them");
        assert_eq!(problem("st rtos"), "st is the beginning of several");
        assert_eq!(problem("q"), "quit turns the board off: type all of it");
        assert_eq!(problem("dump"), "which VM? dump NAME");
        assert_eq!(problem("dump linus"), "no VM linus: list shows them");
        assert_eq!(problem("dump rt"), "rt is the beginning of several");
        assert_eq!(problem("list all"), "list takes nothing more");
    }

    /// `rtos` is also the beginning of `rtos-b`.
    #[test]
    fn a_whole_word_is_that_word_wherever_it_stands() {
        let name = |text| String::try_from(text).unwrap();
        let names = ["rtos-b", "rtos"].map(name);
        let wanted = Request::Attach(VmId::new(1));
        assert_eq!(parse("attach rtos", &names), Ok(wanted));
    }
}
