//! Requests of other pCPUs to a vCPU's own pCPU.
//!
//! Each vCPU has one word, so that a pCPU that asks needs no lock, and knows at once whether a
//! kick is on its way already. The word also carries the *posted SGIs*: software generated
//! interrupts that were sent to the vCPU and are not in its VM's interrupt controller yet. The
//! sender leaves an SGI here; the vCPU's own pCPU, or another pCPU that accesses the vCPU's private
//! interrupts first, puts the SGI into the interrupt controller.

use hanok_hal::sync::atomic::{AtomicU64, Ordering};
use hanok_types::VcpuId;

/// The number of SGIs.
const SGIS: u32 = 16;

/// The requests to the pCPU of one vCPU.
#[derive(Debug, Default)]
pub struct Requests(AtomicU64);

/// Whether the pCPU of a vCPU must be kicked after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Kick {
    /// Without a kick, the pCPU would not read the request soon.
    Needed,
    /// The request was made before, and a kick is on its way; or the pCPU will read its requests by
    /// itself in a while.
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
    /// The pCPU has checked the vCPU in vain too often: it checks by itself in a while
    /// ([`Checks`]).
    const QUIET: u64 = 2;
    const TIMERS: u64 = 4;
    const DUMP: u64 = 8;
    const ATTENTION: u64 = 16;
    const LOOK: u64 = 32;
    const RELAY: u64 = 64;
    const CHANGE: u64 = 128;
    /// If one of these is set, a request to check interrupts needs no kick.
    const NO_KICK: u64 = Self::INTERRUPTS | Self::QUIET;
    /// The bits of requests. The bits above them are posted SGIs.
    const FLAGS: u64 = 0xffff;

    /// Requests that the vCPU's pCPU looks at a change that somebody wants of the vCPU's interface.
    pub fn ask_change(&self) {
        self.0.fetch_or(Self::CHANGE, Ordering::Release);
    }

    /// Whether that was requested since the last call.
    pub fn take_change(&self) -> bool {
        self.take(Self::CHANGE)
    }

    /// Requests a dump of the vCPU.
    pub fn ask_dump(&self) {
        self.0.fetch_or(Self::DUMP, Ordering::Release);
    }

    /// Whether a dump was requested since the last call.
    pub fn take_dump(&self) -> bool {
        self.take(Self::DUMP)
    }

    /// Requests to find out whether the vCPU is in an exception storm.
    pub fn ask_look(&self) {
        self.0.fetch_or(Self::LOOK, Ordering::Release);
    }

    /// Whether that was requested since the last call.
    pub fn take_look(&self) -> bool {
        self.take(Self::LOOK)
    }

    /// Requests to tell other vCPUs of the VM that their interrupts changed.
    pub(crate) fn ask_relay(&self) {
        self.0.fetch_or(Self::RELAY, Ordering::AcqRel);
    }

    /// Whether one of those requests was made that have nothing to do with interrupts and timers.
    #[inline(always)]
    pub fn has_seldom_ones(&self) -> bool {
        const SELDOM: u64 = Requests::DUMP
            | Requests::ATTENTION
            | Requests::LOOK
            | Requests::RELAY
            | Requests::CHANGE;
        self.0.load(Ordering::Relaxed) & SELDOM != 0
    }

    /// Whether that was requested since the last call.
    pub(crate) fn take_relay(&self) -> bool {
        self.take(Self::RELAY)
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

    /// One of the vCPU's timers changed: its deadline must be computed again.
    pub fn ask_timers(&self) -> Kick {
        let both = Self::INTERRUPTS | Self::TIMERS;
        let before = self.0.fetch_or(both, Ordering::AcqRel);
        Kick::needed(before & both != both && before & Self::QUIET == 0)
    }

    /// Whether its timers or interrupts changed since that was last taken.
    #[inline(always)]
    pub fn asks_refresh(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (Self::TIMERS | Self::INTERRUPTS) != 0
    }

    /// Whether its timers changed since the last call.
    pub fn take_timers(&self) -> bool {
        self.take(Self::TIMERS)
    }

    /// Whether the vCPU may run may have changed, because its VM ends, is paused or is resumed.
    pub fn ask_attention(&self) {
        self.0.fetch_or(Self::ATTENTION, Ordering::AcqRel);
    }

    /// Whether that was requested since the last call. To be called before the answer is computed.
    pub fn take_attention(&self) -> bool {
        self.take(Self::ATTENTION)
    }

    /// If interrupts changed since the last call and nothing else is requested, takes that request
    /// with its posted SGIs; otherwise the answer is `None`, and all requests stay.
    #[inline(always)]
    pub fn take_interrupts_alone(&self) -> Option<PostedSgis> {
        // Only the caller takes requests, so none disappears meanwhile.
        let all = self.0.swap(0, Ordering::AcqRel);
        if all & Self::FLAGS == Self::INTERRUPTS {
            return Some(PostedSgis(all >> SGIS));
        }
        self.0.fetch_or(all, Ordering::AcqRel);
        None
    }

    /// Whether the vCPU's interrupts changed since the last call.
    pub fn take_interrupts(&self) -> bool {
        self.take(Self::INTERRUPTS)
    }

    /// Sets whether requests are made without kicks from now on. On the vCPU's own pCPU, which
    /// checks the requests after it has ended the quiet state.
    pub fn set_quiet(&self, quiet: bool) {
        if quiet {
            self.0.fetch_or(Self::QUIET, Ordering::AcqRel);
        } else {
            self.0.fetch_and(!Self::QUIET, Ordering::AcqRel);
        }
    }

    /// Whether requests are made without kicks.
    pub fn is_quiet(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Self::QUIET != 0
    }

    /// Drops the requests of the former boot, except those of people.
    pub(crate) fn forget(&self) {
        self.0
            .fetch_and(Self::DUMP | Self::CHANGE, Ordering::Acquire);
    }

    /// Whether nothing at all is requested, and nothing posted.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Whether there is any request.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Self::FLAGS != 0
    }

    /// Whether there is any request but those about interrupts and timers. These do not matter
    /// while the vCPU is off, and are served when it goes on if it has work anyway.
    pub(crate) fn any_but_interrupts(&self) -> bool {
        let others = Self::FLAGS & !(Self::INTERRUPTS | Self::TIMERS | Self::QUIET);
        self.0.load(Ordering::Relaxed) & others != 0
    }

    fn take(&self, which: u64) -> bool {
        self.0.load(Ordering::Relaxed) & which != 0
            && self.0.fetch_and(!which, Ordering::Acquire) & which != 0
    }
}

