//! `[[screen]]`: a panel of the board that several VMs show their pictures on, and `[[vm.screen]]`: who does.
//!
//! The pictures are the memory of a channel ([`crate::channels`]), one after the other. The VM that serves the screen has all
//! of it, each client its own picture alone.

use crate::diagnostic::{Report, Words};
use crate::table::{self, At, Reader};
use crate::transports::Transports;
use crate::vm::Vm;
use hanok_abi::back_end::DISPLAY_STATE;
use hanok_config::guest::{GuestDevice, GuestPanel, ScreenMode};
use hanok_types::PAGE_SIZE;
use std::ops::Range;

const A_SCREEN: &str = "a display of the board, such as \"clcd@1f0000\" or \"virtio_mmio@a003e00\"";
const A_KEYBOARD: &str =
    "a keyboard of the board, such as \"kmi@60000\" or \"virtio_mmio@a002e00\"";
const A_MOUSE: &str = "a mouse of the board, such as \"kmi@70000\" or \"virtio_mmio@a001e00\"";
const A_WIDTH: &str = "a number of pixels, such as 640";
const A_HEIGHT: &str = "a number of lines, such as 480";
const A_FORMAT: &str = "\"r5g6b5\" or \"x8r8g8b8\"";
const A_VM: &str = "the name of the VM that serves it";
const A_WAY: &str = "\"framebuffer\" or \"virtio-gpu\"";
const A_FRONT: &str = "the name of a VM that has the screen";
/// The most pixels in a line, and the most lines: PL111 (Arm DDI 0293, 3.2.1 and 3.2.2) has no more.
const MOST: u64 = 1024;
/// A line has a multiple of so many pixels (the same, 3.2.1).
const PIXELS: u64 = 16;

/// A screen of the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screen {
    /// The board's device.
    pub device: String,
    /// The board's keyboard that decides whose picture is shown.
    pub keyboard: Option<String>,
    /// The board's mouse.
    pub mouse: Option<String>,
    /// Size and format.
    pub mode: ScreenMode,
    /// Who is shown at first: the index of a client from 1, or 0 for two side by side.
    pub front: u32,
    /// The clients, from 0, that have a display of virtio's in place of a frame buffer.
    pub displays: Vec<usize>,
    /// What QEMU makes at which transport.
    pub(crate) made: Vec<(String, u64)>,
}

/// A `[[screen]]` as it is written.
pub(crate) struct ScreenDraft {
    pub(crate) span: Range<usize>,
    pub(crate) device: Option<At<String>>,
    pub(crate) width: Option<At<u64>>,
    pub(crate) height: Option<At<u64>>,
    pub(crate) format: Option<At<&'static str>>,
    pub(crate) keyboard: Option<At<String>>,
    pub(crate) mouse: Option<At<String>>,
    pub(crate) front: Option<At<String>>,
}

/// A `[[vm.screen]]` as it is written.
#[derive(Clone, Debug)]
pub(crate) struct ClientDraft {
    pub(crate) from: At<String>,
    pub(crate) device: At<String>,
    /// Whether it is a display of virtio's, and where that is written.
    pub(crate) display: Option<At<bool>>,
}

