//! Answers to requests, which wait until they are sent.

use super::{Channel, Multiplexer, REPORT_AT_ONCE, REPORTS, ReportPiece};
use core::fmt::{self, Write};
use hanok_hal::SerialPort;
use heapless::Deque;

impl<P: SerialPort> Multiplexer<'_, P> {
    /// Queues a line that answers a request, or nothing of it if there is no room: the program at the other end asks
    /// again. In plain form nobody asks. [`Self::send_report`] sends it. Half a line that waits for its rest is dropped.
    pub fn report(&mut self, line: fmt::Arguments<'_>) {
        if core::mem::take(&mut self.half) {
            self.reports.clear();
        }
        self.queue(line, "\n");
    }

    /// Queues the first half of a line. Nothing of it is sent, and nothing else comes into the line, until
    /// [`Self::report_rest`] queues its rest. Where answers wait it is dropped.
    pub fn report_half(&mut self, line: fmt::Arguments<'_>) {
        if self.reports.is_empty() {
            self.half = self.queue(line, "");
        }
    }

    /// Queues the second half of a line. Returns whether the first one was there: if not, both are to be queued anew.
    pub fn report_rest(&mut self, line: fmt::Arguments<'_>) -> bool {
        let half = core::mem::take(&mut self.half);
        // Both have room: nothing else waits.
        if half {
            self.queue(line, "\n");
        }
        half
    }

    /// Queues text and its end. Returns whether there was room; nothing of it is queued otherwise.
    #[inline(never)]
    fn queue(&mut self, text: fmt::Arguments<'_>, end: &str) -> bool {
        struct Queue<'a>(&'a mut Deque<u8, REPORTS>);
        impl Write for Queue<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                let mut bytes = text.bytes();
                bytes.try_for_each(|byte| self.0.push_back(byte).map_err(|_| fmt::Error))
            }
        }
        if !self.line.framed {
            return false;
        }
        let before = self.reports.len();
        let mut queue = Queue(&mut self.reports);
        let written = queue.write_fmt(text).and_then(|()| queue.write_str(end));
        if written.is_err() {
            self.reports.truncate(before);
        }
        written.is_ok()
    }

    /// Sends some of the answers that wait. They are no part of what [`Self::drain`] sends: they are long, and guests'
    /// bytes may come between them.
    pub fn send_report(&mut self) -> ReportPiece {
        if !self.has_report() {
            return ReportPiece::Nothing;
        }
        for _ in 0..REPORT_AT_ONCE {
            let Some(byte) = self.reports.front() else {
                break;
            };
            if self.line.try_send(Channel::Report, *byte).is_err() {
                return ReportPiece::Full;
            }
            self.reports.pop_front();
        }
        ReportPiece::Sent
    }

    /// Whether answers wait for [`Self::send_report`].
    pub fn has_report(&self) -> bool {
        !self.half && !self.reports.is_empty()
    }
}
