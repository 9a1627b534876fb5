//! What the program tells people, on the standard error.

use std::time::{Duration, Instant};

/// Says a line, by one write(2): what others say on the same console, as the kernel does at any time, comes before its words or after them.
/// (`eprintln!` writes each piece of a format by itself. A text that is put together is one piece.)
pub fn say(text: &str) {
    let line = format!("hanok-driver: {text}\n");
    eprint!("{line}");
}

/// How many lines of one disk are told in a while.
const LINES: u32 = 10;
const WHILE: Duration = Duration::from_secs(10);

/// The lines about one disk, of which a client may cause as many as it likes: ten in ten seconds are told, and how many were not.
#[derive(Debug)]
pub struct Words {
    about: String,
    since: Instant,
    told: u32,
    kept: u64,
}

impl Words {
    /// Words about the disk of this name.
    pub fn new(about: String) -> Self {
        Self {
            about,
            since: Instant::now(),
            told: 0,
            kept: 0,
        }
    }

    /// Says a line, unless there were too many.
    pub fn say(&mut self, text: &str) {
        if let Some(line) = self.line(text, Instant::now()) {
            say(&line);
        }
    }

    fn line(&mut self, text: &str, now: Instant) -> Option<String> {
        if now.duration_since(self.since) >= WHILE {
            (self.since, self.told) = (now, 0);
        }
        if self.told >= LINES {
            self.kept += 1;
            return None;
        }
        self.told += 1;
        let kept = std::mem::take(&mut self.kept);
        let more = match kept {
            0 => String::new(),
            _ => format!(" ({kept} lines before it were left out)"),
        };
        Some(format!("{}: {text}{more}", self.about))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_causes_many_lines_has_few_of_them_told() {
        let mut words = Words::new("a".to_owned());
        let start = words.since;
        let told = (0..1000).filter_map(|_| words.line("x", start)).count();
        assert_eq!(told, 10);
        let later = words.line("y", start + WHILE).unwrap();
        assert_eq!(later, "a: y (990 lines before it were left out)");
    }
}
