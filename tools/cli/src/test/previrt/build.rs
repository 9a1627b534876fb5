//! A kernel of Debian's source, small enough to be compiled in minutes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::artifacts::Store;
use crate::artifacts::cross::{Cross, PREFIX};
use crate::ui::Step;
use crate::{process, repo};

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Of A32.
    A32,
    /// Of T32.
    T32,
    /// Of A32, by an assembler that rewrites each object.
    Rewritten,
}

impl Flavour {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A32 => "own-a32",
            Self::T32 => "own-t32",
            Self::Rewritten => "own-rewritten",
        }
    }
}

/// What its configuration has.
const CONFIG: &str = "tests/previrt-kernel.config";
/// What the build needs of the machine.
const NEEDED: [&str; 5] = ["make", "gcc", "bc", "perl", "tar"];

/// A build of a kernel.
pub struct Build<'a> {
    root: &'a Path,
    flavour: Flavour,
    cross: Cross,
    source: PathBuf,
    dir: PathBuf,
}

impl<'a> Build<'a> {
    /// Ready to run: the compiler and the source are there.
    pub fn new(root: &'a Path, store: &Store, flavour: Flavour) -> Result<Self> {
        for program in NEEDED {
            let found = Command::new(program).arg("--version").output();
            found.with_context(|| format!("a kernel's build needs {program}"))?;
        }
        let place = repo::target_dir(root).join("hanok/kernels");
        Ok(Self {
            root,
            flavour,
            cross: store.cross()?,
            source: source(&store.kernel_source()?, &place)?,
            dir: place.join(flavour.name()),
        })
    }

    /// Builds it, as far as it is not built.
    pub fn run(&self) -> Result<()> {
        let step = Step::new(format!("Building the kernel {}", self.flavour.name()));
        fs::create_dir_all(&self.dir)?;
        let mut config = fs::read_to_string(self.root.join(CONFIG))?;
        if self.flavour == Flavour::T32 {
            config += "CONFIG_THUMB2_KERNEL=y\n";
        }
        let all = self.dir.join("all.config");
        fs::write(&all, &config)?;
        let mut configure = self.make()?;
        process::run(configure.env("KCONFIG_ALLCONFIG", &all).arg("allnoconfig"))?;
        self.has(&config)?;
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut make = self.make()?;
        make.args([&format!("-j{jobs}"), "vmlinux", "Image"]);
        process::run(&mut make)?;
        step.done();
        Ok(())
    }

    /// That the configuration is as it was asked for: what depends on something that is off
    /// goes without a word.
    fn has(&self, config: &str) -> Result<()> {
        let made = fs::read_to_string(self.dir.join(".config"))?;
        let asked = config.lines().filter(|line| line.starts_with("CONFIG_"));
        let missing: Vec<_> = asked
            .filter(|line| !made.lines().any(|made| made == *line))
            .collect();
        ensure!(missing.is_empty(), "the configuration lacks {missing:?}");
        Ok(())
    }

    fn make(&self) -> Result<Command> {
        let wrapped = self.dir.join("bin");
        self.cross.wrap(&wrapped)?;
        let mut make = self.cross.make(&wrapped)?;
        make.arg("-C")
            .arg(&self.source)
            .arg(format!("O={}", self.dir.display()));
        if self.flavour == Flavour::Rewritten {
            let assembler = self.dir.join("as");
            fs::create_dir_all(&assembler)?;
            let program = assembler.join("as");
            fs::copy(self.root.join("tools/previrt/previrt-as"), &program)?;
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
            let hanok = std::env::current_exe()?;
            make.env("PREVIRT", format!("{} previrt", hanok.display()))
                .env("PREVIRT_AS", wrapped.join(format!("{PREFIX}as")))
                .env("HANOK_ROOT", self.root)
                .arg(format!("CC={PREFIX}gcc -B{}", assembler.display()));
        }
        Ok(make)
    }

    /// The raw image.
    pub fn image(&self) -> PathBuf {
        self.dir.join("arch/arm/boot/Image")
    }

    /// The ELF file.
    pub fn vmlinux(&self) -> PathBuf {
        self.dir.join("vmlinux")
    }
}

/// The kernel's source, unpacked under `place`; what no 32-bit kernel needs stays packed.
fn source(packed: &Path, place: &Path) -> Result<PathBuf> {
    let name = packed.file_name().unwrap_or_default().to_string_lossy();
    let source = place.join(name.trim_end_matches(".tar.xz"));
    if source.exists() {
        return Ok(source);
    }
    let step = Step::new("Unpacking the kernel's source");
    let draft = place.join("draft");
    if draft.exists() {
        fs::remove_dir_all(&draft)?;
    }
    fs::create_dir_all(&draft)?;
    let mut tar = Command::new("tar");
    tar.arg("xJf").arg(packed).arg("-C").arg(&draft);
    tar.args([
        "--strip-components=1",
        "--exclude=*/drivers/gpu/drm/amd/include",
    ]);
    process::run(tar.arg("--exclude=*/tools/testing"))?;
    fs::rename(&draft, &source)?;
    step.done();
    Ok(source)
}
