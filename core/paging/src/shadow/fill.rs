//! Making entries after an abort.

use super::entries::{Entry, Leaf};
use super::host::{FrameKind, HostFrame, HostMemory, UNCERTAIN};
use super::origin::Origin;
use super::owed::{Owed, Progress};
use super::roots::GuestSpace;
use super::tables::frame_half;
use super::{Shadow, first_index, frame_number, second_index};
use crate::short::{
    Access, AccessKind, Attributes, GuestMapping, MappingSize, MemoryKind, MemoryType, Rights,
    ShortFault, WalkError, Words,
};
use hanok_hal::TableMemory;
use hanok_types::{Address, Hpa, Ipa, PAGE_SIZE};

/// The bytes of a section.
const SECTION: u64 = 1 << 20;
/// The first address that a short descriptor cannot hold.
const END: u64 = 1 << 32;

/// How many pages around the one that is asked for are mapped with it, if the guest's tables and
/// the host have something there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbours {
    /// None.
    None,
    /// The other three of four pages, aligned to their size.
    Of4,
    /// The other fifteen of sixteen pages, aligned to their size.
    Of16,
}

impl Neighbours {
    /// How many pages are together: an even number, but for one.
    const fn pages(self) -> usize {
        match self {
            Self::None => 1,
            Self::Of4 => 4,
            Self::Of16 => 16,
        }
    }
}

/// What came of an abort. Only [`Self::Made`] has changed anything that matters to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Filled {
    /// The access can be made now.
    Made(Owed),
    /// The guest is to be told of this fault.
    Fault(ShortFault),
    /// The guest may make the access, but there is no frame for it: another device than its own, an absent page,
    /// or nothing; or it fetches from a device.
    NoFrame(GuestMapping),
    /// The guest may make the access, but it leads above 4 GiB, where nothing is.
    Beyond(Ipa),
    /// The guest may make the access, but the kind of the frame does not allow it.
    Protected(GuestMapping),
    /// The guest may make the access, but it is in the window, which has to move first.
    InWindow(GuestMapping),
    /// The call is to be made again.
    Again,
}

/// An abort that is being served.
struct Abort<'a, H> {
    space: &'a GuestSpace,
    access: Access,
    host: &'a H,
    /// [`TableMemory::shares`].
    shares: bool,
}

