//! A line that a person types: bytes from a terminal become keys, and keys become a line.
//!
//! The line itself is rustyline's (`LineBuffer`: characters as people see them, words as Emacs has
//! them). Its reading of a terminal is not used, because the terminal is shared with the guests'
//! consoles.

use std::mem::take;

use rustyline::line_buffer::{ChangeListener, DeleteListener, Direction, LineBuffer};
use rustyline::{At, Word};
use unicode_width::UnicodeWidthChar;

/// The number of earlier lines that the cursor keys bring back.
const LINES: usize = 200;
/// The largest length of a line, whatever is pasted.
const LONGEST: usize = 4096;

/// A key, by its effect on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Char(char),
    Control(u8),
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    Delete,
    WordLeft,
    WordRight,
    DeleteWord,
    EraseWord,
    Unknown,
}

/// The part of a key's sequence that came so far (ECMA-48, 5.4; the sequences are xterm's and the
/// Linux console's).
#[derive(Debug, Default)]
enum Name {
    #[default]
    None,
    /// ESC.
    Escape,
    /// ESC [ or ESC O, and parameters.
    Sequence(Vec<u8>),
    /// A character of several bytes, and how many of them are missing.
    Character(Vec<u8>, usize),
}

impl Name {
    fn feed(&mut self, byte: u8) -> Option<Key> {
        match take(self) {
            Self::None => self.first(byte),
            Self::Escape => self.escaped(byte),
            Self::Sequence(mut between) => match byte {
                0x20..=0x3f if between.len() < 16 => {
                    between.push(byte);
                    *self = Self::Sequence(between);
                    None
                }
                0x40..=0x7e => Some(named(&between, byte)),
                _ => self.first(byte),
            },
            Self::Character(mut bytes, more) => {
                if byte & 0xc0 != 0x80 {
                    return self.first(byte);
                }
                bytes.push(byte);
                if more > 1 {
                    *self = Self::Character(bytes, more - 1);
                    return None;
                }
                let text = std::str::from_utf8(&bytes).ok();
                let character = text.and_then(|text| text.chars().next());
                Some(character.map_or(Key::Unknown, Key::Char))
            }
        }
    }

    fn first(&mut self, byte: u8) -> Option<Key> {
        let more = match byte {
            0x1b => {
                *self = Self::Escape;
                return None;
            }
            b' '..=b'~' => return Some(Key::Char(char::from(byte))),
            0xc2..=0xdf => 1,
            0xe0..=0xef => 2,
            0xf0..=0xf4 => 3,
            0x80..=0xff => return Some(Key::Unknown),
            _ => return Some(Key::Control(byte)),
        };
        *self = Self::Character(vec![byte], more);
        None
    }

    fn escaped(&mut self, byte: u8) -> Option<Key> {
        match byte {
            b'[' | b'O' => {
                *self = Self::Sequence(Vec::new());
                None
            }
            b'b' => Some(Key::WordLeft),
            b'f' => Some(Key::WordRight),
            b'd' => Some(Key::DeleteWord),
            0x08 | 0x7f => Some(Key::EraseWord),
            b' '..=b'~' => Some(Key::Unknown),
            _ => self.first(byte),
        }
    }
}

fn named(between: &[u8], last: u8) -> Key {
    // `1;5` and the like: the key was pressed with Ctrl or Alt.
    let modified = between.contains(&b';') || between == b"5";
    match (between, last) {
        (_, b'A') => Key::Up,
        (_, b'B') => Key::Down,
        (_, b'C') if modified => Key::WordRight,
        (_, b'D') if modified => Key::WordLeft,
        (_, b'C') => Key::Right,
        (_, b'D') => Key::Left,
        (_, b'H') | (b"1" | b"7", b'~') => Key::Home,
        (_, b'F') | (b"4" | b"8", b'~') => Key::End,
        (b"3", b'~') => Key::Delete,
        _ => Key::Unknown,
    }
}

/// Ignores the buffer's notifications of changes.
struct Quiet;

impl DeleteListener for Quiet {
    fn delete(&mut self, _: usize, _: &str, _: Direction) {}
}

impl ChangeListener for Quiet {
    fn insert_char(&mut self, _: usize, _: char) {}
    fn insert_str(&mut self, _: usize, _: &str) {}
    fn replace(&mut self, _: usize, _: &str, _: &str) {}
}

/// What a key asks for, beyond a change of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// Nothing: the key is not complete, or has no meaning here.
    Nothing,
    /// The line or the cursor has changed.
    Changed,
    /// The line was entered.
    Entered(String),
    /// The part of the line before the cursor is to be completed.
    Complete,
    /// To leave: Ctrl-C, or Ctrl-D on an empty line.
    Leave,
    /// Ctrl-].
    Attention,
}

