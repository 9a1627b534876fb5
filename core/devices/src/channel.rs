//! The registers of a channel between VMs (`hanok_abi::channel`).
//!
//! What a guest does to its peers is only noted here: the device's lock is held meanwhile, and no CPU holds the locks of
//! two VMs. The caller takes the [`Bells`] from [`Notice::Bells`], drops the lock, and hands them to each peer's own
//! device ([`Channel::rung`]). A peer's state is one atomic word, so that reading it needs no lock of that peer's.
//!
//! A bit that is pending stays so until the peer acknowledges it, so that a peer pays for one interrupt however often it
//! is rung. Nothing is counted or queued: what a ring is about is said in the channel's memory.

use crate::device::{Model, Notice, World};
use crate::lanes::{read_words, write_words};
use crate::{Access, Unknown};
use hanok_abi::channel::{CHANGED_SHIFT, MAX_MEMBERS, VERSION, own, register};
use hanok_config::{ChannelEnd, SystemView};
use hanok_hal::sync::atomic::{AtomicU32, Ordering};
use hanok_types::{VmId, Width};
use heapless::Vec;

/// The part of a state that the guest gives; the other half is the generation.
const STATE: u32 = 0xffff;
/// Adds one to a generation.
const GENERATION: u32 = 1 << 16;
/// The register behind the last member's.
const PEERS_END: u64 = register::PEER + 4 * MAX_MEMBERS as u64;

/// A VM on a channel.
#[derive(Debug)]
struct Member {
    vm: VmId,
    /// The index of the channel's registers among the VM's slots.
    slot: u8,
    /// [`register::PEER`]; it is stored with the lock of the member's own device held.
    state: AtomicU32,
}

/// All that the members of a channel have in common.
#[derive(Debug)]
pub struct Members {
    all: Vec<Member, MAX_MEMBERS>,
    size: u32,
}

/// There is one for each channel.
impl PartialEq for Members {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for Members {}

impl Members {
    /// The members of the channel with this number, none of which has run.
    pub fn new(system: &SystemView<'_>, number: u8) -> Self {
        let mut members = Self {
            all: Vec::new(),
            size: 0,
        };
        // The rules of the description: the indices are those from 0 on, and the sizes are the same.
        for index in 0..MAX_MEMBERS {
            let mut ends = system.members(number);
            let found = ends.find(|(_, end)| usize::from(end.index) == index);
            let Some((vm, end)) = found else { break };
            let slots = system.vms.get(vm).map(|config| config.slots.iter());
            let slot = slots.and_then(|mut slots| slots.position(|at| Some(*at) == end.slot()));
            members.size = end.memory.len() as u32;
            let _ = members.all.push(Member {
                vm: VmId::new(vm as u8),
                slot: slot.unwrap_or_default() as u8,
                state: AtomicU32::new(0),
            });
        }
        members
    }

    fn state(&self, index: usize) -> Option<&AtomicU32> {
        self.all.get(index).map(|member| &member.state)
    }
}

/// What a member does to its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bells {
    members: &'static Members,
    own: u8,
    /// The members that are rung, one bit each.
    rung: u32,
    /// Whether its state changed.
    changed: bool,
}

impl Bells {
    /// The peers that have to be told: each one's VM, the index of its slot, and the bits for [`Channel::rung`].
    pub fn each(&self) -> impl Iterator<Item = (VmId, usize, u32)> {
        let Self {
            own, rung, changed, ..
        } = *self;
        let all = self.members.all.iter().enumerate();
        all.filter_map(move |(index, member)| {
            let ring = rung >> index & 1;
            let bits = ring << own | u32::from(changed) << (CHANGED_SHIFT + u32::from(own));
            let told = index != usize::from(own) && bits != 0;
            told.then_some((member.vm, member.slot.into(), bits))
        })
    }
}

