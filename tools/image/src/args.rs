//! Arguments of `hanok image`, and the rules that they keep.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use hanok_base::values;
use hanok_boot::machine::escaped;

use crate::password::Choice;

/// The subcommands of `image`.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Install Debian, with systemd, a kernel and GRUB, on a disk image.
    #[command(after_help = DEBIAN_HELP)]
    Debian(DebianArgs),
}

/// The help of `image`.
pub const HELP: &str = "\
Example:
  hanok image debian -o debian.img";

const DEBIAN_HELP: &str = "\
Needs no root: the packages are installed by an emulated machine, in some minutes. docs/images.md \
says what is on the image.

Examples:
  hanok image debian -o debian.img
  hanok image debian -o sid.img --release sid --size 4G --package stress-ng
  hanok image debian -o mine.img --user me --ssh-key ~/.ssh/id_ed25519.pub
  hanok image debian -o debian.img --force --root-password file:password.txt

Exit codes:
  0  made                              8  a download failed, or a tool here
  2  wrong usage                          is missing: the error says what to
  3  refused: no such package, too        install
     small; or the installation       10  the image cannot be written: it exists
     failed                               already, no folder, no permission, a
  7  QEMU did not start, or ended         full disk
     unexpectedly                    130  interrupted by a signal";

/// A release of Debian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReleaseName {
    /// Debian 12.
    Bookworm,
    /// Debian 13.
    Trixie,
    /// Debian's unstable branch.
    Sid,
}

impl ReleaseName {
    /// Its name in the archive.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
            Self::Sid => "sid",
        }
    }
}

/// An architecture of Debian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arch {
    /// 64 bits.
    Arm64,
    /// 32 bits.
    Armhf,
}

/// Arguments of `image debian`.
#[derive(Debug, Args)]
pub struct DebianArgs {
    /// Where the image goes.
    #[arg(short, long)]
    pub output: PathBuf,
    /// The release.
    #[arg(long, value_enum, default_value_t = ReleaseName::Bookworm)]
    pub release: ReleaseName,
    /// The architecture.
    #[arg(long, value_enum, default_value_t = Arch::Arm64)]
    pub arch: Arch,
    /// The size of the disk; the file takes only as much as is written.
    #[arg(long, default_value = "2G", allow_hyphen_values = true, value_parser = values::size)]
    pub size: u64,
    /// One more package (repeatable).
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, value_parser = package)]
    pub package: Vec<String>,
    /// A user, who may use sudo.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, value_parser = user)]
    pub user: Option<String>,
    /// Public keys with which the user, or without one root, may log in over the network.
    #[arg(long, value_name = "FILE")]
    pub ssh_key: Option<PathBuf>,
    /// The password on the console, of root and the user: `random` (printed once), `locked`, or
    /// `file:PATH`, whose first line it is. Over the network there are keys alone.
    #[arg(long, value_name = "WHAT", allow_hyphen_values = true, default_value = "random", value_parser = Choice::parse)]
    pub root_password: Choice,
    /// The password's hash, as in shadow(5); `mkpasswd` makes one.
    #[arg(long, value_name = "HASH", allow_hyphen_values = true, conflicts_with = "root_password", value_parser = crate::password::hash)]
    pub password_hash: Option<String>,
    /// The machine's name.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, default_value = "debian", value_parser = hostname)]
    pub hostname: String,
    /// Leave out the EFI system partition and GRUB; a kernel beside the image starts it then.
    #[arg(long)]
    pub no_efi: bool,
    /// Also write the kernel and its initrd beside the image, with the endings `.vmlinuz` and `.initrd`.
    #[arg(long)]
    pub boot_files: bool,
    /// Replace an image that is there.
    #[arg(long)]
    pub force: bool,
}

/// What is there in any image.
const PACKAGES: &[&str] = &[
    "apt",
    "dbus",
    "debian-archive-keyring",
    "e2fsprogs",
    "initramfs-tools",
    "iproute2",
    "iputils-ping",
    "kmod",
    "libpam-systemd",
    "login",
    "openssh-server",
    "systemd-resolved",
    "systemd-sysv",
    "systemd-timesyncd",
    "udev",
    "zstd",
];

/// A file of the image's that is also written beside it.
pub struct BootFile {
    /// The name in /boot, before the kernel's version.
    pub name: &'static str,
    /// Its ending beside the image.
    pub ending: &'static str,
}

const BOOT_FILES: [BootFile; 2] = [
    BootFile {
        name: "vmlinuz-",
        ending: "vmlinuz",
    },
    BootFile {
        name: "initrd.img-",
        ending: "initrd",
    },
];

