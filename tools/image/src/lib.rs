//! `hanok image`: disk images for guests.
//!
//! An image is made beside its place, in a folder that goes however the command ends, and renamed when
//! it is whole. Nothing is mounted on this PC, and nothing needs root.

#![forbid(unsafe_code)]

pub mod args;
mod layout;
mod maker;
mod packages;
mod password;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hanok_artifacts::Store;
use hanok_artifacts::release::{self, NoPackage, Release};
use hanok_base::exit::{Blame, Code, Failure, Outcome, failure};
use hanok_base::outputs::Outputs;
use hanok_base::repo;
use hanok_base::scratch::Scratch;
use hanok_base::ui::{self, LongStep};
use hanok_boot::system;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use args::{DebianArgs, ImageCommand};
use layout::{FileSystem, Ids};
use maker::Maker;
use password::Password;

/// What is installed before all others, by what unpacks it; with apt, which installs the others.
const ESSENTIAL: [&str; 2] = ["?essential", "apt"];
/// What tells bookworm that its folders are linked already; later releases are always so.
const MERGED: &str = "usr-is-merged";
const MIB: u64 = 1 << 20;
/// What is on an image beside the packages' files: an initrd twice, lists, the journal.
const BESIDE: u64 = 300 * MIB;

/// Runs a subcommand of `image`.
pub fn run(root: &Path, command: &ImageCommand, yes: bool) -> Outcome {
    match command {
        ImageCommand::Debian(args) => debian(root, args, yes),
    }
}

fn debian(root: &Path, args: &DebianArgs, yes: bool) -> Outcome {
    let (password, key) = checked(args)?;
    let store = Store::open(yes, false).blame(Code::Setup)?;
    system::ask_consent(&store, &wanted(&store, args))?;
    let maker = Maker::prepare(&store, args.arch)?;
    let scratch = Scratch::new(&folder_of(&args.output), ".hanok-image-").blame(Code::Output)?;
    let work = Work {
        args,
        dir: scratch.path(),
        ids: Ids::of(args),
    };
    let found = work.fetch(&store)?;
    work.check_room(&found)?;
    work.write_choices(&password, &key, &found.sources)
        .blame(Code::Output)?;
    work.make_disks(&found).map_err(|error| work.full(error))?;
    // Others may fill the cache while this one installs.
    drop(found);
    let log = repo::target_dir(root).join("hanok/image.log");
    fs::create_dir_all(log.parent().unwrap_or(root)).blame(Code::Output)?;
    let installed = maker.install(&work.disk(), &work.packages(), &log);
    installed.map_err(|failure| work.explained(failure))?;
    work.publish().blame(Code::Output)?;
    say(args, &password).blame(Code::Output)?;
    Ok(Code::Success)
}

/// Looks at all that can be known before the first download.
fn checked(args: &DebianArgs) -> Outcome<(Password, String)> {
    let mut outputs = Outputs::default();
    if let Some(path) = &args.ssh_key {
        outputs = outputs.reads("--ssh-key", path);
    }
    for (what, path) in args.outputs() {
        outputs = outputs.writes(what, path);
    }
    outputs.check()?;
    for (_, path) in args.outputs() {
        let there = fs::metadata(&path).ok();
        if there.as_ref().is_some_and(|data| !data.is_file()) {
            // It would be replaced, not written to.
            let text = format!("{} is no file: -o names another one", path.display());
            return Err(failure(Code::Output, text));
        }
        if there.is_some() && !args.force {
            return Err(failure(Code::Output, is_there(&path)));
        }
    }
    layout::check_tools().blame(Code::Setup)?;
    let password = Password::of(&args.root_password, args.password_hash.as_deref());
    Ok((password.blame(Code::Usage)?, key(args).blame(Code::Usage)?))
}

fn is_there(path: &Path) -> String {
    format!(
        "{} is there already: --force replaces it, -o names another file",
        path.display()
    )
}

