//! A VM's ends of channels: how it is rung, and how its peers learn of its end.
//!
//! Whoever rings holds no lock: that of the peer's device is taken after the ringing VM's own was dropped
//! ([`Guest::device`](crate::Guest)). A ring costs the one who rings an exit; the peer pays for an interrupt when a line
//! becomes high, and it is kicked as by a device of its own.

use crate::{Machine, Vm};
use hanok_config::ChannelEnd;
use hanok_devices::{Device, Members};

impl Vm {
    /// Puts the VM on a channel, at boot.
    pub fn join(&self, end: &ChannelEnd, members: &'static Members) {
        let mut slots = self.slots.iter();
        if let Some(slot) = slots.find(|slot| end.slot().as_ref() == Some(slot.place()))
            && let Device::Channel(channel) = &mut *slot.device.lock()
        {
            channel.join(end, members);
        }
    }

    /// A peer rings the channel in this slot. A VM that does not run forgets it. On any pCPU, which holds no lock of a VM.
    pub fn rung(&self, machine: &impl Machine, slot: usize, bits: u32) {
        let Some(slot) = self.slots.iter().nth(slot) else {
            return;
        };
        if !self.lifecycle().is_running() {
            return;
        }
        let mut device = slot.device.lock();
        let Device::Channel(channel) = &mut *device else {
            return;
        };
        if channel.rung(bits) {
            let set = self.device_line(slot, &device);
            drop(device);
            self.notify(machine, set, None);
        }
    }

    /// Tells the peers on all channels that this boot has ended. No vCPU is in the VM.
    #[cold]
    pub fn leave_channels(&self, machine: &impl Machine) {
        for slot in self.slots.iter() {
            let bells = match &mut *slot.device.lock() {
                Device::Channel(channel) => channel.leave(),
                _ => None,
            };
            if let Some(bells) = bells {
                machine.ring(&bells);
            }
        }
    }
}
