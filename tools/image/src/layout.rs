//! The disk: a partition table, an EFI system partition if wanted, and an ext4 root file system.
//!
//! All identifiers are made from the arguments, so that the same arguments give the same ones. As on
//! Debian's images for clouds the root file system is partition 1 and the EFI system partition 15,
//! which lies before it: `root=/dev/vda1` is right either way, and the root can grow.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use gptman::{GPT, GPTPartitionEntry};
use hanok_base::process;
use sha2::{Digest, Sha256};

use crate::args::{Arch, DebianArgs};

const SECTOR: u64 = 512;
const MIB: u64 = 1 << 20;
/// The size of the EFI system partition.
const ESP: u64 = 64 * MIB;
/// The partition's type in the UEFI specification, and those of the Discoverable Partitions
/// Specification, as they lie on the disk.
const ESP_TYPE: &str = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b";
const ROOT_ARM64: &str = "b921b045-1df0-41c3-af44-4c6f280d3fae";
const ROOT_ARM: &str = "69dad710-2ce4-4e3c-b16c-21a1d49abed3";

/// What mke2fs makes, whatever its version and its own configuration say: what GRUB and the kernels
/// of all releases read.
const MKE2FS: &str = "\
[defaults]
base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
default_mntopts = acl,user_xattr
enable_periodic_fsck = 0
blocksize = 4096
inode_size = 256
inode_ratio = 16384
[fs_types]
ext4 = {
    features = has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize
}
";

/// An image's identifiers.
pub struct Ids {
    /// What they are made from.
    from: String,
}

impl Ids {
    /// Those of these arguments.
    pub fn of(args: &DebianArgs) -> Self {
        let (release, arch) = (args.release.name(), args.arch.name());
        let (size, efi) = (args.size, !args.no_efi);
        let what = (&args.hostname, &args.user, args.packages());
        let from = format!("{release} {arch} {size} {efi} {what:?}");
        Self { from }
    }

    /// The identifier of `what`, in the form of RFC 9562's version 8.
    fn bytes(&self, what: &str) -> [u8; 16] {
        let hash = Sha256::digest(format!("{} {what}", self.from));
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        bytes
    }

    /// The identifier of `what`, as text.
    pub fn uuid(&self, what: &str) -> String {
        let mut text = hex(&self.bytes(what));
        for at in [20, 16, 12, 8] {
            text.insert(at, '-');
        }
        text
    }

    /// The number of a FAT file system, in eight hexadecimal digits.
    pub fn fat(&self) -> String {
        hex(&self.bytes("esp file system")[..4])
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A GUID as it lies on the disk: the first three parts with their lowest byte first (UEFI,
/// appendix A).
fn on_disk(guid: &str) -> [u8; 16] {
    let digits = guid.replace('-', "");
    let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap_or_default();
    [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15].map(byte)
}

/// Where the root file system lies: the first byte, and the bytes.
pub fn root_extent(args: &DebianArgs) -> (u64, u64) {
    let begin = if args.no_efi { MIB } else { MIB + ESP };
    let end = args.size / MIB * MIB;
    (begin, end.saturating_sub(MIB).saturating_sub(begin))
}

/// Makes the disk's file, sparse, with its partition table.
pub fn partition(path: &Path, args: &DebianArgs, ids: &Ids) -> Result<()> {
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)?;
    file.set_len(args.size)?;
    let mut gpt = GPT::new_from(&mut file, SECTOR, on_disk(&ids.uuid("disk")))?;
    let (begin, len) = root_extent(args);
    let kind = match args.arch {
        Arch::Arm64 => ROOT_ARM64,
        Arch::Armhf => ROOT_ARM,
    };
    gpt[1] = entry("root", kind, &ids.uuid("root"), begin, len);
    if !args.no_efi {
        gpt[15] = entry("esp", ESP_TYPE, &ids.uuid("esp"), MIB, ESP);
    }
    GPT::write_protective_mbr_into(&mut file, SECTOR)?;
    gpt.write_into(&mut file)?;
    Ok(())
}

fn entry(name: &str, kind: &str, guid: &str, begin: u64, len: u64) -> GPTPartitionEntry {
    GPTPartitionEntry {
        partition_type_guid: on_disk(kind),
        unique_partition_guid: on_disk(guid),
        starting_lba: begin / SECTOR,
        ending_lba: (begin + len) / SECTOR - 1,
        attribute_bits: 0,
        partition_name: name.into(),
    }
}

/// A program of e2fsprogs, which is in a folder that users do not always search.
fn program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let mut found = folders.map(|dir| dir.join(name));
    found.find(|program| program.is_file()).with_context(|| {
        format!("{name} is missing, a tool for file systems: apt install e2fsprogs")
    })
}

/// Refuses to begin without the programs of this PC that are needed.
pub fn check_tools() -> Result<()> {
    ["mke2fs", "debugfs"]
        .into_iter()
        .try_for_each(|name| program(name).map(drop))
}

/// Copies the file of /boot with this name, and the version of the kernel to which the link /vmlinuz leads,
/// out of the file system that begins at `begin` in `image`.
pub fn copy_boot_file(image: &Path, begin: u64, name: &str, to: &Path) -> Result<()> {
    let place = format!("{}?offset={begin}", image.display());
    let ask = |request: &str| {
        process::text(
            Command::new(program("debugfs")?)
                .args(["-R", request])
                .arg(&place),
        )
    };
    let told = ask("stat /vmlinuz")?;
    let version = version(&told).context("the image has no link /vmlinuz")?;
    ask(&format!("dump /boot/{name}{version} \"{}\"", to.display()))?;
    // debugfs succeeds whatever it finds.
    let size = fs::metadata(to).map_or(0, |data| data.len());
    ensure!(size > 0, "the image has no /boot/{name}{version}");
    Ok(())
}

/// The kernel's version in what debugfs tells of a link to it.
fn version(told: &str) -> Option<&str> {
    let (_, rest) = told.split_once("link dest: \"boot/vmlinuz-")?;
    rest.split('"').next()
}

/// A file system that is to be made.
pub struct FileSystem<'a> {
    /// The image that it is in, from which byte on, and how many bytes it has.
    pub image: &'a Path,
    /// Its first byte, and the number of its bytes.
    pub extent: (u64, u64),
    /// What it holds.
    pub tree: &'a Path,
    /// Its identifier, and its name.
    pub uuid: &'a str,
    /// Its label.
    pub label: &'a str,
}

