//! What a vCPU of this backend has beside the registers that the core knows.

use super::memory::GuestHost;
use crate::pl1::Pl1State;
use crate::{Host, read, write};
use hanok_arm_common::frames::{Frames, SharedFrames};
use hanok_arm_common::privilege::has_multiprocessing;
use hanok_cpu32::{
    Exception, Fault, FaultStatus, Identity, Lines, Registers, SystemRegister, Vector,
};
use hanok_decode::{Psr, banked_register, mode};
use hanok_deprivileged::{Code, Host as _, Member, Monitor, Ready, Stretch};
use hanok_hal::{Forgotten, GuestFault, Mutex, Start};
use hanok_paging::shadow::{AsidPool, HardwareRoot};
use hanok_pcpu::{Board, VmUnit};
use hanok_types::{Regs, platform};

/// First-level tables of a vCPU's shadow.
const ROOTS: usize = 128;
/// Second-level tables of a vCPU's shadow.
const TABLES: usize = 1024;
/// The frames that a vCPU's shadow needs, with what alignment wastes, its page and its slot.
pub const FRAMES: u64 = (hanok_paging::shadow::frames(ROOTS, TABLES) + TABLES / 4 + 2) as u64;

/// MPIDR: the Multiprocessing Extensions are there (DDI 0406C, B4.1.106).
const MULTIPROCESSING: u32 = 1 << 31;

/// MIDR of a Cortex-A9, but for its revision.
const CORTEX_A9: u32 = 0x410f_c090;
/// The SCU's configuration register behind CBAR, whose lowest bits say how many CPUs there are beside the first
/// (DDI 0407I, 2.2.2): Linux believes a Cortex-A9 to be alone if they are zero. There is no SCU in a VM; where it has
/// several of these CPUs, GICD_ITARGETSR0 is in this register's place, which is not zero then (IHI 0048B, 4.3.12).
const CONFIGURATION: u32 = 4;
const TARGETS: u32 = 0x800;

/// How many pieces of work are done before an entry at most, until other things have had their turn.
const PIECES: usize = 24;

/// CTR.DminLine and IminLine.
const LINES: u32 = 0x000f_000f;
/// Lines of 4 KiB: a guest that cleans or invalidates memory line by line does so by page, as each of these operations is an
/// exit.
const WIDEST_LINES: u32 = 0x000a_000a;

/// What R1 of a kernel means by "the device tree says it": no machine has this number
/// (Documentation/arch/arm/booting.rst).
const NO_MACHINE: u32 = 0xffff_ffff;

/// The bits of a status register that are the guest's own in User mode.
const VISIBLE: u32 = 0xfe0f_fe20;

/// A vCPU's monitor.
pub type GuestMonitor = Monitor<SharedFrames, ROOTS, TABLES>;

/// A vCPU without virtualization hardware.
#[derive(Debug)]
pub struct Deprivileged {
    /// Its monitor.
    pub monitor: GuestMonitor,
    /// The code of its VM.
    pub code: &'static Mutex<Code>,
    /// Whether the core has its registers: [`Regs`] are newer than the monitor's.
    outside: bool,
    /// Whether its VFP registers are in the CPU.
    pub has_fp: bool,
    /// Where the virtual CPU's page is in the window, by its offset; 0 if it is not there.
    pub page_in_window: u32,
    /// The VM's RAM, once it is known that no page of it is ever taken.
    ram: Option<Stretch>,
}

/// The first general register that is not [`Regs`]' of the same number in this mode.
fn first_banked(psr: Psr) -> usize {
    match psr.mode() {
        mode::FIQ => 8,
        _ => 13,
    }
}

impl Deprivileged {
    /// A vCPU that is off, `member` of a VM with this code; `None` if `frames` has too few frames. `window` is the
    /// window's first-level descriptor.
    pub fn new(
        identity: Identity,
        member: Member,
        code: &'static Mutex<Code>,
        frames: &'static Mutex<Frames>,
        window: u32,
    ) -> Option<Self> {
        let frames = SharedFrames::new(frames);
        Some(Self {
            monitor: Monitor::new(identity, frames, window, member)?,
            code,
            outside: false,
            has_fp: false,
            page_in_window: 0,
            ram: None,
        })
    }

