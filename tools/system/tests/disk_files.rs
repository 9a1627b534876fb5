//! Disks of the board that are files of the PC: which of them QEMU could use.

mod common;

use common::load;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A description that ends in its eighth line.
const VM: &str = r#"board = "qemu-virt"
[[vm]]
name = "drivers"
kernel = "guest:driver"
memory = "32M"
devices = ["virtio_mmio@a003e00", "virtio_mmio@a003c00"]
trusted = true

"#;

/// A file for a test, which is gone after it.
struct Image {
    path: PathBuf,
    file: File,
}

impl Image {
    fn new(name: &str, bytes: u64) -> Self {
        let path = std::env::temp_dir().join(format!("disk-{name}-{}.img", std::process::id()));
        let file = File::create(&path).unwrap();
        file.set_len(bytes).unwrap();
        Self { path, file }
    }

    /// The refusals of a description with this disk: "line what; remedy".
    fn refusals(&self) -> Vec<String> {
        refusals(&disk(
            "virtio_mmio@a003e00",
            &self.path.display().to_string(),
        ))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.path);
    }
}

fn disk(at: &str, file: &str) -> String {
    format!("[[disk]]\ndevice = \"{at}\"\nfile = \"{file}\"\n")
}

fn refusals(lines: &str) -> Vec<String> {
    let found = load(&format!("{VM}{lines}")).err().unwrap_or_default();
    let short = |found: &hanok_system::Diagnostic| {
        format!("{} {}; {}", found.line, found.what, found.remedy)
    };
    found.iter().map(short).collect()
}

#[test]
fn a_file_has_whole_sectors() {
    let image = Image::new("sectors", 512);
    assert_eq!(image.refusals(), [""; 0]);
    let path = image.path.display();
    for bytes in [1, 511, 513, 1023, (64 << 20) + 1] {
        image.file.set_len(bytes).unwrap();
        let what = format!("11 a disk cannot have {bytes} bytes");
        assert_eq!(
            image.refusals(),
            [format!("{what}; `truncate -s %512 {path}` makes it larger")]
        );
    }
    image.file.set_len(0).unwrap();
    let what = format!("11 a disk cannot have 0 bytes; `truncate -s 64M {path}` makes it larger");
    assert_eq!(image.refusals(), [what]);
}

#[test]
fn a_file_that_cannot_be_written_is_refused() {
    let image = Image::new("written", 4096);
    image
        .file
        .set_permissions(Permissions::from_mode(0o444))
        .unwrap();
    let path = image.path.display();
    let remedy = format!("`chmod u+w {path}`, or give the disk a copy of it");
    assert_eq!(
        image.refusals(),
        [format!("11 the disk image cannot be written; {remedy}")]
    );
    image
        .file
        .set_permissions(Permissions::from_mode(0o644))
        .unwrap();
    assert_eq!(image.refusals(), [""; 0]);
}

#[test]
fn a_folder_is_no_disk() {
    let found = refusals(&disk("virtio_mmio@a003e00", env!("CARGO_MANIFEST_DIR")));
    let remedy = "name a file, or write a [[directory]] for a folder";
    assert_eq!(found, [format!("11 a folder is no disk image; {remedy}")]);
    // What is neither a file nor a folder is as it is, such as a disk of the PC.
    assert_eq!(refusals(&disk("virtio_mmio@a003e00", "/dev/null")), [""; 0]);
}

#[test]
fn a_file_is_one_disk_s() {
    let (one, other) = (Image::new("one", 512), Image::new("other", 512));
    let [first, second] = [&one, &other].map(|image| image.path.display().to_string());
    let first = disk("virtio_mmio@a003e00", &first);
    assert_eq!(
        refusals(&format!("{first}{}", disk("virtio_mmio@a003c00", &second))),
        [""; 0]
    );
    // By another path, too.
    let folder = one.path.parent().unwrap().display();
    let name = one.path.file_name().unwrap().display();
    let same = disk("virtio_mmio@a003c00", &format!("{folder}/./{name}"));
    let what =
        "14 another disk has the same file; give each disk a file of its own, such as a copy";
    assert_eq!(refusals(&format!("{first}{same}")), [what]);
}
