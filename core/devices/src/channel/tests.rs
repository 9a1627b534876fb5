use super::*;
use crate::ScheduleRegisters;
use hanok_config::{CorePolicy, VmConfig};
use hanok_hal::{LineFull, SerialPort};
use hanok_types::{GicVersion, Ipa, MAX_CPUS, PAGE_SIZE, Span, platform};
use std::boxed::Box;
use std::vec;
use std::vec::Vec as List;

struct Nowhere(ScheduleRegisters);

impl SerialPort for Nowhere {
    fn try_send(&mut self, _: u8) -> Result<(), LineFull> {
        Err(LineFull)
    }
}

impl World for Nowhere {
    fn seconds(&self) -> u64 {
        0
    }

    fn schedule(&mut self) -> &mut ScheduleRegisters {
        &mut self.0
    }
}

fn end(index: u8) -> ChannelEnd {
    ChannelEnd {
        number: 3,
        index,
        memory: Span::new(platform::CHANNEL_MEMORY, 2 * PAGE_SIZE).unwrap(),
        read_only: index == 2,
        cached: false,
    }
}

/// VMs that are members with these indices, each with one slot before that of the channel.
fn members(indices: &[u8]) -> &'static Members {
    let vms: List<VmConfig> = indices.iter().map(|index| vm(end(*index))).collect();
    let system = SystemView {
        vms: &vms,
        promises: &[],
        groups: &[],
        gic: GicVersion::V3,
        slice: 1000,
        switch_cost: 0,
        trace: Default::default(),
        policies: [CorePolicy::RoundRobin; MAX_CPUS],
    };
    Box::leak(Box::new(Members::new(&system, 3)))
}

fn vm(end: ChannelEnd) -> VmConfig {
    let mut slots = hanok_config::DeviceSlots::new();
    slots.extend(hanok_config::platform_slots().into_iter().take(1));
    slots.extend(end.slot());
    VmConfig {
        name: "vm".try_into().unwrap(),
        cpus: Default::default(),
        memory: Span::new(platform::RAM, PAGE_SIZE).unwrap(),
        entry: platform::RAM,
        argument: 0,
        blobs: Default::default(),
        slots,
        channels: [end].into_iter().collect(),
        devices: Default::default(),
        trusted: false,
        autostart: true,
        aarch32: false,
        rewritten: false,
        trampolines: None,
        watchdog: 0,
    }
}

fn channel(index: u8, members: &'static Members) -> Channel {
    let mut channel = Channel::default();
    channel.join(&end(index), members);
    channel
}

fn access(channel: &mut Channel, offset: u64, access: Access) -> u64 {
    Model::access(
        channel,
        offset,
        access,
        &mut Nowhere(ScheduleRegisters::RESET),
    )
}

fn store(channel: &mut Channel, offset: u64, value: u32) -> List<(VmId, usize, u32)> {
    let at = Ipa::new(offset);
    access(
        channel,
        offset,
        Access::store(at, Width::Word, value.into()),
    );
    match channel.notice() {
        Notice::Bells(bells) => bells.each().collect(),
        _ => vec![],
    }
}

fn load(channel: &mut Channel, offset: u64) -> u32 {
    access(channel, offset, Access::load(Ipa::new(offset), Width::Word)) as u32
}

/// The members are in the order of their indices, whatever that of the VMs; each is found by its VM and slot.
#[test]
fn a_ring_goes_to_the_members_that_are_named_and_no_others() {
    let members = members(&[1, 0, 2]);
    let mut one = channel(1, members);
    let [zero, two] = [VmId::new(1), VmId::new(2)];
    assert_eq!(store(&mut one, register::RING, 1), [(zero, 1, 1 << 1)]);
    assert_eq!(store(&mut one, register::RING, 1 << 1), [], "itself");
    let all = [(zero, 1, 1 << 1), (two, 1, 1 << 1)];
    assert_eq!(store(&mut one, register::RING, u32::MAX), all);
    assert_eq!(store(&mut one, register::RING, !7), [], "no member");
    load(&mut one, register::ID);
    assert_eq!(one.notice(), Notice::None, "said once");
    assert_eq!(load(&mut one, register::OWN), 1 | 3 << 8);
    assert_eq!(
        load(&mut channel(2, members), register::OWN),
        2 | 3 << 8 | 1 << 16
    );
    assert_eq!(load(&mut one, register::SIZE), 8192);
}

#[test]
fn a_change_of_the_state_is_told_once() {
    let members = members(&[0, 1]);
    let (mut zero, mut one) = (channel(0, members), channel(1, members));
    let told = [(VmId::new(1), 1, 1 << 16)];
    assert_eq!(store(&mut zero, register::STATE, 0x7_0005), told);
    assert_eq!(store(&mut zero, register::STATE, 5), [], "no change");
    assert_eq!(load(&mut one, register::PEER), 5);
    let bells = zero.leave().expect("it is told");
    assert_eq!(bells.each().collect::<List<_>>(), told);
    assert_eq!(
        load(&mut one, register::PEER),
        1 << 16,
        "another generation"
    );
    // A store of two words sets the state and rings.
    let both = Access::store(Ipa::new(register::STATE), Width::Double, 9 | 1 << 33);
    access(&mut zero, register::STATE, both);
    let Notice::Bells(bells) = zero.notice() else {
        panic!("it is told of both");
    };
    let both = [(VmId::new(1), 1, 1 << 16 | 1)];
    assert_eq!(bells.each().collect::<List<_>>(), both);
    for _ in 0..0xffff {
        assert!(zero.leave().is_some());
    }
    assert_eq!(
        load(&mut one, register::PEER) >> 16,
        0,
        "the generation wraps"
    );
}

#[test]
fn the_line_is_what_is_pending_and_enabled() {
    let mut channel = channel(0, members(&[0, 1]));
    assert!(!channel.rung(2) && !channel.level());
    store(&mut channel, register::ENABLE, 2);
    assert!(channel.level());
    assert!(!channel.rung(2), "it is high already");
    store(&mut channel, register::PENDING, !2);
    assert_eq!(load(&mut channel, register::PENDING), 2);
    store(&mut channel, register::PENDING, 2);
    assert!(!channel.level());
    assert!(channel.rung(2 | 1 << 17) && channel.level());
    channel.reset();
    assert_eq!(
        (
            load(&mut channel, register::PENDING),
            load(&mut channel, register::ENABLE)
        ),
        (0, 0)
    );
}

#[test]
fn a_slot_that_no_channel_joined_reads_as_zero() {
    let mut channel = Channel::default();
    assert_eq!(load(&mut channel, register::ID), 0);
    assert_eq!(store(&mut channel, register::RING, 1), []);
    assert_eq!(
        channel.unknown(),
        Unknown {
            reads: 1,
            writes: 1
        }
    );
    assert!(channel.leave().is_none());
}
