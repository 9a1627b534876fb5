//! Descriptions: sound ones are read, others are refused with line, reason and remedy.

mod common;

use common::{SOUND, boards, gzip, kernel, load, load_in, zimage};
use hanok_system::{
    Architecture, Boot, Diagnostic, DtbRef, FirmwareRef, Flavour, InitramfsRef, KernelRef, Modules,
    Vm,
};
use hanok_types::GicVersion;
use proptest::prelude::*;
use std::path::Path;

/// Each refusal of `text` as "line:column what".
fn refusals(text: &str) -> Vec<String> {
    load(text).unwrap_err().iter().map(short).collect()
}

fn short(found: &Diagnostic) -> String {
    format!("{}:{} {}", found.line, found.column, found.what)
}

/// [`SOUND`] with `from` replaced by `to`.
fn with(from: &str, to: &str) -> String {
    assert!(SOUND.contains(from), "{from}");
    SOUND.replacen(from, to, 1)
}

/// The core of each vCPU.
fn cores(vm: &Vm) -> Vec<usize> {
    vm.config.cpus.iter().map(|cpu| cpu.index()).collect()
}

#[test]
fn a_sound_description_is_read() {
    let description = load(SOUND).unwrap();
    assert_eq!(description.board.name, "qemu-virt");
    assert_eq!((description.cores, description.memory), (4, 1 << 30));
    let vm = &description.vms[0];
    assert_eq!((vm.name(), vm.memory()), ("linux", 512 << 20));
    assert_eq!(
        (vm.cmdline.as_str(), cores(vm).as_slice()),
        ("console=ttyAMA0", &[0, 1][..])
    );
    let artifacts = description.artifacts();
    let version = "6.1".to_owned();
    let kernel = KernelRef::Debian {
        version,
        flavour: Flavour::Stock,
        release: None,
    };
    assert_eq!(artifacts[0].boot, Boot::Kernel(kernel));
    assert!(vm.config.autostart && !vm.config.trusted && vm.devices.is_empty());
    assert_eq!(description.slice, 10_000);
    assert!(!description.needs_board_tree());
    let modules = Modules::Default;
    assert_eq!(
        artifacts[0].initramfs,
        Some(InitramfsRef::Busybox {
            modules,
            agent: false
        })
    );
}

#[test]
fn an_agent_is_put_into_the_initramfs_that_is_made() {
    let text = format!("{SOUND}agent = true\n");
    let initramfs = load(&text).unwrap().vms[0].initramfs.clone();
    let made = matches!(initramfs, Some(InitramfsRef::Busybox { agent: true, .. }));
    assert!(made, "{initramfs:?}");
}

#[test]
fn overrides_reach_qemu() {
    let text = format!("cpu = \"cortex-a72\"\ncores = 2\nmemory = \"2G\"\n{SOUND}");
    let args = load(&text).unwrap().qemu_args().join(" ");
    let start = "-M virt,virtualization=on,gic-version=3 -cpu cortex-a72 -smp 2 -m 2097152K";
    assert!(args.starts_with(start), "{args}");
}

#[test]
fn all_sources_are_read() {
    let text = with("debian:6.1", "debian:6.12-rt");
    let version = "6.12".to_owned();
    let kernel = KernelRef::Debian {
        version,
        flavour: Flavour::Realtime,
        release: None,
    };
    assert_eq!(load(&text).unwrap().vms[0].boot, Boot::Kernel(kernel));
    let modules = [
        ("\"all\"", Modules::All),
        (
            "[\"virtio_net\", \"ext4\"]",
            Modules::List(vec!["virtio_net".into(), "ext4".into()]),
        ),
    ];
    for (written, modules) in modules {
        let text = format!("{SOUND}initramfs-modules = {written}\n");
        let agent = false;
        let initramfs = Some(InitramfsRef::Busybox { modules, agent });
        assert_eq!(load(&text).unwrap().vms[0].initramfs, initramfs);
    }
}

