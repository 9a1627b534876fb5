//! The last line that a VM wrote: a person wants to know it of a VM that hangs.

/// The largest number of bytes that are kept of a line.
const LONGEST: usize = 200;

/// Follows one VM's text.
#[derive(Debug, Default)]
pub struct LastLine {
    open: Vec<u8>,
    whole: Vec<u8>,
}

impl LastLine {
    /// Adds text of the VM.
    pub fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' | b'\r' if is_blank(&self.open) => self.open.clear(),
                b'\n' | b'\r' => self.whole = std::mem::take(&mut self.open),
                _ if self.open.len() < LONGEST => self.open.push(*byte),
                _ => {}
            }
        }
    }

    /// The last line that is not blank, even if it is not complete. Control characters are left
    /// out.
    pub fn text(&self) -> Option<String> {
        let line = if is_blank(&self.open) {
            &self.whole
        } else {
            &self.open
        };
        let text = String::from_utf8_lossy(line);
        let text = hanok_base::ui::plain(text.trim());
        (!text.is_empty()).then_some(text)
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str) -> Option<String> {
        let mut last = LastLine::default();
        text.bytes().for_each(|byte| last.feed(&[byte]));
        last.text()
    }

    #[test]
    fn the_last_line_that_says_something_is_known() {
        assert_eq!(after(""), None);
        assert_eq!(after("\r\n  \r\n"), None);
        assert_eq!(after("a\r\nb c\r\n\r\n").as_deref(), Some("b c"));
        assert_eq!(after("a\r\nlogin: ").as_deref(), Some("login:"));
        assert_eq!(after("a\r\n  ").as_deref(), Some("a"));
        let long = "x".repeat(10_000);
        assert_eq!(after(&long).map(|text| text.len()), Some(LONGEST));
    }

    #[test]
    fn it_does_nothing_to_a_terminal() {
        let text = after("\x1b[31mred\x07\u{9b}2J\n").unwrap();
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}
