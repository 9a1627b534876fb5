//! The walker, one for every format and geometry.

use crate::format::{Entry, Format};
use crate::geometry::{Geometry, Level};
use crate::mapping::{MapError, Mapping};
use core::marker::PhantomData;
use hanok_hal::{TableMemory, Tlb};
use hanok_types::{Address, Hpa, PAGE_SIZE, Span};

/// The position of a descriptor.
#[derive(Clone, Copy)]
struct Slot {
    table: Hpa,
    index: usize,
    /// The level, as an index into [`Geometry::levels`].
    depth: usize,
    /// The first input address that the descriptor covers.
    start: u64,
}

/// A translation table with its frames. Every frame but the root holds a valid descriptor.
///
/// Dropping it does not free the frames, since a CPU may still use them: see [`Self::destroy`].
#[derive(Debug)]
pub struct Table<F, M> {
    geometry: Geometry,
    root: Hpa,
    memory: M,
    format: PhantomData<F>,
}

impl<F: Format, M: TableMemory> Table<F, M> {
    /// An empty table, with its root from `memory`; `None` if `memory` has no frame left or the
    /// regime does not allow this geometry.
    pub fn new(geometry: Geometry, mut memory: M) -> Option<Self> {
        if !F::supports(&geometry) {
            return None;
        }
        let root = memory.allocate(geometry.root().frames())?;
        Some(Self {
            geometry,
            root,
            memory,
            format: PhantomData,
        })
    }

    /// Frees every frame. No CPU may walk the table any more, and no TLB may hold entries of it.
    pub fn destroy(mut self) -> M {
        self.free_subtree(self.root, 0);
        self.memory
    }

    /// The address of the root, for the table base register.
    pub fn root(&self) -> Hpa {
        self.root
    }

    /// The geometry, for the control register.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The memory that the frames come from.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Maps `input` to the range of the same length at `output`, with the largest blocks that the
    /// alignment of both addresses allows. Nothing of `input` may be mapped yet. On an error
    /// nothing has changed.
    ///
    /// A caller that maps addresses of the hypervisor itself needs a context synchronization before
    /// it uses them (DDI 0487 D8.16). The memory's `write` does all else that is needed.
    pub fn map(
        &mut self,
        tlb: &mut impl Tlb<F::Input>,
        input: Span<F::Input>,
        output: Hpa,
        attributes: F::Attributes,
    ) -> Result<(), MapError<F::Input>> {
        self.check_input(&input)?;
        check_output::<F>(output, input.len())?;
        if let Some(mapping) = self.next_leaf(input.start().get())
            && mapping.input.overlaps(&input)
        {
            let first = mapping.input.start().max(input.start());
            return Err(MapError::AlreadyMapped(first));
        }
        let done = self.map_blocks(tlb, input, output, attributes);
        if done.is_err() {
            self.clear(tlb, input);
        }
        done
    }

    /// Unmaps all that is mapped in `span`. Blocks that reach beyond it are split. On an error
    /// every address is translated as before.
    pub fn unmap(
        &mut self,
        tlb: &mut impl Tlb<F::Input>,
        span: Span<F::Input>,
    ) -> Result<(), MapError<F::Input>> {
        self.check_input(&span)?;
        self.split_edges(tlb, span)?;
        self.clear(tlb, span);
        Ok(())
    }

    /// Changes the attributes of all of `span`, which must be mapped. Blocks that reach beyond it
    /// are split. On an error every address is translated as before.
    ///
    /// While a leaf changes, it is invalid for a moment, here and on other CPUs. So this must never
    /// be used for the memory of this code, its stack or its data; and if a guest takes a fault on
    /// an address that is mapped, the access is to be tried again.
    pub fn protect(
        &mut self,
        tlb: &mut impl Tlb<F::Input>,
        span: Span<F::Input>,
        attributes: F::Attributes,
    ) -> Result<(), MapError<F::Input>> {
        self.check_input(&span)?;
        self.check_mapped(span)?;
        self.split_edges(tlb, span)?;
        let mut at = span.start().get();
        while at < span.end().get() {
            let (slot, entry) = self.locate(at);
            if let Entry::Leaf(output, _) = entry {
                let leaf = F::leaf(output, attributes, self.level(slot.depth));
                self.replace(tlb, slot, leaf);
            }
            at = self.end_of(slot);
        }
        Ok(())
    }

