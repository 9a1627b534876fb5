//! The multiplexer: it decides which bytes go where, and in which order.
//!
//! Invariant: no part of it waits for another. A guest's byte is accepted, or the guest's own FIFO keeps
//! it. The hypervisor's text goes into a queue. Input for a VM that does not fetch it is dropped in the
//! end. The line carries, in this order: acknowledgements, the hypervisor's text, announcements, and then
//! guests' bytes. So a guest's byte is never inside one of the hypervisor's lines, and the other end knows
//! the receiver of keys before the first answer.

use super::Channel;
use super::command::{self, Command, Names, Request as Typed, WORDS};
use super::editor::{ATTENTION, Edit, INTERRUPT};
use super::guest::{Buffers, Given, PortQueues};
use super::line::{DLE, Line};
use super::request::{Arriving, Request};
use super::voice::{CatchUp, Prompt, Voice};
use core::fmt;
use hanok_hal::{HostLine, LineFull, ReceiveInterrupt, SerialPort};
use hanok_types::{MAX_VMS, VmId};
use heapless::Deque;

mod answers;

/// Codes after DLE, see [`super`].
const REQUEST: u8 = 0x3d;
const KEYS_TO_PROMPT: u8 = 0x3e;
const KEYS: u8 = 0x3f;
const TO_VM: u8 = 0x40;
const KEYS_TO_VM: u8 = 0x80;
const CONSUMED: u8 = 0xc0;

/// What the caller has to do after a received byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    None,
    /// This VM has bytes to fetch ([`Multiplexer::take_input`]).
    Vm(VmId),
    /// The caller must execute this command, print its result, and then call [`Multiplexer::command_done`].
    Command(Command),
    /// The caller must answer this request by [`Multiplexer::report`].
    Request(Request),
}

/// The bytes of answers that wait for the line.
const REPORTS: usize = 4096;
/// The bytes of answers that one exit sends.
const REPORT_AT_ONCE: usize = 32;

/// What became of a piece of the answers that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ReportPiece {
    /// None waits.
    Nothing,
    /// It was sent.
    Sent,
    /// The line takes no more of it now.
    Full,
}

/// The receiver of bytes from the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addressee {
    /// Keys: for the attached VM or the prompt.
    Keys,
    /// The hypervisor, for a request.
    Request,
    Vm(VmId),
    /// A VM that does not exist.
    Nobody,
}

/// The board's serial line, shared by the VMs' serial ports and the hypervisor.
#[derive(Debug)]
pub struct Multiplexer<'b, P> {
    line: Line<P>,
    voice: Voice<'b>,
    guests: &'b mut [PortQueues],
    names: &'b Names,
    /// Answers to requests.
    reports: Deque<u8, REPORTS>,
    /// Whether all that `reports` has is the first half of a line.
    half: bool,
    arriving: Arriving,
    attached: VmId,
    addressee: Addressee,
    escaped: bool,
    /// The receiver of keys that was announced last.
    announced: Option<u8>,
    /// Whether a key came whose sender waits for an announcement.
    answer_is_due: bool,
    acknowledgement_is_due: bool,
    /// Whether the last [`Self::drain`] sent everything. Every function that queues something calls it.
    drained: bool,
}

impl<'b, P: SerialPort> Multiplexer<'b, P> {
    /// The line behind `port`, with the first of the VMs of these names attached.
    pub fn new(port: P, framed: bool, names: &'b Names, buffers: Buffers<'b>) -> Self {
        Self {
            line: Line::new(port, framed),
            voice: Voice::new(buffers.said, framed),
            guests: buffers.guests,
            names,
            reports: Deque::new(),
            half: false,
            arriving: Arriving::default(),
            attached: VmId::new(0),
            addressee: Addressee::Keys,
            escaped: false,
            announced: None,
            answer_is_due: false,
            acknowledgement_is_due: false,
            drained: false,
        }
    }

    /// The port itself.
    pub fn port(&mut self) -> &mut P {
        &mut self.line.port
    }

    /// The VM that keys go to while the prompt is closed.
    pub fn attached(&self) -> VmId {
        self.attached
    }

