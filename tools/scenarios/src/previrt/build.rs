//! Builds a kernel from Debian's source, small enough to be compiled in minutes, with any of
//! Debian's compilers.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::list::{Compiler, Plan};
use hanok_artifacts::Store;
use hanok_artifacts::cache::digest;
use hanok_artifacts::toolchain::Toolchain;
use hanok_base::ui::LongStep;
use hanok_base::{process, repo};

/// The programs that the build needs on the machine, and their packages.
const NEEDED: [(&str, &str); 7] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("bc", "bc"),
    ("perl", "perl"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];
/// The further packages that Linux's own build needs.
const TOOLS: (&str, [&str; 3]) = ("bookworm", ["bison", "flex", "m4"]);
/// The prefix of the names of GNU's programs.
const PREFIX: &str = "arm-linux-gnueabihf-";
/// GNU's programs of a build; the compiler has its version behind its name.
const GNU: [&str; 8] = [
    "as", "ld", "nm", "objcopy", "objdump", "ar", "strip", "readelf",
];
/// The programs that gcc starts by itself, of these and of its own.
const INNER: [&str; 2] = ["as", "ld"];
const OWN: [&str; 2] = ["cc1", "collect2"];
/// LLVM's, as Linux's build calls them.
const CLANG: &str = "clang";
const LLVM: [&str; 7] = [
    "ld.lld",
    "llvm-ar",
    "llvm-nm",
    "llvm-objcopy",
    "llvm-objdump",
    "llvm-readelf",
    "llvm-strip",
];
/// The two files that are kept of a build.
const IMAGE: &str = "Image";
const VMLINUX: &str = "vmlinux";

/// Whether an assembler rewrites what it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assembler {
    /// The compiler's own assembler.
    Plain,
    /// `tools/previrt/previrt-as`.
    Rewriting,
}

/// A build of a kernel.
pub struct Build<'a> {
    root: &'a Path,
    /// Its folder, below the one of all.
    dir: PathBuf,
    plan: &'a Plan,
    assembler: Assembler,
    source: PathBuf,
    compiler: Toolchain,
    tools: Toolchain,
    /// What it depends on, as a word.
    stamp: String,
}

impl<'a> Build<'a> {
    /// Ready to run: the compiler and the source are there.
    pub fn new(
        root: &'a Path,
        store: &Store,
        plan: &'a Plan,
        assembler: Assembler,
    ) -> Result<Self> {
        machine_has(&NEEDED)?;
        let place = repo::target_dir(root).join("hanok/kernels");
        let packages = plan.compiler.packages();
        let packages: Vec<_> = packages.iter().map(String::as_str).collect();
        let compiler = store.toolchain(&plan.release, &packages)?;
        let (version, packed) = store.data_of(&plan.source.release, &plan.source.package)?;
        let folder = format!("{}-{version}", plan.source.package);
        let packed = packed.join(format!("usr/src/{}.tar.xz", plan.source.package));
        let stamp = digest(format!("{folder} {} {}", compiler.version, plan.config));
        Ok(Self {
            root,
            dir: place.join(&plan.folder),
            plan,
            assembler,
            source: source(&packed, &place.join(folder))?,
            compiler,
            tools: store.toolchain(TOOLS.0, &TOOLS.1)?,
            stamp,
        })
    }

    /// Builds it, unless that was done with the same source, compiler and configuration, and the
    /// image and the vmlinux exist. A build with a rewriting assembler is always done again.
    pub fn run(&self) -> Result<()> {
        let stamp = self.dir.join("stamp");
        let same = fs::read_to_string(&stamp).is_ok_and(|text| text == self.stamp);
        if same && self.assembler == Assembler::Plain {
            return Ok(());
        }
        let step = LongStep::new(format!("Building the kernel {}", self.plan.folder));
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        fs::create_dir_all(self.objects())?;
        let all = self.dir.join("all.config");
        fs::write(&all, &self.plan.config)?;
        let mut configure = self.make()?;
        configure.env("KCONFIG_ALLCONFIG", &all).arg("allnoconfig");
        process::run(&mut configure)?;
        let appended = fs::read_to_string(self.objects().join(".config"))?;
        let lacks = lacking(&self.plan.config, &appended);
        ensure!(lacks.is_empty(), "the configuration lacks {lacks:?}");
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut make = self.make()?;
        process::run(make.args([&format!("-j{jobs}"), VMLINUX, IMAGE]))?;
        let image = self.objects().join("arch/arm/boot").join(IMAGE);
        fs::rename(image, self.image())?;
        fs::rename(self.objects().join(VMLINUX), self.vmlinux())?;
        // Some hundred megabytes that are not needed any more.
        fs::remove_dir_all(self.objects())?;
        fs::write(stamp, &self.stamp)?;
        step.done();
        Ok(())
    }