#[test]
fn a_kernel_s_name_says_whether_it_is_for_32_bits() {
    use Architecture::{Arm, Arm64};
    let cases = [
        ("debian:6.1", Arm64),
        ("debian:6.1-rt", Arm64),
        ("debian:6.1:armhf", Arm),
        ("debian:6.12-rt:armhf", Arm),
        ("debian:6.12-lpae:armhf", Arm),
        ("debian:6.12-lpae", Arm),
        ("debian:5.10/bullseye", Arm64),
        ("debian:5.10/bullseye:armhf", Arm),
        ("debian:6.12-lpae/trixie", Arm),
        ("debian:7/sid:armhf", Arm),
        ("debian:7/trixie-backports", Arm64),
        ("guest:rtos", Arm64),
        ("guest:rtos:armhf", Arm),
    ];
    for (kernel, wanted) in cases {
        let description = load(&with("debian:6.1", kernel)).unwrap();
        let architectures = (
            description.vms[0].architecture(),
            description.artifacts()[0].architecture,
        );
        assert_eq!(architectures, (wanted, wanted), "{kernel}");
        let text = with("debian:6.1", kernel).replace("qemu-virt", "qemu-virt-arm");
        assert_eq!(load(&text).unwrap().vms[0].architecture(), Arm, "{kernel}");
    }
    let plain = load(&with("debian:6.1", "guest:rtos")).unwrap();
    let named = load(&with("debian:6.1", "guest:rtos:armhf")).unwrap();
    assert_eq!(plain.vms[0].boot, named.vms[0].boot);
    for bad in ["debian:6.1:arm64", "guest::armhf", "debian::armhf"] {
        assert_eq!(refusals(&with("debian:6.1", bad)).len(), 1, "{bad}");
    }
}

#[test]
fn the_repository_s_own_guests_are_known() {
    let text = with("debian:6.1", "guest:conformance");
    let kernel = KernelRef::Guest("conformance".to_owned());
    assert_eq!(load(&text).unwrap().vms[0].boot, Boot::Kernel(kernel));
    let found = load(&with("debian:6.1", "guest:conformence")).unwrap_err();
    let what = "5:10 there is no guest \"conformence\" in the repository";
    assert_eq!(short(&found[0]), what);
    assert_eq!(found[0].remedy, "did you mean \"guest:conformance\"?");
    assert_eq!(refusals(&with("debian:6.1", "guest:../x")).len(), 1);
    assert_eq!(refusals(&with("debian:6.1", "guest:")).len(), 1);
}

#[test]
fn what_the_repository_describes_is_sound() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for entry in std::fs::read_dir(root.join("systems")).unwrap() {
        let path = entry.unwrap().path();
        // A disk of Debian's is made by its user.
        let no_disk = |found: &Diagnostic| found.remedy.contains("image debian -o");
        match hanok_system::load(&path, &boards()) {
            Ok(_) => {}
            Err(found) if path.ends_with("debian.toml") && found.iter().all(no_disk) => {}
            Err(found) => panic!("{found:?}"),
        }
    }
    let boards = hanok_system::boards(&boards()).unwrap();
    let board = |name: &str| boards.iter().find(|board| board.name == name).unwrap();
    assert_eq!(board("qemu-virt").gic, GicVersion::V3);
    assert_eq!(board("qemu-virt-gicv2").gic, GicVersion::V2);
    let raspi = board("raspi4b");
    let tree = DtbRef::Debian {
        version: "6.1".to_owned(),
        file: "broadcom/bcm2711-rpi-4-b.dtb".to_owned(),
    };
    assert_eq!((&raspi.qemu.dtb, raspi.qemu.poweroff), (&Some(tree), false));
    assert_eq!(raspi.usable(2 << 30), 960 << 20);
}

#[test]
fn an_unknown_key_names_the_nearest() {
    let found = load(&with("memory = ", "memroy = ")).unwrap_err();
    assert_eq!(short(&found[0]), "3:1 `memory` is missing in vm");
    assert_eq!(short(&found[1]), "8:1 unknown key `memroy` in vm");
    assert_eq!(found[1].remedy, "did you mean `memory`?");
    let shown = found[1].to_string();
    let start =
        "systems/system.toml:8:1: unknown key `memroy` in vm\n  why: the keys here are name,";
    assert!(shown.starts_with(start), "{shown}");
}

