//! Tests devices of the board in descriptions: which VM may have which, and what the image says of
//! them.

mod common;

use common::{SOUND, hypervisor, kernel, load};
use dtoolkit::Node;
use dtoolkit::fdt::Fdt;
use dtoolkit::model::{DeviceTree, DeviceTreeNode};
use hanok_config::System;
use hanok_system::{Description, Diagnostic, Files, check_board_tree, check_devices};
use hanok_types::{GicVersion, Hpa, IntId};

const VIRT: &[u8] = include_bytes!("../../../core/config/tests/data/virt-gicv3.dtb");
const VIRT_SMMU: &[u8] = include_bytes!("../../../core/config/tests/data/virt-smmu.dtb");
const VIRT_GIC_V2: &[u8] = include_bytes!("../../../core/config/tests/data/virt-gicv2.dtb");

/// [`SOUND`] with the devices `first`, and a second VM with `second`.
fn system(first: &str, second: &str) -> Description {
    load(&text(first, second)).unwrap()
}

fn text(first: &str, second: &str) -> String {
    format!("{SOUND}devices = {first}\n{}", vm("second", second))
}

fn vm(name: &str, devices: &str) -> String {
    format!(
        "[[vm]]\nname = \"{name}\"\nkernel = \"debian:6.1\"\nmemory = \"128M\"\n\
         devices = {devices}\n"
    )
}

fn refusals(first: &str, second: &str) -> Vec<Diagnostic> {
    check_devices(&system(first, second), VIRT)
}

fn short(found: &Diagnostic) -> String {
    format!("{}:{} {}", found.line, found.column, found.what)
}

fn only(first: &str, second: &str) -> Diagnostic {
    let found = refusals(first, second);
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn a_slave_may_be_given() {
    assert_eq!(refusals("[\"pl061@9030000\"]", "[]"), []);
    assert_eq!(refusals("[]", "[\"/pl061@9030000\"]"), []);
}

#[test]
fn what_the_board_does_not_have_names_the_nearest() {
    let found = only("[\"pl061@9030001\"]", "[]");
    let what = "10:12 there is no device \"pl061@9030001\" on the board";
    assert_eq!(short(&found), what);
    assert_eq!(found.remedy, "did you mean \"pl061@9030000\"?");
    let found = only("[\"warp-drive\"]", "[]");
    assert_eq!(found.remedy, "give a node's name, its path, or an alias");
    let found = only("[\"virtio_mmio\"]", "[]");
    assert!(
        found
            .remedy
            .starts_with("give its path, such as \"/virtio_mmio@")
    );
}

#[test]
fn a_vm_has_one_device_of_a_page() {
    let of = |other: &str| {
        let devices = format!("[\"virtio_mmio@a000000\", \"virtio_mmio@{other}\"]\ntrusted = true");
        refusals(&devices, "[]")
    };
    assert_eq!(of("a001000"), []);
    let found = of("a000200");
    let what = "10:35 device \"virtio_mmio@a000200\" cannot be given beside /virtio_mmio@a000000";
    assert_eq!(found.iter().map(short).collect::<Vec<_>>(), [what]);
}

#[test]
fn two_names_of_one_device_are_seen_through() {
    let found = only("[\"pl061@9030000\"]", "[\"/pl061@9030000\"]");
    let what = "15:12 device \"/pl061@9030000\" is given twice: VM linux has it";
    assert_eq!(short(&found), what);
}

#[test]
fn what_the_hypervisor_has_stays_its_own() {
    for (name, what) in [
        ("pl011@9000000", "the console"),
        ("pl031@9010000", "the clock"),
        ("intc@8000000", "the interrupt controller"),
        ("timer", "the timer"),
        ("memory@40000000", "memory"),
    ] {
        let found = only(&format!("[\"{name}\"]"), "[]");
        let refusal = format!("10:12 device \"{name}\" cannot be given to a VM");
        assert_eq!(short(&found), refusal);
        let why = format!("it is {what}, which the hypervisor keeps for itself");
        assert_eq!(found.why, why);
    }
}

#[test]
fn a_bus_master_goes_to_a_trusted_vm_alone() {
    let found = only("[\"flash@0\"]", "[]");
    assert_eq!(
        short(&found),
        "10:12 device \"flash@0\" may be a bus master"
    );
    assert!(found.why.contains("no SMMU"));
    let remedy = "write `trusted = true` for VM linux if it may, or remove the device";
    assert_eq!(found.remedy, remedy);
    let text = format!("{SOUND}devices = [\"flash@0\"]\ntrusted = true\n");
    let found = check_devices(&load(&text).unwrap(), VIRT);
    assert!(found.iter().all(|found| !found.what.contains("bus master")));
}

#[test]
fn a_page_is_not_shared() {
    // Who may have all memory may have the page's other bus masters, too,
    let trusted = "devices = [\"virtio_mmio@a000000\"]\ntrusted = true\n";
    let text = format!("{SOUND}{trusted}");
    assert_eq!(check_devices(&load(&text).unwrap(), VIRT), []);
    // but not what another VM has.
    let beside = "devices = [\"virtio_mmio@a000200\"]\ntrusted = true\n";
    let second = "[[vm]]\nname = \"other\"\nkernel = \"guest:rtos\"\nmemory = \"64M\"\n";
    let text = format!("{SOUND}{trusted}{second}{beside}");
    let found = check_devices(&load(&text).unwrap(), VIRT);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].why.contains("/virtio_mmio@a000000"),
        "{}",
        found[0]
    );
    assert_eq!(found[0].remedy, "choose a device with pages of its own");
}