/// A VM's end of a channel.
#[derive(Clone, Debug, Default)]
pub struct Channel {
    /// The channel that the VM is on, from boot on.
    on: Option<Seat>,
    pending: u32,
    enabled: u32,
    /// What the last access did to peers.
    bells: Option<Bells>,
    unknown: Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Seat {
    members: &'static Members,
    own: u8,
    read_only: bool,
}

impl Seat {
    /// The own state becomes what `change` makes of it. The caller holds the device's lock.
    fn change(&self, change: impl FnOnce(u32) -> u32) -> Option<Bells> {
        let state = self.members.state(self.own.into())?;
        let before = state.load(Ordering::Relaxed);
        let after = change(before);
        state.store(after, Ordering::Release);
        (before != after).then_some(self.bells(0, true))
    }

    fn bells(&self, rung: u32, changed: bool) -> Bells {
        let Self { members, own, .. } = *self;
        Bells {
            members,
            own,
            rung,
            changed,
        }
    }

    /// [`register::OWN`].
    fn own(&self) -> u32 {
        let members = (self.members.all.len() as u32) << own::MEMBERS_SHIFT;
        let rights = if self.read_only { own::READ_ONLY } else { 0 };
        u32::from(self.own) | members | rights
    }
}

impl Channel {
    /// Gives the VM its place on the channel, at boot.
    pub fn join(&mut self, end: &ChannelEnd, members: &'static Members) {
        self.on = Some(Seat {
            members,
            own: end.index,
            read_only: end.read_only,
        });
    }

    /// The VM's boot has ended: its state is 0, of a new generation.
    pub fn leave(&mut self) -> Option<Bells> {
        let next = |state: u32| (state & !STATE).wrapping_add(GENERATION);
        self.on.and_then(|seat| seat.change(next))
    }

    /// A peer rings, or changes its state. Whether the line may have changed.
    #[must_use]
    pub fn rung(&mut self, bits: u32) -> bool {
        let before = self.level();
        self.pending |= bits;
        before != self.level()
    }

    fn read(&self, offset: u64) -> Option<u32> {
        let seat = self.on?;
        let state = |index: u64| {
            let state = seat.members.state(index as usize);
            state.map_or(0, |state| state.load(Ordering::Acquire))
        };
        Some(match offset {
            register::ID => register::MAGIC,
            register::VERSION => VERSION,
            register::SIZE => seat.members.size,
            register::OWN => seat.own(),
            register::STATE => state(seat.own.into()),
            register::RING => 0,
            register::PENDING => self.pending,
            register::ENABLE => self.enabled,
            register::PEER..PEERS_END => state((offset - register::PEER) / 4),
            _ => return None,
        })
    }

    fn write(&mut self, offset: u64, value: u32) -> Option<()> {
        let seat = self.on?;
        let bells = match offset {
            register::STATE => seat.change(|state| state & !STATE | value & STATE),
            register::RING => Some(seat.bells(value, false)),
            register::PENDING => {
                self.pending &= !value;
                None
            }
            register::ENABLE => {
                self.enabled = value;
                None
            }
            _ => return None,
        };
        // A store of 64 bits may do both.
        if let Some(bells) = bells {
            let earlier = self.bells.map_or(0, |bells| bells.rung);
            let changed = self.bells.is_some_and(|bells| bells.changed);
            self.bells = Some(seat.bells(bells.rung | earlier, bells.changed | changed));
        }
        Some(())
    }
}

impl Model for Channel {
    fn access(&mut self, offset: u64, access: Access, _: &mut impl World) -> u64 {
        self.bells = None;
        let words = offset.is_multiple_of(4) && matches!(access.width, Width::Word | Width::Double);
        if access.write {
            write_words(offset, access.width, access.value, |offset, value| {
                let stored = words.then(|| self.write(offset, value)).flatten();
                if stored.is_none() {
                    self.unknown.write();
                }
            });
            return 0;
        }
        read_words(offset, access.width, |offset| {
            let read = words.then(|| self.read(offset)).flatten();
            read.unwrap_or_else(|| self.unknown.read())
        })
    }

    fn reset(&mut self) {
        (self.pending, self.enabled, self.bells) = (0, 0, None);
    }

    fn level(&self) -> bool {
        self.pending & self.enabled != 0
    }

    fn notice(&self) -> Notice {
        self.bells.map_or(Notice::None, Notice::Bells)
    }

    fn unknown(&self) -> Unknown {
        self.unknown
    }
}

#[cfg(test)]
mod tests;
