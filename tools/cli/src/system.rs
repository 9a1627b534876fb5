//! Systems as the commands use them: described, with what they need found, built.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use hanok_system::{Artifacts, Description, Diagnostic, Files, InitramfsRef, KernelRef, Modules};

use crate::artifacts::Store;
use crate::artifacts::kernel::KernelSpec;
use crate::artifacts::qemu::{self, Qemu};
use crate::cargo;
use crate::exit::{Blame, Code, Failure, Outcome, failure};
use crate::initramfs::modules::Selection;

/// Where the boards are described.
pub fn boards_dir(root: &Path) -> PathBuf {
    root.join("boards")
}

/// What the command line changes about the board.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The CPU model.
    pub cpu: Option<String>,
    /// The number of cores.
    pub cores: Option<u64>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// What is changed about the first VM.
    pub vm: VmOverrides,
}

/// What a test changes about the first VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmOverrides {
    /// The kernel, as a description names it.
    pub kernel: Option<String>,
    /// The number of vCPUs.
    pub vcpus: Option<u64>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Words added to the command line.
    pub cmdline: String,
}

/// Reads and checks a description, with the command line's changes. They are checked as if
/// the file said them: too many cores are refused whoever asked for them.
pub fn load(root: &Path, file: &Path, overrides: &Overrides) -> Outcome<Description> {
    let boards = boards_dir(root);
    let found = match fs::read_to_string(file) {
        Ok(text) if *overrides != Overrides::default() => {
            hanok_system::parse(file, &overrides.apply(&text), &boards)
        }
        _ => hanok_system::load(file, &boards),
    };
    found.map_err(refused)
}

impl Overrides {
    /// `text` with its keys changed. Lines keep their numbers wherever there is room: a key
    /// takes its former line, or that of a comment in the same table.
    fn apply(&self, text: &str) -> String {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let is_table = |line: &String| line.trim_start().starts_with('[');
        let board = [
            self.cpu.as_deref().map(|cpu| word("cpu", cpu)),
            self.cores.map(|cores| format!("cores = {cores}")),
            self.memory.map(|bytes| kibibytes("memory", bytes)),
        ];
        for line in board.into_iter().flatten() {
            let end = lines.iter().position(is_table).unwrap_or(lines.len());
            set(&mut lines, 0, end, line);
        }
        for line in self.vm.lines(text) {
            let Some(head) = lines.iter().position(|line| line.trim() == "[[vm]]") else {
                break;
            };
            let start = head + 1;
            let end = lines[start..].iter().position(is_table);
            let end = end.map_or(lines.len(), |end| start + end);
            set(&mut lines, start, end, line);
        }
        lines.join("\n") + "\n"
    }
}

impl VmOverrides {
    /// The lines to be set in the first VM of `text`.
    fn lines(&self, text: &str) -> impl Iterator<Item = String> {
        let cmdline = (!self.cmdline.is_empty()).then(|| {
            let all = format!("{} {}", cmdline_of(text), self.cmdline);
            word("cmdline", all.trim())
        });
        let lines = [
            self.kernel.as_deref().map(|kernel| word("kernel", kernel)),
            self.vcpus.map(|vcpus| format!("vcpus = {vcpus}")),
            self.memory.map(|bytes| kibibytes("memory", bytes)),
            cmdline,
        ];
        lines.into_iter().flatten()
    }
}

fn word(key: &str, value: &str) -> String {
    format!("{key} = {}", toml::Value::from(value))
}

fn kibibytes(key: &str, bytes: u64) -> String {
    format!("{key} = \"{}K\"", bytes >> 10)
}

/// The first VM's command line; of a text that is no description, none: its own check says
/// what is wrong.
fn cmdline_of(text: &str) -> String {
    let table: Option<toml::Table> = toml::from_str(text).ok();
    let cmdline = table.as_ref().and_then(|table| {
        let vm = table.get("vm")?.as_array()?.first()?;
        vm.get("cmdline")?.as_str()
    });
    cmdline.unwrap_or_default().to_owned()
}

