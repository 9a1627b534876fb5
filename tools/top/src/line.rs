//! A serial line: a terminal device, set to pass every byte, or a UNIX socket.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::OFlags;
use rustix::termios::{ControlModes, OptionalActions, isatty, tcgetattr, tcsetattr};

/// The two directions of a line.
pub struct Ways {
    /// From the board.
    pub from: Box<dyn Read + Send>,
    /// To the board.
    pub to: Box<dyn Write + Send>,
}

impl Ways {
    /// The two directions of a socket.
    pub fn of(stream: UnixStream) -> Result<Self> {
        let from = Box::new(stream.try_clone().context("cannot share the socket")?);
        let to = Box::new(stream);
        Ok(Self { from, to })
    }
}

/// Opens the line at `path`; a terminal device gets this speed.
pub fn open(path: &Path, baud: u32) -> Result<Ways> {
    let name = path.display();
    let kind = std::fs::metadata(path).with_context(|| format!("cannot open {name}"))?;
    if kind.file_type().is_socket() {
        let stream = UnixStream::connect(path);
        return Ways::of(stream.with_context(|| format!("cannot connect to {name}"))?);
    }
    ensure!(
        kind.file_type().is_char_device(),
        "{name} is no serial line\n  fix: name a terminal device such as /dev/ttyUSB0, or a UNIX socket"
    );
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags((OFlags::NOCTTY | OFlags::NONBLOCK).bits() as i32)
        .open(path);
    let device = device.with_context(|| format!("cannot open {name}"))?;
    ensure!(isatty(&device), "{name} is no terminal device");
    // It was opened without waiting for a carrier; from here on reads wait.
    let flags = rustix::fs::fcntl_getfl(&device)?;
    rustix::fs::fcntl_setfl(&device, flags - OFlags::NONBLOCK)?;
    pass_all(&device, baud).with_context(|| format!("cannot set {name} to {baud} baud"))?;
    let to = device
        .try_clone()
        .with_context(|| format!("cannot open {name}"))?;
    Ok(Ways {
        from: Box::new(device),
        to: Box::new(to),
    })
}

/// Eight bits, no parity, no flow control, no line discipline: every byte passes as it is.
fn pass_all(device: &File, baud: u32) -> Result<()> {
    let mut state = tcgetattr(device)?;
    state.make_raw();
    state.control_modes |= ControlModes::CLOCAL | ControlModes::CREAD;
    if let Err(error) = state.set_speed(baud) {
        bail!("this speed is not known: {error}");
    }
    tcsetattr(device, OptionalActions::Now, &state)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let why = open(file.path(), 115_200).err().unwrap().to_string();
        assert!(why.contains("no serial line"), "{why}");
        assert!(open(Path::new("/nowhere/line"), 115_200).is_err());
        let why = open(Path::new("/dev/null"), 115_200)
            .err()
            .unwrap()
            .to_string();
        assert!(why.contains("no terminal device"), "{why}");
    }

    #[test]
    fn a_socket_is_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("line");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mut ways = open(&path, 9600).unwrap();
        let (mut board, _) = listener.accept().unwrap();
        board.write_all(b"x").unwrap();
        let mut byte = [0];
        ways.from.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }

    /// A pseudo terminal: the board's end, and the path of the other one.
    fn terminal() -> (File, std::path::PathBuf) {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let board = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&board).unwrap();
        unlockpt(&board).unwrap();
        let path = ptsname(&board, Vec::new()).unwrap();
        (File::from(board), path.to_str().unwrap().into())
    }

    /// Every byte passes both ways as it is: no echo, no signals, no conversion of line ends, no lines.
    #[test]
    fn a_terminal_passes_every_byte() {
        let (mut board, path) = terminal();
        let mut ways = open(&path, 115_200).unwrap();
        let all: Vec<u8> = (0..=u8::MAX).collect();
        ways.to.write_all(&all).unwrap();
        let mut arrived = vec![0; all.len()];
        board.read_exact(&mut arrived).unwrap();
        assert_eq!(arrived, all);
        board.write_all(&all).unwrap();
        arrived.fill(0);
        ways.from.read_exact(&mut arrived).unwrap();
        assert_eq!(arrived, all);
    }

    /// What comes in parts is read in parts, as soon as it is there; the end of the line is an end, or an error.
    #[test]
    fn a_line_that_goes_away_ends() {
        let (mut board, path) = terminal();
        let mut ways = open(&path, 9600).unwrap();
        let mut bytes = [0; 64];
        for part in [&b"\x10"[..], b"\x3den", b"d 1\n"] {
            board.write_all(part).unwrap();
            let mut seen = Vec::new();
            while seen.len() < part.len() {
                let count = ways.from.read(&mut bytes).unwrap();
                assert!(count > 0);
                seen.extend_from_slice(&bytes[..count]);
            }
            assert_eq!(seen, part);
        }
        drop(board);
        assert!(matches!(ways.from.read(&mut bytes), Ok(0) | Err(_)));
        let sent = ways
            .to
            .write_all(b"report 1\n")
            .and_then(|()| ways.to.flush());
        assert!(sent.is_err());
    }
}
