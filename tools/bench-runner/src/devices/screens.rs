//! The screens that are measured: a Linux that plays clips to the frame buffer of a Versatile Express' LCD, on the board itself and in a VM.
//!
//! On both sides it is the driver of `simple-framebuffer` that has the picture: on the board itself QEMU does beforehand what a boot loader
//! does, which starts the display and says in the tree where its memory is. So the same kernel runs the same code, and what differs is
//! what is below it.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use dtoolkit::fdt::Fdt;
use dtoolkit::model::DeviceTree;
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::repo;
use hanok_bench::{Gic, Side};
use hanok_boot::board::Ready;
use hanok_boot::machine::Native;
use hanok_boot::overrides::Overrides;
use hanok_system::Architecture;

use super::cases::{System, Work};
use crate::args::BenchArgs;
use crate::boards::{Boards, CMDLINE, GUEST_MEMORY};
use crate::materials;
use crate::plan::Plan;
use crate::xen::{node, property, text};

/// The picture: the largest clip fits, and it fills whole pages.
const WIDTH: u32 = 768;
const HEIGHT: u32 = 576;
/// Bytes of a line, with five, six and five bits of the colours.
const STRIDE: u32 = 2 * WIDTH;

/// A board with an LCD.
struct Board {
    /// As `boards/` calls it.
    name: &'static str,
    /// As QEMU calls it.
    machine: &'static str,
    cpu: &'static str,
    /// The kernel's tree of it.
    tree: &'static str,
    /// The cells of an address in the root of that.
    cells: usize,
    /// The display as a description names it, and all displays in the tree.
    device: &'static str,
    displays: &'static [&'static str],
    /// The display's registers, and the memory for its picture: the board's video memory.
    registers: u32,
    memory: u32,
}

const A15: Board = Board {
    name: "vexpress-a15",
    machine: "vexpress-a15,audiodev=none",
    cpu: "cortex-a15",
    tree: "vexpress-v2p-ca15-tc1.dtb",
    cells: 2,
    device: "clcd@1f0000",
    displays: &["/bus@8000000/motherboard-bus@8000000/iofpga-bus@300000000/clcd@1f0000"],
    registers: 0x1c1f_0000,
    memory: 0x1800_0000,
};

const A9: Board = Board {
    name: "vexpress-a9",
    machine: "vexpress-a9,audiodev=none",
    cpu: "cortex-a9",
    tree: "vexpress-v2p-ca9.dtb",
    cells: 1,
    device: "clcd@10020000",
    displays: &[
        "/clcd@10020000",
        "/bus@40000000/motherboard-bus@40000000/iofpga@7,00000000/clcd@1f000",
    ],
    registers: 0x1002_0000,
    memory: 0x4c00_0000,
};

const fn board(work: Work) -> &'static Board {
    match work {
        Work::ScreensPl1 => &A9,
        _ => &A15,
    }
}

/// What is gathered for these boards: 32-bit Linux, whose kernel has no long descriptors, so that both can boot it.
pub fn plan(args: &BenchArgs) -> Outcome<Plan> {
    let asked = Plan::of(&BenchArgs {
        board: None,
        cpu: None,
        ..args.clone()
    })?;
    Ok(Plan {
        architecture: Architecture::Arm,
        extensions: false,
        gics: vec![Gic::V2],
        cpu: A15.cpu.to_owned(),
        sides: [Side::Native, Side::Hanok]
            .into_iter()
            .filter(|side| asked.wants(*side))
            .collect(),
        figures: Vec::new(),
        rounds: 1,
        operations: false,
        ..asked
    })
}

/// The board of `work` that is one of these, with Linux on `system`; `None` where that has no screen.
pub fn prepare(
    boards: &Boards,
    (system, work): (System, Work),
    userland: PathBuf,
    words: &str,
) -> Outcome<Option<Ready>> {
    let (board, cmdline) = (board(work), format!("{CMDLINE} {words}"));
    let name = work.name(system);
    match system {
        System::Native => {
            let tree = boards.dir.join(&name).with_extension("dtb");
            let bytes = given_tree(boards, board).blame(Code::Setup)?;
            repo::write_whole(&tree, &bytes).blame(Code::Output)?;
            let native = Native {
                machine: board.machine,
                cpu: board.cpu,
                cores: 1,
                memory: GUEST_MEMORY,
                kernel: &boards.materials.kernel.image,
                firmware: false,
                initramfs: Some(&userland),
                cmdline: &format!("console=ttyAMA0 {cmdline}"),
            };
            let mut ready = boards.native_machine(&native);
            ready.command.args(["-audiodev", "none,id=none", "-dtb"]);
            ready.command.arg(tree).args(started(board));
            Ok(Some(ready))
        }
        System::Hanok => {
            let path = boards.dir.join(&name).with_extension("toml");
            let text = description(board, materials::kernel(boards.plan), &cmdline);
            repo::write_whole(&path, text.as_bytes()).blame(Code::Output)?;
            let ready = boards.hanok_of(&name, &path, &Overrides::default(), Some(userland))?;
            Ok(Some(ready))
        }
        System::HanokApart | System::Kvm | System::Xen => Ok(None),
    }
}