    /// Whether keys go to the prompt.
    pub fn prompt_is_open(&self) -> bool {
        self.voice.prompt != Prompt::Closed
    }

    /// Queues a line of the hypervisor's (or several, separated by `\n`). It never waits: [`Self::drain`]
    /// sends what the port does not take now.
    pub fn say(&mut self, text: fmt::Arguments<'_>) {
        self.voice.say(text);
        self.drain_some();
    }

    /// Sends one byte of a VM's. If the line is full, the guest's FIFO keeps the byte. In plain form,
    /// bytes are always accepted while the VM's output is hidden.
    pub fn try_send(&mut self, vm: VmId, byte: u8) -> Result<(), LineFull> {
        let hidden = self.is_hidden(vm);
        let Some(guest) = self.guests.get_mut(vm.index()) else {
            return Ok(());
        };
        if hidden {
            guest.hold(byte);
            return Ok(());
        }
        if !self.drained {
            self.drain()?;
        }
        self.line.try_send(Channel::Vm(vm), byte)
    }

    /// Sends what is queued, as far as the port takes it.
    pub fn drain(&mut self) -> Result<(), LineFull> {
        let sent = self.send_queues();
        self.drained = sent.is_ok();
        sent
    }

    fn send_queues(&mut self) -> Result<(), LineFull> {
        self.acknowledge()?;
        self.send_said()?;
        self.announce()?;
        self.replay()?;
        self.line.flush()
    }

    /// As [`Self::drain`]; what the port does not take waits for the next call.
    fn drain_some(&mut self) {
        let _ = self.drain();
    }

    /// Whether something waits for [`Self::drain`].
    pub fn pending(&self) -> bool {
        self.line.is_waiting()
            || self.acknowledgement_is_due
            || self.voice.next().is_some()
            || self.announcement().is_some()
            || self.held().is_some()
    }

    /// Sends all that is queued, and waits for the port as long as that takes. For the end of the
    /// run.
    pub fn flush_blocking(&mut self) {
        while self.drain().is_err() {
            core::hint::spin_loop();
        }
    }

    /// Interprets a byte from the line.
    pub fn received(&mut self, byte: u8) -> Input {
        let Some(byte) = self.unframed(byte) else {
            return Input::None;
        };
        match self.addressee {
            Addressee::Nobody => Input::None,
            Addressee::Vm(vm) => self.give(vm, byte),
            Addressee::Request => match self.arriving.take(byte) {
                Some(request) => Input::Request(request),
                None => Input::None,
            },
            Addressee::Keys => {
                let input = self.key(byte);
                // Bytes that a full line does not take are sent when it takes bytes again.
                let _ = self.drain();
                input
            }
        }
    }

    /// The next byte for a VM.
    pub fn take_input(&mut self, vm: VmId) -> Option<u8> {
        let guest = self.guests.get_mut(vm.index())?;
        let byte = guest.take();
        if self.line.framed && guest.acknowledgement_is_due() {
            self.acknowledgement_is_due = true;
            self.drain_some();
        }
        byte
    }

    /// Whether there are bytes for a VM.
    pub fn has_input(&self, vm: VmId) -> bool {
        self.guests
            .get(vm.index())
            .is_some_and(PortQueues::has_input)
    }

    /// Drops the input of a VM, so that its next boot begins without it.
    pub fn clear_input(&mut self, vm: VmId) {
        while self.take_input(vm).is_some() {}
    }

    /// The number of bytes of input for a VM that were dropped because the VM did not fetch them.
    pub fn dropped_input(&self, vm: VmId) -> u32 {
        self.guests.get(vm.index()).map_or(0, |guest| guest.dropped)
    }

    /// Shows the next prompt. It must be called when the command that [`Self::received`] answered was
    /// executed.
    pub fn command_done(&mut self) {
        if self.voice.prompt == Prompt::Busy {
            self.voice.open();
        }
        self.drain_some();
    }
}

/// The effect of bytes that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// A bit for each VM that has bytes to fetch ([`Multiplexer::take_input`]).
    pub vms: u64,
    /// The caller executes this command, prints its output, and then calls [`Multiplexer::command_done`].
    pub command: Option<Command>,
    /// The caller answers this request.
    pub request: Option<Request>,
}