#[test]
fn every_mistake_is_found_at_once() {
    let text = "bord = \"qemu-virt\"\n[[vm]]\nname = \"a b\"\nkernel = 5\nmemory = \"lots\"\n";
    let expected = [
        "1:1 `board` is missing in the file",
        "1:1 unknown key `bord` in the file",
        "3:8 the value of `name` is not a name of up to 31 letters, digits and dashes",
        "4:10 the value of `kernel` is not \"debian:6.1\", \"debian:6.12\", either with \"-rt\", \"guest:NAME\", each also with \":armhf\", or a path",
        "5:10 the value of `memory` is not a size such as \"512M\" or \"2G\"",
    ];
    assert_eq!(refusals(text), expected);
}

#[test]
fn the_board_s_limits_hold() {
    let cases = [
        (
            "board = \"qemu-virt\"",
            "board = \"qemu-vrt\"",
            "1:9 unknown board \"qemu-vrt\"",
        ),
        (
            "\n",
            "\ncpu = \"cortex-a9\"\n",
            "2:7 board qemu-virt has no CPU \"cortex-a9\"",
        ),
        (
            "\n",
            "\ncores = 65\n",
            "2:9 board qemu-virt cannot have 65 cores",
        ),
        (
            "\n",
            "\nmemory = \"65G\"\n",
            "2:10 board qemu-virt cannot have 65G of memory",
        ),
    ];
    for (from, to, refusal) in cases {
        assert!(
            refusals(&with(from, to)).contains(&refusal.to_owned()),
            "{refusal}"
        );
    }
}

#[test]
fn memory_is_not_given_twice() {
    assert_eq!(refusals(&with("512M", "1000M")), ["8:10 too much memory"]);
    assert_eq!(
        refusals(&with("512M", "513M")),
        ["8:10 a VM cannot have 537919488 bytes of memory"]
    );
    let remedy = &load(&with("512M", "1000M")).unwrap_err()[0].remedy;
    assert_eq!(
        remedy,
        "give the VMs at most 960M together, or raise the board's `memory`, up to 64G"
    );
}

#[test]
fn cores_are_not_over_booked() {
    let cases = [
        ("vcpus = 5", "9:9 5 vCPUs, but 4 of 4 cores free"),
        ("vcpus = 65", "9:9 a VM cannot have 65 vCPUs"),
        ("cpus = []", "9:8 a VM cannot have 0 vCPUs"),
        ("cpus = [4]", "9:8 there is no core 4"),
        (
            "vcpus = 1\ncpus = [0, 1]",
            "10:8 `vcpus` is 1, `cpus` names 2 cores",
        ),
    ];
    for (cores, refusal) in cases {
        assert_eq!(refusals(&with("vcpus = 2", cores)), [refusal]);
    }
    let description = load(&with("vcpus = 2", "cpus = [3, 1]")).unwrap();
    assert_eq!(cores(&description.vms[0]), [3, 1]);
}

/// [`SOUND`], and a second VM of 128M with these lines.
fn with_second(lines: &str) -> String {
    format!(
        "{SOUND}\n[[vm]]\nname = \"second\"\nkernel = \"debian:6.1\"\nmemory = \"128M\"\n{lines}"
    )
}

