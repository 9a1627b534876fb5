//! Devices of the board that a VM is to have: what is found of them, and what is refused.

use super::GIC_V3 as VIRT;
use super::trees::{Build, flat, node, serial, span};
use dtoolkit::Node;
use dtoolkit::fdt::Fdt;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use hanok_config::{DeviceError, HostDevice, HostLine, HostTree, assign};
use hanok_types::{IntId, Ipa, platform};

fn on_virt(name: &str) -> Result<HostDevice, DeviceError> {
    HostTree::parse(VIRT).unwrap().device(name)
}

#[test]
fn a_device_is_found_by_name_and_path() {
    let device = on_virt("pl061@9030000").unwrap();
    assert_eq!(device.path, "/pl061@9030000");
    assert_eq!(device.registers, [span(0x0903_0000, 0x1000)]);
    let line = HostLine {
        id: IntId::spi(7),
        trigger: 4,
    };
    assert_eq!(
        (&device.interrupts[..], line.is_edge()),
        (&[line][..], false)
    );
    assert_eq!(device.bus_master, None);
    assert!(device.neighbours.is_empty());
    assert_eq!(device.clocks[0].frequency, 24_000_000);
    let names: Vec<&str> = device.properties.iter().map(|pair| &*pair.0).collect();
    let expected = [
        "clock-names",
        "gpio-controller",
        "#gpio-cells",
        "compatible",
    ];
    assert_eq!(names, expected);
    for name in ["/pl061@9030000", "pl061"] {
        assert_eq!(on_virt(name), Ok(device.clone()));
    }
}

#[test]
fn what_may_reach_memory_by_itself_is_known() {
    let edge = on_virt("virtio_mmio@a000200").unwrap();
    assert!(edge.interrupts[0].is_edge());
    let reason = "its node has `dma-coherent`";
    assert_eq!(edge.bus_master.as_deref(), Some(reason));
    // A page holds eight of them.
    assert_eq!(edge.neighbours.len(), 7);
    assert!(
        edge.neighbours
            .iter()
            .all(|other| other.works && other.is_bus_master)
    );
}

