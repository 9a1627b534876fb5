//! Shows guests' text as lines, each marked with its VM: for a pipe, a file, or a terminal at which
//! nobody types.
//!
//! Lines are written completely, so that those of several VMs and of the hypervisor are not mixed.
//! An incomplete line, such as a shell's prompt, is shown after a moment. When another source
//! writes meanwhile, the line is broken, and goes on as another line with the same mark.

use std::time::{Duration, Instant};

use super::filter::Filter;
use super::modes::Modes;

/// The time that an incomplete line waits for its end.
const MOMENT: Duration = Duration::from_millis(200);
/// The length in bytes from which on an incomplete line does not wait.
const LONG: usize = 4096;

/// One VM's current line.
struct VmLine {
    mark: String,
    filter: Filter,
    /// The part of the line that is not written yet.
    waiting: Vec<u8>,
    /// When that part began to wait.
    since: Option<Instant>,
    /// Whether the last byte was CR: what follows is another line, whether LF comes or not.
    returned: bool,
}

/// All VMs' text.
pub struct Marked {
    lines: Vec<VmLine>,
    modes: Modes,
    /// The VM whose incomplete line was written last.
    open: Option<usize>,
}

/// The mark in front of the lines of `name`.
pub fn mark(name: &str) -> String {
    format!("[{name}] ")
}

impl Marked {
    /// For VMs with these names.
    pub fn new(vms: &[String]) -> Self {
        let line = |name: &String| VmLine {
            mark: mark(name),
            filter: Filter::default(),
            waiting: Vec::new(),
            since: None,
            returned: false,
        };
        Self {
            lines: vms.iter().map(line).collect(),
            modes: Modes::of_lines(),
            open: None,
        }
    }

    /// What is to be written after a VM wrote `bytes`.
    pub fn feed(&mut self, vm: usize, bytes: &[u8], now: Instant) -> Vec<u8> {
        let mut out = Vec::new();
        let Some(line) = self.lines.get_mut(vm) else {
            return out;
        };
        let text = line.filter.pass(bytes, &mut self.modes);
        for byte in text {
            self.byte(vm, byte, now, &mut out);
        }
        out
    }

    fn byte(&mut self, vm: usize, byte: u8, now: Instant, out: &mut Vec<u8>) {
        let Some(line) = self.lines.get_mut(vm) else {
            return;
        };
        let returned = std::mem::replace(&mut line.returned, byte == b'\r');
        match byte {
            b'\r' => return,
            b'\n' => return self.put(vm, true, out),
            // The new text would overwrite a line that was shown, which is not allowed.
            _ if returned && (self.open == Some(vm) || !line.waiting.is_empty()) => {
                self.put(vm, true, out);
            }
            _ => {}
        }
        let Some(line) = self.lines.get_mut(vm) else {
            return;
        };
        line.waiting.push(byte);
        line.since.get_or_insert(now);
        if line.waiting.len() >= LONG {
            self.put(vm, false, out);
        }
    }

    /// Writes the waiting part of a VM's line, and its end if `ends` is set.
    fn put(&mut self, vm: usize, ends: bool, out: &mut Vec<u8>) {
        let Some(line) = self.lines.get_mut(vm) else {
            return;
        };
        if self.open != Some(vm) {
            if self.open.is_some() {
                out.push(b'\n');
            }
            out.extend(line.mark.as_bytes());
        }
        out.append(&mut line.waiting);
        line.since = None;
        self.open = (!ends).then_some(vm);
        if ends {
            out.push(b'\n');
        }
    }

    /// What is to be written of lines that have waited long enough.
    pub fn overdue(&mut self, now: Instant) -> Vec<u8> {
        self.put_all(|since| since + MOMENT <= now)
    }

    /// What is left at the end.
    pub fn rest(&mut self) -> Vec<u8> {
        self.put_all(|_| true)
    }

    fn put_all(&mut self, when: impl Fn(Instant) -> bool) -> Vec<u8> {
        let mut out = Vec::new();
        for vm in 0..self.lines.len() {
            if self.lines[vm].since.is_some_and(&when) {
                self.put(vm, false, &mut out);
            }
        }
        out
    }

    /// When [`Self::overdue`] is to be called although nothing came.
    pub fn wake(&self) -> Option<Instant> {
        let since = self.lines.iter().filter_map(|line| line.since).min();
        since.map(|since| since + MOMENT)
    }

    /// Ends the line that was shown incompletely, if there is one: another source writes.
    pub fn break_line(&mut self) {
        self.open = None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestOutput {
        marked: Marked,
        text: String,
        now: Instant,
    }

    impl TestOutput {
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
        let mut output = TestOutput::new();
        output.say(0, "one\r\ntw");
        output.say(1, "other\n");
        output.say(0, "o\r\n\r\n");
        assert_eq!(output.taken(), "[a] one\n[b] other\n[a] two\n[a] \n");
    }

    #[test]
    fn an_open_line_is_shown_after_a_moment_and_broken_by_others() {
        let mut output = TestOutput::new();
        output.say(0, "login: ");
        assert_eq!(output.taken(), "");
        output.later();
        assert_eq!(output.taken(), "[a] login: ");
        assert_eq!(output.marked.wake(), None);
        output.say(0, "root\r\n");
        assert_eq!(output.taken(), "root\n");
        output.say(0, "# ");
        output.later();
        output.say(1, "tick\n");
        output.say(0, "ls\n");
        assert_eq!(output.taken(), "[a] # \n[b] tick\n[a] ls\n");
        output.say(1, "end");
        output.text += &String::from_utf8(output.marked.rest()).unwrap();
        assert_eq!(output.taken(), "[b] end");
        output.marked.break_line();
        assert_eq!(output.marked.open, None);
    }

    /// Whatever a guest writes, each line that comes out has its mark, and nothing moves the
    /// cursor.
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
                let mut output = TestOutput::new();
                for piece in [&text.as_bytes()[..cut], &text.as_bytes()[cut..]] {
                    let out = output.marked.feed(0, piece, output.now);
                    output.text += &String::from_utf8(out).unwrap();
                    output.later();
                }
                let out = output.taken();
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
        let mut output = TestOutput::new();
        output.say(0, &"x".repeat(10 * LONG));
        assert_eq!(output.taken().len(), 4 + 10 * LONG);
        assert!(output.marked.lines[0].waiting.capacity() < 4 * LONG);
    }
}
