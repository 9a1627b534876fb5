//! The person at the terminal: keys for a VM, for the prompt, and for this program.

use std::time::Instant;

use super::{KEYS, Session};
use crate::demux::Receiver;
use crate::keys::{self, Action};
use crate::outbox::ATTENTION;
use crate::prompt::PromptRequest;
use crate::request::Report;
use crate::screen::Screen;
use crate::terminal;
use hanok_base::exit::Code;

impl Session {
    /// Handles keys, or piped data, which goes to the attached VM.
    pub(super) fn typed(&mut self, bytes: &[u8]) -> Option<Report> {
        if !self.screen.is_raw() {
            self.outbox.send(self.screen.attached(), bytes);
            return None;
        }
        for action in self.keys.feed(bytes) {
            match action {
                Action::Send(bytes) => bytes.iter().for_each(|byte| self.key(*byte)),
                Action::Help => {
                    let help = keys::help(self.request.framed, self.run_end.is_of_another());
                    help.lines().for_each(|line| self.screen.say(line));
                }
                Action::Quit => return Some(self.quit()),
            }
        }
        None
    }

    fn quit(&mut self) -> Report {
        if self.run_end.is_of_another() {
            return Report::new(Code::Success, "detached: the run goes on");
        }
        // The guest's prompt is an incomplete line: further text begins a new one.
        self.screen.say("switched off");
        Report::new(Code::Success, "ended by Ctrl-A x")
    }

    fn key(&mut self, key: u8) {
        match self.screen.receiver() {
            Receiver::Prompt => self.at_prompt(key),
            Receiver::Vm(_) if key == ATTENTION && self.request.framed => {
                self.prompt.begin();
                self.screen.keys_go_to(Receiver::Prompt);
                self.show_prompt();
            }
            Receiver::Vm(vm) => self.send(vm, key),
        }
    }

    fn at_prompt(&mut self, key: u8) {
        match self.prompt.feed(key) {
            PromptRequest::Nothing => {}
            PromptRequest::Redraw => self.show_prompt(),
            PromptRequest::Say(lines) => {
                lines.iter().for_each(|line| self.screen.say(line));
                self.show_prompt();
            }
            PromptRequest::Answer(lines) => {
                self.screen.leave_prompt();
                lines.iter().for_each(|line| self.screen.say(line));
                self.show_prompt();
            }
            PromptRequest::Attach(vm) => self.screen.keys_go_to(Receiver::Vm(vm)),
            PromptRequest::Command(line) => {
                self.screen.leave_prompt();
                self.command(line);
            }
            PromptRequest::Leave => self.back(),
            PromptRequest::Literal => {
                self.back();
                self.send(self.screen.attached(), ATTENTION);
            }
        }
    }

    fn back(&mut self) {
        self.screen.keys_go_to(Receiver::Vm(self.screen.attached()));
    }

    fn show_prompt(&mut self) {
        let (text, cursor) = self.prompt.visible(Screen::room(terminal::columns()));
        self.screen.prompt(&text, cursor);
    }

    /// Shows the prompt again once its command is carried out.
    pub(super) fn answered(&mut self) {
        if self.screen.awaits_answer() && self.outbox.is_idle() {
            self.show_prompt();
        }
    }

    /// Sends a line to the board's prompt.
    fn command(&mut self, line: String) {
        if self.outbox.waiting() < KEYS {
            return self.outbox.command(line, Instant::now());
        }
        self.screen
            .say("the board takes no commands: this one is lost");
    }

    /// Sends a key to a VM. Keys for a VM that takes none are dropped beyond a limit, and counted.
    fn send(&mut self, vm: usize, key: u8) {
        // Without a hypervisor there is one line.
        if self.outbox.waiting() < KEYS {
            self.unsent = 0;
            return self.outbox.send(vm, &[key]);
        }
        if self.unsent == 0 {
            let what = "the VM takes no keys: what is typed from here on is lost";
            self.screen.say(what);
        }
        self.unsent += 1;
    }
}
