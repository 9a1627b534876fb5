//! `[[screen]]` and `[[vm.screen]]` in descriptions: what the VMs get, and each refusal with its line.

mod common;

use common::load;
use hanok_config::VirtioKind;
use hanok_types::{Ipa, Span};

const VMS: &str = r#"[[vm]]
name = "linux"
kernel = "debian:6.1:armhf"
memory = "128M"
[[vm.screen]]
from = "drivers"
device = "clcd@1f0000"
[[vm]]
name = "rtos"
kernel = "guest:rtos:armhf"
memory = "64M"
[[vm.screen]]
from = "drivers"
device = "clcd@1f0000"
[[vm]]
name = "drivers"
kernel = "guest:driver:armhf"
memory = "32M"
devices = ["clcd@1f0000", "kmi@60000"]
trusted = true
"#;

/// A description with a screen of these lines, the first of which is the fourth.
fn with(lines: &str) -> String {
    format!("board = \"vexpress-a15\"\ncores = 3\n[[screen]]\n{lines}\n{VMS}")
}

/// The screen that all is well with, and more lines.
fn sound(lines: &str) -> String {
    with(&format!(
        "device = \"clcd@1f0000\"\nwidth = 640\nheight = 480\n{lines}"
    ))
}

/// The refusals of a whole description as "line what", and their remedies.
fn refusals(text: &str) -> Vec<(String, String)> {
    let found = load(text).expect_err("it is refused");
    let short = |found: &hanok_system::Diagnostic| {
        assert!(!found.remedy.is_empty(), "{found:?}");
        (
            format!("{} {}", found.line, found.what),
            found.remedy.clone(),
        )
    };
    found.iter().map(short).collect()
}