impl DebianArgs {
    /// The files that are wanted beside the image.
    pub fn boot_files(&self) -> &'static [BootFile] {
        if self.boot_files { &BOOT_FILES } else { &[] }
    }

    /// All that is written: what the user calls it, and where.
    pub fn outputs(&self) -> Vec<(&'static str, PathBuf)> {
        let beside = self.boot_files().iter();
        let beside = beside.map(|file| ("--boot-files", self.output.with_extension(file.ending)));
        [("--output", self.output.clone())]
            .into_iter()
            .chain(beside)
            .collect()
    }

    /// The packages that are asked for, beside the essential ones.
    pub fn packages(&self) -> Vec<&str> {
        let mut all = PACKAGES.to_vec();
        all.push(match self.arch {
            Arch::Arm64 => "linux-image-arm64",
            Arch::Armhf => "linux-image-armmp",
        });
        if !self.no_efi {
            all.extend(["dosfstools", self.arch.grub()]);
        }
        all.extend(self.user.as_ref().map(|_| "sudo"));
        all.extend(self.package.iter().map(String::as_str));
        all
    }
}

impl Arch {
    /// Its name in the archive.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arm64 => "arm64",
            Self::Armhf => "armhf",
        }
    }

    const fn grub(self) -> &'static str {
        match self {
            Self::Arm64 => "grub-efi-arm64",
            Self::Armhf => "grub-efi-arm",
        }
    }

    /// GRUB's name for it.
    pub const fn grub_target(self) -> &'static str {
        match self {
            Self::Arm64 => "arm64-efi",
            Self::Armhf => "arm-efi",
        }
    }
}

/// Whether `text` consists of lower-case letters, digits and `more`, and begins with one of the
/// former.
fn plain(text: &str, more: &str) -> bool {
    let small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(small) && text.chars().all(|c| small(c) || more.contains(c))
}

/// The name of a package (Debian's policy, 5.6.1).
fn package(text: &str) -> Result<String, String> {
    let well = plain(text, "+-.") && !text.ends_with(['+', '-']) || text.ends_with("++");
    (well && plain(text, "+-."))
        .then(|| text.to_owned())
        .ok_or_else(|| {
            "a package's name has lower-case letters, digits and + - . in it, such as stress-ng"
                .to_owned()
        })
}

/// The name of a user (useradd(8)).
fn user(text: &str) -> Result<String, String> {
    let letter = text.starts_with(|c: char| c.is_ascii_lowercase());
    (letter && plain(text, "-_") && text.len() <= 32 && text != "root")
        .then(|| text.to_owned())
        .ok_or_else(|| {
            "a user's name begins with a lower-case letter, has digits, - and _, up to 32 in all, and \
             is not root"
                .to_owned()
        })
}

/// The name of a machine (hostname(7)), without a domain.
fn hostname(text: &str) -> Result<String, String> {
    (plain(text, "-") && !text.ends_with('-') && text.len() <= 63)
        .then(|| text.to_owned())
        .ok_or_else(|| {
            "a machine's name has lower-case letters, digits and -, up to 63, such as board-1"
                .to_owned()
        })
}

/// A drive of QEMU's, in a file.
pub(crate) fn drive(path: &std::path::Path, options: &str) -> String {
    format!("file={},format=raw,if=none,{options}", escaped(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Tool {
        #[command(subcommand)]
        command: ImageCommand,
    }

    fn parsed(words: &str) -> Result<DebianArgs, String> {
        let words = format!("image debian {words}");
        let tool = Tool::try_parse_from(words.split(' ')).map_err(|error| error.to_string())?;
        let ImageCommand::Debian(args) = tool.command;
        Ok(args)
    }

    #[test]
    fn defaults_are_a_stable_release_with_grub_and_a_random_password() {
        let args = parsed("-o x.img").unwrap();
        assert_eq!(
            (args.release, args.arch),
            (ReleaseName::Bookworm, Arch::Arm64)
        );
        assert_eq!((args.size, args.root_password), (2 << 30, Choice::Random));
        let args = parsed("-o x.img --arch armhf --user me --package vim").unwrap();
        for name in ["grub-efi-arm", "linux-image-armmp", "sudo", "vim"] {
            assert!(args.packages().contains(&name), "{name}");
        }
        let args = parsed("-o x.img --no-efi").unwrap();
        assert!(!args.packages().contains(&"grub-efi-arm64"));
        assert_eq!(args.outputs(), [("--output", "x.img".into())]);
        let args = parsed("-o a/x.img --boot-files").unwrap();
        let paths: Vec<_> = args.outputs().into_iter().map(|(_, path)| path).collect();
        let expected = ["a/x.img", "a/x.vmlinuz", "a/x.initrd"];
        assert_eq!(paths, expected.map(PathBuf::from));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for words in [
            "--release etch",
            "--arch mips",
            "--size 2T",
            "--package -x",
            "--package a/b",
            "--package foo-",
            "--user root",
            "--user Me",
            "--user a:b",
            "--hostname a.b",
            "--hostname -a",
            "--root-password secret",
            "--password-hash x",
            "--root-password locked --password-hash $y$j9T$a$b",
        ] {
            assert!(parsed(&format!("-o x.img {words}")).is_err(), "{words}");
        }
        assert!(parsed("").is_err(), "no output");
        for words in ["--package g++", "--package libstdc++6", "--user _x -h"] {
            let _ = parsed(&format!("-o x.img {words}"));
        }
        assert!(parsed("-o x.img --package g++ --hostname board-1").is_ok());
        assert!(parsed("-o x.img --password-hash $y$j9T$a$b").is_ok());
    }
}
