//! The other end of the board's second serial port, which a VM has for itself: what is awaited there, and what
//! is typed.
//!
//! QEMU offers the port as a UNIX socket. A thread of its own speaks there, so that the consoles' steps and the
//! port's go on side by side; in one scenario each may wait for what the other has caused.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use hanok_boot::machine::SerialPlace;
use serde::Deserialize;
use tempfile::TempDir;

/// What the port's other end does: exactly one of these.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum SerialStep {
    /// Waits until this text comes.
    Expect(String),
    /// Types this.
    Send(String),
}

/// How long one look at the line waits for bytes.
const LOOK: Duration = Duration::from_millis(20);

/// The place of the socket, in a folder of its own: a socket's path must be short.
pub struct Line {
    folder: TempDir,
}

impl Line {
    /// A new place.
    pub fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("hanok").tempdir()?;
        Ok(Self { folder })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("serial")
    }

    /// Where QEMU is to make it.
    pub fn place(&self) -> SerialPlace {
        SerialPlace::Socket(self.path())
    }

    /// Begins to do `steps`, as soon as QEMU is there. All that comes is written to `said`.
    pub fn attend(self, steps: Vec<SerialStep>, said: File) -> Attended {
        let over = Arc::new(AtomicBool::new(false));
        let (told, path) = (over.clone(), self.path());
        let thread = thread::spawn(move || attend(&path, &steps, said, &told));
        Attended {
            over,
            thread,
            _line: self,
        }
    }
}

/// A port at whose other end steps are done.
pub struct Attended {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
    _line: Line,
}

impl Attended {
    /// The board has ended. The error is the first step that was not done.
    pub fn ended(self) -> Result<()> {
        self.over.store(true, Ordering::Release);
        let done = self.thread.join();
        done.unwrap_or_else(|_| Err(anyhow!("the thread of the second serial port failed")))
    }
}

fn attend(path: &Path, steps: &[SerialStep], said: File, over: &AtomicBool) -> Result<()> {
    let line = loop {
        match UnixStream::connect(path) {
            Ok(line) => break line,
            Err(_) if over.load(Ordering::Acquire) => bail!("QEMU made no second serial port"),
            Err(_) => thread::sleep(LOOK),
        }
    };
    line.set_read_timeout(Some(LOOK))?;
    let done = talk(line, steps, said, over)?;
    match steps.get(done) {
        None => Ok(()),
        Some(SerialStep::Expect(text)) => bail!("{text:?} never came at the second serial port"),
        Some(SerialStep::Send(text)) => bail!("{text:?} was never typed at the second serial port"),
    }
}

/// Does the steps until the line or the run ends. The answer is how many were done.
fn talk(
    mut line: UnixStream,
    steps: &[SerialStep],
    mut said: impl Write,
    over: &AtomicBool,
) -> Result<usize> {
    let (mut heard, mut bytes) = (Vec::new(), [0; 4096]);
    let mut done = 0;
    loop {
        match steps.get(done) {
            Some(SerialStep::Send(text)) => {
                if line.write_all(text.as_bytes()).is_err() {
                    return Ok(done);
                }
                done += 1;
                continue;
            }
            Some(SerialStep::Expect(text)) => {
                if let Some(end) = end_of(&heard, text.as_bytes()) {
                    // A text counts once.
                    heard.drain(..end);
                    done += 1;
                    continue;
                }
            }
            None => {}
        }
        let was_over = over.load(Ordering::Acquire);
        match line.read(&mut bytes) {
            Ok(0) => return Ok(done),
            Ok(count) => {
                let new = bytes.get(..count).unwrap_or_default();
                said.write_all(new)?;
                heard.extend_from_slice(new);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if was_over {
                    return Ok(done);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Ok(done),
        }
    }
}

/// Where the first `text` ends.
fn end_of(heard: &[u8], text: &[u8]) -> Option<usize> {
    let at = heard.windows(text.len()).position(|part| part == text)?;
    Some(at + text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    fn steps() -> Vec<SerialStep> {
        let text = "all = [{ expect = 'name?' }, { send = \"me\\n\" }, { expect = 'hi me' }]";
        let mut table: toml::Table = toml::from_str(text).unwrap();
        table.remove("all").unwrap().try_into().unwrap()
    }

    /// What comes of [`steps`] at a port that asks, and answers with `answer`.
    fn outcome(answer: &str) -> (Result<()>, String) {
        let line = Line::new().unwrap();
        let listener = UnixListener::bind(line.path()).unwrap();
        let said = line.folder.path().join("said");
        let attended = line.attend(steps(), File::create(&said).unwrap());
        let (mut port, _) = listener.accept().unwrap();
        port.write_all(b"your name? ").unwrap();
        let mut typed = String::new();
        BufReader::new(&port).read_line(&mut typed).unwrap();
        assert_eq!(typed, "me\n");
        port.write_all(answer.as_bytes()).unwrap();
        drop(port);
        let text = || std::fs::read_to_string(&said).unwrap();
        while !text().contains(answer) {
            thread::yield_now();
        }
        let text = text();
        (attended.ended(), text)
    }

    #[test]
    fn what_is_awaited_comes_and_what_is_typed_arrives() {
        let (done, said) = outcome("hi me\n");
        done.unwrap();
        assert_eq!(said, "your name? hi me\n");
    }

    #[test]
    fn what_never_comes_is_told() {
        let (done, _) = outcome("who?\n");
        let error = done.unwrap_err().to_string();
        assert_eq!(error, "\"hi me\" never came at the second serial port");
    }

    #[test]
    fn a_port_that_is_not_there_is_told() {
        let line = Line::new().unwrap();
        let said = File::create(line.folder.path().join("said")).unwrap();
        let error = line.attend(steps(), said).ended().unwrap_err().to_string();
        assert_eq!(error, "QEMU made no second serial port");
    }
}
