//! The guest's tree against the one that QEMU makes for its own `virt`.

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use hanok_config::guest::{GuestDevice, GuestTree, Written};
use hanok_config::{
    BoardTree, Enable, FixedClock, Gic, HostDevice, HostTree, PsciMethod, assign, platform_slots,
};
use hanok_types::{GicVersion, Hpa, Ipa, Span, platform};

const QEMU: &[u8] = include_bytes!("data/virt-guest.dtb");

const QEMU_GIC_V2: &[u8] = include_bytes!("data/virt-guest-gicv2.dtb");

fn written(initramfs: Option<Span<Ipa>>) -> Written {
    written_with(GicVersion::V3, initramfs, &[])
}

fn written_with(
    gic: GicVersion,
    initramfs: Option<Span<Ipa>>,
    devices: &[GuestDevice<'_>],
) -> Written {
    let tree = GuestTree {
        name: "linux",
        terminal: Some((50, 132)),
        vcpus: 4,
        memory: Span::new(platform::RAM, 2 << 30).unwrap(),
        bootargs: "console=ttyAMA0",
        initramfs,
        reserved: None,
        gic,
        slots: &platform_slots(),
        channels: &[],
        devices,
        back_ends: &[],
    };
    tree.write()
}

fn value<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a [u8]> {
    let mut properties = node.properties();
    let property = properties.find(|property| property.name() == name)?;
    property.value_as().ok()
}

#[test]
fn what_is_described_is_described_as_by_qemu() {
    let ours = written(None);
    let (ours, qemu) = (Fdt::new(&ours.bytes).unwrap(), Fdt::new(QEMU).unwrap());
    let same = [
        (
            "/",
            vec![
                "compatible",
                "model",
                "#address-cells",
                "#size-cells",
                "dma-coherent",
            ],
        ),
        ("/psci", vec!["method"]),
        ("/memory@40000000", vec!["reg", "device_type"]),
        (
            "/pl011@9000000",
            vec!["reg", "interrupts", "compatible", "clock-names", "clocks"],
        ),
        (
            "/pl031@9010000",
            vec!["reg", "interrupts", "compatible", "clock-names", "clocks"],
        ),
        ("/timer", vec!["interrupts", "compatible", "always-on"]),
        (
            "/apb-pclk",
            vec![
                "phandle",
                "clock-frequency",
                "clock-output-names",
                "#clock-cells",
                "compatible",
            ],
        ),
        (
            "/intc@8000000",
            vec![
                "compatible",
                "#interrupt-cells",
                "interrupt-controller",
                "#redistributor-regions",
                "ranges",
            ],
        ),
        ("/cpus", vec!["#address-cells", "#size-cells"]),
        ("/cpus/cpu@3", vec!["reg", "enable-method", "device_type"]),
        ("/aliases", vec!["serial0"]),
        ("/chosen", vec!["stdout-path"]),
    ];
    for (path, names) in same {
        let (ours, qemu) = (ours.find_node(path).unwrap(), qemu.find_node(path).unwrap());
        for name in names {
            assert!(value(&qemu, name).is_some(), "{path} {name}");
            assert_eq!(value(&ours, name), value(&qemu, name), "{path} {name}");
        }
    }
}

#[test]
fn nothing_is_described_that_is_not_there() {
    let ours = written(None);
    let root = Fdt::new(&ours.bytes).unwrap().root();
    let names: Vec<&str> = root.children().map(|child| child.name()).collect();
    let expected = [
        "psci",
        "hypervisor",
        "memory@40000000",
        "schedule@90c0000",
        "pl031@9010000",
        "pl011@9000000",
        "intc@8000000",
        "cpus",
        "timer",
        "apb-pclk",
        "aliases",
        "chosen",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_vm_knows_its_name_and_its_terminal() {
    let ours = written(None);
    let ours = Fdt::new(&ours.bytes).unwrap();
    let node = ours.find_node("/hypervisor").unwrap();
    assert_eq!(value(&node, "compatible"), Some(&b"hanok,hypervisor\0"[..]));
    assert_eq!(value(&node, "hanok,vm"), Some(&b"linux\0"[..]));
    assert_eq!(value(&node, "hanok,terminal"), Some(&b"50 132\0"[..]));
}

#[test]
fn the_guest_s_board_is_understood_as_a_board() {
    let ours = written(None);
    let board = BoardTree::parse(&ours.bytes).unwrap();
    assert_eq!((board.cpus.len(), board.psci), (4, Some(PsciMethod::Hvc)));
    assert!(board.cpus.iter().all(|cpu| cpu.enable == Enable::Psci));
    let Gic::V3 { redistributors, .. } = &board.gic else {
        panic!("{:?}", board.gic)
    };
    assert_eq!(redistributors[0].len(), 4 * platform::GIC_REDIST_STRIDE);
    let console = board.console.unwrap();
    assert_eq!(console.registers.start().get(), platform::UART.get());
    assert_eq!(console.interrupt, Some(platform::UART_IRQ));
    assert_eq!(board.rtc.unwrap().start().get(), platform::RTC.get());
    assert_eq!(board.timer.virt, Some(platform::TIMER_VIRTUAL_IRQ));
    assert_eq!(board.bootargs, "console=ttyAMA0");
}

#[test]
fn seeds_are_where_they_are_said_to_be() {
    let mut ours = written(None);
    assert_eq!(
        ours.seeds.iter().map(|seed| seed.1).collect::<Vec<_>>(),
        [32, 8]
    );
    for (offset, len) in &ours.seeds {
        ours.bytes[*offset as usize..(offset + len) as usize].fill(0xa5);
    }
    let chosen = Fdt::new(&ours.bytes).unwrap().find_node("/chosen").unwrap();
    assert_eq!(value(&chosen, "rng-seed"), Some(&[0xa5; 32][..]));
    assert_eq!(value(&chosen, "kaslr-seed"), Some(&[0xa5; 8][..]));
    assert_eq!(value(&chosen, "bootargs"), Some(&b"console=ttyAMA0\0"[..]));
}

#[test]
fn the_initramfs_is_announced() {
    let ours = written(Span::new(Ipa::new(0x4800_0000), 0x123_4567));
    let chosen = Fdt::new(&ours.bytes).unwrap().find_node("/chosen").unwrap();
    let [start, end] = ["linux,initrd-start", "linux,initrd-end"]
        .map(|name| u64::from_be_bytes(value(&chosen, name).unwrap().try_into().unwrap()));
    assert_eq!((start, end), (0x4800_0000, 0x4923_4567));
}

#[test]
fn a_gic_v2_is_described_as_by_qemu() {
    let ours = written_with(GicVersion::V2, None, &[]);
    let (ours, qemu) = (
        Fdt::new(&ours.bytes).unwrap(),
        Fdt::new(QEMU_GIC_V2).unwrap(),
    );
    let same = [
        ("/timer", "interrupts"),
        ("/intc@8000000", "compatible"),
        ("/intc@8000000", "reg"),
        ("/intc@8000000", "#interrupt-cells"),
        ("/intc@8000000", "interrupt-controller"),
        ("/pl011@9000000", "interrupts"),
    ];
    for (path, name) in same {
        let (ours, qemu) = (ours.find_node(path).unwrap(), qemu.find_node(path).unwrap());
        assert!(value(&qemu, name).is_some(), "{path} {name}");
        assert_eq!(value(&ours, name), value(&qemu, name), "{path} {name}");
    }
    let ours = written_with(GicVersion::V2, None, &[]);
    let span = |at: Ipa, len| Span::new(Hpa::new(at.get()), len).unwrap();
    let expected = Gic::V2 {
        distributor: span(platform::GIC_DIST, platform::GIC_V2_FRAME_SIZE),
        cpu: span(platform::GIC_V2_CPU, platform::GIC_V2_FRAME_SIZE),
        virtualization: None,
        maintenance: None,
    };
    assert_eq!(BoardTree::parse(&ours.bytes).unwrap().gic, expected);
}

#[test]
fn a_device_that_is_passed_through_is_found_as_on_the_board() {
    let board = HostTree::parse(include_bytes!("data/virt-gicv3.dtb")).unwrap();
    let host = [board.device("pl061@9030000").unwrap()];
    let given = assign(&host).unwrap();
    let device = GuestDevice {
        host: &host[0],
        given: &given[0],
    };
    let ours = written_with(GicVersion::V3, None, &[device]);
    // The hypervisor's own reader finds it there too, through the bus.
    let guest = HostTree::parse(&ours.bytes).unwrap();
    let seen = guest.device("pl061@0").unwrap();
    assert_eq!(seen.path, "/platform-bus@c000000/pl061@0");
    let at = Hpa::new(platform::PASS_THROUGH.get());
    assert_eq!(seen.registers, [Span::new(at, 0x1000).unwrap()]);
    assert_eq!(seen.interrupts[0].id, platform::PASS_THROUGH_IRQ);
    assert_eq!(seen.interrupts[0].trigger, 4);
    assert_eq!(seen.clocks, host[0].clocks);
    assert_eq!(seen.clocks[0].frequency, 24_000_000);
    assert_eq!(seen.properties, host[0].properties);
    assert_eq!(seen.bus_master, None);
}

#[test]
fn a_bus_master_is_told_where_ram_is_for_it() {
    let board = HostTree::parse(include_bytes!("data/virt-gicv3.dtb")).unwrap();
    let host = [board.device("virtio_mmio@a003e00").unwrap()];
    let given = assign(&host).unwrap();
    let device = GuestDevice {
        host: &host[0],
        given: &given[0],
    };
    let ours = written_with(GicVersion::V3, None, &[device]);
    let tree = Fdt::new(&ours.bytes).unwrap();
    let bus = tree.find_node("/platform-bus@c000000").unwrap();
    let ranges = value(&bus, "dma-ranges").unwrap();
    let [host, guest, len] =
        [0, 8, 16].map(|at| u64::from_be_bytes(ranges[at..at + 8].try_into().unwrap()));
    assert_eq!((host, guest, len), (0, platform::RAM.get(), 2 << 30));
    let at = ours.host_address.unwrap() as usize;
    assert_eq!(
        ours.bytes.as_ptr_range().start.wrapping_add(at),
        ranges.as_ptr()
    );
    let child = bus.children().next().unwrap();
    assert!(value(&child, "dma-coherent").is_some() && value(&child, "dma-noncoherent").is_none());
    assert_eq!(written(None).host_address, None);
}

/// What the hypervisor's own reader finds in the tree of a guest that has `host`.
fn seen_by_the_guest(host: &[HostDevice], names: &[&str]) -> Vec<HostDevice> {
    let given = assign(host).unwrap();
    let devices: Vec<GuestDevice<'_>> = (host.iter().zip(&given))
        .map(|(host, given)| GuestDevice { host, given })
        .collect();
    let ours = written_with(GicVersion::V3, None, &devices);
    let guest = HostTree::parse(&ours.bytes).unwrap();
    let seen = names.iter().map(|name| guest.device(name));
    seen.map(Result::unwrap).collect()
}

#[test]
fn registers_keep_their_places_in_their_pages() {
    let board = HostTree::parse(include_bytes!("data/virt-gicv3.dtb")).unwrap();
    let names = ["pl061@9030000", "virtio_mmio@a003e00"];
    let mut host = names.map(|name| board.device(name).unwrap());
    // A second range, two pages behind.
    let more = Span::new(Hpa::new(0x0a00_5e10), 0x10).unwrap();
    host[1].registers.push(more);
    let seen = seen_by_the_guest(&host, &["pl061@0", "virtio_mmio@1e00"]);
    let span = |at, len| Span::new(Hpa::new(platform::PASS_THROUGH.get() + at), len).unwrap();
    assert_eq!(seen[0].registers, [span(0, 0x1000)]);
    assert_eq!(seen[1].registers, [span(0x1e00, 0x200), span(0x2e10, 0x10)]);
}

/// The trigger of the GIC's binding: an edge stays one, and what the board does not say is a level.
#[test]
fn triggers_are_the_board_s() {
    let board = HostTree::parse(include_bytes!("data/virt-gicv3.dtb")).unwrap();
    let mut host = [board.device("pl061@9030000").unwrap()];
    for (trigger, expected) in [(0, 4), (1, 1), (2, 2), (4, 4), (8, 8)] {
        host[0].interrupts[0].trigger = trigger;
        let seen = seen_by_the_guest(&host, &["pl061@0"]);
        assert_eq!(seen[0].interrupts[0].trigger, expected, "{trigger}");
    }
}

#[test]
fn devices_find_their_own_clocks() {
    let board = HostTree::parse(include_bytes!("data/virt-gicv3.dtb")).unwrap();
    let names = ["pl061@9030000", "virtio_mmio@a003e00"];
    let mut host = names.map(|name| board.device(name).unwrap());
    let clock = |frequency| FixedClock { frequency };
    host[0].clocks = vec![clock(1), clock(2), clock(1)];
    host[1].clocks = vec![clock(3), clock(2)];
    let seen = seen_by_the_guest(&host, &["pl061@0", "virtio_mmio@1e00"]);
    assert_eq!(seen[0].clocks, host[0].clocks);
    assert_eq!(seen[1].clocks, host[1].clocks);
}

/// The root says `dma-coherent`, of the virtual platform's own devices: a bus master that is not on
/// the board must say so, and a device that is no bus master says nothing.
#[test]
fn a_bus_master_is_as_coherent_as_on_the_board() {
    let board = HostTree::parse(include_bytes!("data/virt-gicv3.dtb")).unwrap();
    for (name, coherent, expected) in [
        ("virtio_mmio@a003e00", true, [true, false]),
        ("virtio_mmio@a003e00", false, [false, true]),
        ("pl061@9030000", false, [false, false]),
    ] {
        let mut host = [board.device(name).unwrap()];
        if !coherent {
            host[0].properties.retain(|pair| pair.0 != "dma-coherent");
        }
        assert!(!host[0].properties.is_empty());
        let given = assign(&host).unwrap();
        let device = GuestDevice {
            host: &host[0],
            given: &given[0],
        };
        let ours = written_with(GicVersion::V3, None, &[device]);
        let tree = Fdt::new(&ours.bytes).unwrap();
        let bus = tree.find_node("/platform-bus@c000000").unwrap();
        let child = bus.children().next().unwrap();
        let found = ["dma-coherent", "dma-noncoherent"].map(|name| value(&child, name).is_some());
        assert_eq!(found, expected, "{name} {coherent}");
    }
}

/// What systemd-detect-virt looks at, and QEMU's tree does not have.
#[test]
fn a_guest_is_told_that_it_is_in_a_vm() {
    let ours = written(None);
    let tree = Fdt::new(&ours.bytes).unwrap();
    let node = tree.find_node("/hypervisor").unwrap();
    assert_eq!(value(&node, "compatible"), Some(&b"hanok,hypervisor\0"[..]));
}