    /// Splits the block around `address` by one level, if there is a block. It is to be called
    /// until the answer is [`Split::NotNeeded`], each time in an exit of its own. On an error
    /// nothing has changed.
    pub fn split_once(
        &mut self,
        tlb: &mut impl Tlb<F::Input>,
        address: F::Input,
    ) -> Result<Split, MapError<F::Input>> {
        if address.get() >= self.geometry.input_size() {
            return Err(MapError::OutOfRange);
        }
        match self.locate(address.get()) {
            (slot, Entry::Leaf(output, attributes))
                if self.level(slot.depth).size() > PAGE_SIZE =>
            {
                self.split(tlb, slot, output, attributes)?;
                Ok(Split::Done)
            }
            _ => Ok(Split::NotNeeded),
        }
    }

    /// The translation of `address`; `None` if it is not mapped.
    pub fn walk(&self, address: F::Input) -> Option<Mapping<F>> {
        if address.get() >= self.geometry.input_size() {
            return None;
        }
        let (slot, entry) = self.locate(address.get());
        let mapping = self.mapping(slot, entry)?;
        let output = Hpa::new(mapping.output.get() + (address.get() - slot.start));
        Some(Mapping { output, ..mapping })
    }

    /// Every leaf, in ascending order of addresses.
    pub fn iterate(&self) -> Mappings<'_, F, M> {
        Mappings { table: self, at: 0 }
    }

    fn level(&self, depth: usize) -> &'static Level {
        &self.geometry.levels()[depth]
    }

    fn end_of(&self, slot: Slot) -> u64 {
        slot.start + self.level(slot.depth).size()
    }

    fn slot(&self, table: Hpa, depth: usize, address: u64) -> Slot {
        let level = self.level(depth);
        Slot {
            table,
            index: level.index(address),
            depth,
            start: address & !(level.size() - 1),
        }
    }

    fn entry(&self, slot: Slot) -> Entry<F::Attributes> {
        let descriptor = self.memory.read(slot.table, slot.index);
        F::decode(descriptor, self.level(slot.depth))
    }

    fn mapping(&self, slot: Slot, entry: Entry<F::Attributes>) -> Option<Mapping<F>> {
        let Entry::Leaf(output, attributes) = entry else {
            return None;
        };
        let level = self.level(slot.depth);
        Some(Mapping {
            input: Span::new(F::Input::new(slot.start), level.size())?,
            output,
            level: level.number,
            attributes,
        })
    }

    /// The descriptor at which a walk for `address` ends. The table must cover `address`.
    fn locate(&self, address: u64) -> (Slot, Entry<F::Attributes>) {
        self.locate_within(address, address..address)
    }

    /// As [`Self::locate`], but stops at a table whose addresses are all in `whole`.
    fn locate_within(
        &self,
        address: u64,
        whole: core::ops::Range<u64>,
    ) -> (Slot, Entry<F::Attributes>) {
        let mut slot = self.slot(self.root, 0, address);
        loop {
            let entry = self.entry(slot);
            match entry {
                Entry::Table(next) if slot.start < whole.start || self.end_of(slot) > whole.end => {
                    slot = self.slot(next, slot.depth + 1, address);
                }
                _ => return (slot, entry),
            }
        }
    }

    /// The first leaf that ends after `address`.
    fn next_leaf(&self, address: u64) -> Option<Mapping<F>> {
        let mut at = address;
        while at < self.geometry.input_size() {
            let (slot, entry) = self.locate(at);
            if let Some(mapping) = self.mapping(slot, entry) {
                return Some(mapping);
            }
            at = self.end_of(slot);
        }
        None
    }

    fn check_input(&self, span: &Span<F::Input>) -> Result<(), MapError<F::Input>> {
        if !span.start().is_aligned(PAGE_SIZE) || !span.end().is_aligned(PAGE_SIZE) {
            Err(MapError::Misaligned)
        } else if span.end().get() > self.geometry.input_size() {
            Err(MapError::OutOfRange)
        } else {
            Ok(())
        }
    }

    fn check_mapped(&self, span: Span<F::Input>) -> Result<(), MapError<F::Input>> {
        let mut at = span.start();
        while at < span.end() {
            at = match self.walk(at) {
                Some(mapping) => mapping.input.end(),
                None => return Err(MapError::NotMapped(at)),
            };
        }
        Ok(())
    }

    /// Writes the leaves of a mapping whose range is free. On an error some of them may be written.
    fn map_blocks(
        &mut self,
        tlb: &mut impl Tlb<F::Input>,
        input: Span<F::Input>,
        output: Hpa,
        attributes: F::Attributes,
    ) -> Result<(), MapError<F::Input>> {
        let mut done = 0;
        while done < input.len() {
            let at = input.start().get() + done;
            let to = output.get() + done;
            let depth = self.largest_block(at | to, input.len() - done);
            let slot = self.reach(tlb, at, depth)?;
            let level = self.level(depth);
            self.replace(tlb, slot, F::leaf(Hpa::new(to), attributes, level));
            done += level.size();
        }
        Ok(())
    }

    /// The depth of the largest leaf that is at most `len` bytes and whose size divides `addresses`
    /// (a disjunction of several addresses).
    fn largest_block(&self, addresses: u64, len: u64) -> usize {
        let levels = self.geometry.levels();
        let fits = |level: &Level| {
            level.leaf && addresses & (level.size() - 1) == 0 && level.size() <= len
        };
        levels.iter().position(fits).unwrap_or(levels.len() - 1)
    }

    /// The descriptor for `address` at `depth`. Tables on the way that do not exist are added.
    fn reach(
        &mut self,
        tlb: &mut impl Tlb<F::Input>,
        address: u64,
        depth: usize,
    ) -> Result<Slot, MapError<F::Input>> {
        let mut slot = self.slot(self.root, 0, address);
        while slot.depth < depth {
            let next = match self.entry(slot) {
                Entry::Table(next) => next,
                Entry::Leaf(..) => return Err(MapError::AlreadyMapped(F::Input::new(address))),
                Entry::Invalid => self.add_table(tlb, slot)?,
            };
            slot = self.slot(next, slot.depth + 1, address);
        }
        Ok(slot)
    }

    fn add_table(
        &mut self,
        tlb: &mut impl Tlb<F::Input>,
        slot: Slot,
    ) -> Result<Hpa, MapError<F::Input>> {
        let frames = self.level(slot.depth + 1).frames();
        let table = self.memory.allocate(frames).ok_or(MapError::OutOfTables)?;
        self.replace(tlb, slot, F::table(table));
        Ok(table)
    }

    /// Splits leaves so that none reaches across either end of `span`.
    fn split_edges(
        &mut self,
        tlb: &mut impl Tlb<F::Input>,
        span: Span<F::Input>,
    ) -> Result<(), MapError<F::Input>> {
        self.split_at(tlb, span.start().get())?;
        self.split_at(tlb, span.end().get())
    }

    /// Splits the leaf around `address` until a leaf starts there.
    fn split_at(
        &mut self,
        tlb: &mut impl Tlb<F::Input>,
        address: u64,
    ) -> Result<(), MapError<F::Input>> {
        while address < self.geometry.input_size() {
            match self.locate(address) {
                (slot, Entry::Leaf(output, attributes)) if slot.start != address => {
                    self.split(tlb, slot, output, attributes)?;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Replaces a block by a table with the same meaning.
    fn split(
        &mut self,
        tlb: &mut impl Tlb<F::Input>,
        slot: Slot,
        output: Hpa,
        attributes: F::Attributes,
    ) -> Result<(), MapError<F::Input>> {
        let level = self.level(slot.depth + 1);
        let table = self
            .memory
            .allocate(level.frames())
            .ok_or(MapError::OutOfTables)?;
        for index in 0..level.entries() {
            let to = Hpa::new(output.get() + index as u64 * level.size());
            let leaf = F::leaf(to, attributes, level);
            // No walker sees the table yet, so there is nothing to break. Walkers see the table's
            // contents before they see its descriptor, because that is written twice, to break and
            // to make.
            self.memory.write_unseen(table, index, leaf);
        }
        self.replace(tlb, slot, F::table(table));
        Ok(())
    }

    /// Unmaps all leaves and tables inside `span`. A leaf that reaches beyond it stays.
    fn clear(&mut self, tlb: &mut impl Tlb<F::Input>, span: Span<F::Input>) {
        let end = span.end().get();
        let mut at = span.start().get();
        while at < end {
            let (slot, entry) = self.locate_within(at, span.start().get()..end);
            let next = self.end_of(slot);
            let inside = slot.start >= span.start().get() && next <= end;
            if inside && entry != Entry::Invalid {
                self.replace(tlb, slot, 0);
            }
            if let Entry::Table(table) = entry {
                self.free_subtree(table, slot.depth + 1);
            }
            at = next;
        }
        if !span.is_empty() {
            self.prune(tlb, span.start().get());
            self.prune(tlb, end - 1);
        }
    }

    /// Frees the tables on the way to `address` that have become empty, the lowest level first.
    fn prune(&mut self, tlb: &mut impl Tlb<F::Input>, address: u64) {
        while let Some((slot, table)) = self.last_table(address) {
            let level = self.level(slot.depth + 1);
            if !self.is_empty(table, level) {
                break;
            }
            self.replace(tlb, slot, 0);
            self.memory.free(table, level.frames());
        }
    }

    /// The last table on the way to `address`, and the descriptor that leads to it; `None` if that
    /// table is the root.
    fn last_table(&self, address: u64) -> Option<(Slot, Hpa)> {
        let mut found = None;
        let mut slot = self.slot(self.root, 0, address);
        while let Entry::Table(next) = self.entry(slot) {
            found = Some((slot, next));
            slot = self.slot(next, slot.depth + 1, address);
        }
        found
    }

    fn is_empty(&self, table: Hpa, level: &Level) -> bool {
        (0..level.entries()).all(|index| self.memory.read(table, index) == 0)
    }

    /// Frees a table that no walker reaches any more, and all tables below it.
    fn free_subtree(&mut self, table: Hpa, depth: usize) {
        let level = self.level(depth);
        for index in 0..level.entries() {
            if let Entry::Table(next) = F::decode(self.memory.read(table, index), level) {
                self.free_subtree(next, depth + 1);
            }
        }
        self.memory.free(table, level.frames());
    }

    /// Writes a descriptor that a walker may see; no other function does.
    ///
    /// A valid descriptor is first made invalid and removed from the TLB, walk caches included.
    /// Only then is another one written in its place, or its table freed (DDI 0487 D8.16 "Using
    /// break-before-make when updating translation table entries").
    fn replace(&mut self, tlb: &mut impl Tlb<F::Input>, slot: Slot, new: u64) {
        let old = self.memory.read(slot.table, slot.index);
        if old == new {
            return;
        }
        let size = self.level(slot.depth).size();
        if old != 0 {
            self.memory.write(slot.table, slot.index, 0);
            if let Some(range) = Span::new(F::Input::new(slot.start), size) {
                tlb.invalidate(range);
            }
        }
        if new != 0 {
            self.memory.write(slot.table, slot.index, new);
        }
    }
}

/// Whether a block was split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Split {
    /// A block was split by one level.
    Done,
    /// There is no block: a page is mapped there, or nothing.
    NotNeeded,
}

fn check_output<F: Format>(output: Hpa, len: u64) -> Result<(), MapError<F::Input>> {
    if !output.is_aligned(PAGE_SIZE) {
        return Err(MapError::Misaligned);
    }
    match output.get().checked_add(len) {
        Some(end) if end <= 1 << F::OUTPUT_BITS => Ok(()),
        _ => Err(MapError::OutOfRange),
    }
}

/// The leaves of a table, in ascending order of addresses.
#[derive(Debug)]
pub struct Mappings<'a, F, M> {
    table: &'a Table<F, M>,
    at: u64,
}

impl<F: Format, M: TableMemory> Iterator for Mappings<'_, F, M> {
    type Item = Mapping<F>;

    fn next(&mut self) -> Option<Mapping<F>> {
        let mapping = self.table.next_leaf(self.at)?;
        self.at = mapping.input.end().get();
        Some(mapping)
    }
}
