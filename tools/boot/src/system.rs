//! Systems as the commands use them: reads descriptions, finds what they need, and builds images.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use hanok_system::{
    Architecture, Artifacts, Boot, BuildKey, Description, Diagnostic, DtbRef, Files, FirmwareRef,
    InitramfsRef, KernelRef, Key, Modules, RawKernel, Style,
};

use crate::overrides::Overrides;
use hanok_artifacts::cargo::{self, Variant};
use hanok_artifacts::initramfs;
use hanok_artifacts::initramfs::modules::{NoModule, Selection};
use hanok_artifacts::kernel::KernelSpec;
use hanok_artifacts::qemu::{self, Qemu};
use hanok_artifacts::rewritten::{self, Rewritten};
use hanok_artifacts::{Store, edk2, u_boot};
use hanok_base::exit::{Blame, Code, Failure, Outcome, failure};
use hanok_base::outputs;
use hanok_base::ui::{self, Consent};

/// The folder of the boards' files.
pub fn boards_dir(root: &Path) -> PathBuf {
    root.join("boards")
}

/// Reads and checks a description, with changes.
pub fn load(root: &Path, file: &Path, overrides: &Overrides) -> Outcome<Description> {
    readable(file)?;
    let boards = boards_dir(root);
    let found = match fs::read_to_string(file) {
        Ok(text) if *overrides != Overrides::default() => {
            let changed = overrides.apply(&text);
            let found = hanok_system::parse(file, &changed.text(), &boards);
            found.map_err(|all| all.into_iter().map(|one| changed.blame(one)).collect())
        }
        _ => hanok_system::load(file, &boards),
    };
    let system = found.map_err(refused)?;
    let known = |name: &&String| system.vms.iter().any(|vm| vm.name() == name.as_str());
    if let Some(name) = overrides.vms.keys().find(|name| !known(name)) {
        let what = format!("a VM {name} is to be changed, and there is none");
        return Err(failure(Code::Usage, what));
    }
    Ok(system)
}

/// Checks that a description can be read. If not, the command line is at fault.
pub fn readable(file: &Path) -> Outcome<()> {
    let opened = fs::metadata(file).and_then(|data| {
        if data.is_file() {
            fs::File::open(file).map(drop)
        } else {
            Err(std::io::Error::other("it is no file"))
        }
    });
    opened
        .with_context(|| format!("cannot read the description {}", file.display()))
        .blame(Code::Usage)
}

/// The files that a system names by their paths, with its description.
pub fn inputs(root: &Path, system: &Description) -> Vec<(String, PathBuf)> {
    let board = boards_dir(root).join(format!("{}.toml", system.board.name));
    let mut all = vec![
        ("the description".to_owned(), system.path.clone()),
        ("the board's description".to_owned(), board),
    ];
    if let Some(DtbRef::Path(path)) = &system.board.qemu.dtb {
        all.push(("the board's device tree".to_owned(), path.clone()));
    }
    for vm in &system.vms {
        match &vm.boot {
            Boot::Kernel(KernelRef::Path(path)) => {
                all.push((format!("the kernel of VM {}", vm.name()), path.clone()));
            }
            Boot::Firmware(FirmwareRef::Path(path)) => {
                all.push((format!("the firmware of VM {}", vm.name()), path.clone()));
            }
            _ => {}
        }
        if let Some(path) = &vm.variables {
            all.push((format!("the variables of VM {}", vm.name()), path.clone()));
        }
        if let Some(InitramfsRef::Path(path)) = &vm.initramfs {
            all.push((format!("the initramfs of VM {}", vm.name()), path.clone()));
        }
    }
    all
}

/// All diagnostics as one error.
pub fn refused(diagnostics: Vec<Diagnostic>) -> Failure {
    let style = if hanok_base::ui::colour() {
        Style::Coloured
    } else {
        Style::Plain
    };
    let shown = |one: &Diagnostic| {
        let source = fs::read_to_string(&one.file).unwrap_or_default();
        one.shown(&source, style)
    };
    let texts: Vec<_> = diagnostics.iter().map(shown).collect();
    // The first one gets its "error:" where all errors get it.
    let between = format!("\n{} ", hanok_base::ui::red("error:"));
    failure(Code::Refused, texts.join(&between))
}