impl ScreenDraft {
    pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        Self {
            span: reader.span.clone(),
            device: reader.require(report, "device", A_SCREEN, table::word),
            width: reader.require(report, "width", A_WIDTH, table::number),
            height: reader.require(report, "height", A_HEIGHT, table::number),
            format: reader.get(report, "format", A_FORMAT, |value| {
                match table::word(value)?.as_str() {
                    "r5g6b5" => Some("r5g6b5"),
                    "x8r8g8b8" => Some("x8r8g8b8"),
                    _ => None,
                }
            }),
            keyboard: reader.get(report, "keyboard", A_KEYBOARD, table::word),
            mouse: reader.get(report, "mouse", A_MOUSE, table::word),
            front: reader.get(report, "front", A_FRONT, table::word),
        }
    }

    /// Its size and format, where `virtio` is the kind of device behind it.
    pub(crate) fn mode(&self, report: &mut Report, virtio: bool) -> Option<ScreenMode> {
        let (width, height) = (self.width.as_ref()?, self.height.as_ref()?);
        let format = match &self.format {
            Some(format) if virtio && format.value != "x8r8g8b8" => {
                let what = format!("the screen cannot have the format {}", format.value);
                let why = "virtio's display has pixels of 32 bits alone";
                let words = Words::new(what, why, "write \"x8r8g8b8\", or remove the key");
                report.refuse(&format.span, words);
                return None;
            }
            Some(format) => format.value,
            None if virtio => "x8r8g8b8",
            None => "r5g6b5",
        };
        let wide = (PIXELS..=MOST).contains(&width.value) && width.value.is_multiple_of(PIXELS);
        if !wide {
            let what = format!("a screen cannot be {} pixels wide", width.value);
            let why = format!("a line has from {PIXELS} to {MOST} pixels, a multiple of {PIXELS}");
            let near = width.value.clamp(PIXELS, MOST).next_multiple_of(PIXELS);
            report.refuse(
                &width.span,
                Words::new(what, why, format!("make it {near}")),
            );
        }
        if !(1..=MOST).contains(&height.value) {
            let what = format!("a screen cannot have {} lines", height.value);
            let why = format!("it has from 1 to {MOST}");
            report.refuse(&height.span, Words::new(what, why, "choose another height"));
            return None;
        }
        let bytes = if format == "r5g6b5" { 2 } else { 4 };
        let (width, stride) = (
            width.value,
            width.value.checked_mul(bytes).filter(|_| wide)?,
        );
        let fits = |lines: u64| (stride * lines).is_multiple_of(PAGE_SIZE);
        if !fits(height.value) {
            let what = format!("no picture of {width} by {} fits whole pages", height.value);
            let why = "pictures lie one after the other, each in pages of 4K of its own";
            let mut more = height.value..=MOST;
            let mut less = (1..height.value).rev();
            let near = more
                .find(|lines| fits(*lines))
                .or(less.find(|lines| fits(*lines)));
            let remedy = match near {
                Some(lines) => format!("make its height {lines}"),
                None => "choose another width".to_owned(),
            };
            report.refuse(&self.height.as_ref()?.span, Words::new(what, why, remedy));
            return None;
        }
        Some(ScreenMode {
            width: width as u32,
            height: height.value as u32,
            stride: stride as u32,
            format,
        })
    }

    /// What QEMU makes for it, on a board with virtio transports.
    pub(crate) fn made(
        &self,
        report: &mut Report,
        transports: &mut Transports<'_>,
        mode: Option<ScreenMode>,
    ) -> Vec<(String, u64)> {
        let size = mode.map_or_else(String::new, |mode| {
            format!(",xres={},yres={}", mode.width, mode.height)
        });
        let wanted = [
            (&self.device, format!("virtio-gpu-device{size}")),
            (&self.keyboard, "virtio-keyboard-device".to_owned()),
            (&self.mouse, "virtio-mouse-device".to_owned()),
        ];
        let made = wanted.into_iter().filter_map(|(device, made)| {
            let at = transports.take(report, ("screen", device.as_ref()?))?;
            Some((made, at))
        });
        made.collect()
    }
}

impl ClientDraft {
    /// The screens of a VM.
    pub(crate) fn read_all(reader: &mut Reader<'_, '_>, report: &mut Report) -> Vec<Self> {
        let found = reader.tables(report, "screen", |reader, report| {
            let from = reader.require(report, "from", A_VM, table::word);
            let device = reader.require(report, "device", A_SCREEN, table::word);
            let display = reader.get(report, "as", A_WAY, |value| {
                match table::word(value)?.as_str() {
                    "framebuffer" => Some(false),
                    "virtio-gpu" => Some(true),
                    _ => None,
                }
            });
            Some(Self {
                from: from?,
                device: device?,
                display: display.filter(|at| at.value),
            })
        });
        found.into_iter().flatten().flatten().collect()
    }
}

impl Screen {
    /// The bytes of a picture.
    pub(crate) fn picture(&self) -> u64 {
        u64::from(self.mode.stride) * u64::from(self.mode.height)
    }

    /// The bytes of all pictures of so many clients, and behind them of what the VM that serves the screen keeps of each display of virtio's.
    pub(crate) fn memory(&self, clients: u64) -> u64 {
        let displays = if self.displays.is_empty() { 0 } else { clients };
        clients * self.picture() + displays * DISPLAY_STATE
    }

    /// Whether the channel's member of this index draws in its picture by itself, or serves the screen.
    pub(crate) fn is_frame_buffer(&self, index: u8) -> bool {
        let client = usize::from(index).checked_sub(1);
        client.is_none_or(|client| !self.displays.contains(&client))
    }

    /// What `vm`, which serves it, is told of the panel; `devices` are those that the VM has of the board.
    pub(crate) fn panel(&self, vm: &Vm, devices: &[GuestDevice<'_>]) -> Option<GuestPanel> {
        let address = |name: &String| {
            let mut own = vm.devices.iter();
            let place = own.position(|device| device.name == *name)?;
            devices.get(place)?.address()
        };
        Some(GuestPanel {
            device: address(&self.device)?,
            keyboard: self.keyboard.as_ref().and_then(address),
            mouse: self.mouse.as_ref().and_then(address),
            front: self.front,
        })
    }

    /// The arguments by which QEMU makes its devices.
    pub(crate) fn qemu_args(&self) -> impl Iterator<Item = String> + use<> {
        let device = |(made, bus): (String, u64)| {
            let device = format!("{made},bus=virtio-mmio-bus.{bus}");
            ["-device".to_owned(), device]
        };
        self.made.clone().into_iter().flat_map(device)
    }
}
