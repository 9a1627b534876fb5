//! Channels between VMs: in the system's tree, by the rules, and in the guests' trees.

use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use hanok_config::guest::{GuestChannel, GuestTree};
use hanok_config::{ChannelEnd, Fault, MAX_PEERS, System, TreeError, VmConfig, platform_slots};
use hanok_types::{CpuId, GicVersion, Ipa, PAGE_SIZE, Span, platform};

fn end(number: u8, index: u8) -> ChannelEnd {
    let start = platform::CHANNEL_MEMORY.get() + u64::from(number) * (2 << 20);
    ChannelEnd {
        number,
        index,
        memory: Span::new(Ipa::new(start), 2 * PAGE_SIZE).unwrap(),
        read_only: index == 1,
        cached: number == 1,
    }
}

fn vm(name: &str, ends: &[ChannelEnd]) -> VmConfig {
    let mut slots = platform_slots();
    slots.extend(ends.iter().filter_map(ChannelEnd::slot));
    VmConfig {
        name: name.try_into().unwrap(),
        cpus: [CpuId::new(0)].into_iter().collect(),
        memory: Span::new(platform::RAM, 2 << 20).unwrap(),
        entry: platform::RAM,
        argument: 0,
        blobs: Default::default(),
        slots,
        channels: ends.iter().copied().collect(),
        devices: Default::default(),
        trusted: false,
        autostart: true,
        aarch32: false,
        rewritten: false,
        trampolines: None,
        watchdog: 0,
    }
}

fn system(vms: Vec<VmConfig>) -> System {
    System {
        vms,
        ..System::default()
    }
}

fn sound() -> System {
    system(vec![
        vm("one", &[end(0, 0), end(1, 0)]),
        vm("two", &[end(0, 1), end(1, 1)]),
        vm("three", &[end(0, 2)]),
    ])
}

