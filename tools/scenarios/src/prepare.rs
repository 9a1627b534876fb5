//! Makes a board from a case: its image, what its initramfs have in addition, and the damage that
//! it asks for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use hanok_system::Description;

use super::connect;
use super::damage;
use super::matrix::Case;
use super::monitor::Monitor;
use super::scenario::{FileSpec, MoreSpec};
use super::serial::Line;
use hanok_artifacts::Store;
use hanok_artifacts::cargo::Variant;
use hanok_artifacts::initramfs;
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::{process, repo};
use hanok_boot::board::{self, Ready, Start};
use hanok_boot::machine::{self, Placed};
use hanok_boot::native::{self, More};
use hanok_boot::{key, system};

/// A case whose board is ready.
pub struct Prepared<'a> {
    /// The case.
    pub case: &'a Case,
    /// Its board.
    pub ready: Ready,
    /// Where what it wrote is kept.
    pub dir: PathBuf,
    /// The other end of the board's second serial port, if somebody is there.
    pub serial: Option<Line>,
    /// QEMU's monitor, if a step speaks to it.
    pub monitor: Option<Monitor>,
    /// The port of the PC that leads to a VM.
    pub port: Option<u16>,
}

/// Builds a case's image and command.
pub fn prepare<'a>(root: &Path, store: &Store, case: &'a Case) -> Outcome<Prepared<'a>> {
    let dir = repo::target_dir(root)
        .join("hanok/test")
        .join(file_name(&case.name));
    let fresh = || -> Result<()> {
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        Ok(fs::create_dir_all(&dir)?)
    };
    fresh()
        .with_context(|| format!("cannot make {}", dir.display()))
        .blame(Code::Usage)?;
    let mut description = system::load(root, &root.join(&case.system), &case.overrides)?;
    let way = case.scenario.forward.as_deref().map(connect::way);
    let way = way.transpose().blame(Code::Setup)?;
    if let Some(way) = &way {
        let led = description.forward(way);
        led.map_err(|why| failure(Code::Usage, format!("`forward`: {why}")))?;
    }
    let names = board::names(&description);
    let more = more_files(root, store, case, &names, &dir).blame(Code::Setup)?;
    let serial = (!case.scenario.serial.is_empty()).then(Line::new);
    let serial = serial.transpose().blame(Code::Setup)?;
    let mut ready = if case.scenario.native {
        native::native_board(
            root,
            store,
            &description,
            native::Changed {
                more: more.first().map(|(_, more)| more),
                form: case.scenario.kernel_as.map(|form| (form, &*dir)),
            },
            case.scenario.binary.as_deref(),
        )?
    } else {
        let start = Start {
            serial: serial.as_ref().map(Line::place).unwrap_or_default(),
            ..start(case)
        };
        let place = (dir.as_path(), &start);
        virtual_board(root, store, case, &description, &more, place)?
    };
    if case.scenario.icount && case.scenario.native {
        machine::by_instructions(&mut ready.command);
    }
    machine::extras(&mut ready.command, &case.scenario.qemu_args, None);
    let monitor = case.scenario.has_monitor().then(Monitor::new);
    let monitor = monitor.transpose().blame(Code::Setup)?;
    if let Some(monitor) = &monitor {
        monitor.add_to(&mut ready.command);
    }
    Ok(Prepared {
        case,
        ready,
        dir,
        serial,
        monitor,
        port: way.map(|way| way.host),
    })
}

/// What the scenario adds to the initramfs of each VM, by the VM's index in the description.
fn more_files(
    root: &Path,
    store: &Store,
    case: &Case,
    vms: &[String],
    dir: &Path,
) -> Result<Vec<(usize, More)>> {
    let of = |(name, spec): (Option<&str>, MoreSpec)| {
        let place = name.map_or(Some(0), |name| vms.iter().position(|vm| vm == name));
        let place = place.context("no such VM")?;
        let archive = archive_of(root, store, &spec)?;
        let path = dir.join(format!("{place}.initramfs"));
        Ok((place, More { archive, path }))
    };
    case.scenario.more().map(of).collect()
}

fn archive_of(root: &Path, store: &Store, spec: &MoreSpec) -> Result<Vec<u8>> {
    let read = |spec: &FileSpec| -> Result<(String, Vec<u8>)> {
        let folder = match &spec.package {
            Some(package) => store.debian(package)?,
            None => root.to_owned(),
        };
        let path = folder.join(&spec.file);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok((spec.to.clone(), bytes))
    };
    let files = spec.files.iter().map(read).collect::<Result<Vec<_>>>()?;
    let mut archive = initramfs::archive_of(&files);
    for package in spec.packages {
        archive.extend(initramfs::archive_of_tree(&store.runnable(package)?)?);
    }
    Ok(archive)
}

