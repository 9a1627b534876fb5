//! What a guest changed about the user's terminal, and how to undo it.

use std::collections::BTreeSet;

/// The private modes (DECSET) that full-screen programs use, with their initial values; others do
/// not pass. They are in the order in which they are undone: the main screen comes first, so that
/// the rest is undone there.
const KNOWN: [(u16, bool); 18] = [
    (1049, false),
    (1047, false),
    (47, false),
    (1, false),
    (5, false),
    (6, false),
    (7, true),
    (9, false),
    (12, false),
    (25, true),
    (66, false),
    (1000, false),
    (1002, false),
    (1003, false),
    (1005, false),
    (1006, false),
    (2004, false),
    (2026, false),
];

/// Changes that are undone by one sequence each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Insert,
    NewLine,
    Keypad,
    Charset,
    Shape,
    Region,
    Colour,
}

impl Change {
    const fn undo(self) -> &'static [u8] {
        match self {
            Self::Insert => b"\x1b[4l",
            Self::NewLine => b"\x1b[20l",
            Self::Keypad => b"\x1b>",
            Self::Charset => b"\x0f\x1b(B",
            Self::Shape => b"\x1b[0 q",
            // The sequence moves the cursor, which is to stay.
            Self::Region => b"\x1b7\x1b[r\x1b8",
            Self::Colour => b"\x1b[m",
        }
    }
}

/// What becomes of a sequence that a guest wrote.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// It goes to the terminal.
    Passed,
    /// It is left out.
    Dropped,
}

/// The state of the user's terminal.
#[derive(Debug, Default)]
pub struct Modes {
    /// Whether a person types there, whose keys go to the guest.
    person: bool,
    /// Whether it shows lines, each with its mark, so that nothing may move the cursor.
    lines: bool,
    /// The private modes that differ from their initial values.
    private: BTreeSet<u16>,
    changes: BTreeSet<Change>,
    asked: bool,
    /// Whether the guest asked for the terminal's size, and got no answer yet.
    size_is_asked: bool,
}

impl Modes {
    /// For a terminal whose keys, and answers, go to the guest.
    pub fn of_person() -> Self {
        Self {
            person: true,
            ..Self::default()
        }
    }

    /// For lines that are read one after the other, perhaps from a file: they have no cursor
    /// movements and no colours.
    pub fn of_lines() -> Self {
        Self {
            lines: true,
            ..Self::default()
        }
    }

    /// Whether it shows only text.
    pub(super) fn is_lines(&self) -> bool {
        self.lines
    }

    /// Whether the guest asked the terminal something, so that an answer may still come.
    pub fn asked(&self) -> bool {
        self.asked
    }

    /// Whether the guest asked for the terminal's size since the last call. The caller answers for
    /// the terminal.
    pub fn size_was_asked(&mut self) -> bool {
        std::mem::take(&mut self.size_is_asked)
    }

    pub(super) fn ask_size(&mut self) -> Passage {
        self.size_is_asked = self.person;
        Passage::Dropped
    }

    /// The bytes that restore the terminal. Afterwards it counts as restored.
    pub fn restoring_sequence(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (mode, set) in KNOWN {
            if self.private.remove(&mode) {
                bytes.extend(format!("\x1b[?{mode}{}", letter(set)).bytes());
            }
        }
        for change in std::mem::take(&mut self.changes) {
            bytes.extend(change.undo());
        }
        bytes
    }

    pub(super) fn answer(&mut self) -> Passage {
        self.asked |= self.person;
        self.for_person()
    }

    pub(super) fn colour(&mut self) {
        self.changes.insert(Change::Colour);
    }

    pub(super) fn charset(&mut self) {
        self.changes.insert(Change::Charset);
    }

    pub(super) fn region(&mut self) {
        self.changes.insert(Change::Region);
    }

    pub(super) fn keypad(&mut self) -> Passage {
        self.of_full_screen(Change::Keypad)
    }

    pub(super) fn shape(&mut self) -> Passage {
        self.of_full_screen(Change::Shape)
    }

    fn of_full_screen(&mut self, change: Change) -> Passage {
        if self.person {
            self.changes.insert(change);
        }
        self.for_person()
    }

    pub(super) fn ansi(&mut self, mode: &[u8], set: bool) -> Passage {
        let change = match mode {
            b"4" => Change::Insert,
            _ => Change::NewLine,
        };
        if set {
            return self.of_full_screen(change);
        }
        self.changes.remove(&change);
        self.for_person()
    }

    /// The passage of a sequence that only a person's terminal gets.
    const fn for_person(&self) -> Passage {
        if self.person {
            Passage::Passed
        } else {
            Passage::Dropped
        }
    }

    /// Passes the known private modes of a list.
    pub(super) fn private(&mut self, list: &[u8], set: bool, out: &mut Vec<u8>) {
        if !self.person {
            return;
        }
        let mut passed = Vec::new();
        for number in list.split(|byte| *byte == b';') {
            let number = std::str::from_utf8(number)
                .ok()
                .and_then(|n| n.parse().ok());
            let Some((mode, default)) = KNOWN.into_iter().find(|(mode, _)| Some(*mode) == number)
            else {
                continue;
            };
            if set == default {
                self.private.remove(&mode)
            } else {
                self.private.insert(mode)
            };
            passed.push(mode.to_string());
        }
        if !passed.is_empty() {
            out.extend(format!("\x1b[?{}{}", passed.join(";"), letter(set)).bytes());
        }
    }
}

const fn letter(set: bool) -> char {
    if set { 'h' } else { 'l' }
}

#[cfg(test)]
mod tests {
    use super::super::filter::Filter;
    use super::*;

    /// The bytes that undo what a guest did by `text`.
    fn after(text: &[u8]) -> String {
        let mut modes = Modes::of_person();
        Filter::default().pass(text, &mut modes);
        let restoring_sequence = String::from_utf8(modes.restoring_sequence()).unwrap();
        assert!(modes.restoring_sequence().is_empty(), "once");
        restoring_sequence
    }

    #[test]
    fn what_was_changed_is_undone_and_nothing_else() {
        assert_eq!(after(b"text\r\n"), "");
        let all =
            b"\x1b[?1049h\x1b[?25l\x1b[?1000;1006h\x1b[?2004h\x1b[?7l\x1b[1;31m\x1b[2;5r\x1b=\x0e";
        let wanted = "\x1b[?1049l\x1b[?7h\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[?2004l\
            \x1b>\x0f\x1b(B\x1b7\x1b[r\x1b8\x1b[m";
        assert_eq!(after(all), wanted);
        assert_eq!(after(b"\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l"), "");
    }

    #[test]
    fn a_full_reset_is_what_was_changed_and_an_empty_screen() {
        let mut modes = Modes::of_person();
        let shown = Filter::default().pass(b"\x1b[?1000h\x1bc", &mut modes);
        assert_eq!(shown, b"\x1b[?1000h\x1b[?1000l\x1b[H\x1b[2J");
        assert!(modes.restoring_sequence().is_empty());
    }

    #[test]
    fn a_question_is_remembered() {
        let mut modes = Modes::of_person();
        Filter::default().pass(b"\x1b[6n", &mut modes);
        assert!(modes.asked());
        let mut modes = Modes::default();
        assert_eq!(Filter::default().pass(b"\x1b[6n", &mut modes), b"");
        assert!(!modes.asked());
    }
}
