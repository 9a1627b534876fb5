//! The hypervisor's prompt, as a person at a terminal of this PC sees it.
//!
//! Lines are typed, edited and completed here, by the hypervisor's own rules (`hanok_vm::prompt`).
//! So the prompt takes any key and any length, and several terminals have one each. A command goes
//! to the board as a whole line. Which VM a terminal shows is decided on this PC.

use hanok_vm::prompt::{Request, parse};
use hanok_vm::{Command, Name};

use super::advice::{Candidates, Completion, advice, help};
use super::typing::{Typed, Typing};

/// What a key at the prompt asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptRequest {
    /// Nothing visible.
    Nothing,
    /// To show the line again.
    Redraw,
    /// To show these lines above the prompt, at which the person goes on typing.
    Say(Vec<String>),
    /// To show these lines below the prompt, whose line is done.
    Answer(Vec<String>),
    /// To show this VM.
    Attach(usize),
    /// To have the board carry out this line.
    Command(String),
    /// To return to the VM.
    Leave,
    /// To return to the VM, and send it `Ctrl-]`.
    Literal,
}

/// The prompt of one terminal.
pub struct Prompt {
    names: Vec<Name>,
    typing: Typing,
}

impl Prompt {
    /// For VMs with these names.
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

    /// The part of the line that is visible in `width` columns, and the cursor's column in it.
    pub fn visible(&self, width: usize) -> (String, usize) {
        self.typing.visible(width)
    }

    /// Takes one byte from the terminal.
    pub fn feed(&mut self, byte: u8) -> PromptRequest {
        match self.typing.feed(byte) {
            Typed::Nothing => PromptRequest::Nothing,
            Typed::Changed => PromptRequest::Redraw,
            Typed::Complete => self.complete(),
            Typed::Leave => PromptRequest::Leave,
            Typed::Attention => PromptRequest::Literal,
            Typed::Entered(line) => self.entered(&line),
        }
    }

    fn complete(&mut self) -> PromptRequest {
        let begun = self.typing.begun().to_owned();
        let Some(candidates) = Candidates::of(&begun, &self.names) else {
            return PromptRequest::Nothing;
        };
        match candidates.completion() {
            Completion::Choice => return PromptRequest::Say(vec![candidates.to_string()]),
            Completion::None => {}
            Completion::Part(more) => self.typing.complete(&more),
            Completion::Whole(more) => {
                self.typing.complete(&more);
                if !begun.trim_start().contains(' ') {
                    self.typing.complete(" ");
                }
            }
        }
        PromptRequest::Redraw
    }

    fn entered(&self, line: &str) -> PromptRequest {
        if line.trim().is_empty() {
            return PromptRequest::Leave;
        }
        // The shortest form with the same meaning: a word and a name.
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        match parse(&line, &self.names) {
            Ok(Request::Attach(vm)) => PromptRequest::Attach(vm.index()),
            Ok(Request::Help) => PromptRequest::Answer(all_help()),
            Ok(Request::Command(_)) => PromptRequest::Command(line),
            Err(problem) => PromptRequest::Answer(vec![advice(&problem, &self.names)]),
        }
    }
}

fn names(vms: &[String]) -> Vec<Name> {
    let names = vms.iter().filter_map(|name| name.as_str().try_into().ok());
    names.collect()
}

/// The line by which the board is asked to do something, if `line` does that: another process may
/// ask for no more than a person can.
pub fn command(line: &str, vms: &[String]) -> Option<String> {
    match Prompt::new(vms).entered(line) {
        PromptRequest::Command(line) => Some(line),
        _ => None,
    }
}

/// Whether a line for the board asks for `stats`.
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

    fn asked(prompt: &mut Prompt, keys: &str) -> PromptRequest {
        keys.bytes().map(|byte| prompt.feed(byte)).last().unwrap()
    }

    #[test]
    fn a_line_is_understood_as_the_hypervisor_does() {
        let long = format!("{}  list {}\r", " ".repeat(300), " ".repeat(300));
        for (keys, wanted) in [
            ("list\r", PromptRequest::Command("list".to_owned())),
            ("  pa   rt \r", PromptRequest::Command("pa rt".to_owned())),
            (long.as_str(), PromptRequest::Command("list".to_owned())),
            ("att rt\r", PromptRequest::Attach(1)),
            ("\r", PromptRequest::Leave),
            ("   \r", PromptRequest::Leave),
            ("\x03", PromptRequest::Leave),
            ("\x1d", PromptRequest::Literal),
            (
                "lsit\r",
                PromptRequest::Answer(vec!["no command lsit: list?".to_owned()]),
            ),
        ] {
            assert_eq!(asked(&mut prompt(), keys), wanted, "{keys:?}");
        }
    }

    /// The board's own prompt drops characters that are not ASCII, so that nothing of this line
    /// would be left.
    #[test]
    fn a_line_of_other_characters_is_no_empty_line() {
        let wanted = PromptRequest::Answer(vec!["no command äöü: help lists them".to_owned()]);
        assert_eq!(asked(&mut prompt(), "äöü\r"), wanted);
    }

    #[test]
    fn a_line_is_completed_where_the_cursor_is() {
        let mut prompt = prompt();
        assert_eq!(asked(&mut prompt, "pau\tr\t"), PromptRequest::Redraw);
        assert_eq!(prompt.visible(80).0, "pause rtos");
        prompt.begin();
        let several = PromptRequest::Say(vec!["stop, stats".to_owned()]);
        assert_eq!(asked(&mut prompt, "st\t"), several);
        assert_eq!(prompt.visible(80).0, "st");
        assert_eq!(asked(&mut prompt, "zz \t"), PromptRequest::Nothing);
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
