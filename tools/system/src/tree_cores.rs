//! Gives a board's device tree as many CPUs as the board has cores.
//!
//! Where QEMU makes no tree, it uses the given one unchanged: with two CPUs in the tree, no guest
//! looks for a third, and with one core the second CPU would never answer.

use dtoolkit::fdt::Fdt;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use dtoolkit::{Node, Property};

/// The properties by which other nodes refer to a node; each node has values of its own.
const HANDLES: [&str; 2] = ["phandle", "linux,phandle"];

/// `tree` with `cores` CPUs: the first ones that it has, then copies of its first one with the
/// affinities that follow; further ones are removed. `None` where it is no tree, or has no CPU.
pub fn with_cores(tree: &[u8], cores: u64) -> Option<Vec<u8>> {
    let mut tree = DeviceTree::from_fdt(&Fdt::new(tree).ok()?);
    let cpus = tree.root.child_mut("cpus")?;
    let there: Vec<DeviceTreeNode> = cpus.children().filter(is_cpu).cloned().collect();
    let pattern = there.first()?.clone();
    for extra in there.iter().skip(usize::try_from(cores).ok()?) {
        cpus.remove_child(extra.name());
    }
    for number in there.len() as u64..cores {
        cpus.add_child(copy(&pattern, u32::try_from(number).ok()?));
    }
    Some(tree.to_dtb())
}

fn is_cpu(node: &&DeviceTreeNode) -> bool {
    let kind = node.property("device_type");
    kind.is_some_and(|kind| kind.value() == b"cpu\0")
}

/// CPU number `number` of a board with one cluster, which is its affinity.
fn copy(pattern: &DeviceTreeNode, number: u32) -> DeviceTreeNode {
    let mut node = DeviceTreeNode::new_unchecked(format!("cpu@{number:x}"));
    for property in pattern.properties() {
        if !HANDLES.contains(&property.name()) && property.name() != "reg" {
            node.add_property(property.clone());
        }
    }
    node.add_property(DeviceTreeProperty::new_unchecked("reg", number));
    node
}
