//! Virtio devices in descriptions: who has which, and each refusal with its line and its remedy.

mod common;

use common::load;
use hanok_config::{DeviceKind, VirtioKind, VmConfig};
use hanok_types::{IntId, Ipa};

/// A driver VM with a disk, and another VM, to which lines are added.
const VMS: &str = r#"board = "qemu-virt"
[[vm]]
name = "drivers"
kernel = "guest:driver"
memory = "128M"
devices = ["virtio_mmio@a003e00"]
trusted = true
[[vm]]
name = "linux"
kernel = "debian:6.1"
memory = "128M"
"#;

/// The refusals of the description with these lines, the first of which is the twelfth: "line what; remedy".
fn refusals(lines: &str) -> Vec<String> {
    let found = load(&format!("{VMS}{lines}")).expect_err("it is refused");
    let short = |found: &hanok_system::Diagnostic| {
        format!("{} {}; {}", found.line, found.what, found.remedy)
    };
    found.iter().map(short).collect()
}

fn disk(from: &str, device: &str) -> String {
    format!("[[vm.disk]]\nfrom = \"{from}\"\ndevice = \"{device}\"\n")
}

#[test]
fn both_ends_name_each_other() {
    let lines = format!("entropy = true\n{}", disk("drivers", "virtio_mmio@a003e00"));
    let system = load(&format!("{VMS}{lines}")).unwrap();
    let [drivers, linux] = &system.vms[..] else {
        panic!("two VMs")
    };
    let slot = |config: &VmConfig, kind| {
        let found = config.slots.iter().position(|slot| slot.kind == kind);
        found.unwrap_or_else(|| panic!("{kind:?}"))
    };
    let front = slot(&linux.config, DeviceKind::Virtio(VirtioKind::Block));
    let back = slot(&drivers.config, DeviceKind::BackEnd);
    let peer = |config: &VmConfig, slot: usize| {
        let peer = config.slots[slot].peer.expect("it has one");
        (peer.vm.index(), usize::from(peer.slot))
    };
    assert_eq!(peer(&linux.config, front), (0, back));
    assert_eq!(peer(&drivers.config, back), (1, front));
    // Entropy has the first transport, the disk the second.
    let disk = linux.config.slots[front];
    assert_eq!(disk.region.start(), Ipa::new(0x0a00_0200));
    assert_eq!(disk.interrupt, Some(IntId::spi(17)));
    let served = &drivers.back_ends[..];
    assert_eq!((served[0].client.as_str(), served[0].slot), ("linux", back));
}

#[test]
fn who_serves_is_another_vm_that_has_the_device() {
    let none = refusals(&disk("driver", "virtio_mmio@a003e00"));
    assert_eq!(
        none,
        ["13 there is no VM \"driver\"; did you mean \"drivers\"?"]
    );
    let own = refusals(&disk("linux", "virtio_mmio@a003e00"));
    let remedy = "name that VM, or give this one the board's device alone";
    assert_eq!(
        own,
        [format!("13 a VM is to serve its own device; {remedy}")]
    );
    let other = refusals(&disk("drivers", "virtio_mmio@a003c00"));
    let what = "14 VM drivers has no device \"virtio_mmio@a003c00\"";
    let remedy = "write devices = [\"virtio_mmio@a003c00\"] for VM drivers";
    assert_eq!(other, [format!("{what}; {remedy}")]);
    let missing = refusals("[[vm.disk]]\nfrom = \"drivers\"\n");
    assert_eq!(
        missing,
        ["12 a disk needs either `device` or `file`; write one of them"]
    );
}

