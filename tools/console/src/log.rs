//! Recognises the lines of the hypervisor that `hanok run` acts on.

/// The meaning of one line of the hypervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A VM was stopped because of what it did.
    Stopped,
    /// The hypervisor panicked.
    Panic,
    /// The hypervisor refused to start, and said why.
    Refused,
    /// The last line: how the run ended.
    End(End),
}

/// How the hypervisor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All VMs powered off.
    Off,
    /// At least one VM was stopped.
    Stopped,
    /// It panicked.
    Panic,
    /// It did not start: the configuration, the image or the board is at fault.
    Refused,
}

/// The prefix of the hypervisor's lines while the line is not framed: before the hypervisor knows
/// that it is, and where it cannot even begin.
const UNFRAMED: &str = "hanok: ";

/// `line` without the prefix that it has while the line is not framed.
pub fn plain(line: &str) -> &str {
    line.strip_prefix(UNFRAMED).unwrap_or(line)
}

/// The prefix of the hypervisor's prompt. None of its lines begins with it.
const PROMPT: &[u8] = b"hanok> ";
/// The bytes that clear the prompt's line, so that another line takes its place.
const ERASE: &[u8] = b"\r\x1b[K";

/// A part of the hypervisor's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A line, without its end.
    Line(String),
    /// The prompt's line, once it has been entered.
    Entered(String),
}

/// The largest length of a line in bytes. A longer one is cut.
const LONGEST: usize = 16 << 10;

/// Puts the hypervisor's bytes together to lines.
#[derive(Debug, Default)]
pub struct Lines {
    open: Vec<u8>,
    /// Whether the open line is the prompt's.
    prompt: bool,
}

impl Lines {
    /// The lines that `bytes` complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Said> {
        let mut all = Vec::new();
        for byte in bytes {
            self.step(*byte, &mut all);
        }
        all
    }

    fn step(&mut self, byte: u8, all: &mut Vec<Said>) {
        self.open.push(byte);
        self.prompt |= self.open == PROMPT;
        if self.open.ends_with(ERASE) {
            self.open.clear();
            self.prompt = false;
        } else if byte == b'\n' || self.open.len() >= LONGEST {
            let line = std::mem::take(&mut self.open);
            let line = || String::from_utf8_lossy(&line).trim_end().to_owned();
            all.push(if std::mem::take(&mut self.prompt) {
                Said::Entered(without_erased(&line()))
            } else {
                Said::Line(line())
            });
        }
    }

    /// The incomplete line at the end, if there is one.
    pub fn rest(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.open);
        let line = !rest.is_empty() && !std::mem::take(&mut self.prompt);
        line.then(|| String::from_utf8_lossy(&rest).trim_end().to_owned())
    }
}

/// A typed line as it finally was: each backspace removes a character.
fn without_erased(line: &str) -> String {
    let mut text = String::new();
    for character in line.chars() {
        match character {
            '\x08' => drop(text.pop()),
            other => text.push(other),
        }
    }
    text
}

/// The meaning of `line`, if it is one to act on.
pub fn event(line: &str) -> Option<Event> {
    let line = plain(line);
    match line {
        "end: off" => return Some(Event::End(End::Off)),
        "end: stopped" => return Some(Event::End(End::Stopped)),
        "end: panic" => return Some(Event::End(End::Panic)),
        "end: refused" => return Some(Event::End(End::Refused)),
        _ => {}
    }
    if line.starts_with("panic:") {
        return Some(Event::Panic);
    }
    if line.starts_with("refused:") {
        return Some(Event::Refused);
    }
    let what = line.strip_prefix("vm ")?.split_once(": ")?.1;
    what.starts_with("stopped").then_some(Event::Stopped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole() {
        let mut lines = Lines::default();
        assert_eq!(lines.feed(b"vm a: sta"), []);
        let line = |text: &str| Said::Line(text.to_owned());
        let wanted = [line("vm a: started"), line("")];
        assert_eq!(lines.feed(b"rted\r\n\nend"), wanted);
        assert_eq!(lines.rest().as_deref(), Some("end"));
        assert_eq!(lines.rest(), None);
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let mut lines = Lines::default();
        let found = lines.feed(&[b'x'; 3 * LONGEST + 1]);
        assert_eq!(found.len(), 3);
        assert_eq!(lines.rest().as_deref(), Some("x"));
    }

    #[test]
    fn of_the_prompt_the_entered_lines_are_seen_and_other_lines_whole() {
        let line =
            b"vm a: started\nhanok> lx\x08 \x08i\r\x1b[Kvm b: off\nhanok> list\nVMs\nhanok> ";
        let wanted = [
            Said::Line("vm a: started".to_owned()),
            Said::Line("vm b: off".to_owned()),
            Said::Entered("hanok> list".to_owned()),
            Said::Line("VMs".to_owned()),
        ];
        let mut lines = Lines::default();
        assert_eq!(lines.feed(line), wanted);
        assert_eq!(lines.rest(), None);
        assert_eq!(without_erased("lx\x08 \x08i"), "li");
        let mut lines = Lines::default();
        let one_by_one = line.iter().flat_map(|byte| lines.feed(&[*byte]));
        assert!(one_by_one.eq(wanted));
    }

    #[test]
    fn only_the_known_lines_are_acted_on() {
        assert_eq!(
            event("vm linux: stopped: no such address"),
            Some(Event::Stopped)
        );
        assert_eq!(event("vm linux: started"), None);
        assert_eq!(event("panic: at here"), Some(Event::Panic));
        assert_eq!(event("end: off"), Some(Event::End(End::Off)));
        assert_eq!(event("refused: no memory"), Some(Event::Refused));
        assert_eq!(event("end: refused"), Some(Event::End(End::Refused)));
        assert_eq!(event("hanok: panic: not at EL2"), Some(Event::Panic));
        assert_eq!(event("the end: off"), None);
    }
}
