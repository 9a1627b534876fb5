//! Kernels for boards without virtualization hardware: which are to be rewritten, and where one is
//! that was unpacked beforehand.

mod common;

use common::{SOUND, hypervisor, load};
use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use hanok_config::{BlobKind, System};
use hanok_system::{Architecture, Files, RawKernel};
use hanok_types::{Ipa, Span};

const BOARD: &str = "qemu-virt-arm-pl1";

/// [`SOUND`] on that board, with these lines added to its VM.
fn described(more: &str) -> String {
    let board = SOUND.replace("\"qemu-virt\"", &format!("{BOARD:?}"));
    board.replace("vcpus = 2", "vcpus = 1") + more
}

/// Whether the VM's kernel is to be rewritten.
fn rewritten(text: &str) -> bool {
    load(text).unwrap().artifacts()[0].rewrite
}

fn refusals(text: &str) -> Vec<String> {
    let found = load(text).unwrap_err();
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn kernels_of_linux_are_rewritten_where_no_hardware_helps() {
    assert!(rewritten(&described("")));
    assert!(rewritten(&described("rewrite = true\n")));
    assert!(!rewritten(&described("rewrite = false\n")));
    assert!(!rewritten(SOUND), "64 bits");
    let arm = SOUND.replace("\"qemu-virt\"", "\"qemu-virt-arm\"");
    assert!(!rewritten(&arm), "with virtualization hardware");
    let program = "kernel = \"guest:conformance\"";
    let guest = described("").replace("kernel = \"debian:6.1\"", program);
    assert!(!rewritten(&guest), "a program of the repository");
}

#[test]
fn the_key_is_refused_where_it_means_nothing() {
    let [found] = &refusals(&format!("{SOUND}rewrite = false\n"))[..] else {
        panic!("one refusal")
    };
    assert!(
        found.contains(":10:11: `rewrite` on board qemu-virt\n"),
        "{found}"
    );
    assert!(
        found.contains("why: its CPUs run a kernel as it is"),
        "{found}"
    );
    assert!(found.contains("fix: remove it"), "{found}");
    let kernel = "kernel = \"debian:6.1\"\ninitramfs = \"busybox\"";
    let firmware = described("rewrite = true\n").replace(kernel, "firmware = \"u-boot:qemu_arm\"");
    let found = refusals(&firmware);
    let beside = |found: &String| found.contains("`rewrite` beside `firmware`");
    assert!(found.iter().any(beside), "{found:?}");
    let found = refusals(&described("rewrite = \"no\"\n"));
    assert!(found[0].contains("true or false"), "{found:?}");
}

#[test]
fn an_unpacked_kernel_begins_where_its_unpacker_would_begin_it() {
    const RAM: u64 = 0x4000_0000;
    let description = load(&described("")).unwrap();
    assert_eq!(description.vms[0].architecture(), Architecture::Arm);
    let image = |raw: RawKernel| {
        let files = Files {
            boot: vec![0xe1; 100_000].into(),
            raw: Some(raw),
            initramfs: Some(vec![7; 5000].into()),
            variables: Default::default(),
        };
        description.build(&hypervisor(5000, 8192), &[files], None, &[0; 32])
    };
    let raw = RawKernel {
        offset: 0x20_8000,
        size: 22 << 20,
        added: Some((0x1000, 0x3000)),
    };
    let image_bytes = image(raw).unwrap();
    let payload = &image_bytes[8192..];
    let system = System::parse(payload, payload.len() as u64).unwrap();
    let vm = &system.vms[0];
    let at = |kind| {
        let blob = vm.blobs.iter().find(|blob| blob.kind == kind).unwrap();
        (blob.load.get(), blob.len)
    };
    assert_eq!(at(BlobKind::Kernel), (RAM + 0x20_8000, 100_000));
    assert_eq!(vm.entry.get(), RAM + 0x20_8000, "in A32");
    assert_eq!(at(BlobKind::Initramfs), (RAM + (128 << 20), 5000));
    // Code that was added to it is the kernel's to leave alone, and the hypervisor's to know.
    let added = Span::new(Ipa::new(RAM + 0x20_9000), 0x3000).unwrap();
    assert_eq!(vm.trampolines, Some(added));
    let blob = vm
        .blobs
        .iter()
        .find(|blob| blob.kind == BlobKind::DeviceTree);
    let blob = blob.unwrap();
    let bytes = &payload[blob.offset as usize..][..blob.len as usize];
    let fdt = Fdt::new(bytes).unwrap();
    let node = fdt.find_node("/reserved-memory/code@40209000").unwrap();
    let reg = node.property("reg").unwrap();
    assert_eq!(
        reg.value(),
        [0, 0, 0, 0, 0x40, 0x20, 0x90, 0, 0, 0, 0, 0, 0, 0, 0x30, 0]
    );
    let tree = at(BlobKind::DeviceTree).0;
    assert_eq!((tree, vm.argument), (RAM + (128 << 20) + 0x2000, tree));
    assert!(vm.aarch32);
    // An SVC means a sensitive instruction only where it was put: a program's own are its own affair.
    assert!(vm.rewritten);
    assert!(!description.vms[0].config.rewritten);
    // The bss counts: behind it there has to be memory for the rest.
    let found = image(RawKernel {
        size: 200 << 20,
        ..raw
    });
    assert!(found.is_ok(), "512M are enough");
    let found = image(RawKernel {
        size: 255 << 20,
        offset: 255 << 20,
        added: None,
    });
    assert_eq!(
        found.unwrap_err()[0].what,
        "the VM's memory is too small for what it boots"
    );
    let found = image(RawKernel {
        size: 99_999,
        ..raw
    });
    assert!(found.unwrap_err()[0].what.contains("makes no sense"));
}

#[test]
fn what_a_vm_cannot_have_without_hardware_is_refused() {
    assert!(load(&described("devices = [\"pl061@9030000\"]\n")).is_ok());
    assert!(load(&described("")).is_ok());
    assert!(load(&described("").replace("vcpus = 1", "vcpus = 2")).is_ok());
    let found = refusals(&described("").replace("debian:6.1", "debian:6.1-lpae"));
    assert!(
        found.len() == 1 && found[0].contains("with long descriptors (LPAE)"),
        "{found:?}"
    );
    // By its path nobody knows before it is unpacked.
    let description = load(&described("rewrite = false\n")).unwrap();
    assert!(description.artifacts()[0].examine);
    let found = description.long_descriptors(0).to_string();
    assert!(found.contains(":5:10: a kernel with long"), "{found}");
    for with in ["", "+debian:6.1", "+debian:6.1-lpae"] {
        let kernel = "kernel = \"debian:6.1\"\ninitramfs = \"busybox\"";
        let firmware = format!("firmware = \"u-boot:qemu_arm{with}\"");
        let found = refusals(&described("").replace(kernel, &firmware));
        assert!(
            found.len() == 1 && found[0].contains("Debian's U-Boot on board qemu-virt-arm-pl1"),
            "{found:?}"
        );
    }
}