impl<H: HostMemory> Abort<'_, H> {
    fn walk(&self, access: &Access) -> Result<GuestMapping, WalkError> {
        let read = |at| self.host.word(at);
        self.space.regime.walk(access, read)
    }

    /// The section that can be mapped for the access; `None` if only pages can.
    fn section(&self, mapping: &GuestMapping) -> Option<HostFrame> {
        if mapping.size < MappingSize::Section {
            return None;
        }
        let frame = self.host.section(mapping.output.align_down(SECTION))?;
        (frame.at.is_aligned(SECTION) && frame.at.get() < END).then_some(frame)
    }

    fn page(&self, mapping: &GuestMapping) -> Option<HostFrame> {
        self.page_at(mapping.output.align_down(PAGE_SIZE))
    }

    fn page_at(&self, output: Ipa) -> Option<HostFrame> {
        let frame = self.host.page(output)?;
        (frame.at.is_aligned(PAGE_SIZE) && frame.at.get() < END).then_some(frame)
    }

    /// The entry for `at`, if it allows an access of this kind.
    #[inline(never)]
    fn leaf(
        &self,
        at: u32,
        kind: AccessKind,
        mapping: &GuestMapping,
        frame: HostFrame,
    ) -> Option<Leaf> {
        let view = self.access.by;
        let rights = frame.kind.limit(mapping.permissions.of(view), view);
        rights.allow(kind).then_some(Leaf {
            at,
            frame: frame.at,
            attributes: attributes(mapping, frame.kind, rights, self.shares),
            origin: Origin::of(mapping),
            doorbell: frame.kind == FrameKind::Doorbell && rights.write,
            source: match mapping.size {
                MappingSize::Section | MappingSize::Supersection => mapping.descriptor,
                _ => 0,
            },
        })
    }

    /// [`HostMemory::plain_frames`] of these descriptors, if they are to be looked at so.
    #[inline(never)]
    fn plain_frames(&self, beside: &Made, descriptors: &Option<[u32; 16]>) -> [u32; 16] {
        match descriptors {
            Some(words) if beside.is_plain && self.space.regime.loads_as_stored() => {
                self.host.plain_frames(words)
            }
            _ => [UNCERTAIN; 16],
        }
    }

    /// What is to be made for a page beside one that has been made. `descriptor` is the page's, as it is in memory; `None` if
    /// both have the same.
    fn neighbour(&self, at: u32, beside: &Made, descriptor: Option<u32>) -> Option<Neighbour> {
        let mapping = beside.mapping;
        let output = match descriptor.map(|word| self.space.regime.loaded(word)) {
            None => {
                let base = mapping.output.get() & !(SECTION - 1);
                Ipa::new(base | u64::from(at) & (SECTION - 1))
            }
            // Mostly a page has the attributes of the one beside it.
            Some(word)
                if mapping.size == MappingSize::Small
                    && (word ^ mapping.descriptor) & ATTRIBUTES == 0 =>
            {
                Ipa::new((word & !ATTRIBUTES).into())
            }
            Some(_) => return self.unlike(at),
        };
        let frame = self.page_at(output)?;
        // Whoever may do what the access did may read.
        if frame.kind == beside.kind && frame.kind != FrameKind::Doorbell {
            return Some(Neighbour::Alike(frame.at));
        }
        let mapping = GuestMapping { output, ..*mapping };
        let leaf = self.leaf(at, AccessKind::Read, &mapping, frame)?;
        Some(Neighbour::Other(leaf))
    }

    /// The same, for a page with other attributes.
    #[inline(never)]
    fn unlike(&self, at: u32) -> Option<Neighbour> {
        let kind = AccessKind::Read;
        let access = Access {
            address: at,
            kind,
            ..self.access
        };
        let mapping = self.walk(&access).ok()?;
        let leaf = self.leaf(at, kind, &mapping, self.page(&mapping)?)?;
        Some(Neighbour::Other(leaf))
    }
}

/// All of a small page's descriptor but its address (DDI 0406C, B3.5.1).
const ATTRIBUTES: u32 = 0xfff;

/// A page that has been mapped.
struct Made<'a> {
    mapping: &'a GuestMapping,
    kind: FrameKind,
    /// Whether it is a small page with nothing but plain memory behind it.
    is_plain: bool,
    /// Its entry, without the frame.
    alike: u32,
}

/// A page beside it.
enum Neighbour {
    /// It differs in its frame alone.
    Alike(Hpa),
    Other(Leaf),
}

