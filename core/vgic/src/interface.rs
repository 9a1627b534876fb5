//! The software CPU interface, for a vCPU on a pCPU that has no virtual CPU interface: the guest's
//! accesses to the CPU interface trap, and are answered here.
//!
//! It is what a CPU's virtual CPU interface is (IHI 0069H, chapter 12.4; IHI 0048B, chapters 4.4
//! and 5): a state machine over list registers, which are in memory here. So the same code moves
//! interrupts between the distributor and list registers, and a guest cannot tell the two
//! interfaces apart. Rejected: an interface that works on the distributor's state itself. It would
//! need rules of its own for each way in which that state changes while an interrupt is
//! acknowledged.
//!
//! One state machine serves both versions. A GICv2's guest reaches it by the frame GICC
//! ([`InterfaceRegister::of_frame`]), a GICv3's by system registers. An access reads the
//! [`MAX_LRS`] list registers once or twice, and brings them up to date if one became free.
//!
//! There are five bits of priority, all of which can preempt, as in the CPUs' own interfaces.

use crate::interface_registers::{Control, Group, IccControl, InterfaceRegister};
use crate::lr::{Lr, LrState};
use crate::state::MAX_LRS;
use hanok_hal::ListRegisters;
use hanok_types::{GicVersion, IntId, VcpuSet};

/// The id that means that there is no interrupt.
const NONE: u32 = 1023;
/// GICv2: the interrupt is in group 1, and the register is for group 0.
const OTHER_GROUP: u32 = 1022;
/// The running priority while nothing is active.
const IDLE: u8 = 0xff;
/// The implemented bits of a priority.
const PRIORITY_MASK: u8 = 0xf8;
/// The smallest binary points, for which all implemented bits preempt; that of group 1 is one more.
const LEAST_POINTS: [u8; 2] = [2, 3];
/// GICC_IIDR: a GICv2's interface of Arm, as QEMU has it.
const IIDR: u32 = 0x0002_043b;

/// The outcome of an access to the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Access {
    /// The value of a read.
    pub value: u32,
    /// Other vCPUs that must be kicked.
    pub kick: VcpuSet,
    /// The physical interrupt that the guest deactivated together with its virtual one.
    pub deactivated: Option<IntId>,
}

/// The input of a CPU at which its interface signals an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptInput {
    /// IRQ.
    Irq,
    /// FIQ.
    Fiq,
}

/// What an interface keeps of a vCPU besides the list registers: the guest's masks and settings, and the
/// priorities of its active interrupts. It moves with the vCPU. The default is the state after a reset, in
/// which all interrupts are masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftwareInterfaceState {
    control: Control,
    mask: u8,
    points: [u8; 2],
    /// The priorities of the active interrupts, one bit each, by group; a GICv2 has one register
    /// for both groups.
    active: [u32; 2],
}

impl SoftwareInterfaceState {
    /// The state after a reset.
    const RESET: Self = Self {
        control: Control::new(),
        mask: 0,
        points: LEAST_POINTS,
        active: [0; 2],
    };
}

impl Default for SoftwareInterfaceState {
    fn default() -> Self {
        Self::RESET
    }
}

/// The interface of one pCPU, for the vCPU that is resident there. While none is, its list registers
/// are empty, as [`Vgic::leave`](crate::Vgic::leave) leaves them, and its state is that after a reset.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
pub struct SoftwareInterface {
    version: GicVersion,
    lr: [Lr; MAX_LRS],
    /// Whether the vCPU gets a maintenance interrupt once no list register is pending
    /// (ICH_HCR_EL2.NPIE).
    npie: bool,
    /// On a GICv2: whether ends are reported, and maintenance interrupts are enabled at all.
    reports: bool,
    state: SoftwareInterfaceState,
}

impl ListRegisters for SoftwareInterface {
    fn count(&self) -> usize {
        MAX_LRS
    }

    fn read(&self, index: usize) -> u64 {
        self.lr.get(index).map_or(0, |lr| lr.into_bits())
    }

