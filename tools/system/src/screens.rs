//! `[[screen]]`: a panel of the board that several VMs show their pictures on, and `[[vm.screen]]`: who does.
//!
//! The pictures are the memory of a channel ([`crate::channels`]), one after the other. The VM that serves the screen has all
//! of it, each client its own picture alone.

use crate::board::Board;
use crate::diagnostic::{Report, Words, nearest};
use crate::draft::Draft;
use crate::table::{self, At, Reader};
use crate::transports::Transports;
use crate::vm::Vm;
use hanok_config::MAX_MEMBERS;
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
    /// What QEMU makes at which transport.
    made: Vec<(String, u64)>,
}

/// A `[[screen]]` as it is written.
pub(crate) struct ScreenDraft {
    span: Range<usize>,
    device: Option<At<String>>,
    width: Option<At<u64>>,
    height: Option<At<u64>>,
    format: Option<At<&'static str>>,
    keyboard: Option<At<String>>,
    mouse: Option<At<String>>,
    front: Option<At<String>>,
}

/// A `[[vm.screen]]` as it is written.
#[derive(Clone, Debug)]
pub(crate) struct ClientDraft {
    from: At<String>,
    device: At<String>,
}

/// A screen, and its VMs.
pub(crate) struct Found {
    /// Where it is written.
    pub(crate) span: Range<usize>,
    /// The names of its VMs: first the one that serves it.
    pub(crate) members: Vec<String>,
    pub(crate) screen: Screen,
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
    fn mode(&self, report: &mut Report, virtio: bool) -> Option<ScreenMode> {
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
    fn made(
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
            Some(Self {
                from: from?,
                device: device?,
            })
        });
        found.into_iter().flatten().flatten().collect()
    }
}

/// All screens, as far as nothing is wrong with them.
pub(crate) fn resolve(
    report: &mut Report,
    (board, transports): (&Board, &mut Transports<'_>),
    screens: &[ScreenDraft],
    vms: &[Draft],
) -> Vec<Found> {
    unknown_screens(report, screens, vms);
    let mut found = Vec::new();
    for (index, draft) in screens.iter().enumerate() {
        let virtio = board.qemu.virtio_mmio.is_some();
        let mode = draft.mode(report, virtio);
        let made = if virtio {
            draft.made(report, transports, mode)
        } else {
            Vec::new()
        };
        let Some(device) = &draft.device else {
            continue;
        };
        let same = |other: &ScreenDraft| {
            let other = other.device.as_ref();
            other.is_some_and(|other| other.value == device.value)
        };
        if !virtio && screens.iter().take(index).any(same) {
            let what = format!("a second [[screen]] at \"{}\"", device.value);
            let words = Words::new(what, "a display shows one picture", "remove one of them");
            report.refuse(&device.span, words);
            continue;
        }
        let Some(members) = members(report, draft, device, vms) else {
            continue;
        };
        let front = front(report, draft, &members);
        let (Some(mode), Some(front)) = (mode, front) else {
            continue;
        };
        let named = |at: &Option<At<String>>| at.as_ref().map(|at| at.value.clone());
        let screen = Screen {
            device: device.value.clone(),
            keyboard: named(&draft.keyboard),
            mouse: named(&draft.mouse),
            mode,
            front,
            made,
        };
        found.push(Found {
            span: draft.span.clone(),
            members,
            screen,
        });
    }
    found
}

/// Refuses what VMs have of screens that there are not.
fn unknown_screens(report: &mut Report, screens: &[ScreenDraft], vms: &[Draft]) {
    let known = || screens.iter().filter_map(|screen| screen.device.as_ref());
    for client in vms.iter().flat_map(|vm| &vm.screens) {
        let name = &client.device.value;
        if known().any(|device| device.value == *name) {
            continue;
        }
        let what = format!("there is no [[screen]] \"{name}\"");
        let why = "a [[screen]] of the file says how large the display's picture is";
        let remedy = match nearest(name, known().map(|device| device.value.as_str())) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("add a [[screen]] with device = \"{name}\", width and height"),
        };
        report.refuse(&client.device.span, Words::new(what, why, remedy));
    }
}