#[test]
fn cores_are_shared_by_those_who_say_so() {
    let cpus = |text: &str| {
        let vms = load(text).unwrap().vms;
        (cores(&vms[0]), cores(&vms[1]))
    };
    assert_eq!(cpus(&with_second("vcpus = 2")), (vec![0, 1], vec![2, 3]));
    // What a VM names is nobody else's by default, wherever it stands in the file.
    let shared = with_second("cpus = [0, 0, 3]");
    assert_eq!(cpus(&shared), (vec![1, 2], vec![0, 0, 3]));
    let both = shared.replace("vcpus = 2", "cpus = [0, 0, 0, 0, 0, 0, 0, 0]");
    assert_eq!(cpus(&both), (vec![0; 8], vec![0, 0, 3]));
    let found = load(&with_second("vcpus = 3")).unwrap_err();
    assert_eq!(short(&found[0]), "15:9 3 vCPUs, but 2 of 4 cores free");
    let remedy = &found[0].remedy;
    let text =
        "write cpus = [0, 0, 0] to share cores, or lower `vcpus`, or raise `cores`, up to 64";
    assert_eq!(remedy, text);
}

/// What cannot be raised is not said to help.
#[test]
fn cores_and_memory_are_raised_where_there_are_more() {
    let remedy = |text: &str| load(text).unwrap_err().remove(0).remedy;
    let on = |board: &str, from: &str, to: &str| {
        let text = with(from, to).replace("\"qemu-virt\"", &format!("\"{board}\""));
        remedy(&text)
    };
    let two = |vcpus: &str| with("\n", "\ncores = 2\n").replace("vcpus = 2", vcpus);
    assert_eq!(
        remedy(&two("cpus = [2]")),
        "name one of these, or raise `cores`, up to 64"
    );
    let all = "name one of these; the board has no more cores";
    assert_eq!(on("raspi4b", "vcpus = 2", "cpus = [4]"), all);
    assert_eq!(
        remedy(&two("vcpus = 3")),
        "write cpus = [0, 0, 0] to share cores, or lower `vcpus`, or raise `cores`, up to 64"
    );
    assert_eq!(
        on("raspi4b", "512M", "1000M"),
        "give the VMs at most 896M together; the board has no more memory"
    );
    assert_eq!(on("raspi4b", "\n", "\ncores = 2\n"), "remove `cores`");
    assert_eq!(
        on("raspi4b", "\n", "\nmemory = \"1G\"\n"),
        "remove `memory`"
    );
}

#[test]
fn a_name_that_is_misspelt_names_the_nearest() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let cases = [
        (
            "debian:6.1",
            "debian:6.1:arm46",
            "there is no kernel \"debian:6.1:arm46\"",
            "debian:6.1:armhf",
        ),
        (
            "debian:6.1",
            "debian:6.12-tr",
            "there is no kernel",
            "debian:6.12-rt",
        ),
        (
            "debian:6.1",
            "gest:rtos",
            "the kernel cannot be read",
            "guest:rtos",
        ),
        (
            "debian:6.1",
            "guest:Rtos",
            "there is no guest \"Rtos\"",
            "guest:rtos",
        ),
        (
            "debian:6.1",
            "debain:6.1",
            "the kernel cannot be read",
            "debian:6.1",
        ),
        (
            "busybox",
            "busybx",
            "the initramfs cannot be read",
            "busybox",
        ),
    ];
    for (from, to, what, meant) in cases {
        let found = load(&with(from, to)).unwrap_err().remove(0);
        assert!(
            found.what.starts_with(what) && !found.why.is_empty(),
            "{found}"
        );
        let remedy = format!("did you mean \"{meant}\"?");
        assert!(found.remedy.starts_with(&remedy), "{found}");
    }
    // A file of the folder, and what is near to nothing.
    let file = beside.join("lob.rs").display().to_string();
    let found = load(&with("debian:6.1", &file)).unwrap_err().remove(0);
    let meant = format!("did you mean \"{}\"?", beside.join("lib.rs").display());
    assert!(found.remedy.starts_with(&meant), "{found}");
    let found = load(&with("debian:6.1", "debian:arm46"))
        .unwrap_err()
        .remove(0);
    assert!(
        found
            .why
            .starts_with("of Debian's kernels there are 6.1 and 6.12"),
        "{found}"
    );
    assert_eq!(
        found.remedy,
        "write \"debian:6.1\", or for 32 bits \"debian:6.1:armhf\""
    );
    let found = load(&with("debian:6.1", "gest:rtos"))
        .unwrap_err()
        .remove(0);
    assert!(
        found
            .why
            .starts_with("\"gest:rtos\" is no name that is known, and no file: "),
        "{found}"
    );
}

