//! Finds the sensitive instructions in a file of any known kind.

use crate::area;
use crate::container::elf::{self, ElfImage, Linkage, Segment};
use crate::container::unpack::Compression;
use crate::container::{archive, zimage};
use crate::image::{self, Code, Image};
use crate::kallsyms::Symbol;
use crate::linked;
use crate::linux::FoundTable;
use crate::mapped;
use crate::refusal::{Refusal, Result};
use crate::site::Site;
use hanok_decode::aarch32::Isa;
use std::borrow::Cow;
use std::ops::Range;

/// The kind of a file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An ELF file that is to be linked: an object or a module.
    Object,
    /// An ELF file that is linked.
    Executable,
    /// An archive of objects.
    Archive,
    /// A kernel's raw image.
    Image,
}

/// A place that has sites: a section of an ELF file or of an archive's member, or a whole image.
#[derive(Clone, Debug)]
pub struct SitePlace {
    /// The archive's member.
    pub member: Option<String>,
    /// The section's name.
    pub section: String,
    /// The address at which the place begins.
    pub address: u32,
    /// The functions, by address.
    functions: Vec<(u32, String)>,
}

impl SitePlace {
    /// A place with these functions, for a test.
    #[cfg(test)]
    pub(crate) fn with_functions(functions: Vec<(u32, String)>) -> Self {
        Self {
            member: None,
            section: String::new(),
            address: 0,
            functions,
        }
    }

    /// The function that contains `address`.
    pub fn function(&self, address: u32) -> Option<&str> {
        let after = self.functions.partition_point(|(at, _)| *at <= address);
        self.functions
            .get(after.checked_sub(1)?)
            .map(|(_, name)| name.as_str())
    }

    /// The addresses of the functions whose names are such.
    pub(crate) fn named(&self, such: fn(&str) -> bool) -> impl Iterator<Item = u32> + '_ {
        let functions = self.functions.iter();
        functions
            .filter(move |(_, name)| such(name))
            .map(|(at, _)| *at)
    }

    /// The addresses of the functions.
    pub(crate) fn starts(&self) -> impl Iterator<Item = u32> + '_ {
        self.functions.iter().map(|(at, _)| *at)
    }

    /// The range of the function that contains `address`: it ends where the next one begins.
    pub fn extent(&self, address: u32) -> Option<Range<u32>> {
        let after = self.functions.partition_point(|(at, _)| *at <= address);
        let (start, _) = self.functions.get(after.checked_sub(1)?)?;
        let (end, _) = self.functions.get(after)?;
        Some(*start..*end)
    }
}

/// What was found in a file.
#[derive(Debug)]
pub struct Scan {
    /// The kind of the file.
    pub kind: Kind,
    /// The compression in which it came.
    pub packed: Option<Compression>,
    /// The file's bytes, unpacked.
    pub content: Vec<u8>,
    /// The places that have sites.
    pub places: Vec<SitePlace>,
    /// The instructions that must change, in the order of the file.
    pub sites: Vec<Site>,
    /// Linux's own tables that an image has.
    pub tables: Vec<FoundTable>,
    /// The address at which an image is linked.
    pub base: Option<u32>,
    /// The instruction set of an image.
    pub isa: Option<Isa>,
    /// The number of instructions that only a rewritten file has.
    pub trapped: usize,
    /// The offsets of the ELF headers of the file, or of its members.
    pub headers: Vec<usize>,
    /// The addresses of the vectors' stubs in a kernel's image. They are executed elsewhere.
    pub stubs: Option<Range<u32>>,
    /// The areas of trampolines in a rewritten image.
    pub areas: Vec<Range<u32>>,
    /// What the placing of trampolines needs to know of the code of an image or of a linked file.
    pub code: Option<Code>,
    /// The segments that a linked file has in memory.
    pub segments: Vec<Segment>,
    /// Whether a linked file may run at other addresses.
    pub movable: bool,
}

/// Finds every sensitive instruction of a file. Bytes that are passed by value are not copied.
pub fn scan<'a>(bytes: impl Into<Cow<'a, [u8]>>) -> Result<Scan> {
    let bytes = bytes.into();
    if zimage::is_zimage(&bytes) {
        let payload = zimage::unpack(&bytes)?;
        drop(bytes);
        return raw(payload.image, Some(payload.compression));
    }
    if elf::is_elf(&bytes) {
        return single(bytes.into_owned(), None);
    }
    if archive::is_archive(&bytes) {
        return members(&bytes);
    }
    if let Some(compression) = Compression::of(&bytes) {
        let content = compression.unpack(&bytes)?;
        drop(bytes);
        return if elf::is_elf(&content) {
            single(content, Some(compression))
        } else {
            raw(content, Some(compression))
        };
    }
    foreign(&bytes)?;
    raw(bytes.into_owned(), None)
}

/// Refuses files that are known to be something else.
fn foreign(bytes: &[u8]) -> Result<()> {
    let what = if bytes.is_empty() {
        "empty"
    } else if crate::bytes::has(bytes, 56, b"ARM\x64") {
        "a kernel for 64-bit ARM"
    } else if crate::bytes::has(bytes, 514, b"HdrS") {
        "a kernel for x86"
    } else {
        return Ok(());
    };
    Err(Refusal::new(
        format!("this file is {what}"),
        "the guests whose instructions are rewritten are little-endian ARMv7-A",
        "give a zImage, an Image or an ELF file of 32-bit ARM",
    ))
}

