//! What the user sees of several consoles at one terminal.
//!
//! A person at a raw terminal sees one VM unchanged, and the hypervisor's lines and prompt. The
//! output of other VMs is kept until the person looks at them. Where nobody types, all VMs' text is
//! shown as it comes, each line marked with its VM (`marked.rs`); that of a single guest without a
//! hypervisor is unchanged. Only harmless text of a guest reaches the terminal (`filter.rs`), and
//! what a guest changed there is undone at the end.

use std::collections::VecDeque;
use std::io::Write;
use std::time::Instant;

use super::demux::Receiver;
use super::filter::Filter;
use super::mark::{self, Unmarked};
use super::marked::Marked;
use super::modes::Modes;
use hanok_base::ui;

/// The number of bytes that are kept of a VM's output while another one is shown.
const KEPT: usize = 64 << 10;
/// The prefix of the line that is typed for the hypervisor.
const PROMPT: &str = "hanok> ";
/// Goes to the line's beginning, and clears it (ECMA-48: CR, and EL).
const ERASE: &str = "\r\x1b[K";

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

/// How text is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To a person, whose terminal is raw.
    Person,
    /// As lines, each marked with its VM.
    Lines,
    /// Unchanged: there is one guest, and no hypervisor.
    Plain,
}

/// What text is written to.
pub struct ScreenOutput {
    /// The output for the VMs' text.
    pub out: Box<dyn Write>,
    /// The output for the hypervisor's text.
    pub log: Box<dyn Write>,
    /// Whether the first is a terminal.
    pub is_terminal: bool,
    /// Whether both are the same terminal, pipe or file.
    pub is_one: bool,
}

/// The user's terminal.
pub struct Screen {
    output: ScreenOutput,
    kind: Kind,
    midline: bool,
    /// What guests have changed about the terminal.
    modes: Modes,
    marked: Marked,
    vms: Vec<View>,
    /// One filter for all guests' text, so that two of them cannot form a mark together.
    unmarked: Unmarked,
    receiver: Receiver,
    attached: usize,
    /// What is typed at the prompt, where it is on the screen, and the cursor's column.
    typed: Option<(String, usize)>,
}

impl Screen {
    /// For VMs with these names.
    pub fn new(output: ScreenOutput, vms: &[String], kind: Kind) -> Self {
        let view = |name: &String| View {
            name: name.clone(),
            kept: VecDeque::new(),
            lost: 0,
            filter: Filter::default(),
        };
        Self {
            output,
            kind,
            midline: false,
            modes: match kind {
                Kind::Person => Modes::of_person(),
                _ => Modes::default(),
            },
            marked: Marked::new(vms),
            vms: vms.iter().map(view).collect(),
            unmarked: Unmarked::default(),
            receiver: Receiver::Vm(0),
            attached: 0,
            typed: None,
        }
    }

    /// Whether a person uses the terminal in raw mode.
    pub fn is_raw(&self) -> bool {
        self.kind == Kind::Person
    }

    /// The receiver of a person's keys.
    pub fn receiver(&self) -> Receiver {
        self.receiver
    }

    /// The VM that is shown while the prompt is closed.
    pub fn attached(&self) -> usize {
        self.attached
    }

    /// Whether a person is at the hypervisor's prompt.
    pub fn shows_prompt(&self) -> bool {
        self.is_raw() && self.receiver == Receiver::Prompt
    }

    /// Shows text of a VM.
    pub fn vm(&mut self, vm: usize, bytes: &[u8], now: Instant) {
        let visible = self.receiver == Receiver::Vm(vm);
        let Some(view) = self.vms.get_mut(vm) else {
            return;
        };
        match self.kind {
            Kind::Person if !visible => view.keep(bytes),
            Kind::Lines => {
                let lines = self.marked.feed(vm, bytes, now);
                self.show(&lines);
            }
            Kind::Person | Kind::Plain => {
                let shown = view.filter.pass(bytes, &mut self.modes);
                self.show(&shown);
            }
        }
    }

    fn show(&mut self, bytes: &[u8]) {
        // What goes to a file is unchanged.
        let unmarked = self.output.is_terminal.then(|| self.unmarked.of(bytes));
        let shown = unmarked.as_deref().unwrap_or(bytes);
        let out = &mut self.output.out;
        let _ = out.write_all(shown).and_then(|()| out.flush());
        if let Some(last) = bytes.last() {
            self.midline = *last != b'\n';
        }
    }

    /// Shows the incomplete lines that have waited long enough.
    pub fn overdue(&mut self, now: Instant) {
        let lines = self.marked.overdue(now);
        self.show(&lines);
    }

    /// When [`Self::overdue`] is to be called although nothing came.
    pub fn wake(&self) -> Option<Instant> {
        self.marked.wake()
    }

