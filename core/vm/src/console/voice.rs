//! The hypervisor's own text: a queue of whole lines, and the prompt below them.
//!
//! Nothing waits here. A text that does not fit into the queue is left out as a whole and counted.
//! The queue is sent before any guest's next byte, so that no guest's byte gets into a line.

use super::editor::Editor;
use super::guest::Said;
use core::fmt::{self, Write};

/// The text before what is typed at the prompt.
pub(super) const PROMPT: &str = "hanok> ";
/// The mark before each line in plain form.
const MARK: &str = "hanok: ";
/// Moves to the beginning of the line and erases it (ECMA-48: CR, and EL).
const ERASE: &str = "\r\x1b[K";

/// The state of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prompt {
    /// Closed: keys are for the VM.
    Closed,
    /// Open. `shown` says whether the line that is typed is on the screen.
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

    /// Removes that byte after it was sent.
    pub(super) fn sent(&mut self) {
        self.said.pop_front();
    }

    /// Queues one or several lines above the prompt.
    pub(super) fn say(&mut self, text: fmt::Arguments<'_>) {
        if self.say_lost().is_err() || self.try_say(text).is_err() {
            self.lost = self.lost.saturating_add(1);
        }
    }

    /// Queues text for which there was no room earlier. The queue must be empty.
    pub(super) fn catch_up(&mut self) -> CatchUp {
        let owed = self.lost > 0;
        if owed {
            // The queue is empty, and has room.
            let _ = self.say_lost();
        }
        if self.prompt == (Prompt::Open { shown: false }) {
            self.redraw();
            return CatchUp::Queued;
        }
        if owed {
            CatchUp::Queued
        } else {
            CatchUp::Nothing
        }
    }

    /// Queues a line with the number of lines that were lost, if there are any.
    fn say_lost(&mut self) -> Result<(), QueueFull> {
        let lost = self.lost;
        if lost > 0 {
            self.try_say(format_args!("{lost} lines of the hypervisor's were lost"))?;
            self.lost = 0;
        }
        Ok(())
    }

    fn try_say(&mut self, text: fmt::Arguments<'_>) -> Result<(), QueueFull> {
        let mark = if self.framed { "" } else { MARK };
        let newline = self.newline();
        let below = self.prompt == (Prompt::Open { shown: true });
        let (said, editor) = (&mut *self.said, &self.editor);
        queue_whole(said, |said| {
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

    /// Replaces what is on the prompt's line by the prompt and what has been typed.
    pub(super) fn redraw(&mut self) {
        self.draw(ERASE);
    }

    fn draw(&mut self, erase: &str) {
        let (said, text) = (&mut *self.said, self.editor.text());
        let queued = queue_whole(said, |said| write!(said, "{erase}{PROMPT}{text}"));
        let shown = queued.is_ok();
        self.prompt = Prompt::Open { shown };
    }

    /// Shows the effect of a key on the typed line.
    pub(super) fn echo(&mut self, text: &str) {
        if self.prompt == (Prompt::Open { shown: true }) {
            let shown = queue_whole(self.said, |said| said.write_str(text)).is_ok();
            self.prompt = Prompt::Open { shown };
        }
    }

    /// Ends the typed line.
    pub(super) fn end_prompt(&mut self, next: Prompt) {
        let newline = self.newline();
        self.echo(newline);
        self.prompt = next;
    }

    /// Shows text to the user of a plain terminal, outside the hypervisor's lines.
    pub(super) fn note(&mut self, text: fmt::Arguments<'_>) {
        let newline = self.newline();
        // Without room the note is left out.
        let _ = queue_whole(self.said, |said| write!(said, "{text}{newline}"));
    }

    fn newline(&self) -> &'static str {
        if self.framed { "\n" } else { "\r\n" }
    }
}

/// The outcome of [`Voice::catch_up`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum CatchUp {
    /// It queued some text.
    Queued,
    /// There was nothing to queue.
    Nothing,
}

/// The queue of the hypervisor's text has no room for a whole text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QueueFull;

/// Puts a whole text into the queue, or nothing of it.
fn queue_whole(
    said: &mut Said,
    text: impl FnOnce(&mut Queue<'_>) -> fmt::Result,
) -> Result<(), QueueFull> {
    let before = said.len();
    text(&mut Queue(said)).map_err(|fmt::Error| {
        said.truncate(before);
        QueueFull
    })
}

struct Queue<'a>(&'a mut Said);

impl Write for Queue<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes()
            .try_for_each(|byte| self.0.push_back(byte).map_err(|_| fmt::Error))
    }
}

/// Lines with their marks and ends. A control character in a line is shown as a dot, so that no
/// name or word in it can look like another line.
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
