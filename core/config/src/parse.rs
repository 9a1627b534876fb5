//! Device tree -> model, on the board.

use crate::error::{Place, TreeError};
use crate::model::{Blob, BlobKind, MAX_BLOBS, MAX_SEEDS, System, VmConfig};
use crate::tree::{self, Cells};
use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;
use hanok_types::{CpuId, Ipa, MAX_VCPUS, MAX_VMS};
use heapless::{String, Vec};

impl System {
    /// Reads the system's tree from the start of `tree` (bytes after it are left alone) and
    /// applies every rule; `payload_len` is the length in bytes of the payload that the
    /// blobs' offsets count in.
    pub fn parse(tree: &[u8], payload_len: u64) -> Result<Self, TreeError> {
        let fdt = tree::open(tree)?;
        let root = fdt.root();
        if !tree::compatible(&root, "hanok,system") {
            return Err(TreeError::NotASystem);
        }
        match Reader::new(root, Place::Root).cell("hanok,version")? {
            1 => {}
            other => return Err(TreeError::Version(other)),
        }
        let mut system = Self::default();
        for (index, vm) in children(&root, "vms", "vm").enumerate() {
            let too_many = Place::Root.too_many("VMs", MAX_VMS);
            let vm = parse_vm(vm, index)?;
            system.vms.push(vm).map_err(|_| too_many)?;
        }
        system.check(payload_len)?;
        Ok(system)
    }
}

/// The children named `name` of the children named `group` of `node`.
fn children<'a>(
    node: &FdtNode<'a>,
    group: &'static str,
    name: &'static str,
) -> impl Iterator<Item = FdtNode<'a>> + use<'a> {
    named(node, group).flat_map(move |group| named(&group, name))
}

/// The children of `node` whose name, without the unit address, is `name`.
fn named<'a>(
    node: &FdtNode<'a>,
    name: &'static str,
) -> impl Iterator<Item = FdtNode<'a>> + use<'a> {
    node.children()
        .filter(move |child| child.name_without_address() == name)
}

fn parse_vm(node: FdtNode<'_>, index: usize) -> Result<VmConfig, TreeError> {
    let place = Place::Vm(index);
    let vm = Reader::new(node, place);
    let mut config = VmConfig {
        name: vm.read("label", |value| {
            String::try_from(tree::as_text(value)?).ok()
        })?,
        cpus: vm.cpus()?,
        memory: vm.read("memory", |value| {
            let mut cells = Cells(value);
            cells.span().filter(|_| cells.is_empty())
        })?,
        entry: Ipa::new(vm.long("entry")?),
        argument: vm.long("argument")?,
        blobs: Vec::new(),
    };
    for (number, blob) in named(&node, "blob").enumerate() {
        let blob = parse_blob(&Reader::new(blob, Place::Blob(index, number)))?;
        let too_many = place.too_many("blobs", MAX_BLOBS);
        config.blobs.push(blob).map_err(|_| too_many)?;
    }
    Ok(config)
}

fn parse_blob(blob: &Reader<'_>) -> Result<Blob, TreeError> {
    let (offset, len) = blob.read("source", |value| {
        let mut cells = Cells(value);
        let source = (cells.two()?, cells.two()?);
        cells.is_empty().then_some(source)
    })?;
    Ok(Blob {
        kind: blob.read("kind", |value| BlobKind::from_word(tree::as_text(value)?))?,
        offset,
        len,
        load: Ipa::new(blob.long("load")?),
        sum: blob.long("sum")?,
        seeds: blob.seeds()?,
    })
}

impl Place {
    fn too_many(self, what: &'static str, most: usize) -> TreeError {
        TreeError::TooMany {
            place: self,
            what,
            most,
        }
    }
}

/// A node, with its place for messages.
struct Reader<'a> {
    node: FdtNode<'a>,
    place: Place,
}

impl<'a> Reader<'a> {
    fn new(node: FdtNode<'a>, place: Place) -> Self {
        Self { node, place }
    }

    fn malformed(&self, name: &'static str) -> TreeError {
        let place = self.place;
        TreeError::Malformed { place, name }
    }

    /// Property `name` through `form`, which answers `None` to a value of the wrong form.
    fn read<T>(
        &self,
        name: &'static str,
        form: impl FnOnce(&'a [u8]) -> Option<T>,
    ) -> Result<T, TreeError> {
        let place = self.place;
        let value = tree::value(&self.node, name).ok_or(TreeError::Missing { place, name })?;
        form(value).ok_or_else(|| self.malformed(name))
    }

    fn cell(&self, name: &'static str) -> Result<u32, TreeError> {
        self.read(name, |value| value.try_into().ok().map(u32::from_be_bytes))
    }

    fn long(&self, name: &'static str) -> Result<u64, TreeError> {
        self.read(name, |value| value.try_into().ok().map(u64::from_be_bytes))
    }

    fn cpus(&self) -> Result<Vec<CpuId, MAX_VCPUS>, TreeError> {
        let mut cells = Cells(self.read("cpus", Some)?);
        let mut cpus = Vec::new();
        while !cells.is_empty() {
            let number = cells.one().and_then(|cell| u8::try_from(cell).ok());
            let cpu = CpuId::new(number.ok_or_else(|| self.malformed("cpus"))?);
            let too_many = self.place.too_many("vCPUs", MAX_VCPUS);
            cpus.push(cpu).map_err(|_| too_many)?;
        }
        Ok(cpus)
    }

    fn seeds(&self) -> Result<Vec<(u32, u32), MAX_SEEDS>, TreeError> {
        let mut cells = Cells(tree::value(&self.node, "seeds").unwrap_or_default());
        let mut seeds = Vec::new();
        while !cells.is_empty() {
            let seed = cells.one().zip(cells.one());
            let seed = seed.ok_or_else(|| self.malformed("seeds"))?;
            let too_many = self.place.too_many("seeds", MAX_SEEDS);
            seeds.push(seed).map_err(|_| too_many)?;
        }
        Ok(seeds)
    }
}