/// The files of one VM, in the cache or wherever the description says.
pub struct Resolved {
    /// The kernel, or the firmware.
    pub kernel: PathBuf,
    /// The memory of a kernel that was unpacked and rewritten.
    pub raw: Option<RawKernel>,
    /// What was made of the kernel, in a line for the user, where it was to be rewritten.
    pub rewritten: Option<String>,
    /// Whether that is a firmware.
    pub firmware: bool,
    /// The initramfs.
    pub initramfs: Option<PathBuf>,
    /// The file of its firmware's variables, which may be missing.
    pub variables: Option<PathBuf>,
}

/// The words about QEMU before a download.
const QEMU_WORDS: &str = "QEMU 10 (about 25 MB)";
/// The words about busybox before a download.
pub const BUSYBOX_WORDS: &str = "busybox for guests (1 MB)";

/// The words about a package for the tests before a download.
pub fn package_words(name: &str) -> String {
    format!("{name} for the tests (1 MB)")
}

/// The words about a program for the tests before a download.
pub fn program_words(name: &str) -> String {
    format!("{name} with its libraries for the tests (about 10 MB)")
}

/// The words about a kernel before a download.
pub fn kernel_words(spec: &KernelSpec) -> String {
    format!("the stock kernel {} (about 70 MB)", spec.reference())
}

/// Asks the user about everything that is missing, and finds or fetches QEMU.
pub fn prepare(store: &Store, artifacts: &[Artifacts]) -> Outcome<Qemu> {
    let mut all = wanted(artifacts);
    all.extend(wanted_qemu());
    ask_consent(store, &all)?;
    store.qemu().blame(Code::Setup)
}

/// The reference of QEMU, where the machine's own cannot be used, and words about it.
pub fn wanted_qemu() -> Option<(String, String)> {
    let words = || (qemu::REFERENCE.to_owned(), QEMU_WORDS.to_owned());
    let there = Qemu::is_named() || Qemu::of_machine().is_some();
    (!there).then(words)
}

/// The reference of U-Boot, for a VM or as a board's boot loader, and words about it.
pub fn wanted_u_boot() -> (String, String) {
    (u_boot::PACKAGE.to_owned(), "U-Boot (2 MB)".to_owned())
}

/// Finds or fetches everything that `artifacts` name, in their order.
pub fn resolve(root: &Path, store: &Store, artifacts: &[Artifacts]) -> Outcome<Vec<Resolved>> {
    ask_consent(store, &wanted(artifacts))?;
    artifacts
        .iter()
        .map(|of_vm| resolve_vm(root, store, of_vm))
        .collect()
}

/// As [`resolve`], for a description: an error names its line, and the user is told which kernels
/// were rewritten.
pub fn resolve_of(root: &Path, store: &Store, system: &Description) -> Outcome<Vec<Resolved>> {
    let artifacts = system.artifacts();
    ask_consent(store, &wanted(&artifacts))?;
    let all = artifacts.iter().enumerate();
    let all = all.map(|(vm, of_vm)| resolve_one(root, store, system, (vm, of_vm)));
    let all = all.collect::<Outcome<Vec<_>>>()?;
    for line in rewritten_lines(&all) {
        eprintln!("{line}");
    }
    Ok(all)
}

/// The lines about kernels that were to be rewritten, one for each kernel: several VMs may have it.
fn rewritten_lines(all: &[Resolved]) -> Vec<&str> {
    let mut told = BTreeSet::new();
    let lines = all.iter().filter_map(|found| {
        let line = found.rewritten.as_deref()?;
        told.insert(&found.kernel).then_some(line)
    });
    lines.collect()
}

/// The kernel needs long descriptors, which the board's CPUs do not have.
#[derive(Debug)]
struct LongDescriptors;

impl std::fmt::Display for LongDescriptors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the kernel needs long descriptors (LPAE), which the board's CPUs do not have")
    }
}

impl std::error::Error for LongDescriptors {}

fn resolve_one(
    root: &Path,
    store: &Store,
    system: &Description,
    (vm, artifacts): (usize, &Artifacts),
) -> Outcome<Resolved> {
    resolve_vm(root, store, artifacts).map_err(|failure| {
        if let Some(NoModule(name)) = failure.error.downcast_ref() {
            let what = format!("the kernel has no module \"{name}\"");
            let why = "none of its package has this name; it may be built in, or of another kernel";
            let remedy = "remove it from `initramfs-modules`, or mend the name";
            refused(vec![system.refusal(
                vm,
                Key::Initramfs,
                [&what, why, remedy],
            )])
        } else if failure.error.is::<LongDescriptors>() {
            refused(vec![system.long_descriptors(vm)])
        } else {
            failure
        }
    })
}

