//! The networks that are measured: both ends in one Linux with two interfaces, or in two clients of a driver VM's switch.
//!
//! Behind the board's interfaces is a hub of QEMU's, which costs the board nothing, and where frames for nobody end.

use std::path::Path;

use hanok_boot::machine;

use super::cases::System;

/// The transport of the board's interface, or of the first of two.
const FIRST: u32 = 30;
/// Its address.
const ADDRESS: u32 = 0xa00_3c00;
/// The addresses of sender and receiver, as `guests/frame-work` has them.
pub const ENDS: [&str; 2] = ["02:00:00:00:00:10", "02:00:00:00:00:11"];
/// The address of the board's interface where it is neither's.
const BOARD: &str = "02:00:00:00:00:20";

/// The board sends what is to be sent after 150 us of its own time (`x-txtimer`), or when it is told once more, as an interface does that
/// takes its time for a frame. QEMU's other way is a thread of the PC's, whose turn hangs on the PC's load.
pub const BY_TIMER: [&str; 2] = ["-global", "virtio-net-device.tx=timer"];

/// The other end of the wire to the board's only interface: without one QEMU's hub takes no frame.
pub const OTHER_END: [&str; 2] = ["-netdev", "hubport,id=end,hubid=0"];

/// The arguments by which QEMU gives a Linux both ends.
pub fn both_ends() -> Vec<String> {
    let end = |(index, mac): (usize, &&str)| {
        let bus = FIRST + index as u32;
        [
            "-netdev".to_owned(),
            format!("hubport,id=net{index},hubid=0"),
            "-device".to_owned(),
            format!("virtio-net-device,netdev=net{index},mac={mac},bus=virtio-mmio-bus.{bus}"),
        ]
    };
    ENDS.iter().enumerate().flat_map(end).collect()
}

/// What QEMU has as its end of the board's only interface where somebody waits at `outside`.
fn to_outside(outside: &Path) -> String {
    let path = machine::escaped(outside);
    format!("stream,server=off,addr.type=unix,addr.path={path}")
}

/// The arguments by which QEMU gives a Linux the sender's end, whose other end is who waits at `outside`.
pub fn one_end(outside: &Path) -> Vec<String> {
    interface(&to_outside(outside), ENDS[0])
}

/// The arguments by which QEMU gives the board an interface that belongs to none of the ends, before a hub, or before who waits at `outside`.
pub fn board_s(outside: Option<&Path>) -> Vec<String> {
    let netdev = outside.map_or("hubport,hubid=0".to_owned(), to_outside);
    interface(&netdev, BOARD)
}

fn interface(netdev: &str, mac: &str) -> Vec<String> {
    [
        "-netdev".to_owned(),
        format!("{netdev},id=net0"),
        "-device".to_owned(),
        format!("virtio-net-device,netdev=net0,mac={mac},bus=virtio-mmio-bus.{FIRST}"),
    ]
    .to_vec()
}

/// The description of two clients of a switch, the sender first, and of their driver VM, on a board of this name. With `outside` there is one
/// client, and who waits there.
pub fn description(
    board: &str,
    system: System,
    (kernel, cmdline): (&str, &str),
    outside: Option<&Path>,
) -> String {
    let clients = system.cores() - 1;
    let memory = crate::boards::GUEST_MEMORY >> 20;
    let (roles, netdev) = match outside {
        Some(outside) => (&["take"][..], to_outside(outside)),
        None => (&["send", "receive"][..], "hubport,hubid=0".to_owned()),
    };
    let ends = roles.iter().zip(ENDS);
    let client = |(role, mac): (&&str, &str)| {
        format!(
            "[[vm]]
name = \"{role}\"
kernel = \"{kernel}\"
initramfs = \"busybox\"
initramfs-modules = []
cmdline = \"console=ttyAMA0 {cmdline} bench.role={role}\"
memory = \"{memory}M\"
cpus = [{clients}]

[[vm.network]]
from = \"drivers\"
device = \"virtio_mmio@{ADDRESS:x}\"
mac = \"{mac}\"

"
        )
    };
    let clients: String = ends.map(client).collect();
    format!(
        "board = \"{board}\"
cores = {cores}

[[network]]
device = \"virtio_mmio@{ADDRESS:x}\"
netdev = \"{netdev}\"

{clients}[[vm]]
name = \"drivers\"
kernel = \"guest:driver\"
memory = \"64M\"
cpus = [0]
devices = [\"virtio_mmio@{ADDRESS:x}\"]
trusted = true
",
        cores = system.cores(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_have_the_addresses_of_the_clients() {
        let text = description("qemu-virt", System::HanokApart, ("debian:6.1", "a=b"), None);
        let arguments = both_ends().join(" ");
        for mac in ENDS {
            assert!(text.contains(mac) && arguments.contains(mac), "{mac}");
        }
        assert_eq!(text.matches("cpus = [1]").count(), 2);
        assert!(text.contains("bench.role=send") && text.contains("bench.role=receive"));
    }

    #[test]
    fn what_comes_from_outside_goes_to_one_client() {
        let outside = Path::new("/tmp/outside");
        let (kernel, netdev) = (("debian:6.1", "a=b"), to_outside(outside));
        let text = description("qemu-virt", System::Hanok, kernel, Some(outside));
        assert_eq!(text.matches("[[vm.network]]").count(), 1);
        assert!(
            text.contains("bench.role=take") && text.contains(ENDS[0]),
            "{text}"
        );
        assert!(text.contains(&format!("netdev = \"{netdev}\"")), "{text}");
        let native = one_end(outside).join(" ");
        assert!(
            native.contains(ENDS[0]) && native.contains(&netdev),
            "{native}"
        );
        // The board's own interface is neither end.
        for outside in [None, Some(outside)] {
            let board = board_s(outside).join(" ");
            assert!(ENDS.iter().all(|mac| !board.contains(mac)), "{board}");
        }
    }
}
