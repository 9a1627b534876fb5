//! The mark that distinguishes a line of the hypervisor on a person's terminal.
//!
//! Before each of these lines stands one character that a guest's text never shows: wherever its
//! bytes would make one, another character takes its place. A terminal forms a character of three
//! bytes only where they come directly one after the other. So no sequence between them, no
//! movement of the cursor and no second guest can form one. A guest can still overwrite a line that
//! is already on the screen; the log (`--log FILE`) has every line as it was written.

/// The mark: U+258C, a bar at the left. No terminal has it in the character sets that ASCII can be
/// switched to (ISO 2022, DEC special graphics).
pub const MARK: &str = "\u{258c}";
/// Resets colours and character sets to a terminal's initial state (ECMA-48 SGR, SI; ISO 2022), so
/// that a guest's settings do not change how our line looks; and clears the rest of the line, so
/// that nothing a guest has written there looks like its end (ECMA-48 EL).
pub const FRESH: &str = "\x1b[0m\x0f\x1b(B\x1b[K";
/// The last byte of the character that replaces the mark in a guest's text: U+2580, half a block.
const INSTEAD: u8 = 0x80;

/// Keeps the mark out of one guest's text, which comes in pieces.
#[derive(Debug, Default)]
pub struct Unmarked {
    /// The number of the mark's bytes that came last.
    begun: usize,
}

impl Unmarked {
    /// `bytes` without a mark, and as many of them.
    pub fn of(&mut self, bytes: &[u8]) -> Vec<u8> {
        bytes.iter().map(|byte| self.step(*byte)).collect()
    }

    fn step(&mut self, byte: u8) -> u8 {
        let mark = MARK.as_bytes();
        if byte != mark[self.begun] {
            self.begun = usize::from(byte == mark[0]);
            return byte;
        }
        self.begun = (self.begun + 1) % mark.len();
        if self.begun == 0 { INSTEAD } else { byte }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unmarked(pieces: &[&[u8]]) -> Vec<u8> {
        let mut filter = Unmarked::default();
        pieces.iter().flat_map(|piece| filter.of(piece)).collect()
    }

    #[test]
    fn no_pieces_make_a_mark() {
        let forged = format!("\r\n{MARK}[hanok] vm b: off{MARK}{MARK}").into_bytes();
        for first in 0..forged.len() {
            for second in first..forged.len() {
                let pieces = [&forged[..first], &forged[first..second], &forged[second..]];
                let shown = unmarked(&pieces);
                assert_eq!(shown.len(), forged.len());
                assert!(!shown.windows(3).any(|part| part == MARK.as_bytes()));
                let text = String::from_utf8(shown).unwrap();
                assert_eq!(text, "\r\n\u{2580}[hanok] vm b: off\u{2580}\u{2580}");
            }
        }
    }

    #[test]
    fn beginnings_of_a_mark_hide_none() {
        let mark = MARK.as_bytes();
        for before in [&mark[..1], &mark[..2]] {
            let shown = unmarked(&[before, mark]);
            assert!(!shown.windows(3).any(|part| part == mark), "{shown:x?}");
        }
    }

    #[test]
    fn all_else_is_shown_as_it_is() {
        let text = "─│█▄▐▀ ├─ ÿ \x1b[2J\x1b[1;1H\x1b]0;title\x07".as_bytes();
        assert_eq!(unmarked(&[text]), text);
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unmarked(&[&all]), all);
    }
}
