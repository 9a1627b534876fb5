//! The picture on a screen, where the device tree has a `simple-framebuffer`: from left to right there is more red, from top
//! to bottom more green, and every other field of 32 by 32 pixels, the first one not, has all the blue that there is.

use dtoolkit::Node;
use dtoolkit::fdt::{Fdt, FdtNode};
use hanok_guest_runtime::mmio;
use hanok_guest_runtime::tree::{Machine, number, property};

/// The side of a field in pixels.
const FIELD: u32 = 32;

/// A frame buffer.
struct Frame {
    start: u64,
    width: u32,
    height: u32,
    stride: u32,
    /// Whether a pixel has 32 bits (x8r8g8b8), else 16 (r5g6b5).
    wide: bool,
}

/// Draws the picture, if there is a screen.
pub fn draw(machine: &Machine) {
    let Some(frame) = find(machine) else { return };
    for y in 0..frame.height {
        frame.line(y);
    }
    println!("rtos: a picture of {} by {}", frame.width, frame.height);
}

fn find(machine: &Machine) -> Option<Frame> {
    let area = machine.tree;
    // SAFETY: the runtime read the tree there, and nobody changes it.
    let tree = unsafe { core::slice::from_raw_parts(area.start as *const u8, area.size as usize) };
    let root = Fdt::new(tree).ok()?.root();
    let is_it = |node: &FdtNode<'static>| {
        property(node, "compatible").is_some_and(|name| name == b"simple-framebuffer\0")
    };
    let node = root.children().find(is_it)?;
    let cell = |name| property(&node, name).map(|cell| number(cell) as u32);
    Some(Frame {
        start: number(property(&node, "reg")?.get(..8)?),
        width: cell("width")?,
        height: cell("height")?,
        stride: cell("stride")?,
        wide: property(&node, "format")? == b"x8r8g8b8\0",
    })
}

impl Frame {
    /// Draws a line, by words: the memory is mapped as a device's.
    fn line(&self, y: u32) {
        let start = self.start + u64::from(y) * u64::from(self.stride);
        let pixels = if self.wide { 1 } else { 2 };
        for (word, x) in (0..self.width).step_by(pixels).enumerate() {
            let at = start + 4 * word as u64;
            let value = if self.wide {
                self.pixel(x, y)
            } else {
                self.pixel(x, y) | self.pixel(x + 1, y) << 16
            };
            mmio::write32(at, value);
        }
    }

    fn pixel(&self, x: u32, y: u32) -> u32 {
        let blue = (x / FIELD + y / FIELD) % 2 == 1;
        let (red, green) = (x * 256 / self.width, y * 256 / self.height);
        if self.wide {
            red << 16 | green << 8 | if blue { 255 } else { 0 }
        } else {
            (red >> 3) << 11 | (green >> 2) << 5 | if blue { 31 } else { 0 }
        }
    }
}