/// The public keys of `--ssh-key`.
fn key(args: &DebianArgs) -> Result<String> {
    let Some(path) = &args.ssh_key else {
        return Ok(String::new());
    };
    let read = fs::read_to_string(path);
    let text = read.with_context(|| format!("--ssh-key: cannot read {}", path.display()))?;
    if text.contains("PRIVATE KEY") {
        anyhow::bail!(
            "{} is a private key: name the file beside it that ends in .pub",
            path.display()
        );
    }
    let known = ["ssh-", "ecdsa-", "sk-"];
    let is_key = |line: &str| known.iter().any(|start| line.starts_with(start));
    if !text.lines().any(is_key) {
        anyhow::bail!(
            "{} has no public key, such as a line `ssh-ed25519 ...`",
            path.display()
        );
    }
    Ok(text)
}

/// What may have to be downloaded: references, and words for the user.
fn wanted(store: &Store, args: &DebianArgs) -> Vec<(String, String)> {
    let (release, arch) = (args.release.name(), args.arch.name());
    let kernel = maker::kernel(args.arch);
    let mut all: Vec<_> = system::wanted_qemu().into_iter().collect();
    all.push((kernel.reference(), system::kernel_words(&kernel)));
    let folder = release::folder(release, arch);
    if !store.cache.path(&folder).exists() {
        all.push((
            folder,
            format!("the packages of Debian {release} for {arch} (some 120 MB)"),
        ));
    }
    all
}

fn folder_of(path: &Path) -> PathBuf {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// An image that is being made.
struct Work<'a> {
    args: &'a DebianArgs,
    dir: &'a Path,
    ids: Ids,
}

/// The packages that were found.
struct Found {
    essential: Vec<PathBuf>,
    rest: Vec<PathBuf>,
    /// Their bytes when they are installed.
    installed: u64,
    sources: String,
    /// No other process may clean the cache until they are copied.
    _lock: File,
}

