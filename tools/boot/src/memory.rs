//! The memory of a board on the emulator as a file of this process: what is in it can be read from outside while the board runs, and
//! after its end.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use hanok_console::attach_socket::BoardMemory;
use hanok_system::Description;
use rustix::fs::{MemfdFlags, memfd_create};

/// The RAM of a board.
#[derive(Debug)]
pub struct Memory {
    file: File,
    start: u64,
    size: u64,
}

impl Memory {
    /// Of a board that `command` starts; `None` if nobody reads it: no VM's variables are kept, and nothing is traced.
    pub fn of(system: &Description, command: &mut Command) -> Result<Option<Self>> {
        let kept = system.vms.iter().any(|vm| vm.variables.is_some());
        if !kept && system.trace.records == 0 {
            return Ok(None);
        }
        let memory = Self::new(system.board.ram, system.memory)?;
        let (path, size) = (memory.path(), system.memory >> 10);
        let path = path.display();
        let backend = format!("memory-backend-file,id=ram,share=on,mem-path={path},size={size}K");
        command.args(["-object", &backend, "-machine", "memory-backend=ram"]);
        Ok(Some(memory))
    }

    /// A file in memory that nobody else can open by its name.
    pub(crate) fn new(start: u64, size: u64) -> Result<Self> {
        // No folder, whose room would be less than that of the PC's memory.
        let file = memfd_create("hanok-board", MemfdFlags::CLOEXEC);
        let file = File::from(file.context("no file for the board's memory")?);
        file.set_len(size)
            .context("no room for the board's memory")?;
        Ok(Self { file, start, size })
    }

    /// Where other processes of the same person find it.
    pub fn place(&self) -> BoardMemory {
        BoardMemory {
            path: self.path(),
            start: self.start,
            size: self.size,
        }
    }

    fn path(&self) -> PathBuf {
        let (process, file) = (std::process::id(), self.file.as_raw_fd());
        format!("/proc/{process}/fd/{file}").into()
    }

    /// Reads what is at `address`.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        let offset = address.checked_sub(self.start);
        let offset = offset.context("it is in no RAM")?;
        let read = self.file.read_exact_at(bytes, offset);
        read.context("the board's memory cannot be read")
    }

    #[cfg(test)]
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) {
        let offset = address - self.start;
        self.file.write_all_at(bytes, offset).unwrap();
    }
}
