//! What other pCPUs ask a vCPU's own pCPU to look at.
//!
//! Each vCPU has one word, so that a pCPU that asks needs no lock, and knows at once whether a
//! kick is on its way already. The word also carries the *posted SGIs*: software generated
//! interrupts that were sent to the vCPU and are not in its VM's interrupt controller yet. The
//! sender leaves an SGI here; the vCPU's own pCPU, or another pCPU that accesses the vCPU's private
//! interrupts first, puts the SGI into the interrupt controller.

use hanok_hal::sync::atomic::{AtomicU64, Ordering};
use hanok_types::VcpuId;

/// SGIs that exist.
const SGIS: u32 = 16;

/// What other pCPUs ask a vCPU's own pCPU to look at.
#[derive(Debug, Default)]
pub struct Requests(AtomicU64);

/// Whether the pCPU of a vCPU that was asked for something is to be kicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Kick {
    /// Nothing else makes it read the request soon.
    Needed,
    /// It was asked already, and a kick is on its way; or it reads its requests by itself in a while.
    UnderWay,
}

impl Kick {
    #[inline(always)]
    fn needed(needed: bool) -> Self {
        if needed { Self::Needed } else { Self::UnderWay }
    }
}

impl Requests {
    const INTERRUPTS: u64 = 1;
    /// Its pCPU has looked in vain too often: it looks by itself in a while ([`Checks`]).
    const QUIET: u64 = 2;
    const TIMERS: u64 = 4;
    const DUMP: u64 = 8;
    const ATTENTION: u64 = 16;
    const LOOK: u64 = 32;
    /// Whoever asks for a look at its interrupts need not kick.
    const NO_KICK: u64 = Self::INTERRUPTS | Self::QUIET;
    /// The requests; the bits from here on are posted SGIs.
    const FLAGS: u64 = 0xffff;

    /// Somebody wants to see its state.
    pub fn ask_dump(&self) {
        self.0.fetch_or(Self::DUMP, Ordering::Release);
    }

    /// Whether somebody asked to see its state since the last call.
    pub fn take_dump(&self) -> bool {
        self.take(Self::DUMP)
    }

    /// Somebody wants to know whether it is lost in its exceptions.
    pub fn ask_look(&self) {
        self.0.fetch_or(Self::LOOK, Ordering::Release);
    }

    /// Whether somebody asked for that since the last call.
    pub fn take_look(&self) -> bool {
        self.take(Self::LOOK)
    }

    /// The vCPU's interrupts changed: its list registers must be brought up to date.
    pub fn ask_interrupts(&self) -> Kick {
        let before = self.0.fetch_or(Self::INTERRUPTS, Ordering::AcqRel);
        Kick::needed(before & Self::NO_KICK == 0)
    }

    /// Leaves posted SGIs, which is a change of the vCPU's interrupts.
    #[inline(always)]
    pub(crate) fn post(&self, posted: PostedSgis) -> Kick {
        let bits = posted.0 << SGIS | Self::INTERRUPTS;
        let before = self.0.fetch_or(bits, Ordering::AcqRel);
        Kick::needed(before & Self::NO_KICK == 0)
    }

    /// The posted SGIs, which the caller now has to deliver.
    pub(crate) fn take_posted_sgis(&self) -> PostedSgis {
        if self.0.load(Ordering::Relaxed) <= Self::FLAGS {
            return PostedSgis::default();
        }
        PostedSgis(self.0.fetch_and(Self::FLAGS, Ordering::Acquire) >> SGIS)
    }

    /// One of the vCPU's timers changed: when it is due must be found out anew.
    pub fn ask_timers(&self) -> Kick {
        let both = Self::INTERRUPTS | Self::TIMERS;
        let before = self.0.fetch_or(both, Ordering::AcqRel);
        Kick::needed(before & both != both && before & Self::QUIET == 0)
    }

    /// Whether somebody changed its timers since the last call.
    pub fn take_timers(&self) -> bool {
        self.take(Self::TIMERS)
    }

    /// Whether it may run on may have changed: its VM ends, stands still or goes on.
    pub(crate) fn ask_attention(&self) {
        self.0.fetch_or(Self::ATTENTION, Ordering::AcqRel);
    }

