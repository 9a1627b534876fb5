//! Finds the device in the tree that Linux shows below /proc/device-tree.

use core::ffi::CStr;

use crate::path::Path;
use hanok_syscalls::file::{self, Access};

/// What the device's node is compatible with.
const COMPATIBLE: &[u8] = b"hanok,schedule";
/// How deep below the root it is looked for: at the root, and on a bus.
const DEPTH: u32 = 2;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The device's address.
    At(u64),
    /// No node of this kind.
    Nothing,
    /// There is no tree.
    NoTree,
}

/// Looks for the device in the tree whose root folder is `root`.
pub fn find(root: &CStr) -> Found {
    let Some(path) = Path::new(root) else {
        return Found::NoTree;
    };
    if file::open(root, Access::Folder).is_err() {
        return Found::NoTree;
    }
    below(&path, DEPTH).map_or(Found::Nothing, Found::At)
}

fn below(folder: &Path, depth: u32) -> Option<u64> {
    let mut found = None;
    let open = file::open(folder.get(), Access::Folder).ok()?;
    let look = |name: &CStr| {
        if !name.to_bytes().starts_with(b".")
            && let Some(node) = folder.join(name)
        {
            found = address(&node, folder);
            if found.is_none() && depth > 1 {
                found = below(&node, depth - 1);
            }
        }
        found.is_none()
    };
    open.names(look).ok()?;
    found
}

/// The address of the node, if it is the device.
fn address(node: &Path, parent: &Path) -> Option<u64> {
    let mut space = [0; 256];
    let names = property(node, c"compatible", &mut space)?;
    if !names
        .split(|byte| *byte == 0)
        .any(|name| name == COMPATIBLE)
    {
        return None;
    }
    let cells = match property(parent, c"#address-cells", &mut [0; 4]) {
        Some(&mut [0, 0, 0, 1]) => 1,
        _ => 2,
    };
    let mut space = [0; 16];
    let reg = property(node, c"reg", &mut space)?.get(..4 * cells)?;
    Some(reg.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn property<'a>(node: &Path, name: &CStr, into: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let path = node.join(name)?;
    let length = file::read(path.get(), into).ok()?.len();
    into.get_mut(..length)
}