    fn write(&mut self, index: usize, value: u64) {
        if let Some(lr) = self.lr.get_mut(index) {
            *lr = Lr::from_bits(value);
        }
    }

    fn empty(&self) -> u32 {
        let empty = |(slot, lr): (usize, &Lr)| u32::from(!lr.is_valid() && !lr.eoi()) << slot;
        self.lr.iter().enumerate().map(empty).sum()
    }

    fn set_none_pending_interrupt(&mut self, on: bool) {
        self.npie = on;
    }

    fn report_ends(&mut self, on: bool) {
        self.reports = on;
    }
}

impl SoftwareInterface {
    /// The number of bits of priority.
    pub const PRIORITY_BITS: u32 = PRIORITY_MASK.count_ones();

    /// An interface after a reset: all interrupts are masked.
    pub const fn new(version: GicVersion) -> Self {
        Self {
            version,
            lr: [Lr::new(); MAX_LRS],
            npie: false,
            reports: false,
            state: SoftwareInterfaceState::RESET,
        }
    }

    /// Loads the state of a vCPU that comes to this pCPU. Its interrupts are listed at its next
    /// [`GuestInterface::refresh`](crate::GuestInterface::refresh).
    pub const fn load(&mut self, state: &SoftwareInterfaceState) {
        self.state = *state;
    }

    /// Saves the state of a vCPU that leaves this pCPU, after [`Vgic::leave`](crate::Vgic::leave) has taken its interrupts
    /// out of the list registers.
    pub const fn save(&mut self, state: &mut SoftwareInterfaceState) {
        *state = self.state;
        self.stop();
    }

    /// Drops the state of a vCPU that leaves this pCPU and does not come back, after [`Vgic::leave`](crate::Vgic::leave).
    pub const fn stop(&mut self) {
        self.state = SoftwareInterfaceState::RESET;
    }

    /// Verifies that no vCPU is here.
    #[cfg(test)]
    pub(crate) fn check_is_vacant(&self) {
        assert_eq!(self.state, SoftwareInterfaceState::RESET);
        assert_eq!(self.empty(), (1 << MAX_LRS) - 1);
        assert!(!self.npie && !self.reports);
    }

    /// The input at which an interrupt is signalled to the guest; `None` if none is. There is never more
    /// than one: only the most urgent interrupt is signalled. A GICv2 signals group 0 as FIQ if GICC_CTLR.FIQEn
    /// is set, otherwise as IRQ like group 1 (IHI 0048B, 4.4.1). A GICv3 of a single security state
    /// always signals group 0 as FIQ, and group 1 as IRQ (IHI 0069H, 4.6.2).
    pub fn input(&self) -> Option<InterruptInput> {
        let fiq = match (self.signals()?, self.version.served()) {
            (Group::One, _) => false,
            (Group::Zero, GicVersion::V2) => self.state.control.fiq(),
            (Group::Zero, GicVersion::V3) => true,
        };
        Some(if fiq {
            InterruptInput::Fiq
        } else {
            InterruptInput::Irq
        })
    }

    /// The group of the interrupt that is signalled to the guest; `None` if none is.
    pub fn signals(&self) -> Option<Group> {
        let best = self.unmasked()?;
        self.preempts(best).then(|| Group::of(best))
    }

    /// Whether the condition of a maintenance interrupt holds, as for list registers in a CPU.
    pub(crate) fn maintenance_is_due(&self) -> bool {
        if self.version.served() == GicVersion::V2 && !self.reports {
            return false;
        }
        let ended = self.lr.iter().any(|lr| !lr.is_valid() && lr.eoi());
        let pending = |lr: &Lr| lr.state() == LrState::Pending;
        ended || self.npie && !self.lr.iter().any(pending)
    }

    /// Executes a guest's read of a register: the value.
    pub(crate) fn read(&mut self, register: InterfaceRegister) -> u32 {
        use InterfaceRegister::*;
        match register {
            Control => self.read_control(),
            PriorityMask => self.state.mask.into(),
            BinaryPoint(group) => self.read_point(group).into(),
            Acknowledge(group) => self.acknowledge(group),
            RunningPriority => self.running().into(),
            HighestPending(group) => self.highest_pending(group),
            ActivePriorities(group) => self.state.active[group as usize],
            GroupEnable(group) => self.enables(group).into(),
            Identification if self.version.served() == GicVersion::V2 => IIDR,
            End(_) | Deactivate | Identification => 0,
        }
    }

