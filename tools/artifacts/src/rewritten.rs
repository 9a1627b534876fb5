//! Linux kernels for boards whose CPUs have no virtualization hardware: a zImage, unpacked and
//! rewritten once, and kept in the cache.
//!
//! Such a board's hypervisor finds out while the guest runs what in its memory is code, and makes
//! sensitive instructions traps. That is slow for a kernel that unpacks and moves itself, and for
//! pages with many such instructions. So the kernel is unpacked here, and those instructions of it
//! that User mode would execute silently differently become traps that hold the instruction itself, and
//! where the image has room, those that are executed often get trampolines
//! (`hanok_previrt::Sites::Frequent`). Words that only look like such an instruction would keep their pages
//! slow, and are replaced (`hanok_previrt::Lookalikes`). The hypervisor needs no table for all this, and it does what
//! was left here as it does without all this: a kernel that is not understood is used as it is.
//!
//! An entry of the cache is a folder, named by the kernel's content and the versions of what makes
//! it: [`RECORD`], [`IMAGE`], and [`SIDE`], by which `hanok previrt unpatch` gives the original. What is
//! refused is remembered, too.
//!
//! A kernel with long descriptors (LPAE) looks for them in ID_MMFR0 before it has a console, finds none
//! there, and waits for ever without a word. It is told here by its accesses to the translation table
//! registers of 64 bits, which no other kernel has.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hanok_previrt::container::zimage;
use hanok_previrt::site::{Certainty, Site, is_long_table_base};
use hanok_previrt::{Lookalikes, Options, Patched, Refusal, Scan, SideFile, Sites};
use hanok_system::{KernelSizes, RawKernel};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::store::{REWRITTEN, Store};
use hanok_base::ui::LongStep;

/// A number that is raised by changes to an entry's form, or to what is made of a scan.
const GENERATION: u32 = 8;

/// What was made, or why nothing was: [`Record`].
const RECORD: &str = "kernel.toml";
/// The rewritten kernel: Linux's raw Image.
const IMAGE: &str = "Image";
/// Each change, as `hanok previrt patch` writes it.
const SIDE: &str = "Image.json";

/// A kernel is linked at TEXT_OFFSET from the start of its linear mapping, which is at a multiple of
/// this.
const MAPPING: u32 = 16 << 20;

/// What was made of a zImage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The name of the zImage's file.
    pub name: String,
    /// What was made of it.
    pub outcome: Outcome,
    /// Whether the cache had it already.
    pub cached: bool,
}

/// Whether a zImage could be rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is rewritten.
    Kernel {
        /// The raw Image.
        image: PathBuf,
        /// Its memory.
        memory: RawKernel,
        /// The number of instructions that were rewritten.
        rewritten: u64,
        /// The number of words that were replaced because they only look like such an instruction.
        replaced: u64,
        /// The number of words of which it is doubtful whether they are such instructions.
        doubtful: u64,
    },
    /// It is not, for this reason.
    Refused(String),
    /// It needs long descriptors, which such a board does not have.
    LongDescriptors,
}

/// [`Outcome`], as it is kept.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Record {
    Kernel {
        offset: u64,
        size: u64,
        added: Option<(u64, u64)>,
        rewritten: u64,
        replaced: u64,
        doubtful: u64,
    },
    Refused {
        why: String,
    },
    LongDescriptors {},
}

impl Rewritten {
    /// One line for the user.
    pub fn line(&self) -> String {
        let name = &self.name;
        let cached = if self.cached { " (cached)" } else { "" };
        match &self.outcome {
            Outcome::Kernel {
                rewritten,
                replaced,
                doubtful,
                ..
            } => format!(
                "kernel {name}: unpacked, {} instructions rewritten, {} lookalikes replaced, \
                 {} doubtful{cached}",
                grouped(*rewritten),
                grouped(*replaced),
                grouped(*doubtful)
            ),
            Outcome::Refused(why) => {
                format!("kernel {name}: used as it is, and slower: {why}{cached}")
            }
            Outcome::LongDescriptors => {
                format!("kernel {name}: not usable, it needs long descriptors (LPAE){cached}")
            }
        }
    }
}

impl Store {
    /// The zImage in the file `kernel`, unpacked and rewritten, from the cache or newly made; `None`
    /// if the file is no zImage.
    pub fn rewritten(&self, kernel: &Path) -> Result<Option<Rewritten>> {
        let bytes =
            fs::read(kernel).with_context(|| format!("cannot read {}", kernel.display()))?;
        if !zimage::is_zimage(&bytes) {
            return Ok(None);
        }
        let name = kernel.file_name().unwrap_or_default().to_string_lossy();
        let folder = format!("{REWRITTEN}/{}", key(&bytes));
        let found = |record, cached| {
            let outcome = outcome(record, &self.cache.path(&folder));
            let name = name.clone().into_owned();
            Some(Rewritten {
                name,
                outcome,
                cached,
            })
        };
        if let Some(record) = self.record(&folder) {
            return Ok(found(record, true));
        }
        let _lock = self.cache.lock()?;
        if let Some(record) = self.record(&folder) {
            return Ok(found(record, true));
        }
        let step = LongStep::new(format!("Rewriting kernel {name}"));
        let draft = self.cache.temporary()?;
        let draft = draft.path().join("entry");
        fs::create_dir(&draft)?;
        let record = make(bytes, &draft)?;
        self.cache.publish(&draft, &folder)?;
        step.done();
        Ok(found(record, false))
    }

