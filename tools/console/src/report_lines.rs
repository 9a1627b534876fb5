//! The lines of the report channel (docs/top.md), whose bytes may come in any pieces.
//!
//! A line that is too long is left out as a whole. Whatever else a board says is a line: its readers
//! look at each field, and show no character that is more than text.

/// The largest length in bytes of a request, without its end.
pub const LONGEST_REQUEST: usize = 119;
/// The largest length in bytes of an answer's line, without its end.
const LONGEST: usize = 400;

/// Makes lines of bytes.
#[derive(Debug, Default)]
pub struct ReportLines {
    line: Vec<u8>,
    too_long: bool,
}

impl ReportLines {
    /// Adds a byte, and returns the line that it ends.
    pub fn feed(&mut self, byte: u8) -> Option<String> {
        match byte {
            b'\n' => {
                let line = std::mem::take(&mut self.line);
                let too_long = std::mem::take(&mut self.too_long);
                let line = String::from_utf8_lossy(&line).into_owned();
                return (!too_long && !line.is_empty()).then_some(line);
            }
            _ if self.line.len() < LONGEST => self.line.push(byte),
            _ => self.too_long = true,
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut lines = ReportLines::default();
        bytes.iter().filter_map(|byte| lines.feed(*byte)).collect()
    }

    #[test]
    fn a_line_is_whole_or_none() {
        assert_eq!(lines(b"end 1\nboard 1"), ["end 1"]);
        assert_eq!(lines(b"\n\nend 3\n\xff\n"), ["end 3", "\u{fffd}"]);
        let long = [&[b'x'; 10 * LONGEST][..], b"\nend 4\n"].concat();
        assert_eq!(lines(&long), ["end 4"]);
    }
}