/// Checks the VMs all of whose files are there.
pub fn check_present(root: &Path, store: &Store, system: &Description) -> Outcome<()> {
    let mut read_files = ReadFiles::default();
    let mut files = Vec::new();
    for (vm, artifacts) in system.artifacts().iter().enumerate() {
        let mut wanted = wanted(std::slice::from_ref(artifacts)).into_iter();
        files.push(
            if wanted.all(|(name, _)| store.cache.resolved(&name).is_some()) {
                let resolved = resolve_one(root, store, system, (vm, artifacts))?;
                Some(read_files.files(&resolved).blame(Code::Refused)?)
            } else {
                None
            },
        );
    }
    match system.check_files(&files) {
        found if found.is_empty() => Ok(()),
        found => Err(refused(found)),
    }
}

/// Prints notes about parts that are valid, but do not mean what a reader would take them for.
pub fn print_notes(system: &Description) {
    for note in system.notes() {
        eprintln!("note: {note}");
    }
}

/// Prints the budgets and cores that the analysis found, where the description leaves them open.
pub fn print_found(system: &Description) {
    for found in &system.found {
        ui::line(format_args!("found: {found}"));
    }
}

/// Asks the user before the first download, once a run.
pub fn ask_consent(store: &Store, wanted: &[(String, String)]) -> Outcome<()> {
    match store.ask_consent(wanted) {
        Consent::Given => Ok(()),
        Consent::Refused => Err(failure(
            Code::Setup,
            "nothing was downloaded, as you wished",
        )),
    }
}

/// The references in the cache that are needed, and words about them.
pub fn wanted(artifacts: &[Artifacts]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for of_vm in artifacts {
        if let Some(spec) = stock(&of_vm.boot, of_vm.architecture) {
            all.push((spec.reference(), kernel_words(&spec)));
        }
        let u_boot_with = matches!(of_vm.boot, Boot::Firmware(FirmwareRef::UBootWith { .. }));
        if let Boot::Firmware(FirmwareRef::Edk2 { machine, release }) = &of_vm.boot {
            let edk2 = edk2::reference(machine, release.as_deref());
            all.push((edk2, "a UEFI firmware (3 MB)".to_owned()));
        }
        if u_boot_with || matches!(of_vm.boot, Boot::Firmware(FirmwareRef::UBoot(_))) {
            all.push(wanted_u_boot());
        }
        if u_boot_with || matches!(of_vm.initramfs, Some(InitramfsRef::Busybox { .. })) {
            let busybox = Store::busybox_of(of_vm.architecture);
            all.push((busybox.to_owned(), BUSYBOX_WORDS.to_owned()));
        }
    }
    all
}

fn stock(boot: &Boot, architecture: Architecture) -> Option<KernelSpec> {
    match boot {
        Boot::Kernel(KernelRef::Debian {
            version,
            flavour,
            release,
        })
        | Boot::Firmware(FirmwareRef::UBootWith {
            kernel:
                KernelRef::Debian {
                    version,
                    flavour,
                    release,
                },
            ..
        }) => Some(KernelSpec {
            version: version.clone(),
            flavour: *flavour,
            release: release.clone(),
            architecture,
        }),
        Boot::Kernel(KernelRef::Guest(_) | KernelRef::Path(_)) | Boot::Firmware(_) => None,
    }
}