    /// Executes a guest's write of a register: the physical interrupt that it deactivates.
    pub(crate) fn write(&mut self, register: InterfaceRegister, value: u32) -> Option<IntId> {
        use InterfaceRegister::*;
        match register {
            End(group) => self.end(group, value),
            Deactivate if self.state.control.eoi_mode() => self.deactivate(value),
            _ => {
                self.set(register, value);
                None
            }
        }
    }

    /// Sets the state that a register holds.
    fn set(&mut self, register: InterfaceRegister, value: u32) {
        use InterfaceRegister::*;
        match register {
            Control => self.write_control(value),
            PriorityMask => self.state.mask = value as u8 & PRIORITY_MASK,
            BinaryPoint(group) => {
                let at = group as usize;
                let shared = group == Group::One && self.state.control.common_point();
                if !(shared && self.version.served() == GicVersion::V3) {
                    self.state.points[at] = (value as u8 & 7).max(LEAST_POINTS[at]);
                }
            }
            // A GICv2 without security extensions has no GICC_NSAPR0.
            ActivePriorities(Group::One) if self.version.served() == GicVersion::V2 => {}
            ActivePriorities(group) => self.state.active[group as usize] = value,
            GroupEnable(Group::Zero) => self.state.control.set_group0(value & 1 != 0),
            GroupEnable(Group::One) => self.state.control.set_group1(value & 1 != 0),
            _ => {}
        }
    }

    fn read_control(&self) -> u32 {
        match self.version.served() {
            GicVersion::V2 => self.state.control.into_bits(),
            GicVersion::V3 => IccControl::new()
                .with_common_point(self.state.control.common_point())
                .with_eoi_mode(self.state.control.eoi_mode())
                .into_bits(),
        }
    }

    fn write_control(&mut self, value: u32) {
        let old = self.state.control;
        self.state.control = match self.version.served() {
            GicVersion::V2 => {
                let new = self::Control::from_bits(value);
                // The reserved bits stay zero.
                self::Control::new()
                    .with_group0(new.group0())
                    .with_group1(new.group1())
                    .with_ack_ctl(new.ack_ctl())
                    .with_fiq(new.fiq())
                    .with_common_point(new.common_point())
                    .with_eoi_mode(new.eoi_mode())
            }
            GicVersion::V3 => {
                let new = IccControl::from_bits(value);
                old.with_common_point(new.common_point())
                    .with_eoi_mode(new.eoi_mode())
            }
        };
    }

    /// The value of ICC_BPR1_EL1: the binary point in use, which may be group 0's (IHI 0069H,
    /// ICC_CTLR_EL1.CBPR).
    fn read_point(&self, group: Group) -> u8 {
        let shared = group == Group::One && self.state.control.common_point();
        if shared && self.version.served() == GicVersion::V3 {
            (self.state.points[0] + 1).min(7)
        } else {
            self.state.points[group as usize]
        }
    }

    fn enables(&self, group: Group) -> bool {
        match group {
            Group::Zero => self.state.control.group0(),
            Group::One => self.state.control.group1(),
        }
    }

    /// The part of a priority that preempts (IHI 0069H, 4.8.3; IHI 0048B, 3.3.3).
    fn group_priority(&self, lr: Lr) -> u8 {
        let low = match Group::of(lr) {
            Group::One if !self.state.control.common_point() => self.state.points[1],
            _ => self.state.points[0] + 1,
        };
        // With eight low bits, no priority preempts another.
        lr.priority() & (0xff00u32 >> (8 - u32::from(low.min(8)))) as u8
    }

    /// The most urgent pending interrupt of a group that is enabled, and its list register.
    fn pending(&self) -> Option<(usize, Lr)> {
        let all = self.lr.iter().copied().enumerate();
        all.filter(|(_, lr)| lr.state() == LrState::Pending && self.enables(Group::of(*lr)))
            .min_by_key(|(_, lr)| lr.priority())
    }