/// The bits of an entry for User mode: AP 0b011, or 0b111 if it is not writable. Whoever may write
/// or execute may read (DDI 0406C, B3.7.1).
fn attributes(mapping: &GuestMapping, kind: FrameKind, rights: Rights, shares: bool) -> Attributes {
    let memory = match (kind, mapping.memory.kind) {
        // The stronger of the two, as a second stage of translation would have it.
        (FrameKind::Device, MemoryKind::StronglyOrdered) => MemoryType::STRONGLY_ORDERED,
        (FrameKind::Device, _) => MemoryType::DEVICE,
        // Whatever the guest says of its memory, all who access it do so by the same caches: the hypervisor, which reads its
        // tables and its code, too, and the guest itself with its MMU off (DDI 0406C, A3.5.7, mismatched attributes). So
        // nothing that it wrote can be missed, and maintenance by set and way has nothing to do.
        _ => MemoryType::WRITE_BACK,
    };
    let (texcb, shareable) = memory.to_default();
    Attributes {
        texcb,
        shareable: shareable && shares,
        ap: if rights.write { 0b011 } else { 0b111 },
        not_global: true,
        execute_never: !rights.execute,
        pxn: false,
    }
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Shadow<M, ROOTS, TABLES> {
    /// Serves an abort of the guest in `space`: walks the guest's tables for `access`, and makes
    /// the entry that allows it in the view of `access.by`, and those of its neighbours.
    pub fn fill(
        &mut self,
        space: &GuestSpace,
        access: &Access,
        host: &impl HostMemory,
        neighbours: Neighbours,
    ) -> Filled {
        let abort = Abort {
            space,
            access: *access,
            host,
            shares: self.memory.shares(),
        };
        match abort.walk(access) {
            Err(WalkError::Fault(fault)) => Filled::Fault(fault),
            Err(WalkError::Beyond(at)) => Filled::Beyond(at),
            Ok(mapping) if self.window.contains(access.address) => Filled::InWindow(mapping),
            Ok(mapping) => self.fill_mapped(&abort, &mapping, neighbours),
        }
    }

    /// As [`Self::fill`] without neighbours, for an access that a walk has just found to be allowed, and to lead to
    /// `mapping`.
    pub fn fill_found(
        &mut self,
        space: &GuestSpace,
        access: &Access,
        mapping: &GuestMapping,
        host: &impl HostMemory,
    ) -> Filled {
        if self.window.contains(access.address) {
            return Filled::InWindow(*mapping);
        }
        let abort = Abort {
            space,
            access: *access,
            host,
            shares: self.memory.shares(),
        };
        self.fill_mapped(&abort, mapping, Neighbours::None)
    }

    fn fill_mapped<H: HostMemory>(
        &mut self,
        abort: &Abort<H>,
        mapping: &GuestMapping,
        neighbours: Neighbours,
    ) -> Filled {
        let Access { address, kind, by } = abort.access;
        let section = abort.section(mapping);
        let frame = section.or_else(|| abort.page(mapping));
        let is_fit =
            |frame: &HostFrame| frame.kind != FrameKind::Device || kind != AccessKind::Execute;
        let Some(frame) = frame.filter(is_fit) else {
            return Filled::NoFrame(*mapping);
        };
        let Some(leaf) = abort.leaf(address, kind, mapping, frame) else {
            return Filled::Protected(*mapping);
        };
        let Progress::Done(root) = self.root_of(abort.space, by, !leaf.origin.global) else {
            return Filled::Again;
        };
        self.filled = root;
        let holder = self.holder(root, &leaf);
        let owed = if section.is_some() {
            self.put_section(holder, &leaf)
        } else {
            let owed = self.put_page(holder, &leaf);
            if neighbours != Neighbours::None {
                let made = Made {
                    mapping,
                    kind: frame.kind,
                    is_plain: mapping.size == MappingSize::Small && frame.kind == FrameKind::Plain,
                    alike: leaf.attributes.small_page(0).into_bits(),
                };
                self.fill_neighbours(holder, abort, &made, neighbours);
            }
            owed
        };
        if holder != root {
            self.share(root, first_index(address));
        }
        Filled::Made(owed)
    }

    /// Maps pages around one that has been made that are not mapped yet, all by the same table. Nothing is owed
    /// for them, as no TLB holds what is not there; and if a walk does not see one at once, there is another abort.
    fn fill_neighbours<H: HostMemory>(
        &mut self,
        holder: usize,
        abort: &Abort<H>,
        made: &Made,
        neighbours: Neighbours,
    ) {
        let address = abort.access.address;
        let Entry::Table(table, _) = self.entry(holder, first_index(address)) else {
            return;
        };
        // The descriptors of the sixteen pages around, as they are in memory, if not a section says it all.
        let mut descriptors = None;
        let mut plain = None;
        if made.mapping.size < MappingSize::Section {
            let at = Ipa::new((made.mapping.descriptor_at & !0x3f).into());
            let Some(words) = abort.host.words(at) else {
                return;
            };
            descriptors = Some(words);
        }
        let at_table = self.tables.address(table);
        let (mut page, mut left) = (second_index(address), neighbours.pages());
        page &= !(left - 1);
        let (mut number, mut frames) = (0, [0; 2]);
        // What entries are like for these attributes in the guest's descriptors.
        let first = (made.mapping.descriptor & ATTRIBUTES, made.alike);
        let mut second = first;
        // Not by iterators, which take twice as many instructions in T32.
        while left != 0 {
            let descriptor = descriptors.as_ref().map(|all| all[page % 16]);
            if descriptor != Some(0) && self.memory.word(at_table, page) == 0 {
                // Mostly none is missing, or all.
                let plain = plain.get_or_insert_with(|| abort.plain_frames(made, &descriptors));
                let frame = plain[page % 16];
                let attributes = descriptor.unwrap_or(0) & ATTRIBUTES;
                let entry = if frame != UNCERTAIN && attributes == first.0 {
                    Some((first.1 | frame << 12, frame))
                } else if frame != UNCERTAIN && attributes == second.0 {
                    Some((second.1 | frame << 12, frame))
                } else {
                    let at = address & !0xf_ffff | (page as u32) << 12;
                    let entry = self.beside(holder, abort, made, (at, descriptor));
                    if let Some((leaf, _)) = entry
                        && frame != UNCERTAIN
                    {
                        second = (attributes, leaf & ATTRIBUTES);
                    }
                    entry
                };
                if let Some((leaf, frame)) = entry {
                    self.memory.set_word_unseen(at_table, page, leaf);
                    number += 1;
                    let (half, bit) = frame_half(frame);
                    frames[half] |= bit;
                }
            }
            page += 1;
            left -= 1;
        }
        let state = self.tables.get_mut(table);
        state.live += number;
        state.frames |= u64::from(frames[1]) << u32::BITS | u64::from(frames[0]);
    }

    /// The entry of a neighbour and its frame's number, if it is to have one. `at` is its address.
    #[inline(never)]
    fn beside<H: HostMemory>(
        &mut self,
        holder: usize,
        abort: &Abort<H>,
        made: &Made,
        (at, descriptor): (u32, Option<u32>),
    ) -> Option<(u32, u32)> {
        let (entry, frame) = match abort.neighbour(at, made, descriptor)? {
            Neighbour::Alike(frame) => (made.alike | frame.get() as u32, frame),
            Neighbour::Other(leaf) => {
                if !leaf.origin.global && holder < Self::COMMON {
                    return None;
                }
                self.join(holder, &leaf);
                let page = leaf.attributes.small_page(leaf.frame.get());
                (page.into_bits(), leaf.frame)
            }
        };
        Some((entry, frame_number(frame) as u32))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::short::{Cacheability, Permissions, Shareability};

    /// What mismatched attributes would lose (DDI 0406C, A3.5.7) is not lost.
    #[test]
    fn a_guest_s_memory_is_cacheable_whatever_it_says_and_a_device_never() {
        let both = Rights {
            read: true,
            write: true,
            execute: false,
        };
        let types = [
            MemoryType::STRONGLY_ORDERED,
            MemoryType::DEVICE,
            MemoryType::NON_CACHEABLE,
            MemoryType::normal(Cacheability::WriteThrough, Shareability::None),
            MemoryType::WRITE_BACK,
        ];
        for (memory, size) in types.into_iter().flat_map(|memory| {
            [MappingSize::Flat, MappingSize::Small, MappingSize::Section].map(|size| (memory, size))
        }) {
            let mapping = GuestMapping {
                output: Ipa::new(0),
                size,
                memory,
                global: false,
                permissions: Permissions {
                    kernel: both,
                    user: both,
                },
                domain: 0,
                descriptor: 0,
                descriptor_at: 0,
            };
            let entry = |kind| attributes(&mapping, kind, both, true).texcb;
            for kind in [FrameKind::Plain, FrameKind::Code, FrameKind::Sealed] {
                assert_eq!(entry(kind), MemoryType::WRITE_BACK.to_default().0);
            }
            let ordered = memory == MemoryType::STRONGLY_ORDERED;
            let device = if ordered { memory } else { MemoryType::DEVICE };
            assert_eq!(entry(FrameKind::Device), device.to_default().0);
        }
    }
}
