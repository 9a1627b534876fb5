//! Which pending interrupt gets a list register next: the most urgent one.
//!
//! Nothing is sorted, and no exit examines all pending interrupts. For each word of 32 interrupts its
//! *head* is known: the most urgent interrupt of the word that may be listed for this vCPU. An event
//! that may make another interrupt the head marks the word ([`Cpu::words`]), and the head of a marked
//! word is found anew once, before the next choice. The most urgent interrupt of all is the least of the
//! heads; when it is listed, only its word's head is found anew. So a choice takes the same time,
//! whether five interrupts wait or 280.
//!
//! An event that takes an interrupt away (it is disabled, its line falls, it goes to another vCPU) marks
//! nothing. So a head is verified when it is chosen, and if it may no longer be listed, the head of its
//! word is found anew. A head is never less urgent than the word's most urgent interrupt.
//!
//! Rejected: a bitmap of words for each of 32 to 256 priorities, and find first set. A write that
//! enables 32 interrupts of 32 priorities would then have to change 32 bitmaps, and a VM would need a
//! kilobyte more for each vCPU; with heads, a change of a whole word costs finding one head.

use crate::bank::{Bank, Groups, Offer, SPI_BANKS, WORDS};
use crate::state::{Cpu, InterruptPlace, MAX_LRS, Vgic};
use crate::urgency::Urgency;
use hanok_types::VcpuId;

impl Urgency {
    /// The place of the interrupt, whose list register or route is `cpu`'s.
    pub fn place(self, cpu: usize) -> InterruptPlace {
        InterruptPlace {
            cpu,
            word: self.word(),
        }
    }
}

/// Why an interrupt is active in no list register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stranded {
    /// The guest acknowledged it, before its vCPU left a pCPU.
    Acknowledged,
    /// The guest declared it active.
    Forced,
}

impl Bank {
    /// The most urgent interrupt of `mask`, in word `word`.
    #[inline(always)]
    pub fn head(&self, word: usize, mask: u32) -> Urgency {
        if mask == 0 {
            return Urgency::NONE;
        }
        let (best, priority) = self.priorities.most_urgent(mask);
        Urgency::new(priority as u8, word as u32 * 32 + best.trailing_zeros())
    }
}

impl Cpu {
    /// The interrupts of a word that may be listed for this vCPU. `spis` are all SPIs.
    #[inline(always)]
    pub fn offer(&self, word: usize, spis: &[Bank; SPI_BANKS], groups: Groups) -> Offer {
        match word.checked_sub(1) {
            None => self.private.offer(groups, u32::MAX, u32::MAX),
            Some(spi) => {
                let spi = spi % SPI_BANKS;
                spis[spi].offer(groups, self.routed[spi], self.homed[spi])
            }
        }
    }

    /// The state of word `word`'s interrupts.
    #[inline(always)]
    pub fn bank<'a>(&'a self, word: usize, spis: &'a [Bank; SPI_BANKS]) -> &'a Bank {
        match word.checked_sub(1) {
            None => &self.private,
            Some(spi) => &spis[spi % SPI_BANKS],
        }
    }

    /// Finds the head of a word anew, and whether interrupts of it are active in no list register.
    #[inline(never)]
    fn update_head(&mut self, word: usize, spis: &[Bank; SPI_BANKS], groups: Groups) {
        let offer = self.offer(word, spis, groups);
        let mask = 1 << word;
        self.acknowledged &= !mask;
        self.forced &= !mask;
        if offer.acknowledged | offer.forced != 0 {
            self.acknowledged |= if offer.acknowledged != 0 { mask } else { 0 };
            self.forced |= if offer.forced != 0 { mask } else { 0 };
        }
        let head = self.bank(word, spis).head(word, offer.pending);
        self.heads.set(word, head);
    }

    /// Finds the head of a word in which no further interrupt has become stranded. The answer is the
    /// head, and a bit for each interrupt of the word that has the same priority.
    #[inline(always)]
    fn renew_head(
        &mut self,
        word: usize,
        spis: &[Bank; SPI_BANKS],
        groups: Groups,
    ) -> (Urgency, u32) {
        let (bank, routed) = match word.checked_sub(1) {
            None => (&self.private, u32::MAX),
            Some(spi) => (&spis[spi % SPI_BANKS], self.routed[spi % SPI_BANKS]),
        };
        let pending = bank.candidates(groups) & routed;
        if pending == 0 {
            self.heads.set(word, Urgency::NONE);
            return (Urgency::NONE, 0);
        }
        let (mask, priority) = bank.priorities.most_urgent(pending);
        let head = Urgency::new(priority as u8, word as u32 * 32 + mask.trailing_zeros());
        self.heads.put(word, head);
        (head, mask)
    }