impl FileSystem<'_> {
    /// Makes it, with a configuration in `dir`. Nothing is mounted.
    pub fn make(&self, dir: &Path) -> Result<()> {
        let config = dir.join("mke2fs.conf");
        fs::write(&config, MKE2FS)?;
        let (begin, len) = self.extent;
        let extended = format!("offset={begin},hash_seed={},root_owner=0:0", self.uuid);
        let mut command = Command::new(program("mke2fs")?);
        command.env("MKE2FS_CONFIG", config);
        if let Some(time) = std::env::var_os("SOURCE_DATE_EPOCH") {
            command.env("E2FSPROGS_FAKE_TIME", time);
        }
        command.args(["-q", "-F", "-t", "ext4", "-m", "1", "-E", &extended]);
        command.args(["-U", self.uuid, "-L", self.label, "-d"]);
        command.arg(self.tree).arg(self.image);
        process::run(command.arg(format!("{}k", len / 1024))).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::password::Choice;

    fn args() -> DebianArgs {
        DebianArgs {
            output: "x".into(),
            release: crate::args::ReleaseName::Trixie,
            arch: Arch::Arm64,
            size: 256 * MIB,
            package: Vec::new(),
            user: None,
            ssh_key: None,
            root_password: Choice::Locked,
            password_hash: None,
            hostname: "x".into(),
            no_efi: false,
            boot_files: false,
            force: false,
        }
    }

    #[test]
    fn identifiers_depend_on_the_arguments_alone() {
        let (ids, mut other) = (Ids::of(&args()), args());
        assert_eq!(ids.uuid("root"), Ids::of(&args()).uuid("root"));
        assert_ne!(ids.uuid("root"), ids.uuid("esp"));
        other.hostname = "y".into();
        assert_ne!(ids.uuid("root"), Ids::of(&other).uuid("root"));
        let parts: Vec<_> = ids.uuid("root").split('-').map(str::len).collect();
        assert_eq!((parts, ids.fat().len()), (vec![8, 4, 4, 4, 12], 8));
        assert_eq!(&ids.uuid("root")[14..15], "8");
    }

    #[test]
    fn a_disk_has_both_partitions_and_little_on_the_real_one() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let (image, tree) = (dir.path().join("d"), dir.path().join("t"));
        fs::create_dir(&tree).unwrap();
        fs::create_dir(tree.join("boot")).unwrap();
        fs::write(tree.join("boot/initrd.img-6-x"), "here").unwrap();
        std::os::unix::fs::symlink("boot/vmlinuz-6-x", tree.join("vmlinuz")).unwrap();
        let (args, ids) = (args(), Ids::of(&args()));
        partition(&image, &args, &ids).unwrap();
        let (image_path, uuid) = (image.as_path(), ids.uuid("root"));
        let root = FileSystem {
            image: image_path,
            extent: root_extent(&args),
            tree: &tree,
            uuid: &uuid,
            label: "root",
        };
        root.make(dir.path()).unwrap();
        let gpt = GPT::find_from(&mut File::open(&image).unwrap()).unwrap();
        assert_eq!((gpt[15].starting_lba, gpt[15].ending_lba), (2048, 133_119));
        assert_eq!((gpt[1].starting_lba, gpt[1].ending_lba), (133_120, 522_239));
        assert_eq!(gpt[15].partition_type_guid[..4], [0x28, 0x73, 0x2a, 0xc1]);
        let data = fs::metadata(&image).unwrap();
        assert_eq!(data.len(), 256 * MIB);
        assert!(data.blocks() * 512 < 32 * MIB, "{}", data.blocks());
        let magic = fs::read(&image).unwrap()[(65 * MIB + 1080) as usize..][..2].to_vec();
        assert_eq!(magic, [0x53, 0xef]);
        let (begin, _) = root_extent(&args);
        let (copy, none) = (dir.path().join("copy of it"), dir.path().join("none"));
        copy_boot_file(&image, begin, "initrd.img-", &copy).unwrap();
        assert_eq!(fs::read_to_string(&copy).unwrap(), "here");
        assert!(copy_boot_file(&image, begin, "vmlinuz-", &none).is_err());
    }
}
