//! Compares what was found in an image without symbols with what is known of it.
//!
//! Two sources know better than a scan: the mapping symbols of the vmlinux of the same build
//! ([`Comparison`]), and a processor that executes the image ([`Executed`]). With both, a user can
//! check that no instruction is missed, in a kernel of their own as in a distribution's.

use crate::flow::marks::Mark;
use crate::refusal::{Refusal, Result};
use crate::scan::{Kind, Scan};
use crate::site::{Certainty, Role, Site, must_change};
use hanok_decode::aarch32::{Encoding, Isa, ItState};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::{self, Display, Formatter};
use std::ops::Range;

/// The addresses at which the vectors and their stubs are executed: a page for each.
const VECTORS: u32 = 0xffff_0000;
const STUBS: u32 = 0xffff_1000;
/// The size of a set of vectors in bytes: eight branches.
const VECTOR_SET: u32 = 32;

/// The scan of an image, compared with that of its vmlinux.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Comparison {
    /// The number of sites by the vmlinux's mapping symbols.
    pub sites: usize,
    /// The number of these sites that are exchanged on a uniprocessor.
    pub alternatives: usize,
    /// The sites that are neither certain nor doubtful in the image.
    pub missed: Vec<ReportedWord>,
    /// The number of sites that are doubtful in the image.
    pub doubted: usize,
    /// The words that are certain in the image, and no sites by mapping symbols.
    pub literals: Vec<ReportedWord>,
    /// The number of doubtful words in the image.
    pub doubtful: usize,
}

/// A word of an image, as a report names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct ReportedWord {
    /// The word's address.
    pub address: u32,
    /// The function that contains the word.
    pub function: String,
}

impl ReportedWord {
    fn new(scan: &Scan, site: &Site) -> Self {
        Self {
            address: site.address,
            function: scan.function(site).unwrap_or("?").to_owned(),
        }
    }
}

impl Comparison {
    /// Compares an image with the vmlinux that it was made of. An error if the two files are no
    /// such pair.
    pub fn new(image: &Scan, vmlinux: &Scan) -> Result<Self> {
        if (&image.kind, &vmlinux.kind) != (&Kind::Image, &Kind::Executable) {
            return Err(Refusal::new(
                "these are not a kernel's image and its vmlinux",
                format!("they are {:?} and {:?}", image.kind, vmlinux.kind),
                "give the image first, then the vmlinux of the same build",
            ));
        }
        let stubs = stubs(vmlinux);
        let place = |site: &Site| in_image(site.address, stubs);
        let found: HashMap<u32, Certainty> = image
            .sites
            .iter()
            .map(|site| (site.address, site.certainty))
            .collect();
        let mapped: HashSet<u32> = vmlinux.sites.iter().map(place).collect();
        let certainty = |site: &&Site| found.get(&place(site)).copied();
        let sure = |site: &&Site| site.certainty == Certainty::Sure;
        let missed = vmlinux
            .sites
            .iter()
            .filter(|site| certainty(site).is_none());
        let doubted = |site: &&Site| certainty(site) == Some(Certainty::Doubtful);
        let known = |site: &&Site| mapped.contains(&site.address);
        let literals = image.sites.iter().filter(|site| sure(site) && !known(site));
        let others = |site: &&Site| site.role == Role::Alternative;
        Ok(Self {
            sites: mapped.len(),
            alternatives: vmlinux.sites.iter().filter(others).count(),
            missed: missed
                .map(|site| ReportedWord::new(vmlinux, site))
                .collect(),
            doubted: vmlinux.sites.iter().filter(doubted).count(),
            literals: literals
                .map(|site| ReportedWord::new(image, site))
                .collect(),
            doubtful: image.sites.iter().filter(|site| !sure(site)).count(),
        })
    }

    /// Whether no site was missed, and no literal was taken for code.
    pub fn is_right(&self) -> bool {
        self.sites > 0 && self.missed.is_empty() && self.literals.is_empty()
    }

    /// Doubtful words for each hundred sites.
    pub fn doubtful_percent(&self) -> f64 {
        self.doubtful as f64 * 100.0 / self.sites.max(1) as f64
    }
}

/// The address in an image of the vectors' stubs: behind the sets of eight vectors.
fn stubs(vmlinux: &Scan) -> u32 {
    let places = &vmlinux.places;
    let sets = places
        .iter()
        .filter(|place| place.section.starts_with(".vectors"));
    let init = places.iter().find(|place| place.section == ".init.text");
    (init.map_or(0, |place| place.address) & !0xfff) + VECTOR_SET * sets.count() as u32
}

/// The address in an image of the code that is executed at `address`.
const fn in_image(address: u32, stubs: u32) -> u32 {
    match address {
        STUBS.. => address - STUBS + stubs,
        VECTORS.. => address - VECTORS + stubs,
        _ => address,
    }
}

/// Instructions that a processor executed: address, encoding and number of bytes of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    words: BTreeSet<(u32, u32, u8)>,
}

