//! What the hypervisor needs of the real board's device tree.
//!
//! The firmware's tree is believed in what it says, but not in how it says it: any bytes
//! end in a typed error or in a value, never in a panic. Where the tree holds more of
//! something than there is room for, memory that must not be touched is an error, CPUs
//! past the last are left out and counted.

#[cfg(feature = "write")]
mod bridge;
mod devices;
mod fit;
#[cfg(feature = "write")]
mod host;
mod host_timer;
#[cfg(feature = "write")]
mod line;
mod pcie;
mod place;
#[cfg(feature = "write")]
mod properties;
mod registers;

use crate::error::Structure;
use crate::fdt::Fdt;
use crate::tree::{self, Cells};
use hanok_types::{Address, GICV2_CPUS, Hpa, IntId, MAX_CPUS, PAGE_SIZE, Span};
use heapless::Vec;
use place::At;
use thiserror::Error;

pub use host_timer::{HostTimer, HostTimerKind};
pub use pcie::{BoardSmmu, PcieHost};

#[cfg(feature = "write")]
pub use bridge::{HostBridge, Window};
#[cfg(feature = "write")]
pub use host::{DeviceError, HostDevice, HostTree, Neighbour, assign};
#[cfg(feature = "write")]
pub use line::HostLine;
#[cfg(feature = "write")]
pub use properties::FixedClock;

/// Ranges of RAM.
pub const MAX_RAM_SPANS: usize = 8;
/// Ranges of RAM that the firmware keeps for itself.
pub const MAX_RESERVED: usize = 32;
/// Ranges of GICv3 redistributors.
pub const MAX_REDISTRIBUTORS: usize = 8;

/// The board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardTree<'a> {
    /// RAM, none of them overlapping another.
    pub ram: Vec<Span<Hpa>, MAX_RAM_SPANS>,
    /// What of it must not be touched; may overlap each other and lie outside RAM.
    pub reserved: Vec<Span<Hpa>, MAX_RESERVED>,
    /// CPUs, in the tree's order.
    pub cpus: Vec<BoardCpu, MAX_CPUS>,
    /// How many further CPUs there are, which are left out: [`MAX_CPUS`] have room, a GICv2 reaches
    /// [`GICV2_CPUS`], and the controller of an Allwinner A10 one.
    pub cpus_left_out: usize,
    /// How to call PSCI.
    pub psci: Option<PsciMethod>,
    /// The interrupt controller.
    pub gic: Gic,
    /// The serial port to speak on.
    pub console: Option<Console>,
    /// The registers of the first working PL031, which tells the wall clock's time.
    pub rtc: Option<Span<Hpa>>,
    /// The generic timer's interrupts.
    pub timer: Timer,
    /// The boot loader's arguments.
    pub bootargs: &'a str,
    /// Random bytes from the boot loader, maybe none.
    pub rng_seed: &'a [u8],
    /// The whole tree.
    bytes: &'a [u8],
}

impl BoardTree<'_> {
    /// The pages in which CPUs look for where to start: of a spin table, which are reserved, so that
    /// no VM gets them as RAM; or of the board's system registers.
    pub fn release_pages(&self) -> Vec<Span<Hpa>, MAX_CPUS> {
        let mut pages: Vec<Span<Hpa>, MAX_CPUS> = Vec::new();
        for cpu in &self.cpus {
            if let Enable::SpinTable(at) | Enable::SystemFlags(at) = cpu.enable
                && let Some(page) = Span::new(at.align_down(PAGE_SIZE), PAGE_SIZE)
                && !pages.contains(&page)
            {
                // As many as CPUs at most.
                let _ = pages.push(page);
            }
        }
        pages
    }
}

/// One CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoardCpu {
    /// The affinity fields of its MPIDR, other bits zero.
    pub mpidr: u64,
    /// How to start it.
    pub enable: Enable,
}

/// How a CPU is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enable {
    /// By PSCI's CPU_ON.
    Psci,
    /// By writing its entry address here.
    SpinTable(Hpa),
    /// By the flags of a Versatile Express's system registers, which begin here, and an
    /// interrupt: the CPU waits until they hold its entry address (DUI 0447, SYS_FLAGS).
    SystemFlags(Hpa),
    /// The tree names no way, or one we do not know.
    Unknown,
}

/// The instruction that reaches PSCI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PsciMethod {
    /// SMC.
    Smc,
    /// HVC.
    Hvc,
}

/// The interrupt controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gic {
    /// GICv3 or later.
    V3 {
        /// GICD.
        distributor: Span<Hpa>,
        /// GICR, each range holding the redistributors of some CPUs.
        redistributors: Vec<Span<Hpa>, MAX_REDISTRIBUTORS>,
        /// Bytes from one redistributor to the next, where the tree says so; otherwise
        /// GICR_TYPER.VLPIS of each tells (IHI 0069H, 12.10).
        stride: Option<u64>,
        /// The maintenance interrupt.
        maintenance: Option<IntId>,
    },
    /// GICv2.
    V2 {
        /// GICD.
        distributor: Span<Hpa>,
        /// GICC.
        cpu: Span<Hpa>,
        /// GICH and GICV, where there are virtualization extensions.
        virtualization: Option<(Span<Hpa>, Span<Hpa>)>,
        /// The maintenance interrupt.
        maintenance: Option<IntId>,
    },
    /// No GIC, but an Allwinner A10's interrupt controller, whose interrupts are SPIs here.
    #[cfg(feature = "allwinner")]
    Allwinner(Span<Hpa>),
}

