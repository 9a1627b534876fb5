//! Tap interfaces: what a client sends is received there by Linux, and the reverse (Documentation/networking/tuntap.rst).
//!
//! An interface stays when the program ends, so that a bridge keeps it; the next program has it again. Who brings it up and bridges it is the
//! VM's init: [`HOOK`] is called with the interface's name, the client's, and the VLAN, if there is one.

use rustix::fs::{Mode, OFlags, open};
use rustix::ioctl::{Setter, ioctl};
use std::ffi::{c_int, c_short};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

/// What is called when an interface is there.
pub const HOOK: &str = "/etc/hanok/tap-up";
const DEVICE: &str = "/dev/net/tun";
/// Requests (include/uapi/linux/if_tun.h): the interface of a name, and that it stays.
const TUNSETIFF: u32 = 0x4004_54ca;
const TUNSETPERSIST: u32 = 0x4004_54cb;
/// Flags of an interface: frames, without a header before them.
const TAP: c_short = 0x0002;
const NO_HEADER: c_short = 0x1000;
/// The bytes of an interface's name, with a zero byte.
const NAME: usize = 16;

/// `struct ifreq`, of which this request has the name and the flags (netdevice(7)). The rest is as large as the largest member's.
#[repr(C)]
struct Request {
    name: [u8; NAME],
    flags: c_short,
    rest: [u8; 22],
}

/// The tap interface of this name, made unless it is there. Each read(2) gives a frame, and each write(2) takes one; neither waits.
///
/// # Errors
/// Linux has none, the name is another interface's, or another program has it.
pub fn open_tap(name: &str) -> Result<OwnedFd, String> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let tap = open(DEVICE, flags, Mode::empty());
    let tap = tap.map_err(|error| format!("{DEVICE}: {error} (modprobe tun)"))?;
    let mut request = Request {
        name: [0; NAME],
        flags: TAP | NO_HEADER,
        rest: [0; 22],
    };
    if name.len() >= NAME {
        return Err(format!("\"{name}\" is too long for an interface"));
    }
    for (to, byte) in request.name.iter_mut().zip(name.bytes()) {
        *to = byte;
    }
    let failed = |error| format!("tap interface {name}: {error}");
    // SAFETY: this request reads and writes an `ifreq`, and nothing else of this process.
    unsafe { ioctl(&tap, Ifreq(&mut request)) }.map_err(failed)?;
    let stays: c_int = 1;
    // SAFETY: this request takes its number by value; a `Setter` gives the address of one, which is not zero, and only that is looked at.
    unsafe { ioctl(&tap, Setter::<TUNSETPERSIST, c_int>::new(stays)) }.map_err(failed)?;
    Ok(tap)
}

/// The request for an interface.
struct Ifreq<'a>(&'a mut Request);

// SAFETY: the opcode is that of a request whose argument is an `ifreq`, which is what the pointer leads to.
unsafe impl rustix::ioctl::Ioctl for Ifreq<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> rustix::ioctl::Opcode {
        TUNSETIFF
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(
        _: rustix::ioctl::IoctlOutput,
        _: *mut std::ffi::c_void,
    ) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// Has the VM's init bring the interface up.
///
/// # Errors
/// There is nobody who does, or it failed.
pub fn bring_up(name: &str, client: &str, vlan: Option<u32>) -> Result<(), String> {
    if !Path::new(HOOK).exists() {
        return Err(format!("nobody brings {name} up: there is no {HOOK}"));
    }
    let mut command = Command::new(HOOK);
    command.args([name, client]);
    command.args(vlan.map(|vlan| vlan.to_string()));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{HOOK} {name}: {status}")),
        Err(error) => Err(format!("{HOOK}: {error}")),
    }
}