/// An allowance for work that is done for one VM in another one's time: so many times in each
/// [`Self::period`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowance<const AT_ONCE: u8> {
    left: u8,
    end: u64,
}

/// The number of times that a pCPU checked a waiting vCPU because of a request and found nothing
/// that would wake the vCPU. Another vCPU of the VM can cause such checks from another pCPU, and
/// they are made in the turn of whichever vCPU shares the pCPU. So they are limited.
pub type Checks = Allowance<4>;

/// The number of times that a device of a VM interrupted another VM's turn. Only the VM decides
/// when it ends the device's interrupt, and a vCPU of it on another pCPU could do that at once and
/// for ever while the line is high. So they are limited.
pub type Interruptions = Allowance<16>;

impl<const AT_ONCE: u8> Allowance<AT_ONCE> {
    /// The number that is allowed in a period.
    pub const AT_ONCE: u8 = AT_ONCE;

    /// The length of a period in ticks of a counter with this frequency: eight milliseconds.
    pub const fn period(frequency: u64) -> u64 {
        frequency / 128
    }

    /// Uses the allowance once, at `now`. If that was the last time in its period, the answer is
    /// the instant until which it may not be used again.
    pub fn spend(&mut self, now: u64, frequency: u64) -> Option<u64> {
        if now >= self.end {
            self.left = AT_ONCE;
            self.end = now.saturating_add(Self::period(frequency));
        }
        self.left = self.left.saturating_sub(1);
        (self.left == 0).then_some(self.end)
    }
}

/// SGIs on their way to one vCPU, one bit each, in a set of sixteen for each *lane*. A lane is the
/// sender, by its place among the VM's other vCPUs: an SGI of a GICv2 tells its sender. Those of a
/// GICv3 do not, and all use lane 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PostedSgis(u64);

impl PostedSgis {
    /// The number of lanes.
    const LANES: u32 = 3;

    /// Whether there is none.
    #[inline(always)]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// SGI `id`, below 16, to a vCPU with a GICv3.
    #[inline(always)]
    pub(crate) const fn anonymous(id: u32) -> Self {
        Self(1 << (id % SGIS))
    }

    /// SGI `id`, below 16, of a GICv2, from `from` to `to`; `None` if there is no lane for the
    /// sender.
    #[inline(always)]
    pub(crate) fn signed(id: u32, from: VcpuId, to: VcpuId) -> Option<Self> {
        let lane = lane(from, to);
        (lane < Self::LANES).then(|| Self(1 << (id % SGIS + lane * SGIS)))
    }

    /// The only posted SGI, with its sender (which matters on a GICv2 only); `None` if there is
    /// none, or several. `to` is the receiver.
    #[inline(always)]
    pub(crate) fn single(self, to: VcpuId) -> Option<(u32, VcpuId)> {
        let bit = self.single_bit()?;
        Some((bit % SGIS, sender(bit / SGIS, to)))
    }

    /// The bit of the only posted SGI of a GICv3; `None` if there is none, or several.
    #[inline(always)]
    pub(crate) fn single_anonymous(self) -> Option<u32> {
        self.0.is_power_of_two().then_some(self.0 as u32)
    }

    /// The lanes that have SGIs: a bit for each SGI, and their sender (which matters on a GICv2
    /// only).
    pub(crate) fn lanes(self, to: VcpuId) -> impl Iterator<Item = (u16, VcpuId)> {
        let lanes = (0..Self::LANES).map(move |lane| {
            let sgis = (self.0 >> (lane * SGIS)) as u16;
            (sgis, sender(lane, to))
        });
        lanes.filter(|(sgis, _)| *sgis != 0)
    }

    /// The number of the only bit that is set; `None` if none is set, or several.
    #[inline(always)]
    fn single_bit(self) -> Option<u32> {
        if usize::BITS == u64::BITS {
            return self.0.is_power_of_two().then(|| self.0.trailing_zeros());
        }
        // By halves, which is half the work on a CPU whose registers have 32 bits.
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

/// The sender that this lane means.
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
        // A million requests in a second, by every method.
        for n in 0..1_000_000_u64 {
            now += SECOND / 1_000_000;
            if quiet_until.is_some_and(|end| now >= end) {
                quiet_until = None;
                requests.set_quiet(false);
                // The request that was made meanwhile is seen now.
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

    /// All sets of requests: all but those about interrupts and timers matter for a vCPU that is
    /// off, or that has work anyway; the quiet state is no request.
    #[test]
    fn requests_are_told_apart() {
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