/// How much of an image was executed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Coverage {
    /// The number of the image's instructions that were executed.
    pub instructions: usize,
    /// The number of them that are sensitive.
    pub sensitive: usize,
    /// The sensitive ones that the scan does not have.
    pub missing: Vec<u32>,
    /// The sensitive ones that the scan has as doubtful.
    pub doubted: Vec<u32>,
}

impl Executed {
    /// Reads the plugin's list. A line for each instruction has its address, its bytes with the
    /// first one lowest, and the number of bytes, all in hexadecimal.
    pub fn parse(text: &str) -> Result<Self> {
        let parse = |line: &str| {
            let mut parts = line.split_ascii_whitespace();
            let mut number = || u32::from_str_radix(parts.next()?, 16).ok();
            let (address, bits, bytes) = (number()?, number()?, number()?);
            matches!(bytes, 2 | 4).then_some((address, bits, bytes as u8))
        };
        let words = text
            .lines()
            .map(|line| parse(line).ok_or_else(|| broken(line)));
        Ok(Self {
            words: words.collect::<Result<_>>()?,
        })
    }

    /// Compares the list with a scan of the image, which is at `physical` in memory before its MMU
    /// is on.
    pub fn of(&self, image: &Scan, physical: u32) -> Coverage {
        let Some(base) = image.base else {
            return Coverage::default();
        };
        let len = image.content.len() as u32;
        let virtual_range = base..base.saturating_add(len);
        let physical_range = physical..physical.saturating_add(len);
        let found: HashMap<u32, Certainty> = image
            .sites
            .iter()
            .map(|site| (site.address, site.certainty))
            .collect();
        let stubs = image.stubs.clone();
        let mut coverage = Coverage::default();
        for (address, bits, bytes) in &self.words {
            let Some(place) = place(*address, &virtual_range, &physical_range, &stubs) else {
                continue;
            };
            coverage.instructions += 1;
            let encoding = match (bytes, isa(image, place)) {
                (2, _) => Encoding::Narrow(*bits as u16),
                (_, Isa::A32) => Encoding::A32(*bits),
                (_, Isa::T32) => Encoding::Wide(bits.rotate_left(16)),
            };
            // The place in an IT block is not known, but whether the instruction is sensitive does
            // not depend on it.
            if must_change(encoding, ItState::NONE).is_none() {
                continue;
            }
            coverage.sensitive += 1;
            match found.get(&place) {
                Some(Certainty::Sure) => {}
                Some(Certainty::Doubtful) => coverage.doubted.push(place),
                None => coverage.missing.push(place),
            }
        }
        for list in [&mut coverage.missing, &mut coverage.doubted] {
            list.sort_unstable();
            list.dedup();
        }
        coverage
    }
}

/// The instruction set at `place` in an image.
fn isa(image: &Scan, place: u32) -> Isa {
    let offset = place.wrapping_sub(image.base.unwrap_or(0)) as usize;
    let mark = image.code.as_ref().map(|code| code.marks.get(offset));
    match mark {
        Some(Mark::Start(isa, _)) => isa,
        _ => image.isa.unwrap_or(Isa::A32),
    }
}

fn broken(line: &str) -> Refusal {
    Refusal::new(
        "this is no list of executed instructions",
        format!("a line of it is {line:?}"),
        "give what QEMU's plugin wrote with what=words",
    )
}

/// The linked address in the image of an instruction that was executed at `address`.
fn place(
    address: u32,
    virtual_range: &Range<u32>,
    physical: &Range<u32>,
    stubs: &Option<Range<u32>>,
) -> Option<u32> {
    if virtual_range.contains(&address) {
        return Some(address);
    }
    if physical.contains(&address) {
        return Some(address - physical.start + virtual_range.start);
    }
    let stubs = stubs.as_ref()?;
    let place = stubs.start.checked_add(address.checked_sub(STUBS)?)?;
    stubs.contains(&place).then_some(place)
}

/// How much was executed of an image that Linux's boot protocol puts in memory that begins at
/// `memory`. `list` is the file that QEMU's plugin writes.
///
/// # Errors
/// Where `list` is no such file.
pub fn executed(image: &Scan, list: &[u8], memory: u32) -> Result<Coverage> {
    // Linux maps the start of memory to a multiple of 256 MiB, so that the lower bits stay the
    // same.
    let physical = memory.wrapping_add(image.base.unwrap_or(0) & 0x0fff_ffff);
    let list = Executed::parse(&String::from_utf8_lossy(list))?;
    Ok(list.of(image, physical))
}

impl Display for Comparison {
    /// In one line.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} by mapping symbols, {} of them alternatives: {} missed, {} doubtful; {} literals taken \
             for code; {}, {:.3} % of sites",
            counted(self.sites, "site"),
            self.alternatives,
            self.missed.len(),
            self.doubted,
            self.literals.len(),
            counted(self.doubtful, "doubtful word"),
            self.doubtful_percent(),
        )
    }
}

impl Display for Coverage {
    /// In one line.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of the image executed, {} of them sensitive: {} not in the scan, {} doubtful there",
            counted(self.instructions, "instruction"),
            self.sensitive,
            self.missing.len(),
            self.doubted.len(),
        )
    }
}

/// The number and the noun in singular or plural: `1 site`, `2 sites`.
fn counted(number: usize, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}
