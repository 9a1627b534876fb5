//! Damage on purpose: to an image before the board boots it, or to the device tree that is passed
//! to the hypervisor. The scenario, or a seed made from its name, chooses every place, so that a
//! failure can be repeated.

use std::ops::Range;

use anyhow::{Context, Result, bail};
use hanok_config::{BlobKind, System};
use serde::Deserialize;

/// What is done to some bytes; all of it, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Damage {
    /// The part of an image that is damaged; by default all of it.
    #[serde(default)]
    pub part: Part,
    /// Flips the lowest bit of the byte at this offset.
    pub flip: Option<u64>,
    /// Flips this many bits, anywhere.
    #[serde(default)]
    pub flips: u64,
    /// Flips the lowest bit of the value of the first property with this name; only in a device
    /// tree.
    pub property: Option<String>,
    /// Writes this over the start.
    pub put: Option<String>,
    /// Keeps only this many bytes: a file is cut, in a part the rest becomes zeros.
    pub keep: Option<u64>,
}

/// A part of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// All of it.
    #[default]
    Image,
    /// The header of the Linux boot protocol.
    Header,
    /// The information block behind it.
    Information,
    /// The hypervisor's own binary behind that.
    Hypervisor,
    /// All that follows the hypervisor.
    Payload,
    /// The system's tree.
    SystemTree,
    /// The first VM's kernel.
    Kernel,
    /// Its initramfs.
    Initramfs,
    /// Its device tree.
    DeviceTree,
}

impl Part {
    /// Where it is in an image that is still whole.
    fn place(self, image: &[u8]) -> Result<Range<usize>> {
        let kind = match self {
            Self::Image => return Ok(0..image.len()),
            Self::Header => return Ok(0..64),
            Self::Information => return Ok(64..152),
            Self::Hypervisor => return Ok(152..payload(image)?.start),
            Self::Payload => return payload(image),
            Self::SystemTree => {
                let start = payload(image)?.start;
                let size = image
                    .get(start + 4..start + 8)
                    .and_then(|len| len.first_chunk());
                let size = u32::from_be_bytes(*size.context("the image has no tree")?);
                return Ok(start..start + size as usize);
            }
            Self::Kernel => BlobKind::Kernel,
            Self::Initramfs => BlobKind::Initramfs,
            Self::DeviceTree => BlobKind::DeviceTree,
        };
        blob(image, kind)
    }
}

fn payload(image: &[u8]) -> Result<Range<usize>> {
    let field = |at: usize| image.get(at..).and_then(|rest| rest.first_chunk());
    let fields = field(80).zip(field(88));
    let (start, len) = fields.context("the image has no information block")?;
    let [start, len] = [start, len].map(|bytes| u64::from_le_bytes(*bytes) as usize);
    Ok(start..start + len)
}

/// Where the first VM's blob of this kind is.
fn blob(image: &[u8], kind: BlobKind) -> Result<Range<usize>> {
    let place = payload(image)?;
    let bytes = image.get(place.clone()).context("the payload is cut")?;
    let system = System::parse(bytes, bytes.len() as u64);
    let system = system.map_err(|error| anyhow::anyhow!("{error}"))?;
    let blobs = system
        .vms
        .first()
        .map(|vm| &vm.blobs[..])
        .unwrap_or_default();
    let blob = blobs.iter().find(|blob| blob.kind == kind);
    let blob = blob.with_context(|| format!("the first VM has no {kind:?}"))?;
    let start = place.start + blob.offset as usize;
    Ok(start..start + blob.len as usize)
}

/// Does all of `damage` to an image.
pub fn damage_image(image: &mut Vec<u8>, damage: &[Damage], seed: u64) -> Result<()> {
    // The places are those of the whole image: a first damage may hide the others.
    let places = damage.iter().map(|one| one.part.place(image));
    let places = places.collect::<Result<Vec<_>>>()?;
    for (one, place) in damage.iter().zip(places) {
        if one.part == Part::Image {
            one.apply(image, seed)?;
            continue;
        }
        let part = image.get_mut(place).context("the part was cut off")?;
        let mut changed = part.to_vec();
        one.apply(&mut changed, seed)?;
        changed.resize(part.len(), 0);
        part.copy_from_slice(&changed);
    }
    Ok(())
}

impl Damage {
    /// Does it; an error where nothing would change.
    pub fn apply(&self, bytes: &mut Vec<u8>, seed: u64) -> Result<()> {
        let before = bytes.clone();
        if let Some(at) = self.flip {
            let byte = bytes
                .get_mut(at as usize)
                .context("`flip` lies behind the end")?;
            *byte ^= 1;
        }
        if let Some(name) = &self.property {
            let at = last_byte(bytes, name);
            bytes[at.with_context(|| format!("no property {name}"))?] ^= 1;
        }
        let mut random = Random(seed);
        let bits = bytes.len() as u64 * 8;
        for _ in 0..self.flips {
            let bit = random.next() % bits.max(1);
            if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
                *byte ^= 1 << (bit % 8);
            }
        }
        if let Some(text) = &self.put {
            let place = bytes.get_mut(..text.len()).context("`put` is too long")?;
            place.copy_from_slice(text.as_bytes());
        }
        if let Some(keep) = self.keep {
            bytes.truncate(keep as usize);
        }
        if *bytes == before && *self != Self::default() {
            bail!("the damage changes nothing");
        }
        Ok(())
    }
}