    /// Forgets a part of what is known of the VM's code, which is made anew.
    pub fn forget_pages(&mut self) -> Forgotten {
        self.code.lock().forget_pages()
    }

    /// Begins to run at `start`.
    pub fn reset(&mut self, start: Start) {
        let Start { entry, boots, .. } = start;
        let argument = entry.argument as u32;
        if boots {
            self.code.lock().clear();
        }
        let arguments = if boots && argument != 0 {
            [0, NO_MACHINE, argument]
        } else {
            [argument, 0, 0]
        };
        self.monitor.boot(entry.pc as u32, arguments);
        self.outside = false;
    }

    /// Copies the registers to where the core has them.
    pub fn show(&mut self, regs: &mut Regs) {
        let Registers { general, pc, .. } = &self.monitor.registers;
        let psr = self.monitor.cpu.psr(&self.monitor.registers);
        let (shared, banked) = general.split_at(first_banked(psr));
        for (place, value) in regs.x.iter_mut().zip(shared) {
            *place = u64::from(*value);
        }
        for (value, number) in banked.iter().zip(shared.len() as u8..) {
            regs.set(banked_register(number, psr.mode()), u64::from(*value));
        }
        regs.pc = u64::from(*pc);
        regs.pstate = psr.into_bits().into();
        self.outside = true;
    }

    /// The memory of its VM.
    pub fn memory(&self, unit: &'static VmUnit<Host>, board: &'static Board<Host>) -> GuestHost {
        GuestHost {
            ram: self.ram,
            ..memory(unit, board)
        }
    }

    /// Finds out whether pages of the VM's RAM may be taken.
    pub fn find_ram(&mut self, unit: &'static VmUnit<Host>, board: &'static Board<Host>) {
        if self.ram.is_none() {
            self.ram = memory(unit, board).stretch(platform::RAM);
        }
    }

    /// Whether the core has its registers.
    pub fn is_outside(&self) -> bool {
        self.outside
    }

    /// Takes the registers back that the core may have changed.
    pub fn take_back(&mut self, regs: &Regs) {
        if !core::mem::take(&mut self.outside) {
            return;
        }
        let psr = Psr::from_bits(regs.pstate as u32);
        let registers = &mut self.monitor.registers;
        let (shared, banked) = registers.general.split_at_mut(first_banked(psr));
        let first = shared.len() as u8;
        for (value, place) in shared.iter_mut().zip(&regs.x) {
            *value = *place as u32;
        }
        for (value, number) in banked.iter_mut().zip(first..) {
            *value = regs.get(banked_register(number, psr.mode())) as u32;
        }
        registers.pc = regs.pc as u32;
        let user = Psr::new().with_mode(mode::USER).into_bits();
        registers.psr = Psr::from_bits(psr.into_bits() & VISIBLE | user);
    }

    /// Delivers what waits, and does what is left to do before the guest can be entered; `None` if that is more
    /// than is to be done at once: an interrupt is pending then, or other things are to have their turn.
    pub fn prepare(
        &mut self,
        lines: Lines,
        asids: &mut AsidPool,
        host: &GuestHost,
    ) -> Option<HardwareRoot> {
        // What the exit was for is done: that may have been long enough.
        if host.is_interrupted() {
            return None;
        }
        let _taken = self.monitor.deliver(lines, self.code, host);
        for _ in 0..PIECES {
            if self.monitor.go_on_forgetting(self.code)
                && let Ready::Yes(root) = self.monitor.ready(asids, host)
            {
                return Some(root);
            }
            // Each piece is short, and so is the time until an interrupt is taken.
            if host.is_interrupted() {
                break;
            }
        }
        None
    }

    /// The address of its handler of failed fetches.
    pub fn fetch_vector(&self) -> u32 {
        self.monitor.cpu.vector(Vector::PrefetchAbort)
    }