/// Sets the key of `line` in the table whose lines are from `start` to `end`.
fn set(lines: &mut Vec<String>, start: usize, end: usize, line: String) {
    let key = line.split(' ').next().unwrap_or_default();
    let same = |old: &String| {
        let old = old.split_once('=');
        old.is_some_and(|(old, _)| old.trim().trim_matches('"') == key)
    };
    let free = |old: &String| old.trim().is_empty() || old.trim_start().starts_with('#');
    let part = &lines[start..end];
    let place = part
        .iter()
        .position(same)
        .or_else(|| part.iter().position(free));
    match place {
        Some(at) => lines[start + at] = line,
        None => lines.insert(start, line),
    }
}

/// All that is wrong, as one error.
pub fn refused(diagnostics: Vec<Diagnostic>) -> Failure {
    let texts: Vec<_> = diagnostics.iter().map(ToString::to_string).collect();
    // The first gets its word where all errors do.
    let between = format!("\n{} ", crate::ui::red("error:"));
    failure(Code::Refused, texts.join(&between))
}

/// The files of one VM, in the cache or wherever the description says.
pub struct Resolved {
    /// The kernel.
    pub kernel: PathBuf,
    /// The initramfs.
    pub initramfs: Option<PathBuf>,
}

/// What to say about a download before it.
const QEMU_WORDS: &str = "QEMU 10 (about 25 MB)";
/// What to say about busybox.
pub const BUSYBOX_WORDS: &str = "busybox for guests (1 MB)";

/// What to say about a package for the tests.
pub fn package_words(name: &str) -> String {
    format!("{name} for the tests (1 MB)")
}

/// What to say about a kernel.
pub fn kernel_words(spec: &KernelSpec) -> String {
    format!("the stock kernel {} (about 70 MB)", spec.reference())
}

/// Asks for all that is missing, and finds or fetches QEMU.
pub fn prepare(store: &Store, artifacts: &[Artifacts]) -> Outcome<Qemu> {
    let mut all = wanted(artifacts);
    all.extend(wanted_qemu());
    agree(store, &all)?;
    store.qemu().blame(Code::Setup)
}

/// QEMU, where the machine's own will not do.
pub fn wanted_qemu() -> Option<(String, String)> {
    let words = || (qemu::REFERENCE.to_owned(), QEMU_WORDS.to_owned());
    Qemu::of_machine().is_none().then(words)
}

/// Finds or fetches everything that `artifacts` name, in their order.
pub fn resolve(root: &Path, store: &Store, artifacts: &[Artifacts]) -> Outcome<Vec<Resolved>> {
    agree(store, &wanted(artifacts))?;
    artifacts
        .iter()
        .map(|of_vm| resolve_vm(root, store, of_vm))
        .collect()
}

/// Asks, once a run, before the first download.
pub fn agree(store: &Store, wanted: &[(String, String)]) -> Outcome<()> {
    if store.ask(wanted) {
        return Ok(());
    }
    Err(failure(
        Code::Setup,
        "nothing was downloaded, as you wished",
    ))
}

/// References in the cache and words about them.
pub fn wanted(artifacts: &[Artifacts]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for of_vm in artifacts {
        if let Some(spec) = stock(&of_vm.kernel) {
            all.push((spec.reference(), kernel_words(&spec)));
        }
        if matches!(of_vm.initramfs, Some(InitramfsRef::Busybox { .. })) {
            all.push((Store::BUSYBOX.to_owned(), BUSYBOX_WORDS.to_owned()));
        }
    }
    all.dedup();
    all
}

fn stock(kernel: &KernelRef) -> Option<KernelSpec> {
    match kernel {
        KernelRef::Debian { version, rt } => Some(KernelSpec {
            version: version.clone(),
            rt: *rt,
        }),
        KernelRef::Guest(_) | KernelRef::Path(_) => None,
    }
}