    /// Whether that was asked since the last call. Before the answer is looked for.
    pub fn take_attention(&self) -> bool {
        self.take(Self::ATTENTION)
    }

    /// Where its interrupts changed since the last call and nothing else is asked, that
    /// request, with its posted SGIs; `None`, and all stays as it is, otherwise.
    #[inline(always)]
    pub fn take_interrupts_alone(&self) -> Option<PostedSgis> {
        // Nobody but the caller takes anything meanwhile.
        let all = self.0.swap(0, Ordering::AcqRel);
        if all & Self::FLAGS == Self::INTERRUPTS {
            return Some(PostedSgis(all >> SGIS));
        }
        self.0.fetch_or(all, Ordering::AcqRel);
        None
    }

    /// Whether its interrupts changed since the last call.
    pub fn take_interrupts(&self) -> bool {
        self.take(Self::INTERRUPTS)
    }

    /// Whoever asks from now on kicks nobody, or does again. On the vCPU's own pCPU, which looks at
    /// what was asked after it has said that it is quiet no more.
    pub fn set_quiet(&self, quiet: bool) {
        if quiet {
            self.0.fetch_or(Self::QUIET, Ordering::AcqRel);
        } else {
            self.0.fetch_and(!Self::QUIET, Ordering::AcqRel);
        }
    }

    /// Whether those who ask kick nobody.
    pub fn is_quiet(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Self::QUIET != 0
    }

    /// A new life begins: what was asked in the former one is void, but for a look at it.
    pub(crate) fn forget(&self) {
        self.0.fetch_and(Self::DUMP, Ordering::Acquire);
    }

    /// Whether there is anything to look at.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Self::FLAGS != 0
    }

    /// Whether there is anything to look at but its interrupts and timers: these concern nobody while
    /// it is off, and are looked at as it goes on where it has work anyway.
    pub(crate) fn any_but_interrupts(&self) -> bool {
        let others = Self::FLAGS & !(Self::INTERRUPTS | Self::TIMERS | Self::QUIET);
        self.0.load(Ordering::Relaxed) & others != 0
    }

    fn take(&self, which: u64) -> bool {
        self.0.load(Ordering::Relaxed) & which != 0
            && self.0.fetch_and(!which, Ordering::Acquire) & which != 0
    }
}

/// What may be done for somebody at another one's expense: so often in each [`Self::period`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowance<const AT_ONCE: u8> {
    left: u8,
    end: u64,
}

/// How often a pCPU looked at a vCPU that waits because others asked for it, and found nothing that
/// would wake it. What a sibling on another core asks for is done in the turn of whoever shares the
/// vCPU's core, so there is an end to it.
pub type Checks = Allowance<4>;

/// How often a device of a VM interrupted another VM's turn. Its end of an interrupt is the VM's own
/// business, which a sibling on another core may do at once and for ever while the line is high.
pub type Interruptions = Allowance<16>;

impl<const AT_ONCE: u8> Allowance<AT_ONCE> {
    /// So many of them in a period.
    pub const AT_ONCE: u8 = AT_ONCE;

    /// Of how many counter ticks a period is, at so many a second: eight milliseconds.
    pub const fn period(frequency: u64) -> u64 {
        frequency / 128
    }

    /// One more, at `now`. Until when there is to be none, if that was the last of its period.
    pub fn spend(&mut self, now: u64, frequency: u64) -> Option<u64> {
        if now >= self.end {
            self.left = AT_ONCE;
            self.end = now.saturating_add(Self::period(frequency));
        }
        self.left = self.left.saturating_sub(1);
        (self.left == 0).then_some(self.end)
    }
}

/// SGIs on their way to one vCPU, a bit each, in one set of sixteen for each *lane*. A lane is
/// who sent it, by its place among the VM's other vCPUs, which a GICv2's SGI tells; a GICv3's
/// do not, and all take lane 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PostedSgis(u64);

impl PostedSgis {
    /// How many lanes there are.
    const LANES: u32 = 3;

