//! Kernel modules for the initramfs: which ones go in, their dependencies, and the indexes that
//! modprobe reads (`modules.dep`, `modules.alias`, `modules.softdep`).
//!
//! Debian's packages come without these indexes, because depmod runs when they are installed. Every
//! module names its dependencies in its `.modinfo` section (Linux, include/linux/module.h), so the
//! indexes are made from there: no program is fetched, and only modules that go in are read.
//! Modules are unpacked: an emulated CPU would take long over xz, and not every modprobe can
//! unpack.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use object::{Object, ObjectSection};

/// Which modules go in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// The documented subset, see [`DEFAULT`].
    #[default]
    Default,
    /// Every module of the kernel.
    All,
    /// These, by name.
    Named(Vec<String>),
    /// Those of another selection, and these as far as the kernel has them as modules.
    With(Box<Selection>, &'static [&'static str]),
}

/// The default subset; their dependencies go in as well. A name that ends in `*` matches all names
/// with that beginning. A name that the kernel does not have as a module (built in, or of another
/// version) is left out.
pub const DEFAULT: &[&str] = &[
    // Devices of a VM.
    "virtio*",
    "9pnet_virtio",
    "vsock",
    "vmw_vsock_virtio_transport",
    "vhost_vsock",
    // File systems.
    "9p",
    "ext4",
    "btrfs",
    "vfat",
    "isofs",
    "squashfs",
    "overlay",
    "fuse",
    "virtiofs",
    "nls_*",
    // Block devices.
    "loop",
    "zram",
    "nbd",
    "dm-mod",
    "brd",
    // Networks.
    "tun",
    "veth",
    "bridge",
    "dummy",
    "bonding",
    "macvlan",
    "vxlan",
    "nf_tables",
    // Helpers that the others request by name at run time.
    "crc32c*",
    "libcrc32c",
    "lzo*",
    "zstd*",
    "crypto_*",
    // Tracing and tests.
    "configs",
    "rtc-pl031",
];

/// The kernel has no module of this name.
#[derive(Debug)]
pub struct NoModule(pub String);

impl std::fmt::Display for NoModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the kernel has no module {} (it may be built in)",
            self.0
        )
    }
}

impl std::error::Error for NoModule {}

/// A module as read.
struct Module {
    /// The path below lib/modules/VERSION, without `.xz`.
    path: String,
    content: Vec<u8>,
    info: Info,
}

/// The content of `.modinfo`.
#[derive(Default)]
struct Info {
    depends: Vec<String>,
    aliases: Vec<String>,
    soft: Vec<String>,
}

/// Files for lib/modules/VERSION: name below it, and content.
pub type Files = Vec<(String, Vec<u8>)>;

/// The modules of `selection` with all their dependencies, and modprobe's indexes.
pub fn collect(dir: &Path, selection: &Selection) -> Result<Files> {
    let known = find_all(dir)?;
    let modules = closure(dir, &known, wanted(&known, selection)?)?;
    let mut files: Files = indexes(&modules);
    for name in [
        "modules.builtin",
        "modules.builtin.modinfo",
        "modules.order",
    ] {
        let content = fs::read(dir.join(name)).with_context(|| format!("cannot read {name}"))?;
        files.push((name.to_owned(), content));
    }
    files.extend(
        modules
            .into_values()
            .map(|module| (module.path, module.content)),
    );
    Ok(files)
}

/// Every module's file below `dir`, by its normalized name.
fn find_all(dir: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else if let Some(name) = module_name(&path) {
                found.insert(name, path);
            }
        }
    }
    Ok(found)
}

/// `virtio_net` for `.../virtio-net.ko.xz`: to the kernel `-` and `_` are the same.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let stem = [".ko", ".ko.xz"]
        .iter()
        .find_map(|ext| file.strip_suffix(ext))?;
    Some(normal(stem))
}

fn normal(name: &str) -> String {
    name.replace('-', "_")
}

