//! A property of the system's tree with a value of another length is refused, also one that may be missing: whoever wrote it meant to
//! say something.

use hanok_config::{
    Blob, BlobKind, Claim, CorePolicy, Peer, Promise, System, TreeError, VmConfig, platform_slots,
};
use hanok_sched::{Order, Share};
use hanok_types::{CpuId, Ipa, MAX_CPUS, Span, VcpuId, VmId, platform};

const PAYLOAD: u64 = 0x1000_0000;
/// A token that begins a property, and where the header has the offsets of structure and strings (Devicetree Specification v0.4, 5.2 and 5.4).
const PROPERTY: u32 = 3;
const STRUCTURE: usize = 8;
const STRINGS: usize = 12;

/// A system whose tree has each single cell that may be missing.
fn system() -> System {
    let kernel = Blob {
        kind: BlobKind::Kernel,
        offset: 0x1000,
        len: 0x1000,
        load: platform::RAM,
        sum: 0,
        seeds: heapless::Vec::new(),
        host_address: Some(0x100),
    };
    let mut slots = platform_slots();
    slots[0].peer = Some(Peer {
        vm: VmId::new(0),
        slot: 1,
    });
    let vm = VmConfig {
        name: "one".try_into().unwrap(),
        cpus: [CpuId::new(0)].into_iter().collect(),
        memory: Span::new(platform::RAM, 64 << 20).unwrap(),
        entry: platform::RAM,
        argument: 0,
        blobs: [kernel].into_iter().collect(),
        slots,
        channels: Default::default(),
        devices: Default::default(),
        trusted: false,
        autostart: true,
        aarch32: false,
        rewritten: false,
        trampolines: Span::new(Ipa::new(platform::RAM.get() + 0x10_0000), 0x1000),
        watchdog: 200,
    };
    let share = Promise {
        vm: VmId::new(0),
        vcpu: VcpuId::new(0),
        claim: Claim::Share(Share {
            weight: 256,
            cap: None,
        }),
    };
    let mut policies = [CorePolicy::RoundRobin; MAX_CPUS];
    policies[1] = CorePolicy::Global {
        order: Order::EarliestDeadline,
        pool: CpuId::new(1),
    };
    System {
        vms: [vm].into_iter().collect(),
        policies,
        promises: [share].into_iter().collect(),
        ..System::default()
    }
}

fn word(tree: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(*tree[at..].first_chunk().unwrap())
}

/// The name of each property of one cell, and where its length is.
fn cells(tree: &[u8]) -> Vec<(String, usize)> {
    let (structure, strings) = (word(tree, STRUCTURE), word(tree, STRINGS));
    let name = |at: usize| {
        let name = &tree[strings as usize + at..];
        let end = name.iter().position(|byte| *byte == 0).unwrap();
        String::from_utf8(name[..end].to_vec()).unwrap()
    };
    let words = (structure as usize..strings as usize).step_by(4);
    let properties = words.filter(|at| word(tree, *at) == PROPERTY && word(tree, at + 4) == 4);
    let in_names =
        properties.filter(|at| (word(tree, at + 8) as usize) < tree.len() - strings as usize);
    in_names
        .map(|at| (name(word(tree, at + 8) as usize), at + 4))
        .collect()
}

#[test]
fn a_cell_that_is_cut_is_refused() {
    let tree = system().to_tree();
    let cells = cells(&tree);
    let may_be_missing = [
        "watchdog",
        "pool",
        "weight",
        "interrupt",
        "peer-vm",
        "host-address",
    ];
    for name in may_be_missing {
        assert!(cells.iter().any(|(known, _)| known == name), "{name}");
    }
    let read = cells.iter().filter(|(name, _)| !name.starts_with('#'));
    for (name, at) in read {
        let mut cut = tree.clone();
        // Three bytes take the place of four: all that follows is where it was.
        cut[at + 3] = 3;
        match System::parse(&cut, PAYLOAD) {
            Err(TreeError::Malformed { name: refused, .. }) => assert_eq!(refused, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}