    /// SGI `id`, below 16, to a GICv3's vCPU.
    #[inline(always)]
    pub(crate) const fn anonymous(id: u32) -> Self {
        Self(1 << (id % SGIS))
    }

    /// SGI `id`, below 16, of a GICv2 to `to`; `None` where there is no lane for its sender.
    #[inline(always)]
    pub(crate) fn signed(id: u32, from: VcpuId, to: VcpuId) -> Option<Self> {
        let lane = lane(from, to);
        (lane < Self::LANES).then(|| Self(1 << (id % SGIS + lane * SGIS)))
    }

    /// The only one there is, with who sent it, should that matter; `None` where there is none,
    /// or several. `to` is the receiver.
    #[inline(always)]
    pub(crate) fn single(self, to: VcpuId) -> Option<(u32, VcpuId)> {
        let bit = self.single_bit()?;
        Some((bit % SGIS, sender(bit / SGIS, to)))
    }

    /// The bit of the only one there is, of a GICv3; `None` where there is none, or several.
    #[inline(always)]
    pub(crate) fn single_anonymous(self) -> Option<u32> {
        self.0.is_power_of_two().then_some(self.0 as u32)
    }

    /// The lanes in which there is any: a bit for each SGI, and who sent these, should that matter.
    pub(crate) fn lanes(self, to: VcpuId) -> impl Iterator<Item = (u16, VcpuId)> {
        let lanes = (0..Self::LANES).map(move |lane| {
            let sgis = (self.0 >> (lane * SGIS)) as u16;
            (sgis, sender(lane, to))
        });
        lanes.filter(|(sgis, _)| *sgis != 0)
    }

    /// The number of the only bit that is set; `None` where none is, or several.
    #[inline(always)]
    fn single_bit(self) -> Option<u32> {
        if usize::BITS == u64::BITS {
            return self.0.is_power_of_two().then(|| self.0.trailing_zeros());
        }
        // By halves, which is half the work of a CPU whose registers have 32 bits.
        let (half, below) = match (self.0 as u32, (self.0 >> 32) as u32) {
            (low, 0) => (low, 0),
            (0, high) => (high, 32),
            _ => return None,
        };
        half.is_power_of_two()
            .then(|| below + half.trailing_zeros())
    }
}

#[inline(always)]
fn lane(from: VcpuId, to: VcpuId) -> u32 {
    let (from, to) = (from.index() as u32, to.index() as u32);
    from - u32::from(from > to)
}

