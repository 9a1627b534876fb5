//! The state of 32 interrupts, a bit or a byte each, so that a question such as "pending, enabled
//! and not listed" is a few operations on words for all 32 together.

use hanok_types::GicVersion;
use hanok_types::platform::SPIS;

/// The number of words of 32 SPIs.
pub(crate) const SPI_BANKS: usize = SPIS as usize / 32;
/// The number of words of 32 interrupts that concern one vCPU: that of its private ones, then those
/// of the SPIs.
pub(crate) const WORDS: usize = 1 + SPI_BANKS;

/// The interrupts of one word that may be listed, as a mask for each reason.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offer {
    /// The guest has acknowledged them, and they are in no list register.
    pub acknowledged: u32,
    /// They are pending, and in no list register.
    pub pending: u32,
    /// The guest has declared them active, by ISACTIVER.
    pub forced: u32,
}

impl Offer {
    /// The number of interrupts in the offer.
    pub fn number(self) -> u32 {
        (self.acknowledged | self.pending | self.forced).count_ones()
    }
}

/// The SGIs among the private interrupts.
const SGIS: u32 = 0xffff;

/// The groups that GICD_CTLR forwards, as masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    pub group0: u32,
    pub group1: u32,
}

impl Groups {
    pub fn new(group0: bool, group1: bool) -> Self {
        let mask = |on| if on { u32::MAX } else { 0 };
        Self {
            group0: mask(group0),
            group1: mask(group1),
        }
    }

    /// The forwarded ones of 32 interrupts, of which `group1` are of group 1.
    pub fn forwarded(self, group1: u32) -> u32 {
        group1 & self.group1 | !group1 & self.group0
    }
}

/// The state of the 32 interrupts of one register word (`INTID / 32`).
#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
pub(crate) struct Bank {
    /// ISENABLER.
    pub enabled: u32,
    /// IGROUPR: in group 1.
    pub group1: u32,
    /// ICFGR: edge-triggered.
    pub edge: u32,
    /// Pending, and not in a list register, because of an edge, a write to ISPENDR, an SGI, or a
    /// physical interrupt. The level of a line is not latched.
    pub latch: u32,
    /// The input line is high.
    pub line: u32,
    /// Active; for a listed interrupt, as of the last fold.
    pub active: u32,
    /// Active because the guest wrote ISACTIVER, not because it acknowledged the interrupt. Its
    /// list register may be used for another interrupt.
    pub forced: u32,
    /// In a list register.
    pub listed: u32,
    /// Pending in the list register, as of the last fold.
    pub shown: u32,
    /// Pending in the list register by latch, so that a falling line does not end it.
    pub soft: u32,
    /// There is a physical interrupt behind the state in `latch` or, if it is not listed, in
    /// `active`.
    pub hardware: u32,
    /// There is a physical interrupt behind the listed state.
    pub hardware_listed: u32,
    /// Listed, and the list register must lose its pending state at the next fold.
    pub unpend: u32,
    /// Listed, and the list register must lose its active state at the next fold.
    pub deactivate: u32,
    /// Listed, and the list register must become active at the next fold.
    pub activate: u32,
    /// The physical interrupt must be deactivated by software.
    pub released: u32,
    /// IPRIORITYR.
    pub priorities: Priorities,
    /// The physical interrupt behind each interrupt, once there was one.
    pub physical: [u16; 32],
    /// SGIs that are pending once for each sender, as a GICv2's are: they are always enabled, and
    /// only registers of their own change their pending state (`sgi.rs`).
    pub sourced: u32,
}

impl Bank {
    const fn new(edge: u32, sourced: u32) -> Self {
        Self {
            enabled: sourced,
            group1: 0,
            edge,
            latch: 0,
            line: 0,
            active: 0,
            forced: 0,
            listed: 0,
            shown: 0,
            soft: 0,
            hardware: 0,
            hardware_listed: 0,
            unpend: 0,
            deactivate: 0,
            activate: 0,
            released: 0,
            priorities: Priorities([0; 8]),
            physical: [0; 32],
            sourced,
        }
    }

    /// A bank of 32 SPIs.
    pub const fn spis() -> Self {
        Self::new(0, 0)
    }

    /// The bank of a vCPU's SGIs and PPIs. SGIs are always edge-triggered (IHI 0069, GICR_ICFGR0;
    /// IHI 0048B, 4.3.13).
    pub const fn private(version: GicVersion) -> Self {
        match version {
            GicVersion::V2 => Self::new(SGIS, SGIS),
            GicVersion::V3 => Self::new(SGIS, 0),
        }
    }