    fn objects(&self) -> PathBuf {
        self.dir.join("objects")
    }

    /// The raw image.
    pub fn image(&self) -> PathBuf {
        self.dir.join(IMAGE)
    }

    /// The ELF file.
    pub fn vmlinux(&self) -> PathBuf {
        self.dir.join(VMLINUX)
    }

    /// `make`, which finds the compiler and what else it needs.
    fn make(&self) -> Result<Command> {
        let bin = self.dir.join("bin");
        let tool = |name: &str| bin.join(name).display().to_string();
        let mut make = Command::new("make");
        for name in TOOLS.1 {
            fs::create_dir_all(&bin)?;
            let program = self.tools.file(&format!("usr/bin/{name}"));
            self.tools.wrap(&program, &bin.join(name), &[])?;
        }
        match &self.plan.compiler {
            Compiler::Gcc(version) => self.gcc(*version, &bin)?,
            Compiler::Clang(version) => {
                self.clang(*version, &bin)?;
                make.args(["LLVM=1", "LLVM_IAS=1", "HOSTCC=gcc", "HOSTCXX=g++"]);
                make.args(["HOSTLD=ld", "HOSTAR=ar"]);
            }
        }
        let mut path = OsString::from(&bin);
        path.push(":");
        path.push(std::env::var_os("PATH").context("there is no PATH")?);
        make.env("PATH", path)
            .env("M4", bin.join("m4"))
            .env("BISON_PKGDATADIR", self.tools.file("usr/share/bison"))
            .arg(format!("LEX={}", tool("flex")))
            .arg(format!("YACC={}", tool("bison")))
            .args(["ARCH=arm", &format!("CROSS_COMPILE={PREFIX}")])
            .args(
                ["TIMESTAMP=2026-01-01", "USER=hanok", "HOST=hanok"].map(|text| {
                    // Makes builds reproducible.
                    format!("KBUILD_BUILD_{text}")
                }),
            )
            .arg("-C")
            .arg(&self.source)
            .arg(format!("O={}", self.objects().display()));
        if self.assembler == Assembler::Rewriting {
            self.rewrites(&bin, &mut make)?;
        }
        Ok(make)
    }

    /// GNU's programs as scripts in `bin`; those that gcc starts by itself in a folder of their own,
    /// where nothing of the machine's is looked for.
    fn gcc(&self, version: u32, bin: &Path) -> Result<()> {
        let (inner, wrap) = (bin.join("inner"), &self.compiler);
        fs::create_dir_all(&inner)?;
        let program = |name: &str| wrap.file(&format!("usr/bin/{PREFIX}{name}"));
        for name in GNU {
            wrap.wrap(&program(name), &bin.join(format!("{PREFIX}{name}")), &[])?;
        }
        for name in INNER {
            wrap.wrap(&program(name), &inner.join(name), &[])?;
        }
        // In `libexec` in Debian 13, in `lib` in 12.
        let triple = PREFIX.trim_end_matches('-');
        let places = ["libexec", "lib"];
        let own = places.map(|lib| format!("usr/{lib}/gcc-cross/{triple}/{version}"));
        let own = own.iter().find_map(|place| {
            let folder = wrap.file(place);
            folder.join(OWN[0]).exists().then_some(folder)
        });
        let own = own.with_context(|| format!("gcc {version} has no {}", OWN[0]))?;
        for name in OWN {
            wrap.wrap(&own.join(name), &inner.join(name), &[])?;
        }
        // Behind what a build says, so that an assembler of the build's is taken first.
        let more = [format!("-B{}", inner.display())];
        let gcc = program(&format!("gcc-{version}"));
        wrap.wrap(&gcc, &bin.join(format!("{PREFIX}gcc")), &more)
    }

    /// LLVM's programs as scripts in `bin`. Clang looks for its headers, and for itself to start it
    /// again, beside the program that the system says is running, which is the loader: so it is
    /// told both.
    fn clang(&self, version: u32, bin: &Path) -> Result<()> {
        let wrap = &self.compiler;
        let program = |name: &str| wrap.file(&format!("usr/lib/llvm-{version}/bin/{name}"));
        for name in LLVM {
            wrap.wrap(&program(name), &bin.join(name), &[])?;
        }
        let clang = program(CLANG);
        let inner = bin.join("inner");
        fs::create_dir_all(&inner)?;
        let inner = inner.join(CLANG);
        wrap.wrap(&clang, &inner, &[])?;
        // Of the version in full before clang 16.
        let folder = format!("usr/lib/llvm-{version}/lib/clang");
        let headers = wrap.entry(&folder, &version.to_string())?;
        let headers = headers.display().to_string();
        let more = ["-no-canonical-prefixes", "-resource-dir", &headers].map(str::to_owned);
        wrap.wrap_as(&clang, &bin.join(CLANG), Some(&inner), &more)
    }

