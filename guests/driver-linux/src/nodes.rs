//! What is to be served: the nodes of the device tree that are `compatible = "hanok,back-end"`. The system's description is the one
//! place that says who serves what; it is checked there, and this program has no configuration of its own.

use crate::image::Format;
use std::fs;
use std::path::{Path, PathBuf};

/// The device tree of the running Linux.
pub const TREE: &str = "/proc/device-tree";

/// A device that is to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The address of the back end's registers.
    pub registers: u64,
    /// The VM that has the device.
    pub client: String,
    /// What it is.
    pub what: What,
}

/// What is to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A disk, by a file.
    Disk(Disk),
    /// A network, by a tap interface.
    Network(Network),
    /// A directory, by one of this Linux.
    Directory(Directory),
}

/// A network that is to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The name of the tap interface.
    pub tap: String,
    /// The client's MAC address.
    pub mac: [u8; 6],
    /// Its VLAN, if it is in one.
    pub vlan: Option<u32>,
}

/// A directory that is to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Its path.
    pub path: PathBuf,
    /// The name by which the client mounts it.
    pub tag: String,
    /// Whether the client may only read.
    pub read_only: bool,
}

/// A disk that is to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The file that is on it.
    pub file: PathBuf,
    /// How the content lies in the file.
    pub format: Format,
    /// Whether the client may only read.
    pub read_only: bool,
}

/// The devices that the tree in this folder names.
///
/// # Errors
/// The folder cannot be read, or it has a node that says what nobody can serve.
pub fn read(tree: &Path) -> Result<Vec<Node>, String> {
    let entries = fs::read_dir(tree).map_err(|error| format!("{}: {error}", tree.display()))?;
    let mut nodes = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if text(&path, "compatible").as_deref() == Some("hanok,back-end")
            && ["hanok,image", "hanok,tap", "hanok,directory"]
                .iter()
                .any(|name| path.join(name).exists())
        {
            let name = path.display();
            let why = || format!("{name} is no node of what can be served");
            nodes.push(node(&path).ok_or_else(why)?);
        }
    }
    nodes.sort_by_key(|node| node.registers);
    Ok(nodes)
}

fn node(node: &Path) -> Option<Node> {
    let word = |name| text(node, name);
    let bytes = |name| fs::read(node.join(name)).ok();
    let read_only = node.join("read-only").exists();
    let what = match word("hanok,kind")?.as_str() {
        "virtio-block" => What::Disk(Disk {
            file: PathBuf::from(word("hanok,image")?),
            format: Format::of_word(&word("hanok,format")?)?,
            read_only,
        }),
        "virtio-network" => What::Network(Network {
            tap: word("hanok,tap")?,
            mac: bytes("local-mac-address")?.try_into().ok()?,
            vlan: match bytes("hanok,vlan") {
                Some(vlan) => Some(u32::from_be_bytes(vlan.try_into().ok()?)),
                None => None,
            },
        }),
        "virtio-9p" => What::Directory(Directory {
            path: PathBuf::from(word("hanok,directory")?),
            tag: word("hanok,tag")?,
            read_only,
        }),
        _ => return None,
    };
    Some(Node {
        registers: u64::from_be_bytes(*bytes("reg")?.first_chunk()?),
        client: word("hanok,client")?,
        what,
    })
}

/// The text of a property.
fn text(node: &Path, name: &str) -> Option<String> {
    let bytes = fs::read(node.join(name)).ok()?;
    let (last, text) = bytes.split_last()?;
    (*last == 0)
        .then(|| String::from_utf8(text.to_vec()).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tree_names_is_found() {
        let tree = tempfile::tempdir().unwrap();
        let make = |name: &str, properties: &[(&str, &[u8])]| {
            let node = tree.path().join(name);
            fs::create_dir(&node).unwrap();
            for (name, value) in properties {
                fs::write(node.join(name), value).unwrap();
            }
        };
        let back_end: (&str, &[u8]) = ("compatible", b"hanok,back-end\0");
        let reg: (&str, &[u8]) = (
            "reg",
            &[0, 0, 0, 0, 0x0b, 0x10, 0x10, 0, 0, 0, 0, 0, 0, 0, 16, 0],
        );
        let kind: (&str, &[u8]) = ("hanok,kind", b"virtio-block\0");
        let client: (&str, &[u8]) = ("hanok,client", b"left\0");
        let image: (&str, &[u8]) = ("hanok,image", b"/images/a.qcow2\0");
        let format: (&str, &[u8]) = ("hanok,format", b"qcow2\0");
        make("cpus", &[]);
        make("memory@40000000", &[("compatible", b"none\0")]);
        // One that the bare-metal driver VM would serve.
        make("back-end@b100000", &[back_end, reg, kind, client]);
        make(
            "back-end@b101000",
            &[
                back_end,
                reg,
                kind,
                client,
                image,
                format,
                ("read-only", b""),
            ],
        );
        let found = read(tree.path()).unwrap();
        let is = |what| Node {
            registers: 0x0b10_1000,
            client: "left".to_owned(),
            what,
        };
        let disk = is(What::Disk(Disk {
            file: PathBuf::from("/images/a.qcow2"),
            format: Format::Qcow2,
            read_only: true,
        }));
        assert_eq!(found, std::slice::from_ref(&disk));
        let (kind, mac) = (("hanok,kind", &b"virtio-network\0"[..]), [2, 0, 0, 0, 0, 9]);
        let tap = ("hanok,tap", &b"left0\0"[..]);
        let mac_of = ("local-mac-address", &mac[..]);
        let vlan = ("hanok,vlan", &[0, 0, 0, 7][..]);
        make(
            "back-end@b103000",
            &[back_end, reg, kind, client, tap, mac_of, vlan],
        );
        let kind = ("hanok,kind", &b"virtio-9p\0"[..]);
        let path = ("hanok,directory", &b"/images/docs\0"[..]);
        let tag = ("hanok,tag", &b"docs\0"[..]);
        make(
            "back-end@b104000",
            &[back_end, reg, kind, client, path, tag],
        );
        let network = is(What::Network(Network {
            tap: "left0".to_owned(),
            mac,
            vlan: Some(7),
        }));
        let directory = is(What::Directory(Directory {
            path: PathBuf::from("/images/docs"),
            tag: "docs".to_owned(),
            read_only: false,
        }));
        let found = read(tree.path()).unwrap();
        assert!(
            [disk, network, directory]
                .iter()
                .all(|node| found.contains(node))
        );
        let kind: (&str, &[u8]) = ("hanok,kind", b"virtio-block\0");
        make(
            "back-end@b102000",
            &[
                back_end,
                reg,
                kind,
                client,
                image,
                ("hanok,format", b"vmdk\0"),
            ],
        );
        assert!(read(tree.path()).unwrap_err().contains("b102000"));
    }
}