    /// The most urgent interrupt that may be listed for this vCPU and is not, once the heads of all marked
    /// words were found.
    #[inline(never)]
    fn best(&mut self, spis: &[Bank; SPI_BANKS], groups: Groups) -> Urgency {
        loop {
            let best = self.heads.best();
            if best == Urgency::NONE || self.is_pending(best, spis, groups) {
                return best;
            }
            self.renew_head(best.word(), spis, groups);
        }
    }

    /// [`Self::best`] after `former`, which was the most urgent one, has got a list register. `peers` are
    /// the interrupts of the same word and priority that the last call left; zero at first. They come
    /// before all others, so that they are found once for all of them.
    #[inline(always)]
    pub(crate) fn best_after(
        &mut self,
        former: Urgency,
        peers: &mut u32,
        spis: &[Bank; SPI_BANKS],
        groups: Groups,
    ) -> Urgency {
        if *peers == 0 {
            let (head, mask) = self.renew_head(former.word(), spis, groups);
            if head == Urgency::NONE || head.priority() != former.priority() {
                return self.best(spis, groups);
            }
            *peers = mask;
        }
        let best = former.peer(peers.trailing_zeros());
        *peers &= *peers - 1;
        self.heads.put(best.word(), best);
        best
    }

    /// Whether a former head is still pending, and may be listed.
    #[inline(always)]
    fn is_pending(&self, head: Urgency, spis: &[Bank; SPI_BANKS], groups: Groups) -> bool {
        let pending = match head.word().checked_sub(1) {
            None => self.private.candidates(groups),
            Some(spi) => {
                let spi = spi % SPI_BANKS;
                spis[spi].candidates(groups) & self.routed[spi]
            }
        };
        pending >> head.bit() & 1 != 0
    }

    /// A bit for each word in which an interrupt may wait for a list register.
    pub fn waiting_words(&self) -> u32 {
        self.words | self.heads.words() | self.acknowledged | self.forced
    }

    /// Whether no list register is in use, and none is to be: nothing of this vCPU is in the CPU.
    #[inline]
    pub fn has_nothing_listed(&self) -> bool {
        self.used == 0 && self.waiting_words() == 0 && !self.reports && !self.discard
    }
}

impl Vgic {
    /// Does a part of the next [`Self::enter`] beforehand, so that it takes less time: finds the heads of
    /// the words that were marked.
    pub fn prepare_entry(&mut self, vcpu: VcpuId) {
        if vcpu.index() < self.vcpus {
            self.find_marked_heads(vcpu.index());
        }
    }

    /// Finds the heads of the words that were marked.
    pub(crate) fn find_marked_heads(&mut self, cpu: usize) {
        let Self {
            cpus, spis, groups, ..
        } = self;
        let cpu = &mut cpus[cpu];
        cpu.heads_changed |= cpu.words != 0;
        while cpu.words != 0 {
            let word = cpu.words.trailing_zeros() as usize;
            cpu.words &= cpu.words - 1;
            cpu.update_head(word, spis, *groups);
        }
    }

    /// [`Cpu::best`] of this vCPU.
    pub(crate) fn best(&mut self, cpu: usize) -> Urgency {
        self.cpus[cpu].best(&self.spis, self.groups)
    }

    /// [`Self::best`] where no word was marked since the last choice.
    #[inline(always)]
    pub(crate) fn best_unchanged(&mut self, cpu: usize) -> Urgency {
        let state = &self.cpus[cpu];
        let next = state.next;
        if next != Urgency::NONE
            && next != Urgency::FIRST
            && state.is_pending(next, &self.spis, self.groups)
        {
            return next;
        }
        self.best(cpu)
    }

    /// An interrupt that is active in no list register, because of `kind`. It may be any of them: all
    /// acknowledged ones find room together, and those that the guest declared active need none.
    pub(crate) fn stranded(&mut self, cpu: usize, kind: Stranded) -> Option<Urgency> {
        let Self {
            cpus, spis, groups, ..
        } = self;
        let cpu = &mut cpus[cpu];
        loop {
            let words = match kind {
                Stranded::Acknowledged => cpu.acknowledged,
                Stranded::Forced => cpu.forced,
            };
            if words == 0 {
                return None;
            }
            let word = words.trailing_zeros() as usize;
            let offer = cpu.offer(word, spis, *groups);
            let mask = match kind {
                Stranded::Acknowledged => offer.acknowledged,
                Stranded::Forced => offer.forced,
            };
            if mask != 0 {
                let id = word as u32 * 32 + mask.trailing_zeros();
                return Some(Urgency::new(0, id));
            }
            cpu.update_head(word, spis, *groups);
        }
    }
}

const _: () = assert!(MAX_LRS < 32 && WORDS < 32, "sets of them are words");
