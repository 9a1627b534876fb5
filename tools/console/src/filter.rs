//! Filters a guest's text for the user's terminal.
//!
//! Text for a terminal is also a program for it. Terminals answer some of it as if a person had
//! typed (ECMA-48's DSR and DA, and many of xterm's reports, some of which repeat what the guest
//! said). Other parts write the clipboard, the title or a printer, and some effects outlast the
//! run. So only what is known to be harmless passes: text, colours, cursor movements, and what
//! full-screen programs need. A person at a raw terminal gets these programs' modes, which
//! [`Modes`] knows how to undo, and answers go to the guest that asked; elsewhere neither. Where
//! text is shown as lines, only text passes.
//!
//! The names and numbers are those of ECMA-48 and of xterm's "Control Sequences". The terminal is
//! assumed to use UTF-8; a C1 control is treated as its form with ESC.

use super::modes::{Modes, Passage};

const ESC: u8 = 0x1b;
/// The largest length of a harmless sequence in bytes.
const LONGEST: usize = 64;

/// What the previous bytes make of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Text,
    /// It belongs to a character of several bytes, of which this many are missing.
    Character(usize),
    /// It follows ESC, and perhaps intermediate bytes.
    Escape,
    /// It follows ESC [ and its parameters.
    Control,
    /// It is within a string of OSC, DCS and the like, which goes on to its end.
    String,
}

/// Filters a stream that comes in pieces, wherever it is cut.
#[derive(Debug, Default)]
pub struct Filter {
    within: Within,
    /// The sequence or character that is not complete yet.
    held: Vec<u8>,
}

impl Filter {
    /// The part of `bytes` that goes to a terminal in these `modes`. An incomplete sequence is held
    /// back.
    pub fn pass(&mut self, bytes: &[u8], modes: &mut Modes) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            self.step(byte, modes, &mut out);
        }
        out
    }

    fn step(&mut self, byte: u8, modes: &mut Modes, out: &mut Vec<u8>) {
        match self.within {
            Within::Text => self.text(byte, modes, out),
            Within::Character(more) => self.character(byte, more, modes, out),
            Within::Escape => self.escape(byte, modes, out),
            Within::Control => self.control(byte, modes, out),
            Within::String => self.string(byte, modes, out),
        }
    }

    fn text(&mut self, byte: u8, modes: &mut Modes, out: &mut Vec<u8>) {
        match byte {
            0x00..=0x08 | 0x0b | 0x0c | 0x0e..=0x1a | 0x1c..=0x1f if modes.is_lines() => {}
            ESC => self.begin(Within::Escape, byte),
            0x0e | 0x0f => {
                modes.charset();
                out.push(byte);
            }
            // Terminals answer some of the other controls (ENQ), and need none of them.
            0x07..=0x0d | 0x20..=0x7e => out.push(byte),
            0x00..=0x1f | 0x7f => {}
            0x80..=0x9f => self.c1(byte, modes, out),
            0xc2..=0xdf => self.begin(Within::Character(1), byte),
            0xe0..=0xef => self.begin(Within::Character(2), byte),
            0xf0..=0xf4 => self.begin(Within::Character(3), byte),
            _ => unreadable(out),
        }
    }

    fn begin(&mut self, within: Within, byte: u8) {
        self.within = within;
        self.held.clear();
        self.held.push(byte);
    }

    fn c1(&mut self, byte: u8, modes: &mut Modes, out: &mut Vec<u8>) {
        self.begin(Within::Escape, ESC);
        self.escape(byte - 0x40, modes, out);
    }

    fn character(&mut self, byte: u8, more: usize, modes: &mut Modes, out: &mut Vec<u8>) {
        if !(0x80..=0xbf).contains(&byte) {
            unreadable(out);
            return self.as_text(byte, modes, out);
        }
        self.held.push(byte);
        if more > 1 {
            self.within = Within::Character(more - 1);
            return;
        }
        self.within = Within::Text;
        match (self.held.as_slice(), std::str::from_utf8(&self.held)) {
            ([0xc2, c1 @ 0x80..=0x9f], _) => self.c1(*c1, modes, out),
            (whole, Ok(_)) => out.extend(whole),
            (_, Err(_)) => unreadable(out),
        }
    }

    /// The held bytes are no sequence: `byte` is examined as text.
    fn as_text(&mut self, byte: u8, modes: &mut Modes, out: &mut Vec<u8>) {
        self.within = Within::Text;
        self.text(byte, modes, out);
    }

    fn escape(&mut self, byte: u8, modes: &mut Modes, out: &mut Vec<u8>) {
        match byte {
            0x20..=0x2f if self.held.len() < LONGEST => self.held.push(byte),
            b'[' if self.held.len() == 1 => {
                self.held.push(byte);
                self.within = Within::Control;
            }
            b']' | b'P' | b'X' | b'^' | b'_' | b'k' if self.held.len() == 1 => {
                self.within = Within::String;
            }
            0x30..=0x7e => {
                self.within = Within::Text;
                self.held.push(byte);
                finish_escape(&self.held, modes, out);
            }
            _ => self.as_text(byte, modes, out),
        }
    }

    fn control(&mut self, byte: u8, modes: &mut Modes, out: &mut Vec<u8>) {
        match byte {
            // An overlong sequence keeps one byte too many, by which it is refused.
            0x20..=0x3f if self.held.len() > LONGEST => {}
            0x20..=0x3f => self.held.push(byte),
            0x40..=0x7e => {
                self.within = Within::Text;
                if self.held.len() <= LONGEST {
                    finish_control(self.held.get(2..).unwrap_or_default(), byte, modes, out);
                }
            }
            _ => self.as_text(byte, modes, out),
        }
    }

    /// A string ends as it does for terminals, and also at the end of a line: a guest that forgets
    /// the end loses only the line.
    fn string(&mut self, byte: u8, modes: &mut Modes, out: &mut Vec<u8>) {
        match byte {
            ESC => self.begin(Within::Escape, byte),
            // BEL, CAN, SUB, and ST as a C1 control.
            0x07 | 0x18 | 0x1a | 0x9c => self.within = Within::Text,
            b'\n' | b'\r' => self.as_text(byte, modes, out),
            _ => {}
        }
    }
}