#[test]
fn who_serves_may_have_a_watchdog() {
    let watched = |time: &str| {
        VMS.replace(
            "trusted = true",
            &format!("trusted = true\nwatchdog = {time}"),
        )
    };
    let lines = disk("drivers", "virtio_mmio@a003e00");
    let system = load(&format!("{}{lines}", watched("\"1.5s\""))).unwrap();
    let found: Vec<_> = system.vms.iter().map(|vm| vm.config.watchdog).collect();
    assert_eq!(found, [1500, 0]);
    for bad in [
        "\"0ms\"",
        "\"9ms\"",
        "\"601s\"",
        "\"10.5ms\"",
        "100",
        "\"ever\"",
        "true",
    ] {
        let found = load(&format!("{}{lines}", watched(bad))).expect_err(bad);
        let [found] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(found.line, 8, "{bad}");
        assert!(
            found.remedy.contains("from \"10ms\" to \"600s\""),
            "{found:?}"
        );
    }
    let useless = load(&watched("\"100ms\"")).expect_err("it serves nothing");
    let [found] = &useless[..] else {
        panic!("{useless:?}")
    };
    let what = (found.line, found.what.as_str());
    assert_eq!(what, (8, "`watchdog` of a VM that serves no device"));
}

#[test]
fn a_disk_has_one_client() {
    let one = disk("drivers", "virtio_mmio@a003e00");
    let twice = refusals(&format!("{one}{one}"));
    let what = "15 \"virtio_mmio@a003e00\" is served twice; give each VM a disk of its own";
    assert_eq!(twice, [what]);
}

#[test]
fn a_vm_has_room_for_some_devices() {
    let many: String = (0..20)
        .map(|index| disk("drivers", &format!("virtio_mmio@a00{index:02x}00")))
        .collect();
    let devices: Vec<String> = (0..20)
        .map(|index| format!("\"virtio_mmio@a00{index:02x}00\""))
        .collect();
    let vms = VMS.replace("\"virtio_mmio@a003e00\"", &devices.join(", "));
    let found = load(&format!("{vms}{many}")).expect_err("too many");
    assert!(
        found
            .iter()
            .any(|found| found.what.contains("too many virtio devices")),
        "{found:?}"
    );
}

#[test]
fn qemu_makes_the_board_s_disks() {
    let lines = "[[disk]]\ndevice = \"virtio_mmio@a003e00\"\nsize = \"64M\"\n";
    let args = load(&format!("{VMS}{lines}"))
        .unwrap()
        .qemu_args()
        .join(" ");
    assert!(args.contains("virtio-mmio.force-legacy=false"), "{args}");
    assert!(args.contains("driver=null-co,size=67108864"), "{args}");
    assert!(
        args.contains("drive=disk0,bus=virtio-mmio-bus.31"),
        "{args}"
    );
    let without = load(VMS).unwrap().qemu_args().join(" ");
    assert!(!without.contains("virtio"), "{without}");
}

#[test]
fn a_disk_that_cannot_be_made_is_refused() {
    let disk = |lines: &str| refusals(&format!("[[disk]]\n{lines}"));
    let neither = disk("device = \"virtio_mmio@a003e00\"\n");
    assert_eq!(
        neither,
        ["12 a disk needs either `file` or `size`; write one of them"]
    );
    let both = disk("device = \"virtio_mmio@a003e00\"\nfile = \"Cargo.toml\"\nsize = \"4K\"\n");
    assert_eq!(both, neither);
    let elsewhere = disk("device = \"virtio_mmio@a004000\"\nsize = \"4K\"\n");
    let what = "13 QEMU makes no disk at \"virtio_mmio@a004000\"";
    assert_eq!(
        elsewhere,
        [format!(
            "{what}; choose one, such as \"virtio_mmio@a003e00\""
        )]
    );
    let missing = disk("device = \"virtio_mmio@a003e00\"\nfile = \"no-such-file.img\"\n");
    assert!(
        missing[0].starts_with(
            "14 the disk image cannot be read; `./hanok image debian -o systems/no-such-file.img` makes one"
        ),
        "{missing:?}"
    );
    let one = "[[disk]]\ndevice = \"virtio_mmio@a003e00\"\nsize = \"4K\"\n";
    let second = refusals(&format!("{one}{one}"));
    let what = "16 a second device at \"virtio_mmio@a003e00\"; choose another one";
    assert_eq!(second, [what]);
}

fn network(lines: &str) -> String {
    format!("[[vm.network]]\nfrom = \"drivers\"\ndevice = \"virtio_mmio@a003e00\"\n{lines}")
}

