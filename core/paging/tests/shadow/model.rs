//! What the architecture lets a TLB hold: each translation that the guest's tables gave since the
//! guest last invalidated the address.

use crate::guest::{Guest, addresses};
use hanok_paging::shadow::{GuestSpace, HostMemory, Invalidation};
use hanok_paging::short::{Access, AccessKind, GuestMapping, Permissions, Privilege, ShortRegime};
use std::collections::BTreeMap;

/// A translation of a page that the tables gave at some moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Translation {
    /// The page of intermediate memory.
    pub page: u64,
    pub permissions: Permissions,
    /// The addresses that the guest's descriptor maps.
    region: (u32, u64),
    global: bool,
}

impl Translation {
    fn of(at: u32, mapping: &GuestMapping) -> Self {
        let size = mapping.size.bytes();
        Self {
            page: mapping.output.get() >> 12,
            permissions: mapping.permissions,
            region: ((u64::from(at) & !(size - 1)) as u32, size),
            global: mapping.global,
        }
    }

    fn covers(&self, at: u32) -> bool {
        u64::from(at.wrapping_sub(self.region.0)) < self.region.1
    }
}

pub const KINDS: [AccessKind; 3] = [AccessKind::Read, AccessKind::Write, AccessKind::Execute];
pub const VIEWS: [Privilege; 2] = [Privilege::Kernel, Privilege::User];

/// What the tables say of an address now, whoever may use it.
fn now(guest: &Guest, space: &GuestSpace, at: u32) -> Option<Translation> {
    let any = VIEWS.into_iter().find_map(|by| {
        let access = Access {
            address: at,
            kind: AccessKind::Read,
            by,
        };
        let walked = space.regime.walk(&access, |at| guest.word(at));
        walked.ok()
    });
    any.map(|mapping| Translation::of(at, &mapping))
}

/// The space in which a global translation of `one` may be used while the registers are those of `other`, if there is any: a
/// TLB matches it for every ASID, and knows nothing of TTBR0 (DDI 0406C, B3.9.1). The domains are looked up when it is used.
/// Where other registers differ it may be used as well, with rights that are not looked for here.
fn used_in(one: &GuestSpace, other: &GuestSpace) -> Option<GuestSpace> {
    let of = |space: &GuestSpace| {
        let regime = space.regime.normalized();
        (regime.sctlr, regime.ttbcr)
    };
    let dacr = other.regime.dacr;
    let regime = ShortRegime { dacr, ..one.regime };
    (of(one) == of(other)).then_some(GuestSpace { regime, ..*one })
}

/// For one vCPU, by space and page.
#[derive(Default)]
pub struct Model(BTreeMap<(usize, u32), Vec<Translation>>);

impl Model {
    /// Adds what the tables say now.
    pub fn look(&mut self, guest: &Guest, spaces: &[GuestSpace]) {
        for (number, space) in spaces.iter().enumerate() {
            for (other, of) in spaces.iter().enumerate() {
                let Some(used) = used_in(space, of) else {
                    continue;
                };
                for at in addresses() {
                    if let Some(new) = now(guest, &used, at)
                        && (other == number || new.global)
                    {
                        let known = self.0.entry((other, at)).or_default();
                        if !known.contains(&new) {
                            known.push(new);
                        }
                    }
                }
            }
        }
    }

    /// Drops what an invalidation takes, and looks anew.
    pub fn invalidate(&mut self, guest: &Guest, spaces: &[GuestSpace], what: Invalidation) {
        for ((number, _), known) in &mut self.0 {
            let mine = |asid| spaces[*number].asid == asid;
            known.retain(|one| !match what {
                Invalidation::All => true,
                Invalidation::Asid(asid) => mine(asid) && !one.global,
                Invalidation::Page { at, asid } => one.covers(at) && (one.global || mine(asid)),
                Invalidation::PageOfAllAsids { at } => one.covers(at),
                Invalidation::Pages { at, count, asid } => {
                    let pages = 0..u32::from(count);
                    let mut pages = pages.filter_map(|page| (at & !0xfff).checked_add(page << 12));
                    pages.any(|page| one.covers(page)) && (one.global || asid.is_none_or(mine))
                }
            });
        }
        self.look(guest, spaces);
    }

    /// All translations of a page that may be in use.
    pub fn known(&self, space: usize, at: u32) -> &[Translation] {
        self.0.get(&(space, at)).map_or(&[], |known| known)
    }
}
