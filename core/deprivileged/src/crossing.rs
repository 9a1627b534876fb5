//! Crossings between a guest's programs and its kernel that the backend carries out without the monitor.
//!
//! A system call is frequent, and little happens in it to the virtual CPU: SVC of a program saves some registers and masks
//! IRQs, and the exception return undoes it. So before each entry the monitor says what a crossing needs ([`Crossing`]),
//! and a few instructions of the backend's in the window, which change nothing else, carry it out. They read and write the
//! virtual CPU's page as trampolines do, and so crossings are for kernels that have trampolines. When the guest next
//! leaves, the monitor takes over what has become of its virtual CPU ([`Monitor::left`]).
//!
//! A crossing goes between two roots that are there already and have ASIDs. So it is offered only while each view's latest
//! root is the one that the registers ask for, and never in confinement. A program is entered so only with the DACR
//! that its root was made for; and not while an interrupt waits, which would be taken then.

use crate::monitor::Monitor;
use hanok_cpu32::{CrossedBanks, Mode, SystemRegister, Vector, sctlr};
use hanok_hal::TableMemory;
use hanok_paging::shadow::{AsidPool, LatestRoot};
use hanok_paging::short::Privilege;

/// E and T of a status register.
const BIG_ENDIAN: u32 = 1 << 9;
const THUMB: u32 = 1 << 5;
/// No value of FPEXC: EX is never set.
const NO_VFP: u32 = 1 << 31;

/// What the backend needs to let the guest cross, and what has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Crossing {
    /// The mode of the virtual CPU as in a status register: User or Supervisor mode. 0: there is no crossing. The backend
    /// changes it.
    pub mode: u32,
    /// Whether the guest has crossed: the backend sets it to anything but 0.
    pub crossed: u32,
    /// The banked registers that are not live. The backend changes them.
    pub banks: CrossedBanks,
    /// Where SVC leads.
    pub vector: u32,
    /// The kernel's status register there: what [`Field::PSR`](hanok_abi::trampoline::Field::PSR) is to hold, and the bits
    /// below 16 of the real one.
    pub kernel_psr: [u32; 2],
    /// TPIDRPRW, which TPIDRURW is to hold while the kernel runs.
    pub tpidrprw: u32,
    /// The kernel's first-level table, as TTBR0 is to have it, and ASID.
    pub kernel: [u32; 2],
    /// The programs' ones. If the table is 0, the kernel does not go back by itself.
    pub user: [u32; 2],
    /// DACR with which the kernel may go back.
    pub domains: u32,
    /// FPEXC, of which a write that changes nothing is none; a value that it never has, if the kernel has no VFP.
    pub fpexc: u32,
}

impl Crossing {
    /// None.
    pub const NONE: Self = Self {
        mode: 0,
        crossed: 0,
        banks: CrossedBanks {
            user: [0; 2],
            supervisor: [0; 2],
            spsr: 0,
        },
        vector: 0,
        kernel_psr: [0; 2],
        tpidrprw: 0,
        kernel: [0; 2],
        user: [0; 2],
        domains: 0,
        fpexc: NO_VFP,
    };
}

/// The thread registers that the guest may have changed without the monitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadRegisters {
    /// TPIDRURW.
    pub rw: u32,
    /// TPIDRURO.
    pub ro: u32,
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Monitor<M, ROOTS, TABLES> {
    /// What the guest needs to cross, after [`Self::ready`] with these ASIDs and before the guest is entered. `walks` are
    /// the attributes of walks in TTBR0.
    pub fn crossing(&mut self, asids: &mut AsidPool, walks: u32) -> Crossing {
        let mode = self.cpu.mode();
        if self.page.triples == 0 || self.confined.is_some() || !self.cpu.can_cross() {
            return Crossing::NONE;
        }
        let space = self.space_of(Mode::Supervisor);
        let kernel = self.shadow.latest(Privilege::Kernel, &space, asids);
        let Some(kernel) = kernel.filter(|root| root.domains == space.regime.dacr) else {
            return Crossing::NONE;
        };
        let user = if self.cpu.has_lines() {
            None
        } else {
            self.shadow.latest(Privilege::User, &space, asids)
        };
        let control = self.cpu.system(SystemRegister::Sctlr);
        let endianness = if control & sctlr::EE != 0 {
            BIG_ENDIAN
        } else {
            0
        };
        let thumb = if control & sctlr::TE != 0 { THUMB } else { 0 };
        Crossing {
            mode: mode.into_bits().into(),
            crossed: 0,
            banks: self.cpu.crossed_banks(),
            vector: self.cpu.vector(Vector::SupervisorCall),
            kernel_psr: [
                u32::from(Mode::Supervisor.into_bits()) | endianness,
                u32::from(Mode::User.into_bits()) | endianness | thumb,
            ],
            tpidrprw: self.cpu.system(SystemRegister::Tpidrprw),
            kernel: hardware(&kernel, walks),
            user: user.map_or([0; 2], |root| hardware(&root, walks)),
            domains: user.map_or(0, |root| root.domains),
            fpexc: if self.cpu.reaches_floating_point() {
                self.cpu.system(SystemRegister::Fpexc)
            } else {
                NO_VFP
            },
        }
    }

    /// Takes over what has become of the virtual CPU by crossings.
    pub(crate) fn take_crossing(&mut self, crossing: &Crossing) {
        if crossing.crossed == 0 {
            return;
        }
        let supervisor = Mode::Supervisor.into_bits();
        if crossing.mode == supervisor.into() {
            self.cpu.crossed(Mode::Supervisor, &crossing.banks);
        } else {
            self.cpu.crossed(Mode::User, &crossing.banks);
            self.cpu.set_dacr(crossing.domains);
        }
    }
}

fn hardware(root: &LatestRoot, walks: u32) -> [u32; 2] {
    [root.table.get() as u32 | walks, root.asid.into()]
}