/// Two VMs in one network of the board's device, and lines for the second one.
fn two_in_a_network(second: &str) -> String {
    let vm = "[[vm]]\nname = \"right\"\nkernel = \"debian:6.1\"\nmemory = \"128M\"\n";
    let device = "[[network]]\ndevice = \"virtio_mmio@a003e00\"\n";
    format!("{VMS}{}{vm}{}{device}", network(""), network(second))
}

#[test]
fn a_network_has_several_clients_with_addresses_of_their_own() {
    let system = load(&two_in_a_network("mac = \"02:00:00:00:00:0a\"\nvlan = 7\n")).unwrap();
    let [left, right] = &system.vms[0].back_ends[..] else {
        panic!("two clients")
    };
    let interface = |end: &hanok_system::BackEnd| end.interface.clone().expect("a network");
    let (left, right) = (interface(left), interface(right));
    assert_eq!(right.mac, [2, 0, 0, 0, 0, 10]);
    assert_eq!((left.vlan, right.vlan), (None, Some(7)));
    // One that is made up is administered locally, of one interface, and the same each time.
    assert_eq!(left.mac[0] & 3, 2);
    let again = load(&two_in_a_network("")).unwrap();
    let again: Vec<[u8; 6]> = again.vms[0]
        .back_ends
        .iter()
        .map(|end| interface(end).mac)
        .collect();
    assert_eq!(again[0], left.mac);
    assert_ne!(again[1], left.mac);
    // Without a device of the board's, the VMs have a network among themselves.
    let alone = "[[vm.network]]\nfrom = \"drivers\"\n";
    let system = load(&format!("{VMS}{alone}")).unwrap();
    assert_eq!(system.vms[0].back_ends[0].device, None);
}

#[test]
fn a_network_that_cannot_be_is_refused() {
    let refused = |lines: &str| {
        let found = load(&two_in_a_network(lines)).expect_err("it is refused");
        found[0].what.clone()
    };
    let own = load(&two_in_a_network("")).unwrap().vms[0].back_ends[0]
        .interface
        .clone();
    let mac: Vec<String> = own
        .unwrap()
        .mac
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let twin = refused(&format!("mac = \"{}\"\n", mac.join(":")));
    assert_eq!(twin, "the interface has the MAC address of one of VM linux");
    for mac in [
        "02:00:00:00:00",
        "02:00:00:00:00:1",
        "01:00:00:00:00:01",
        "00:00:00:00:00:00",
        "+2:00:00:00:00:01",
    ] {
        let what = refused(&format!("mac = \"{mac}\"\n"));
        assert_eq!(what, format!("\"{mac}\" is no MAC address of an interface"));
    }
    for vlan in ["0", "4095", "-1", "\"7\""] {
        let what = refused(&format!("vlan = {vlan}\n"));
        assert_eq!(what, "the value of `vlan` is not a number from 1 to 4094");
    }
    // A device is a disk for one VM or a network for several, not both.
    let both = refusals(&format!(
        "{}{}",
        network(""),
        disk("drivers", "virtio_mmio@a003e00")
    ));
    assert!(both[0].contains("is served twice"), "{both:?}");
}

