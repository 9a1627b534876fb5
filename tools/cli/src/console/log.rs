//! The lines of the hypervisor that `hanok run` acts on.

/// What one line of the hypervisor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A VM was stopped for what it did.
    Stopped,
    /// The hypervisor panicked.
    Panic,
    /// The hypervisor refused to start, and said why.
    Refused,
    /// The last line: how it all ended.
    End(End),
}

/// How the hypervisor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All VMs powered off.
    Off,
    /// At least one VM was stopped.
    Stopped,
    /// A panic.
    Panic,
    /// It did not start: configuration, image or board are at fault.
    Refused,
}

/// What stands before each line of the hypervisor's while the line is not framed: before it
/// knows that it is to be, and where it cannot even begin.
const UNFRAMED: &str = "hanok: ";

/// What `line` says, without what stands before it while the line is not framed.
pub fn plain(line: &str) -> &str {
    line.strip_prefix(UNFRAMED).unwrap_or(line)
}

/// Puts the hypervisor's bytes together to lines.
#[derive(Debug, Default)]
pub struct Lines {
    open: Vec<u8>,
}

impl Lines {
    /// The lines that `bytes` completes, without their ends.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        self.open.extend(bytes);
        let mut lines = Vec::new();
        while let Some(end) = self.open.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.open.drain(..=end).collect();
            lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
        lines
    }

    /// What is left without an end, if anything.
    pub fn rest(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.open);
        (!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).trim_end().to_owned())
    }
}

/// What `line` says, if it is one to act on.
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
        assert_eq!(lines.feed(b"vm a: sta"), [] as [&str; 0]);
        assert_eq!(lines.feed(b"rted\r\n\nend"), ["vm a: started", ""]);
        assert_eq!(lines.rest().as_deref(), Some("end"));
        assert_eq!(lines.rest(), None);
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
