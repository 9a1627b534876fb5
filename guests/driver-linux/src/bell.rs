//! The interrupt of a back end. No module of Debian's brings an interrupt to a program but by an input device: the tree has a `gpio-keys`
//! node for each image, of which each rising edge of the line is an event.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// Where Linux lists input devices.
pub const DEVICES: &str = "/sys/class/input";

/// The interrupt of one back end.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// That of the back end whose registers are at this address.
    ///
    /// # Errors
    /// There is no input device for it.
    pub fn open(registers: u64) -> Result<Self, String> {
        let name = format!("hanok,back-end {registers:x}");
        let event = find(Path::new(DEVICES), &name).ok_or_else(|| {
            format!("there is no input device \"{name}\": modprobe gpio_keys and evdev")
        })?;
        let path = Path::new("/dev/input").join(event);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let device = open(&path, flags, Mode::empty());
        let device = device.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(device))
    }

    /// Waits for the next event, or until there is something to read from `other`; a second at most.
    pub fn wait(&self, other: Option<BorrowedFd<'_>>) {
        let second = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        // Whatever comes of it, the ring is looked at.
        let own = PollFd::new(&self.0, PollFlags::IN);
        let _ = match &other {
            Some(other) => {
                let other = PollFd::new(other, PollFlags::IN);
                poll(&mut [own, other], Some(&second))
            }
            None => poll(&mut [own], Some(&second)),
        };
        self.drain();
    }

    /// Forgets all events so far.
    fn drain(&self) {
        let mut events = [0; 1024];
        loop {
            match rustix::io::read(&self.0, &mut events) {
                Ok(read) if read == events.len() => {}
                Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }
}

/// The name of the input device that is called `name`.
fn find(devices: &Path, name: &str) -> Option<String> {
    let entries = fs::read_dir(devices).ok()?;
    let mut names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    names.find(|event| {
        let path = devices.join(event).join("device/name");
        event.starts_with("event")
            && fs::read_to_string(path).is_ok_and(|found| found.trim_end() == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_of_this_name_is_found() {
        let devices = tempfile::tempdir().unwrap();
        for (event, name) in [
            ("event0", "hanok,back-end b100000\n"),
            ("event1", "hanok,back-end b101000\n"),
            ("input1", "hanok,back-end b102000\n"),
        ] {
            let folder = devices.path().join(event).join("device");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("name"), name).unwrap();
        }
        let found = |name| find(devices.path(), name);
        assert_eq!(found("hanok,back-end b101000").as_deref(), Some("event1"));
        assert_eq!(found("hanok,back-end b10"), None);
        assert_eq!(found("hanok,back-end b102000"), None);
    }
}