#[test]
fn ports_of_the_pc_lead_to_a_vm() {
    use hanok_system::Forward;
    let text = two_in_a_network("address = \"10.0.2.21\"\n");
    let mut system = load(&text).unwrap();
    let forward = |text: &str| text.parse::<Forward>().unwrap();
    system.forward(&forward("2222:right:22")).unwrap();
    let args = system.qemu_args().join(" ");
    let way = "-netdev user,id=net0,hostfwd=tcp:127.0.0.1:2222-10.0.2.21:22 -device virtio-net-device,netdev=net0,bus=virtio-mmio-bus.31";
    assert!(args.contains(way), "{args}");
    // The other one's address is not known, as both share the network.
    let why = system
        .forward(&forward("2223:linux:22"))
        .expect_err("which address?");
    assert!(why.contains("address = "), "{why}");
    let why = system
        .forward(&forward("2223:drivers:22"))
        .expect_err("no interface");
    assert!(why.contains("has no way to QEMU's network"), "{why}");
    let why = system
        .forward(&forward("2223:nobody:22"))
        .expect_err("no such VM");
    assert!(why.contains("there is no VM"), "{why}");
    for text in [
        "2222",
        "2222:linux",
        "0:linux:22",
        "2222:linux:65536",
        "2222::22",
        "1:a:2:3",
    ] {
        assert!(text.parse::<Forward>().is_err(), "{text}");
    }
    // Alone in its network, a VM has the first address.
    let device = "[[network]]\ndevice = \"virtio_mmio@a003e00\"\n";
    let mut alone = load(&format!("{VMS}{}{device}", network(""))).unwrap();
    alone.forward(&forward("8080:linux:80")).unwrap();
    assert!(
        alone
            .qemu_args()
            .join(" ")
            .contains("127.0.0.1:8080-10.0.2.15:80")
    );
}

/// A folder that is there.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// A VM that others serve, after [`VMS`], with this device.
fn kind(key: &str, lines: &str) -> String {
    format!("[[vm.{key}]]\nfrom = \"drivers\"\n{lines}")
}

#[test]
fn qemu_makes_the_board_s_directories_and_consoles() {
    let device = "device = \"virtio_mmio@a003e00\"\n";
    let directory = format!("[[directory]]\n{device}path = \"{HERE}/src\"\nreadonly = true\n");
    let args = |lines: &str| {
        load(&format!("{VMS}{lines}"))
            .unwrap()
            .qemu_args()
            .join(" ")
    };
    let args_of_directory = args(&format!("{}{directory}", kind("directory", device)));
    assert!(args_of_directory.contains("/src,security_model=none,readonly=on"));
    assert!(args_of_directory.contains("mount_tag=shared,bus=virtio-mmio-bus.31"));
    assert!(args_of_directory.contains("virtio-mmio.force-legacy=false"));
    let console = format!("[[console]]\n{device}chardev = \"file,path=log\"\n");
    let args_of_console = args(&format!("{}{console}", kind("console", device)));
    assert!(args_of_console.contains("-chardev file,id=console0,path=log -device virtio-serial"));
    assert!(args_of_console.contains("virtconsole,chardev=console0,bus=serial0.0"));
    let pty = args(&format!("[[console]]\n{device}"));
    assert!(pty.contains("-chardev pty,id=console0 "), "{pty}");
}

#[test]
fn a_directory_that_cannot_be_is_refused() {
    let directory =
        |at: &str, lines: &str| format!("[[directory]]\ndevice = \"virtio_mmio@{at}\"\n{lines}");
    let one = |lines: &str| refusals(&directory("a003e00", lines));
    let none = one("");
    assert!(none[0].starts_with("12 `path` is missing"), "{none:?}");
    let missing = one("path = \"no-such-folder\"\n");
    assert!(
        missing[0].starts_with("14 the folder cannot be read"),
        "{missing:?}"
    );
    let file = one(&format!("path = \"{HERE}/Cargo.toml\"\n"));
    assert!(
        file[0].starts_with("14 the folder cannot be read"),
        "{file:?}"
    );
    for tag in ["", "a b", "a,b", "123456789012345678901234567890123"] {
        let tag = one(&format!("path = \"{HERE}/src\"\ntag = \"{tag}\"\n"));
        assert!(
            tag[0].starts_with("15 the value of `tag` is not a name of 1 to 32"),
            "{tag:?}"
        );
    }
    let twice = format!(
        "{}{}",
        directory("a003e00", &format!("path = \"{HERE}/src\"\n")),
        directory("a002e00", &format!("path = \"{HERE}/src/../src\"\n"))
    );
    let what = format!(
        "17 the folder \"{HERE}/src/../src\" is given twice; give each device a folder of its own"
    );
    assert_eq!(refusals(&twice), [what]);
    let device = "device = \"virtio_mmio@a003e00\"\n";
    let client = kind("directory", device);
    let what = "15 \"virtio_mmio@a003e00\" is served twice; give each VM a directory of its own";
    assert_eq!(refusals(&format!("{client}{client}")), [what]);
}