    /// Copies the system registers to where a dump looks for them.
    pub fn describe(&self, pl1: &mut Pl1State) {
        let register = |register| self.monitor.cpu.system(register);
        pl1.sctlr = register(SystemRegister::Sctlr);
        pl1.vbar = register(SystemRegister::Vbar);
        pl1.ttbr0 = register(SystemRegister::Ttbr0).into();
        pl1.ttbr1 = register(SystemRegister::Ttbr1).into();
        pl1.tcr = register(SystemRegister::Ttbcr);
        pl1.dfsr = register(SystemRegister::Dfsr);
        pl1.dfar = register(SystemRegister::Dfar);
        pl1.ifsr = register(SystemRegister::Ifsr);
        pl1.ifar = register(SystemRegister::Ifar);
    }

    /// Takes an exception at the instruction that caused the exit.
    pub fn inject(&mut self, regs: &mut Regs, fault: GuestFault) {
        self.take_back(regs);
        let address = self.monitor.fault_address;
        let external = Fault::without_domain(FaultStatus::External);
        let exception = match fault {
            GuestFault::Undefined => Exception::Undefined,
            GuestFault::ExternalData { write, .. } | GuestFault::UnsupportedAtomic { write } => {
                Exception::DataAbort {
                    address,
                    fault: external,
                    write,
                }
            }
            GuestFault::ExternalFetch { .. } => Exception::PrefetchAbort {
                address: self.monitor.registers.pc,
                fault: external,
            },
            GuestFault::SystemError => Exception::DataAbort {
                address,
                fault: Fault::without_domain(FaultStatus::AsynchronousExternal),
                write: false,
            },
        };
        let monitor = &mut self.monitor;
        monitor.cpu.take(&mut monitor.registers, exception);
        self.show(regs);
    }
}

/// The memory of the VM.
pub fn memory(unit: &'static VmUnit<Host>, board: &'static Board<Host>) -> GuestHost {
    GuestHost {
        unit,
        board,
        ram: None,
    }
}

/// What this CPU says that it is, for the virtual CPU with this affinity, one of `several` or the only one.
pub fn identity(mpidr: u32, several: bool) -> Identity {
    macro_rules! cp15 {
        ($opc1:literal $crn:literal $crm:literal $opc2:literal) => {
            crate::read_encoded!(one $opc1 $crn $crm $opc2) as u32
        };
    }
    let cache = |selector: u64| {
        write!("csselr_el1", selector);
        hanok_arm_common::sysreg::isb();
        cp15!(1 0 0 0)
    };
    let midr = read!("midr_el1") as u32;
    let scu = if several && midr & 0xff0f_fff0 == CORTEX_A9 {
        TARGETS - CONFIGURATION
    } else {
        0
    };
    Identity {
        midr,
        ctr: read!("ctr_el0") as u32 & !LINES | WIDEST_LINES,
        tcmtr: cp15!(0 0 0 2),
        tlbtr: cp15!(0 0 0 3),
        // Without these extensions PLDW is undefined, which a kernel leaves out where it is on a uniprocessor.
        mpidr: if has_multiprocessing() {
            mpidr
        } else {
            mpidr & !MULTIPROCESSING
        },
        revidr: 0,
        pfr: [cp15!(0 0 1 0), cp15!(0 0 1 1)],
        dfr0: 0,
        afr0: cp15!(0 0 1 3),
        mmfr: [
            cp15!(0 0 1 4),
            cp15!(0 0 1 5),
            cp15!(0 0 1 6),
            cp15!(0 0 1 7),
        ],
        isar: [
            cp15!(0 0 2 0),
            cp15!(0 0 2 1),
            cp15!(0 0 2 2),
            cp15!(0 0 2 3),
            cp15!(0 0 2 4),
            cp15!(0 0 2 5),
        ],
        clidr: cp15!(1 0 0 1),
        ccsidr: [
            [cache(0), cache(1)],
            [cache(2), cache(3)],
            [cache(4), cache(5)],
        ],
        aidr: 0,
        fpsid: crate::fp::identification_at_pl1(),
        mvfr: [
            crate::fp::feature_register(false) as u32,
            crate::fp::feature_register(true) as u32,
        ],
        l2ctlr: None,
        // The platform's, as in any VM.
        cbar: Some(platform::GIC_DIST.get() as u32 + scu),
    }
}
