//! The state of 32 interrupts, a bit or a byte each, so that "pending, enabled and not yet
//! listed" is a few operations on words for all 32 together.

use hanok_types::GicVersion;
use hanok_types::platform::SPIS;

/// Words of 32 SPIs.
pub(crate) const SPI_BANKS: usize = SPIS as usize / 32;
/// Words of 32 interrupts that concern one vCPU: its private ones', then the SPIs'.
pub(crate) const WORDS: usize = 1 + SPI_BANKS;

/// What of one word may be listed, a mask for each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offer {
    /// Acknowledged by the guest, and in no list register.
    pub acknowledged: u32,
    /// Not seen by it yet.
    pub pending: u32,
    /// Declared active by it.
    pub forced: u32,
}

impl Offer {
    /// How many there are.
    pub fn number(self) -> u32 {
        (self.acknowledged | self.pending | self.forced).count_ones()
    }
}

/// The SGIs among the private interrupts.
const SGIS: u32 = 0xffff;

/// Which groups GICD_CTLR forwards, as masks.
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

    /// Those of 32 interrupts, of which `group1` are of group 1, that are forwarded.
    pub fn forwarded(self, group1: u32) -> u32 {
        group1 & self.group1 | !group1 & self.group0
    }
}

/// State of the 32 interrupts of one register word (`INTID / 32`).
#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
pub(crate) struct Bank {
    /// ISENABLER.
    pub enabled: u32,
    /// IGROUPR: of group 1.
    pub group1: u32,
    /// ICFGR: edge-triggered.
    pub edge: u32,
    /// Pending, and not in a list register: an edge, a write to ISPENDR, an SGI, or a
    /// physical interrupt. A level line is not latched.
    pub latch: u32,
    /// The input line is high.
    pub line: u32,
    /// Active; of a listed one as of the last fold.
    pub active: u32,
    /// Active because the guest wrote ISACTIVER, not because it acknowledged: may give way.
    pub forced: u32,
    /// In a list register.
    pub listed: u32,
    /// Pending in the list register, as of the last fold.
    pub shown: u32,
    /// Pending in the list register by latch, so that a falling line does not end it.
    pub soft: u32,
    /// A physical interrupt stands behind what is in `latch` or, if unlisted, `active`.
    pub hardware: u32,
    /// A physical interrupt stands behind what is listed.
    pub hardware_listed: u32,
    /// Listed ones whose list register is to lose its pending state at the next fold.
    pub unpend: u32,
    /// Listed ones whose list register is to lose its active state at the next fold.
    pub deactivate: u32,
    /// Listed ones whose list register is to become active at the next fold.
    pub activate: u32,
    /// Ones whose physical interrupt is to be deactivated by software.
    pub released: u32,
    /// IPRIORITYR.
    pub priorities: Priorities,
    /// The physical interrupt behind each, once there was one.
    pub physical: [u16; 32],
    /// SGIs that are pending once for each sender, which is a GICv2's: always enabled, and
    /// pending by registers of their own alone (`sgi.rs`).
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

    /// 32 SPIs.
    pub const fn spis() -> Self {
        Self::new(0, 0)
    }

    /// A vCPU's SGIs and PPIs. SGIs are edge-triggered and cannot be set otherwise (IHI 0069,
    /// GICR_ICFGR0; IHI 0048B, 4.3.13).
    pub const fn private(version: GicVersion) -> Self {
        match version {
            GicVersion::V2 => Self::new(SGIS, SGIS),
            GicVersion::V3 => Self::new(SGIS, 0),
        }
    }

    /// Back to the state of a bank with these `edge` and `sourced`. Lines keep their level, as their
    /// devices do not change by it; every physical interrupt held is released. Field by field: a
    /// whole bank is a hundred instructions to copy, and there are sixteen.
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

    /// Pending by latch or line, whether or not a list register shows it too.
    pub fn due(&self) -> u32 {
        self.latch | self.line & !self.edge
    }

    /// What ISPENDR reads.
    pub fn pending(&self) -> u32 {
        self.due() | self.shown
    }

    /// Enabled, and of a group that is forwarded.
    #[inline(always)]
    pub fn delivered(&self, groups: Groups) -> u32 {
        self.enabled & groups.forwarded(self.group1)
    }

    /// Pending and free to be listed.
    #[inline(always)]
    pub fn candidates(&self, groups: Groups) -> u32 {
        self.due() & self.delivered(groups) & !self.active & !self.listed
    }

    /// Active, or put there by ISACTIVER, and in no list register.
    pub fn stranded(&self) -> u32 {
        self.active & !self.listed
    }

    /// What of these may be listed for a vCPU: of the `routed` ones that go to it, and those that had
    /// it as their home.
    #[inline(always)]
    pub fn offer(&self, groups: Groups, routed: u32, homed: u32) -> Offer {
        let stranded = self.stranded() & homed;
        Offer {
            acknowledged: stranded & !self.forced,
            pending: self.candidates(groups) & routed,
            forced: stranded & self.forced,
        }
    }

    /// Those that are not as after reset with nothing going on.
    pub fn busy(&self) -> u32 {
        self.pending() | self.active | self.line | self.listed
    }

    pub fn priority(&self, bit: u32) -> u8 {
        self.priorities.get(bit)
    }

    pub fn physical(&self, bit: u32) -> u16 {
        self.physical.get(bit as usize).copied().unwrap_or(0)
    }

    /// Marks for software deactivation those of `mask` whose unlisted state has a physical
    /// interrupt behind it and has ended.
    pub fn release_ended(&mut self, mask: u32) {
        let ended = mask & self.hardware & !self.latch & !(self.active & !self.listed);
        self.hardware &= !ended;
        self.released |= ended;
    }
}

/// The priorities of 32 interrupts, as a word for each bit of a priority, the most significant
/// first: so the most urgent of any set of them is found in a few operations on whole words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Priorities([u32; 8]);

impl Priorities {
    /// That of interrupt `bit`, below 32.
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

    /// Sets that of interrupt `bit`; its bit, if that changed anything.
    pub fn set(&mut self, bit: u32, priority: u8) -> u32 {
        let mut changed = 0;
        for (n, word) in self.0.iter_mut().enumerate() {
            let new = *word & !(1 << bit) | u32::from(priority >> (7 - n) & 1) << bit;
            changed |= *word ^ new;
            *word = new;
        }
        changed
    }

    /// The most urgent ones of the interrupts `mask`, and their priority.
    #[inline(always)]
    pub fn most_urgent(&self, mut mask: u32) -> (u32, u32) {
        let mut priority = 0;
        // Written out, as a loop takes twice as long.
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
        // Most CPUs have five bits.
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