fn wanted(known: &BTreeMap<String, PathBuf>, selection: &Selection) -> Result<Vec<String>> {
    match selection {
        Selection::All => Ok(known.keys().cloned().collect()),
        Selection::Default => Ok(DEFAULT
            .iter()
            .flat_map(|name| matching(known, name))
            .collect()),
        Selection::Named(names) => {
            let mut all = Vec::new();
            for name in names {
                let found = matching(known, name);
                if found.is_empty() {
                    return Err(NoModule(name.clone()).into());
                }
                all.extend(found);
            }
            Ok(all)
        }
        Selection::With(selection, more) => {
            let mut all = wanted(known, selection)?;
            all.extend(more.iter().flat_map(|name| matching(known, name)));
            Ok(all)
        }
    }
}

fn matching(known: &BTreeMap<String, PathBuf>, pattern: &str) -> Vec<String> {
    let pattern = normal(pattern);
    match pattern.strip_suffix('*') {
        Some(start) => known
            .keys()
            .filter(|name| name.starts_with(start))
            .cloned()
            .collect(),
        None => known
            .get_key_value(&pattern)
            .map(|(name, _)| name.clone())
            .into_iter()
            .collect(),
    }
}

/// Reads the wanted modules and all their dependencies.
fn closure(
    dir: &Path,
    known: &BTreeMap<String, PathBuf>,
    mut open: Vec<String>,
) -> Result<BTreeMap<String, Module>> {
    let mut modules = BTreeMap::new();
    while let Some(name) = open.pop() {
        let Some(path) = known.get(&name).filter(|_| !modules.contains_key(&name)) else {
            continue;
        };
        let module = read(dir, path).with_context(|| format!("in {}", path.display()))?;
        open.extend(module.info.depends.iter().cloned());
        open.extend(soft_names(&module.info).map(normal));
        modules.insert(name, module);
    }
    Ok(modules)
}

/// The modules in soft dependencies: the words that are not `pre:` or `post:`.
fn soft_names(info: &Info) -> impl Iterator<Item = &str> {
    let words = info.soft.iter().flat_map(|line| line.split_whitespace());
    words.filter(|word| !word.ends_with(':'))
}

fn read(dir: &Path, path: &Path) -> Result<Module> {
    let content = unpack(path)?;
    let info = modinfo(&content)?;
    let below = path.strip_prefix(dir)?.to_string_lossy().into_owned();
    let below = below.trim_end_matches(".xz").to_owned();
    Ok(Module {
        path: below,
        content,
        info,
    })
}

/// The largest size of a module in bytes, and the largest dictionary of a decoder.
const LARGEST: u64 = 128 << 20;
const DICTIONARY_KB: u32 = 64 << 10;

fn unpack(path: &Path) -> Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    if path.extension().and_then(|ext| ext.to_str()) != Some("xz") {
        return whole(file);
    }
    let packed = std::io::BufReader::new(file);
    whole(lzma_rust2::XzReader::new_mem_limit(
        packed,
        false,
        DICTIONARY_KB,
    ))
}

fn whole(from: impl Read) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    let len = from.take(LARGEST + 1).read_to_end(&mut content)? as u64;
    anyhow::ensure!(len <= LARGEST, "it has more than {} MB", LARGEST >> 20);
    Ok(content)
}

fn modinfo(content: &[u8]) -> Result<Info> {
    let elf = object::File::parse(content)?;
    let section = elf
        .section_by_name(".modinfo")
        .context("no .modinfo section")?;
    let mut info = Info::default();
    for text in section.data()?.split(|byte| *byte == 0) {
        let text = String::from_utf8_lossy(text);
        match text.split_once('=') {
            Some(("depends", list)) => {
                info.depends
                    .extend(list.split(',').filter(|name| !name.is_empty()).map(normal));
            }
            Some(("alias", alias)) => info.aliases.push(alias.to_owned()),
            Some(("softdep", soft)) => info.soft.push(soft.to_owned()),
            _ => {}
        }
    }
    Ok(info)
}