impl Gic {
    /// The maintenance interrupt, where the tree names one.
    pub fn maintenance(&self) -> Option<IntId> {
        match self {
            Self::V2 { maintenance, .. } | Self::V3 { maintenance, .. } => *maintenance,
            #[cfg(feature = "allwinner")]
            Self::Allwinner(_) => None,
        }
    }
}

/// The kinds of serial ports that there are drivers for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SerialKind {
    /// Arm's PL011.
    #[default]
    Pl011 = 0,
    /// A 16550, with a register every four bytes.
    #[cfg(feature = "allwinner")]
    Ns16550 = 1,
}

impl SerialKind {
    /// A port of this kind in one word: the address of its registers, and in bit 0, which is no part of that, the kind.
    pub const fn port(self, registers: u64) -> u64 {
        registers | self as u64
    }
}

/// A serial port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Console {
    /// Its kind.
    pub kind: SerialKind,
    /// Its registers.
    pub registers: Span<Hpa>,
    /// Its interrupt, where it goes to the GIC.
    pub interrupt: Option<IntId>,
}

/// The generic timer's interrupts, each private to a CPU; `None` where the tree has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timer {
    /// EL3 or secure EL1 physical.
    pub secure: Option<IntId>,
    /// EL1 physical.
    pub physical: Option<IntId>,
    /// EL1 virtual.
    pub virt: Option<IntId>,
    /// EL2 physical.
    pub hyp: Option<IntId>,
}

/// A board's tree that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BoardError {
    /// The bytes are no flattened device tree.
    #[error("the board's device tree is not sound: {0}")]
    Structure(#[from] Structure),
    /// No RAM.
    #[error("the board's device tree has no memory node with memory in it")]
    NoMemory,
    /// A memory node that cannot be read.
    #[error("the board's device tree has a memory node whose reg cannot be read")]
    Memory,
    /// Two ranges of RAM share bytes.
    #[error("the board's device tree has memory nodes that overlap")]
    MemoryOverlap,
    /// Too many ranges of RAM.
    #[error("the board's device tree has more than {MAX_RAM_SPANS} ranges of memory")]
    ManyMemories,
    /// A reserved range that cannot be read.
    #[error("the board's device tree has a reserved range that cannot be read")]
    Reserved,
    /// Too many reserved ranges.
    #[error("the board's device tree has more than {MAX_RESERVED} reserved ranges")]
    ManyReserved,
    /// No CPU that can be used.
    #[error("the board's device tree has no cpu node that can be used")]
    NoCpu,
    /// A cpu node that cannot be read.
    #[error("the board's device tree has a cpu node whose reg cannot be read")]
    Cpu,
    /// No interrupt controller that we know.
    #[error("the board's device tree has no GICv2 or GICv3")]
    NoGic,
    /// Registers of a device that the hypervisor uses, which cannot be its.
    #[error(
        "the board's device tree puts {name} at {at}, with {len:#x} bytes: too few, or not at a \
         multiple of its size"
    )]
    Registers {
        /// Of which device.
        name: &'static str,
        /// Where they begin.
        at: Hpa,
        /// How many bytes.
        len: u64,
    },
    /// An interrupt controller that cannot be read.
    #[error("the board's interrupt controller has a reg or stride that cannot be read")]
    Gic,
}

impl Console {
    /// The port in one word ([`SerialKind::port`]).
    pub fn port(&self) -> u64 {
        self.kind.port(self.registers.start().get())
    }
}

impl<'a> BoardTree<'a> {
    /// Reads the board's tree from the start of `tree`; bytes after it are left alone.
    pub fn parse(tree: &'a [u8]) -> Result<Self, BoardError> {
        let fdt = tree::open(tree)?;
        let root = At::root(&fdt);
        let gic_at = devices::find_gic(&root).ok_or(BoardError::NoGic)?;
        let psci = devices::psci(&root);
        let gic = devices::gic(&gic_at)?;
        let most = match gic {
            Gic::V2 { .. } => GICV2_CPUS,
            Gic::V3 { .. } => MAX_CPUS,
            #[cfg(feature = "allwinner")]
            Gic::Allwinner(_) => 1,
        };
        let (cpus, cpus_left_out) = cpus(&root, psci.is_some(), most)?;
        let mut reserved = reserved(&fdt, &root)?;
        reserve_spin_table(&mut reserved, &cpus)?;
        let chosen = root.named("chosen").next();
        let chosen = chosen.as_ref().map(At::node);
        let bootargs = chosen.and_then(|node| tree::text(node, "bootargs"));
        let rng_seed = chosen.and_then(|node| tree::value(node, "rng-seed"));
        let board = Self {
            ram: ram(&root)?,
            reserved,
            cpus,
            cpus_left_out,
            psci,
            gic,
            console: devices::console(&root, &gic_at),
            rtc: devices::rtc(&root),
            timer: devices::timer(&root, &gic_at),
            bootargs: bootargs.unwrap_or_default(),
            rng_seed: rng_seed.unwrap_or_default(),
            bytes: tree,
        };
        board.check_registers()?;
        Ok(board)
    }
}

