//! Calls by the registers of a device, for whoever has its page mapped.

use core::ptr::NonNull;

use crate::error::{Error, Result};
use crate::transport::{Answer, Arguments, Transport};
use hanok_abi::schedule::{DEVICE, register};

/// The registers of the device, by their offsets.
pub trait Registers {
    /// Loads one.
    fn load(&mut self, offset: u64) -> u32;
    /// Stores to one.
    fn store(&mut self, offset: u64, value: u32);
}

/// Calls by the registers of the device.
///
/// The vCPU has one set of registers. If several contexts of a vCPU call, and one can interrupt another, they need a
/// lock around each call.
#[derive(Debug)]
pub struct Page<R>(R);

impl<R: Registers> Page<R> {
    /// The device with these registers; [`Error::Absent`] if they are not of this device.
    pub fn new(mut registers: R) -> Result<Self> {
        if registers.load(register::ID) == register::MAGIC {
            Ok(Self(registers))
        } else {
            Err(Error::Absent)
        }
    }

    fn pair(&mut self, offset: u64) -> u64 {
        let low = self.0.load(offset);
        u64::from(self.0.load(offset + 4)) << 32 | u64::from(low)
    }
}

impl<R: Registers> Transport for Page<R> {
    fn call(&mut self, function: u32, arguments: Arguments<'_>) -> Answer {
        for (offset, argument) in (register::ARGUMENTS..)
            .step_by(8)
            .zip(arguments.iter().take(4))
        {
            self.0.store(offset, *argument as u32);
            self.0.store(offset + 4, (*argument >> 32) as u32);
        }
        self.0.store(register::CALL, function);
        Answer {
            status: self.0.load(register::STATUS) as i32,
            value: self.pair(register::VALUE),
        }
    }
}

/// Registers in memory: the device's, or a file's in its place.
#[derive(Debug)]
pub struct Mapped(NonNull<u8>);

// SAFETY: the page is of the whole address space. That a vCPU's calls do not mix is the matter of `Page`'s user.
unsafe impl Send for Mapped {}

impl Mapped {
    /// The registers from `start` on.
    ///
    /// # Safety
    ///
    /// The page at `start` (`DEVICE.1` bytes, aligned to 4) must be mapped to read and write for as long as this
    /// is used, as a device, and be nobody's memory.
    pub const unsafe fn new(start: NonNull<u8>) -> Self {
        Self(start)
    }

    fn register(&self, offset: u64) -> NonNull<u32> {
        let offset = (offset % DEVICE.1) & !3;
        // SAFETY: the offset is inside the page.
        unsafe { self.0.add(offset as usize) }.cast()
    }
}

/// One instruction each, without writeback: an access of any other form could not be emulated (Arm ARM, ISS of a data
/// abort), and the compiler may choose such a form for a volatile access.
#[cfg(target_arch = "aarch64")]
mod access {
    use core::arch::asm;
    use core::ptr::NonNull;

    /// # Safety
    ///
    /// The register is mapped.
    pub unsafe fn load(register: NonNull<u32>) -> u32 {
        let value;
        // SAFETY: the caller's promise.
        unsafe {
            asm!("ldr {:w}, [{}]", out(reg) value, in(reg) register.as_ptr(), options(nostack))
        };
        value
    }

    /// # Safety
    ///
    /// The register is mapped.
    pub unsafe fn store(register: NonNull<u32>, value: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("str {:w}, [{}]", in(reg) value, in(reg) register.as_ptr(), options(nostack))
        };
    }
}

/// As on AArch64.
#[cfg(target_arch = "arm")]
mod access {
    use core::arch::asm;
    use core::ptr::NonNull;

    /// # Safety
    ///
    /// The register is mapped.
    pub unsafe fn load(register: NonNull<u32>) -> u32 {
        let value;
        // SAFETY: the caller's promise.
        unsafe {
            asm!("ldr {}, [{}]", out(reg) value, in(reg) register.as_ptr(), options(nostack))
        };
        value
    }

    /// # Safety
    ///
    /// The register is mapped.
    pub unsafe fn store(register: NonNull<u32>, value: u32) {
        // SAFETY: the caller's promise.
        unsafe { asm!("str {}, [{}]", in(reg) value, in(reg) register.as_ptr(), options(nostack)) };
    }
}

/// A PC has no such device: here is a file.
#[cfg(not(any(target_arch = "arm", target_arch = "aarch64")))]
mod access {
    use core::ptr::NonNull;

    /// # Safety
    ///
    /// The register is mapped.
    pub unsafe fn load(register: NonNull<u32>) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { register.read_volatile() }
    }

    /// # Safety
    ///
    /// The register is mapped.
    pub unsafe fn store(register: NonNull<u32>, value: u32) {
        // SAFETY: the caller's promise.
        unsafe { register.write_volatile(value) };
    }
}

impl Registers for Mapped {
    fn load(&mut self, offset: u64) -> u32 {
        // SAFETY: mapped, by the promise of `new`.
        unsafe { access::load(self.register(offset)) }
    }

    fn store(&mut self, offset: u64, value: u32) {
        // SAFETY: mapped, by the promise of `new`.
        unsafe { access::store(self.register(offset), value) };
    }
}