    /// What the cache has in `folder`, if that is whole.
    fn record(&self, folder: &str) -> Option<Record> {
        let folder = self.cache.path(folder);
        let record = toml::from_str(&fs::read_to_string(folder.join(RECORD)).ok()?).ok()?;
        let has_image = matches!(record, Record::Kernel { .. });
        (!has_image || folder.join(IMAGE).is_file()).then_some(record)
    }
}

fn outcome(record: Record, folder: &Path) -> Outcome {
    match record {
        Record::Kernel {
            offset,
            size,
            added,
            rewritten,
            replaced,
            doubtful,
        } => Outcome::Kernel {
            image: folder.join(IMAGE),
            memory: RawKernel {
                offset,
                size,
                added,
            },
            rewritten,
            replaced,
            doubtful,
        },
        Record::Refused { why } => Outcome::Refused(why),
        Record::LongDescriptors {} => Outcome::LongDescriptors,
    }
}

/// The name of the entry for a kernel with these bytes.
fn key(bytes: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{GENERATION} {} ", hanok_previrt::VERSION));
    hash.update(bytes);
    let digest = hash.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the entry for a zImage with these bytes into `folder`.
fn make(bytes: Vec<u8>, folder: &Path) -> Result<Record> {
    let record = match rewrite(bytes) {
        Ok(Made::LongDescriptors) => Record::LongDescriptors {},
        Ok(Made::Kernel(patched, memory)) => {
            write(folder, IMAGE, &patched.bytes)?;
            write(folder, SIDE, patched.side.to_json().as_bytes())?;
            Record::Kernel {
                offset: memory.offset,
                size: memory.size,
                added: memory.added,
                rewritten: changed(&patched.side, false),
                replaced: changed(&patched.side, true),
                doubtful: patched.side.doubtful.len() as u64,
            }
        }
        Err(refusal) => Record::Refused {
            why: format!("{}: {}", refusal.what, refusal.why),
        },
    };
    write(folder, RECORD, toml::to_string(&record)?.as_bytes())?;
    Ok(record)
}

/// The number of sensitive instructions that were changed, or of lookalikes.
fn changed(side: &SideFile, lookalikes: bool) -> u64 {
    let changes = side.changes.iter();
    let chosen = changes.filter(|change| change.form.is_lookalike() == lookalikes);
    chosen.count() as u64
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// What a zImage that is understood becomes.
enum Made {
    Kernel(Box<Patched>, RawKernel),
    LongDescriptors,
}

fn rewrite(bytes: Vec<u8>) -> Result<Made, Refusal> {
    let sizes = KernelSizes::of(&bytes);
    let scan = hanok_previrt::scan(bytes)?;
    if scan.sites.iter().any(is_long) {
        return Ok(Made::LongDescriptors);
    }
    let memory = memory(&scan, sizes)?;
    let options = Options {
        sites: Sites::Frequent,
        // Memory behind its end would be the bootloader's to keep free.
        inside: true,
        lookalikes: Lookalikes::Replace,
        ..Options::default()
    };
    let patched = hanok_previrt::rewrite(scan, options)?;
    no_thumb(&patched.side)?;
    // Trampolines come first, then what was moved, if there are both.
    let start = patched.side.reserved.iter().map(|area| area.offset).min();
    let areas = patched.side.reserved.iter();
    let end = areas.map(|area| area.offset + area.len as usize).max();
    let added = start.zip(end);
    let added = added.map(|(start, end)| (start as u64, (end - start) as u64));
    Ok(Made::Kernel(
        Box::new(patched),
        RawKernel { added, ..memory },
    ))
}

fn is_long(site: &Site) -> bool {
    site.certainty == Certainty::Sure && is_long_table_base(&site.found)
}

/// Refuses a kernel in T32, which is used as it is then. An SVC in the place of an instruction of two halfwords has a part of
/// it in the second one, which the hypervisor, to which a T32 SVC is one halfword, would prove as code. UDF.W would be one
/// instruction, but gains nothing (docs/previrt.md, "Before a run").
fn no_thumb(side: &SideFile) -> Result<(), Refusal> {
    if side.changes.iter().any(|change| change.thumb) {
        return Err(Refusal::new(
            "this kernel is in T32",
            "the hypervisor does not know all traps that would be put into it, and its pages would stay confined anyway",
            "build it without CONFIG_THUMB2_KERNEL",
        ));
    }
    Ok(())
}

/// The memory of the kernel: as the zImage says, else as the kernel itself is linked. The larger of
/// both sizes counts.
fn memory(scan: &Scan, sizes: Option<KernelSizes>) -> Result<RawKernel, Refusal> {
    let len = scan.content.len() as u64;
    let linked = scan.code.as_ref().and_then(|code| code.end).zip(scan.base);
    let linked = linked.map(|(end, base)| u64::from(end.saturating_sub(base)));
    let said = sizes.map(|sizes| len + u64::from(sizes.bss));
    // Below it is the kernel's first translation table, so that zero says nothing.
    let offset = sizes.and_then(|sizes| sizes.text_offset);
    let offset = offset.filter(|offset| *offset != 0);
    let offset = offset.or(scan.base.map(|base| base % MAPPING));
    match (offset, linked.max(said)) {
        (Some(offset), Some(size)) => Ok(RawKernel {
            offset: offset.into(),
            size: size.max(len),
            added: None,
        }),
        _ => Err(Refusal::new(
            "nothing says how much memory this kernel takes",
            "neither its zImage has a table with the size of its bss, nor does the kernel name its end",
            "build it with CONFIG_KALLSYMS_ALL=y",
        )),
    }
}

/// A number with a comma between thousands.
fn grouped(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1000), number % 1000),
    }
}

#[cfg(test)]
mod tests;
