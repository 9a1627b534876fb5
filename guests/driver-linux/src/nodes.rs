//! What is to be served: the nodes of the device tree that are `compatible = "hanok,back-end"`. The system's description is the one
//! place that says who serves what; it is checked there, and this program has no configuration of its own.

use crate::image::Format;
use std::fs;
use std::path::{Path, PathBuf};

/// The device tree of the running Linux.
pub const TREE: &str = "/proc/device-tree";

/// A disk that is to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The address of the back end's registers.
    pub registers: u64,
    /// The VM that has the disk.
    pub client: String,
    /// The file that is on it.
    pub file: PathBuf,
    /// How the content lies in the file.
    pub format: Format,
    /// Whether the client may only read.
    pub read_only: bool,
}

/// The disks that the tree in this folder names.
///
/// # Errors
/// The folder cannot be read, or it has a node that says what nobody can serve.
pub fn read(tree: &Path) -> Result<Vec<Disk>, String> {
    let entries = fs::read_dir(tree).map_err(|error| format!("{}: {error}", tree.display()))?;
    let mut disks = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if text(&path, "compatible").as_deref() == Some("hanok,back-end")
            && path.join("hanok,image").exists()
        {
            let disk = disk(&path);
            let name = path.display();
            disks.push(disk.ok_or_else(|| format!("{name} is no node of a disk"))?);
        }
    }
    disks.sort_by_key(|disk| disk.registers);
    Ok(disks)
}

fn disk(node: &Path) -> Option<Disk> {
    let word = |name| text(node, name);
    let reg = fs::read(node.join("reg")).ok()?;
    if word("hanok,kind")? != "virtio-block" {
        return None;
    }
    Some(Disk {
        registers: u64::from_be_bytes(*reg.first_chunk()?),
        client: word("hanok,client")?,
        file: PathBuf::from(word("hanok,image")?),
        format: Format::of_word(&word("hanok,format")?)?,
        read_only: node.join("read-only").exists(),
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
    fn each_image_of_the_tree_is_found() {
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
        let disk = Disk {
            registers: 0x0b10_1000,
            client: "left".to_owned(),
            file: PathBuf::from("/images/a.qcow2"),
            format: Format::Qcow2,
            read_only: true,
        };
        assert_eq!(found, [disk]);
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
