//! The line that is typed at the prompt, when the board itself reads the keys.
//!
//! It can be erased from its end, and nothing else: a movable cursor, former lines and completion
//! are in the prompt on the PC (`tools/console`).

use heapless::String;

/// The number of characters of a line.
const LENGTH: usize = 80;

/// A typed line.
pub(super) type Text = String<LENGTH>;

/// `Ctrl-]`.
pub(super) const ATTENTION: u8 = 0x1d;
/// `Ctrl-C`.
pub(super) const INTERRUPT: u8 = 0x03;
const KILL: u8 = 0x15;
const ESCAPE: u8 = 0x1b;
const DELETE: u8 = 0x7f;

/// What a key did, or what it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// Nothing changes on the screen.
    Nothing,
    /// This character was added at the end.
    Typed(u8),
    /// The last character was erased.
    Erased,
    /// The whole line was erased.
    Emptied,
    /// The command on the line has to be executed.
    Enter,
    /// The prompt has to be closed.
    Leave,
    /// The prompt has to be closed, and the key is for the VM.
    Literal,
}

#[derive(Debug, Default)]
pub(super) struct Editor {
    text: Text,
    /// The last key was CR. An LF after it belongs to the same end of a line.
    returned: bool,
    /// The number of characters of this line that were dropped because they are not ASCII or there
    /// are too many. ESC, with which the codes of cursor keys begin, is one of them.
    dropped: u32,
}

impl Editor {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Begins an empty line.
    pub(super) fn begin(&mut self) {
        self.text.clear();
        self.dropped = 0;
    }

    /// Takes the line, and the number of characters that were dropped.
    pub(super) fn finish(&mut self) -> (Text, u32) {
        let line = core::mem::take(&mut self.text);
        (line, core::mem::take(&mut self.dropped))
    }

    pub(super) fn key(&mut self, key: u8) -> Edit {
        let returned = core::mem::replace(&mut self.returned, key == b'\r');
        match key {
            b'\n' if returned => Edit::Nothing,
            b'\r' | b'\n' => self.enter(),
            INTERRUPT => Edit::Leave,
            ATTENTION => Edit::Literal,
            0x08 | DELETE => self.text.pop().map_or(Edit::Nothing, |_| Edit::Erased),
            KILL => {
                self.begin();
                Edit::Emptied
            }
            b' '..=b'~' if self.text.push(char::from(key)).is_ok() => Edit::Typed(key),
            // Of each character in UTF-8, exactly one byte is no continuation byte.
            b' '..=b'~' | ESCAPE | 0xc0.. => {
                self.dropped = self.dropped.saturating_add(1);
                Edit::Nothing
            }
            _ => Edit::Nothing,
        }
    }

    fn enter(&self) -> Edit {
        if self.text.trim_ascii().is_empty() && self.dropped == 0 {
            Edit::Leave
        } else {
            Edit::Enter
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(editor: &mut Editor, keys: &[u8]) -> Edit {
        let edits = keys.iter().map(|key| editor.key(*key));
        edits.last().expect("a key")
    }

    #[test]
    fn a_line_is_edited() {
        let mut editor = Editor::default();
        assert_eq!(typed(&mut editor, b"lisx"), Edit::Typed(b'x'));
        assert_eq!(typed(&mut editor, b"\x7f"), Edit::Erased);
        assert_eq!(typed(&mut editor, b"t\r"), Edit::Enter);
        assert_eq!(editor.finish(), (Text::try_from("list").unwrap(), 0));
        assert_eq!(
            typed(&mut editor, b"\n"),
            Edit::Nothing,
            "of the same line's end"
        );
        assert_eq!(typed(&mut editor, b"\x08"), Edit::Nothing);
        assert_eq!(typed(&mut editor, b" \n"), Edit::Leave, "nothing typed");
        assert_eq!(typed(&mut editor, b"ab\x15"), Edit::Emptied);
        assert_eq!(editor.text(), "");
    }

    /// The rest of a cursor key's code is text; it must not become a part of a command.
    #[test]
    fn a_line_with_a_cursor_key_in_it_is_not_carried_out() {
        let mut editor = Editor::default();
        typed(&mut editor, b"list\x1b[A\x7f\x7f");
        assert_eq!(editor.finish(), (Text::try_from("list").unwrap(), 1));
        typed(&mut editor, b"\x1b[A\x15list");
        assert_eq!(editor.finish().1, 0, "all of it was taken back");
        assert_eq!(typed(&mut editor, b"\x1b\x03"), Edit::Leave);
        assert_eq!(typed(&mut editor, b"\x1b[\x1d"), Edit::Literal);
    }

    #[test]
    fn a_new_line_has_nothing_of_the_line_before() {
        for before in ["abc", "ü", "a\x1b", "\x1b["] {
            let mut editor = Editor::default();
            typed(&mut editor, before.as_bytes());
            editor.begin();
            assert_eq!(editor.text(), "");
            assert_eq!(editor.key(b'A'), Edit::Typed(b'A'), "{before:?}");
            assert_eq!(editor.finish(), (Text::try_from("A").unwrap(), 0));
        }
    }

    #[test]
    fn a_long_line_is_cut() {
        let mut editor = Editor::default();
        assert_eq!(typed(&mut editor, &[b'a'; 200]), Edit::Nothing);
        assert_eq!(editor.text().len(), LENGTH);
        assert_eq!(editor.finish().1, 120, "and that is known");
    }

    /// Dropped characters make the line another one than the one that was typed.
    #[test]
    fn characters_that_are_dropped_are_counted() {
        let mut editor = Editor::default();
        assert_eq!(typed(&mut editor, "äöü€".as_bytes()), Edit::Nothing);
        assert_eq!(editor.key(b'\r'), Edit::Enter, "no empty line");
        assert_eq!(editor.finish(), (Text::new(), 4));
        typed(&mut editor, "stop mü\x15".as_bytes());
        assert_eq!(editor.key(b'\r'), Edit::Leave, "all of it was taken back");
    }
}