/// A line that is being typed, and the earlier ones.
pub struct Typing {
    line: LineBuffer,
    name: Name,
    history: Vec<String>,
    /// Which line of the history is shown, and what had been typed before that.
    shown: Option<(usize, String)>,
    returned: bool,
}

impl Default for Typing {
    fn default() -> Self {
        Self {
            line: LineBuffer::with_capacity(LONGEST),
            name: Name::None,
            history: Vec::new(),
            shown: None,
            returned: false,
        }
    }
}

impl Typing {
    /// Takes one byte from the terminal.
    pub fn feed(&mut self, byte: u8) -> Typed {
        // CR and LF end one line, not two.
        let returned = std::mem::replace(&mut self.returned, byte == b'\r');
        if returned && byte == b'\n' {
            return Typed::Nothing;
        }
        match self.name.feed(byte) {
            Some(key) => self.key(key),
            None => Typed::Nothing,
        }
    }

    fn key(&mut self, key: Key) -> Typed {
        match key {
            Key::Control(b'\r' | b'\n') => return Typed::Entered(self.enter()),
            Key::Control(b'\t') => return Typed::Complete,
            Key::Control(0x03) => return Typed::Leave,
            Key::Control(0x04) if self.line.is_empty() => return Typed::Leave,
            Key::Control(0x1d) => return Typed::Attention,
            Key::Up | Key::Control(0x10) => self.older(),
            Key::Down | Key::Control(0x0e) => self.newer(),
            Key::Char(character) => self.insert(character),
            _ => self.edit(key),
        }
        Typed::Changed
    }

    fn insert(&mut self, character: char) {
        if self.line.len() + character.len_utf8() <= LONGEST {
            let _ = self.line.insert(character, 1, &mut Quiet);
        }
    }

    fn edit(&mut self, key: Key) {
        let line = &mut self.line;
        let quiet = &mut Quiet;
        match key {
            Key::Left | Key::Control(0x02) => line.move_backward(1),
            Key::Right | Key::Control(0x06) => line.move_forward(1),
            Key::Home | Key::Control(0x01) => line.move_home(),
            Key::End | Key::Control(0x05) => line.move_end(),
            Key::WordLeft => line.move_to_prev_word(Word::Emacs, 1),
            Key::WordRight => line.move_to_next_word(At::AfterEnd, Word::Emacs, 1),
            Key::Control(0x08 | 0x7f) => line.backspace(1, quiet),
            Key::Delete | Key::Control(0x04) => line.delete(1, quiet).is_some(),
            Key::DeleteWord => line.delete_word(At::AfterEnd, Word::Emacs, 1, quiet),
            Key::EraseWord => line.delete_prev_word(Word::Emacs, 1, quiet),
            Key::Control(0x17) => line.delete_prev_word(Word::Big, 1, quiet),
            Key::Control(0x15) => line.discard_line(quiet),
            Key::Control(0x0b) => line.kill_line(quiet),
            Key::Control(0x14) => line.transpose_chars(quiet),
            _ => false,
        };
    }

    /// Begins with an empty line.
    pub fn begin(&mut self) {
        self.set("");
        self.name = Name::None;
        self.shown = None;
    }

    fn set(&mut self, text: &str) {
        self.line.update(text, text.len(), &mut Quiet);
    }

    fn enter(&mut self) -> String {
        let line = self.line.as_str().to_owned();
        if !line.trim().is_empty() && self.history.last() != Some(&line) {
            self.history.push(line.clone());
            let surplus = self.history.len().saturating_sub(LINES);
            self.history.drain(..surplus);
        }
        self.begin();
        line
    }

    fn older(&mut self) {
        let at = match &self.shown {
            Some((at, _)) => *at,
            None => self.history.len(),
        };
        let Some(at) = at.checked_sub(1) else { return };
        let Some(line) = self.history.get(at).cloned() else {
            return;
        };
        let typed = match take(&mut self.shown) {
            Some((_, typed)) => typed,
            None => self.line.as_str().to_owned(),
        };
        self.set(&line);
        self.shown = Some((at, typed));
    }

    fn newer(&mut self) {
        let Some((at, typed)) = take(&mut self.shown) else {
            return;
        };
        match self.history.get(at + 1).cloned() {
            Some(line) => {
                self.set(&line);
                self.shown = Some((at + 1, typed));
            }
            None => self.set(&typed),
        }
    }

