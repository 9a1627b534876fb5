//! Networks and directories that a Linux serves: who has which, and each refusal with its line and its remedy.

mod common;

use common::load;
use hanok_system::{LinuxSource, ServedDirectory};

/// A Linux that serves, and another VM, to which lines are added.
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

/// The refusals with these lines, the first of which is the eleventh: "line what; remedy".
fn refusals(lines: &str) -> Vec<String> {
    let found = load(&format!("{VMS}{lines}")).expect_err("it is refused");
    let short = |found: &hanok_system::Diagnostic| {
        format!("{} {}; {}", found.line, found.what, found.remedy)
    };
    found.iter().map(short).collect()
}

fn network(lines: &str) -> String {
    format!("[[vm.network]]\nfrom = \"storage\"\n{lines}\n")
}

fn directory(lines: &str) -> String {
    format!("[[vm.directory]]\nfrom = \"storage\"\n{lines}\n")
}

#[test]
fn what_is_written_is_what_is_served() {
    let lines = [
        network("tap = \"left0\"\nvlan = 7"),
        directory("path = \"/images/shared\""),
        directory("path = \"/images/docs\"\ntag = \"docs\"\nreadonly = true"),
    ];
    let system = load(&format!("{VMS}{}", lines.concat())).unwrap();
    let sources = system.vms[0].back_ends.iter().map(|end| end.source.clone());
    let shared = |path: &str, tag: &str, read_only| {
        Some(LinuxSource::Directory(ServedDirectory {
            path: path.to_owned(),
            tag: tag.to_owned(),
            read_only,
        }))
    };
    let wanted = [
        Some(LinuxSource::Tap("left0".to_owned())),
        shared("/images/shared", "shared", false),
        shared("/images/docs", "docs", true),
    ];
    assert_eq!(sources.collect::<Vec<_>>(), wanted);
    let served = system.artifacts();
    let served: Vec<_> = served.iter().map(|vm| vm.serves_by_linux).collect();
    assert_eq!(served, [true, false]);
}

#[test]
fn a_linux_serves_a_network_by_a_tap_interface() {
    let remedy = "write the interface's name, such as tap = \"left0\", in place of a `device`";
    let what = format!("12 VM storage is a Linux, and the network has no `tap`; {remedy}");
    assert_eq!(refusals(&network("")), [what]);
    let both = network("tap = \"left0\"\ndevice = \"virtio_mmio@a003c00\"");
    let what = "14 a network has both `device` and `tap`; write one of them";
    assert_eq!(refusals(&both), [what]);
    for name in ["", "sixteen-letters-", "a/b", "a b"] {
        let found = refusals(&network(&format!("tap = \"{name}\"")));
        assert!(found[0].contains("1 to 15 letters"), "{found:?}");
        assert!(found[0].starts_with("13 "), "{found:?}");
        assert_eq!(found.len(), 1, "{found:?}");
    }
    let twice = [network("tap = \"a\""), network("tap = \"a\"")].concat();
    let what = "16 \"a\" is served twice; write another name as `tap`";
    assert_eq!(refusals(&twice), [what]);
}

#[test]
fn a_directory_has_a_device_or_a_path() {
    let both = directory("path = \"/a\"\ndevice = \"virtio_mmio@a003c00\"");
    let what = "14 a directory has both `device` and `path`; write one of them";
    assert_eq!(refusals(&both), [what]);
    let what = "11 a directory needs either `device` or `path`; write one of them";
    assert_eq!(refusals(&directory("")), [what]);
    let alone = refusals(&directory(
        "device = \"virtio_mmio@a003c00\"\nreadonly = true",
    ));
    let why = "14 `readonly` without `path`; ";
    assert!(
        alone.iter().any(|found| found.starts_with(why)),
        "{alone:?}"
    );
    for path in ["a", "/a/../b", "/", "/a/"] {
        let remedy = "write the path of a directory in the other VM, such as \"/images/shared\"";
        let what = format!("13 \"{path}\" is no path of a directory; {remedy}");
        assert_eq!(refusals(&directory(&format!("path = \"{path}\""))), [what]);
    }
    let one = directory("path = \"/a\"");
    let remedy = "give each VM a directory of its own, or both of them `readonly = true`";
    let what = format!("15 \"/a\" is served twice; {remedy}");
    assert_eq!(
        refusals(&[one.clone(), one].concat())[0].replace("16 ", "15 "),
        what
    );
    let read = directory("path = \"/a\"\nreadonly = true");
    assert!(load(&format!("{VMS}{read}{read}")).is_ok());
}

#[test]
fn a_program_without_linux_has_neither() {
    let bare = VMS.replacen(
        "kernel = \"debian:6.1\"\ninitramfs = \"busybox\"",
        "kernel = \"guest:driver\"\n",
        1,
    );
    for (lines, what) in [
        (
            network("tap = \"a\""),
            "VM storage has no tap interfaces: it is \"guest:driver\"",
        ),
        (
            directory("path = \"/a\""),
            "VM storage has no files: it is \"guest:driver\"",
        ),
    ] {
        let found = load(&format!("{bare}{lines}")).expect_err("it is refused");
        assert_eq!((found[0].line, &found[0].what[..]), (13, what));
        assert!(found[0].remedy.contains("kernel = \"debian:6.1\""));
    }
}