/// `modules.dep`, `.alias` and `.softdep` (modules.dep(5)).
fn indexes(modules: &BTreeMap<String, Module>) -> Files {
    let (mut dep, mut alias, mut soft) = (String::new(), String::new(), String::new());
    for (name, module) in modules {
        let needs = needs_of(modules, name);
        let paths: String = needs.iter().map(|path| format!(" {path}")).collect();
        dep += &format!("{}:{paths}\n", module.path);
        for pattern in &module.info.aliases {
            alias += &format!("alias {pattern} {name}\n");
        }
        for line in &module.info.soft {
            soft += &format!("softdep {name} {line}\n");
        }
    }
    let files = [
        ("modules.dep", dep),
        ("modules.alias", alias),
        ("modules.softdep", soft),
    ];
    files
        .map(|(name, text)| (name.to_owned(), text.into_bytes()))
        .into()
}

/// The paths of everything that `name` needs, direct dependencies first. Loaded from last to first,
/// each finds what it needs.
fn needs_of<'a>(modules: &'a BTreeMap<String, Module>, name: &str) -> Vec<&'a str> {
    let mut order = Vec::new();
    visit(modules, name, &mut BTreeSet::new(), &mut order);
    order.pop();
    order.reverse();
    order
}

/// Visits depth first: a module comes after everything it needs.
fn visit<'a>(
    modules: &'a BTreeMap<String, Module>,
    name: &str,
    seen: &mut BTreeSet<String>,
    order: &mut Vec<&'a str>,
) {
    let Some(module) = modules.get(name).filter(|_| seen.insert(name.to_owned())) else {
        return;
    };
    for needed in &module.info.depends {
        visit(modules, needed, seen, order);
    }
    order.push(&module.path);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str, depends: &[&str]) -> (String, Module) {
        let depends = depends.iter().map(|name| (*name).to_owned()).collect();
        let info = Info {
            depends,
            aliases: vec![format!("pci:{name}")],
            soft: Vec::new(),
        };
        let path = format!("kernel/{name}.ko");
        (
            name.to_owned(),
            Module {
                path,
                content: Vec::new(),
                info,
            },
        )
    }

    #[test]
    fn dependencies_stand_before_what_they_need() {
        let all = [
            module("a", &["b", "c"]),
            module("b", &["d"]),
            module("c", &["b"]),
            module("d", &[]),
        ];
        let files = indexes(&all.into_iter().collect());
        let dep = String::from_utf8(files[0].1.clone()).unwrap();
        let first = "kernel/a.ko: kernel/c.ko kernel/b.ko kernel/d.ko\n";
        assert!(dep.starts_with(first), "{dep}");
        assert!(dep.ends_with("kernel/d.ko:\n"));
        assert_eq!(
            files[1].1,
            b"alias pci:a a\nalias pci:b b\nalias pci:c c\nalias pci:d d\n"
        );
    }

    #[test]
    fn a_cycle_ends() {
        let all = [module("a", &["b"]), module("b", &["a"])]
            .into_iter()
            .collect();
        assert_eq!(needs_of(&all, "a"), ["kernel/b.ko"]);
    }

    #[test]
    fn names_match_with_dash_underscore_and_star() {
        let known = ["virtio_net", "virtio_blk", "ext4"].map(|n| (n.to_owned(), PathBuf::new()));
        let known = known.into_iter().collect();
        assert_eq!(matching(&known, "virtio-net"), ["virtio_net"]);
        assert_eq!(matching(&known, "virtio*").len(), 2);
        assert!(wanted(&known, &Selection::Named(vec!["nope".into()])).is_err());
        assert_eq!(
            module_name(Path::new("x/virtio-net.ko.xz")).as_deref(),
            Some("virtio_net")
        );
        assert_eq!(module_name(Path::new("x/modules.dep")), None);
    }
}
