//! What one vCPU has of its VM's interrupt controller.

use crate::bank::{Bank, SPI_BANKS, bits};
use crate::lr::Lr;
use crate::senders::Senders;
use crate::urgency::{Heads, Urgency};
use hanok_types::GicVersion;

/// How many list registers are used at most, of up to 16 (IHI 0069, 12.4): as many as a GIC-400, a
/// Cortex-A53, A57 and A72 have. Each one takes a part of an exit's time, which has to be short.
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
    /// had it when that was last read. Each SPI has one.
    pub homed: [u32; SPI_BANKS],
    /// The list registers as last written or read.
    pub lr: [Lr; MAX_LRS],
    /// A bit for each list register that held an interrupt when it was last read or written.
    pub used: u32,
    /// The list registers may no longer fit the model: the next `enter` has something to do.
    pub attention: bool,
    /// A bit for each register word that is marked: before the next choice its head has to be found
    /// anew, and whether interrupts of it are stranded (see `choice.rs`).
    pub words: u32,
    /// The heads of the words that are not marked.
    pub heads: Heads,
    /// Heads were found anew since the last choice.
    pub heads_changed: bool,
    /// A bit for each of the other words in which an interrupt that the guest has acknowledged is in no
    /// list register.
    pub acknowledged: u32,
    /// A bit for each of the other words in which an interrupt that the guest declared active is in no
    /// list register.
    pub forced: u32,
    /// A write of a guest has changed a listed interrupt, so that its list register no longer fits.
    pub refold: bool,
    /// A listed interrupt was latched once more.
    pub relatched: bool,
    /// More interrupts are pending than there are list registers.
    pub overflow: bool,
    /// The most urgent interrupt that found no list register.
    pub next: Urgency,
    /// The interrupt that comes once no list register is pending is enabled (ICH_HCR_EL2.NPIE).
    pub npie: bool,
    /// Interrupts wait, and each list register holds an acknowledged one: the ends of these are
    /// reported.
    pub stuck: bool,
    /// On a GICv2: maintenance interrupts are enabled, because the end of a listed interrupt is to be
    /// reported, or interrupts wait. Only while the vCPU is resident.
    pub reports: bool,
    /// The list registers hold values that are not this vCPU's: all of them have to be cleared first.
    /// `attention` is set, too.
    pub discard: bool,
    /// GICR_WAKER.ProcessorSleep.
    pub asleep: bool,
    /// The list register in which the last interrupt with a physical one behind it was listed.
    pub hardware_slot: u8,
}

impl Cpu {
    /// Whether no interrupt is listed, and none is to be.
    #[inline(always)]
    pub fn lists_nothing(&self) -> bool {
        self.used == 0 && !self.attention && !self.overflow && !self.discard
    }

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
            heads_changed: false,
            acknowledged: 0,
            forced: 0,
            refold: false,
            relatched: false,
            overflow: false,
            next: Urgency::NONE,
            npie: false,
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
            heads_changed,
            acknowledged,
            forced,
            refold,
            relatched,
            overflow,
            next,
            npie,
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
        (*heads_changed, *refold, *relatched) = (false, false, false);
        for cleared in [overflow, npie, stuck, reports] {
            *cleared = false;
        }
        (*attention, *discard, *asleep) = (true, true, true);
    }

    /// Whether pending interrupts wait for a list register.
    pub fn waits(&self) -> bool {
        self.overflow
    }

    /// Whether more than two words are marked.
    pub fn has_much(&self) -> bool {
        let but_one = self.words & self.words.wrapping_sub(1);
        but_one & but_one.wrapping_sub(1) != 0
    }

    /// The list registers in use, with their indices.
    pub fn slots(&self) -> impl Iterator<Item = (usize, Lr)> {
        bits(self.used).filter_map(|slot| {
            let slot = slot as usize;
            self.lr.get(slot).map(|lr| (slot, *lr))
        })
    }
}
