//! The rules for channels between VMs: the members agree, one of them may write, and a VM's end tells few.

use super::Fault;
use crate::channel::{ChannelEnd, MAX_PEERS};
use crate::model::{SystemView, VmConfig};
use crate::slot::DeviceKind;
use hanok_abi::channel::MAX_MEMBERS;
use hanok_types::{Address, PAGE_SIZE, Span, platform};

pub(super) fn check(system: &SystemView<'_>) -> Result<(), Fault> {
    for (vm, config) in system.vms.iter().enumerate() {
        let mut peers = 0;
        for (channel, end) in config.channels.iter().enumerate() {
            let fault = Fault::Channel { vm, channel };
            let members = members(system, end).filter(|_| is_placed(config, channel, end));
            peers += members.ok_or(fault)? - 1;
            if peers > MAX_PEERS {
                return Err(fault);
            }
        }
        let slots = config.slots.iter();
        let registers = slots.filter(|slot| slot.kind == DeviceKind::Channel);
        if registers.count() != config.channels.len() {
            let channel = config.channels.len();
            return Err(Fault::Channel { vm, channel });
        }
    }
    Ok(())
}

/// Whether the VM's end is in the window of channels, and none of its others.
fn is_placed(config: &VmConfig, index: usize, end: &ChannelEnd) -> bool {
    let ChannelEnd { memory, .. } = end;
    let window = Span::new(platform::CHANNEL_MEMORY, platform::CHANNEL_MEMORY_SIZE);
    let pages = memory.start().is_aligned(PAGE_SIZE) && memory.len().is_multiple_of(PAGE_SIZE);
    let mut earlier = config.channels.iter().take(index);
    let registers = end.slot();
    registers.is_some_and(|registers| config.slots.contains(&registers))
        && !memory.is_empty()
        && pages
        && window.is_some_and(|window| window.covers(memory))
        && !earlier.any(|other| other.number == end.number || other.memory.overlaps(memory))
}

/// The number of members of the channel at `end`, if they agree and are those that there must be.
fn members(system: &SystemView<'_>, end: &ChannelEnd) -> Option<usize> {
    let (mut seen, mut count, mut writes) = (0_u32, 0, false);
    let (_, whole) = system
        .members(end.number)
        .find(|(_, other)| other.index == 0)?;
    for (_, other) in system.members(end.number) {
        let bit = 1_u32.checked_shl(other.index.into())?;
        if seen & bit != 0 || !whole.memory.covers(&other.memory) || other.cached != end.cached {
            return None;
        }
        (seen, count) = (seen | bit, count + 1);
        writes |= !other.read_only;
    }
    let all = (2..=MAX_MEMBERS).contains(&count) && seen.trailing_ones() as usize == count;
    (all && writes).then_some(count)
}
