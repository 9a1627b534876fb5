//! Who has which screen, and who serves it.

use crate::board::Board;
use crate::diagnostic::{Report, Words, nearest};
use crate::draft::Draft;
use crate::screens::{Screen, ScreenDraft};
use crate::shared::SharedDraft;
use crate::table::At;
use crate::transports::Transports;
use hanok_config::{MAX_MEMBERS, VirtioKind};
use std::ops::Range;

/// A screen, and its VMs.
pub(crate) struct Found {
    /// Where it is written.
    pub(crate) span: Range<usize>,
    /// The names of its VMs: first the one that serves it.
    pub(crate) members: Vec<String>,
    pub(crate) screen: Screen,
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
            displays: displays(&members, &device.value, vms),
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
                if !has_devices(report, draft, driver, from) {
                    return None;
                }
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

/// Refuses a screen whose display, keyboard or mouse the VM that serves it has not. Returns whether it has all.
fn has_devices(report: &mut Report, draft: &ScreenDraft, driver: &Draft, name: &str) -> bool {
    let mut all = true;
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
        all = false;
    }
    all
}

/// Gives the clients of a screen with a keyboard or a mouse what is typed and pointed at.
pub(crate) fn add_inputs(found: &[Found], vms: &mut [Draft]) {
    for Found {
        span,
        members,
        screen,
    } in found
    {
        if screen.keyboard.is_none() && screen.mouse.is_none() {
            continue;
        }
        let Some((from, clients)) = members.split_first() else {
            continue;
        };
        let at = |value: &String| At {
            value: value.clone(),
            span: span.clone(),
        };
        let named = |vm: &&mut Draft| {
            let name = vm.name.as_ref();
            name.is_some_and(|name| clients.contains(&name.value))
        };
        for vm in vms.iter_mut().filter(named) {
            vm.shared.push(SharedDraft {
                kind: VirtioKind::Input,
                span: span.clone(),
                from: at(from),
                device: Some(at(&screen.device)),
                source: None,
                interface: None,
                cid: None,
            });
        }
    }
}

/// The clients, from 0, that have a display of virtio's on the screen at `device`.
fn displays(members: &[String], device: &str, vms: &[Draft]) -> Vec<usize> {
    let has_one = |name: &String| {
        let mut own = vms
            .iter()
            .filter(|vm| vm.name.as_ref().is_some_and(|own| own.value == *name));
        let screens = own.next().into_iter().flat_map(|vm| &vm.screens);
        let mut here = screens.filter(|screen| screen.device.value == device);
        here.any(|screen| screen.display.is_some())
    };
    let clients = members.iter().skip(1).enumerate();
    let with_one = clients.filter(|(_, name)| has_one(name));
    with_one.map(|(client, _)| client).collect()
}

/// Gives VMs the displays that they have in place of frame buffers.
pub(crate) fn add_displays(vms: &mut [Draft]) {
    for vm in vms {
        let mine = vm.screens.iter().filter_map(|screen| {
            Some(SharedDraft {
                kind: VirtioKind::Gpu,
                span: screen.display.as_ref()?.span.clone(),
                from: screen.from.clone(),
                device: Some(screen.device.clone()),
                source: None,
                interface: None,
                cid: None,
            })
        });
        vm.shared.extend(mine);
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