    /// Makes the person's keys go to a VM, or to the prompt.
    pub fn keys_go_to(&mut self, receiver: Receiver) {
        self.receiver = receiver;
        let Receiver::Vm(vm) = receiver else { return };
        self.leave_prompt();
        let changed = std::mem::replace(&mut self.attached, vm) != vm;
        let Some(view) = self.vms.get_mut(vm).filter(|_| self.kind == Kind::Person) else {
            return;
        };
        let rule = changed.then(|| format!("--- {} ---", view.name));
        let kept: Vec<u8> = view.kept.drain(..).collect();
        let lost = match std::mem::take(&mut view.lost) {
            0 => None,
            lost => Some(format!("[{lost} bytes were not kept]")),
        };
        // An answer to what the VM asked the terminal then is not awaited any more; and the
        // alternate screen that it may have switched to would hide another VM.
        let kept = Filter::default().pass(&kept, &mut Modes::default());
        for line in rule.into_iter().chain(lost) {
            self.line(&ui::dim(&line));
        }
        self.show(&kept);
    }

    /// Shows one of our lines between those of the guests.
    pub fn say(&mut self, line: &str) {
        // Before the hypervisor has started, a boot loader writes in its place.
        let line = Filter::default().pass(line.as_bytes(), &mut Modes::default());
        let line = String::from_utf8_lossy(&line).into_owned();
        self.line(&ui::dim(&format!("[hanok] {line}")));
    }

    fn line(&mut self, line: &str) {
        let typed = self.erase_prompt();
        let (fresh, mark) = if self.output.is_terminal {
            (mark::FRESH, mark::MARK)
        } else {
            ("", "")
        };
        self.log(&format!("{fresh}{mark}{line}{}", self.end_of_line()));
        if let Some((text, cursor)) = typed {
            self.prompt(&text, cursor);
        }
    }