fn ram(root: &At<'_>) -> Result<Vec<Span<Hpa>, MAX_RAM_SPANS>, BoardError> {
    let mut ram = Vec::new();
    let is_memory = |at: &At<'_>| tree::text(at.node(), "device_type") == Some("memory");
    for at in root.children().filter(|at| is_memory(at) && at.is_okay()) {
        for span in at.spans() {
            let span = span.ok_or(BoardError::Memory)?;
            if ram.iter().any(|other| span.overlaps(other)) {
                return Err(BoardError::MemoryOverlap);
            }
            if !span.is_empty() {
                ram.push(span).map_err(|_| BoardError::ManyMemories)?;
            }
        }
    }
    if ram.is_empty() {
        return Err(BoardError::NoMemory);
    }
    Ok(ram)
}

/// The pages of the spin table. Cores wait there for as long as the board is on, so they
/// must never become a VM's, whatever else the tree reserves.
fn reserve_spin_table(
    reserved: &mut Vec<Span<Hpa>, MAX_RESERVED>,
    cpus: &[BoardCpu],
) -> Result<(), BoardError> {
    for cpu in cpus {
        let Enable::SpinTable(at) = cpu.enable else {
            continue;
        };
        let page = Span::new(at.align_down(PAGE_SIZE), PAGE_SIZE).ok_or(BoardError::Cpu)?;
        if !reserved.iter().any(|other| other.covers(&page)) {
            reserved.push(page).map_err(|_| BoardError::ManyReserved)?;
        }
    }
    Ok(())
}

/// The memory reservation block and the static nodes of /reserved-memory (Devicetree
/// Specification v0.4, 5.3 and 3.5).
fn reserved(fdt: &Fdt<'_>, root: &At<'_>) -> Result<Vec<Span<Hpa>, MAX_RESERVED>, BoardError> {
    let block = fdt
        .reservations()
        .map(|(address, size)| Span::new(Hpa::new(address), size));
    let nodes = root.named("reserved-memory");
    let nodes = nodes.flat_map(|at| at.children()).filter(At::is_okay);
    let mut reserved = Vec::new();
    for span in block.chain(nodes.flat_map(|at| at.spans())) {
        let span = span.ok_or(BoardError::Reserved)?;
        if !span.is_empty() {
            reserved.push(span).map_err(|_| BoardError::ManyReserved)?;
        }
    }
    Ok(reserved)
}

/// The CPUs; `psci` is whether the board has PSCI, by which a CPU is started whose node says
/// nothing else (DEN0022F, 6.2.1: its binding came before `enable-method` for 32-bit boards, many
/// of which leave that out). Those past the first `most` are left out, and counted.
fn cpus(
    root: &At<'_>,
    psci: bool,
    most: usize,
) -> Result<(Vec<BoardCpu, MAX_CPUS>, usize), BoardError> {
    let mut cpus = Vec::new();
    let mut left_out = 0;
    let flags = devices::system_flags(root);
    for group in root.named("cpus") {
        let (cells, _) = group.cells();
        for at in group.named("cpu").filter(|at| !at.has_failed()) {
            let reg = tree::value(at.node(), "reg").unwrap_or_default();
            let mpidr = Cells(reg).number(cells.max(1)).ok_or(BoardError::Cpu)?;
            let silent = tree::value(at.node(), "enable-method").is_none();
            let enable = match (enable(&at), flags) {
                (Enable::Unknown, _) if silent && psci => Enable::Psci,
                (Enable::Unknown, Some(at)) => Enable::SystemFlags(at),
                (known, _) => known,
            };
            if cpus.len() >= most || cpus.push(BoardCpu { mpidr, enable }).is_err() {
                left_out += 1;
            }
        }
    }
    if cpus.is_empty() {
        return Err(BoardError::NoCpu);
    }
    Ok((cpus, left_out))
}

fn enable(cpu: &At<'_>) -> Enable {
    let mut methods = tree::strings(cpu.node(), "enable-method");
    let release = || Cells(tree::value(cpu.node(), "cpu-release-addr")?).two();
    match methods.next() {
        Some("psci") => Enable::Psci,
        Some("spin-table") => {
            release().map_or(Enable::Unknown, |at| Enable::SpinTable(Hpa::new(at)))
        }
        _ => Enable::Unknown,
    }
}