    /// Resets the bank to the `edge` and `sourced` of `fresh`. Lines keep their levels, since a
    /// reset does not change their devices; every physical interrupt that is held is released. Each
    /// field is set alone: copying a whole bank takes a hundred instructions, and there are sixteen
    /// banks.
    pub fn reset(&mut self, fresh: &Self) {
        let Self {
            enabled,
            group1,
            edge,
            latch,
            line: _,
            active,
            forced,
            listed,
            shown,
            soft,
            hardware,
            hardware_listed,
            unpend,
            deactivate,
            activate,
            released,
            priorities,
            physical: _,
            sourced: _,
        } = self;
        *released |= *hardware | *hardware_listed;
        (*enabled, *group1, *edge) = (fresh.enabled, fresh.group1, fresh.edge);
        for cleared in [latch, active, forced, listed, shown, soft, hardware] {
            *cleared = 0;
        }
        for cleared in [hardware_listed, unpend, deactivate, activate] {
            *cleared = 0;
        }
        *priorities = Priorities([0; 8]);
    }

    /// Pending by latch or line, whether or not a list register also shows that.
    pub fn due(&self) -> u32 {
        self.latch | self.line & !self.edge
    }

    /// The value of ISPENDR.
    pub fn pending(&self) -> u32 {
        self.due() | self.shown
    }

    /// Enabled, and in a group that is forwarded.
    #[inline(always)]
    pub fn delivered(&self, groups: Groups) -> u32 {
        self.enabled & groups.forwarded(self.group1)
    }

    /// Pending, and may be listed.
    #[inline(always)]
    pub fn candidates(&self, groups: Groups) -> u32 {
        self.due() & self.delivered(groups) & !self.active & !self.listed
    }

    /// Active because of an acknowledgement or of ISACTIVER, and in no list register.
    pub fn stranded(&self) -> u32 {
        self.active & !self.listed
    }

    /// The interrupts that may be listed for a vCPU: among those `routed` to it, and those whose
    /// home it is.
    #[inline(always)]
    pub fn offer(&self, groups: Groups, routed: u32, homed: u32) -> Offer {
        let stranded = self.stranded() & homed;
        Offer {
            acknowledged: stranded & !self.forced,
            pending: self.candidates(groups) & routed,
            forced: stranded & self.forced,
        }
    }

    /// The interrupts whose state is not that after a reset.
    pub fn busy(&self) -> u32 {
        self.pending() | self.active | self.line | self.listed
    }

    #[inline(always)]
    pub fn priority(&self, bit: u32) -> u8 {
        self.priorities.get(bit)
    }

    pub fn physical(&self, bit: u32) -> u16 {
        self.physical.get(bit as usize).copied().unwrap_or(0)
    }

    /// Marks for deactivation by software those of `mask` whose unlisted state had a physical
    /// interrupt behind it and has ended.
    pub fn release_ended(&mut self, mask: u32) {
        let ended = mask & self.hardware & !self.latch & !(self.active & !self.listed);
        self.hardware &= !ended;
        self.released |= ended;
    }
}

/// The priorities of 32 interrupts, as a word for each bit of a priority, the most significant bit
/// first. So the most urgent of any set of them is found in a few operations on whole words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Priorities([u32; 8]);

impl Priorities {
    /// The priority of interrupt `bit`, below 32.
    #[inline(always)]
    pub fn get(&self, bit: u32) -> u8 {
        let mut priority = 0;
        // Written out, as a loop takes twice as long.
        macro_rules! add {
            ($($n:literal)*) => {$( priority |= (self.0[$n] >> bit & 1) << (7 - $n); )*};
        }
        add!(0 1 2 3 4);
        // Most CPUs have five bits.
        if self.0[5] | self.0[6] | self.0[7] != 0 {
            add!(5 6 7);
        }
        priority as u8
    }

    /// Sets the priority of interrupt `bit`. The answer is its bit if that changed anything, else
    /// zero.
    pub fn set(&mut self, bit: u32, priority: u8) -> u32 {
        let mut changed = 0;
        for (n, word) in self.0.iter_mut().enumerate() {
            let new = *word & !(1 << bit) | u32::from(priority >> (7 - n) & 1) << bit;
            changed |= *word ^ new;
            *word = new;
        }
        changed
    }

    /// The most urgent interrupts of `mask`, and their priority.
    #[inline(always)]
    pub fn most_urgent(&self, mut mask: u32) -> (u32, u32) {
        let mut priority = 0;
        // Written out: a loop would take twice as long.
        macro_rules! narrow {
            ($($n:literal)*) => {$(
                let lower = mask & !self.0[$n];
                if lower == 0 {
                    priority |= 0x80 >> $n;
                } else {
                    mask = lower;
                }
            )*};
        }
        narrow!(0 1 2 3 4);
        // Most CPUs have five bits of priority.
        if self.0[5] | self.0[6] | self.0[7] != 0 {
            narrow!(5 6 7);
        }
        (mask, priority)
    }
}

/// The set bits of a word, lowest first.
pub(crate) fn bits(mut word: u32) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(bit)
    })
}
