//! Why Linux did not do what it was asked.

use core::fmt;

/// The result of a system call.
pub type Result<T> = core::result::Result<T, Errno>;

/// An error's number (include/uapi/asm-generic/errno-base.h and errno.h, which all three architectures share).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub u16);

impl Errno {
    /// Operation not permitted.
    pub const PERM: Self = Self(1);
    /// No such file.
    pub const NOENT: Self = Self(2);
    /// No such process.
    pub const SRCH: Self = Self(3);
    /// A signal came first.
    pub const INTR: Self = Self(4);
    /// No such device.
    pub const NXIO: Self = Self(6);
    /// Nothing there now.
    pub const AGAIN: Self = Self(11);
    /// Permission denied.
    pub const ACCES: Self = Self(13);
    /// Busy.
    pub const BUSY: Self = Self(16);
    /// It exists.
    pub const EXIST: Self = Self(17);
    /// Invalid argument.
    pub const INVAL: Self = Self(22);
    /// The value is too large.
    pub const TOO_BIG: Self = Self(7);
    /// The other end is gone.
    pub const PIPE: Self = Self(32);
    /// The kernel has no such call.
    pub const NOSYS: Self = Self(38);
    /// Nobody listens.
    pub const CONNREFUSED: Self = Self(111);

    /// Its name, for the ones that have one here.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::PERM => "EPERM",
            Self::NOENT => "ENOENT",
            Self::SRCH => "ESRCH",
            Self::INTR => "EINTR",
            Self::NXIO => "ENXIO",
            Self::AGAIN => "EAGAIN",
            Self::ACCES => "EACCES",
            Self::BUSY => "EBUSY",
            Self::EXIST => "EEXIST",
            Self::INVAL => "EINVAL",
            Self::TOO_BIG => "E2BIG",
            Self::PIPE => "EPIPE",
            Self::NOSYS => "ENOSYS",
            Self::CONNREFUSED => "ECONNREFUSED",
            _ => return None,
        })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => out.write_str(name),
            None => write!(out, "error {}", self.0),
        }
    }
}

impl core::error::Error for Errno {}