#[test]
fn the_board_s_file_and_its_tree_must_agree() {
    let found = check_devices(&system("[\"pl061\"]", "[]"), VIRT_GIC_V2);
    assert_eq!(
        short(&found[0]),
        "0:0 board qemu-virt is said to have GICv3"
    );
    let found = check_devices(&system("[\"pl061\"]", "[]"), &VIRT[..100]);
    assert_eq!(short(&found[0]), "0:0 the board's tree cannot be used");
    assert_eq!(
        check_devices(&load(SOUND).unwrap(), b"no tree is needed"),
        []
    );
}

#[test]
fn the_image_says_what_the_vm_is_given() {
    let trapped = "[{ name = \"pl061@9030000\", access = \"trap\" }]";
    let description = system("[]", trapped);
    let files = || Files {
        boot: kernel(4096, 8192).into(),
        initramfs: None,
        variables: Default::default(),
        raw: None,
    };
    let hypervisor = hypervisor(5000, 8192);
    let files = [files(), files()];
    let missing = description
        .build(&hypervisor, &files, None, &[7; 32])
        .unwrap_err();
    assert_eq!(missing[0].what, "the board's tree is missing");
    let image = description
        .build(&hypervisor, &files, Some(VIRT), &[7; 32])
        .unwrap();
    let payload = &image[8192..];
    let system = System::parse(payload, payload.len() as u64).unwrap();
    assert_eq!((system.gic, system.slice), (GicVersion::V3, 10_000));
    assert!(system.vms[0].devices.is_empty());
    let [device] = &system.vms[1].devices[..] else {
        panic!("{system:?}")
    };
    assert_eq!(device.name, "pl061@9030000");
    assert_eq!(device.registers[0].host, Hpa::new(0x0903_0000));
    assert_eq!(device.interrupts[0].board, IntId::spi(7));
    assert!(device.trapped);
    // And the guest finds it: its tree holds the bus and the device.
    let tree = system.vms[1].blobs.last().unwrap();
    let tree = &payload[tree.offset as usize..][..tree.len as usize];
    let tree = dtoolkit::fdt::Fdt::new(tree).unwrap();
    assert!(tree.find_node("/platform-bus@c000000/pl061@0").is_some());
}

