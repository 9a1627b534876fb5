//! The board's serial line: the hypervisor's own lines, and the bytes from and to the VMs.
//!
//! No pCPU waits for the line or for a VM: a byte that cannot be moved now stays in a queue, and the
//! pCPU that makes room moves it.

use crate::report::Reporting;
use crate::{Board, Host, Unsaid, VmUnit};
use core::fmt::Arguments;
use hanok_hal::sync::MutexGuard;
use hanok_hal::sync::atomic::Ordering;
use hanok_hal::{HostLine, LineFull};
use hanok_types::{MAX_VMS, VmId};
use hanok_vm::{Arrived, Clock, Multiplexer, Received};

/// The number of received bytes that one exit takes: as many as a PL011 keeps.
const AT_ONCE: usize = 16;

impl<B: Host> Board<B> {
    /// The lock of the line, in the image once.
    #[inline(never)]
    pub(crate) fn lock_console(&self) -> MutexGuard<'_, Multiplexer<'static, B::Line>> {
        self.console.lock()
    }

    /// Prints one line of the hypervisor's own on the console, as soon as the serial line takes it.
    pub fn say(&self, text: Arguments<'_>) {
        let mut console = self.lock_console();
        console.say(text);
        if console.pending() {
            self.output_waits.store(true, Ordering::Relaxed);
            console.port().interrupt_when_writable(true);
        }
    }

    /// Prints one line about an action of a guest, unless there were too many about its VM lately.
    #[inline(never)]
    pub fn notice(&self, unit: &VmUnit<B>, text: Arguments<'_>) {
        let name = &unit.vm.config().name;
        match unit
            .notices
            .admit(self.counter() / self.counter_frequency().max(1))
        {
            Some(0) => self.say(format_args!("vm {name}: {text}")),
            Some(more) => self.say(format_args!("vm {name}: {text} ({more} lines left out)")),
            None => {}
        }
    }

    /// Serves the serial port's interrupt: moves bytes that arrived, and bytes that wait to be sent. Answers to requests
    /// come after guests' bytes and before them by turns, so that neither waits for the end of the other on a line that
    /// takes few bytes at a time; an exit in which bytes arrived leaves them.
    pub fn serve_console(&'static self) -> Reporting {
        self.note_moment();
        let (left, reports) = self.receive();
        let mut reporting = Reporting::Done;
        if reports == Reports::Before {
            reporting = self.go_on_reporting(&mut self.rx_lock.lock().report);
        }
        if self.output_waits.load(Ordering::Relaxed) {
            self.transmit();
        }
        match reports {
            Reports::Before | Reports::None => {}
            Reports::After => reporting = self.go_on_reporting(&mut self.rx_lock.lock().report),
            Reports::Later => reporting = Reporting::GoesOn,
        }
        if left == Walked::InPart || reporting == Reporting::Waits {
            // The line has just taken a part of what was said: it will interrupt when it takes more. Whoever finds no
            // other bytes that wait has turned that off.
            self.interrupt_when_writable();
        }
        reporting
    }

    /// Lets the line interrupt as soon as it takes bytes.
    pub(crate) fn interrupt_when_writable(&self) {
        self.output_waits.store(true, Ordering::Relaxed);
        self.lock_console().port().interrupt_when_writable(true);
    }

    /// Serves a guest's access to its serial port: moves received bytes if there is `room` for them, and
    /// enables the line's interrupt if bytes are `waiting` for the line.
    pub(crate) fn port_changed(&self, vm: VmId, room: bool, waiting: bool) {
        if room && self.input_waits.load(Ordering::SeqCst) & bit(vm) != 0 {
            let _turn = self.rx_lock.lock();
            self.feed(vm);
        }
        if waiting && !self.output_waits.swap(true, Ordering::Relaxed) {
            self.lock_console().port().interrupt_when_writable(true);
        }
    }

