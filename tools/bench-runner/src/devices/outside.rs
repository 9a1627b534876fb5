//! Who waits outside the board for the frames of its interface, and answers: QEMU's back end connects with a UNIX socket of this process.
//!
//! A frame with the highest number is answered with a short one, any other one of the board's with a window of long ones, which begins with that
//! number. A window is written at once and has room in one buffer of the socket's, so that QEMU gives the board all of it together: the frames that the
//! board finds when it is interrupted do not hang on the PC's load.

use std::io::{ErrorKind, Read, Result, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use hanok_base::scratch::Scratch;

/// As `guests/frame-work` has them: the EtherType, the bytes of a frame with its header, those of a short one, the frames of a window, and the
/// number with which an end looks whether the other one is there.
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
const HEADER: usize = 14;
const LONG: usize = HEADER + 1500;
const SHORT: usize = 60;
const WINDOW: u32 = 32;
const HELLO: u32 = u32::MAX;
/// The address of who answers.
const ADDRESS: [u8; 6] = [2, 0, 0, 0, 0, 0x13];

/// Somebody who waits, until it is dropped.
pub struct Outside {
    path: PathBuf,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _folder: Scratch,
}

impl Outside {
    /// Waits for a board from now on.
    pub fn listen() -> anyhow::Result<Self> {
        let folder = crate::folders::sockets()?;
        let path = folder.path().join("outside");
        let listener = UnixListener::bind(&path)?;
        let ends = Arc::new(AtomicBool::new(false));
        let until = ends.clone();
        // More than one may come, one after the other: a QEMU that is asked for the board's tree connects, too.
        let serve = move || {
            while let Ok((board, _)) = listener.accept()
                && !until.load(Ordering::Relaxed)
            {
                // A board that ends in the middle of a frame is no error of anybody's.
                let _ = serve(board);
            }
        };
        Ok(Self {
            path,
            ends,
            thread: Some(thread::spawn(serve)),
            _folder: folder,
        })
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Who still waits for a board is given one that ends at once.
        drop(UnixStream::connect(&self.path));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers until the board ends.
fn serve(mut board: UnixStream) -> Result<()> {
    loop {
        let mut length = [0; 4];
        if let Err(error) = board.read_exact(&mut length) {
            return match error.kind() {
                ErrorKind::UnexpectedEof => Ok(()),
                _ => Err(error),
            };
        }
        // No frame that QEMU passes on is longer.
        let length = u32::from_be_bytes(length).min(1 << 17);
        let mut frame = vec![0; length as usize];
        board.read_exact(&mut frame)?;
        board.write_all(&answer(&frame))?;
    }
}

/// What QEMU is to read for this frame: each frame with its length before it.
fn answer(frame: &[u8]) -> Vec<u8> {
    let Some((header, rest)) = frame.split_first_chunk::<HEADER>() else {
        return Vec::new();
    };
    let Some(number) = rest.first_chunk().copied().map(u32::from_be_bytes) else {
        return Vec::new();
    };
    if header[12..] != ETHER_TYPE {
        return Vec::new();
    }
    let to = &header[6..12];
    if number == HELLO {
        return framed(to, HELLO, SHORT);
    }
    let window = number..number.saturating_add(WINDOW);
    window.flat_map(|number| framed(to, number, LONG)).collect()
}

fn framed(to: &[u8], number: u32, length: usize) -> Vec<u8> {
    let head = (length as u32).to_be_bytes();
    let number = number.to_be_bytes();
    let mut bytes = [&head[..], to, &ADDRESS, &ETHER_TYPE, &number].concat();
    bytes.resize(head.len() + length, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(number: u32) -> Vec<u8> {
        framed(&[2, 0, 0, 0, 0, 0x10], number, SHORT)
    }

    #[test]
    fn a_window_begins_with_the_number_that_was_asked_for() {
        // From whom the question comes, there the answer goes.
        let mut frame = asked(64)[4..].to_vec();
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 0x10]);
        let all = answer(&frame);
        let frames: Vec<_> = all.chunks_exact(4 + LONG).collect();
        assert_eq!(frames.len(), WINDOW as usize);
        assert_eq!(all.len(), frames.len() * (4 + LONG));
        for (frame, number) in frames.iter().zip(64_u32..) {
            assert_eq!(frame[..4], (LONG as u32).to_be_bytes());
            assert_eq!(frame[4..10], [2, 0, 0, 0, 0, 0x10]);
            assert_eq!(frame[18..22], number.to_be_bytes());
        }
        assert_eq!(answer(&asked(HELLO)[4..]).len(), 4 + SHORT);
    }

    #[test]
    fn what_is_no_question_has_no_answer() {
        let mut other = asked(0)[4..].to_vec();
        other[12] = 0x08;
        assert!(answer(&other).is_empty());
        assert!(answer(&other[..9]).is_empty());
        assert!(answer(&asked(0)[4..20]).is_empty());
    }

    #[test]
    fn a_board_is_answered_and_may_never_come() {
        let outside = Outside::listen().unwrap();
        // Who was only asked for a tree comes before the board.
        for _ in 0..2 {
            let mut board = UnixStream::connect(outside.path()).unwrap();
            board.write_all(&asked(HELLO)).unwrap();
            let mut had = [0; 4 + SHORT];
            board.read_exact(&mut had).unwrap();
            assert_eq!(had[18..22], HELLO.to_be_bytes());
        }
        drop(outside);
        drop(Outside::listen().unwrap());
    }
}