/// The names of the VMs of a screen: first the one that serves it, then the clients in the file's order.
fn members(
    report: &mut Report,
    draft: &ScreenDraft,
    device: &At<String>,
    vms: &[Draft],
) -> Option<Vec<String>> {
    let mut members: Vec<String> = Vec::new();
    for vm in vms {
        let mut own = vm
            .screens
            .iter()
            .filter(|own| own.device.value == device.value);
        let (Some(client), Some(name)) = (own.next(), &vm.name) else {
            continue;
        };
        if let Some(second) = own.next() {
            let what = format!("VM {} has the screen twice", name.value);
            let words = Words::new(what, "it has one picture there", "remove one of them");
            report.refuse(&second.device.span, words);
        }
        let from = &client.from.value;
        let driver = vms
            .iter()
            .find(|vm| vm.name.as_ref().is_some_and(|name| name.value == *from));
        let Some(driver) = driver.filter(|_| *from != name.value) else {
            let what = format!("VM \"{from}\" cannot serve a screen of VM {}", name.value);
            let why = "who serves it is another VM of this file, which has the board's display";
            let words = Words::new(what, why, "name that VM");
            report.refuse(&client.from.span, words);
            return None;
        };
        match members.first() {
            None => {
                has_devices(report, draft, driver, from);
                members.push(from.clone());
            }
            Some(first) if first != from => {
                let what = format!("the screen is served by {first} and by {from}");
                let why = "one VM has the board's display";
                let words = Words::new(what, why, format!("write from = \"{first}\""));
                report.refuse(&client.from.span, words);
                return None;
            }
            Some(_) => {}
        }
        members.push(name.value.clone());
    }
    let most = MAX_MEMBERS - 1;
    let (what, why, remedy) = match members.len() {
        0 => (
            "nobody has the screen".to_owned(),
            "it shows what VMs draw".to_owned(),
            format!(
                "give a VM a [[vm.screen]] with device = \"{}\"",
                device.value
            ),
        ),
        count if count > MAX_MEMBERS => (
            format!("{} VMs have the screen", count - 1),
            format!("it has room for {most} pictures"),
            "remove the [[vm.screen]] of some".to_owned(),
        ),
        _ => return Some(members),
    };
    report.refuse(&draft.span, Words::new(what, why, remedy));
    None
}

/// Refuses a screen whose display, keyboard or mouse the VM that serves it has not.
fn has_devices(report: &mut Report, draft: &ScreenDraft, driver: &Draft, name: &str) {
    let devices = [&draft.device, &draft.keyboard, &draft.mouse];
    for device in devices.into_iter().flatten() {
        let wanted = &device.value;
        if driver.devices.iter().any(|has| has.value.name == *wanted) {
            continue;
        }
        let what = format!("VM {name} has no device \"{wanted}\"");
        let why = "who serves a screen has the board's display, keyboard and mouse";
        let remedy = format!("add \"{wanted}\" to `devices` of VM {name}");
        report.refuse(&device.span, Words::new(what, why, remedy));
    }
}

/// Who is shown at first.
fn front(report: &mut Report, draft: &ScreenDraft, members: &[String]) -> Option<u32> {
    let alone = members.len() == 2;
    let Some(front) = &draft.front else {
        return Some(u32::from(alone));
    };
    let mut clients = members.iter().skip(1);
    let place = clients.position(|name| *name == front.value);
    if place.is_none() {
        let what = format!("VM \"{}\" does not have the screen", front.value);
        let why = format!("it is shared by {}", members.get(1..)?.join(", "));
        let words = Words::new(what, why, "name one of them, or remove the key");
        report.refuse(&front.span, words);
    }
    Some(place? as u32 + 1)
}

impl Screen {
    /// The bytes of a picture.
    pub(crate) fn picture(&self) -> u64 {
        u64::from(self.mode.stride) * u64::from(self.mode.height)
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

    /// Whether QEMU makes its device at a virtio transport.
    pub(crate) fn is_made(&self) -> bool {
        !self.made.is_empty()
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
