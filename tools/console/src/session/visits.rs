//! What attached terminals ask of the run.

use std::time::Instant;

use super::Session;
use crate::demux::{Channel, Piece};
use crate::inbox::Visit;
use crate::prompt;

impl Session {
    /// Handles an attached terminal that came, sent something, or went.
    pub(super) fn visitor(&mut self, number: usize, visit: Visit) {
        match visit {
            Visit::Came => self.visitors.came(number),
            Visit::Went => {
                self.visitors.went(number);
                self.reports.went(number);
            }
            Visit::Said(bytes) => self.visitor_said(number, &bytes),
        }
    }

    fn visitor_said(&mut self, number: usize, bytes: &[u8]) {
        let mut all = self.visitors.all.iter_mut();
        let Some(visitor) = all.find(|visitor| visitor.number == number) else {
            return;
        };
        for piece in visitor.said.feed(bytes) {
            match piece {
                Piece::Text(Channel::Vm(vm), text) => self.outbox.send(vm, &text),
                Piece::Text(Channel::Log, text) => {
                    for byte in text {
                        let Some(line) = visitor.entered(byte) else {
                            continue;
                        };
                        // A line that is no command is answered, too: the other end waits.
                        self.visitors.asked = true;
                        if let Some(line) = prompt::command(&line, &self.request.vms) {
                            self.outbox.command(line, Instant::now());
                        }
                    }
                }
                Piece::Text(Channel::Report, text) => {
                    for byte in text {
                        if let Some(line) = visitor.asked.feed(byte) {
                            self.reports.ask(number, &line);
                        }
                    }
                }
                Piece::KeysGoTo(_) | Piece::Consumed(_) => {}
            }
        }
        self.visitors.done(&self.outbox);
        self.give_answers(Instant::now());
    }

    /// Handles text of the board's report channel.
    pub(super) fn reported(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(line) = self.report_line.feed(*byte) {
                self.reports.board(&line, Instant::now());
            }
        }
        self.give_answers(Instant::now());
    }

    /// Gives attached terminals what is for them.
    pub(super) fn give_answers(&mut self, now: Instant) {
        for (number, line) in self.reports.answers(now) {
            self.visitors.report(number, &line);
        }
    }
}
