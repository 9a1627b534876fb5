//! VMs' variables, which are kept in files from one run to the next.
//!
//! The board is an emulator, whose memory is a file of this process. The hypervisor says where in it the variables are, and at
//! the end of the run, however it ends, they are read from there. So nothing on the board has to send them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use hanok_base::repo;
use hanok_console::request::Hears;
use hanok_system::{Description, VARIABLES_MEMORY, with_variables};

use crate::memory::Memory;
use crate::system::read_variables;

/// The files of VMs' variables.
pub struct Kept {
    /// The file of each VM that has one.
    files: Vec<(String, PathBuf)>,
    /// Where each VM's variables are on the board.
    places: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Kept {
    /// Of a board; `None` if no VM's variables are kept.
    pub fn of(system: &Description) -> Option<Self> {
        let file = |vm: &hanok_system::Vm| Some((vm.name().to_owned(), vm.variables.clone()?));
        let files: Vec<_> = system.vms.iter().filter_map(file).collect();
        let places = Arc::default();
        (!files.is_empty()).then_some(Self { files, places })
    }

    /// What hears where the variables are.
    pub fn hears(&self) -> Hears {
        let places = Arc::clone(&self.places);
        Box::new(move |line| {
            if let Some((vm, at)) = place(line) {
                let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
                places.insert(vm.to_owned(), at);
            }
        })
    }

    /// Writes the files of those variables in the board's memory that have changed. The board has ended.
    pub fn write(&self, memory: &Memory) -> Result<()> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        for (vm, path) in &self.files {
            // Without a place the hypervisor did not come to start the VM.
            if let Some(at) = places.get(vm) {
                write_one(path, memory, *at)
                    .with_context(|| format!("the variables of VM {vm} are lost"))?;
            }
        }
        Ok(())
    }
}

fn write_one(path: &Path, memory: &Memory, at: u64) -> Result<()> {
    let mut bytes = vec![0; VARIABLES_MEMORY];
    memory.read(at, &mut bytes)?;
    match with_variables(read_variables(path)?, &bytes) {
        Some(changed) => repo::write_whole(path, &changed),
        None => Ok(()),
    }
}

/// The VM and the address in a line that says where a VM's variables are.
fn place(line: &str) -> Option<(&str, u64)> {
    let (vm, at) = line.strip_prefix("vm ")?.split_once(": variables at 0x")?;
    Some((vm, u64::from_str_radix(at.trim_end(), 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_in_the_hypervisor_s_line() {
        let line = "vm efi: variables at 0x40010000";
        assert_eq!(place(line), Some(("efi", 0x4001_0000)));
        assert_eq!(place("vm efi: started"), None);
        assert_eq!(place("efi: variables at 0x40010000"), None);
    }

    #[test]
    fn what_the_board_s_memory_has_is_written_once_the_place_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vars.fd");
        let memory = Memory::new(0x4000_0000, 4 << 20).unwrap();
        memory.write(0x4010_0000, &[7; 1024]);
        let kept = Kept {
            files: vec![("efi".to_owned(), path.clone())],
            places: Arc::default(),
        };
        kept.write(&memory).unwrap();
        assert!(!path.exists());
        kept.hears()("vm efi: variables at 0x40100000");
        kept.write(&memory).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((bytes.len(), bytes[0], bytes[1024]), (1 << 20, 7, 0));
        kept.hears()("vm efi: variables at 0x3ff00000");
        assert!(kept.write(&memory).is_err());
    }
}
