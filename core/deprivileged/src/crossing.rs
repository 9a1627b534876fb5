//! Crossings between a guest's programs and its kernel that the backend carries out without the monitor.
//!
//! A system call is frequent, and little happens in it to the virtual CPU: SVC of a program saves some registers and masks
//! IRQs, and the exception return undoes it. So before each entry the monitor says what a crossing needs ([`Crossing`]),
//! and a few instructions of the backend's in the window, which change nothing else, carry it out. They read and write the
//! virtual CPU's page as trampolines do, and so crossings are for kernels that have trampolines. When the guest next
//! leaves, the monitor takes over what has become of its virtual CPU ([`Monitor::left`]).
//!
//! In the same way the kernel comes from the mode of another exception to Supervisor mode, and reads some system
//! registers, where they are no trampolines; and it changes its tables and its ASID, if it has been there before
//! ([`KnownSpaces`]).
//!
//! A crossing goes between two roots that are there already and have ASIDs. So it is offered only while each view's latest
//! root is the one that the registers ask for, or one that is known, and never in confinement. A program is entered so only with the DACR
//! that its root was made for; and not while an interrupt waits, which would be taken then.

use crate::monitor::Monitor;
use crate::spaces::{KnownSpaces, Roots};
use hanok_cpu32::{CrossedBanks, Mode, SystemRegister, Vector, sctlr};
use hanok_hal::TableMemory;
use hanok_paging::shadow::{AsidPool, GuestSpace, LatestRoot, RootSet};
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
    /// The mode, A and F of the virtual CPU as in a status register. 0: there is no crossing. The backend changes it.
    pub status: u32,
    /// Whether the guest has done anything by itself: the backend sets it to anything but 0.
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
    /// What TPIDRURO is to hold when the kernel is called. The backend changes it to what it holds when the kernel goes back.
    pub foreseen: u32,
    /// The guest's TTBR0 and CONTEXTIDR. The backend changes them, and with them the next.
    pub space: [u32; 2],
    /// The roots of both views.
    pub roots: Roots,
    /// The stamp with which [`KnownSpaces`] count; 0 if none do.
    pub stamp: u32,
    /// What waits, as I and F of a status register: the kernel may not unmask it by itself.
    pub waits: u32,
    /// ID_MMFR3.
    pub mmfr3: u32,
    /// FPEXC, of which a write that changes nothing is none; a value that it never has, if the kernel has no VFP.
    pub fpexc: u32,
}

impl Crossing {
    /// None.
    pub const NONE: Self = Self {
        status: 0,
        crossed: 0,
        banks: CrossedBanks {
            supervisor: [0; 2],
            spsr: 0,
            other: [0; 3],
        },
        vector: 0,
        kernel_psr: [0; 2],
        tpidrprw: 0,
        foreseen: 0,
        space: [0; 2],
        roots: Roots::NONE,
        stamp: 0,
        waits: 0,
        mmfr3: 0,
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
    /// What the guest needs to cross, after [`Self::ready`] with these ASIDs and before the guest is entered. `known` is
    /// this CPU's. `walks` are the attributes of walks in TTBR0.
    pub fn crossing(
        &mut self,
        asids: &mut AsidPool,
        known: &mut KnownSpaces,
        walks: u32,
    ) -> Crossing {
        if self.page.triples == 0 || self.confined.is_some() || !self.cpu.can_cross() {
            return Crossing::NONE;
        }
        let space = self.space_of(Mode::Supervisor);
        let shadow = &self.shadow;
        let stamp = self
            .spaces
            .stamp(known, asids, &space.regime, |roots| shadow.knows(roots));
        let register = |register| self.cpu.system(register);
        let names = [
            register(SystemRegister::Ttbr0),
            register(SystemRegister::Contextidr),
        ];
        // A space may have got a kernel's root of its own since it became known.
        let is_right = |roots: &Roots| {
            roots.user[0] != 0
                && (!self.cpu.mode().is_privileged() || shadow.has_latest(roots.kernel[0]))
        };
        let roots = match known.find(stamp, names) {
            Some(one) if is_right(&one.roots) => one.roots,
            _ => match self.latest_roots(&space, asids, walks) {
                Some((roots, numbers)) => {
                    self.spaces.put(known, names, roots, numbers);
                    roots
                }
                None => return Crossing::NONE,
            },
        };
        let waits = self.cpu.pending();
        let control = self.cpu.system(SystemRegister::Sctlr);
        let endianness = if control & sctlr::EE != 0 {
            BIG_ENDIAN
        } else {
            0
        };
        let thumb = if control & sctlr::TE != 0 { THUMB } else { 0 };
        Crossing {
            status: self.cpu.crossing_status(),
            crossed: 0,
            banks: self.cpu.crossed_banks(),
            vector: self.cpu.vector(Vector::SupervisorCall),
            kernel_psr: [
                u32::from(Mode::Supervisor.into_bits()) | endianness,
                u32::from(Mode::User.into_bits()) | endianness | thumb,
            ],
            tpidrprw: self.cpu.system(SystemRegister::Tpidrprw),
            foreseen: self.foreseen(),
            space: names,
            roots: if waits == 0 { roots } else { roots.of_kernel() },
            stamp: if waits == 0 { stamp } else { 0 },
            waits,
            mmfr3: self.cpu.identity().mmfr[3],
            fpexc: if self.cpu.reaches_floating_point() {
                self.cpu.system(SystemRegister::Fpexc)
            } else {
                NO_VFP
            },
        }
    }

    /// The latest roots of both views, if they are of this space, and their numbers; `None` if the kernel's is not.
    fn latest_roots(
        &mut self,
        space: &GuestSpace,
        asids: &mut AsidPool,
        walks: u32,
    ) -> Option<(Roots, RootSet)> {
        let kernel = self.shadow.latest(Privilege::Kernel, space, asids);
        let kernel = kernel.filter(|root| root.domains == space.regime.dacr)?;
        let mut numbers = RootSet::NONE;
        self.shadow.know(&kernel, &mut numbers);
        let user = self.shadow.latest(Privilege::User, space, asids);
        if let Some(user) = &user {
            self.shadow.know(user, &mut numbers);
        }
        let roots = Roots {
            kernel: hardware(&kernel, walks),
            user: user.map_or([0; 2], |root| hardware(&root, walks)),
            domains: user.map_or(0, |root| root.domains),
        };
        Some((roots, numbers))
    }

    /// Takes over what has become of the virtual CPU by crossings.
    pub(crate) fn take_crossing(&mut self, crossing: &Crossing) {
        if crossing.crossed == 0 {
            return;
        }
        self.cpu
            .crossed(crossing.status, crossing.space, &crossing.banks);
        if !self.cpu.mode().is_privileged() {
            self.cpu.set_dacr(crossing.roots.domains);
        }
    }
}

fn hardware(root: &LatestRoot, walks: u32) -> [u32; 2] {
    [root.table.get() as u32 | walks, root.asid.into()]
}