#[test]
fn a_time_slice_has_a_unit_and_limits() {
    let with_slice = |slice: &str| with("\n", &format!("\nslice = {slice}\n"));
    assert_eq!(load(&with_slice("\"500us\"")).unwrap().slice, 500);
    let expected = "a time such as \"500us\", \"10ms\" or \"1s\"";
    let cases = [
        ("10", format!("2:9 the value of `slice` is not {expected}")),
        ("\"99us\"", "2:9 a time slice cannot be 99us".to_owned()),
        ("\"2s\"", "2:9 a time slice cannot be 2s".to_owned()),
    ];
    for (slice, refusal) in cases {
        assert_eq!(refusals(&with_slice(slice)), [refusal]);
    }
}

#[test]
fn a_firmware_takes_the_kernel_s_place() {
    let firmware = with(
        "kernel = \"debian:6.1\"\ninitramfs = \"busybox\"",
        "firmware = \"u-boot:qemu_arm64\"",
    );
    let boot = &load(&firmware).unwrap().vms[0].boot;
    let machine = "qemu_arm64".to_owned();
    assert_eq!(*boot, Boot::Firmware(FirmwareRef::UBoot(machine)));
    let with_kernel = firmware.replace("qemu_arm64", "qemu_arm64+debian:6.1-rt");
    let kernel = KernelRef::Debian {
        version: "6.1".to_owned(),
        flavour: Flavour::Realtime,
        release: None,
    };
    let machine = "qemu_arm64".to_owned();
    let boot = &load(&with_kernel).unwrap().vms[0].boot;
    assert_eq!(
        *boot,
        Boot::Firmware(FirmwareRef::UBootWith { machine, kernel })
    );
    let narrow = firmware.replace("qemu_arm64", "qemu_arm");
    assert_eq!(
        load(&narrow).unwrap().vms[0].architecture(),
        Architecture::Arm
    );
    let cases = [
        (
            firmware.replace("qemu_arm64", "qemu_arm64+guest:rtos"),
            "5:12 a kernel behind U-Boot that is none of Debian's",
        ),
        (
            with("kernel = ", "firmware = \"u-boot:qemu_arm64\"\nkernel = ")
                .replace("initramfs = \"busybox\"\n", ""),
            "5:12 both `kernel` and `firmware`",
        ),
        (
            with(
                "kernel = \"debian:6.1\"",
                "firmware = \"u-boot:qemu_arm64\"",
            ),
            "6:13 `initramfs` beside `firmware`",
        ),
        (
            firmware.replace("qemu_arm64", "qemu_arm32"),
            "5:12 there is no U-Boot \"qemu_arm32\"",
        ),
        (
            firmware.replace("\"qemu-virt\"", "\"qemu-virt-arm\""),
            "5:12 a firmware for 64 bits in a 32-bit VM",
        ),
        (
            firmware.replace("u-boot:qemu_arm64", "nowhere/u-boot.bin"),
            "5:12 the firmware cannot be read",
        ),
        (
            firmware.replace("512M", "32M"),
            "7:10 the VM's memory is too small for what it boots",
        ),
        (
            with("kernel = \"debian:6.1\"\n", ""),
            "3:1 `kernel` is missing in vm",
        ),
    ];
    for (text, refusal) in cases {
        assert_eq!(refusals(&text), [refusal]);
    }
    let folder = tempfile::tempdir().unwrap();
    let text = firmware.replace("u-boot:qemu_arm64", "u-boot.bin");
    for (len, sound) in [(0, false), (4096, true), ((64 << 20) + 1, false)] {
        std::fs::write(folder.path().join("u-boot.bin"), vec![1; len]).unwrap();
        assert_eq!(load_in(folder.path(), &text).is_ok(), sound, "{len}");
    }
}