    /// Has `make` use the assembler that rewrites.
    fn rewrites(&self, bin: &Path, make: &mut Command) -> Result<()> {
        let assembler = self.dir.join("as");
        fs::create_dir_all(&assembler)?;
        let program = assembler.join("as");
        fs::copy(self.root.join("tools/previrt/previrt-as"), &program)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let hanok = std::env::current_exe()?;
        make.env("PREVIRT", format!("{} previrt", hanok.display()))
            .env("PREVIRT_AS", bin.join(format!("{PREFIX}as")))
            .env("HANOK_ROOT", self.root)
            .arg(format!("CC={PREFIX}gcc -B{}", assembler.display()));
        Ok(())
    }
}

/// Checks that the machine has some programs.
fn machine_has(needed: &[(&str, &str)]) -> Result<()> {
    let missing = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--version").output().is_err()
    };
    let missing = needed.iter().filter(|(program, _)| missing(program));
    let (programs, packages): (Vec<_>, Vec<_>) = missing.copied().unzip();
    ensure!(
        programs.is_empty(),
        "a kernel's build needs {}: as root, run: apt-get install {}",
        programs.join(", "),
        packages.join(" ")
    );
    Ok(())
}

/// The options of the requested configuration that the resulting one has otherwise: an option that
/// depends on one that is off is silently dropped. The last line about an option counts.
fn lacking<'a>(asked: &'a str, appended: &str) -> Vec<&'a str> {
    let appended: Vec<_> = appended.lines().filter_map(option).collect();
    let asked: Vec<_> = asked
        .lines()
        .filter_map(|line| Some((line, option(line)?)))
        .collect();
    let value = |name| appended.iter().find(|(other, _)| *other == name);
    let wrong = asked
        .iter()
        .enumerate()
        .filter(|(at, (_, (name, wanted)))| {
            let mut later = asked[at + 1..].iter();
            let overridden = later.any(|(_, (other, _))| other == name);
            // What cannot be chosen is not mentioned, and off.
            let found = value(*name).map_or("n", |(_, value)| value);
            !overridden && found != *wanted
        });
    wrong.map(|(_, (line, _))| *line).collect()
}

/// An option and its value in a line of a configuration.
fn option(line: &str) -> Option<(&str, &str)> {
    if let Some(rest) = line.strip_prefix("# CONFIG_") {
        return rest.strip_suffix(" is not set").map(|name| (name, "n"));
    }
    line.strip_prefix("CONFIG_")?.split_once('=')
}

/// The kernel's source, unpacked as `to`; what no 32-bit kernel needs stays packed.
fn source(packed: &Path, to: &Path) -> Result<PathBuf> {
    if to.exists() {
        return Ok(to.to_owned());
    }
    let step = LongStep::new("Unpacking the kernel's source");
    let mut draft = to.to_owned().into_os_string();
    draft.push(".draft");
    let draft = PathBuf::from(draft);
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
    fs::rename(&draft, to)?;
    step.done();
    Ok(to.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_is_not_what_was_asked_for_is_told() {
        let appended = "CONFIG_SMP=y\n# CONFIG_NET is not set\nCONFIG_NR_CPUS=4\n";
        let lacks = |asked| lacking(asked, appended);
        assert_eq!(lacks("CONFIG_SMP=y\nCONFIG_NR_CPUS=4\n"), [] as [&str; 0]);
        assert_eq!(lacks("CONFIG_NET=y\n# said\n"), ["CONFIG_NET=y"]);
        assert_eq!(lacks("CONFIG_AWAY=y\n"), ["CONFIG_AWAY=y"]);
        assert_eq!(lacks("CONFIG_NR_CPUS=8\n"), ["CONFIG_NR_CPUS=8"]);
        let off = "# CONFIG_SMP is not set";
        assert_eq!(lacks(off), [off]);
        assert_eq!(lacks("# CONFIG_AWAY is not set\n"), [] as [&str; 0]);
        // The last one counts.
        assert_eq!(
            lacks("CONFIG_NET=y\n# CONFIG_NET is not set\n"),
            [] as [&str; 0]
        );
        assert_eq!(
            lacks("# CONFIG_NET is not set\nCONFIG_NET=y\n"),
            ["CONFIG_NET=y"]
        );
    }

    #[test]
    fn a_machine_without_the_programs_is_told_the_packages() {
        machine_has(&[]).unwrap();
        let missing = [
            ("hanok-no-such-make", "make-x"),
            ("sh", "dash"),
            ("hanok-no-bc", "bc-x"),
        ];
        let error = machine_has(&missing).unwrap_err().to_string();
        let wanted = "a kernel's build needs hanok-no-such-make, hanok-no-bc: \
            as root, run: apt-get install make-x bc-x";
        assert_eq!(error, wanted);
    }
}
