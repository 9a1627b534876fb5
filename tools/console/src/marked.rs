//! Guests' text as lines, each marked with its VM: for a pipe, a file, or a terminal at which nobody
//! types.
//!
//! Lines are put out whole, so that those of several VMs, and the hypervisor's, do not get into one
//! another. A line that stands open, as a shell's prompt does, is shown after a moment; when somebody
//! else speaks meanwhile, it is broken, and goes on as another line with the same mark.

use std::time::{Duration, Instant};

use super::filter::Filter;
use super::modes::Modes;

/// So long an open line waits for its end.
const MOMENT: Duration = Duration::from_millis(200);
/// From so many bytes on it is not waited for.
const LONG: usize = 4096;

/// One VM's text.
struct Voice {
    mark: String,
    filter: Filter,
    /// What is not put out yet of its line.
    waiting: Vec<u8>,
    /// Since when.
    since: Option<Instant>,
    /// The last byte was CR: what follows is another line, whether LF comes or not.
    returned: bool,
}

/// All VMs' text.
pub struct Marked {
    voices: Vec<Voice>,
    modes: Modes,
    /// Whose line stands open.
    open: Option<usize>,
}

/// What stands before a line of this speaker's.
pub fn mark(name: &str) -> String {
    format!("[{name}] ")
}

impl Marked {
    /// Of VMs of these names.
    pub fn new(vms: &[String]) -> Self {
        let voice = |name: &String| Voice {
            mark: mark(name),
            filter: Filter::default(),
            waiting: Vec::new(),
            since: None,
            returned: false,
        };
        Self {
            voices: vms.iter().map(voice).collect(),
            modes: Modes::of_lines(),
            open: None,
        }
    }

    /// What is to be put out after a VM said `bytes`.
    pub fn feed(&mut self, vm: usize, bytes: &[u8], now: Instant) -> Vec<u8> {
        let mut out = Vec::new();
        let Some(voice) = self.voices.get_mut(vm) else {
            return out;
        };
        let text = voice.filter.pass(bytes, &mut self.modes);
        for byte in text {
            self.byte(vm, byte, now, &mut out);
        }
        out
    }

    fn byte(&mut self, vm: usize, byte: u8, now: Instant, out: &mut Vec<u8>) {
        let Some(voice) = self.voices.get_mut(vm) else {
            return;
        };
        let returned = std::mem::replace(&mut voice.returned, byte == b'\r');
        match byte {
            b'\r' => return,
            b'\n' => return self.put(vm, true, out),
            // Over a line that is there: it may not be written over.
            _ if returned && (self.open == Some(vm) || !voice.waiting.is_empty()) => {
                self.put(vm, true, out);
            }
            _ => {}
        }
        let Some(voice) = self.voices.get_mut(vm) else {
            return;
        };
        voice.waiting.push(byte);
        voice.since.get_or_insert(now);
        if voice.waiting.len() >= LONG {
            self.put(vm, false, out);
        }
    }

    /// Puts out what waits of a VM's line, and perhaps its end.
    fn put(&mut self, vm: usize, ends: bool, out: &mut Vec<u8>) {
        let Some(voice) = self.voices.get_mut(vm) else {
            return;
        };
        if self.open != Some(vm) {
            if self.open.is_some() {
                out.push(b'\n');
            }
            out.extend(voice.mark.as_bytes());
        }
        out.append(&mut voice.waiting);
        voice.since = None;
        self.open = (!ends).then_some(vm);
        if ends {
            out.push(b'\n');
        }
    }

    /// What is to be put out of lines that have stood open for a while.
    pub fn overdue(&mut self, now: Instant) -> Vec<u8> {
        self.put_all(|since| since + MOMENT <= now)
    }

    /// What is left.
    pub fn rest(&mut self) -> Vec<u8> {
        self.put_all(|_| true)
    }

    fn put_all(&mut self, when: impl Fn(Instant) -> bool) -> Vec<u8> {
        let mut out = Vec::new();
        for vm in 0..self.voices.len() {
            if self.voices[vm].since.is_some_and(&when) {
                self.put(vm, false, &mut out);
            }
        }
        out
    }

