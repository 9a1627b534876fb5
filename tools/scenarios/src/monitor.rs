//! QEMU's monitor, which a step gives a command: at a UNIX socket, in the form for people, whose answers end with its prompt
//! (QEMU, docs/system/monitor.rst).

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hanok_console::script::Attempt;
use tempfile::TempDir;

/// The end of each answer.
const PROMPT: &[u8] = b"(qemu) ";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The place of the socket, in a folder of its own: a socket's path must be short.
#[derive(Clone)]
pub struct Monitor {
    folder: Arc<TempDir>,
}

impl Monitor {
    /// A new place.
    pub fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("hanok").tempdir()?;
        Ok(Self {
            folder: Arc::new(folder),
        })
    }

    fn socket(&self) -> PathBuf {
        self.file("monitor")
    }

    /// A file beside the socket.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds the monitor to QEMU.
    pub fn add_to(&self, command: &mut Command) {
        let socket = self.socket();
        let place = format!("unix:{},server=on,wait=off", socket.display());
        command.args(["-monitor", &place]);
    }

    /// Gives it a command. The answer is what it says.
    pub fn tell(&self, command: &str) -> Result<String> {
        tell(&self.socket(), command)
    }
}

fn tell(socket: &Path, command: &str) -> Result<String> {
    let mut line = UnixStream::connect(socket).context("QEMU has no monitor")?;
    line.set_read_timeout(Some(PATIENCE))?;
    answer(&mut line)?;
    line.write_all(format!("{command}\n").as_bytes())?;
    let said = answer(&mut line)?;
    // The first line is the echo of what was typed.
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok(said
        .split_once('\n')
        .map_or("", |(_, said)| said)
        .trim()
        .to_owned())
}

/// What comes until the prompt.
fn answer(line: &mut impl Read) -> Result<Vec<u8>> {
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !said.ends_with(PROMPT) {
        if line.read(&mut byte).context("QEMU's monitor is silent")? == 0 {
            bail!("QEMU's monitor has hung up");
        }
        said.extend(byte);
    }
    said.truncate(said.len() - PROMPT.len());
    Ok(said)
}

/// The step that gives the monitor this command, which answers nothing if all is well.
pub fn command(monitor: Option<&Monitor>, command: &str) -> Attempt {
    let (monitor, command) = (monitor.cloned(), command.to_owned());
    Attempt::new(format!("QEMU's monitor takes {command:?}"), move || {
        let monitor = monitor.as_ref().context("there is no monitor")?;
        match monitor.tell(&command)?.as_str() {
            "" => Ok(()),
            said => bail!("it says: {said}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    #[test]
    fn a_command_is_given_and_its_answer_is_told() {
        let monitor = Monitor::new().unwrap();
        let listener = UnixListener::bind(monitor.socket()).unwrap();
        let qemu = thread::spawn(move || {
            for said in ["", "unknown command\r\n"] {
                let (mut line, _) = listener.accept().unwrap();
                line.write_all(b"QEMU 7\r\n(qemu) ").unwrap();
                let mut typed = [0; 5];
                line.read_exact(&mut typed).unwrap();
                assert_eq!(&typed, b"jump\n");
                line.write_all(format!("jump\r\n{said}(qemu) ").as_bytes())
                    .unwrap();
            }
        });
        let attempt = || (command(Some(&monitor), "jump"), ());
        assert_eq!(monitor.tell("jump").unwrap(), "");
        assert_eq!(monitor.tell("jump").unwrap(), "unknown command");
        qemu.join().unwrap();
        assert!(monitor.tell("jump").is_err());
        assert!(format!("{:?}", attempt().0).contains("takes \"jump\""));
    }
}