fn resolve_vm(root: &Path, store: &Store, artifacts: &Artifacts) -> Outcome<Resolved> {
    let kernel = stock(&artifacts.kernel)
        .map(|spec| store.kernel(&spec))
        .transpose();
    let kernel = kernel.blame(Code::Setup)?;
    let initramfs = match (&artifacts.initramfs, &kernel) {
        (None, _) => None,
        (Some(InitramfsRef::Path(path)), _) => Some(path.clone()),
        (Some(InitramfsRef::Busybox { modules }), Some(kernel)) => Some(
            store
                .initramfs(kernel, &selection(modules))
                .blame(Code::Refused)?,
        ),
        (Some(InitramfsRef::Busybox { .. }), None) => {
            Some(store.bare_initramfs().blame(Code::Refused)?)
        }
    };
    let image = match (&artifacts.kernel, kernel) {
        (KernelRef::Path(path), _) => path.clone(),
        (KernelRef::Guest(name), _) => cargo::guest(root, name).blame(Code::Refused)?,
        (KernelRef::Debian { .. }, Some(kernel)) => kernel.image,
        (KernelRef::Debian { .. }, None) => return Err(failure(Code::Setup, "no kernel")),
    };
    Ok(Resolved {
        kernel: image,
        initramfs,
    })
}

fn selection(modules: &Modules) -> Selection {
    match modules {
        Modules::Default => Selection::Default,
        Modules::All => Selection::All,
        Modules::List(names) => Selection::Named(names.clone()),
    }
}

/// Builds the hypervisor and the image of the whole system.
pub fn build(root: &Path, system: &Description, resolved: &[Resolved]) -> Outcome<Vec<u8>> {
    let hypervisor = cargo::hypervisor(root).blame(Code::Refused)?;
    let files = resolved
        .iter()
        .map(read)
        .collect::<Result<Vec<_>>>()
        .blame(Code::Refused)?;
    system.build(hypervisor, &files).map_err(refused)
}

fn read(resolved: &Resolved) -> Result<Files> {
    let read =
        |path: &PathBuf| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let initramfs = resolved.initramfs.as_ref().map(read).transpose()?;
    Ok(Files {
        kernel: read(&resolved.kernel)?,
        initramfs,
    })
}

/// Bytes in `512M`, `2G`, `1048576`.
pub fn parse_size(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..].to_ascii_lowercase()[..] {
        "" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        unit => return Err(anyhow!("unknown unit `{unit}`: K, M and G are known")),
    };
    let number: u64 = digits
        .parse()
        .with_context(|| format!("`{text}` is no size, such as 512M"))?;
    number
        .checked_mul(unit)
        .context("that is more than 64 bits hold")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_take_the_place_of_the_file_s_keys() {
        let changed = Overrides {
            cpu: Some("max".into()),
            cores: Some(2),
            memory: Some(1 << 30),
            ..Overrides::default()
        };
        let text = "# one\nboard = 'x'\ncores = 4\n[[vm]]\nmemory = '1M'\n";
        let wanted =
            "memory = \"1048576K\"\ncpu = \"max\"\nboard = 'x'\ncores = 2\n[[vm]]\nmemory = '1M'\n";
        assert_eq!(changed.apply(text), wanted);
    }

    #[test]
    fn overrides_of_a_vm_keep_its_command_line() {
        let vm = VmOverrides {
            kernel: Some("debian:6.12".into()),
            vcpus: Some(1),
            memory: Some(1 << 20),
            cmdline: "more".into(),
        };
        let changed = Overrides {
            vm,
            ..Overrides::default()
        };
        let text = "memory = '1G'\n[[vm]]\nkernel = 'x'\ncmdline = 'a b'\nmemory = '2G'\n";
        let wanted = "memory = '1G'\n[[vm]]\nvcpus = 1\nkernel = \"debian:6.12\"\n\
            cmdline = \"a b more\"\nmemory = \"1024K\"\n";
        assert_eq!(changed.apply(text), wanted);
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("512M").unwrap(), 512 << 20);
        assert_eq!(parse_size("2GiB").unwrap(), 2 << 30);
        assert_eq!(parse_size("4096").unwrap(), 4096);
        for bad in ["", "M", "1T", "-1", "99999999999G"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
