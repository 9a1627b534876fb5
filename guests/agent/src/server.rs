//! The connections: lines in, lines out, and nothing that a client does keeps the agent from the others.
//!
//! A client that sends no line's end in [`LONGEST`] bytes is closed, and so is one that does not read its answers.
//! While a client waits for an answer, no more is read from it: its answers come in the order of its questions.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::agent::{Agent, Peer, Reply};
use crate::machine::Machine;
use crate::request::LONGEST;
use crate::task::Client;
use hanok_syscalls::wait::{Awaited, wait};
use hanok_syscalls::{Descriptor, Errno, file, socket};

/// The largest number of connections.
pub const CLIENTS: usize = 64;
/// The most bytes of answers that a client leaves unread.
const UNREAD: usize = 1 << 16;
/// The lines of a client that are answered before the next client's turn.
const TURN: usize = 16;

/// A connection.
#[derive(Debug)]
struct Connection {
    socket: Descriptor,
    peer: Peer,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Whether it waits for an answer.
    waits: bool,
    is_closed: bool,
}

/// The agent's socket, with all connections.
#[derive(Debug)]
pub struct Server {
    listener: Descriptor,
    connections: BTreeMap<Client, Connection>,
    next: u32,
}

impl Server {
    /// Listens at `path`, for root alone, or for everybody: who may declare what is the agent's question. A socket that
    /// an agent has left there is removed; one at which an agent listens is not.
    pub fn listen(path: &CStr, for_all: bool) -> Result<Self, String> {
        let name = path.to_string_lossy();
        if socket::connect(path).is_ok() {
            return Err(format!("another agent listens at {name}"));
        }
        match file::remove(path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(format!("{name} could not be removed: {error}")),
        }
        let listener = socket::listen(path).map_err(|error| format!("{name}: {error}"))?;
        let mode = if for_all { 0o666 } else { 0o600 };
        file::allow(path, mode).map_err(|error| format!("{name}: {error}"))?;
        Ok(Self {
            listener,
            connections: BTreeMap::new(),
            next: 0,
        })
    }

    /// Waits until something is to be done, and does it.
    pub fn step<M: Machine>(&mut self, agent: &mut Agent<M>) -> Result<(), Errno> {
        let (answers, until) = agent.work();
        for (client, answer) in answers {
            self.answered(client, &answer);
        }
        let busy = self.connections.values().any(Connection::has_line);
        let patience = if busy {
            0
        } else {
            until.saturating_sub(agent.machine().now())
        };
        self.wait(patience)?;
        let all: Vec<_> = self.connections.keys().copied().collect();
        all.into_iter().for_each(|client| self.serve(client, agent));
        self.sweep(agent);
        Ok(())
    }

    /// Waits for input, output and new connections; takes them.
    fn wait(&mut self, patience: u64) -> Result<(), Errno> {
        let mut files = Vec::from([Awaited::new(self.listener.number(), false)]);
        for connection in self.connections.values() {
            let wants = !connection.output.is_empty();
            let number = connection.socket.number();
            // Of one that waits for an answer, only whether it is gone is of interest.
            files.push(if connection.waits && !wants {
                Awaited::end(number)
            } else {
                Awaited::new(number, wants)
            });
        }
        wait(&mut files, patience)?;
        let mut came = files.into_iter();
        let new = came.next().is_some_and(|listener| listener.is_readable());
        for (connection, came) in self.connections.values_mut().zip(came) {
            if came.is_writable() {
                connection.send();
            }
            if came.is_readable() {
                connection.receive();
            }
        }
        if new {
            self.accept();
        }
        Ok(())
    }

    fn accept(&mut self) {
        while let Ok(socket) = socket::accept(&self.listener) {
            let Ok(peer) = socket::peer(&socket) else {
                continue;
            };
            if self.connections.len() >= CLIENTS {
                let _ = socket::send(&socket, b"no limit: too many programs are connected\n");
                continue;
            }
            let connection = Connection {
                socket,
                peer: Peer {
                    process: peer.process,
                    user: peer.user,
                },
                input: Vec::new(),
                output: Vec::new(),
                waits: false,
                is_closed: false,
            };
            self.connections.insert(Client(self.next), connection);
            self.next = self.next.wrapping_add(1) % (u32::MAX - 1);
        }
    }

    fn serve<M: Machine>(&mut self, client: Client, agent: &mut Agent<M>) {
        let Some(connection) = self.connections.get_mut(&client) else {
            return;
        };
        for _ in 0..TURN {
            let Some(line) = connection.line() else {
                break;
            };
            match agent.line(client, connection.peer, &line) {
                Reply::Now(text) => connection.answer(&text),
                Reply::Later => connection.waits = true,
            }
        }
        connection.send();
    }

    fn answered(&mut self, client: Client, answer: &str) {
        if let Some(connection) = self.connections.get_mut(&client) {
            connection.waits = false;
            connection.answer(answer);
            connection.send();
        }
    }

    /// Forgets connections that are closed, and what they declared.
    fn sweep<M: Machine>(&mut self, agent: &mut Agent<M>) {
        let over = |connection: &Connection| connection.is_closed && !connection.has_line();
        let closed = self
            .connections
            .iter()
            .filter(|(_, connection)| over(connection));
        let closed: Vec<_> = closed.map(|(client, _)| *client).collect();
        for client in closed {
            self.connections.remove(&client);
            agent.closed(client);
        }
    }
}

impl Connection {
    /// Whether there is a line that may be answered now.
    fn has_line(&self) -> bool {
        !self.waits && self.input.contains(&b'\n')
    }

    /// The next line, without its end.
    fn line(&mut self) -> Option<Vec<u8>> {
        if !self.has_line() {
            return None;
        }
        let end = self.input.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<_> = self.input.drain(..=end).collect();
        line.pop();
        Some(line)
    }

    fn receive(&mut self) {
        let mut space = [0; 4096];
        match self.socket.read(&mut space) {
            Ok(0) => self.end(),
            Ok(had) => {
                self.input.extend_from_slice(&space[..had]);
                self.check();
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.close(),
        }
    }

    /// A line that is too long is none.
    fn check(&mut self) {
        let last = self
            .input
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        if self.input.len() - last >= LONGEST {
            self.answer("no invalid: the line is too long\n");
            self.send();
            self.close();
        }
    }

    fn answer(&mut self, text: &str) {
        if self.output.len() + text.len() > UNREAD {
            self.close();
        } else {
            self.output.extend_from_slice(text.as_bytes());
        }
    }

    fn send(&mut self) {
        while !self.output.is_empty() {
            match socket::send(&self.socket, &self.output) {
                Ok(sent) => drop(self.output.drain(..sent)),
                Err(Errno::AGAIN) => return,
                Err(_) => return self.close(),
            }
        }
    }

    /// It sends no more. What it has asked is answered, but for what it would have to wait for.
    fn end(&mut self) {
        if self.waits {
            self.close();
        } else {
            self.is_closed = true;
        }
    }

    /// What it sent before counts no more: its tasks are gone with it.
    fn close(&mut self) {
        self.is_closed = true;
        self.waits = false;
        self.input.clear();
    }
}
