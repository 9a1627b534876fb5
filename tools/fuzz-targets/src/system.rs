//! Targets for descriptions, board files, kernels, and the image made of them.

use hanok_config::{BlobKind, SLICES, System, sum};
use hanok_system::{Board, Description, Diagnostic, Files, Style, parse};
use hanok_types::MAX_VMS;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// All of the board's memory but 60M belongs to the VM, so that an image stays small.
const SOUND: &str = r#"board = "qemu-virt"
memory = "1G"

[[vm]]
name = "linux"
kernel = "debian:6.1"
initramfs = "busybox"
cmdline = "console=ttyAMA0"
memory = "900M"
vcpus = 2
"#;

pub(crate) fn boards() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../boards")
}

fn sound() -> &'static Description {
    static SYSTEM: OnceLock<Description> = OnceLock::new();
    SYSTEM.get_or_init(|| {
        parse(Path::new("sound.toml"), SOUND, &boards()).expect("a sound description")
    })
}

/// An accepted description fits its board; a refusal has a place and a text.
pub fn description(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match parse(Path::new("fuzz.toml"), &text, &boards()) {
        Ok(description) => sane(&description),
        Err(found) => refused(&found, &text),
    }
}

fn sane(description: &Description) {
    let board = &description.board;
    assert!(board.cores.allow(description.cores) && board.memory.allow(description.memory));
    assert!(board.cpus.contains(&description.cpu));
    assert_eq!(description.artifacts().len(), description.vms.len());
    let vms = description.vms.iter();
    let cpus: Vec<usize> = vms
        .flat_map(|vm| vm.config.cpus.iter().map(|cpu| cpu.index()))
        .collect();
    assert!(cpus.iter().all(|cpu| (*cpu as u64) < description.cores));
    assert!(description.vms.iter().all(|vm| !vm.config.cpus.is_empty()));
    assert!(description.vms.len() <= MAX_VMS && SLICES.contains(&description.slice));
    let memory: u64 = description.vms.iter().map(|vm| vm.memory()).sum();
    assert!(memory > 0 && memory < description.memory);
    assert!(description.qemu_args().iter().all(|arg| !arg.is_empty()));
}

pub(crate) fn refused(found: &[Diagnostic], text: &str) {
    assert!(!found.is_empty());
    for diagnostic in found {
        assert!(!diagnostic.shown(text, Style::Plain).is_empty());
        assert!(
            !diagnostic.what.is_empty() && !diagnostic.remedy.is_empty(),
            "{diagnostic}"
        );
        assert!(
            diagnostic.line <= text.matches('\n').count() + 1,
            "{diagnostic}"
        );
    }
}

/// A board file that is accepted has defaults that it allows itself.
pub fn board_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Board::parse("board", Path::new("board.toml"), &text) {
        Ok(board) => {
            assert!(board.cores.allow(board.cores.default));
            assert!(board.memory.allow(board.memory.default));
            assert!(board.cpus.contains(&board.cpu));
        }
        Err(found) => refused(&found, &text),
    }
}

/// A kernel that is accepted gives an image whose parts are where its tree says.
pub fn kernel_image(data: &[u8]) {
    let kernel = data.to_vec();
    let files = Files {
        boot: kernel.into(),
        initramfs: Some(b"an initramfs".to_vec().into()),
        variables: Default::default(),
        raw: None,
    };
    match sound().build(&image(4096, 0x3_0123, true), &[files], None, &KEY) {
        Ok(image) => check_image(&image, data),
        Err(found) => refused(&found, SOUND),
    }
}

/// The same for the hypervisor's own binary.
pub fn hypervisor_binary(data: &[u8]) {
    let kernel = image(8192, 0x4000, false);
    let files = Files {
        boot: kernel.clone().into(),
        initramfs: None,
        variables: Default::default(),
        raw: None,
    };
    match sound().build(data, &[files], None, &KEY) {
        Ok(image) => {
            // The header's `image_size` and the information block are set.
            let kept = |at: usize| !(16..24).contains(&at) && !(72..152).contains(&at);
            let sum = hanok_config::sum(&image[80..data.len()]).to_le_bytes();
            assert_eq!((&image[72..80], &image[112..144]), (&sum[..], &KEY[..]));
            assert!((0..data.len()).all(|at| !kept(at) || image[at] == data[at]));
            check_image(&image, &kernel);
        }
        Err(found) => refused(&found, SOUND),
    }
}

