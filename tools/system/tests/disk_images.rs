//! Disks that are images in a Linux: who has which, and each refusal with its line and its remedy.

mod common;

use common::load;
use hanok_system::{DiskImage, ImageFormat, LinuxSource};

/// A Linux that serves images, and another VM, to which lines are added.
const VMS: &str = r#"board = "qemu-virt"
[[vm]]
name = "storage"
kernel = "debian:6.1"
initramfs = "busybox"
memory = "128M"
[[vm]]
name = "linux"
kernel = "debian:6.1"
memory = "128M"
"#;

/// The refusals of this description: "line what; remedy".
fn refused(description: &str) -> Vec<String> {
    let found = load(description).expect_err("it is refused");
    let short = |found: &hanok_system::Diagnostic| {
        format!("{} {}; {}", found.line, found.what, found.remedy)
    };
    found.iter().map(short).collect()
}

/// The refusals with these lines, the first of which is the eleventh.
fn refusals(lines: &str) -> Vec<String> {
    refused(&format!("{VMS}{lines}"))
}

fn disk(lines: &str) -> String {
    format!("[[vm.disk]]\nfrom = \"storage\"\n{lines}\n")
}

#[test]
fn an_image_is_in_the_other_vm_s_files() {
    let raw = disk("file = \"/images/a.raw\"");
    let grows = disk("file = \"/images/b.qcow2\"\nread-only = true");
    let said = disk("file = \"/dev/vda\"\nformat = \"qcow2\"");
    let system = load(&format!("{VMS}{raw}{grows}{said}")).unwrap();
    let images = system.vms[0].back_ends.iter().map(|end| end.source.clone());
    let image = |file: &str, format, read_only| {
        let file = file.to_owned();
        Some(LinuxSource::Image(DiskImage {
            file,
            format,
            read_only,
        }))
    };
    let wanted = [
        image("/images/a.raw", ImageFormat::Raw, false),
        image("/images/b.qcow2", ImageFormat::Qcow2, true),
        image("/dev/vda", ImageFormat::Qcow2, false),
    ];
    assert_eq!(images.collect::<Vec<_>>(), wanted);
    let serves: Vec<_> = system
        .artifacts()
        .iter()
        .map(|vm| vm.serves_by_linux)
        .collect();
    assert_eq!(serves, [true, false]);
}

#[test]
fn an_image_has_a_whole_path() {
    let remedy = "write the path of a file in the other VM, such as \"/images/disk.qcow2\"";
    for path in ["a.raw", "/images/../a", "/images//a", "/", "/a/./b", "/a/"] {
        let lines = disk(&format!("file = \"{path}\""));
        let what = format!("13 \"{path}\" is no path of an image; {remedy}");
        assert_eq!(refusals(&lines), [what]);
    }
    let long = format!("/{}", "x".repeat(255));
    assert!(refusals(&disk(&format!("file = \"{long}\"")))[0].contains("is no path of an image"));
    assert!(
        load(&format!(
            "{VMS}{}",
            disk(&format!("file = \"{}\"", &long[..255]))
        ))
        .is_ok()
    );
}

#[test]
fn a_disk_has_a_device_or_a_file() {
    let both = disk("file = \"/a\"\ndevice = \"virtio_mmio@a003e00\"");
    let what = "14 a disk has both `device` and `file`; write one of them";
    assert_eq!(refusals(&both), [what]);
    let alone = disk("device = \"virtio_mmio@a003e00\"\nread-only = true");
    let what = "14 `read-only` without `file`; remove it, or write the image's `file`";
    assert!(
        refusals(&alone).contains(&what.to_owned()),
        "{:?}",
        refusals(&alone)
    );
    let format = refusals(&disk("file = \"/a\"\nformat = \"vmdk\""));
    assert!(format[0].contains("\"raw\" or \"qcow2\""), "{format:?}");
    let network = "[[vm.network]]\nfrom = \"storage\"\nfile = \"/a\"\n";
    let found = refusals(network);
    let unknown = found.iter().any(|found| found.contains("`file`"));
    assert!(unknown, "{found:?}");
}

#[test]
fn an_image_has_one_client_that_writes() {
    let one = disk("file = \"/a\"");
    let read = disk("file = \"/a\"\nread-only = true");
    let remedy = "give each VM an image of its own, or both of them `read-only = true`";
    for (lines, line) in [
        (format!("{one}{one}"), 16),
        (format!("{one}{read}"), 16),
        (format!("{read}{one}"), 17),
    ] {
        let what = format!("{line} \"/a\" is served twice; {remedy}");
        assert_eq!(refusals(&lines), [what]);
    }
    assert!(load(&format!("{VMS}{read}{read}")).is_ok());
}

#[test]
fn who_serves_by_linux_is_a_linux_with_huge_pages() {
    let lines = disk("file = \"/a\"");
    let bare = VMS.replacen(
        "kernel = \"debian:6.1\"\ninitramfs = \"busybox\"",
        "kernel = \"guest:driver\"\n",
        1,
    );
    let found = refused(&format!("{bare}{lines}"));
    let what = "13 VM storage has no files: it is \"guest:driver\"; write kernel = \"debian:6.1\" and initramfs = \"busybox\" \
                for VM storage, or a `device` here";
    assert_eq!(found, [what]);
    let arm = VMS.replace("qemu-virt", "qemu-virt-arm");
    let found = refused(&format!("{arm}{lines}"));
    assert_eq!(
        found,
        ["4 this kernel cannot serve devices; write kernel = \"debian:6.1-lpae\""]
    );
    let other = arm.replacen("debian:6.1", "debian:6.12/trixie", 1);
    let found = refused(&format!("{other}{lines}"));
    assert!(
        found[0].ends_with("write kernel = \"debian:6.12-lpae/trixie\""),
        "{found:?}"
    );
    let long = arm.replacen("debian:6.1", "debian:6.1-lpae", 1);
    assert!(load(&format!("{long}{lines}")).is_ok());
}