impl Work<'_> {
    fn disk(&self) -> PathBuf {
        self.dir.join("disk.img")
    }

    fn packages(&self) -> PathBuf {
        self.dir.join("packages.img")
    }

    fn essential(&self) -> Vec<&'static str> {
        let merged = self.args.release.name() == "bookworm";
        ESSENTIAL
            .into_iter()
            .chain(merged.then_some(MERGED))
            .collect()
    }

    /// Downloads all packages.
    fn fetch(&self, store: &Store) -> Outcome<Found> {
        let lock = store.cache.lock().blame(Code::Setup)?;
        let (name, arch) = (self.args.release.name(), self.args.arch.name());
        let release = Release::update(&store.cache, name, arch).blame(Code::Setup)?;
        let mut names = self.essential();
        let essential = release.plan(&names).map_err(told)?;
        names.extend(self.args.packages());
        let all = release.plan(&names).map_err(told)?;
        let archives = release.download(&names, &all).blame(Code::Setup)?;
        let (first, rest): (Vec<_>, Vec<_>) = all
            .files
            .into_iter()
            .partition(|file| essential.files.contains(file));
        let at = |files: Vec<String>| files.iter().map(|file| archives.join(file)).collect();
        let (essential, rest): (Vec<_>, Vec<_>) = (at(first), at(rest));
        let sizes = essential
            .iter()
            .chain(&rest)
            .map(|deb| release::installed_size(deb));
        Ok(Found {
            installed: sizes.sum::<Result<u64>>().blame(Code::Setup)?,
            essential,
            rest,
            sources: release.sources,
            _lock: lock,
        })
    }

    /// Refuses a disk on which the packages have no room, and a PC on which the image has none.
    fn check_room(&self, found: &Found) -> Outcome<()> {
        let needed = found.installed + BESIDE;
        let (_, len) = layout::root_extent(self.args);
        if len < needed {
            let least = (needed + 80 * MIB).div_ceil(128 * MIB) * 128;
            let text = format!(
                "--size: these packages need {}, and the root file system would have {}: give it \
                 at least {least}M",
                ui::size(needed),
                ui::size(len)
            );
            return Err(failure(Code::Refused, text));
        }
        let free = self.free();
        // The image, the packages on a disk of their own, and that disk's content.
        let wanted = 3 * found.installed;
        if free < wanted {
            let text = format!(
                "cannot write {}: the disk has {} left, and {} are needed meanwhile",
                self.args.output.display(),
                ui::size(free),
                ui::size(wanted)
            );
            return Err(failure(Code::Output, text));
        }
        Ok(())
    }

    fn free(&self) -> u64 {
        let of = rustix::fs::statvfs(self.dir);
        of.map_or(u64::MAX, |of| of.f_bavail.saturating_mul(of.f_frsize))
    }

    /// Writes what the installation reads.
    fn write_choices(&self, password: &Password, key: &str, sources: &str) -> Result<()> {
        let pool = self.dir.join("pool");
        for name in ["essential", "rest"] {
            fs::create_dir_all(pool.join(name))?;
        }
        let settings = self.settings(password);
        for (name, text) in [
            ("setup", include_str!("../guest/setup")),
            ("settings", &settings),
            ("unwanted", &packages::unwanted()),
            ("password", &password.text),
            ("ssh-key", key),
            ("sources.list", sources),
        ] {
            fs::write(pool.join(name), text)?;
        }
        Ok(())
    }

    /// Variables of a shell. Every value was checked to have nothing in it that a shell would read.
    fn settings(&self, password: &Password) -> String {
        let args = self.args;
        let values = [
            ("ROOT_UUID", self.ids.uuid("root file system")),
            ("ESP_ID", self.ids.fat()),
            ("HOSTNAME", args.hostname.clone()),
            ("LOGIN", args.user.clone().unwrap_or_default()),
            ("PASSWORD", password.kind.to_owned()),
            ("EFI", if args.no_efi { "no" } else { "yes" }.to_owned()),
            ("GRUB_TARGET", args.arch.grub_target().to_owned()),
            ("WANTED", args.packages().join(" ")),
        ];
        values
            .iter()
            .map(|(name, value)| format!("{name}='{value}'\n"))
            .collect()
    }

    /// Makes the disk that is to become the image, and that of the packages.
    fn make_disks(&self, found: &Found) -> Result<()> {
        let step = LongStep::new("Unpacking the packages");
        let (tree, pool) = (self.dir.join("tree"), self.dir.join("pool"));
        packages::unpack_essential(&found.essential, &tree)?;
        for (debs, name) in [(&found.essential, "essential"), (&found.rest, "rest")] {
            for deb in debs {
                let file = deb.file_name().context("a package has a name")?;
                packages::store(deb, &pool.join(name).join(file))?;
            }
        }
        step.done();
        let step = LongStep::new("Making the file systems");
        layout::partition(&self.disk(), self.args, &self.ids)?;
        let uuid = self.ids.uuid("root file system");
        self.file_system(&self.disk(), layout::root_extent(self.args), &tree, &uuid)?;
        self.make_pool(&pool)?;
        fs::remove_dir_all(tree)?;
        fs::remove_dir_all(pool)?;
        step.done();
        Ok(())
    }

    fn make_pool(&self, pool: &Path) -> Result<()> {
        let sizes = ["essential", "rest"].map(|name| packages::bytes_in(&pool.join(name)));
        let bytes = sizes.into_iter().sum::<std::io::Result<u64>>()?;
        let len = (bytes + bytes / 10 + 64 * MIB).next_multiple_of(MIB);
        File::create(self.packages())?.set_len(len)?;
        self.file_system(&self.packages(), (0, len), pool, &self.ids.uuid("packages"))
    }

    fn file_system(&self, image: &Path, extent: (u64, u64), tree: &Path, uuid: &str) -> Result<()> {
        let label = "root";
        FileSystem {
            image,
            extent,
            tree,
            uuid,
            label,
        }
        .make(self.dir)
    }

    /// An error of writing.
    fn full(&self, error: anyhow::Error) -> Failure {
        let what = format!("cannot write {}", self.args.output.display());
        Failure {
            code: Code::Output,
            error: error.context(what),
        }
    }

    /// An error of the installation, which is the PC's where its disk is full.
    fn explained(&self, failure: Failure) -> Failure {
        if self.free() >= 16 * MIB {
            return failure;
        }
        self.full(failure.error.context("no space left on the disk"))
    }

    /// Gives the files their names, the image last.
    fn publish(&self) -> Result<()> {
        let (begin, _) = layout::root_extent(self.args);
        let files = self.args.boot_files();
        for file in files {
            let draft = self.dir.join(file.ending);
            layout::copy_boot_file(&self.disk(), begin, file.name, &draft)?;
        }
        for file in files {
            let to = self.args.output.with_extension(file.ending);
            name(&self.dir.join(file.ending), &to, self.args.force)?;
        }
        name(&self.disk(), &self.args.output, self.args.force)
    }
}