#[test]
fn what_the_hypervisor_has_is_refused() {
    let own = |name| match on_virt(name) {
        Err(DeviceError::Own(what)) => what,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(own("pl011@9000000"), "the console");
    assert_eq!(own("serial0"), "the console");
    assert_eq!(own("pl031@9010000"), "the clock");
    assert_eq!(own("intc@8000000"), "the interrupt controller");
    assert_eq!(own("timer"), "the timer");
    assert_eq!(own("memory@40000000"), "memory");
    assert_eq!(own("psci"), "the power control");
    assert_eq!(own("cpu@0"), "a CPU");
}

#[test]
fn what_is_no_device_is_refused() {
    let unknown = |name: &str| DeviceError::Unknown(name.to_owned());
    assert_eq!(on_virt("pl061@9030001"), Err(unknown("pl061@9030001")));
    assert_eq!(on_virt("/nothing"), Err(unknown("/nothing")));
    assert_eq!(on_virt(""), Err(unknown("")));
    assert_eq!(on_virt("apb-pclk"), Err(DeviceError::NoRegisters));
    let Err(DeviceError::Ambiguous(paths)) = on_virt("virtio_mmio") else {
        panic!("thirty-two nodes")
    };
    assert_eq!(paths.len(), 32);
}

/// A board whose devices sit behind a bus that moves addresses, as on a Raspberry Pi 4.
fn soc(devices: impl IntoIterator<Item = DeviceTreeNode>) -> Vec<u8> {
    let reg = [0x4004_1000u32, 0x1000, 0x4004_2000, 0x2000];
    let gic = node("interrupt-controller@40041000")
        .with("compatible", "arm,gic-400")
        .with("#interrupt-cells", 3u32)
        .with("phandle", 1u32)
        .with("reg", reg);
    let ranges = [0x7e00_0000u32, 0, 0xfe00_0000, 0x0180_0000];
    let more = [0x4000_0000u32, 0, 0xff80_0000, 0x0080_0000];
    let mut bus = node("soc")
        .with("compatible", "simple-bus")
        .with("#address-cells", 1u32)
        .with("#size-cells", 1u32)
        .with("ranges", [ranges, more].concat())
        .and(gic)
        .and(serial("serial@7e201000", 0x7e20_1000, 121));
    for device in devices {
        bus.add_child(device);
    }
    let cpu = node("cpu@0").with("device_type", "cpu").with("reg", 0u32);
    let cpus = node("cpus")
        .with("#address-cells", 1u32)
        .with("#size-cells", 0u32)
        .and(cpu);
    let memory = node("memory@0")
        .with("device_type", "memory")
        .with("reg", [0u32, 0, 0x3c00_0000]);
    let clock = node("clk-27M")
        .with("compatible", "fixed-clock")
        .with("#clock-cells", 0u32)
        .with("clock-frequency", 27_000_000u32)
        .with("phandle", 5u32);
    let oscillator = |name, phandle: u32, least: u32, most: u32| {
        node(name)
            .with("compatible", "arm,vexpress-osc")
            .with("#clock-cells", 0u32)
            .with("freq-range", [least, most])
            .with("phandle", phandle)
    };
    let cprman = node("cprman")
        .with("#clock-cells", 1u32)
        .with("phandle", 7u32);
    let root = node("")
        .with("#address-cells", 2u32)
        .with("#size-cells", 1u32)
        .with("interrupt-parent", 1u32)
        .and(node("aliases").with("gpio0", "/soc/gpio@7e100000"))
        .and(cpus)
        .and(memory)
        .and(clock)
        .and(cprman)
        .and(oscillator("osc-fixed", 0x28, 24_000_000, 24_000_000))
        .and(oscillator("osc-wide", 0x29, 33_000_000, 100_000_000))
        .and(bus);
    flat(root)
}

fn gpio() -> DeviceTreeNode {
    node("gpio@7e100000")
        .with("compatible", "arm,pl061")
        .with("reg", [0x7e10_0000u32, 0x1000])
        .with("interrupts", [0u32, 50, 1])
}

fn device(node: DeviceTreeNode) -> Result<HostDevice, DeviceError> {
    let name = node.name().to_owned();
    HostTree::parse(&soc([node])).unwrap().device(&name)
}

#[test]
fn addresses_go_through_the_bus() {
    let found = device(gpio()).unwrap();
    assert_eq!(found.registers, [span(0xfe10_0000, 0x1000)]);
    assert_eq!(found.interrupts[0].id, IntId::spi(50));
    assert!(found.interrupts[0].is_edge());
    let tree = soc([gpio()]);
    let by_alias = HostTree::parse(&tree).unwrap().device("gpio0");
    assert_eq!(by_alias, Ok(found));
}

/// What the boards' trees have that has no way to memory, as their nodes name it, and what has one
/// or would change the board for everybody.
#[test]
fn the_boards_devices_without_a_way_to_memory_are_known() {
    let of = |compatible: &[&str]| {
        let node = node("device@7e100000")
            .with("compatible", compatible)
            .with("reg", [0x7e10_0000u32, 0x1000])
            .with("interrupts", [0u32, 50, 4]);
        device(node).unwrap().bus_master
    };
    for slave in [
        &["smsc,lan9118", "smsc,lan9115"][..],
        &["nxp,usb-isp1761"],
        &["arm,pl041", "arm,primecell"],
        &["arm,pl180", "arm,primecell"],
        &["arm,versatile-i2c"],
        &["brcm,bcm2835-aux-uart"],
        &["brcm,bcm2835-spi"],
        &["brcm,bcm2711-i2c", "brcm,bcm2835-i2c"],
    ] {
        assert_eq!(of(slave), None, "{slave:?}");
    }
    for other in [
        &["arm,pl111", "arm,primecell"][..],
        &["arm,pl330", "arm,primecell"],
        &["arm,pl354", "arm,primecell"],
        &["arm,vexpress-sysreg"],
        &["arm,vexpress-flash", "cfi-flash"],
        &["arm,hdlcd"],
        &["brcm,bcm2711-genet-v5"],
        &["brcm,bcm2835-mbox"],
        &["brcm,bcm2711-gpio"],
        &["qemu,fw-cfg-mmio"],
    ] {
        assert!(of(other).is_some(), "{other:?}");
    }
}

#[test]
fn what_shares_a_page_is_seen() {
    let beside = node("gpio@7e100800")
        .with("reg", [0x7e10_0800u32, 0x100])
        .with("compatible", "arm,pl061")
        .with("status", "disabled")
        .with("dmas", [9u32, 1]);
    let small = node("gpio@7e100000")
        .with("compatible", "arm,pl061")
        .with("reg", [0x7e10_0000u32, 0x100]);
    let tree = soc([small, beside]);
    let board = HostTree::parse(&tree).unwrap();
    let found = board.device("gpio@7e100000").unwrap();
    let [other] = &found.neighbours[..] else {
        panic!("{found:?}")
    };
    assert_eq!(other.path, "/soc/gpio@7e100800");
    assert!(!other.works && other.is_bus_master);
    assert_eq!(board.device("gpio@7e100800"), Err(DeviceError::Off));
}

#[test]
fn what_is_inside_a_device_or_above_it_is_no_neighbour() {
    let small = |name: &str, at: u32| {
        node(name)
            .with("compatible", "arm,pl061")
            .with("reg", [at, 0x10])
    };
    let above = small("block@7e100000", 0x7e10_0000)
        .with("#address-cells", 1u32)
        .with("#size-cells", 1u32)
        .with("ranges", [0u32; 0])
        .and(small("one@7e100010", 0x7e10_0010))
        .and(small("two@7e100020", 0x7e10_0020));
    let beside = small("three@7e100030", 0x7e10_0030);
    let tree = soc([above, beside]);
    let board = HostTree::parse(&tree).unwrap();
    let neighbours = |name| {
        let found = board.device(name).unwrap().neighbours;
        let paths = found.into_iter().map(|other| other.path);
        paths.collect::<Vec<_>>()
    };
    assert_eq!(neighbours("block"), ["/soc/three@7e100030"]);
    let of_one = ["/soc/block@7e100000/two@7e100020", "/soc/three@7e100030"];
    assert_eq!(neighbours("one"), of_one);
}

/// Buses of which the specification says that they have no addresses (2.3.5), and ranges that
/// would not end.
#[test]
fn buses_without_addresses_have_no_registers() {
    let bus = |name: &str, cells: [u32; 2], ranges: &[u32]| {
        node(name)
            .with("#address-cells", cells[0])
            .with("#size-cells", cells[1])
            .with("ranges", ranges)
    };
    let chip = |name: &str, reg: &[u32]| node(name).with("reg", reg);
    let found = |bus: DeviceTreeNode, name: &str| {
        let root = DeviceTree::from_fdt(&Fdt::new(&soc([])).unwrap()).root;
        let tree = flat(root.and(bus));
        let board = HostTree::parse(&tree).unwrap();
        assert!(!board.names().iter().any(|other| other == name));
        board.device(name)
    };
    for reg in [&[0x10][..], &[0x10, 0x20]] {
        let i2c = bus("i2c", [0, 1], &[]).and(chip("chip", reg));
        assert_eq!(found(i2c, "chip"), Err(DeviceError::NoRegisters));
    }
    let inner = bus("inner", [1, 1], &[0, 0x1000]).and(chip("chip", &[0, 0x10]));
    let empty = bus("empty", [0, 0], &[0]).and(inner);
    let outer = bus("outer", [0, 0], &[]).and(empty);
    assert_eq!(found(outer, "chip"), Err(DeviceError::NoRegisters));
}

#[test]
fn the_console_s_page_and_interrupt_stay_the_hypervisor_s() {
    let beside = serial("serial@7e201400", 0x7e20_1400, 99);
    assert_eq!(device(beside), Err(DeviceError::Beside("the console")));
    let shared = serial("serial@7e301000", 0x7e30_1000, 121);
    assert_eq!(device(shared), Err(DeviceError::OwnLine(0)));
}

#[test]
fn interrupts_must_reach_the_gic_as_shared_ones() {
    let with = |interrupts: &[u32]| {
        let mut node = gpio();
        node.remove_property("interrupts");
        device(node.with("interrupts", interrupts))
    };
    assert_eq!(with(&[1, 3, 4]), Err(DeviceError::Line(0)));
    assert_eq!(with(&[0, 50, 4, 7, 7, 7]), Err(DeviceError::Line(1)));
    assert_eq!(with(&[0, 50]), Err(DeviceError::Line(0)));
    let many: Vec<u32> = (0..9).flat_map(|line| [0, line, 4]).collect();
    assert_eq!(with(&many), Err(DeviceError::ManyLines));
    let other = gpio().with("interrupt-parent", 7u32);
    assert_eq!(device(other), Err(DeviceError::Line(0)));
    let extended = |cells: &[u32]| {
        let mut node = gpio().with("interrupts-extended", cells);
        node.remove_property("interrupts");
        device(node)
    };
    let elsewhere = extended(&[1, 0, 51, 8, 7, 1]);
    assert_eq!(elsewhere, Err(DeviceError::Line(1)));
    let found = extended(&[1, 0, 51, 8, 1, 0, 52, 4]).unwrap().interrupts;
    let line = |number, trigger| HostLine {
        id: IntId::spi(number),
        trigger,
    };
    assert_eq!(found, [line(51, 8), line(52, 4)]);
}

#[test]
fn registers_must_be_reachable_and_few() {
    let with = |reg: &[u32]| {
        let mut node = gpio();
        node.remove_property("reg");
        device(node.with("reg", reg))
    };
    assert_eq!(with(&[0x1000, 0x1000]), Err(DeviceError::NoRegisters));
    assert_eq!(with(&[0x7e10_0000, 0]), Err(DeviceError::NoRegisters));
    let far: Vec<u32> = (0..5)
        .flat_map(|page| [0x7e10_0000 + page * 0x2000, 4])
        .collect();
    assert_eq!(with(&far), Err(DeviceError::ManyRegisters));
    assert_eq!(with(&far[..8]).unwrap().registers.len(), 4);
}

#[test]
fn an_oscillator_is_a_fixed_clock_where_its_rate_is_known_or_nobody_asks() {
    let clocks = |handles: &[u32], names: &[&str]| -> Vec<u32> {
        let node = gpio().with("clocks", handles).with("clock-names", names);
        let found = device(node).unwrap().clocks;
        found.iter().map(|clock| clock.frequency).collect()
    };
    assert_eq!(clocks(&[0x28], &["uartclk"]), [24_000_000]);
    assert_eq!(clocks(&[0x29], &["uartclk"]), []);
    let both = ["uartclk", "apb_pclk"];
    assert_eq!(clocks(&[0x28, 0x29], &both), [24_000_000, 33_000_000]);
    assert_eq!(clocks(&[0x29, 0x28], &both), []);
}

#[test]
fn properties_that_point_elsewhere_are_left_out() {
    let node = gpio()
        .with("clocks", [5u32, 5])
        .with("clock-names", ["one", "two"].as_slice())
        .with("pinctrl-0", 7u32)
        .with("vdd-supply", 7u32)
        .with("vendor-thing", [7u32, 1])
        .with("vendor-number", 1000u32)
        .with("reg-shift", 7u32)
        .with("vendor-text", "text")
        .with("vendor-flag", [0u32; 0])
        .with("status", "okay");
    let found = device(node.clone()).unwrap();
    let names: Vec<&str> = found.properties.iter().map(|pair| &*pair.0).collect();
    let expected = [
        "compatible",
        "clock-names",
        "vendor-number",
        "reg-shift",
        "vendor-text",
        "vendor-flag",
    ];
    assert_eq!(names, expected);
    let rates: Vec<u32> = found.clocks.iter().map(|clock| clock.frequency).collect();
    assert_eq!(rates, [27_000_000; 2]);
    // One clock that is not fixed, and the names would not fit any more.
    let mut node = node;
    node.remove_property("clocks");
    let found = device(node.with("clocks", [5u32, 7, 19])).unwrap();
    assert!(found.clocks.is_empty());
    assert!(found.properties.iter().all(|pair| pair.0 != "clock-names"));
}

#[test]
fn places_are_given_one_after_the_other() {
    let two = {
        let mut node = gpio();
        node.remove_property("reg");
        node.remove_property("interrupts");
        // Two ranges in one page, and one two pages long.
        node.with(
            "reg",
            [
                0x7e10_0000u32,
                0x100,
                0x7e10_0200,
                0x100,
                0x7e10_4800,
                0x1000,
            ],
        )
        .with("interrupts", [0u32, 50, 4, 0, 51, 1, 0, 50, 4])
    };
    let host = [device(two).unwrap(), on_virt("pl061").unwrap()];
    let given = assign(&host).unwrap();
    let at = |page: u64| Ipa::new(platform::PASS_THROUGH.get() + page * 0x1000);
    let places: Vec<(Ipa, u64, u64)> = (given.iter())
        .flat_map(|device| &device.registers)
        .map(|range| (range.ipa, range.host.get(), range.len))
        .collect();
    let expected = [
        (at(0), 0xfe10_0000, 0x1000),
        (at(1), 0xfe10_4000, 0x2000),
        (at(3), 0x0903_0000, 0x1000),
    ];
    assert_eq!(places, expected);
    let lines: Vec<(u32, u32, bool)> = (given.iter())
        .flat_map(|device| &device.interrupts)
        .map(|line| (line.guest.get() - 144, line.board.get() - 32, line.edge))
        .collect();
    assert_eq!(lines, [(0, 50, false), (1, 51, true), (2, 7, false)]);
    let five: Vec<HostDevice> = (0..5).map(|_| host[1].clone()).collect();
    assert_eq!(assign(&five), None);
    let mut huge = host[1].clone();
    huge.registers = vec![span(0x1000_0000, 0x0200_1000)];
    assert_eq!(assign(&[huge.clone()]), None);
    huge.registers = vec![span(0x1000_0000, 0x0200_0000)];
    assert!(assign(&[huge]).is_some());
}

/// Ranges are one where they share a page, and not where one begins with the page behind another.
#[test]
fn ranges_that_share_a_page_are_one() {
    let given = |spans: [(u64, u64); 3]| {
        let mut host = on_virt("pl061").unwrap();
        host.registers = spans.map(|(at, len)| span(at, len)).to_vec();
        let given = assign(&[host]).unwrap();
        let places = given[0].registers.iter();
        let places =
            places.map(|range| (range.ipa.get() - 0x0c00_0000, range.host.get(), range.len));
        places.collect::<Vec<_>>()
    };
    let beside = [(0x2000, 0x800), (0x1000, 0x1000), (0x4000, 0x2000)];
    let places = [
        (0, 0x1000, 0x1000),
        (0x1000, 0x2000, 0x1000),
        (0x2000, 0x4000, 0x2000),
    ];
    assert_eq!(given(beside), places);
    let shared = [(0x1000, 0x1800), (0x2800, 0x801), (0x1ff8, 8)];
    assert_eq!(given(shared), [(0, 0x1000, 0x3000)]);
}

#[test]
fn as_much_of_a_name_is_kept_as_there_is_room_for() {
    let kept = |name: &str| {
        let mut host = on_virt("pl061").unwrap();
        host.name = name.to_owned();
        assign(&[host]).unwrap()[0].name.clone()
    };
    assert_eq!(kept("pl061@9030000"), "pl061@9030000");
    assert_eq!(kept("a b\tc\u{e9}d"), "abcd");
    let long = "a-device-whose-name-is-longer-than-32";
    assert_eq!(kept(long), long[..32]);
}

/// What begins as a phandle would: whole cells that are no text, by which the tree's nodes go, and
/// no name that means a number.
#[test]
fn values_that_begin_as_a_phandle_are_left_out() {
    // By these two the board's nodes go: as text, and as one byte of it behind zeros.
    let text = u32::from_be_bytes(*b"ab\0\0");
    let letter = u32::from(b'A');
    let kept = |name: &str, value: &[u8]| {
        let other = node("clk-other").with("phandle", text);
        let last = node("clk-last").with("phandle", letter);
        let mut own = gpio();
        own.add_property(DeviceTreeProperty::new(name, value).unwrap());
        let tree = soc([own, other, last]);
        let found = HostTree::parse(&tree).unwrap().device("gpio@7e100000");
        let properties = found.unwrap().properties;
        let value = value.to_vec();
        properties.contains(&(name.to_owned(), value))
    };
    for (value, stays) in [
        (&7u32.to_be_bytes()[..], false),
        (&[0, 0, 0, 7, 0, 0, 0, 9], false),
        (&[0, 0, 0, 9, 0, 0, 0, 7], true), // 9 is no phandle
        (&[0, 0, 0, 7, 0], true),          // no whole cells
        (&[0, 0, 0, 7, 0, 0], true),
        (&[0, 7, 0], true),
        (b"ab\0\0", true), // text
        (b"A\0\0\0", true),
        (&[0, 0, 0, b'A'], false), // text does not begin so
        (b"ab\0\0\x01\0\0\0", false),
        (b"ab\0\0a b\0", true), // a blank is text
        (b"ab\0\0a\x80b\0", false),
        (b"", true),
    ] {
        assert_eq!(kept("vendor-thing", value), stays, "{value:?}");
        assert!(kept("#thing-cells", value) && kept("reg-shift", value));
        assert!(!kept("thing-supply", value) && !kept("pinctrl-1", value));
        assert!(!kept("interrupt-parent-syscon", value) && !kept("dma-names", value));
    }
}
