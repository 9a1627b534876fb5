//! What of a guest's text goes to the user's terminal.
//!
//! Text for a terminal is also a program for it. Some of it is answered as if typed (ECMA-48's
//! DSR and DA, and many of xterm's reports, a few of which repeat what the guest said), some
//! writes the clipboard, the title or a printer, and some stays behind after the run. So only
//! what is known to do no harm goes through: text, colours, the cursor's moves, and what
//! full-screen programs need. A person at a raw terminal gets these programs' modes, which
//! [`Modes`] knows how to undo, and answers go to the guest, which asked; elsewhere neither. Where
//! text is shown as lines, text alone goes through.
//!
//! The names and numbers are those of ECMA-48 and of xterm's "Control Sequences". The terminal
//! is taken to speak UTF-8; a C1 control is treated as its form with ESC.

use super::modes::Modes;

const ESC: u8 = 0x1b;
/// No sequence that does good is longer.
const LONGEST: usize = 64;

/// What the bytes before make of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Text,
    /// A character of several bytes, so many of which are to come.
    Character(usize),
    /// ESC, and perhaps intermediate bytes.
    Escape,
    /// ESC [ and what belongs to it.
    Control,
    /// OSC, DCS and the like: a string up to its end.
    String,
}

/// Filters a stream that comes in pieces, wherever it is cut.
#[derive(Debug, Default)]
pub struct Filter {
    within: Within,
    /// The sequence, or the character, that is not complete yet.
    held: Vec<u8>,
}

impl Filter {
    /// What of `bytes` goes to a terminal in these `modes`; a sequence is held back until it is
    /// whole.
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
            // Of the other controls a terminal answers some (ENQ), and needs none.
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
            return self.again(byte, modes, out);
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

    /// What was held is none: `byte` is looked at as text.
    fn again(&mut self, byte: u8, modes: &mut Modes, out: &mut Vec<u8>) {
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
            _ => self.again(byte, modes, out),
        }
    }

    fn control(&mut self, byte: u8, modes: &mut Modes, out: &mut Vec<u8>) {
        match byte {
            // What is too long has a byte too many, by which it is refused.
            0x20..=0x3f if self.held.len() > LONGEST => {}
            0x20..=0x3f => self.held.push(byte),
            0x40..=0x7e => {
                self.within = Within::Text;
                if self.held.len() <= LONGEST {
                    finish_control(self.held.get(2..).unwrap_or_default(), byte, modes, out);
                }
            }
            _ => self.again(byte, modes, out),
        }
    }

    /// A string ends as terminals have it, and with a line: who forgets the end loses no more.
    fn string(&mut self, byte: u8, modes: &mut Modes, out: &mut Vec<u8>) {
        match byte {
            ESC => self.begin(Within::Escape, byte),
            // BEL, CAN, SUB, and ST as a C1 control.
            0x07 | 0x18 | 0x1a | 0x9c => self.within = Within::Text,
            b'\n' | b'\r' => self.again(byte, modes, out),
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
    let passes = match sequence {
        // Save and restore the cursor; line feeds; one character of another set.
        [_, b'7' | b'8' | b'D' | b'E' | b'M' | b'N' | b'O'] => true,
        [_, b'#', b'3'..=b'6' | b'8'] => true,
        [_, b'('..=b'+', b'0'..=b'9' | b'A'..=b'Z'] => {
            modes.charset();
            true
        }
        [_, b'=' | b'>'] => modes.keypad(),
        // A full reset takes what was scrolled away with it: the screen alone does.
        [_, b'c'] => {
            out.extend(modes.undone());
            out.extend(b"\x1b[H\x1b[2J");
            false
        }
        _ => false,
    };
    if passes {
        out.extend(sequence);
    }
}

/// A control sequence with these parameter and intermediate bytes.
fn finish_control(between: &[u8], last: u8, modes: &mut Modes, out: &mut Vec<u8>) {
    if modes.is_lines() {
        return;
    }
    let plain = between
        .iter()
        .all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'));
    let passes = match (between, last) {
        (b"3", b'J') => false,
        (_, b'@'..=b'M' | b'P' | b'X' | b'Z' | b'`' | b'a' | b'd' | b'e' | b'f' | b'S')
            if plain =>
        {
            true
        }
        // With more parameters it is something else.
        (_, b'T' | b'b') if plain => !between.contains(&b';'),
        (b"", b's' | b'u') => true,
        (_, b'm') if plain => {
            modes.colour();
            true
        }
        (_, b'r') if plain => {
            modes.region();
            true
        }
        (b"4" | b"20", b'h' | b'l') => modes.ansi(between, last == b'h'),
        ([b'?', rest @ ..], b'h' | b'l') => return modes.private(rest, last == b'h', out),
        ([b'?', b'0'..=b'2'] | b"?", b'J' | b'K') => true,
        // What is answered: where the cursor is, that all is well, what the terminal is.
        (b"5" | b"6", b'n') | (b"" | b"0", b'c') => modes.answer(),
        // How large the text area is, which the terminal itself is not asked: where the window is on
        // the screen, and what it is called, are reports of the same kind.
        (b"18", b't') => modes.ask_size(),
        ([b' '] | [b'0'..=b'6', b' '], b'q') => modes.shape(),
        _ => false,
    };
    if passes {
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

    /// Each is answered by terminals, or does what no guest may.
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
                // An ST that ends no string is nothing.
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

    /// Whatever comes: what passes passes again unchanged, so that no two pieces of what was
    /// taken apart make something new.
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
