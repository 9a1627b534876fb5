//! The hypervisor's own text: whole lines in a queue, and the prompt below them.
//!
//! Nobody waits here. A text that does not fit is left out whole and counted; what is in the
//! queue is on the line before any guest's next byte, so that no guest gets into a line.

use super::editor::Editor;
use super::guest::Said;
use core::fmt::{self, Write};

/// What stands before what is typed at the prompt.
pub(super) const PROMPT: &str = "hanok> ";
/// What stands before each line where the line is not framed.
const MARK: &str = "hanok: ";
/// To the line's beginning, and empties it (ECMA-48: CR, and EL).
const ERASE: &str = "\r\x1b[K";

/// Whether somebody is at the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prompt {
    /// Nobody: keys are for the VM.
    Closed,
    /// Somebody; whether the line that is typed can be seen.
    Open { shown: bool },
    /// A command is being carried out.
    Busy,
}

#[derive(Debug)]
pub(super) struct Voice<'b> {
    said: &'b mut Said,
    framed: bool,
    lost: u32,
    pub(super) prompt: Prompt,
    pub(super) editor: Editor,
}

impl<'b> Voice<'b> {
    pub(super) fn new(said: &'b mut Said, framed: bool) -> Self {
        Self {
            said,
            framed,
            lost: 0,
            prompt: Prompt::Closed,
            editor: Editor::default(),
        }
    }

    /// The next byte to be sent.
    pub(super) fn next(&self) -> Option<u8> {
        self.said.front().copied()
    }

    /// It was sent.
    pub(super) fn sent(&mut self) {
        self.said.pop_front();
    }

    /// Says a line, or several, above the prompt.
    pub(super) fn say(&mut self, text: fmt::Arguments<'_>) {
        if !(self.say_lost() && self.try_say(text)) {
            self.lost = self.lost.saturating_add(1);
        }
    }

    /// Once the queue is empty: says what there was no room for; whether there was anything.
    pub(super) fn catch_up(&mut self) -> bool {
        let owed = self.lost > 0;
        if owed {
            self.say_lost();
        }
        if self.prompt == (Prompt::Open { shown: false }) {
            self.redraw();
            return true;
        }
        owed
    }

    /// Says how many lines were lost, if any; whether none is left to be told.
    fn say_lost(&mut self) -> bool {
        let lost = self.lost;
        if lost > 0 && self.try_say(format_args!("{lost} lines of the hypervisor's were lost")) {
            self.lost = 0;
        }
        self.lost == 0
    }

    fn try_say(&mut self, text: fmt::Arguments<'_>) -> bool {
        let mark = if self.framed { "" } else { MARK };
        let newline = self.newline();
        let below = self.prompt == (Prompt::Open { shown: true });
        let (said, editor) = (&mut *self.said, &self.editor);
        whole(said, |said| {
            if below {
                said.write_str(ERASE)?;
            }
            let mut lines = Lines {
                said,
                mark,
                newline,
                begun: false,
            };
            lines.write_fmt(text)?;
            lines.end()?;
            if below {
                write!(said, "{PROMPT}{}", editor.text())?;
            }
            Ok(())
        })
    }

    /// Opens the prompt on a new line.
    pub(super) fn open(&mut self) {
        self.draw("");
    }

    /// Shows the prompt and what has been typed in place of what is on its line.
    pub(super) fn redraw(&mut self) {
        self.draw(ERASE);
    }

    fn draw(&mut self, erase: &str) {
        let (said, text) = (&mut *self.said, self.editor.text());
        let shown = whole(said, |said| write!(said, "{erase}{PROMPT}{text}"));
        self.prompt = Prompt::Open { shown };
    }

    /// Shows what a key did to the line that is typed.
    pub(super) fn echo(&mut self, text: &str) {
        if self.prompt == (Prompt::Open { shown: true }) {
            let shown = whole(self.said, |said| said.write_str(text));
            self.prompt = Prompt::Open { shown };
        }
    }

    /// Ends the line that is typed.
    pub(super) fn end_prompt(&mut self, next: Prompt) {
        let newline = self.newline();
        self.echo(newline);
        self.prompt = next;
    }

    /// Text for the person at a plain terminal, which is of no line of the hypervisor's.
    pub(super) fn note(&mut self, text: fmt::Arguments<'_>) {
        let newline = self.newline();
        whole(self.said, |said| write!(said, "{text}{newline}"));
    }

    fn newline(&self) -> &'static str {
        if self.framed { "\n" } else { "\r\n" }
    }
}

/// Puts a whole text into the queue, or nothing of it; whether it did.
fn whole(said: &mut Said, text: impl FnOnce(&mut Queue<'_>) -> fmt::Result) -> bool {
    let before = said.len();
    let done = text(&mut Queue(said)).is_ok();
    if !done {
        said.truncate(before);
    }
    done
}

struct Queue<'a>(&'a mut Said);

impl Write for Queue<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes()
            .try_for_each(|byte| self.0.push_back(byte).map_err(|_| fmt::Error))
    }
}

/// Lines with their marks and ends. A control character in one is shown as a dot, so that
/// no name or word in it can pretend to be another line.
struct Lines<'a, 'q> {
    said: &'a mut Queue<'q>,
    mark: &'static str,
    newline: &'static str,
    begun: bool,
}

impl Lines<'_, '_> {
    fn begin(&mut self) -> fmt::Result {
        if core::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        self.said.write_str(self.mark)
    }

    fn end(&mut self) -> fmt::Result {
        self.begin()?;
        self.begun = false;
        self.said.write_str(self.newline)
    }
}

impl Write for Lines<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if character == '\n' {
                self.end()?;
                continue;
            }
            self.begin()?;
            let shown = if character.is_control() {
                '.'
            } else {
                character
            };
            self.said.write_char(shown)?;
        }
        Ok(())
    }
}
