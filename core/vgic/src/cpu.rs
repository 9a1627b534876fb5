//! What one vCPU has of its VM's interrupt controller.

use crate::bank::{Bank, SPI_BANKS, bits};
use crate::lr::Lr;
use crate::senders::Senders;
use crate::urgency::{Heads, Urgency};
use hanok_types::GicVersion;

/// How many list registers are used at most, of up to 16 (IHI 0069, 12.4): as many as a GIC-400, a
/// Cortex-A53, A57 and A72 have. Each takes its part of an exit that is to be short.
pub const MAX_LRS: usize = 4;

/// One vCPU's part.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
pub(crate) struct Cpu {
    /// SGIs and PPIs.
    pub private: Bank,
    /// The senders of its SGIs, in a GICv2.
    pub senders: Senders,
    /// The SPIs that go to this vCPU.
    pub routed: [u32; SPI_BANKS],
    /// The SPIs of which this is the *home*: the vCPU whose list register has the interrupt, or
    /// had when last looked. Each SPI has one.
    pub homed: [u32; SPI_BANKS],
    /// The list registers as last written or read.
    pub lr: [Lr; MAX_LRS],
    /// A bit for each list register that held an interrupt when last looked at.
    pub used: u32,
    /// Something may be waiting for a list register.
    pub attention: bool,
    /// A bit for each register word that is to be looked at before the next choice: its head may
    /// be another one, or something of it be stranded (see `choice.rs`).
    pub words: u32,
    /// The heads of the other words.
    pub heads: Heads,
    /// Heads were found anew since the last choice.
    pub found: bool,
    /// Of the other words, those in which something that the guest has acknowledged is in no list
    /// register.
    pub acknowledged: u32,
    /// Of the other words, those in which something that it declared active is in none.
    pub forced: u32,
    /// What a list register holds no longer fits the model.
    pub refold: bool,
    /// What a list register holds may have become pending again.
    pub again: bool,
    /// More waits than fits.
    pub overflow: bool,
    /// The most urgent interrupt that found no list register.
    pub next: Urgency,
    /// The interrupt is on that comes once no list register is pending.
    pub called: bool,
    /// Something waits, and each list register holds what the guest has acknowledged: their ends
    /// are reported.
    pub stuck: bool,
    /// Of a GICv2: maintenance interrupts are taken, as the end of something listed is reported,
    /// or something waits. Only while the vCPU is resident.
    pub reports: bool,
    /// The list registers hold what is not ours: all of them are to be cleared first. Goes with
    /// `attention`.
    pub discard: bool,
    /// GICR_WAKER.ProcessorSleep.
    pub asleep: bool,
    /// Where the last interrupt of a physical device stood.
    pub hardware_slot: u8,
}

impl Cpu {
    pub fn new(version: GicVersion) -> Self {
        Self {
            private: Bank::private(version),
            senders: Senders::new(),
            routed: [0; SPI_BANKS],
            homed: [0; SPI_BANKS],
            lr: [Lr::new(); MAX_LRS],
            used: 0,
            attention: true,
            words: 0,
            heads: Heads::new(),
            found: false,
            acknowledged: 0,
            forced: 0,
            refold: false,
            again: false,
            overflow: false,
            next: Urgency::NONE,
            called: false,
            stuck: false,
            reports: false,
            discard: true,
            asleep: true,
            hardware_slot: 0,
        }
    }

    /// Back to [`Self::new`], with `private` as its bank.
    pub fn reset(&mut self, private: &Bank) {
        let Self {
            private: own,
            senders,
            routed,
            homed,
            lr,
            used,
            attention,
            words,
            heads,
            found,
            acknowledged,
            forced,
            refold,
            again,
            overflow,
            next,
            called,
            stuck,
            reports,
            discard,
            asleep,
            hardware_slot,
        } = self;
        own.reset(private);
        *senders = Senders::new();
        (*routed, *homed) = ([0; SPI_BANKS], [0; SPI_BANKS]);
        *lr = [Lr::new(); MAX_LRS];
        heads.clear();
        *next = Urgency::NONE;
        (*used, *words, *hardware_slot) = (0, 0, 0);
        (*acknowledged, *forced) = (0, 0);
        for cleared in [found, refold, again, overflow, called, stuck, reports] {
            *cleared = false;
        }
        (*attention, *discard, *asleep) = (true, true, true);
    }

    /// Whether more waits than there is room.
    pub fn waits(&self) -> bool {
        self.overflow
    }

    /// Whether more than two words are to be looked at.
    pub fn has_much(&self) -> bool {
        let but_one = self.words & self.words.wrapping_sub(1);
        but_one & but_one.wrapping_sub(1) != 0
    }

    /// The ids in list registers, with their slots.
    pub fn slots(&self) -> impl Iterator<Item = (usize, Lr)> {
        bits(self.used).filter_map(|slot| {
            let slot = slot as usize;
            self.lr.get(slot).map(|lr| (slot, *lr))
        })
    }
}