    /// The most urgent pending interrupt, if the priority mask allows it.
    fn unmasked(&self) -> Option<Lr> {
        self.pending()
            .map(|(_, lr)| lr)
            .filter(|lr| lr.priority() < self.state.mask)
    }

    fn preempts(&self, lr: Lr) -> bool {
        self.group_priority(lr) < self.running()
    }

    /// The running priority.
    fn running(&self) -> u8 {
        match self.state.active[0] | self.state.active[1] {
            0 => IDLE,
            levels => (levels.trailing_zeros() as u8) << 3,
        }
    }

    /// The value that identifies an interrupt: its id, and for an SGI of a GICv2 its sender
    /// (GICC_IAR.CPUID).
    fn iar_value(&self, lr: Lr) -> u32 {
        let sender = match self.version.served() {
            GicVersion::V2 if lr.virtual_id() < 16 => u32::from(lr.sender()) << 10,
            _ => 0,
        };
        lr.virtual_id() | sender
    }

    /// The special id that a register of `group` reads instead of `lr`'s; `None` if it may read
    /// that one.
    fn withheld(&self, group: Group, lr: Lr) -> Option<u32> {
        let its = Group::of(lr) == group;
        match self.version.served() {
            _ if its => None,
            // An interrupt of group 1, read by a register of group 0.
            GicVersion::V2 if group == Group::Zero => {
                (!self.state.control.ack_ctl()).then_some(OTHER_GROUP)
            }
            _ => Some(NONE),
        }
    }

    fn highest_pending(&self, group: Group) -> u32 {
        let Some((_, lr)) = self.pending() else {
            return NONE;
        };
        self.withheld(group, lr).unwrap_or(self.iar_value(lr))
    }

    fn acknowledge(&mut self, group: Group) -> u32 {
        let Some(best) = self.unmasked() else {
            return NONE;
        };
        if let Some(instead) = self.withheld(group, best) {
            return instead;
        }
        let Some((slot, _)) = self.pending().filter(|_| self.preempts(best)) else {
            return NONE;
        };
        let level = self.group_priority(best) >> 3;
        let at = self.active_of(Group::of(best));
        self.state.active[at] |= 1 << level;
        self.lr[slot % MAX_LRS].set_state(LrState::Active);
        self.iar_value(best)
    }

    /// The index of a group's active priorities.
    fn active_of(&self, group: Group) -> usize {
        match self.version.served() {
            GicVersion::V2 => 0,
            GicVersion::V3 => group as usize,
        }
    }

    /// Drops the running priority, if it belongs to `group`, and deactivates the interrupt, unless
    /// GICC_DIR has to. The answer is the physical interrupt that is deactivated.
    fn end(&mut self, group: Group, value: u32) -> Option<IntId> {
        let at = self.active_of(group);
        let lowest = self.state.active[at] & self.state.active[at].wrapping_neg();
        let others = self.state.active[1 - at];
        let most_urgent = lowest != 0 && (others == 0 || lowest < others & others.wrapping_neg());
        if value & 0x3ff >= 1020 || !most_urgent {
            return None;
        }
        self.state.active[at] &= !lowest;
        if self.state.control.eoi_mode() {
            return None;
        }
        self.deactivate(value)
    }

    /// Ends the active state of an interrupt. The answer is the physical interrupt that ends with
    /// it.
    fn deactivate(&mut self, value: u32) -> Option<IntId> {
        let version = self.version.served();
        let (id, sender) = (value & 0x3ff, (value >> 10 & 7) as u8);
        let is_it = |lr: &&mut Lr| {
            let sent = version == GicVersion::V2 && id < 16;
            lr.virtual_id() == id && lr.is_active() && (!sent || lr.sender() == sender)
        };
        let lr = self.lr.iter_mut().find(is_it)?;
        lr.set_state(LrState::new(lr.is_pending(), false));
        lr.hardware()
            .then(|| IntId::new(u32::from(lr.physical_id())))
    }
}