#[test]
fn devices_are_named_once_and_are_few() {
    let twice = with_second("devices = [\"pl061@9030000\"]")
        .replace("vcpus = 2\n", "vcpus = 2\ndevices = [\"pl061@9030000\"]\n");
    let found = load(&twice).unwrap_err();
    let what = "16:12 device \"pl061@9030000\" is given twice: VM linux has it";
    assert_eq!(short(&found[0]), what);
    let within = format!("{SOUND}devices = [\"a\", \"a\"]\n");
    let what = "10:17 device \"a\" is given twice: VM linux has it";
    assert_eq!(refusals(&within), [what]);
    let many = format!("{SOUND}devices = [\"a\", \"b\", \"c\", \"d\", \"e\"]\n");
    assert_eq!(refusals(&many), ["10:32 more than 4 devices for one VM"]);
    let one = format!("{SOUND}devices = [\"a\"]\ntrusted = true\nautostart = false\n");
    let description = load(&one).unwrap();
    assert!(description.needs_board_tree());
    let vm = &description.vms[0];
    assert!(vm.config.trusted && !vm.config.autostart);
    assert_eq!(
        (vm.devices[0].name.as_str(), vm.devices[0].trapped),
        ("a", false)
    );
    let list = "devices = [{ name = \"a\", access = \"trap\" }, { name = \"b\", access = \"map\" }, \"c\"]";
    let description = load(&format!("{SOUND}{list}\n")).unwrap();
    let devices = description.vms[0].devices.iter();
    let devices: Vec<_> = devices
        .map(|device| (device.name.as_str(), device.trapped))
        .collect();
    assert_eq!(devices, [("a", true), ("b", false), ("c", false)]);
    for (item, what) in [
        (
            "{ name = \"a\", access = \"share\" }",
            "the value of `access` is not \"map\" or \"trap\"",
        ),
        ("{ access = \"trap\" }", "`name` is missing in devices"),
        (
            "{ name = \"a\", acess = \"trap\" }",
            "unknown key `acess` in devices",
        ),
        (
            "7",
            "the value of `devices` is not a list of devices in the board's tree, such as \
             [\"pl061@9030000\"]",
        ),
    ] {
        let found = load(&format!("{SOUND}devices = [{item}]\n")).unwrap_err();
        let found: Vec<_> = found.iter().map(|found| found.what.as_str()).collect();
        assert_eq!(found, [what]);
    }
    let wrong = format!("{SOUND}trusted = 1\ndevices = \"a\"\n");
    assert_eq!(refusals(&wrong).len(), 2);
}

#[test]
fn the_number_of_vms_has_limits() {
    assert_eq!(
        refusals("board = \"qemu-virt\"\n"),
        ["1:1 the system has no VM"]
    );
    let vm = |number: usize| {
        let lines = "kernel = \"debian:6.1\"\nmemory = \"64M\"\ncpus = [0]\n";
        format!("[[vm]]\nname = \"vm-{number}\"\n{lines}")
    };
    let system = |count: usize| {
        let vms: String = (0..count).map(vm).collect();
        format!("board = \"qemu-virt\"\n{vms}")
    };
    let memory = |text: String| text.replacen('\n', "\nmemory = \"8G\"\n", 1);
    assert_eq!(load(&memory(system(64))).unwrap().vms.len(), 64);
    let found = refusals(&memory(system(65)));
    assert_eq!(
        found,
        [
            "323:1 more than 64 VMs",
            "327:8 more than 64 vCPUs on core 0"
        ]
    );
    let same = system(2).replace("vm-1", "vm-0");
    assert_eq!(refusals(&same), ["8:8 a second VM is called \"vm-0\""]);
}

