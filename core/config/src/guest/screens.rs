//! Shared screens in the guests' trees: for a client a frame buffer of the standard binding, which stock kernels have drivers
//! for (Documentation/devicetree/bindings/display/simple-framebuffer.yaml), and for the VM that serves it what it has to show.

use super::device;
use crate::write::Build;
use dtoolkit::model::DeviceTreeNode;
use hanok_types::Ipa;

/// The size of a screen's picture, and how its pixels are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenMode {
    /// Pixels in a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Bytes from a line to the next.
    pub stride: u32,
    /// The binding's name of the pixels' format: `r5g6b5`, `x8r8g8b8`.
    pub format: &'static str,
}

/// A screen, as one of its VMs is told of it.
#[derive(Clone, Copy, Debug)]
pub struct GuestScreen {
    /// Its size and format.
    pub mode: ScreenMode,
    /// What the VM that serves it is told besides; `None` for the others.
    pub panel: Option<GuestPanel>,
}

/// What shows a screen's pictures, by the addresses of the VM that serves it.
#[derive(Clone, Copy, Debug)]
pub struct GuestPanel {
    /// The registers of the board's device.
    pub device: Ipa,
    /// The registers of a keyboard.
    pub keyboard: Option<Ipa>,
    /// The registers of a mouse.
    pub mouse: Option<Ipa>,
    /// Who is shown at first: the index of a client from 1, or 0 for two side by side.
    pub front: u32,
}

impl ScreenMode {
    /// The node of a client, whose picture is at `at`.
    pub(super) fn frame_buffer(self, at: Ipa) -> DeviceTreeNode {
        let len = u64::from(self.stride) * u64::from(self.height);
        self.add_to(device("framebuffer", at))
            .with("reg", crate::write::pair(at.get(), len))
            .with("compatible", "simple-framebuffer")
    }

    pub(super) fn add_to(self, node: DeviceTreeNode) -> DeviceTreeNode {
        node.with("width", self.width)
            .with("height", self.height)
            .with("stride", self.stride)
            .with("format", self.format)
    }
}

impl GuestPanel {
    pub(super) fn add_to(self, node: DeviceTreeNode) -> DeviceTreeNode {
        let more = [
            ("hanok,device", Some(self.device)),
            ("hanok,keyboard", self.keyboard),
            ("hanok,mouse", self.mouse),
        ];
        let known = more.into_iter().filter_map(|(name, at)| Some((name, at?)));
        known
            .fold(node, |node, (name, at)| node.with(name, at.get()))
            .with("hanok,front", self.front)
    }
}
