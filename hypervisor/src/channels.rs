//! The channels between VMs: their memory and their members.
//!
//! The memory is taken from free RAM once and zeroed before any VM runs. It belongs to the hypervisor in the list of owners, and
//! no boot of a member clears it: what a peer wrote is still there for who restarts.

use crate::arena::Arena;
use crate::fatal::refuse;
use hanok_arm_common::ram::GuestRam;
use hanok_config::{ChannelEnd, MAX_CHANNELS, SystemView, VmConfig};
use hanok_hal::VmMemory;
use hanok_types::{Address, Hpa, Ipa};
use hanok_vm::{Members, Vm};

/// A channel, as the board has it.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    number: u8,
    members: &'static Members,
    /// Where the memory is, for its members and on the board.
    memory: (Ipa, Hpa),
}

/// The addresses on the board of the memory of a VM's channels, in the description's order.
pub type Places = heapless::Vec<Hpa, MAX_CHANNELS>;

/// Makes all channels of a system.
pub fn make(system: &SystemView<'_>, arena: &mut Arena) -> &'static [Channel] {
    let ends = system.vms.iter().flat_map(|config| &config.channels);
    // Each channel is made for its first member, which has all of the memory.
    let firsts = ends.filter(|end| end.index == 0);
    let Some(mut channels) = arena.places(firsts.clone().count()) else {
        refuse(format_args!("no memory for the channels' records"))
    };
    for end in firsts {
        channels.push(make_one(system, end, arena));
    }
    channels.finish()
}

fn make_one(system: &SystemView<'_>, end: &ChannelEnd, arena: &mut Arena) -> Channel {
    let (number, len) = (end.number, end.memory.len());
    let memory = arena.free.allocate_for_guest(len, end.memory.start());
    let members = arena.put(Members::new(system, number));
    let (Ok(memory), Some(members)) = (memory, members) else {
        refuse(format_args!(
            "channel {number}: no {} KiB of memory for it: make it smaller, or give the board more",
            len >> 10
        ))
    };
    // SAFETY: free RAM, mapped in place, taken for this channel alone; no VM runs yet.
    let ram = unsafe { GuestRam::new(end.memory, memory.start()) };
    // Cleaned, too: a guest that has it uncached is not to find what the memory held before.
    ram.zero(end.memory.start(), len);
    Channel {
        number,
        members,
        memory: (end.memory.start(), memory.start()),
    }
}

/// Puts a VM on its channels. The answer is where their memory is.
pub fn join(vm: &Vm, channels: &[Channel]) -> Places {
    let config: &VmConfig = vm.config();
    let join = |end: &ChannelEnd| {
        let mut all = channels.iter();
        let channel = all.find(|channel| channel.number == end.number)?;
        vm.join(end, channel.members);
        let (start, host) = channel.memory;
        host.checked_add(end.memory.start().get().checked_sub(start.get())?)
    };
    config.channels.iter().filter_map(join).collect()
}