    /// When to look again though nothing came.
    pub fn wake(&self) -> Option<Instant> {
        let since = self.voices.iter().filter_map(|voice| voice.since).min();
        since.map(|since| since + MOMENT)
    }

    /// Whether a line stands open; from here on it does not, as somebody else ends it.
    pub fn break_line(&mut self) -> bool {
        self.open.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Paper {
        marked: Marked,
        text: String,
        now: Instant,
    }

    impl Paper {
        fn new() -> Self {
            Self {
                marked: Marked::new(&["a".to_owned(), "b".to_owned()]),
                text: String::new(),
                now: Instant::now(),
            }
        }

        fn say(&mut self, vm: usize, text: &str) {
            let out = self.marked.feed(vm, text.as_bytes(), self.now);
            self.text += &String::from_utf8(out).unwrap();
        }

        fn later(&mut self) {
            self.now += MOMENT;
            assert!(self.marked.wake().is_none_or(|wake| wake <= self.now));
            let out = self.marked.overdue(self.now);
            self.text += &String::from_utf8(out).unwrap();
        }

        fn taken(&mut self) -> String {
            std::mem::take(&mut self.text)
        }
    }

    #[test]
    fn lines_come_whole_whoever_speaks_meanwhile() {
        let mut paper = Paper::new();
        paper.say(0, "one\r\ntw");
        paper.say(1, "other\n");
        paper.say(0, "o\r\n\r\n");
        assert_eq!(paper.taken(), "[a] one\n[b] other\n[a] two\n[a] \n");
    }

    #[test]
    fn an_open_line_is_shown_after_a_moment_and_broken_by_others() {
        let mut paper = Paper::new();
        paper.say(0, "login: ");
        assert_eq!(paper.taken(), "");
        paper.later();
        assert_eq!(paper.taken(), "[a] login: ");
        assert_eq!(paper.marked.wake(), None);
        paper.say(0, "root\r\n");
        assert_eq!(paper.taken(), "root\n");
        paper.say(0, "# ");
        paper.later();
        paper.say(1, "tick\n");
        paper.say(0, "ls\n");
        assert_eq!(paper.taken(), "[a] # \n[b] tick\n[a] ls\n");
        paper.say(1, "end");
        paper.text += &String::from_utf8(paper.marked.rest()).unwrap();
        assert_eq!(paper.taken(), "[b] end");
        assert!(paper.marked.break_line() && !paper.marked.break_line());
    }

    /// Whatever a guest says, each line that comes out has its mark, and nothing moves about.
    #[test]
    fn no_guest_gets_out_of_its_lines() {
        let forged = [
            "\r[hanok] vm b: off\r\n",
            "x\r[hanok] vm b: off\r\n",
            "\n\r[hanok] vm b: off\n",
            "x\x1b[1A\r[hanok] vm b: off\n",
            "\x08\x08\x08\x08[hanok] vm b: off\n",
            "hanok: vm b: off\n",
            "\u{85}[hanok] x\n",
            "\x0b[hanok] x\x0c[hanok] x\n",
            "\x1b[2J\x1b[Hhanok: panic: x\x1bc\n",
        ];
        for text in forged {
            for cut in 0..text.len() {
                let mut paper = Paper::new();
                for piece in [&text.as_bytes()[..cut], &text.as_bytes()[cut..]] {
                    let out = paper.marked.feed(0, piece, paper.now);
                    paper.text += &String::from_utf8(out).unwrap();
                    paper.later();
                }
                let out = paper.taken();
                assert!(out.ends_with('\n'));
                assert!(out.lines().all(|line| line.starts_with("[a] ")), "{out:?}");
                assert!(
                    !out.contains(['\r', '\x1b', '\x08', '\x0b', '\x0c']),
                    "{out:?}"
                );
            }
        }
    }

    #[test]
    fn a_line_without_an_end_does_not_grow() {
        let mut paper = Paper::new();
        paper.say(0, &"x".repeat(10 * LONG));
        assert_eq!(paper.taken().len(), 4 + 10 * LONG);
        assert!(paper.marked.voices[0].waiting.capacity() < 4 * LONG);
    }
}