/// Whose lane it is.
#[inline(always)]
fn sender(lane: u32, to: VcpuId) -> VcpuId {
    let skipped = lane >= to.index() as u32;
    VcpuId::new((lane + u32::from(skipped)) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanok_types::GICV2_CPUS;
    use std::vec::Vec;

    fn vcpu(index: u32) -> VcpuId {
        VcpuId::new(index as u8)
    }

    #[test]
    fn a_lane_tells_who_sent_it() {
        for to in 0..GICV2_CPUS as u32 {
            let senders = (0..GICV2_CPUS as u32).filter(|from| *from != to);
            let lanes: Vec<_> = senders
                .clone()
                .map(|from| lane(vcpu(from), vcpu(to)))
                .collect();
            for (from, lane) in senders.zip(&lanes) {
                assert_eq!(sender(*lane, vcpu(to)), vcpu(from));
                let posted = PostedSgis::signed(9, vcpu(from), vcpu(to));
                let expected = (*lane < 3).then_some((9, vcpu(from)));
                assert_eq!(posted.and_then(|posted| posted.single(vcpu(to))), expected);
            }
            assert_eq!(lanes.iter().sum::<u32>(), (0..7).sum(), "each its own");
        }
    }

    #[test]
    fn posted_sgis_are_taken_once_and_all_together() {
        let requests = Requests::default();
        assert_eq!(requests.post(PostedSgis::anonymous(3)), Kick::Needed);
        assert_eq!(requests.post(PostedSgis::anonymous(15)), Kick::UnderWay);
        assert_eq!(requests.ask_interrupts(), Kick::UnderWay);
        let posted = requests.take_interrupts_alone().unwrap();
        let lanes: Vec<_> = posted.lanes(vcpu(0)).map(|(sgis, _)| sgis).collect();
        assert_eq!((lanes, posted.single(vcpu(0))), (std::vec![0x8008], None));
        assert!(!requests.any() && requests.take_posted_sgis() == PostedSgis::default());
    }

    #[test]
    fn a_sibling_cannot_have_it_looked_at_in_vain_for_ever() {
        const SECOND: u64 = 62_500_000;
        let (requests, mut checks) = (Requests::default(), Checks::default());
        let (mut kicks, mut now, mut quiet_until) = (0, 1000, None);
        // A million requests in a second, by every way there is.
        for n in 0..1_000_000_u64 {
            now += SECOND / 1_000_000;
            if quiet_until.is_some_and(|end| now >= end) {
                quiet_until = None;
                requests.set_quiet(false);
                // What came meanwhile is seen now.
                assert!(requests.take_interrupts());
                requests.take_timers();
                requests.take_posted_sgis();
            }
            let kick = match n % 3 {
                0 => requests.ask_interrupts(),
                1 => requests.ask_timers(),
                _ => requests.post(PostedSgis::anonymous(3)),
            };
            if kick == Kick::UnderWay {
                continue;
            }
            kicks += 1;
            requests.take_timers();
            requests.take_interrupts();
            requests.take_posted_sgis();
            quiet_until = checks.spend(now, SECOND);
            requests.set_quiet(quiet_until.is_some());
        }
        let most = 129 * u64::from(Checks::AT_ONCE);
        assert!((500..=most).contains(&kicks), "{kicks}");
    }

    #[test]
    fn other_requests_leave_posted_sgis_in_place() {
        let requests = Requests::default();
        let _ = requests.post(PostedSgis::anonymous(1));
        let _ = requests.ask_timers();
        assert_eq!(requests.take_interrupts_alone(), None);
        assert!(requests.take_timers() && requests.take_interrupts());
        assert!(!requests.any(), "posted SGIs alone are no request");
        assert_eq!(requests.take_interrupts_alone(), None);
        assert_eq!(requests.take_posted_sgis(), PostedSgis::anonymous(1));
    }

    /// All sets of what can be asked: what concerns a vCPU that is off, or has work anyway, is what is no
    /// interrupt and no timer; being quiet is nothing that was asked.
    #[test]
    fn what_was_asked_is_told_apart() {
        let ask: [fn(&Requests); 6] = [
            |requests| assert_eq!(requests.ask_interrupts(), Kick::Needed),
            |requests| _ = requests.ask_timers(),
            |requests| requests.set_quiet(true),
            Requests::ask_dump,
            Requests::ask_attention,
            Requests::ask_look,
        ];
        for set in 0..1_u32 << ask.len() {
            let requests = Requests::default();
            let wanted = ask.iter().enumerate().filter(|(n, _)| set >> n & 1 != 0);
            wanted.for_each(|(_, ask)| ask(&requests));
            assert_eq!(requests.any_but_interrupts(), set >> 3 != 0, "{set:b}");
            assert_eq!(requests.any(), set != 0, "{set:b}");
            assert_eq!(requests.is_quiet(), set >> 2 & 1 != 0, "{set:b}");
            let taken = [
                requests.take_interrupts(),
                requests.take_timers(),
                requests.take_dump(),
                requests.take_attention(),
                requests.take_look(),
            ];
            let timers = set >> 1 & 1 != 0;
            let interrupts = set & 1 != 0 || timers;
            let others = [3, 4, 5].map(|n| set >> n & 1 != 0);
            assert_eq!(taken[..2], [interrupts, timers], "{set:b}");
            assert_eq!(taken[2..], others, "{set:b}");
            requests.set_quiet(false);
            assert!(!requests.any(), "{set:b}");
        }
    }

    #[test]
    fn a_new_boot_starts_without_posted_sgis_of_the_former() {
        let requests = Requests::default();
        let _ = requests.post(PostedSgis::anonymous(1));
        requests.ask_dump();
        requests.forget();
        assert!(
            requests.take_posted_sgis() == PostedSgis::default()
                && requests.take_dump()
                && !requests.any()
        );
    }
}