fn resolve_vm(root: &Path, store: &Store, artifacts: &Artifacts) -> Outcome<Resolved> {
    let architecture = artifacts.architecture;
    let kernel = stock(&artifacts.boot, architecture)
        .map(|spec| store.kernel(&spec))
        .transpose();
    let kernel = kernel.blame(Code::Setup)?;
    let initramfs = match (&artifacts.initramfs, &kernel) {
        (None, _) => None,
        (Some(InitramfsRef::Path(path)), _) => Some(path.clone()),
        (Some(InitramfsRef::Busybox { modules, .. }), Some(kernel)) => Some(
            store
                .initramfs(kernel, &selection(modules, artifacts.serves_by_linux))
                .blame(Code::Refused)?,
        ),
        (Some(InitramfsRef::Busybox { .. }), None) => {
            Some(store.bare_initramfs(architecture).blame(Code::Refused)?)
        }
    };
    let initramfs = match (&artifacts.initramfs, initramfs) {
        (Some(InitramfsRef::Busybox { agent: true, .. }), Some(made)) => {
            Some(initramfs::with_agent(root, &made, architecture).blame(Code::Refused)?)
        }
        (_, other) => other,
    };
    let made = matches!(artifacts.initramfs, Some(InitramfsRef::Busybox { .. }));
    let initramfs = match initramfs {
        Some(before) if made && artifacts.serves_by_linux => {
            Some(initramfs::with_driver(root, store, &before, architecture).blame(Code::Refused)?)
        }
        other => other,
    };
    let image = match (&artifacts.boot, kernel) {
        (Boot::Kernel(KernelRef::Path(path)) | Boot::Firmware(FirmwareRef::Path(path)), _) => {
            path.clone()
        }
        (Boot::Firmware(FirmwareRef::UBoot(machine)), _) => {
            store.u_boot(machine).blame(Code::Setup)?
        }
        (Boot::Firmware(FirmwareRef::Edk2 { machine, release }), _) => {
            let found = store.edk2(machine, release.as_deref());
            found.blame(Code::Setup)?
        }
        (Boot::Firmware(FirmwareRef::UBootWith { machine, .. }), Some(kernel)) => {
            let initramfs = store.initramfs(&kernel, &Selection::Default);
            let initramfs = initramfs.blame(Code::Refused)?;
            let flash = store.u_boot_with(machine, &kernel.image, &initramfs);
            flash.blame(Code::Setup)?
        }
        (Boot::Kernel(KernelRef::Guest(name)), _) => {
            cargo::guest(root, name, cargo::target(architecture)).blame(Code::Refused)?
        }
        (Boot::Kernel(KernelRef::Debian { .. }), Some(kernel)) => kernel.image,
        (Boot::Kernel(KernelRef::Debian { .. }), None)
        | (Boot::Firmware(FirmwareRef::UBootWith { .. }), None) => {
            return Err(failure(Code::Setup, "no kernel"));
        }
    };
    let resolved = Resolved {
        kernel: image,
        raw: None,
        rewritten: None,
        firmware: matches!(artifacts.boot, Boot::Firmware(_)),
        initramfs,
        variables: artifacts.variables.clone(),
    };
    if artifacts.examine {
        examine(store, artifacts, resolved)
    } else {
        Ok(resolved)
    }
}

/// With its kernel unpacked and rewritten, if that is a zImage ([`with_kernel`]).
fn examine(store: &Store, artifacts: &Artifacts, resolved: Resolved) -> Outcome<Resolved> {
    match store.rewritten(&resolved.kernel).blame(Code::Setup)? {
        Some(found) => with_kernel(found, artifacts.rewrite, resolved),
        None => Ok(resolved),
    }
}

/// With the kernel that was made of its zImage, if that was understood, and the VM wants it. A kernel that
/// cannot run on the board is refused in any case.
fn with_kernel(found: Rewritten, wanted: bool, resolved: Resolved) -> Outcome<Resolved> {
    let line = Some(found.line());
    Ok(match found.outcome {
        rewritten::Outcome::LongDescriptors => {
            return Err(Failure {
                code: Code::Refused,
                error: LongDescriptors.into(),
            });
        }
        _ if !wanted => resolved,
        rewritten::Outcome::Kernel { image, memory, .. } => Resolved {
            kernel: image,
            raw: Some(memory),
            rewritten: line,
            ..resolved
        },
        rewritten::Outcome::Refused(_) => Resolved {
            rewritten: line,
            ..resolved
        },
    })
}

fn selection(modules: &Modules, serves_by_linux: bool) -> Selection {
    let selection = match modules {
        Modules::Default => Selection::Default,
        Modules::All => Selection::All,
        Modules::List(names) => Selection::Named(names.clone()),
    };
    if serves_by_linux {
        Selection::With(Box::new(selection), initramfs::DRIVER_MODULES)
    } else {
        selection
    }
}

/// Builds the hypervisor and the image of the whole system. `tree` is the board's own tree, where
/// the description needs it; for `key` see [`crate::key`].
pub fn build(
    root: &Path,
    system: &Description,
    resolved: &[Resolved],
    tree: Option<&[u8]>,
    key: &BuildKey,
) -> Outcome<Vec<u8>> {
    build_variant(root, Variant::Shipped, system, resolved, tree, key)
}