/// Where the last byte of a property's value is: the first property of this name that has one
/// (Devicetree Specification 0.4, 5.4: its token is 3; its length and its name's place follow).
fn last_byte(tree: &[u8], wanted: &str) -> Option<usize> {
    let field = |at: usize| {
        let bytes = tree.get(at..)?.first_chunk()?;
        Some(u32::from_be_bytes(*bytes) as usize)
    };
    let name = |at: usize| tree.get(at..)?.split(|byte| *byte == 0).next();
    let mut at = field(8)?;
    loop {
        match field(at)? {
            1 => at += 4 + (name(at + 4)?.len() + 1).next_multiple_of(4),
            3 => {
                let (len, place) = (field(at + 4)?, field(12)? + field(at + 8)?);
                if len > 0 && name(place)? == wanted.as_bytes() {
                    return Some(at + 12 + len - 1);
                }
                at += 12 + len.next_multiple_of(4);
            }
            2 | 4 => at += 4,
            _ => return None,
        }
    }
}

/// A device tree without the room behind its blocks, of which QEMU leaves a megabyte: what
/// is damaged there would be no damage (Devicetree Specification 0.4, 5.2).
pub fn packed(mut tree: Vec<u8>) -> Result<Vec<u8>> {
    let field = |at: usize| -> Result<usize> {
        let bytes = tree.get(at..).and_then(|rest| rest.first_chunk());
        Ok(u32::from_be_bytes(*bytes.context("the tree is too short")?) as usize)
    };
    let structure = field(8)? + field(36)?;
    let strings = field(12)? + field(32)?;
    let end = structure.max(strings);
    if end > tree.len() {
        bail!("the tree is cut");
    }
    tree.truncate(end);
    let size = u32::try_from(end)?.to_be_bytes();
    tree[4..8].copy_from_slice(&size);
    Ok(tree)
}

/// SplitMix64 (Steele, Lea and Flood, 2014): small, and it gives the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(damage: Damage, seed: u64) -> Vec<u8> {
        let mut bytes = vec![0; 16];
        damage.apply(&mut bytes, seed).unwrap();
        bytes
    }

    #[test]
    fn damage_is_where_it_was_ordered() {
        let flip = Damage {
            flip: Some(3),
            ..Damage::default()
        };
        assert_eq!(done(flip, 1)[..4], [0, 0, 0, 1]);
        let put = Damage {
            put: Some("ab".into()),
            ..Damage::default()
        };
        assert_eq!(done(put, 1)[..3], *b"ab\0");
        let keep = Damage {
            keep: Some(5),
            ..Damage::default()
        };
        assert_eq!(done(keep, 1).len(), 5);
    }

    #[test]
    fn a_seed_gives_the_same_damage_again() {
        let flips = || Damage {
            flips: 1,
            ..Damage::default()
        };
        assert_eq!(done(flips(), 7), done(flips(), 7));
        let differing = (1..9).any(|seed| done(flips(), seed) != done(flips(), 0));
        assert!(differing);
        let ones: u32 = done(flips(), 3).iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(ones, 1);
    }

    #[test]
    fn a_property_is_found_by_its_name() {
        let system = System::default();
        let damaged = |name: &str| {
            let mut tree = system.to_tree();
            let damage = Damage {
                property: Some(name.into()),
                ..Damage::default()
            };
            damage.apply(&mut tree, 1).map(|()| tree)
        };
        let other = System {
            slice: system.slice ^ 1,
            ..system.clone()
        };
        assert_eq!(damaged("slice").unwrap(), other.to_tree());
        assert!(damaged("nothing").is_err() && damaged("lice").is_err());
    }

    #[test]
    fn the_room_behind_a_tree_is_left_out() {
        let mut tree = vec![0; 4096];
        for (at, value) in [(4, 4096u32), (8, 56), (12, 100), (32, 20), (36, 44)] {
            tree[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        let packed = packed(tree.clone()).unwrap();
        assert_eq!((packed.len(), &packed[4..8]), (120, &[0, 0, 0, 120][..]));
        tree.truncate(110);
        assert!(super::packed(tree).is_err());
    }

    #[test]
    fn damage_that_changes_nothing_is_no_test() {
        let keep = Damage {
            keep: Some(99),
            ..Damage::default()
        };
        assert!(keep.apply(&mut vec![0; 16], 1).is_err());
        let far = Damage {
            flip: Some(99),
            ..Damage::default()
        };
        assert!(far.apply(&mut vec![0; 16], 1).is_err());
    }
}