/// The description of a client with a picture on the LCD, and of its driver VM, which share a core.
fn description(board: &Board, kernel: &str, cmdline: &str) -> String {
    let (name, device) = (board.name, board.device);
    format!(
        "board = \"{name}\"
cores = 1

[[screen]]
device = \"{device}\"
width = {WIDTH}
height = {HEIGHT}

[[vm]]
name = \"linux\"
kernel = \"{kernel}\"
initramfs = \"busybox\"
initramfs-modules = []
cmdline = \"console=ttyAMA0 {cmdline}\"
memory = \"{memory}M\"
cpus = [0]

[[vm.screen]]
from = \"drivers\"
device = \"{device}\"

[[vm]]
name = \"drivers\"
kernel = \"guest:driver\"
memory = \"64M\"
cpus = [0]
devices = [\"{device}\"]
trusted = true
",
        memory = GUEST_MEMORY >> 20,
    )
}

/// The board's tree as a boot loader leaves it that has started the display: a `simple-framebuffer`, and no display for another driver.
fn given_tree(boards: &Boards, board: &Board) -> Result<Vec<u8>> {
    let path = boards.materials.kernel.tree(board.tree)?;
    let bytes = fs::read(&path).with_context(|| format!("no {}", path.display()))?;
    let bytes = hanok_system::with_cores(&bytes, 1).context("the board's tree has no CPUs")?;
    with_frame_buffer(&bytes, board)
}

fn with_frame_buffer(tree: &[u8], board: &Board) -> Result<Vec<u8>> {
    let flat = Fdt::new(tree).map_err(|error| anyhow!("the board's tree: {error}"))?;
    let mut tree = DeviceTree::from_fdt(&flat);
    for path in board.displays {
        let display = tree.find_node_mut(path);
        let display = display.with_context(|| format!("the board's tree has no {path}"))?;
        display.add_property(property("status", text("disabled"))?);
    }
    let mut frames = node(&format!("framebuffer@{:x}", board.memory))?;
    let reg = [board.memory, STRIDE * HEIGHT]
        .into_iter()
        .flat_map(|word| {
            let bytes = u64::from(word).to_be_bytes();
            bytes[8 - 4 * board.cells..].to_vec()
        });
    frames.add_property(property("compatible", text("simple-framebuffer"))?);
    frames.add_property(property("reg", reg.collect())?);
    for (name, value) in [("width", WIDTH), ("height", HEIGHT), ("stride", STRIDE)] {
        frames.add_property(property(name, value.to_be_bytes().to_vec())?);
    }
    frames.add_property(property("format", text("r5g6b5"))?);
    tree.root.add_child(frames);
    Ok(tree.to_dtb())
}

/// What makes QEMU start the display at reset, as `guests/driver` does (Arm DDI 0293, chapter 3): the timing of lines and pictures, where the
/// picture is, and that it runs with pixels of 16 bits on a panel of TFTs.
fn started(board: &Board) -> Vec<String> {
    const PORCHES: u32 = 0x0f0f_0f00;
    let registers = [
        (0x00, PORCHES | (WIDTH / 16 - 1) << 2),
        (0x04, HEIGHT - 1),
        (0x08, 0x0400_1800 | (WIDTH - 1) << 16),
        (0x10, board.memory),
        (0x18, 0x092d),
    ];
    let word = |(offset, value): (u32, u32)| {
        let at = board.registers + offset;
        let word = format!("loader,addr={at:#x},data={value:#x},data-len=4");
        ["-device".to_owned(), word]
    };
    registers.into_iter().flat_map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parsed;
    use dtoolkit::{Node, Property};

    #[test]
    fn only_linux_and_our_hypervisor_have_a_screen() {
        let planned = |words: &[&str]| {
            let plan = plan(&parsed(words.iter().copied()));
            plan.map_err(|failure| failure.error).unwrap()
        };
        let all = planned(&["--devices"]);
        assert_eq!(all.sides, [Side::Native, Side::Hanok]);
        assert_eq!(all.architecture, Architecture::Arm);
        let one = planned(&["--devices", "--sides", "native,kvm"]);
        assert_eq!(one.sides, [Side::Native]);
    }

    #[test]
    fn the_board_s_tree_has_a_frame_buffer_and_no_display() {
        let mut tree = DeviceTree::new();
        tree.root.add_child(node("clcd@10020000").unwrap());
        let only = Board {
            displays: &A9.displays[..1],
            ..A9
        };
        let made = with_frame_buffer(&tree.to_dtb(), &only).unwrap();
        let made = DeviceTree::from_fdt(&Fdt::new(&made).unwrap());
        let value = |path: &str, name: &str| {
            let node = made.find_node(path)?;
            node.property(name).map(|found| found.value().to_vec())
        };
        let disabled = value("/clcd@10020000", "status");
        assert_eq!(disabled.unwrap(), b"disabled\0");
        let reg = value("/framebuffer@4c000000", "reg").unwrap();
        // 216 pages of 4 KiB, with one cell of an address.
        assert_eq!(
            reg,
            [0x4c00_0000_u32, 0xd_8000].map(u32::to_be_bytes).concat()
        );
        // A tree of another board is refused.
        assert!(with_frame_buffer(&tree.to_dtb(), &A9).is_err());
    }

    #[test]
    fn the_picture_fills_whole_pages_and_both_sides_have_one_size() {
        assert_eq!((STRIDE * HEIGHT) % 4096, 0);
        let text = description(&A15, "debian:6.1", "a=b");
        assert!(text.contains("width = 768\nheight = 576\n"), "{text}");
        let told = started(&A15).join(" ");
        assert!(told.contains("addr=0x1c1f0010,data=0x18000000,"), "{told}");
        // 768 pixels are 48 times 16; 576 lines.
        assert!(
            told.contains("data=0xf0f0fbc,") && told.contains("data=0x23f,"),
            "{told}"
        );
    }
}