/// [`build`] with this variant of the hypervisor, or the same with pools if the system has some.
pub fn build_variant(
    root: &Path,
    variant: Variant,
    system: &Description,
    resolved: &[Resolved],
    tree: Option<&[u8]>,
    key: &BuildKey,
) -> Outcome<Vec<u8>> {
    let (hypervisor, files) = read_all(root, variant, system, resolved)?;
    system.build(hypervisor, &files, tree, key).map_err(refused)
}

/// [`build`] into a file; the answer is the image's size in bytes. The image is nowhere in memory as a whole.
pub fn build_into(
    output: &Path,
    root: &Path,
    system: &Description,
    resolved: &[Resolved],
    tree: Option<&[u8]>,
    key: &BuildKey,
) -> Outcome<u64> {
    let (hypervisor, files) = read_all(root, Variant::Shipped, system, resolved)?;
    let image = system.image(hypervisor, &files, tree, key);
    let image = image.map_err(refused)?;
    outputs::write_by(output, |file| image.write_to(file))?;
    Ok(image.len())
}

/// The hypervisor, which is built for it, and the guests' files.
fn read_all(
    root: &Path,
    variant: Variant,
    system: &Description,
    resolved: &[Resolved],
) -> Outcome<(&'static [u8], Vec<Files>)> {
    let variant = variant.with_pools(system.has_pools());
    let hypervisor = cargo::variant_of(root, system.board.architecture(), variant);
    let hypervisor = hypervisor.blame(Code::Refused)?;
    let mut read_files = ReadFiles::default();
    let files = resolved.iter().map(|resolved| read_files.files(resolved));
    let files = files.collect::<Result<Vec<_>>>().blame(Code::Refused)?;
    Ok((hypervisor, files))
}

/// What the file of a VM's variables holds: nothing if there is none.
pub fn read_variables(path: &Path) -> Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read.with_context(|| format!("cannot read {}", path.display())),
    }
}

/// The files that were read, each once: VMs with the same kernel share it.
#[derive(Default)]
struct ReadFiles(BTreeMap<PathBuf, Arc<Vec<u8>>>);

impl ReadFiles {
    fn files(&mut self, resolved: &Resolved) -> Result<Files> {
        let initramfs = resolved.initramfs.as_deref();
        Ok(Files {
            boot: self.read(&resolved.kernel)?,
            raw: resolved.raw,
            initramfs: initramfs.map(|path| self.read(path)).transpose()?,
            variables: match &resolved.variables {
                Some(path) => Arc::new(read_variables(path)?),
                None => Arc::default(),
            },
        })
    }

    fn read(&mut self, path: &Path) -> Result<Arc<Vec<u8>>> {
        if let Some(bytes) = self.0.get(path) {
            return Ok(Arc::clone(bytes));
        }
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let bytes = Arc::new(bytes);
        self.0.insert(path.to_owned(), Arc::clone(&bytes));
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(kernel: &str, line: Option<&str>) -> Resolved {
        Resolved {
            kernel: kernel.into(),
            raw: None,
            rewritten: line.map(str::to_owned),
            firmware: false,
            initramfs: None,
            variables: None,
        }
    }

    #[test]
    fn a_kernel_with_long_descriptors_is_refused_whether_or_not_it_is_to_be_rewritten() {
        let with = |outcome, wanted| {
            let found = Rewritten {
                name: "vmlinuz".to_owned(),
                outcome,
                cached: true,
            };
            with_kernel(found, wanted, resolved("path", None))
        };
        for wanted in [false, true] {
            let Err(failure) = with(rewritten::Outcome::LongDescriptors, wanted) else {
                panic!("not refused");
            };
            assert!(failure.error.is::<LongDescriptors>());
            let other = with(rewritten::Outcome::Refused("T32".to_owned()), wanted);
            let Ok(other) = other else {
                panic!("refused");
            };
            assert_eq!(other.rewritten.is_some(), wanted);
        }
    }

    #[test]
    fn a_kernel_of_two_vms_is_told_once() {
        let all = [
            resolved("one", Some("made")),
            resolved("one", Some("made (cached)")),
            resolved("plain", None),
            resolved("other", Some("made")),
        ];
        assert_eq!(rewritten_lines(&all), ["made", "made"]);
    }
}
