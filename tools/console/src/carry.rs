//! The board's process, and the threads that carry bytes between it and a run's [`Inbox`].
//!
//! QEMU is set to die with this process (by setpriv, where it exists), and is killed on every way
//! out, with all processes that it started.

use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};

use super::inbox::{Gone, Inbox};

/// How long QEMU may take to end after its line is closed, and how long its last output may take: only a
/// QEMU that hangs takes so long, also on a PC that does many other things.
const PATIENCE: Duration = Duration::from_secs(120);
/// The number of bytes that are kept of QEMU's stderr: its end, which says why QEMU ended.
const SAID: usize = 16 << 10;

/// A running board.
pub struct Board {
    child: Child,
    said: Receiver<String>,
}

impl Board {
    /// Starts the board; its output goes to `inbox`.
    pub fn start(command: &Command, inbox: &Arc<Inbox>) -> anyhow::Result<Self> {
        let mut outer = ending_with_this_process(command);
        // It gets a process group of its own: Ctrl-C at the terminal is for the guest, or for this
        // process.
        outer
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = outer
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let inbox = Arc::clone(inbox);
        thread::spawn(move || {
            if let Some(stdout) = stdout {
                pump(stdout, |bytes| inbox.board(bytes));
            }
            inbox.board_ended();
        });
        let (tell, said) = channel();
        thread::spawn(move || {
            let text = stderr.map(end_of).unwrap_or_default();
            let _ = tell.send(String::from_utf8_lossy(&text).trim_end().to_owned());
        });
        Ok(Self { child, said })
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// The board's end of the line, for what is typed. It is given out once.
    pub fn line(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Waits for a board whose line is `closed`; kills any other board, and one that takes too
    /// long. Returns how it ended, and what it wrote about that.
    pub fn end(mut self, closed: bool) -> (Option<ExitStatus>, String) {
        let deadline = Instant::now() + PATIENCE;
        while closed && Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Ok(Some(_)) | Err(_) => break,
            }
        }
        if let Ok(None) = self.child.try_wait() {
            self.kill();
        }
        let status = self.child.wait().ok();
        let said = self.said.recv_timeout(PATIENCE).unwrap_or_default();
        (status, said)
    }

    fn kill(&mut self) {
        // The process was not waited for yet, so that its number still belongs to it.
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
    }
}

/// `command`, changed so that its process ends when this one does, even when this one is killed.
fn ending_with_this_process(command: &Command) -> Command {
    let setpriv = PathBuf::from("/usr/bin/setpriv");
    let mut outer = if setpriv.exists() {
        let mut outer = Command::new(setpriv);
        outer
            .args(["--pdeathsig", "KILL", "--"])
            .arg(command.get_program());
        outer
    } else {
        Command::new(command.get_program())
    };
    outer.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

/// Carries the keys from stdin.
pub fn keys(inbox: &Arc<Inbox>) {
    let inbox = Arc::clone(inbox);
    thread::spawn(move || pump(std::io::stdin(), |bytes| inbox.keys(bytes)));
}

/// Carries what another `hanok run` sends, as if it were a board.
pub fn run(from: impl Read + Send + 'static, inbox: &Arc<Inbox>) {
    let inbox = Arc::clone(inbox);
    thread::spawn(move || {
        pump(from, |bytes| inbox.board(bytes));
        inbox.board_ended();
    });
}

fn pump(mut from: impl Read, bring: impl Fn(&[u8]) -> Result<(), Gone>) {
    let mut buffer = [0; 4096];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                let bytes = buffer.get(..count).unwrap_or_default();
                if bring(bytes).is_err() {
                    break;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
}

/// The last bytes of a stream of any length.
fn end_of(mut from: impl Read) -> Vec<u8> {
    let mut kept = VecDeque::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        kept.extend(buffer.get(..count).unwrap_or_default());
        let surplus = kept.len().saturating_sub(SAID);
        kept.drain(..surplus);
    }
    kept.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_stream_the_end_is_kept() {
        let stream = [vec![b'a'; 100_000], b"why".to_vec()].concat();
        let end = end_of(&stream[..]);
        assert_eq!(end.len(), SAID);
        assert!(end.ends_with(b"aawhy"));
    }
}
