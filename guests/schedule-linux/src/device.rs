//! The device of the calls, in a program.

use core::ffi::CStr;
use core::fmt;

use crate::tree::{self, Found};
use hanok_schedule::{Answer, Arguments, DEVICE, Mapped, Page, Transport, Vcpu};
use hanok_syscalls::file::{self, Access};
use hanok_syscalls::memory::Mapping;
use hanok_syscalls::{Descriptor, Errno};

/// Where the device is looked for. Tests have other places.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The root of the tree.
    pub tree: &'a CStr,
    /// The machine's memory, as a file.
    pub memory: &'a CStr,
}

impl Default for Places<'_> {
    fn default() -> Self {
        Self {
            tree: c"/proc/device-tree",
            memory: c"/dev/mem",
        }
    }
}

/// Why the device is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Linux knows no device tree: it was started by ACPI, or /proc is not mounted.
    NoTree,
    /// The tree has no such node: this is no VM of Hanok, or one of an older Hanok.
    NoNode,
    /// There is no /dev/mem: /dev is not mounted, or the kernel was built without CONFIG_DEVMEM.
    NoMemory,
    /// Only root may open /dev/mem.
    NotRoot,
    /// Root was not allowed to: the process lacks CAP_SYS_RAWIO (as in a container), or the kernel is locked down.
    Forbidden,
    /// The kernel does not let programs map the device: a driver has it (CONFIG_IO_STRICT_DEVMEM).
    Claimed,
    /// What is there is another device.
    AnotherDevice,
    /// Something else went wrong.
    Other(Errno),
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NoTree => "/proc/device-tree is missing: mount /proc; a kernel that was started by ACPI has none",
            Self::NoNode => "no node is compatible with \"hanok,schedule\": this is no VM of Hanok, or of an older one",
            Self::NoMemory => "/dev/mem is missing: mount devtmpfs at /dev; the kernel needs CONFIG_DEVMEM",
            Self::NotRoot => "/dev/mem may be opened by root alone: run this as root, or use hanok-agent",
            Self::Forbidden => {
                "/dev/mem is forbidden even to this root: it lacks CAP_SYS_RAWIO, or the kernel is locked down \
                 (/sys/kernel/security/lockdown)"
            }
            Self::Claimed => "a driver of the kernel has the device, so that programs may not map it",
            Self::AnotherDevice => "the device at that address is another one",
            Self::Other(errno) => return write!(out, "/dev/mem could not be used: {errno}"),
        })
    }
}

impl core::error::Error for Missing {}

/// The device, mapped. Its calls concern the vCPU that the calling thread is on: bind the thread first
/// ([`crate::bind`]).
///
/// The registers are a vCPU's, and not a program's. So each call holds a lock of the file /dev/mem, by which the
/// programs that use this library keep out of each other's way. That does not hold for the threads that share one
/// `Device`, which is why a call needs it mutable.
#[derive(Debug)]
pub struct Device {
    page: Page<Mapped>,
    file: Descriptor,
    _mapping: Mapping,
}

/// The calls of the vCPU that the calling thread is on.
pub fn open() -> Result<Vcpu<Device>, Missing> {
    open_at(&Places::default())
}

/// [`open`], with other places than Linux's own.
pub fn open_at(places: &Places<'_>) -> Result<Vcpu<Device>, Missing> {
    let address = match tree::find(places.tree) {
        Found::At(address) => address,
        Found::Nothing => return Err(Missing::NoNode),
        Found::NoTree => return Err(Missing::NoTree),
    };
    let file = file::open(places.memory, Access::Device).map_err(|errno| match errno {
        Errno::NOENT | Errno::NXIO => Missing::NoMemory,
        Errno::ACCES => Missing::NotRoot,
        Errno::PERM => Missing::Forbidden,
        other => Missing::Other(other),
    })?;
    let mapping = Mapping::of(&file, address, DEVICE.1 as usize);
    let mapping = mapping.map_err(|errno| match errno {
        Errno::PERM => Missing::Claimed,
        other => Missing::Other(other),
    })?;
    // SAFETY: the mapping is as long as the page and stays beside it; the device tree says that a device is there.
    let registers = unsafe { Mapped::new(mapping.start()) };
    let page = Page::new(registers).map_err(|_| Missing::AnotherDevice)?;
    Ok(Vcpu::new(Device {
        page,
        file,
        _mapping: mapping,
    }))
}

impl Transport for Device {
    fn call(&mut self, function: u32, arguments: Arguments<'_>) -> Answer {
        // A file that cannot be locked is none that others use.
        let locked = self.file.lock();
        let answer = self.page.call(function, arguments);
        if locked.is_ok() {
            let _ = self.file.unlock();
        }
        answer
    }
}