fn fault(vms: Vec<VmConfig>) -> Option<(usize, usize)> {
    match System::parse(&system(vms).to_tree(), 0) {
        Err(TreeError::Rule(Fault::Channel { vm, channel })) => Some((vm, channel)),
        Ok(_) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_written_is_read() {
    let system = sound();
    assert_eq!(System::parse(&system.to_tree(), 0), Ok(system));
}

#[test]
fn members_agree() {
    let first = || vm("one", &[end(0, 0)]);
    let with = |change: fn(&mut ChannelEnd)| {
        let mut other = end(0, 1);
        change(&mut other);
        fault(vec![first(), vm("two", &[other])])
    };
    assert_eq!(with(|_| {}), None);
    let wrong: [fn(&mut ChannelEnd); 10] = [
        |end| end.index = 0,
        |end| end.index = 2,
        |end| end.index = 255,
        |end| end.cached = true,
        |end| end.number = 1,
        |end| end.memory = Span::new(end.memory.start(), 3 * PAGE_SIZE).unwrap(),
        |end| end.memory = Span::new(end.memory.start(), 0).unwrap(),
        |end| end.memory = Span::new(end.memory.start(), 100).unwrap(),
        |end| end.memory = Span::new(platform::RAM, 2 * PAGE_SIZE).unwrap(),
        |end| end.number = 64,
    ];
    for (index, change) in wrong.into_iter().enumerate() {
        assert!(with(change).is_some(), "{index}");
    }
}

/// The first member has all of the memory, another one perhaps a part; a screen's clients have.
#[test]
fn a_member_may_have_a_part() {
    let second = Ipa::new(platform::CHANNEL_MEMORY.get() + PAGE_SIZE);
    let part = |index| ChannelEnd {
        memory: Span::new(second, PAGE_SIZE).unwrap(),
        ..end(0, index)
    };
    let vms = |one, two| vec![vm("one", &[one]), vm("two", &[two])];
    assert_eq!(fault(vms(end(0, 0), part(1))), None);
    assert_eq!(fault(vms(part(1), end(0, 0))), None);
    assert_eq!(fault(vms(part(0), end(0, 1))), Some((0, 0)));
}

#[test]
fn ends_are_in_the_window_and_whole_pages() {
    for (start, len) in [
        (platform::RAM.get(), PAGE_SIZE),
        (platform::CHANNEL_MEMORY.get() + 8, PAGE_SIZE),
        (platform::CHANNEL_MEMORY.get(), 100),
        (platform::CHANNEL_MEMORY.get(), 0),
        (
            platform::CHANNEL_MEMORY.get(),
            platform::CHANNEL_MEMORY_SIZE + PAGE_SIZE,
        ),
    ] {
        let at = |index| ChannelEnd {
            memory: Span::new(Ipa::new(start), len).unwrap(),
            ..end(0, index)
        };
        let vms = vec![vm("one", &[at(0)]), vm("two", &[at(1)])];
        assert_eq!(fault(vms), Some((0, 0)), "{start:#x} {len:#x}");
    }
}

#[test]
fn a_channel_has_a_peer_and_somebody_writes() {
    assert_eq!(fault(vec![vm("one", &[end(0, 0)])]), Some((0, 0)));
    let reads = |index| ChannelEnd {
        read_only: true,
        ..end(0, index)
    };
    let vms = vec![vm("one", &[reads(0)]), vm("two", &[reads(1)])];
    assert_eq!(fault(vms), Some((0, 0)));
}

#[test]
fn an_end_and_its_registers_come_together() {
    let mut without = vm("one", &[end(0, 0)]);
    without.slots.pop();
    assert_eq!(fault(vec![without, vm("two", &[end(0, 1)])]), Some((0, 0)));
    let mut more = vm("one", &[end(0, 0)]);
    more.slots.extend(end(5, 0).slot());
    assert_eq!(fault(vec![more, vm("two", &[end(0, 1)])]), Some((0, 1)));
    let overlapping = |index| ChannelEnd {
        memory: end(0, 0).memory,
        ..end(1, index)
    };
    let both = |name, index| vm(name, &[end(0, index), overlapping(index)]);
    assert!(fault(vec![both("one", 0), both("two", 1)]).is_some());
}

/// When a VM ends, all of its peers are told in one exit.
#[test]
fn a_vm_has_few_peers() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let with = |channels: u8| {
        let ends = |index: u8| {
            (0..channels)
                .map(|number| end(number, index))
                .collect::<Vec<_>>()
        };
        let vms = names.iter().zip(0..).map(|(name, index)| {
            let mut ends = ends(index);
            ends.iter_mut().for_each(|end| end.cached = false);
            vm(name, &ends)
        });
        fault(vms.collect())
    };
    assert_eq!(MAX_PEERS, 14);
    assert_eq!(with(2), None);
    assert_eq!(with(3), Some((0, 2)));
}

#[test]
fn a_guest_is_told_what_it_has() {
    let end = end(1, 1);
    let channel = GuestChannel {
        name: "sensor",
        members: &["one", "two"],
        end: &end,
        events: true,
        screen: None,
    };
    let tree = GuestTree {
        name: "two",
        terminal: None,
        vcpus: 1,
        memory: Span::new(platform::RAM, 64 << 20).unwrap(),
        bootargs: "",
        initramfs: None,
        reserved: None,
        gic: GicVersion::V3,
        slots: &platform_slots(),
        back_ends: &[],
        channels: &[channel],
        devices: &[],
    };
    let written = tree.write();
    let root = Fdt::new(&written.bytes).unwrap().root();
    let node = root.child("channel@b001000").expect("the node");
    let value = |name: &str| -> Vec<u8> {
        let mut properties = node.properties();
        let property = properties.find(|property| property.name() == name);
        property.map_or_else(Vec::new, |property| property.value().to_vec())
    };
    assert_eq!(value("compatible"), b"hanok,channel\0");
    assert_eq!(value("hanok,name"), b"sensor\0");
    assert_eq!(value("hanok,members"), b"one\0two\0");
    let longs: Vec<u64> = value("reg")
        .as_chunks()
        .0
        .iter()
        .map(|long| u64::from_be_bytes(*long))
        .collect();
    assert_eq!(longs, [0x0b00_1000, 0x1000, 0x2020_0000, 0x2000]);
    let cells: Vec<u32> = value("interrupts")
        .as_chunks()
        .0
        .iter()
        .map(|cell| u32::from_be_bytes(*cell))
        .collect();
    assert_eq!(cells, [0, 49, 4]);
    assert!(
        node.properties()
            .any(|property| property.name() == "read-only")
    );
    assert!(
        root.child("channel-sensor")
            .is_some_and(|node| node.child("bell").is_some())
    );
}