/// Gives a draft its name. A file that came to be there meanwhile stays, unless it is to be replaced.
fn name(draft: &Path, to: &Path, replace: bool) -> Result<()> {
    let what = || format!("cannot write {}", to.display());
    File::open(draft)?.sync_all()?;
    if replace {
        return fs::rename(draft, to).with_context(what);
    }
    let flags = RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(CWD, draft, CWD, to, flags) {
        Err(Errno::EXIST) => anyhow::bail!(is_there(to)),
        // Not every file system knows the flag.
        Err(Errno::INVAL) if !to.exists() => fs::rename(draft, to).with_context(what),
        done => done.with_context(what),
    }
}

/// An error of resolving packages.
fn told(error: anyhow::Error) -> Failure {
    let code = if error.is::<NoPackage>() {
        Code::Refused
    } else {
        Code::Setup
    };
    let error = if code == Code::Refused {
        error.context("--package: the release does not have it, or not for this architecture")
    } else {
        error
    };
    Failure { code, error }
}

/// Says what was made, and the password that nobody else knows.
fn say(args: &DebianArgs, password: &Password) -> Result<()> {
    let data = fs::metadata(&args.output)?;
    let (whole, real) = (ui::size(data.len()), ui::size(data.blocks() * 512));
    ui::line(format_args!(
        "{}: {whole}, of which {real} are taken",
        args.output.display()
    ));
    if password.random {
        let who = args
            .user
            .as_ref()
            .map_or("root".to_owned(), |user| format!("root and {user}"));
        ui::line(format_args!(
            "password of {who}, on the console: {}",
            password.text
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Tool {
        #[command(subcommand)]
        command: ImageCommand,
    }

    /// How what is known beforehand is taken, with these words and `output`.
    fn refusal(output: &Path, words: &[&str]) -> String {
        let all = ["image", "debian", "--root-password=locked", "-o"].map(str::to_owned);
        let all = all.into_iter().chain([output.display().to_string()]);
        let words = words.iter().map(|word| (*word).to_owned());
        let ImageCommand::Debian(args) = Tool::parse_from(all.chain(words)).command;
        match checked(&args) {
            Ok(_) => String::new(),
            Err(failure) => format!("{:#}", failure.error),
        }
    }

    #[test]
    fn what_is_there_is_replaced_only_with_force_and_only_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("a.img");
        assert_eq!(refusal(&image, &["--boot-files"]), "");
        fs::write(dir.path().join("a.initrd"), "").unwrap();
        assert_eq!(refusal(&image, &[]), "");
        assert!(refusal(&image, &["--boot-files"]).contains("a.initrd is there already"));
        assert_eq!(refusal(&image, &["--boot-files", "--force"]), "");
        let null = refusal(Path::new("/dev/null"), &["--force"]);
        assert_eq!(null, "/dev/null is no file: -o names another one");
        let none = refusal(&dir.path().join("none/a.img"), &[]);
        assert!(none.contains("there is no folder"), "{none}");
    }

    #[test]
    fn a_file_that_came_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (draft, to) = (dir.path().join("draft"), dir.path().join("to"));
        for (file, text) in [(&draft, "new"), (&to, "old")] {
            fs::write(file, text).unwrap();
        }
        assert!(name(&draft, &to, false).is_err());
        assert_eq!(fs::read_to_string(&to).unwrap(), "old");
        name(&draft, &to, true).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "new");
    }
}
