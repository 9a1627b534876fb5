//! What the user sees of several consoles at one terminal.
//!
//! A person at a raw terminal sees the attached VM as it is, and the hypervisor's lines and
//! prompt; what other VMs print is kept until they are attached. Where nobody types, all
//! VMs' text is shown as it comes. Of a guest's text only that goes to the terminal which does
//! the user no harm (`filter.rs`); what it changed there is undone at the end.

use std::collections::VecDeque;
use std::io::Write;

use super::demux::Receiver;
use super::filter::Filter;
use super::log::PROMPT;
use super::mark::{self, Unmarked};
use super::modes::Modes;
use crate::ui;

/// Bytes of a VM's output that are kept while another one is shown.
const KEPT: usize = 64 << 10;

/// One VM's console.
#[derive(Debug)]
struct View {
    name: String,
    kept: VecDeque<u8>,
    lost: usize,
    filter: Filter,
}

impl View {
    fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
        let surplus = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..surplus);
        self.lost += surplus;
    }
}

/// The user's terminal.
pub struct Screen {
    /// VMs' text.
    out: Box<dyn Write>,
    /// The hypervisor's.
    log: Box<dyn Write>,
    /// Lines need their carriage return.
    raw: bool,
    /// Where a VM's line stands open, ours begins a new one.
    breaks_lines: bool,
    midline: bool,
    /// What guests have changed about the terminal.
    modes: Modes,
    vms: Vec<View>,
    /// Of all guests' text, so that two of them put no mark together.
    unmarked: Unmarked,
    receiver: Receiver,
    attached: usize,
}

impl Screen {
    /// VMs' text to `out` and the hypervisor's to `log`; `raw` where a person sits at the
    /// terminal, `breaks_lines` where there is a terminal at all.
    pub fn new(
        out: Box<dyn Write>,
        log: Box<dyn Write>,
        vms: &[String],
        raw: bool,
        breaks_lines: bool,
    ) -> Self {
        let view = |name: &String| View {
            name: name.clone(),
            kept: VecDeque::new(),
            lost: 0,
            filter: Filter::default(),
        };
        Self {
            out,
            log,
            raw,
            breaks_lines,
            midline: false,
            modes: match raw {
                true => Modes::of_person(),
                false => Modes::default(),
            },
            vms: vms.iter().map(view).collect(),
            unmarked: Unmarked::default(),
            receiver: Receiver::Vm(0),
            attached: 0,
        }
    }

    /// Whether a person sits there.
    pub fn is_raw(&self) -> bool {
        self.raw
    }

    /// Whether a person is at the hypervisor's prompt.
    pub fn shows_prompt(&self) -> bool {
        self.raw && self.receiver == Receiver::Prompt
    }

    /// A VM's text.
    pub fn vm(&mut self, vm: usize, bytes: &[u8]) {
        let visible = self.receiver == Receiver::Vm(vm);
        let Some(view) = self.vms.get_mut(vm) else {
            return;
        };
        if self.raw && !visible {
            return view.keep(bytes);
        }
        let shown = view.filter.pass(bytes, &mut self.modes);
        self.show(&shown);
    }

    fn show(&mut self, bytes: &[u8]) {
        // What goes to a file stays as it came.
        let unmarked = self.breaks_lines.then(|| self.unmarked.of(bytes));
        let shown = unmarked.as_deref().unwrap_or(bytes);
        let _ = self.out.write_all(shown).and_then(|()| self.out.flush());
        if let Some(last) = bytes.last() {
            self.midline = *last != b'\n';
        }
    }

    /// The board said where keys go.
    pub fn keys_go_to(&mut self, receiver: Receiver) {
        self.receiver = receiver;
        let Receiver::Vm(vm) = receiver else { return };
        let changed = std::mem::replace(&mut self.attached, vm) != vm;
        let Some(view) = self.vms.get_mut(vm).filter(|_| self.raw) else {
            return;
        };
        let rule = changed.then(|| format!("--- {} ---", view.name));
        let kept: Vec<u8> = view.kept.drain(..).collect();
        let lost = match std::mem::take(&mut view.lost) {
            0 => None,
            lost => Some(format!("[{lost} bytes were not kept]")),
        };
        // Whatever it asked the terminal then, nobody awaits the answer now; and the screen that
        // it may have changed to is another VM's.
        let kept = Filter::default().pass(&kept, &mut Modes::default());
        for line in rule.into_iter().chain(lost) {
            self.line(&ui::dim(&line));
        }
        self.show(&kept);
    }

    /// A line of ours between those of the guests.
    pub fn say(&mut self, line: &str) {
        // Before the hypervisor is there, a boot loader speaks in its place.
        let line = Filter::default().pass(line.as_bytes(), &mut Modes::default());
        let line = String::from_utf8_lossy(&line).into_owned();
        self.line(&ui::dim(&format!("[hanok] {line}")));
    }

    fn line(&mut self, line: &str) {
        self.break_line();
        let end = if self.raw { "\r\n" } else { "\n" };
        let (fresh, mark) = match self.breaks_lines {
            true => (mark::FRESH, mark::MARK),
            false => ("", ""),
        };
        let _ = write!(self.log, "{fresh}{mark}{line}{end}").and_then(|()| self.log.flush());
    }

