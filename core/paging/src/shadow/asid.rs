//! Hardware ASIDs, given out so that none ever meets entries of another root in a TLB.
//!
//! ASIDs are given out in order and never given back. When they are used up, a new *generation*
//! begins: the CPU's TLB is invalidated once, and every root needs a new one. A root knows the
//! generation of its ASID, and thus whether it still holds.

use super::owed::Owed;

/// An ASID and where it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// The pool that it is from.
    pub pool: u8,
    generation: u64,
    pub asid: u8,
}

/// The ASIDs of one CPU, for all vCPUs that run on it. ASID 0 is the hypervisor's own.
#[derive(Debug)]
pub struct AsidPool {
    id: u8,
    generation: u64,
    /// The ASID given out last; 0 if none was in this generation.
    given: u8,
    /// The greatest ASID.
    last: u8,
    /// Whether the TLB was not invalidated yet for this generation.
    unpaid: bool,
}

impl AsidPool {
    /// The pool with number `id`, a number for each CPU, of the ASIDs 1 to 255.
    pub const fn new(id: u8) -> Self {
        Self::with_last(id, u8::MAX)
    }

    /// As [`Self::new`], of the ASIDs 1 to `last`; at least one.
    pub const fn with_last(id: u8, last: u8) -> Self {
        let last = if last == 0 { 1 } else { last };
        Self {
            id,
            generation: 0,
            given: 0,
            last,
            unpaid: false,
        }
    }

    /// The number of the pool.
    pub const fn id(&self) -> u8 {
        self.id
    }

    /// The number of the generation of ASIDs, each of which ends when all are used up.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Everything in the CPU's TLB was invalidated that an ASID was given out for.
    ///
    /// Until then no ASID of the generation may be used, whichever vCPU asks for it: the one that began the generation may
    /// be held up, and another one may be entered before it.
    pub const fn paid(&mut self) {
        self.unpaid = false;
    }

    /// The ASID of `tag` if it still holds, or else a new one; and what is to be invalidated before
    /// it is used, which is owed until it is [`Self::paid`].
    #[inline(never)]
    pub(super) fn renew(&mut self, tag: &mut Option<Tag>) -> (u8, Owed) {
        let asid = match tag.as_ref().and_then(|tag| self.holds(tag)) {
            Some(asid) => asid,
            None => {
                self.advance();
                let fresh = Tag {
                    pool: self.id,
                    generation: self.generation,
                    asid: self.given,
                };
                *tag = Some(fresh);
                fresh.asid
            }
        };
        let owed = if self.unpaid {
            Owed::Everything
        } else {
            Owed::Nothing
        };
        (asid, owed)
    }

    /// As [`Self::renew`], if nothing is to be invalidated for it; else the tag stays as it is.
    pub(super) fn renew_quietly(&mut self, tag: &mut Option<Tag>) -> Option<u8> {
        let holds = tag.as_ref().and_then(|tag| self.holds(tag)).is_some();
        let quietly = !self.unpaid && (holds || self.given < self.last);
        quietly.then(|| self.renew(tag).0)
    }

    /// The ASID of a tag, if it holds on this CPU.
    fn holds(&self, tag: &Tag) -> Option<u8> {
        (tag.pool == self.id && tag.generation == self.generation).then_some(tag.asid)
    }

    fn advance(&mut self) {
        if self.given < self.last {
            self.given += 1;
            return;
        }
        self.generation += 1;
        self.given = 1;
        self.unpaid = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asid_holds_until_all_are_used_up() {
        let mut pool = AsidPool::with_last(0, 2);
        let (mut one, mut two, mut three) = (None, None, None);
        assert_eq!(pool.renew(&mut one), (1, Owed::Nothing));
        assert_eq!(pool.renew(&mut two), (2, Owed::Nothing));
        assert_eq!(pool.renew(&mut one), (1, Owed::Nothing));
        assert_eq!(pool.renew(&mut three), (1, Owed::Everything));
        pool.paid();
        assert_eq!(pool.renew(&mut one), (2, Owed::Nothing));
        assert_eq!(pool.renew(&mut two), (1, Owed::Everything));
    }

    #[test]
    fn a_generation_is_owed_to_whoever_is_entered_until_it_is_paid() {
        let mut pool = AsidPool::with_last(0, 3);
        let mut tags = [None; 5];
        for tag in &mut tags[..3] {
            assert_eq!(pool.renew(tag).1, Owed::Nothing);
        }
        // The vCPU that begins the generation is held up before it pays.
        assert_eq!(pool.renew(&mut tags[3]), (1, Owed::Everything));
        assert_eq!(pool.renew_quietly(&mut tags[4]), None);
        assert_eq!(pool.renew(&mut tags[4]), (2, Owed::Everything));
        assert_eq!(pool.renew(&mut tags[3]), (1, Owed::Everything), "it holds");
        pool.paid();
        assert_eq!(pool.renew(&mut tags[3]), (1, Owed::Nothing));
        assert_eq!(pool.renew_quietly(&mut tags[0]), Some(3));
    }

    #[test]
    fn an_asid_of_another_cpu_does_not_hold() {
        let (mut here, mut there) = (AsidPool::new(0), AsidPool::new(1));
        let mut tag = None;
        assert_eq!(here.renew(&mut tag).0, 1);
        assert_eq!(there.renew(&mut tag).0, 1);
        assert_eq!(here.renew(&mut tag).0, 2, "not the one that it had here");
    }
}