#[test]
fn a_firmware_is_put_into_flash() {
    let text = SOUND.replace(
        "kernel = \"debian:6.1\"\ninitramfs = \"busybox\"",
        "firmware = \"u-boot:qemu_arm64\"\nautostart = false",
    );
    let description = load(&text).unwrap();
    let files = |len: usize| Files {
        boot: vec![7; len].into(),
        initramfs: None,
        variables: Default::default(),
        raw: None,
    };
    let hypervisor = hypervisor(5000, 8192);
    let empty = description.build(&hypervisor, &[files(0)], None, &[7; 32]);
    assert_eq!(
        short(&empty.unwrap_err()[0]),
        "5:12 the firmware is an empty file"
    );
    let image = description
        .build(&hypervisor, &[files(99)], None, &[7; 32])
        .unwrap();
    let payload = &image[8192..];
    let system = System::parse(payload, payload.len() as u64).unwrap();
    let vm = &system.vms[0];
    assert_eq!((vm.entry.get(), vm.argument, vm.autostart), (0, 0, false));
    assert_eq!(vm.firmware().unwrap().len, 99);
    let tree = &vm.blobs[1];
    assert_eq!(tree.load.get(), 0x4000_0000);
    // With room for what the firmware adds to it in place.
    let bytes = &payload[tree.offset as usize..][..tree.len as usize];
    let total = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
    assert_eq!(u64::from(total), tree.len);
    let room = bytes.iter().rev().take_while(|byte| **byte == 0).count();
    assert!(room >= 0x1_0000, "{room}");
    assert!(Fdt::new(bytes).is_ok());
}

/// `virt` with a second GPIO controller, which shares the first one's interrupt.
fn with_a_shared_interrupt() -> Vec<u8> {
    let mut tree = DeviceTree::from_fdt(&Fdt::new(VIRT).unwrap());
    let first = tree.root.child("pl061@9030000").unwrap();
    let mut second = DeviceTreeNode::new("pl061@9050000").unwrap();
    for property in first.properties() {
        second.add_property(property.clone());
    }
    let reg = [0u32, 0x0905_0000, 0, 0x1000]
        .map(u32::to_be_bytes)
        .concat();
    second
        .property_mut("reg")
        .unwrap()
        .set_value(reg.as_slice());
    second.remove_property("phandle");
    tree.root.add_child(second);
    tree.to_dtb()
}

#[test]
fn an_interrupt_goes_to_one_vm() {
    let board = with_a_shared_interrupt();
    let either = system("[]", "[\"pl061@9050000\"]");
    assert_eq!(check_devices(&either, &board), []);
    for (first, second, place, owner) in [
        (
            "[\"pl061@9030000\"]",
            "[\"pl061@9050000\"]",
            "15:12",
            "second",
        ),
        (
            "[\"pl061@9030000\", \"pl061@9050000\"]",
            "[]",
            "10:29",
            "linux",
        ),
    ] {
        let found = check_devices(&system(first, second), &board);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            short(&found[0]),
            format!("{place} interrupt 39 is given twice")
        );
        let why =
            format!("\"pl061@9050000\" of VM {owner} shares it with \"pl061@9030000\" of VM linux");
        assert_eq!(found[0].why, why);
        assert_eq!(found[0].remedy, "remove one of the two devices");
    }
}

/// `virt` whose GPIO controller has this many bytes of registers.
fn with_registers(bytes: u32) -> Vec<u8> {
    let mut tree = DeviceTree::from_fdt(&Fdt::new(VIRT).unwrap());
    let device = tree.root.child_mut("pl061@9030000").unwrap();
    let reg = [
        0u32,
        0x1_0000_0000_u64.wrapping_sub(0x1000_0000) as u32,
        0,
        bytes,
    ];
    let reg = reg.map(u32::to_be_bytes).concat();
    device
        .property_mut("reg")
        .unwrap()
        .set_value(reg.as_slice());
    tree.to_dtb()
}

#[test]
fn a_device_that_fits_no_vm_is_named() {
    let description = system("[\"pl061@9030000\"]", "[]");
    let found = check_devices(&description, &with_registers(64 << 20));
    let what = "10:12 device \"pl061@9030000\" does not fit the virtual platform";
    assert_eq!(short(&found[0]), what);
    assert_eq!(found[0].remedy, "choose another device");
}

