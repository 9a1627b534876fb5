//! The words on the command line.

use core::fmt;

/// The options from the command line.
#[derive(Clone, Copy)]
pub struct Options {
    /// `embassy.ms`: how long the tasks run in milliseconds, a multiple of 100, at most an hour.
    pub milliseconds: u32,
    /// `embassy.late`: by how many milliseconds the first job begins late, 0 to 50.
    pub late: u32,
    /// `embassy.urgent`: whether the most frequent task runs in interrupts. `no` leaves one
    /// executor, in which a task waits for the end of any other.
    pub urgent: bool,
}

/// A word that is not understood.
pub struct Mistake<'a>(&'a str);

impl fmt::Display for Mistake<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot understand '{}'; ", self.0)?;
        f.write_str("embassy.ms is a multiple of 100, at most 3600000; ")?;
        f.write_str("embassy.late is 0 to 50, embassy.urgent yes or no")
    }
}

impl Options {
    /// Reads the words that begin with `embassy.`. If one occurs twice, the last counts.
    pub fn parse(words: &str) -> Result<Self, Mistake<'_>> {
        let mut options = Self {
            milliseconds: 10_000,
            late: 0,
            urgent: true,
        };
        for word in words.split_ascii_whitespace() {
            if let Some(rest) = word.strip_prefix("embassy.") {
                options.word(rest).ok_or(Mistake(word))?;
            }
        }
        Ok(options)
    }

    fn word(&mut self, word: &str) -> Option<()> {
        match word.split_once('=')? {
            ("ms", value) => {
                let fits = |ms: &u32| (100..=3_600_000).contains(ms) && ms.is_multiple_of(100);
                self.milliseconds = value.parse().ok().filter(fits)?;
            }
            ("late", value) => {
                let late = value.parse().ok();
                self.late = late.filter(|late| *late <= 50)?;
            }
            ("urgent", "yes") => self.urgent = true,
            ("urgent", "no") => self.urgent = false,
            _ => return None,
        }
        Some(())
    }
}
