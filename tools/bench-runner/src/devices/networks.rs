//! The networks that are measured: both ends in one Linux with two interfaces, or in two clients of a driver VM's switch.
//!
//! Behind the board's interfaces is a hub of QEMU's, which costs the board nothing, and where frames for nobody end.

use super::cases::System;

/// The transport of the board's interface, or of the first of two.
const FIRST: u32 = 30;
/// Its address.
const ADDRESS: u32 = 0xa00_3c00;
/// The addresses of sender and receiver, as `guests/frame-work` has them.
const ENDS: [&str; 2] = ["02:00:00:00:00:10", "02:00:00:00:00:11"];

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

/// The description of two clients of a switch, the sender first, and of their driver VM, on a board of this name.
pub fn description(board: &str, system: System, kernel: &str, cmdline: &str) -> String {
    let clients = system.cores() - 1;
    let memory = crate::boards::GUEST_MEMORY >> 20;
    let ends = ["send", "receive"].iter().zip(ENDS);
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
netdev = \"hubport,hubid=0\"

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
        let text = description("qemu-virt", System::HanokApart, "debian:6.1", "a=b");
        let arguments = both_ends().join(" ");
        for mac in ENDS {
            assert!(text.contains(mac) && arguments.contains(mac), "{mac}");
        }
        assert_eq!(text.matches("cpus = [1]").count(), 2);
        assert!(text.contains("bench.role=send") && text.contains("bench.role=receive"));
    }
}
