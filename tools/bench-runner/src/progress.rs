//! Reports what a board does while it is measured, which may take minutes on a busy PC, by the last
//! line of its console.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::job;
use super::plan::Job;

/// The time between two reports.
const EVERY: Duration = Duration::from_secs(20);
/// The number of bytes at a console's end in which its last line is looked for.
const TAIL: u64 = 4096;
/// The largest number of characters of a line that are shown.
const SHOWN: usize = 60;

/// Reports until it is dropped.
pub struct Progress {
    end: Option<Sender<()>>,
    teller: Option<JoinHandle<()>>,
}

impl Progress {
    /// Of a job whose console is in `consoles`.
    pub fn of(job: &Job, consoles: &Path) -> Self {
        let (name, console) = (job.name(), job::console_path(job, consoles));
        let (end, ended) = channel();
        let teller = thread::spawn(move || {
            let start = Instant::now();
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{}", line(&name, start.elapsed(), &console));
            }
        });
        Self {
            end: Some(end),
            teller: Some(teller),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(teller) = self.teller.take() {
            let _ = teller.join();
        }
    }
}

fn line(name: &str, time: Duration, console: &Path) -> String {
    let said = last_line(console).unwrap_or_else(|| "silent so far".to_owned());
    format!("{name}: {} s, {said}", time.as_secs())
}

/// The last line of a file that holds something to be seen.
fn last_line(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let len = file.seek(SeekFrom::End(0)).ok()?;
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines().rev().map(hanok_base::ui::plain);
    let line = lines.find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(SHOWN).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("console");
        let told = || line("hanok-gicv3-linux-1", Duration::from_secs(40), &path);
        assert_eq!(told(), "hanok-gicv3-linux-1: 40 s, silent so far");
        let text = [&[b'x'; 9000][..], b"\nbench: pipe\xff\x1b[31m 12\r\n\r\n"].concat();
        std::fs::write(&path, text).unwrap();
        assert_eq!(told(), "hanok-gicv3-linux-1: 40 s, bench: pipe[31m 12");
    }
}