#[test]
fn a_console_that_cannot_be_is_refused() {
    let console = |at: &str, chardev: &str| {
        format!("[[console]]\ndevice = \"virtio_mmio@{at}\"\nchardev = \"{chardev}\"\n")
    };
    let stdio = refusals(&console("a003e00", "stdio"));
    assert!(
        stdio[0].starts_with("14 a console cannot lead to \"stdio\"; write"),
        "{stdio:?}"
    );
    let file = "file,path=log";
    let twice = format!("{}{}", console("a003e00", file), console("a002e00", file));
    let what = "17 two consoles lead to the same place; give each console a place of its own";
    assert_eq!(refusals(&twice), [what]);
}

#[test]
fn sockets_have_a_cid_of_their_own() {
    let system = load(&format!("{VMS}{}", kind("vsock", "cid = 3\n"))).unwrap();
    assert_eq!(system.vms[0].back_ends[0].cid, Some(3));
    assert_eq!(system.vms[0].back_ends[0].device, None);
    for cid in ["0", "2", "-1", "4294967295", "\"3\""] {
        let found = refusals(&kind("vsock", &format!("cid = {cid}\n")));
        let what = "14 the value of `cid` is not a number from 3 to 4294967294";
        assert!(found[0].starts_with(what), "{found:?}");
    }
    let missing = refusals(&kind("vsock", ""));
    assert!(missing[0].starts_with("12 `cid` is missing"), "{missing:?}");
    let device = refusals(&kind(
        "vsock",
        "cid = 3\ndevice = \"virtio_mmio@a003e00\"\n",
    ));
    assert!(device[0].contains("device"), "{device:?}");
    let one = kind("vsock", "cid = 3\n");
    let twin = refusals(&format!("{one}{one}"));
    assert_eq!(twin, ["17 VM linux has the same CID; write another `cid`"]);
    let vms = VMS.replace("devices = [\"virtio_mmio@a003e00\"]\ntrusted = true\n", "");
    let found = load(&format!("{vms}{one}")).expect_err("it is refused");
    assert_eq!(found[0].what, "VM drivers cannot serve sockets");
}

#[test]
fn the_driver_vm_has_places_for_some_networks() {
    let own = VMS.replacen('\n', "\ncores = 16\n", 1);
    let vms = own.clone();
    let at = |device: &str, vm: usize| {
        format!(
            "[[vm]]\nname = \"vm{vm}\"\nkernel = \"debian:6.1\"\nmemory = \"64M\"\n\
             [[vm.network]]\nfrom = \"drivers\"\n{device}"
        )
    };
    let eight: String = (0..8).map(|vm| at("vlan = 7\n", vm)).collect();
    load(&format!("{vms}{eight}")).unwrap();
    let nine = load(&format!("{vms}{eight}{}", at("", 8))).expect_err("a ninth one");
    let told = |found: &hanok_system::Diagnostic| (found.line, found.what.clone());
    let what = "VM drivers has no place for one more network interface".to_owned();
    assert_eq!(nine.iter().map(told).collect::<Vec<_>>(), [(74, what)]);
    let devices = "\"virtio_mmio@a003e00\", \"virtio_mmio@a002e00\"";
    let vms = vms.replace("\"virtio_mmio@a003e00\"", devices);
    let one = at("device = \"virtio_mmio@a003e00\"\n", 0);
    let twice = at("device = \"virtio_mmio@a003e00\"\n", 1);
    load(&format!("{vms}{one}{twice}")).unwrap();
    let other = at("device = \"virtio_mmio@a002e00\"\n", 1);
    let two = load(&format!("{vms}{one}{other}")).expect_err("a second device");
    let what = "VM drivers has another network device already".to_owned();
    assert_eq!(two.iter().map(told).collect::<Vec<_>>(), [(25, what)]);
    // A driver VM of somebody's own has its own limits.
    let own = own.replacen("guest:driver", "guest:rtos", 1);
    load(&format!("{own}{eight}{}", at("", 8))).unwrap();
}