    /// Sends the bytes of the hypervisor and all VMs that wait for the line. The line's interrupt is
    /// disabled first, because a guest on another pCPU that finds the line full meanwhile enables it again.
    fn transmit(&self) {
        self.lock_console().port().interrupt_when_writable(false);
        self.output_waits.store(false, Ordering::Relaxed);
        let mut sent = self.lock_console().drain();
        for unit in self.vms {
            sent = sent.and(unit.vm.transmit(self));
        }
        if sent == Err(LineFull) {
            self.interrupt_when_writable();
        }
    }

    /// Takes bytes that arrived. Only one pCPU does so at a time, so that the bytes stay in order. If there
    /// are too many for one exit, the port's interrupt comes again. While lines of a command are left to be said, the
    /// next one is said instead, once the line has taken those before it. Keys that are typed meanwhile are for the
    /// prompt after it: they stay in the port, whose interrupt for them is off, as it would come again at once.
    fn receive(&'static self) -> (Walked, Reports) {
        let mut unsaid = self.rx_lock.lock();
        let Unsaid {
            command: walk,
            report,
            first,
        } = &mut *unsaid;
        let behind = self.lock_console().pending();
        if walk.is_some() && behind {
            return (Walked::InPart, Reports::None);
        }
        let most = if walk.is_some() { 0 } else { AT_ONCE };
        let arrived = self.lock_console().receive(most);
        let mut fed = arrived.vms;
        while fed != 0 {
            self.feed(VmId::new(fed.trailing_zeros() as u8));
            fed &= fed - 1;
        }
        if let Some(command) = arrived.command {
            *walk = self.carry_out(command);
        }
        let under_way = *walk;
        *walk = under_way.and_then(|walk| self.walk(walk));
        let mut reports = if arrived != Arrived::default() || under_way.is_some() {
            Reports::Later
        } else {
            *first = !*first;
            if *first {
                Reports::Before
            } else {
                Reports::After
            }
        };
        if let Some(request) = arrived.request {
            self.answer(request, report);
        }
        let left = walk.is_some();
        let mut console = self.lock_console();
        if under_way.is_some() || left {
            console.port().interrupt_when_received(!left);
        }
        if (arrived.command.is_some() || under_way.is_some()) && !left {
            console.command_done();
        }
        if console.pending() {
            self.output_waits.store(true, Ordering::Relaxed);
        }
        if reports == Reports::Later && report.is_none() && !console.has_report() {
            reports = Reports::None;
        }
        let walked = if left { Walked::InPart } else { Walked::Whole };
        (walked, reports)
    }

    /// Moves bytes to a VM as long as it has room. The caller holds `rx_lock`, so that no further bytes
    /// arrive for any VM.
    fn feed(&self, vm: VmId) {
        let Some(unit) = self.vms.get(vm.index()) else {
            return;
        };
        // The bit is set before the room is read, so that a guest that makes room after that finds it.
        self.input_waits.fetch_or(bit(vm), Ordering::SeqCst);
        let mut console = None;
        // The device is locked once for all bytes, and unlocked before the interrupt controller is locked.
        let next = move || {
            let console = console.get_or_insert_with(|| self.lock_console());
            console.take_input(vm)
        };
        let all = unit.vm.receive(self, next) == Received::Complete;
        if all || !self.lock_console().has_input(vm) {
            self.input_waits.fetch_and(!bit(vm), Ordering::SeqCst);
        }
    }
}

/// How much of a command is done.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
enum Walked {
    /// All of it, or there is none.
    Whole,
    /// Some lines are still to be said.
    InPart,
}

/// When an exit does its piece of answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reports {
    /// Before guests' bytes.
    Before,
    /// After them.
    After,
    /// In another exit.
    Later,
    /// There are none, or the prompt's text goes before.
    None,
}

fn bit(vm: VmId) -> u64 {
    1 << (vm.index() % MAX_VMS)
}

/// Starts the first boot of every VM that boots with the board, and wakes their pCPUs.
pub fn begin_all<B: Host>(board: &'static Board<B>) {
    for unit in board.vms.iter().filter(|unit| unit.vm.config().autostart) {
        // It has not booted yet, so the transition is never refused.
        let _ = unit.vm.lifecycle().begin();
        unit.vm.kick_first(board);
    }
}