/// QEMU's own tree, with words in it that no driver knows: of the same length, so that the tree
/// stays sound.
#[test]
fn a_board_that_the_hypervisor_has_no_driver_for_is_refused() {
    let system = system("[]", "[]");
    assert_eq!(check_board_tree(&system, VIRT), []);
    let with = |from: &[u8], to: &[u8]| {
        let mut tree = VIRT.to_vec();
        let places: Vec<_> = (0..tree.len() - from.len())
            .filter(|at| tree[*at..].starts_with(from))
            .collect();
        assert!(!places.is_empty() && from.len() == to.len());
        places
            .into_iter()
            .for_each(|at| tree[at..at + to.len()].copy_from_slice(to));
        check_board_tree(&system, &tree)
    };
    let found = with(b"arm,gic-v3", b"acme,intc3");
    assert_eq!(
        found[0].what,
        "the board's interrupt controller has no driver"
    );
    assert!(
        found[0].why.contains("/intc@8000000 (acme,intc3)"),
        "{}",
        found[0].why
    );
    let found = with(b"arm,pl011", b"ns16550aa");
    assert_eq!(found[0].what, "the board's serial port has no driver");
    assert!(!found[0].remedy.is_empty());
    let found = with(b"psci\0\0", b"acme\0\0");
    let what: Vec<_> = found.iter().map(|found| &*found.what).collect();
    assert!(
        what.contains(&"CPU 1 of the board cannot be started"),
        "{what:?}"
    );
    assert_eq!(
        check_board_tree(&system, b"no tree")[0].what,
        "the board's tree cannot be used"
    );
}

/// `virt` with nine more GPIO controllers, each with eight interrupts of its own.
fn with_many_interrupts() -> Vec<u8> {
    let mut tree = DeviceTree::from_fdt(&Fdt::new(VIRT).unwrap());
    let first = tree.root.child("pl061@9030000").unwrap().clone();
    for n in 0..9_u32 {
        let address = 0x0b00_0000 + 0x1000 * n;
        let mut one = DeviceTreeNode::new(format!("pl061@{address:x}")).unwrap();
        for property in first.properties() {
            one.add_property(property.clone());
        }
        let reg = [0, address, 0, 0x1000].map(u32::to_be_bytes).concat();
        let lines = (0..8).flat_map(|line| [0, 100 + 8 * n + line, 4]);
        let lines: Vec<u8> = lines.flat_map(u32::to_be_bytes).collect();
        for (name, value) in [("reg", reg), ("interrupts", lines)] {
            one.property_mut(name).unwrap().set_value(value.as_slice());
        }
        one.remove_property("phandle");
        tree.root.add_child(one);
    }
    tree.to_dtb()
}

#[test]
fn a_board_hands_on_so_many_interrupts() {
    let board = with_many_interrupts();
    let names = |range: std::ops::Range<u32>| {
        let names = range.map(|n| format!("\"pl061@{:x}\"", 0x0b00_0000 + 0x1000 * n));
        format!("[{}]", names.collect::<Vec<_>>().join(", "))
    };
    let all = |third| {
        let text = text(&names(0..4), &names(4..8)) + &vm("third", third);
        check_devices(&load(&text).unwrap(), &board)
    };
    assert_eq!(all("[]"), []);
    let found = all(&names(8..9));
    assert_eq!(found.len(), 1, "{found:?}");
    let what = "20:12 with device \"pl061@b008000\" the VMs have 72 interrupts of the board";
    assert_eq!(short(&found[0]), what);
}

/// [`SOUND`] on the board with an SMMU, and what follows.
fn behind_smmu(rest: &str) -> Result<Description, Vec<Diagnostic>> {
    let sound = SOUND.replace("\"qemu-virt\"", "\"qemu-virt-smmu\"");
    load(&format!("{sound}{rest}"))
}

#[test]
fn a_bus_master_behind_an_smmu_goes_to_any_vm() {
    let bridge = "devices = [\"pcie@10000000\"]\n";
    let description = behind_smmu(bridge).unwrap();
    assert_eq!(check_devices(&description, VIRT_SMMU), []);
    // Not where the board has no SMMU, whether the VM is trusted or not.
    for trusted in ["", "trusted = true\n"] {
        let description = load(&format!("{SOUND}{bridge}{trusted}")).unwrap();
        let found = check_devices(&description, VIRT);
        assert_eq!(found.len(), 1, "{found:?}");
        let what = "10:12 device \"pcie@10000000\" cannot be given to a VM";
        assert_eq!(short(&found[0]), what);
        assert!(found[0].why.contains("no SMMUv3"), "{}", found[0]);
        let remedy = "choose a board with an SMMUv3, such as qemu-virt-smmu, or remove it";
        assert_eq!(found[0].remedy, remedy);
    }
    // Nobody gets the SMMU itself.
    let description = behind_smmu("devices = [\"smmuv3@9050000\"]\n").unwrap();
    let found = check_devices(&description, VIRT_SMMU);
    assert!(found[0].why.contains("an SMMU, which the hypervisor keeps"));
    // Other bus masters are as they were, and not for the same VM.
    let both = "devices = [\"pcie@10000000\", \"virtio_mmio@a000000\"]\n";
    let found = check_devices(&behind_smmu(both).unwrap(), VIRT_SMMU);
    assert!(
        found[0].why.contains("no SMMU is in use for it"),
        "{}",
        found[0]
    );
    let found = check_devices(
        &behind_smmu(&format!("{both}trusted = true\n")).unwrap(),
        VIRT_SMMU,
    );
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        short(&found[0]),
        "10:29 VM linux has bus masters with and without an SMMU"
    );
    assert_eq!(found[0].remedy, "give them to two VMs");
}

