//! Boards with other numbers of cores than their device trees have CPUs.

use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use hanok_system::with_cores;

/// QEMU's virt with four CPUs, which have phandles, beside a cpu-map.
const VIRT: &[u8] = include_bytes!("../../../core/config/tests/data/virt-gicv3.dtb");

/// Name, affinity and whether it has a phandle, of each CPU.
fn cpus(tree: &[u8]) -> Vec<(String, u32, bool)> {
    let fdt = Fdt::new(tree).unwrap();
    let cpus = fdt.root().children().find(|node| node.name() == "cpus");
    let mut found = Vec::new();
    for node in cpus.unwrap().children() {
        let property = |name: &str| node.properties().find(|property| property.name() == name);
        if property("device_type").is_some_and(|kind| kind.value() == b"cpu\0") {
            let affinity = property("reg").unwrap().value().try_into().unwrap();
            let affinity = u32::from_be_bytes(affinity);
            found.push((
                node.name().to_string(),
                affinity,
                property("phandle").is_some(),
            ));
        }
    }
    found
}

#[test]
fn there_are_as_many_as_are_asked_for() {
    let before = cpus(VIRT);
    for cores in 1..=before.len() + 3 {
        let made = with_cores(VIRT, cores as u64).unwrap();
        let after = cpus(&made);
        let affinities: Vec<u32> = after.iter().map(|cpu| cpu.1).collect();
        assert_eq!(affinities, (0..cores as u32).collect::<Vec<_>>());
        let same = before.len().min(cores);
        assert_eq!(before[..same], after[..same]);
        for (name, affinity, handle) in &after[same..] {
            assert_eq!(
                (name.as_str(), *handle),
                (format!("cpu@{affinity:x}").as_str(), false)
            );
        }
    }
}

#[test]
fn all_else_stays() {
    let count = |tree: &[u8]| {
        let fdt = Fdt::new(tree).unwrap();
        let nodes: Vec<String> = fdt
            .root()
            .children()
            .map(|node| node.name().to_string())
            .collect();
        (nodes, fdt.root().properties().count())
    };
    assert_eq!(count(&with_cores(VIRT, 1).unwrap()), count(VIRT));
}

#[test]
fn what_has_no_cpus_is_refused() {
    assert_eq!(with_cores(b"no tree", 2), None);
    assert_eq!(with_cores(&[], 2), None);
}