/// A case's board with the hypervisor on it, damaged as the scenario says.
fn virtual_board(
    root: &Path,
    store: &Store,
    case: &Case,
    description: &Description,
    more: &[(usize, More)],
    (dir, start): (&Path, &Start),
) -> Outcome<Ready> {
    let scenario = &case.scenario;
    if !scenario.serial.is_empty() && description.second_serial().is_none() {
        let what = "`serial`, and no VM has the board's second serial port";
        return Err(failure(Code::Usage, what));
    }
    let tools = start.tools(store, description)?;
    let artifacts = description.artifacts();
    let mut resolved = system::resolve(root, store, &artifacts)?;
    for (vm, more) in more {
        if let Some(resolved) = resolved.get_mut(*vm) {
            more.add_to(resolved).blame(Code::Refused)?;
        }
    }
    if let (Some(form), Some(first)) = (scenario.kernel_as, resolved.first_mut()) {
        let architecture = description.vms[0].architecture();
        form.apply(first, architecture, dir).blame(Code::Usage)?;
    }
    let tree = board::tree(store, description)?;
    let named = scenario.image_key.as_deref().map(key::parse);
    let named = named.transpose().blame(Code::Usage)?;
    let key = key::of_image(named, start.icount)?;
    let variant = if scenario.shipped {
        Variant::Shipped
    } else {
        machine::variant(&scenario.append)
    };
    let mut bytes =
        system::build_variant(root, variant, description, &resolved, tree.as_deref(), &key)?;
    damage::damage_image(&mut bytes, &scenario.image_damage, case.seed).blame(Code::Usage)?;
    let image = dir.join("image");
    repo::write_whole(&image, &bytes).blame(Code::Refused)?;
    let ready = tools.ready(description, &image, start);
    let Some(tree_damage) = &scenario.board_tree_damage else {
        return Ok(ready);
    };
    let mut tree = board_tree(ready, &scenario.qemu_args, dir).blame(Code::Qemu)?;
    for one in tree_damage {
        one.apply(&mut tree, case.seed).blame(Code::Usage)?;
    }
    let mut command = tools.command(description);
    own_tree(&mut command, description, &image, &tree, dir).blame(Code::Usage)?;
    if start.icount {
        machine::by_instructions(&mut command);
    }
    Ok(Ready {
        command,
        vms: board::names(description),
        framed: true,
        first: Vec::new(),
        poweroff: description.board.qemu.poweroff,
    })
}

/// How a scenario wants its board to start.
pub fn start(case: &Case) -> Start {
    Start {
        append: case.scenario.append.clone(),
        loader: case.scenario.boot,
        icount: case.scenario.icount,
        plain: !case.scenario.framed,
        ..Start::default()
    }
}

/// The tree that QEMU makes for this board.
fn board_tree(ready: Ready, more: &[String], dir: &Path) -> Result<Vec<u8>> {
    let path = dir.join("board.dtb");
    let mut command = ready.command;
    command.args(more);
    let dump = format!("dumpdtb={}", path.display());
    process::run(command.args(["-machine", &dump]))?;
    damage::packed(fs::read(path)?)
}

/// The first instructions are put behind the place of the tree that QEMU makes; our tree follows,
/// and the image is at the next multiple of 2 MiB: as close as a boot loader may put them.
const STUB_OFFSET: u64 = 1 << 20;
const TREE_OFFSET: u64 = STUB_OFFSET + (64 << 10);
const IMAGE_OFFSET: u64 = 2 << 20;

/// Adds a board that boots `image` with `tree`.
fn own_tree(
    command: &mut Command,
    description: &Description,
    image: &Path,
    tree: &[u8],
    dir: &Path,
) -> Result<()> {
    let ram = description.board.ram;
    let (tree_at, entry) = (ram + TREE_OFFSET, ram + IMAGE_OFFSET);
    let (tree_file, stub_file) = (dir.join("damaged.dtb"), dir.join("stub"));
    fs::write(&tree_file, tree)?;
    let stub = machine::stub(description.board.architecture(), tree_at, entry);
    fs::write(&stub_file, stub)?;
    let placed = Placed {
        image: (image, entry),
        tree: (&tree_file, tree_at),
        stub: (&stub_file, ram + STUB_OFFSET),
    };
    machine::placed(command, &description.qemu_args(), &placed);
    Ok(())
}

/// A folder's name for a case: only characters that every file system takes.
pub fn file_name(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-._".contains(c) {
            c
        } else {
            '_'
        }
    };
    name.chars().map(plain).collect()
}
