//! A board that can be started: QEMU with all its arguments, and what is typed at a boot loader
//! before the hypervisor starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use hanok_system::{Architecture, Description, DtbRef, Flavour};
use serde::Deserialize;

use crate::display::{Display, Shown};
use crate::machine::{self, Boot, SerialPlace};
use crate::system;
use hanok_artifacts::cache;
use hanok_artifacts::kernel::KernelSpec;
use hanok_artifacts::qemu::Qemu;
use hanok_artifacts::{Store, u_boot};
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::process;
use hanok_console::script::ScriptStep;

/// A board that can be started.
pub struct Ready {
    /// QEMU with all its arguments.
    pub command: Command,
    /// The names of the VMs.
    pub vms: Vec<String>,
    /// Whether there is a hypervisor that frames the line.
    pub framed: bool,
    /// The steps on the line before any script.
    pub first: Vec<ScriptStep>,
    /// Whether software on the board can switch it off.
    pub poweroff: bool,
}

/// The program that starts the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    /// QEMU itself, by the boot protocol of Linux.
    #[default]
    Qemu,
    /// U-Boot, by its command `booti`, or `bootz` for 32 bits.
    UBoot,
}

/// How a board is to start.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Further words for the hypervisor.
    pub append: String,
    /// The program that starts the image.
    pub loader: Loader,
    /// Whether time is a count of instructions.
    pub icount: bool,
    /// Whether the line is as on a real board: not framed.
    pub plain: bool,
    /// Where the board's second serial port leads, if a VM has it.
    pub serial: SerialPlace,
}

/// The files that a board needs besides its image.
pub struct Tools {
    qemu: Qemu,
    u_boot: Option<PathBuf>,
    /// The device tree, where QEMU makes none.
    tree: Option<PathBuf>,
}

/// The distance from the start of RAM at which U-Boot finds the image: above the device tree that
/// QEMU puts there, at a multiple of 2 MiB.
const IMAGE_OFFSET: u64 = 4 << 20;

impl Start {
    /// Asks the user about what is missing for `system`, and fetches it.
    pub fn tools(&self, store: &Store, system: &Description) -> Outcome<Tools> {
        self.check(system)?;
        let mut wanted = system::wanted(&system.artifacts());
        wanted.extend(self.wanted());
        wanted.extend(wanted_tree(system));
        wanted.extend(system::wanted_qemu());
        system::ask_consent(store, &wanted)?;
        self.found(store, system)
    }

    /// The files that the board needs besides its image. Missing ones are fetched without asking.
    fn found(&self, store: &Store, system: &Description) -> Outcome<Tools> {
        let of = system.board.architecture();
        let u_boot = (self.loader == Loader::UBoot).then(|| store.u_boot(u_boot::virt(of)));
        Ok(Tools {
            qemu: store.qemu().blame(Code::Setup)?,
            u_boot: u_boot.transpose().blame(Code::Setup)?,
            tree: given_tree(store, system).blame(Code::Setup)?,
        })
    }

    /// The files that the board needs besides its image, as far as they are known without fetching
    /// anything.
    pub fn tools_if_there(&self, store: &Store, system: &Description) -> Outcome<Tools> {
        self.check(system)?;
        let u_boot = self.loader == Loader::UBoot;
        let there =
            wanted_tree(system).is_none_or(|(name, _)| store.cache.resolved(&name).is_some());
        let tree = if there {
            given_tree(store, system).blame(Code::Setup)?
        } else {
            Some("board.dtb".into())
        };
        Ok(Tools {
            qemu: store.qemu_if_there(),
            u_boot: u_boot
                .then(|| store.u_boot_if_there(u_boot::virt(system.board.architecture()))),
            tree,
        })
    }

    /// The reference in the cache that is needed, and words about it.
    pub fn wanted(&self) -> Option<(String, String)> {
        (self.loader == Loader::UBoot).then(system::wanted_u_boot)
    }

    fn check(&self, system: &Description) -> Outcome<()> {
        let board = &system.board;
        let known = board.qemu.machine.starts_with("virt");
        if self.loader == Loader::UBoot && !known {
            let what = format!(
                "U-Boot cannot start on the board {}: Debian's builds are for QEMU's virt",
                board.name
            );
            return Err(failure(Code::Usage, what));
        }
        Ok(())
    }
}

impl Tools {
    /// A board that boots `image`.
    pub fn ready(&self, system: &Description, image: &Path, start: &Start) -> Ready {
        let mut command = self.command(system);
        let at = system.board.ram + IMAGE_OFFSET;
        let boot = Boot {
            image,
            words: machine::words(&start.append, !start.plain),
            tree: self.tree.as_deref(),
            u_boot: self.u_boot.as_deref().map(|u_boot| (u_boot, at)),
            serial: system.second_serial().map(|_| &start.serial),
        };
        machine::board(&mut command, &system.qemu_args(), &boot);
        if start.icount {
            machine::by_instructions(&mut command);
        }
        let first = match start.loader {
            Loader::Qemu => Vec::new(),
            Loader::UBoot => machine::u_boot_steps(system.board.architecture(), at, &boot.words),
        };
        Ready {
            command,
            vms: names(system),
            framed: !start.plain,
            first,
            poweroff: system.board.qemu.poweroff,
        }
    }

