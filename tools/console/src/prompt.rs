//! The hypervisor's prompt, as a person at a terminal of this PC sees it.
//!
//! It is typed, edited and completed here, and understood by the hypervisor's own rules
//! (`hanok_vm::prompt`), so that it takes any key and any length, and several terminals have one
//! each; a command goes to the board as a whole line. Which VM a terminal shows is this PC's matter.

use hanok_vm::prompt::{Request, parse};
use hanok_vm::{Command, Name};

use super::advice::{Candidates, Completion, advice, help};
use super::typing::{Typed, Typing};

/// What a key at the prompt asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing that is to be seen.
    Nothing,
    /// To show the line anew.
    Redraw,
    /// To say this above the line, which is still typed.
    Say(Vec<String>),
    /// To say this below the line, which is done.
    Answer(Vec<String>),
    /// To show this VM.
    Attach(usize),
    /// That the board carries this line out.
    Command(String),
    /// To go back to the VM.
    Leave,
    /// To go back to the VM, which gets `Ctrl-]`.
    Literal,
}

/// The prompt of one terminal.
pub struct Prompt {
    names: Vec<Name>,
    typing: Typing,
}

impl Prompt {
    /// For VMs of these names.
    pub fn new(vms: &[String]) -> Self {
        Self {
            names: names(vms),
            typing: Typing::default(),
        }
    }

    /// Begins with an empty line.
    pub fn begin(&mut self) {
        self.typing.begin();
    }

    /// What of the line can be seen in `width` columns, and in which of them the cursor is.
    pub fn visible(&self, width: usize) -> (String, usize) {
        self.typing.visible(width)
    }

    /// One byte of what the terminal sends.
    pub fn feed(&mut self, byte: u8) -> Asked {
        match self.typing.feed(byte) {
            Typed::Nothing => Asked::Nothing,
            Typed::Changed => Asked::Redraw,
            Typed::Complete => self.complete(),
            Typed::Leave => Asked::Leave,
            Typed::Attention => Asked::Literal,
            Typed::Entered(line) => self.entered(&line),
        }
    }

    fn complete(&mut self) -> Asked {
        let begun = self.typing.begun().to_owned();
        let Some(candidates) = Candidates::of(&begun, &self.names) else {
            return Asked::Nothing;
        };
        match candidates.completion() {
            Completion::Choice => return Asked::Say(vec![candidates.to_string()]),
            Completion::None => {}
            Completion::Part(more) => self.typing.complete(&more),
            Completion::Whole(more) => {
                self.typing.complete(&more);
                if !begun.trim_start().contains(' ') {
                    self.typing.complete(" ");
                }
            }
        }
        Asked::Redraw
    }

    fn entered(&self, line: &str) -> Asked {
        if line.trim().is_empty() {
            return Asked::Leave;
        }
        // A short form of it that says the same: a word and a name.
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        match parse(&line, &self.names) {
            Ok(Request::Attach(vm)) => Asked::Attach(vm.index()),
            Ok(Request::Help) => Asked::Answer(all_help()),
            Ok(Request::Command(_)) => Asked::Command(line),
            Err(problem) => Asked::Answer(vec![advice(&problem, &self.names)]),
        }
    }
}

fn names(vms: &[String]) -> Vec<Name> {
    let names = vms.iter().filter_map(|name| name.as_str().try_into().ok());
    names.collect()
}

/// The line by which the board is asked for something, if `line` does that: what another process
/// sends is no more than a person can ask for.
pub fn command(line: &str, vms: &[String]) -> Option<String> {
    match Prompt::new(vms).entered(line) {
        Asked::Command(line) => Some(line),
        _ => None,
    }
}

/// Whether a line that the board was given asks for `stats`.
pub fn asks_for_stats(line: &str, vms: &[String]) -> bool {
    let names = names(vms);
    let asked = parse(line, &names).ok();
    matches!(asked, Some(Request::Command(Command::Stats(_))))
}

fn all_help() -> Vec<String> {
    let keys = [
        "words may be cut short, TAB completes, cursor keys bring lines back",
        "Ctrl-C or an empty line: back to the VM",
    ];
    help().chain(keys.map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt() -> Prompt {
        Prompt::new(&["linux".to_owned(), "rtos".to_owned()])
    }

    fn asked(prompt: &mut Prompt, keys: &str) -> Asked {
        keys.bytes().map(|byte| prompt.feed(byte)).last().unwrap()
    }

    #[test]
    fn a_line_is_understood_as_the_hypervisor_does() {
        let long = format!("{}  list {}\r", " ".repeat(300), " ".repeat(300));
        for (keys, wanted) in [
            ("list\r", Asked::Command("list".to_owned())),
            ("  pa   rt \r", Asked::Command("pa rt".to_owned())),
            (long.as_str(), Asked::Command("list".to_owned())),
            ("att rt\r", Asked::Attach(1)),
            ("\r", Asked::Leave),
            ("   \r", Asked::Leave),
            ("\x03", Asked::Leave),
            ("\x1d", Asked::Literal),
            (
                "lsit\r",
                Asked::Answer(vec!["no command lsit: list?".to_owned()]),
            ),
        ] {
            assert_eq!(asked(&mut prompt(), keys), wanted, "{keys:?}");
        }
    }

    /// On the board's own prompt what is not ASCII is dropped, so that nothing would be left.
    #[test]
    fn a_line_of_other_characters_is_no_empty_line() {
        let wanted = Asked::Answer(vec!["no command äöü: help lists them".to_owned()]);
        assert_eq!(asked(&mut prompt(), "äöü\r"), wanted);
    }

    #[test]
    fn a_line_is_completed_where_the_cursor_is() {
        let mut prompt = prompt();
        assert_eq!(asked(&mut prompt, "pau\tr\t"), Asked::Redraw);
        assert_eq!(prompt.visible(80).0, "pause rtos");
        prompt.begin();
        let several = Asked::Say(vec!["stop, stats".to_owned()]);
        assert_eq!(asked(&mut prompt, "st\t"), several);
        assert_eq!(prompt.visible(80).0, "st");
        assert_eq!(asked(&mut prompt, "zz \t"), Asked::Nothing);
    }

    #[test]
    fn another_process_may_ask_for_commands_alone() {
        let vms = ["a".to_owned()];
        assert_eq!(command(" stop  a", &vms).as_deref(), Some("stop a"));
        for none in [
            "attach a",
            "help",
            "stop b",
            "",
            "x",
            "list\nquit",
            "list\x1d",
        ] {
            assert_eq!(command(none, &vms), None, "{none:?}");
        }
        assert!(asks_for_stats("sta a", &vms) && asks_for_stats("stats", &vms));
        assert!(!asks_for_stats("stop a", &vms));
    }
}