#[test]
fn kernels_of_other_machines_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let check = |bytes: &[u8]| {
        std::fs::write(folder.path().join("kernel"), bytes).unwrap();
        load_in(folder.path(), &with("debian:6.1", "kernel"))
    };
    let with_magic = |at: usize, magic: &[u8]| {
        let mut bytes = vec![0; 4096];
        bytes[at..at + magic.len()].copy_from_slice(magic);
        bytes
    };
    let elf = |machine: u8| {
        let mut bytes = with_magic(0, b"\x7fELF\x02\x01\x01");
        bytes[18] = machine;
        bytes
    };
    let mut big_endian = kernel(4096, 8192);
    big_endian[24] |= 1;
    let cases = [
        (
            with_magic(36, &0x016f_2818u32.to_le_bytes()),
            "this zImage's header makes no sense",
        ),
        (with_magic(514, b"HdrS"), "this kernel is a bzImage for x86"),
        (elf(183), "this ELF file has nothing to load"),
        (elf(62), "this kernel is an ELF file for x86"),
        (gzip(&elf(40)), "this kernel is an ELF file for 32-bit ARM"),
        (
            gzip(&[0; 9])[..12].to_vec(),
            "this compressed kernel is damaged",
        ),
        (vec![], "this kernel is an empty file"),
        (
            b"board = \"qemu-virt\"\n".to_vec(),
            "this file is a text, no program",
        ),
        (with_magic(0, b"070701"), "this file is an initramfs"),
        (
            with_magic(0, b"\xfd7zXZ\0"),
            "this file is compressed with xz",
        ),
        (big_endian.clone(), "this arm64 kernel is big-endian"),
        (gzip(&big_endian), "this arm64 kernel is big-endian"),
        (
            kernel(4096, 1 << 40),
            "this arm64 kernel's header makes no sense",
        ),
    ];
    for (bytes, what) in cases {
        let found = check(&bytes).unwrap_err();
        assert_eq!(short(&found[0]), format!("5:10 {what}"));
        assert!(!found[0].why.is_empty() && !found[0].remedy.is_empty());
    }
    let architecture = |bytes: &[u8]| check(bytes).unwrap().vms[0].architecture();
    assert_eq!(architecture(&kernel(4096, 8192)), Architecture::Arm64);
    assert_eq!(architecture(&zimage(4096)), Architecture::Arm);
    assert!(check(&gzip(&kernel(4096, 8192))).is_ok());
    let found = check(&kernel(4096, 500 << 20)).unwrap_err();
    assert_eq!(
        short(&found[0]),
        "8:10 the VM's memory is too small for what it boots"
    );
    assert_eq!(found[0].remedy, "give the VM at least \"534M\"");
}

#[test]
fn what_may_have_no_end_is_not_read() {
    let found = load(&with("debian:6.1", "/dev/null")).unwrap_err();
    assert_eq!(short(&found[0]), "5:10 the kernel cannot be read");
    assert_eq!(found[0].why, "/dev/null: it is no file");
}

#[test]
fn missing_files_are_named() {
    let text = with("debian:6.1", "nowhere/Image").replace("busybox", "nowhere/initrd");
    let expected = [
        "5:10 the kernel cannot be read",
        "6:13 the initramfs cannot be read",
    ];
    assert_eq!(refusals(&text), expected);
    let missing = hanok_system::load(Path::new("nowhere.toml"), &boards()).unwrap_err();
    assert_eq!(missing[0].what, "this file cannot be read");
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    let found = load(&with("vcpus = 2", "vcpus = = 2")).unwrap_err();
    assert_eq!(found[0].line, 9);
    assert_eq!(found[0].why, "the file does not follow TOML's grammar");
}

