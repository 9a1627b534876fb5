//! A CPU interface that acknowledges and ends interrupts in its list registers.

use crate::Lr;
use crate::lr::LrState;
use hanok_hal::ListRegisters;
use hanok_types::GicVersion;
use std::vec;
use std::vec::Vec;

/// A CPU's list registers, and the interrupts that its guest has acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Cpu {
    pub(super) lr: Vec<Lr>,
    pub(super) none_pending: bool,
    /// On a GICv2: whether maintenance interrupts are enabled; otherwise `None`.
    pub(super) reports: Option<bool>,
    /// Acknowledged and not yet ended, the running one last.
    pub(super) running: Vec<Taken>,
    /// Ended, but not deactivated (EOImode 1).
    pub(super) dropped: Vec<Taken>,
    pub(super) resident: bool,
    pub(super) deactivated: Vec<u32>,
}

/// An interrupt that the guest has acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) id: u32,
    pub(super) priority: u8,
    /// The sender of a GICv2's SGI.
    pub(super) sender: u8,
}

impl ListRegisters for Cpu {
    fn count(&self) -> usize {
        self.lr.len()
    }
    fn read(&self, index: usize) -> u64 {
        self.lr[index].into_bits()
    }
    fn write(&mut self, index: usize, value: u64) {
        let lr = Lr::from_bits(value);
        assert!(!(lr.hardware() && lr.state() == LrState::PendingActive));
        self.lr[index] = lr;
    }
    fn empty(&self) -> u32 {
        let empty = |lr: &Lr| !lr.is_valid() && !lr.eoi();
        (0..self.lr.len())
            .filter(|i| empty(&self.lr[*i]))
            .fold(0, |set, i| set | 1 << i)
    }
    fn set_none_pending_interrupt(&mut self, on: bool) {
        // A GICv2's backend has the underflow interrupt for its own use while nothing is reported.
        assert!(
            !on || self.reports != Some(false),
            "no maintenance interrupt can come"
        );
        self.none_pending = on;
    }
    fn report_ends(&mut self, on: bool) {
        assert!(
            on || self.reports.is_none() || !self.none_pending,
            "still to come"
        );
        assert!(!on || self.reports.is_some(), "of a GICv2 alone");
        self.reports = self.reports.map(|_| on);
    }
}

impl Cpu {
    pub(super) fn new(count: usize, version: GicVersion) -> Self {
        Self {
            lr: vec![Lr::new(); count],
            none_pending: false,
            reports: (version == GicVersion::V2).then_some(false),
            running: Vec::new(),
            dropped: Vec::new(),
            resident: true,
            deactivated: Vec::new(),
        }
    }

    pub(super) fn running_priority(&self) -> u16 {
        let least = self.running.iter().map(|taken| taken.priority).min();
        least.map_or(0x100, u16::from)
    }

    /// Acknowledges an interrupt, as a read of ICC_IAR1_EL1 or GICV_IAR does.
    pub(super) fn acknowledge(&mut self) -> Option<Taken> {
        let running = self.running_priority();
        let best = self
            .lr
            .iter_mut()
            .filter(|lr| lr.state() == LrState::Pending)
            .min_by_key(|lr| lr.priority())
            .filter(|lr| u16::from(lr.priority()) < running)?;
        best.set_state(LrState::Active);
        let taken = Taken {
            id: best.virtual_id(),
            priority: best.priority(),
            sender: best.sender(),
        };
        self.running.push(taken);
        Some(taken)
    }

    /// Deactivates an interrupt, and for a GICv2's SGI the sender's instance. The answer says whether a list
    /// register had it.
    pub(super) fn deactivate(&mut self, id: u32, sender: Option<u8>) -> bool {
        let is_it = |lr: &Lr| {
            let its = sender.is_none_or(|sender| sender == lr.sender());
            lr.virtual_id() == id && lr.is_active() && its
        };
        let Some(lr) = self.lr.iter_mut().find(|lr| is_it(lr)) else {
            return false;
        };
        lr.set_state(LrState::new(lr.is_pending(), false));
        if lr.hardware() {
            self.deactivated.push(u32::from(lr.physical_id()));
        }
        true
    }

    pub(super) fn maintenance(&self) -> bool {
        let mut states = self.lr.iter().map(|lr| lr.state());
        let none_pending = !states.any(|state| state == LrState::Pending);
        let ended = self.lr.iter().any(|lr| !lr.is_valid() && lr.eoi());
        self.reports != Some(false) && (ended || self.none_pending && none_pending)
    }

    /// Verifies a GICv2's list registers before its guest goes on: no end that is to be reported is lost, and
    /// an interrupt with HW=1 is the only listed one, and its end is not reported.
    pub(super) fn check_reports(&self) {
        let Some(reports) = self.reports else { return };
        let asks = self.lr.iter().any(|lr| lr.eoi()) || self.none_pending;
        assert!(reports || !asks, "an end is not reported: {self:?}");
        let valid = self.lr.iter().filter(|lr| lr.is_valid());
        if valid.clone().any(|lr| lr.hardware()) {
            assert!(!reports && valid.count() == 1, "not alone: {self:?}");
        }
    }
}
