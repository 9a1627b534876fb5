//! Files and folders.

use core::ffi::CStr;

use crate::error::{Errno, Result};
use crate::raw;

/// Paths that do not begin with `/` begin in the current folder.
const HERE: usize = -100_isize as usize;
const CREATE: usize = 0o100;
const TRUNCATE: usize = 0o1000;
const CLOSE_ON_EXEC: usize = 0o2_000_000;
const WRITE_ONLY: usize = 1;
const READ_WRITE: usize = 2;
/// O_SYNC: a mapping of devices by it is not cached.
const SYNC: usize = 0o4_010_000;
#[cfg(target_arch = "x86_64")]
const DIRECTORY: usize = 0o200_000;
#[cfg(not(target_arch = "x86_64"))]
const DIRECTORY: usize = 0o40_000;
/// O_DIRECT: past the kernel's cache.
#[cfg(target_arch = "x86_64")]
const DIRECT: usize = 0o40_000;
#[cfg(not(target_arch = "x86_64"))]
const DIRECT: usize = 0o200_000;
/// LOCK_EX and LOCK_UN.
const LOCK: usize = 2;
const UNLOCK: usize = 8;

/// An open file, folder or socket, which closes when it is dropped.
#[derive(Debug)]
pub struct Descriptor(i32);

impl Descriptor {
    pub(crate) const fn new(number: usize) -> Self {
        Self(number as i32)
    }

    /// Its number.
    pub const fn number(&self) -> i32 {
        self.0
    }

    /// Reads up to `into.len()` bytes: how many. None is the end.
    pub fn read(&self, into: &mut [u8]) -> Result<usize> {
        let arguments = [
            self.0 as usize,
            into.as_mut_ptr() as usize,
            into.len(),
            0,
            0,
            0,
        ];
        // SAFETY: it writes no more than the slice.
        unsafe { raw::checked(raw::READ, arguments) }
    }

    /// Fills `into` as far as there is something: how far.
    pub fn read_all(&self, into: &mut [u8]) -> Result<usize> {
        let mut had = 0;
        while had < into.len() {
            match self.read(&mut into[had..]) {
                Ok(0) => break,
                Ok(more) => had += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(had)
    }

    /// Writes up to all of `bytes`: how many.
    pub fn write(&self, bytes: &[u8]) -> Result<usize> {
        let arguments = [
            self.0 as usize,
            bytes.as_ptr() as usize,
            bytes.len(),
            0,
            0,
            0,
        ];
        // SAFETY: it reads the slice.
        unsafe { raw::checked(raw::WRITE, arguments) }
    }

    /// Waits until nobody else has this file's lock, then has it until it is given back or closed.
    pub fn lock(&self) -> Result<()> {
        self.flock(LOCK)
    }

    /// Gives the lock back.
    pub fn unlock(&self) -> Result<()> {
        self.flock(UNLOCK)
    }

    fn flock(&self, operation: usize) -> Result<()> {
        loop {
            // SAFETY: it reads and writes nothing.
            match unsafe { raw::checked(raw::FLOCK, [self.0 as usize, operation, 0, 0, 0, 0]) } {
                Err(Errno::INTR) => {}
                answer => return answer.map(|_| ()),
            }
        }
    }

    /// Calls `each` with the names in this folder, until it answers false.
    pub fn names(&self, mut each: impl FnMut(&CStr) -> bool) -> Result<()> {
        let mut entries = Entries([0; 2048]);
        loop {
            let space = entries.0.as_mut_ptr() as usize;
            let arguments = [self.0 as usize, space, entries.0.len(), 0, 0, 0];
            // SAFETY: it writes no more than the space.
            let had = unsafe { raw::checked(raw::GETDENTS, arguments) }?;
            let mut left = entries.0.get(..had).unwrap_or_default();
            if left.is_empty() {
                return Ok(());
            }
            // struct linux_dirent64: a number, a place, the length of this entry, a type, the name.
            while let Some((head, _)) = left.split_first_chunk::<19>() {
                let length = usize::from(u16::from_ne_bytes([head[16], head[17]]));
                let name = left.get(19..length).unwrap_or_default();
                if let Ok(name) = CStr::from_bytes_until_nul(name)
                    && !each(name)
                {
                    return Ok(());
                }
                left = left.get(length.max(19)..).unwrap_or_default();
            }
        }
    }
}

/// Where entries of a folder go: they have numbers of 64 bits.
#[repr(align(8))]
struct Entries([u8; 2048]);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: nothing uses it any longer.
        unsafe { raw::call(raw::CLOSE, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}

/// The standard output.
pub const fn output() -> Standard {
    Standard(Descriptor(1))
}

/// The standard error.
pub const fn error_output() -> Standard {
    Standard(Descriptor(2))
}

/// A file that was open when the program began, and stays so.
#[derive(Debug)]
pub struct Standard(Descriptor);

impl core::ops::Deref for Standard {
    type Target = Descriptor;

    fn deref(&self) -> &Descriptor {
        &self.0
    }
}

impl Drop for Standard {
    fn drop(&mut self) {
        // The inner one closes its number, which is none.
        self.0.0 = -1;
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To write it anew; it is made if it is not there, for its owner alone.
    Create,
    /// To read and write, without caches between.
    Device,
    /// To read and write past the kernel's cache, in whole blocks.
    Direct,
    /// A folder, to read what is in it.
    Folder,
}

/// Opens a file or folder.
pub fn open(path: &CStr, access: Access) -> Result<Descriptor> {
    let flags = match access {
        Access::Read => 0,
        Access::Write => WRITE_ONLY,
        Access::Create => WRITE_ONLY | CREATE | TRUNCATE,
        Access::Device => READ_WRITE | SYNC,
        Access::Direct => READ_WRITE | DIRECT,
        Access::Folder => DIRECTORY,
    };
    let path = path.as_ptr() as usize;
    // SAFETY: the path ends in a zero.
    let number = unsafe {
        raw::checked(
            raw::OPENAT,
            [HERE, path, flags | CLOSE_ON_EXEC, 0o600, 0, 0],
        )
    };
    number.map(Descriptor::new)
}

/// The file's first bytes, as far as they fit `into`.
pub fn read<'a>(path: &CStr, into: &'a mut [u8]) -> Result<&'a [u8]> {
    let had = open(path, Access::Read)?.read_all(into)?;
    Ok(&into[..had])
}

/// Writes `text` to a file that is there, by one write, as the kernel's own files want it.
pub fn write(path: &CStr, text: &[u8]) -> Result<()> {
    open(path, Access::Write)?.write(text).map(|_| ())
}

/// Makes a folder.
pub fn make_folder(path: &CStr) -> Result<()> {
    let arguments = [HERE, path.as_ptr() as usize, 0o755, 0, 0, 0];
    // SAFETY: the path ends in a zero.
    unsafe { raw::checked(raw::MKDIRAT, arguments) }.map(|_| ())
}

/// Removes a file or socket.
pub fn remove(path: &CStr) -> Result<()> {
    let arguments = [HERE, path.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the path ends in a zero.
    unsafe { raw::checked(raw::UNLINKAT, arguments) }.map(|_| ())
}

/// Sets who may read and write a file.
pub fn allow(path: &CStr, mode: u32) -> Result<()> {
    let arguments = [HERE, path.as_ptr() as usize, mode as usize, 0, 0, 0];
    // SAFETY: the path ends in a zero.
    unsafe { raw::checked(raw::FCHMODAT, arguments) }.map(|_| ())
}