    fn break_line(&mut self) {
        if std::mem::take(&mut self.midline) && self.breaks_lines {
            let end = if self.raw { "\r\n" } else { "\n" };
            let _ = self.log.write_all(end.as_bytes());
        }
    }

    /// The hypervisor's prompt, or what is typed there; `open` where its line is not empty
    /// after it.
    pub fn prompt(&mut self, bytes: &[u8], open: bool) {
        if bytes.starts_with(PROMPT) {
            self.break_line();
        }
        let bytes = mark::prompt(bytes);
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, end) = match part.strip_suffix(b"\n") {
                Some(text) => (text, &b"\r\n"[..]),
                None => (part, &b""[..]),
            };
            let _ = self
                .log
                .write_all(text)
                .and_then(|()| self.log.write_all(end));
        }
        let _ = self.log.flush();
        self.midline = open;
    }

    /// Whether a guest asked the terminal something.
    pub fn was_asked(&self) -> bool {
        self.modes.asked()
    }

    /// Undoes what guests changed. What follows on the user's terminal, now its own again,
    /// begins a line.
    pub fn end(&mut self) {
        if self.breaks_lines {
            let undone = self.modes.undone();
            let _ = self.out.write_all(&undone).and_then(|()| self.out.flush());
        }
        self.raw = false;
        self.break_line();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        /// Without what dims.
        fn text(&self) -> String {
            let text = std::mem::take(&mut *self.0.lock().unwrap());
            let text = String::from_utf8(text).unwrap();
            let text = text.replace(mark::FRESH, "");
            text.replace("\x1b[2m", "").replace("\x1b[0m", "")
        }
    }

    fn screen(raw: bool) -> (Screen, Paper) {
        let paper = Paper::default();
        let (out, log) = (Box::new(paper.clone()), Box::new(paper.clone()));
        let names = ["linux".to_owned(), "rtos".to_owned()];
        (Screen::new(out, log, &names, raw, raw), paper)
    }

    #[test]
    fn a_person_sees_the_attached_vm_and_later_the_others() {
        let (mut screen, paper) = screen(true);
        screen.vm(0, b"login: ");
        screen.vm(1, b"tick\n\x1b[6n");
        screen.say("vm rtos: started");
        assert_eq!(paper.text(), "login: \r\n▌[hanok] vm rtos: started\r\n");
        screen.vm(0, b"$ ");
        screen.prompt(b"hanok> ", true);
        screen.keys_go_to(Receiver::Prompt);
        screen.vm(0, b"later");
        screen.prompt(b"a r\n", false);
        assert_eq!(paper.text(), "$ \r\n▌hanok> a r\r\n");
        screen.keys_go_to(Receiver::Vm(1));
        assert_eq!(paper.text(), "▌--- rtos ---\r\ntick\n");
        screen.vm(0, &[b'x'; KEPT]);
        screen.keys_go_to(Receiver::Vm(1));
        assert_eq!(paper.text(), "");
        screen.keys_go_to(Receiver::Vm(0));
        let text = paper.text();
        let start = "▌--- linux ---\r\n▌[5 bytes were not kept]\r\nxxx";
        assert!(text.starts_with(start), "{}", &text[..60]);
    }

    #[test]
    fn a_line_of_the_hypervisor_s_takes_the_place_of_the_prompt_s() {
        let (mut screen, paper) = screen(true);
        screen.prompt(b"hanok> li", true);
        screen.prompt(b"\r\x1b[K", false);
        screen.say("vm rtos: off");
        screen.prompt(b"hanok> li", true);
        let text = "▌hanok> li\r\x1b[K▌[hanok] vm rtos: off\r\n▌hanok> li";
        assert_eq!(paper.text(), text);
    }

    #[test]
    fn no_guest_shows_a_line_that_looks_like_the_hypervisor_s() {
        let (mut screen, paper) = screen(true);
        screen.vm(0, "a\r\n▌[hanok] vm rtos: off\r\n".as_bytes());
        screen.say("vm linux: started");
        let text = "a\r\n▀[hanok] vm rtos: off\r\n▌[hanok] vm linux: started\r\n";
        assert_eq!(paper.text(), text);
    }

    #[test]
    fn what_a_guest_changed_is_undone_at_the_end() {
        let (mut screen, paper) = screen(true);
        screen.vm(0, b"\x1b[?1049h\x1b[?25l\x1b[6nx\n");
        assert_eq!(paper.text(), "\x1b[?1049h\x1b[?25l\x1b[6nx\n");
        assert!(screen.was_asked());
        screen.end();
        assert_eq!(paper.text(), "\x1b[?1049l\x1b[?25h");
    }

    #[test]
    fn where_nobody_types_all_is_shown() {
        let (mut screen, paper) = screen(false);
        screen.vm(0, b"a\x1b[6");
        screen.vm(1, b"b");
        screen.vm(0, b"nc");
        screen.keys_go_to(Receiver::Vm(1));
        assert_eq!(paper.text(), "abc");
    }
}