const _: () = assert!(MAX_VMS <= u64::BITS as usize);

impl<P: HostLine> Multiplexer<'_, P> {
    /// Acknowledges the port's interrupts, and interprets bytes that arrived there, at most `most` of them, until one
    /// asks for a command or completes a request. If some are left, the port's interrupt comes again.
    pub fn receive(&mut self, most: usize) -> Arrived {
        let mut arrived = Arrived::default();
        let interrupt = self.line.port.acknowledge();
        for at in 0..most {
            let Some(byte) = self.line.port.receive() else {
                if interrupt == ReceiveInterrupt::Pending && at == 0 {
                    self.line.port.acknowledge_in_vain();
                }
                break;
            };
            match self.received(byte) {
                Input::None => {}
                Input::Vm(vm) => arrived.vms |= 1 << vm.index(),
                Input::Command(command) => {
                    arrived.command = Some(command);
                    break;
                }
                Input::Request(request) => {
                    arrived.request = Some(request);
                    break;
                }
            }
        }
        arrived
    }
}

/// Output.
impl<P: SerialPort> Multiplexer<'_, P> {
    /// Whether a VM's output is held: in plain form, while another VM is attached or the prompt is
    /// open.
    fn is_hidden(&self, vm: VmId) -> bool {
        !self.line.framed && (vm != self.attached || self.prompt_is_open())
    }

    /// The oldest held byte of the attached VM, if it may be shown now.
    fn held(&self) -> Option<u8> {
        if self.is_hidden(self.attached) {
            return None;
        }
        self.guests.get(self.attached.index())?.held()
    }

    fn send_said(&mut self) -> Result<(), LineFull> {
        loop {
            while let Some(byte) = self.voice.next() {
                self.line.try_send(Channel::Hypervisor, byte)?;
                self.voice.sent();
            }
            if self.voice.catch_up() == CatchUp::Nothing {
                return Ok(());
            }
        }
    }

    fn replay(&mut self) -> Result<(), LineFull> {
        let attached = self.attached;
        if self.held().is_some()
            && let Some(guest) = self.guests.get_mut(attached.index())
            && let lost @ 1.. = guest.take_overwritten()
        {
            self.voice.note(format_args!("[{lost} bytes lost]"));
            self.send_said()?;
        }
        while let Some(byte) = self.held() {
            self.line.try_send(Channel::Vm(attached), byte)?;
            if let Some(guest) = self.guests.get_mut(attached.index()) {
                guest.release();
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self) -> Result<(), LineFull> {
        if !self.acknowledgement_is_due {
            return Ok(());
        }
        for (code, guest) in (CONSUMED..=u8::MAX).zip(self.guests.iter_mut()) {
            while guest.acknowledgement_is_due() {
                self.line.try_announce(code)?;
                guest.acknowledged();
            }
        }
        self.acknowledgement_is_due = false;
        Ok(())
    }

    /// The announcement of the receiver of keys, if one is due.
    fn announcement(&self) -> Option<u8> {
        let code = if self.prompt_is_open() {
            KEYS_TO_PROMPT
        } else {
            KEYS_TO_VM | self.attached.index() as u8
        };
        let is_due = self.announced != Some(code) || self.answer_is_due;
        // While a command is executed, the receiver is not decided.
        (self.line.framed && is_due && self.voice.prompt != Prompt::Busy).then_some(code)
    }

    fn announce(&mut self) -> Result<(), LineFull> {
        let Some(code) = self.announcement() else {
            return Ok(());
        };
        self.line.try_announce(code)?;
        self.announced = Some(code);
        self.answer_is_due = false;
        Ok(())
    }
}

/// Input.
impl<P: SerialPort> Multiplexer<'_, P> {
    /// Removes the framing. The answer is a byte of contents; `None` for a byte of the framing.
    fn unframed(&mut self, byte: u8) -> Option<u8> {
        if !self.line.framed {
            return Some(byte);
        }
        match (core::mem::take(&mut self.escaped), byte) {
            (false, DLE) => self.escaped = true,
            (true, KEYS) => self.addressee = Addressee::Keys,
            (true, REQUEST) => self.addressee = Addressee::Request,
            (true, TO_VM..KEYS_TO_VM) => {
                let vm = byte - TO_VM;
                let there = usize::from(vm) < self.names.len();
                self.addressee = if there {
                    Addressee::Vm(VmId::new(vm))
                } else {
                    Addressee::Nobody
                };
            }
            (true, DLE) | (false, _) => return Some(byte),
            // No code of the protocol: the line has lost a byte.
            (true, _) => {}
        }
        None
    }

    fn give(&mut self, vm: VmId, byte: u8) -> Input {
        let (Some(name), Some(guest)) =
            (self.names.get(vm.index()), self.guests.get_mut(vm.index()))
        else {
            return Input::None;
        };
        let lost = guest.give(byte) == Given::FirstLost;
        let consumed = self.line.framed && guest.acknowledgement_is_due();
        if lost {
            self.voice.say(format_args!(
                "vm {name}: input lost: it does not read its serial port"
            ));
        }
        self.acknowledgement_is_due |= consumed;
        if lost || consumed {
            // Bytes that a full line does not take are sent when it takes bytes again.
            let _ = self.drain();
        }
        Input::Vm(vm)
    }

    fn key(&mut self, key: u8) -> Input {
        let decides = matches!(key, ATTENTION | INTERRUPT | b'\r' | b'\n');
        self.answer_is_due |=
            self.line.framed && decides && (self.prompt_is_open() || key == ATTENTION);
        match (self.voice.prompt, key) {
            (Prompt::Closed, ATTENTION) => {
                self.voice.editor.begin();
                self.voice.open();
                Input::None
            }
            (Prompt::Closed, _) => self.give(self.attached, key),
            (Prompt::Open { .. }, _) => self.edit(key),
            // The user does not want to wait for the rest of the command.
            (Prompt::Busy, ATTENTION | INTERRUPT) => {
                self.voice.prompt = Prompt::Closed;
                Input::None
            }
            (Prompt::Busy, _) => Input::None,
        }
    }

    fn edit(&mut self, key: u8) -> Input {
        match self.voice.editor.key(key) {
            Edit::Nothing => {}
            Edit::Typed(key) => self.voice.echo(key_text(&[key])),
            Edit::Erased => self.voice.echo("\x08 \x08"),
            Edit::Emptied => self.voice.redraw(),
            Edit::Leave => self.voice.end_prompt(Prompt::Closed),
            Edit::Literal => {
                self.voice.end_prompt(Prompt::Closed);
                return self.give(self.attached, key);
            }
            Edit::Enter => return self.enter(),
        }
        Input::None
    }

    fn enter(&mut self) -> Input {
        self.voice.end_prompt(Prompt::Busy);
        let (line, dropped) = self.voice.editor.finish();
        if dropped > 0 {
            // The rest may be another command than the user meant.
            self.voice.say(format_args!(
                "not done: {dropped} characters of that line were dropped; it takes 80, of ASCII"
            ));
            self.voice.open();
            return Input::None;
        }
        match command::parse(&line, self.names) {
            Ok(Typed::Command(command)) => return Input::Command(command),
            Ok(Typed::Attach(vm)) => {
                self.attach(vm);
                return Input::None;
            }
            Ok(Typed::Help) => help(&mut self.voice),
            Err(problem) => self.voice.say(format_args!("{problem}")),
        }
        self.voice.open();
        Input::None
    }

    fn attach(&mut self, vm: VmId) {
        self.attached = vm;
        self.voice.prompt = Prompt::Closed;
        // In framed form the program at the other end prints this itself.
        if let (false, Some(name)) = (self.line.framed, self.names.get(vm.index())) {
            self.voice.note(format_args!("--- {name} ---"));
        }
    }
}

/// An ASCII key as text.
fn key_text(key: &[u8; 1]) -> &str {
    core::str::from_utf8(key).unwrap_or("")
}

/// Prints the commands only: the PC and docs/console.md explain them.
fn help(voice: &mut Voice<'_>) {
    voice.say(format_args!("{Commands}; words may be cut short"));
}

/// All commands in one line.
struct Commands;

impl fmt::Display for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        WORDS.iter().enumerate().try_for_each(|(at, word)| {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{word}")
        })
    }
}
