//! Disks in the board's slot for an SD card: what QEMU makes, and each refusal with its line and its remedy.

mod common;

use common::load;
use std::path::PathBuf;

/// A driver VM with the slot, and another VM, on this board. Further lines begin at the eighteenth.
fn vms(board: &str, device: &str) -> String {
    format!(
        r#"board = "{board}"
[[vm]]
name = "drivers"
kernel = "guest:driver:armhf"
memory = "32M"
cpus = [0]
devices = ["{device}"]
[[vm]]
name = "linux"
kernel = "debian:6.1:armhf"
initramfs = "busybox"
cmdline = "console=ttyAMA0"
memory = "128M"
cpus = [1]
[[vm.disk]]
from = "drivers"
device = "{device}"
"#
    )
}

/// The refusals of the same with these lines: "line what: why; remedy".
fn refusals(lines: &str) -> Vec<String> {
    let text = format!("{}{lines}", vms("vexpress-a15", "mmc@50000"));
    let found = load(&text).expect_err("it is refused");
    let short = |found: &hanok_system::Diagnostic| {
        format!(
            "{} {}: {}; {}",
            found.line, found.what, found.why, found.remedy
        )
    };
    found.iter().map(short).collect()
}

fn empty(device: &str, size: &str) -> String {
    format!("[[disk]]\ndevice = \"{device}\"\nsize = \"{size}\"\n")
}

const RULE: &str = "QEMU makes cards whose size is a power of two, from 1M to 2048G";

#[test]
fn qemu_puts_a_card_into_the_slot() {
    for (board, device) in [
        ("vexpress-a15", "mmc@50000"),
        ("vexpress-a15-hyp", "mmc@50000"),
        ("vexpress-a9", "mmci@5000"),
    ] {
        let system = format!("{}{}", vms(board, device), empty(device, "4G"));
        let args = load(&system).unwrap().qemu_args().join(" ");
        let drive = "-drive if=sd,id=disk0,driver=null-co,size=4294967296,";
        assert!(args.contains(drive), "{args}");
        assert!(!args.contains("virtio-blk"), "{args}");
        let without = load(&vms(board, device)).unwrap().qemu_args().join(" ");
        assert!(!without.contains("if=sd"), "{without}");
    }
}

#[test]
fn a_card_has_a_size_that_cards_have() {
    for size in ["1M", "2G", "2048G"] {
        let system = vms("vexpress-a15", "mmc@50000");
        load(&format!("{system}{}", empty("mmc@50000", size))).unwrap();
    }
    for (size, bytes, near) in [
        ("48M", 48_u64 << 20, "64M"),
        ("512K", 512 << 10, "1M"),
        ("4096G", 4096 << 30, "2048G"),
    ] {
        let found = refusals(&empty("mmc@50000", size));
        let what = format!("20 an SD card cannot have {bytes} bytes: {RULE}; make it \"{near}\"");
        assert_eq!(found, [what]);
    }
}

#[test]
fn an_image_for_a_card_is_made_larger() {
    let image: PathBuf = std::env::temp_dir().join(format!("sd-{}.img", std::process::id()));
    let lines = format!(
        "[[disk]]\ndevice = \"mmc@50000\"\nfile = \"{}\"\n",
        image.display()
    );
    let file = std::fs::File::create(&image).unwrap();
    file.set_len(3 << 20).unwrap();
    let found = refusals(&lines);
    let remedy = format!("`truncate -s 4M {}` makes it larger", image.display());
    let what = format!("20 an SD card cannot have 3145728 bytes: {RULE}; {remedy}");
    file.set_len(4 << 20).unwrap();
    let system = format!("{}{lines}", vms("vexpress-a15", "mmc@50000"));
    let args = load(&system).map(|system| system.qemu_args().join(" "));
    std::fs::remove_file(&image).unwrap();
    assert_eq!(found, [what]);
    let drive = format!("if=sd,id=disk0,file={},format=raw", image.display());
    assert!(args.unwrap().contains(&drive));
}

#[test]
fn a_board_has_one_slot_with_one_name() {
    let card = empty("mmc@50000", "64M");
    let twice = refusals(&format!("{card}{card}"));
    let what = "22 a second device at \"mmc@50000\": the board has one slot for a card";
    assert_eq!(twice, [format!("{what}; remove one of both")]);
    let other = refusals(&empty("mmci@5000", "64M"));
    let why = "board vexpress-a15 has one place for a disk, its slot for an SD card";
    let what = format!("19 QEMU makes no disk at \"mmci@5000\": {why}");
    assert_eq!(other, [format!("{what}; write \"mmc@50000\"")]);
    // What is no disk has no place there.
    let network = refusals("[[network]]\ndevice = \"mmc@50000\"\n");
    let why = "board vexpress-a15 has no virtio-mmio transports";
    let remedy = "remove the [[network]], or choose another board";
    let what = format!("19 QEMU makes no network at \"mmc@50000\": {why}; {remedy}");
    assert_eq!(network, [what]);
}