fn single(content: Vec<u8>, packed: Option<Compression>) -> Result<Scan> {
    let elf = elf::parse(&content)?;
    has_mapping(&content, &elf)?;
    let (sites, trapped) = mapped::scan(&content, &elf);
    let kind = match elf.linkage {
        Linkage::Relocatable => Kind::Object,
        Linkage::Linked => Kind::Executable,
    };
    let places = places(&elf, None);
    let (tables, headers) = (Vec::new(), vec![0]);
    let areas = areas(&content, &elf).collect();
    let code = (kind == Kind::Executable).then(|| linked::code(&content, &elf));
    Ok(Scan {
        kind,
        packed,
        content,
        places,
        sites,
        tables,
        base: None,
        isa: None,
        trapped,
        headers,
        stubs: None,
        areas,
        code: code.flatten(),
        segments: elf.segments,
        movable: elf.movable,
    })
}

/// The areas of trampolines that are sections of their own.
fn areas(content: &[u8], elf: &ElfImage) -> impl Iterator<Item = Range<u32>> {
    let executable = elf.sections.iter().filter(|section| section.executable);
    executable.filter_map(|section| {
        let end = section.offset.saturating_add(section.len);
        area::whole(section.address, content.get(section.offset..end)?)
    })
}

/// Refuses a file that has code without mapping symbols: then code cannot be told from data. A
/// section of zeros is no code: the kernel fills a module's `.plt` when it loads the module.
fn has_mapping(content: &[u8], elf: &ElfImage) -> Result<()> {
    let blind = elf.sections.iter().find(|section| {
        let end = section.offset.saturating_add(section.len);
        let bytes = content.get(section.offset..end).unwrap_or(&[]);
        let blind = section.executable && section.mapping.is_empty();
        blind
            && bytes.iter().any(|byte| *byte != 0)
            && area::whole(section.address, bytes).is_none()
    });
    match blind {
        Some(section) => Err(Refusal::new(
            format!("section {} has no mapping symbols", section.name),
            "nothing in it tells code from data",
            "give the file as it was before `strip`, or strip with --strip-debug alone",
        )),
        None => Ok(()),
    }
}

fn places(elf: &ElfImage, member: Option<&str>) -> Vec<SitePlace> {
    let place = |section: &elf::Section| SitePlace {
        member: member.map(str::to_owned),
        section: section.name.clone(),
        address: section.address,
        functions: section
            .functions
            .iter()
            .map(|label| (section.address.wrapping_add(label.at), label.name.clone()))
            .collect(),
    };
    elf.sections.iter().map(place).collect()
}

fn members(bytes: &[u8]) -> Result<Scan> {
    let (mut all, mut sites, mut trapped) = (Vec::new(), Vec::new(), 0);
    let mut headers = Vec::new();
    for member in archive::members(bytes)? {
        let end = member.offset.saturating_add(member.len);
        let Some(content) = bytes
            .get(member.offset..end)
            .filter(|content| elf::is_elf(content))
        else {
            continue;
        };
        let named = |refusal: Refusal| Refusal {
            what: format!("member {}: {}", member.name, refusal.what),
            ..refusal
        };
        let elf = elf::parse(content).map_err(named)?;
        has_mapping(content, &elf).map_err(named)?;
        let first = all.len();
        let (found, traps) = mapped::scan(content, &elf);
        trapped += traps;
        headers.push(member.offset);
        sites.extend(found.into_iter().map(|site| Site {
            offset: site.offset + member.offset,
            section: site.section + first,
            ..site
        }));
        all.extend(places(&elf, Some(&member.name)));
    }
    sites.sort_by_key(|site: &Site| site.offset);
    let content = bytes.to_vec();
    Ok(Scan {
        kind: Kind::Archive,
        packed: None,
        content,
        places: all,
        sites,
        tables: Vec::new(),
        base: None,
        isa: None,
        trapped,
        headers,
        stubs: None,
        areas: Vec::new(),
        code: None,
        segments: Vec::new(),
        movable: false,
    })
}

fn raw(content: Vec<u8>, packed: Option<Compression>) -> Result<Scan> {
    let Image {
        base,
        kallsyms,
        tables,
        init,
        sites,
        trapped,
        stubs,
        areas,
        code,
        ..
    } = image::scan(&content)?;
    let text = kallsyms.symbols.into_iter().filter(Symbol::is_text);
    // Otherwise the init code would seem to belong to the function before it.
    let unnamed = init.filter(|init| !init.named);
    let unnamed = unnamed.map(|init| (init.from, ".init.text".to_owned()));
    let functions = text.map(|symbol| (symbol.address, symbol.name));
    let mut functions: Vec<_> = functions.chain(unnamed).collect();
    functions.sort_by_key(|(address, _)| *address);
    let place = SitePlace {
        member: None,
        section: "Image".to_owned(),
        address: base.address,
        functions,
    };
    Ok(Scan {
        kind: Kind::Image,
        packed,
        content,
        places: vec![place],
        sites,
        tables: tables.found,
        base: Some(base.address),
        isa: Some(base.isa),
        trapped,
        headers: Vec::new(),
        stubs,
        areas,
        code: Some(code),
        segments: Vec::new(),
        movable: false,
    })
}

impl Scan {
    /// The function that contains a site.
    pub fn function(&self, site: &Site) -> Option<&str> {
        self.places.get(site.section)?.function(site.address)
    }
}