    /// Where the board's screen is shown.
    ///
    /// # Errors
    /// As those of [`Display::resolve`].
    pub fn shown(&self, system: &Description, display: Display) -> Result<Shown> {
        display.resolve(&self.qemu, &system.board.qemu.binary)
    }

    /// QEMU for this board, without arguments.
    pub fn command(&self, system: &Description) -> Command {
        self.qemu.command(&system.board.qemu.binary)
    }
}

/// The references that are needed to read the board's own tree, and words about them; empty where
/// the description does not need the tree.
pub fn wanted_for_tree(system: &Description) -> Vec<(String, String)> {
    if system.looks_at_board_tree() {
        wanted_tree(system)
            .into_iter()
            .chain(system::wanted_qemu())
            .collect()
    } else {
        Vec::new()
    }
}

/// The package that the board's tree comes from, and words about it.
pub fn wanted_tree(system: &Description) -> Option<(String, String)> {
    let spec = kernel_of(system.board.qemu.dtb.as_ref()?, system.board.architecture())?;
    Some((spec.reference(), system::kernel_words(&spec)))
}

fn kernel_of(tree: &DtbRef, architecture: Architecture) -> Option<KernelSpec> {
    match tree {
        DtbRef::Debian { version, .. } => Some(KernelSpec {
            version: version.clone(),
            flavour: Flavour::Stock,
            release: None,
            architecture,
        }),
        DtbRef::Path(_) => None,
    }
}

/// The device tree that QEMU is given for this board, where it makes none.
fn given_tree(store: &Store, system: &Description) -> Result<Option<PathBuf>> {
    let Some(tree) = &system.board.qemu.dtb else {
        return Ok(None);
    };
    let path = match (tree, kernel_of(tree, system.board.architecture())) {
        (DtbRef::Debian { file, .. }, Some(spec)) => store.kernel(&spec)?.tree(file)?,
        (DtbRef::Path(path), _) => path.clone(),
        (DtbRef::Debian { .. }, None) => bail!("no kernel has this tree"),
    };
    let path = if system.board.qemu.dtb_cpus {
        with_cores(store, &path, system.cores)?
    } else {
        path
    };
    Ok(Some(path))
}

/// The tree at `path` with `cores` CPUs, kept in the cache.
fn with_cores(store: &Store, path: &Path, cores: u64) -> Result<PathBuf> {
    let given = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let made = hanok_system::with_cores(&given, cores)
        .with_context(|| format!("{} is no device tree with CPUs", path.display()))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("trees/{stem}-{cores}-{}.dtb", cache::digest(&made));
    if !store.cache.path(&name).exists() {
        let _lock = store.cache.lock()?;
        let folder = store.cache.temporary()?;
        let draft = folder.path().join("tree");
        fs::write(&draft, made)?;
        store.cache.publish(&draft, &name)?;
    }
    Ok(store.cache.path(&name))
}

/// The board's own tree as the hypervisor will get it, where the description needs it. Refuses
/// devices that a VM cannot have. QEMU is asked for the tree, because it changes even one that it
/// is given; its answer is kept in the cache.
pub fn tree(store: &Store, system: &Description) -> Outcome<Option<Vec<u8>>> {
    if !system.looks_at_board_tree() {
        return Ok(None);
    }
    system::ask_consent(store, &wanted_for_tree(system))?;
    let start = Start::default();
    let tree = start.found(store, system)?.dumped(store, system);
    let tree = tree.blame(Code::Qemu)?;
    let mut found = hanok_system::check_board_tree(system, &tree);
    if found.is_empty() {
        found = hanok_system::check_devices(system, &tree);
    }
    if found.is_empty() {
        Ok(Some(tree))
    } else {
        Err(system::refused(found))
    }
}

impl Tools {
    fn dumped(&self, store: &Store, system: &Description) -> Result<Vec<u8>> {
        let mut command = self.command(system);
        command.args(system.qemu_args());
        command.args(["-nodefaults", "-display", "none"]);
        if system.second_serial().is_some() {
            command.args(["-serial", "null", "-serial", "null"]);
        }
        if let Some(tree) = &self.tree {
            command.arg("-dtb").arg(tree);
        }
        let made_of = format!("{} {}", self.qemu.version(), machine::typed(&command));
        let name = format!(
            "trees/{}-{}.dtb",
            system.board.name,
            cache::digest(&made_of)
        );
        let path = store.cache.path(&name);
        if !path.exists() {
            let _lock = store.cache.lock()?;
            let folder = store.cache.temporary()?;
            let draft = folder.path().join("tree");
            let dump = format!("dumpdtb={}", draft.display());
            process::run(command.args(["-machine", &dump]))?;
            store.cache.publish(&draft, &name)?;
        }
        Ok(fs::read(path)?)
    }
}

/// The names of a system's VMs.
pub fn names(system: &Description) -> Vec<String> {
    system.vms.iter().map(|vm| vm.name().to_owned()).collect()
}
