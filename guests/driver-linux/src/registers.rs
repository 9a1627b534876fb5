//! A back end's registers (`hanok_abi::back_end::register`), which are mapped by /dev/mem: they are no RAM, and no driver of Linux's has
//! them, so that CONFIG_STRICT_DEVMEM and CONFIG_IO_STRICT_DEVMEM allow it.

use hanok_abi::back_end::register;
use rustix::fs::{Mode, OFlags, open};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::ffi::c_void;
use std::ptr::NonNull;

/// The bytes of a back end's registers.
const SIZE: usize = 0x1000;

/// The registers of a back end. They stay mapped.
#[derive(Debug)]
pub struct Registers(NonNull<c_void>);

// SAFETY: a mapping is that of the whole process, and accesses are of one instruction each.
unsafe impl Send for Registers {}

impl Registers {
    /// The registers at this address of the VM.
    ///
    /// # Errors
    /// /dev/mem does not let them be mapped, or they are no back end's.
    pub fn open(address: u64) -> Result<Self, String> {
        let failed = |error| format!("/dev/mem: {error} (root and CONFIG_DEVMEM are needed)");
        let flags = OFlags::RDWR | OFlags::SYNC | OFlags::CLOEXEC;
        let memory = open("/dev/mem", flags, Mode::empty()).map_err(failed)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: it is a new mapping, at a place that Linux chooses, of registers that nobody else uses.
        let place = unsafe {
            mmap(
                std::ptr::null_mut(),
                SIZE,
                protection,
                MapFlags::SHARED,
                &memory,
                address,
            )
        };
        let place = NonNull::new(place.map_err(failed)?).ok_or("/dev/mem is mapped at zero")?;
        let registers = Self(place);
        if registers.read(register::ID) != register::MAGIC {
            return Err(format!("there is no back end at {address:#x}"));
        }
        Ok(registers)
    }

    fn at(&self, offset: u64) -> *mut u32 {
        debug_assert!(offset < SIZE as u64 && offset.is_multiple_of(4));
        self.0.as_ptr().wrapping_byte_add(offset as usize).cast()
    }

    /// Reads the register at `offset`, one of `hanok_abi::back_end::register`.
    pub fn read(&self, offset: u64) -> u32 {
        // SAFETY: it is in the mapping, and aligned.
        unsafe { self.at(offset).read_volatile() }
    }

    /// Stores to the register at `offset`, one of `hanok_abi::back_end::register`.
    pub fn write(&self, offset: u64, value: u32) {
        // SAFETY: as above. What the hypervisor does of it is what `ring` has set up.
        unsafe { self.at(offset).write_volatile(value) }
    }

    /// Stores to a pair of registers, the low half first.
    pub fn write_pair(&self, offset: u64, value: u64) {
        self.write(offset, value as u32);
        self.write(offset + 4, (value >> 32) as u32);
    }
}