const KEY: hanok_system::BuildKey = [0x5a; 32];

fn check_image(image: &[u8], kernel: &[u8]) {
    let [total, offset, len] = [16, 80, 88].map(|at| number(image, at));
    assert_eq!((total, offset + len), (image.len(), image.len()));
    let payload = &image[offset..];
    let system = System::verified(payload, number(image, 104) as u64);
    let system = system.expect("what the board reads");
    for blob in &system.vms[0].blobs {
        let bytes = &payload[blob.offset as usize..][..blob.len as usize];
        assert_eq!(sum(bytes), blob.sum);
        if blob.kind == BlobKind::Kernel {
            assert!(is_of(bytes, kernel), "these are no bytes of the kernel");
        }
    }
}

/// Returns whether a loaded part comes from the given file: an ELF file's part is a piece of it, a
/// packed file's is another file, and everything else is the file itself.
fn is_of(part: &[u8], file: &[u8]) -> bool {
    let packed = file.starts_with(&[0x1f, 0x8b]) || file.get(4..8) == Some(b"zimg");
    if file.starts_with(b"\x7fELF") {
        part.is_empty() || file.windows(part.len()).any(|piece| piece == part)
    } else {
        packed || part == file
    }
}

fn number(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight")) as usize
}

/// An arm64 Image of `len` bytes that claims `size` bytes of memory.
fn image(len: usize, size: u64, hypervisor: bool) -> Vec<u8> {
    let mut image = vec![0; len];
    image[16..24].copy_from_slice(&size.to_le_bytes());
    image[24] = 0b1010;
    image[56..60].copy_from_slice(b"ARM\x64");
    if hypervisor {
        image[64..72].copy_from_slice(b"HANOKIMG");
    }
    image
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("a vector takes all");
    encoder.finish().expect("a vector takes all")
}

fn zboot(bytes: &[u8]) -> Vec<u8> {
    let packed = gzip(bytes);
    let mut zboot = vec![0; 64];
    zboot[0..2].copy_from_slice(b"MZ");
    zboot[4..8].copy_from_slice(b"zimg");
    zboot[8..12].copy_from_slice(&64u32.to_le_bytes());
    zboot[12..16].copy_from_slice(&(packed.len() as u32).to_le_bytes());
    zboot[24..29].copy_from_slice(b"gzip\0");
    zboot.extend(&packed);
    zboot
}

pub(crate) fn kernel_seeds() -> Vec<Vec<u8>> {
    let plain = image(600, 0x20_0000, false);
    let mut elf = vec![0; 64];
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    vec![
        gzip(&plain),
        zboot(&plain),
        gzip(&gzip(&plain)),
        zboot(&zboot(&plain)),
        elf,
        plain,
    ]
}

pub(crate) fn binary_seeds() -> Vec<Vec<u8>> {
    vec![image(128, 4096, true), image(5000, 0x3_0123, true)]
}

pub(crate) fn description_seeds() -> Vec<Vec<u8>> {
    let more = "cpu = \"cortex-a72\"\ncores = 3\nboard = \"qemu-virt\"\n[[vm]]\nname = \"a-1\"\n\
        kernel = \"debian:6.12-rt\"\ninitramfs = \"busybox\"\n\
        initramfs-modules = [\"virtio_net\", 'ext4']\nmemory = \"256M\"\ncpus = [2, 0]\n";
    let linux = include_str!("../../../systems/linux.toml");
    let several = "slice = \"500us\"\nboard = \"qemu-virt-gicv2\"\n[[vm]]\nname = \"a\"\n\
        firmware = \"u-boot:qemu_arm64\"\nmemory = \"64M\"\ncpus = [0, 0, 1]\n\
        devices = [\"pl061@9030000\"]\ntrusted = true\nautostart = false\n[[vm]]\nname = \"b\"\n\
        kernel = \"guest:conformance\"\nmemory = \"64M\"\nvcpus = 2\n";
    let rewritten = "board = \"qemu-virt-arm-pl1\"\n[[vm]]\nname = \"a\"\n\
        kernel = \"debian:6.1\"\nrewrite = false\nmemory = \"64M\"\n";
    [SOUND, more, linux, several, rewritten]
        .map(|text| text.as_bytes().to_vec())
        .into()
}

pub(crate) fn board_seeds() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../../boards/qemu-virt.toml").to_vec(),
        include_bytes!("../../../boards/raspi4b.toml").to_vec(),
    ]
}