#[test]
fn two_vms_do_not_have_one_bridge() {
    let bridge = "devices = [\"pcie@10000000\"]\n";
    let second = vm("second", "[\"/pcie@10000000\"]");
    let description = behind_smmu(&format!("{bridge}{second}")).unwrap();
    let found = check_devices(&description, VIRT_SMMU);
    assert_eq!(
        found[0].what,
        "device \"/pcie@10000000\" is given twice: VM linux has it"
    );
}

#[test]
fn qemu_puts_devices_on_the_bus() {
    let lines = "[[pcie]]\ndevice = \"nvme\"\nsize = \"64M\"\n[[pcie]]\ndevice = \"virtio-blk\"\n\
                 size = \"1M\"\n[[pcie]]\ndevice = \"edu\"\n";
    let args = behind_smmu(lines).unwrap().qemu_args().join(" ");
    for part in [
        "-drive if=none,id=pcie0,driver=null-co,size=67108864",
        "-device nvme,serial=hanok0,drive=pcie0,bus=pcie.0,addr=0x1",
        "iommu_platform=on,drive=pcie1,bus=pcie.0,addr=0x2",
        "-device edu,dma_mask=0xffffffffffff,bus=pcie.0,addr=0x3",
    ] {
        assert!(args.contains(part), "{part} is not in {args}");
    }
    let refused = |text: Result<Description, Vec<Diagnostic>>| {
        let found = text.expect_err("refused");
        assert_eq!(found.len(), 1, "{found:?}");
        format!(
            "{}; {}; {}",
            short(&found[0]),
            found[0].why,
            found[0].remedy
        )
    };
    let line = "[[pcie]]\ndevice = \"edu\"\n";
    assert_eq!(
        refused(load(&format!("{SOUND}{line}"))),
        "10:1 a [[pcie]]; board qemu-virt has no PCIe bus for them; remove it, or choose a board that has \
         one, such as qemu-virt-smmu"
    );
    let unknown = "[[pcie]]\ndevice = \"nvmo\"\n";
    assert!(refused(behind_smmu(unknown)).ends_with("did you mean \"nvme\"?"));
    let content = "[[pcie]]\ndevice = \"edu\"\nsize = \"1M\"\n";
    assert!(refused(behind_smmu(content)).contains("only a disk has content"));
    let neither = "[[pcie]]\ndevice = \"nvme\"\n";
    assert!(refused(behind_smmu(neither)).contains("needs either `file` or `size`"));
    let many = line.repeat(32);
    assert!(refused(behind_smmu(&many)).contains("the bus has 31 places"));
}

#[test]
fn a_bridge_and_a_pool_are_not_together() {
    let text = "board = \"qemu-virt-smmu\"\ncores = 4\n[schedule]\nenforce = true\n[[schedule.pool]]\nname = \"both\"\n\
                cores = [1, 2]\nmode = \"global\"\n[[vm]]\nname = \"a\"\nkernel = \"debian:6.12\"\nmemory = \"64M\"\n\
                vcpus = 2\n[vm.schedule]\npool = \"both\"\nperiod = \"10ms\"\nbudget = \"5ms\"\n[[vm]]\nname = \"b\"\n\
                kernel = \"debian:6.12\"\nmemory = \"64M\"\ncpus = [0]\ndevices = [\"pcie@10000000\"]\n";
    let found = check_devices(&load(text).unwrap(), VIRT_SMMU);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        short(&found[0]),
        "23:12 a PCIe host bridge in a system with a global pool"
    );
}