/// The one refusal.
fn refusal(text: &str) -> (String, String) {
    let mut all = refusals(text);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn each_client_has_its_picture_and_the_driver_vm_all_of_them() {
    let system = load(&sound("keyboard = \"kmi@60000\"\nfront = \"rtos\"")).unwrap();
    let channel = &system.channels[0];
    assert_eq!(channel.members, ["drivers", "linux", "rtos"]);
    let screen = channel.screen.as_ref().unwrap();
    assert_eq!(
        (screen.mode.stride, screen.mode.format, screen.front),
        (1280, "r5g6b5", 2)
    );
    let picture = 1280 * 480;
    let memory = |vm: usize| system.vms[vm].config.channels[0].memory;
    let at = |offset, len| Span::new(Ipa::new(0x2000_0000 + offset), len).unwrap();
    assert_eq!(memory(0), at(0, picture));
    assert_eq!(memory(1), at(picture, picture));
    assert_eq!(memory(2), at(0, 2 * picture));
    let args = system.qemu_args().join(" ");
    assert!(
        !args.contains("virtio"),
        "the board has its display: {args}"
    );
}

#[test]
fn qemu_makes_displays_and_keyboards_of_virtio() {
    let text = sound("keyboard = \"kmi@60000\"\nmouse = \"mouse\"")
        .replace("vexpress-a15", "qemu-virt")
        .replace("clcd@1f0000", "virtio_mmio@a003e00")
        .replace("kmi@60000", "virtio_mmio@a002e00")
        .replace("\"mouse\"", "\"virtio_mmio@a001e00\"")
        .replace(
            "[\"virtio_mmio@a003e00\",",
            "[\"virtio_mmio@a001e00\", \"virtio_mmio@a003e00\",",
        )
        .replace(":armhf", "");
    let system = load(&text).unwrap();
    let screen = system.channels[0].screen.as_ref().unwrap();
    assert_eq!((screen.mode.stride, screen.mode.format), (2560, "x8r8g8b8"));
    assert_eq!(screen.front, 0);
    let args = system.qemu_args().join(" ");
    for device in [
        "virtio-gpu-device,xres=640,yres=480,bus=virtio-mmio-bus.31",
        "virtio-keyboard-device,bus=virtio-mmio-bus.23",
        "virtio-mouse-device,bus=virtio-mmio-bus.15",
        "virtio-mmio.force-legacy=false",
    ] {
        assert!(args.contains(device), "{device}: {args}");
    }
    let narrow = text.replace("height = 480", "height = 480\nformat = \"r5g6b5\"");
    let (what, _) = refusal(&narrow);
    assert_eq!(what, "7 the screen cannot have the format r5g6b5");
    let elsewhere = text.replace("virtio_mmio@a002e00", "kmi@60000");
    let (what, _) = refusal(&elsewhere);
    assert_eq!(what, "7 QEMU makes no screen at \"kmi@60000\"");
}

#[test]
fn sizes_that_there_cannot_be_are_refused() {
    let of = |width: u64, height: u64| {
        refusal(&with(&format!(
            "device = \"clcd@1f0000\"\nwidth = {width}\nheight = {height}"
        )))
    };
    let is = |(what, remedy): (String, String), wanted: (&str, &str)| {
        assert_eq!((&*what, &*remedy), wanted);
    };
    is(
        of(650, 480),
        ("5 a screen cannot be 650 pixels wide", "make it 656"),
    );
    is(
        of(2048, 480),
        ("5 a screen cannot be 2048 pixels wide", "make it 1024"),
    );
    is(
        of(0, 480),
        ("5 a screen cannot be 0 pixels wide", "make it 16"),
    );
    is(
        of(800, 600),
        (
            "6 no picture of 800 by 600 fits whole pages",
            "make its height 640",
        ),
    );
    is(
        of(640, 2000),
        ("6 a screen cannot have 2000 lines", "choose another height"),
    );
    assert_eq!(
        of(640, u64::MAX / 2).0,
        format!("6 a screen cannot have {} lines", u64::MAX / 2)
    );
}

#[test]
fn who_has_a_screen_and_who_serves_it_must_fit() {
    let base = sound("keyboard = \"kmi@60000\"");
    let changed = |from: &str, to: &str| refusals(&base.replacen(from, to, 1));
    let first = |found: Vec<(String, String)>| found.into_iter().next().unwrap();
    let (what, remedy) = refusal(&sound("front = \"drivers\""));
    assert_eq!(what, "7 VM \"drivers\" does not have the screen");
    assert_eq!(remedy, "name one of them, or remove the key");
    let (what, remedy) = first(changed(
        "[\"clcd@1f0000\", \"kmi@60000\"]",
        "[\"clcd@1f0000\"]",
    ));
    assert_eq!(what, "7 VM drivers has no device \"kmi@60000\"");
    assert_eq!(remedy, "add \"kmi@60000\" to `devices` of VM drivers");
    let (what, _) = first(changed("from = \"drivers\"", "from = \"driver\""));
    assert_eq!(what, "13 VM \"driver\" cannot serve a screen of VM linux");
    let (what, _) = first(changed("from = \"drivers\"", "from = \"linux\""));
    assert_eq!(what, "13 VM \"linux\" cannot serve a screen of VM linux");
    let (what, remedy) = first(changed(
        "from = \"drivers\"\ndevice = \"clcd@1f0000\"",
        "from = \"drivers\"\ndevice = \"clcd@1f000\"",
    ));
    assert_eq!(what, "14 there is no [[screen]] \"clcd@1f000\"");
    assert_eq!(remedy, "did you mean \"clcd@1f0000\"?");
    let twice = "device = \"clcd@1f0000\"\n[[vm.screen]]\nfrom = \"drivers\"\ndevice = \"clcd@1f0000\"\n[[vm]]";
    let (what, _) = first(changed("device = \"clcd@1f0000\"\n[[vm]]", twice));
    assert_eq!(what, "17 VM linux has the screen twice");
    let other = base.replacen(
        "from = \"drivers\"\ndevice = \"clcd@1f0000\"\n[[vm]]\nname = \"drivers\"",
        "from = \"linux\"\ndevice = \"clcd@1f0000\"\n[[vm]]\nname = \"drivers\"",
        1,
    );
    let (what, remedy) = refusal(&other);
    assert_eq!(what, "20 the screen is served by drivers and by linux");
    assert_eq!(remedy, "write from = \"drivers\"");
}

#[test]
fn a_screen_that_nobody_has_or_that_is_there_twice_is_refused() {
    let alone = "board = \"vexpress-a15\"\n[[screen]]\ndevice = \"clcd@1f0000\"\nwidth = 640\nheight = 480\n\
                 [[vm]]\nname = \"a\"\nkernel = \"debian:6.1:armhf\"\nmemory = \"64M\"\n";
    assert_eq!(refusal(alone).0, "2 nobody has the screen");
    let second = sound("[[screen]]\ndevice = \"clcd@1f0000\"\nwidth = 640\nheight = 480");
    assert_eq!(
        refusal(&second).0,
        "8 a second [[screen]] at \"clcd@1f0000\""
    );
    let unknown = sound("depth = 16");
    assert!(refusal(&unknown).0.starts_with("7 unknown key `depth`"));
}

/// The screen whose first client has a display of virtio's.
fn with_display() -> String {
    sound("keyboard = \"kmi@60000\"").replacen(
        "device = \"clcd@1f0000\"\n[[vm]]",
        "device = \"clcd@1f0000\"\nas = \"virtio-gpu\"\n[[vm]]",
        1,
    )
}

#[test]
fn a_client_can_have_a_display_of_virtio_s() {
    let system = load(&with_display()).unwrap();
    let screen = system.channels[0].screen.as_ref().unwrap();
    assert_eq!(screen.displays, [0]);
    let kinds = |vm: usize| {
        let back_ends = system.vms[vm].back_ends.iter();
        let kinds = back_ends.map(|own| (own.client.as_str(), own.kind, own.device));
        kinds.collect::<Vec<_>>()
    };
    let all = [
        ("linux", VirtioKind::Input, Some(0)),
        ("linux", VirtioKind::Gpu, Some(0)),
        ("rtos", VirtioKind::Input, Some(0)),
    ];
    assert_eq!(kinds(2), all);
    // Two pictures, and what the driver VM keeps for two clients: for it alone.
    let memory = |vm: usize| system.vms[vm].config.channels[0].memory;
    let picture = 1280 * 480;
    assert_eq!(memory(2).len(), 2 * picture + 2 * 0x21000);
    assert_eq!(memory(1).end().get(), 0x2000_0000 + 2 * picture);
    // What is written as it is anyway changes nothing.
    let plain = with_display().replace("virtio-gpu", "framebuffer");
    assert_eq!(
        load(&plain).unwrap().channels,
        load(&sound("keyboard = \"kmi@60000\"")).unwrap().channels
    );
}

#[test]
fn displays_that_there_cannot_be_are_refused() {
    let (what, _) = refusal(&with_display().replace("virtio-gpu", "vga"));
    assert_eq!(
        what,
        "15 the value of `as` is not \"framebuffer\" or \"virtio-gpu\""
    );
    let untrusted = with_display().replace("trusted = true\n", "");
    let all = refusals(&untrusted);
    let (what, remedy) = &all[0];
    assert_eq!(what, "13 VM drivers cannot serve a display of virtio's");
    assert_eq!(remedy, "write `trusted = true` for VM drivers");
}
