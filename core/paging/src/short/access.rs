//! Accesses, and who may make which.

use super::descriptor::Attributes;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An instruction fetch.
    Execute,
}

/// With whose rights an access is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Privilege {
    /// The guest's kernel: any mode but User mode.
    Kernel,
    /// The guest's programs, and LDRT and STRT of its kernel.
    User,
}

/// An access of a guest to a virtual address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The virtual address.
    pub address: u32,
    /// What is done.
    pub kind: AccessKind,
    /// With whose rights.
    pub by: Privilege,
}

/// What one of the two may do with an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Loads.
    pub read: bool,
    /// Stores.
    pub write: bool,
    /// Instruction fetches.
    pub execute: bool,
}

impl Rights {
    /// Everything.
    pub const ALL: Self = Self {
        read: true,
        write: true,
        execute: true,
    };

    /// Whether an access of this kind is allowed.
    pub const fn allow(&self, kind: AccessKind) -> bool {
        match kind {
            AccessKind::Read => self.read,
            AccessKind::Write => self.write,
            AccessKind::Execute => self.execute,
        }
    }

    const fn data(read: bool, write: bool) -> Self {
        Self {
            read,
            write,
            execute: false,
        }
    }
}

/// What kernel and programs may do with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// What the kernel may do.
    pub kernel: Rights,
    /// What programs may do.
    pub user: Rights,
}

impl Permissions {
    /// Everything for both, as without the MMU and in a domain of which one is manager.
    pub const ALL: Self = Self {
        kernel: Rights::ALL,
        user: Rights::ALL,
    };

    /// What `who` may do.
    pub const fn of(&self, who: Privilege) -> Rights {
        match who {
            Privilege::Kernel => self.kernel,
            Privilege::User => self.user,
        }
    }

    /// The rights by AP\[2:0\], XN and PXN to a client of the domain (DDI 0406C, B3.7.1, B3.7.2).
    /// What can be fetched must be readable.
    pub(crate) fn of_client(attributes: &Attributes) -> Self {
        let (kernel, user) = by_ap(attributes.ap);
        let executable = !attributes.execute_never;
        Self {
            kernel: Rights {
                execute: kernel.read && executable && !attributes.pxn,
                ..kernel
            },
            user: Rights {
                execute: user.read && executable,
                ..user
            },
        }
    }
}

/// Loads and stores by AP\[2:0\], of the kernel and of programs. AP 0b100 is reserved and allows
/// nothing.
const fn by_ap(ap: u8) -> (Rights, Rights) {
    let none = Rights::data(false, false);
    let read = Rights::data(true, false);
    let write = Rights::data(true, true);
    match ap & 0b111 {
        0b001 => (write, none),
        0b010 => (write, read),
        0b011 => (write, write),
        0b101 => (read, none),
        0b110 | 0b111 => (read, read),
        _ => (none, none),
    }
}