#[test]
fn a_board_s_file_is_checked_too() {
    let folder = tempfile::tempdir().unwrap();
    let sound = std::fs::read_to_string(boards().join("qemu-virt.toml")).unwrap();
    let refusal = |from: &str, to: &str| {
        assert!(sound.contains(from), "{from}");
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, sound.replacen(from, to, 1)).unwrap();
        let found = hanok_system::boards(folder.path()).unwrap_err();
        let text = SOUND.replacen("qemu-virt", "mine", 1);
        let by_system = hanok_system::parse(Path::new("mine.toml"), &text, folder.path());
        assert_eq!(by_system.unwrap_err(), found);
        assert_eq!(found[0].file, path);
        short(&found[0])
    };
    let cases = [
        (
            "backend = \"el2\"",
            "backend = \"x\"",
            "2:11 the value of `backend` is not \"el2\", \"hyp\" or \"deprivileged\"",
        ),
        (
            "gic = \"v3\"",
            "gic = \"v4\"",
            "5:7 the value of `gic` is not \"v2\" or \"v3\"",
        ),
        ("machine =", "machin =", "21:1 `machine` is missing in qemu"),
        ("max = 64", "max = 65", "11:1 more than 64 cores"),
        (
            "default = 4",
            "default = 65",
            "11:1 the default does not lie between min and max",
        ),
        (
            "default = \"cortex-a57\"",
            "default = \"z80\"",
            "8:11 the default CPU \"z80\" is none of the models",
        ),
    ];
    for (from, to, expected) in cases {
        assert_eq!(refusal(from, to), expected);
    }
    let nowhere = hanok_system::boards(&folder.path().join("nowhere")).unwrap_err();
    assert_eq!(nowhere[0].what, "the boards' folder cannot be read");
}

#[test]
fn modules_need_busybox() {
    let text = with("initramfs = \"busybox\"", "initramfs-modules = \"all\"");
    assert_eq!(
        refusals(&text),
        ["6:21 `initramfs-modules` without `initramfs = \"busybox\"`"]
    );
}

/// Whatever is in a description, it is read, or each refusal says what is wrong at a place that
/// the text has.
fn explains(text: &str) -> Result<(), TestCaseError> {
    let Err(refusals) = load(text) else {
        return Ok(());
    };
    prop_assert!(!refusals.is_empty());
    for found in refusals {
        prop_assert!(!found.what.is_empty(), "{found}");
        prop_assert!(!found.why.is_empty() || !found.remedy.is_empty(), "{found}");
        // Behind the last line, too: there an unfinished text ends.
        prop_assert!(found.line <= text.split('\n').count(), "{found}");
        let line = text
            .split('\n')
            .nth(found.line.saturating_sub(1))
            .unwrap_or("");
        prop_assert!(found.column <= line.chars().count() + 1, "{found}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damage_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<char>()), 1..10),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut text: Vec<char> = SOUND.chars().collect();
        for (at, new) in changes {
            let at = at.index(text.len());
            text[at] = new;
        }
        if let Some(cut) = cut {
            text.truncate(cut.index(text.len()));
        }
        explains(&text.into_iter().collect::<String>())?;
    }

    #[test]
    fn moved_pieces_never_panic(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "board", "=", "[[vm]]", "[vm]", "cpus", "[0, 1", "]", "\"qemu-virt\"", "\n", "memory",
            "\"512M\"", "vcpus", "4", "-1", "0xffffffffffffffff", "'", "é", "\r\n", "name", "{", "}",
            "kernel", "\"debian:6.1\"", ".", "#", "\0",
        ]), 0..40),
    ) {
        explains(&pieces.join(" "))?;
    }
}

/// A GICv2's eight CPU interfaces are a VM's, too; a GICv3 has no such bound.
#[test]
fn a_vm_on_a_gicv2_has_eight_vcpus_and_on_a_gicv3_64() {
    let system = |board: &str, vcpus: usize| {
        let cpus = vec!["0"; vcpus].join(", ");
        let text = with("qemu-virt\"", &format!("{board}\""));
        load(&text.replace("vcpus = 2", &format!("cpus = [{cpus}]")))
    };
    assert!(system("qemu-virt-gicv2", 8).is_ok() && system("qemu-virt", 62).is_ok());
    let refused = &system("qemu-virt-gicv2", 9).unwrap_err()[0];
    assert_eq!(refused.what, "a VM cannot have 9 vCPUs");
    assert_eq!(
        refused.why,
        "it has the board's GICv2, which reaches 8 CPUs"
    );
    let remedy = "lower it to 8, or choose a board with a GICv3";
    assert_eq!(refused.remedy, remedy);
    let refused = &system("qemu-virt", 65).unwrap_err()[0];
    assert_eq!(refused.why, "it has from 1 to 64");
}
