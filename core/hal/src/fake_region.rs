//! A VM's memory on the fake board.

use crate::{AccessError, End, GuestMemory, VmMemory, memory};
use hanok_types::{Hpa, Ipa, Span};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::vec;

/// A region of a VM's memory without bytes. It checks that no vCPU is in the VM when it is written.
#[derive(Clone, Debug)]
pub struct FakeRegion {
    span: Span<Ipa>,
    inhabitants: Arc<AtomicUsize>,
}

impl FakeRegion {
    /// The region at `span`, of a VM in which `inhabitants` vCPUs are.
    pub fn new(span: Span<Ipa>, inhabitants: Arc<AtomicUsize>) -> Self {
        Self { span, inhabitants }
    }

    fn assert_deserted(&self) {
        let inside = self.inhabitants.load(Ordering::SeqCst);
        assert_eq!(inside, 0, "memory is made while guests run in it");
    }
}

impl GuestMemory for FakeRegion {
    fn read(&self, at: Ipa, into: &mut [u8]) -> Result<(), AccessError> {
        let wanted = Span::new(at, into.len() as u64).filter(|span| self.span.covers(span));
        wanted.ok_or(AccessError::NoMemory(at))?;
        into.fill(0);
        Ok(())
    }

    fn write(&self, at: Ipa, from: &[u8]) -> Result<(), AccessError> {
        let wanted = Span::new(at, from.len() as u64).filter(|span| self.span.covers(span));
        wanted.ok_or(AccessError::NoMemory(at)).map(|_| ())
    }

    fn load_half(&self, at: Ipa) -> Result<u16, AccessError> {
        memory::load_half(self, at)
    }

    fn store_half(&self, at: Ipa, value: u16) -> Result<(), AccessError> {
        memory::store_half(self, at, value)
    }
}

impl VmMemory for FakeRegion {
    const COPIED: u64 = 4096;
    const LINES: u64 = 4096;

    fn ipa(&self) -> Span<Ipa> {
        self.span
    }

    fn host(&self) -> Hpa {
        Hpa::new(self.span.start().get())
    }

    fn fill(&self, _at: Ipa, _len: u64, _value: u8) {
        self.assert_deserted();
    }

    fn zero(&self, _at: Ipa, _len: u64) {
        self.assert_deserted();
    }

    fn clean(&self, _at: Ipa, _len: u64) {}

    fn overwrite<R>(&self, at: Ipa, len: u64, write: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        self.assert_deserted();
        Span::new(at, len).filter(|span| self.span.covers(span))?;
        Some(write(&mut vec![0; len as usize]))
    }

    fn part(&self, ipa: Span<Ipa>, _host: Hpa) -> Self {
        Self::new(ipa, Arc::clone(&self.inhabitants))
    }

    fn pass(
        &self,
        at: Ipa,
        (to, there): (&Self, Ipa),
        bytes: u32,
    ) -> Result<(), (End, AccessError)> {
        let mut between = vec![0; bytes as usize];
        let read = self.read(at, &mut between);
        read.map_err(|error| (End::From, error))?;
        let written = to.write(there, &between);
        written.map_err(|error| (End::To, error))
    }

    fn copy_to(&self, _to: Hpa) {}
}