    fn end_of_line(&self) -> &'static str {
        if self.is_raw() { "\r\n" } else { "\n" }
    }

    fn log(&mut self, text: &str) {
        let log = &mut self.output.log;
        let _ = log.write_all(text.as_bytes()).and_then(|()| log.flush());
    }

    fn break_line(&mut self) {
        let breaks = self.output.is_terminal || self.output.is_one;
        if breaks && std::mem::take(&mut self.midline) {
            self.marked.break_line();
            self.log(self.end_of_line());
        }
    }

    /// Clears the prompt's line, or begins a new one, for the text that follows.
    fn erase_prompt(&mut self) -> Option<(String, usize)> {
        let typed = self.typed.take();
        match typed {
            Some(_) => {
                self.midline = false;
                self.log(ERASE);
            }
            None => self.break_line(),
        }
        typed
    }

    /// Shows the prompt, the typed text, and the cursor in this column of it.
    pub fn prompt(&mut self, text: &str, cursor: usize) {
        self.erase_prompt();
        let back = 1 + PROMPT.len() + cursor;
        let (fresh, mark) = (mark::FRESH, mark::MARK);
        self.log(&format!("{fresh}{mark}{PROMPT}{text}\r\x1b[{back}C"));
        self.typed = Some((text.to_owned(), cursor));
        self.midline = true;
    }

    /// The number of columns of `width` that the prompt leaves. The last one stays free, because a
    /// terminal may go to the next line from there.
    pub fn room(width: usize) -> usize {
        width.saturating_sub(2 + PROMPT.len()).max(8)
    }

    /// Leaves the prompt's line as it is, and begins another one.
    pub fn leave_prompt(&mut self) {
        if self.typed.take().is_some() {
            self.midline = false;
            self.log("\r\n");
        }
    }

    /// Whether a person has entered a line at the prompt, and sees no new prompt yet.
    pub fn awaits_answer(&self) -> bool {
        self.shows_prompt() && self.typed.is_none()
    }

    /// Whether the guest that a person sees asked for the terminal's size since the last call.
    pub fn size_was_asked(&mut self) -> bool {
        self.modes.size_was_asked()
    }

    /// Whether a guest asked the terminal something.
    pub fn was_asked(&self) -> bool {
        self.modes.asked()
    }

    /// Undoes what guests changed. Further text on the user's terminal begins a new line.
    pub fn end(&mut self) {
        let rest = self.marked.rest();
        self.show(&rest);
        self.leave_prompt();
        if self.output.is_terminal {
            let undone = self.modes.restoring_sequence();
            let out = &mut self.output.out;
            let _ = out.write_all(&undone).and_then(|()| out.flush());
        }
        if self.is_raw() {
            self.kind = Kind::Plain;
        }
        self.break_line();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        /// The text without the sequences that dim it.
        fn text(&self) -> String {
            let text = std::mem::take(&mut *self.0.lock().unwrap());
            let text = String::from_utf8(text).unwrap();
            let text = text.replace(mark::FRESH, "");
            text.replace("\x1b[2m", "").replace("\x1b[0m", "")
        }
    }

    struct Desk {
        screen: Screen,
        output: Written,
    }

    impl Desk {
        fn new(kind: Kind, is_terminal: bool, is_one: bool) -> Self {
            let output = Written::default();
            let names = ["linux".to_owned(), "rtos".to_owned()];
            let to = ScreenOutput {
                out: Box::new(output.clone()),
                log: Box::new(output.clone()),
                is_terminal,
                is_one,
            };
            let screen = Screen::new(to, &names, kind);
            Self { screen, output }
        }

        fn person() -> Self {
            Self::new(Kind::Person, true, true)
        }

        fn vm(&mut self, vm: usize, bytes: &[u8]) {
            self.screen.vm(vm, bytes, Instant::now());
        }

        fn text(&self) -> String {
            self.output.text()
        }
    }

    #[test]
    fn a_person_sees_the_attached_vm_and_later_the_others() {
        let mut desk = Desk::person();
        desk.vm(0, b"login: ");
        desk.vm(1, b"tick\n\x1b[6n");
        desk.screen.say("vm rtos: started");
        assert_eq!(desk.text(), "login: \r\n▌[hanok] vm rtos: started\r\n");
        desk.vm(0, b"$ ");
        desk.screen.keys_go_to(Receiver::Prompt);
        desk.screen.prompt("a r", 3);
        desk.vm(0, b"later");
        assert_eq!(desk.text(), "$ \r\n▌hanok> a r\r\x1b[11C");
        desk.screen.keys_go_to(Receiver::Vm(1));
        assert_eq!(desk.text(), "\r\n▌--- rtos ---\r\ntick\n");
        desk.vm(0, &[b'x'; KEPT]);
        desk.screen.keys_go_to(Receiver::Vm(1));
        assert_eq!(desk.text(), "");
        desk.screen.keys_go_to(Receiver::Vm(0));
        let text = desk.text();
        let start = "▌--- linux ---\r\n▌[5 bytes were not kept]\r\nxxx";
        assert!(text.starts_with(start), "{}", &text[..60]);
    }

    #[test]
    fn a_line_of_the_hypervisor_s_takes_the_place_of_the_prompt_s() {
        let mut desk = Desk::person();
        desk.screen.keys_go_to(Receiver::Prompt);
        desk.screen.prompt("li", 1);
        desk.screen.say("vm rtos: off");
        desk.screen.prompt("lis", 3);
        let text = "▌hanok> li\r\x1b[9C\r\x1b[K▌[hanok] vm rtos: off\r\n▌hanok> li\r\x1b[9C\
            \r\x1b[K▌hanok> lis\r\x1b[11C";
        assert_eq!(desk.text(), text);
    }

    #[test]
    fn no_guest_shows_a_line_that_looks_like_the_hypervisor_s() {
        let mut desk = Desk::person();
        desk.vm(0, "a\r\n▌[hanok] vm rtos: off\r\n".as_bytes());
        desk.screen.say("vm linux: started");
        let text = "a\r\n▀[hanok] vm rtos: off\r\n▌[hanok] vm linux: started\r\n";
        assert_eq!(desk.text(), text);
    }

    #[test]
    fn what_a_guest_changed_is_undone_at_the_end() {
        let mut desk = Desk::person();
        desk.vm(0, b"\x1b[?1049h\x1b[?25l\x1b[6nx\n");
        assert_eq!(desk.text(), "\x1b[?1049h\x1b[?25l\x1b[6nx\n");
        assert!(desk.screen.was_asked());
        desk.screen.end();
        assert_eq!(desk.text(), "\x1b[?1049l\x1b[?25h");
    }

    /// On a pipe that both outputs go to, each line has its source, whatever a guest writes.
    #[test]
    fn where_nobody_types_each_line_is_marked() {
        let mut desk = Desk::new(Kind::Lines, false, true);
        desk.vm(
            0,
            b"a\x1b[6n\r\n\r[hanok] vm rtos: off\r\nhanok: vm rtos: off\r\nlogin: ",
        );
        desk.vm(1, b"b\n");
        desk.screen
            .overdue(Instant::now() + std::time::Duration::from_secs(1));
        desk.screen.say("vm rtos: started");
        desk.vm(0, b"root\n");
        desk.screen.end();
        let wanted = "[linux] a\n[linux] [hanok] vm rtos: off\n[linux] hanok: vm rtos: off\n\
            [rtos] b\n[linux] login: \n[hanok] vm rtos: started\n[linux] root\n";
        assert_eq!(desk.text(), wanted);
    }

    #[test]
    fn a_single_guest_without_a_hypervisor_is_shown_as_it_is() {
        let mut desk = Desk::new(Kind::Plain, false, false);
        desk.vm(0, b"a\x1b[6n\x1b[1mb");
        desk.screen.keys_go_to(Receiver::Vm(1));
        assert_eq!(desk.text(), "a\x1b[1mb");
    }
}