    /// The part of the line before the cursor.
    pub fn begun(&self) -> &str {
        self.line.as_str().get(..self.line.pos()).unwrap_or("")
    }

    /// Inserts `more` at the cursor.
    pub fn complete(&mut self, more: &str) {
        more.chars().for_each(|character| self.insert(character));
    }

    /// The part of the line that is visible in `width` columns, and the cursor's column in it.
    pub fn visible(&self, width: usize) -> (String, usize) {
        let begun = self.begun();
        // The first visible character, so that the cursor is visible.
        let mut from = 0;
        let mut before = columns(begun);
        for (at, character) in begun.char_indices() {
            if before < width {
                break;
            }
            before -= columns_of(character);
            from = at + character.len_utf8();
        }
        let mut text = String::new();
        let mut used = 0;
        for character in self.line.as_str().get(from..).unwrap_or("").chars() {
            used += columns_of(character);
            if used > width {
                break;
            }
            text.push(character);
        }
        (text, before)
    }
}

fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

fn columns_of(character: char) -> usize {
    character.width().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(typing: &mut Typing, bytes: &[u8]) -> Typed {
        let all = bytes.iter().map(|byte| typing.feed(*byte));
        all.last().unwrap()
    }

    fn line(bytes: &[u8]) -> String {
        let mut typing = Typing::default();
        match typed(&mut typing, &[bytes, b"\r"].concat()) {
            Typed::Entered(line) => line,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_line_is_edited_with_the_keys_that_people_know() {
        for (keys, wanted) in [
            (&b"lsit\x1b[D\x1b[D\x14"[..], "list"),
            (b"ist\x1b[Hl", "list"),
            (b"ist\x1bOHl\x1bOF!", "list!"),
            (b"listx\x7f", "list"),
            (b"xlist\x01\x1b[3~", "list"),
            (b"dump rtos\x17linux", "dump linux"),
            (b"junk\x15list", "list"),
            (b"list junk\x1b[1;5D\x0b", "list "),
            (b"dump\x1bb\x1bdlist", "list"),
            (b"l\x1b[99~i\x1b[15;2~st", "list"),
            ("lüst\x7f\x7f\x7fist".as_bytes(), "list"),
            (b"l\xffist", "list"),
        ] {
            assert_eq!(line(keys), wanted, "{}", keys.escape_ascii());
        }
    }

    #[test]
    fn what_cannot_be_typed_on_a_keyboard_of_ascii_is_kept() {
        assert_eq!(line("ä日🙂".as_bytes()), "ä日🙂");
    }

    #[test]
    fn former_lines_come_back() {
        let mut typing = Typing::default();
        typed(&mut typing, b"list\r");
        typed(&mut typing, b"stats\r");
        typed(&mut typing, b"stats\r\n");
        typed(&mut typing, b"du\x1b[A");
        assert_eq!(typing.begun(), "stats");
        typed(&mut typing, b"\x1b[A\x1b[A\x1b[A");
        assert_eq!(typing.begun(), "list");
        typed(&mut typing, b"\x1b[B");
        assert_eq!(typing.begun(), "stats");
        typed(&mut typing, b"\x1b[B");
        assert_eq!(typing.begun(), "du", "what was typed before");
        typed(&mut typing, b"\x1b[B");
        assert_eq!(typing.begun(), "du");
    }

    #[test]
    fn a_line_of_any_length_is_seen_where_the_cursor_is() {
        let mut typing = Typing::default();
        typed(&mut typing, &[b'a'; 100]);
        typed(&mut typing, b"bc");
        let (seen, cursor) = typing.visible(10);
        assert_eq!((seen.as_str(), cursor), ("aaaaaaabc", 9));
        typed(&mut typing, b"\x01");
        let (seen, cursor) = typing.visible(10);
        assert_eq!((seen.as_str(), cursor), ("aaaaaaaaaa", 0));
        typing.begin();
        typed(&mut typing, "日本日本".as_bytes());
        let (seen, cursor) = typing.visible(6);
        assert_eq!((seen.as_str(), cursor), ("日本", 4));
        typing.begin();
        typed(&mut typing, &[b'x'; 3 * LONGEST]);
        assert_eq!(typing.begun().len(), LONGEST);
    }

    #[test]
    fn the_ways_out() {
        let mut typing = Typing::default();
        assert_eq!(typed(&mut typing, b"\x04"), Typed::Leave);
        assert_eq!(typed(&mut typing, b"x\x1b\x03"), Typed::Leave);
        assert_eq!(typed(&mut typing, b"\x1b[\x1d"), Typed::Attention);
        assert_eq!(typed(&mut typing, b"\t"), Typed::Complete);
    }
}
