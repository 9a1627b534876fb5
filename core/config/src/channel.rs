//! Channels between VMs, as each of their members has them.
//!
//! A channel is no node of its own: each member's VM says which one it has, at which index, and where the memory is. So
//! a VM's description holds all that its VM needs, and the rules (`check/channels.rs`) see to it that the members agree.
//! A channel's number gives the place of its registers and its interrupt, which are the same in all members.

use crate::SystemView;
use crate::slot::{DeviceKind, DeviceSlot};
pub use hanok_abi::channel::MAX_MEMBERS;
use hanok_types::{Address, IntId, Ipa, PAGE_SIZE, Span, platform};

/// The most channels of one VM.
pub const MAX_CHANNELS: usize = 8;
/// The most peers that a VM has, over all its channels: when it ends, all are told in one exit.
pub const MAX_PEERS: usize = 14;

/// A VM's end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelEnd {
    /// The channel's number, the same in all members.
    pub number: u8,
    /// The VM's index among the members.
    pub index: u8,
    /// The guest's addresses of the memory that the VM has: of all of it for the member with index 0, and for
    /// another one of all or a part, at the same addresses.
    pub memory: Span<Ipa>,
    /// Whether the VM may only read the memory.
    pub read_only: bool,
    /// Whether the memory is cached where the guest wants that, the same in all members.
    pub cached: bool,
}

impl ChannelEnd {
    /// The slot of its registers; `None` if its number is past the last.
    pub fn slot(&self) -> Option<DeviceSlot> {
        let number = u64::from(self.number);
        let at = platform::CHANNEL.checked_add(number * PAGE_SIZE)?;
        let line = platform::CHANNEL_IRQ.get() + u32::from(self.number);
        (usize::from(self.number) < platform::CHANNELS).then_some(DeviceSlot {
            kind: DeviceKind::Channel,
            region: Span::new(at, PAGE_SIZE)?,
            interrupt: Some(IntId::new(line)),
            peer: None,
        })
    }
}

impl<'a> SystemView<'a> {
    /// The members of the channel with this number: the VMs' indices, and their ends.
    pub fn members(&self, number: u8) -> impl Iterator<Item = (usize, &'a ChannelEnd)> + use<'a> {
        let vms = self.vms.iter().enumerate();
        let ends = vms.flat_map(|(vm, config)| config.channels.iter().map(move |end| (vm, end)));
        ends.filter(move |(_, end)| end.number == number)
    }
}