/// What a terminal shows for bytes that are no character.
fn unreadable(out: &mut Vec<u8>) {
    out.extend("\u{fffd}".as_bytes());
}

fn finish_escape(sequence: &[u8], modes: &mut Modes, out: &mut Vec<u8>) {
    if modes.is_lines() {
        return;
    }
    let passage = match sequence {
        // Save and restore the cursor; line feeds; one character of another set.
        [_, b'7' | b'8' | b'D' | b'E' | b'M' | b'N' | b'O'] => Passage::Passed,
        [_, b'#', b'3'..=b'6' | b'8'] => Passage::Passed,
        [_, b'('..=b'+', b'0'..=b'9' | b'A'..=b'Z'] => {
            modes.charset();
            Passage::Passed
        }
        [_, b'=' | b'>'] => modes.keypad(),
        // A full reset would also clear the scrolled-back text: instead only the screen is cleared.
        [_, b'c'] => {
            out.extend(modes.restoring_sequence());
            out.extend(b"\x1b[H\x1b[2J");
            Passage::Dropped
        }
        _ => Passage::Dropped,
    };
    if passage == Passage::Passed {
        out.extend(sequence);
    }
}

/// Ends a control sequence with these parameter and intermediate bytes.
fn finish_control(between: &[u8], last: u8, modes: &mut Modes, out: &mut Vec<u8>) {
    if modes.is_lines() {
        return;
    }
    let plain = between
        .iter()
        .all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'));
    let passage = match (between, last) {
        (b"3", b'J') => Passage::Dropped,
        (_, b'@'..=b'M' | b'P' | b'X' | b'Z' | b'`' | b'a' | b'd' | b'e' | b'f' | b'S')
            if plain =>
        {
            Passage::Passed
        }
        // With more parameters it is another sequence.
        (_, b'T' | b'b') if plain && !between.contains(&b';') => Passage::Passed,
        (b"", b's' | b'u') => Passage::Passed,
        (_, b'm') if plain => {
            modes.colour();
            Passage::Passed
        }
        (_, b'r') if plain => {
            modes.region();
            Passage::Passed
        }
        (b"4" | b"20", b'h' | b'l') => modes.ansi(between, last == b'h'),
        ([b'?', rest @ ..], b'h' | b'l') => return modes.private(rest, last == b'h', out),
        ([b'?', b'0'..=b'2'] | b"?", b'J' | b'K') => Passage::Passed,
        // Sequences that are answered: where the cursor is, that all is well, what the terminal is.
        (b"5" | b"6", b'n') | (b"" | b"0", b'c') => modes.answer(),
        // The size of the text area. The terminal itself is not asked: the position of the window
        // and its title are reports of the same kind.
        (b"18", b't') => modes.ask_size(),
        ([b' '] | [b'0'..=b'6', b' '], b'q') => modes.shape(),
        _ => Passage::Dropped,
    };
    if passage == Passage::Passed {
        out.extend(b"\x1b[");
        out.extend(between);
        out.push(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn for_person(bytes: &[u8]) -> String {
        shown(bytes, &mut Modes::of_person())
    }

    fn for_onlooker(bytes: &[u8]) -> String {
        shown(bytes, &mut Modes::default())
    }

    fn shown(bytes: &[u8], modes: &mut Modes) -> String {
        String::from_utf8(Filter::default().pass(bytes, modes)).unwrap()
    }

    /// Terminals answer each of these, or do something that no guest may cause.
    const NEVER: &[&[u8]] = &[
        b"\x05",
        b"\x1bZ",
        b"\x1b[>c",
        b"\x1b[=c",
        b"\x1b[>q",
        b"\x1b[?6n",
        b"\x1b[x",
        b"\x1b[21t",
        b"\x1b[20t",
        b"\x1b[18t",
        b"\x1b[8;1;1t",
        b"\x1b[?25$p",
        b"\x1b[4$p",
        b"\x1b[1;1;1;1;1;1*y",
        b"\x1b[?u",
        b"\x1b[>1u",
        b"\x1b[5i",
        b"\x1b[2h",
        b"\x1b[3J",
        b"\x1b[>4;2m",
        b"\x1b[?1004$p",
        b"\x1b]52;c;eA==\x07",
        b"\x1b]52;c;?\x1b\\",
        b"\x1b]0;title\x07",
        b"\x1b]11;?\x07",
        b"\x1bP$qm\x1b\\",
        b"\x1bP+q544e\x1b\\",
        b"\x1b_Gi=1,a=q;AAAA\x1b\\",
        b"\x1bktitle\x1b\\",
        b"\x1b%@",
        b"\x1b F",
        b"\x9b21t",
        b"\xc2\x9b21t",
        b"\xc2\x9d0;title\xc2\x9c",
        b"\x1b\x1b[21t",
    ];

    #[test]
    fn what_a_terminal_answers_or_obeys_to_the_user_s_harm_never_passes() {
        for sequence in NEVER {
            for modes in [Modes::of_person, Modes::default] {
                let text = [b"a", *sequence, b"b"].concat();
                let seen = shown(&text, &mut modes());
                // An ST that ends no string has no effect.
                assert_eq!(seen, "ab", "{sequence:?}");
            }
        }
    }

    #[test]
    fn text_colours_and_moves_pass() {
        let text =
            "\x1b[1;32mgrün\x1b[m\r\n\x1b[H\x1b[2J\x1b[5;7H\x1b[K\x1b(0lqk\x1b(B 日本 🙂\t\x07";
        assert_eq!(for_person(text.as_bytes()), text);
        assert_eq!(for_onlooker(text.as_bytes()), text);
    }

    #[test]
    fn a_person_s_full_screen_programs_work_and_an_onlooker_s_do_not_begin() {
        let text = "\x1b[?1049h\x1b[?1h\x1b=\x1b[1;24r\x1b[6n\x1b[?25l\x1b[4h\x1b[2 q";
        assert_eq!(for_person(text.as_bytes()), text);
        assert_eq!(for_onlooker(text.as_bytes()), "\x1b[1;24r");
        assert_eq!(for_person(b"\x1b[?25;9999;1000h"), "\x1b[?25;1000h");
    }

    #[test]
    fn in_lines_nothing_moves_away_from_the_line() {
        let text = "a\tb\x08\x08\x1b[2Ac\x1b[31md\x1b[H\x0b\x0c\x1b7e\x1bM\x0e\x07 ü\r\n";
        let seen = shown(text.as_bytes(), &mut Modes::of_lines());
        assert_eq!(seen, "a\tbcde ü\r\n");
    }

    #[test]
    fn what_is_no_character_is_shown_as_such() {
        assert_eq!(
            for_person(b"a\xffb\xc3(c\xe0\x9b21t"),
            "a\u{fffd}b\u{fffd}(c\u{fffd}21t"
        );
    }

    #[test]
    fn a_string_without_an_end_takes_one_line() {
        assert_eq!(for_person(b"a\x1b]0;lost\r\nb"), "a\r\nb");
    }

    #[test]
    fn a_long_sequence_is_none() {
        let long = [b"\x1b[".as_slice(), &[b'1'; 200], b"mx"].concat();
        assert_eq!(for_person(&long), "x");
    }

    #[test]
    fn it_does_not_matter_where_the_stream_is_cut() {
        let mut stream = NEVER.concat();
        stream.extend("\x1b[1mü\x1b[?1049h日\x1b[6n".as_bytes());
        let whole = for_person(&stream);
        for cut in 0..stream.len() {
            let (mut filter, mut modes) = (Filter::default(), Modes::of_person());
            let mut seen = filter.pass(&stream[..cut], &mut modes);
            seen.extend(filter.pass(&stream[cut..], &mut modes));
            assert_eq!(String::from_utf8(seen).unwrap(), whole, "cut at {cut}");
        }
    }

    /// For any input, what passes passes again unchanged, so that no two of the remaining pieces
    /// form something new.
    #[test]
    fn what_passed_passes_unchanged() {
        let alphabet = b"\x1b[]P0?;65nhcmtq$ >\x07\x9b\xc2\xe0\x9d\\\nx\x18";
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            let mut next = || {
                seed = seed
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                alphabet[(seed >> 33) as usize % alphabet.len()]
            };
            let bytes: Vec<u8> = (0..12).map(|_| next()).collect();
            let once = for_person(&bytes);
            assert_eq!(for_person(once.as_bytes()), once, "{bytes:?}");
        }
    }
}
