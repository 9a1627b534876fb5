//! Who serves which virtio device for whom, and where both ends are.

use crate::diagnostic::{Report, Words, nearest};
use crate::draft::Draft;
use crate::image_rules;
use crate::interfaces::Interface;
use crate::linux_sources::{self, LinuxSource};
use crate::shared::{BackEnd, SharedDraft, Shares};
use crate::source::{Boot, KernelRef};
use crate::table::At;
use crate::vm::DeviceRef;
use hanok_config::{DeviceSlot, Peer, VirtioKind, add_virtio};
use hanok_types::{VmId, platform};

/// One device with its two ends.
struct Link {
    kind: VirtioKind,
    client: usize,
    driver: usize,
    /// The index of the board's device among the driver VM's.
    device: Option<usize>,
    source: Option<LinuxSource>,
    interface: Option<Interface>,
    cid: Option<u32>,
}

/// What each VM has of shared devices. Faults are in the report, and what they are about is left out.
pub(crate) fn resolve(report: &mut Report, drafts: &[Draft]) -> Vec<Shares> {
    let links = links(report, drafts);
    let own = |vm: usize| {
        let entropy = drafts.get(vm).is_some_and(|draft| draft.entropy);
        entropy.then_some((VirtioKind::Entropy, None)).into_iter()
    };
    let first = |vm: usize| {
        drafts
            .get(vm)
            .map_or(0, |draft| draft.platform_slots().len())
    };
    // The slots of a VM: the platform's, its virtio devices, those that it serves.
    let count_of = |vm: usize, before: usize| {
        let earlier = links.iter().take(before);
        earlier.filter(|link| link.client == vm).count() + own(vm).count()
    };
    let front = |index: usize, link: &Link| Peer {
        vm: VmId::new(link.client as u8),
        slot: (first(link.client) + count_of(link.client, index)) as u8,
    };
    let back = |index: usize, link: &Link| {
        let earlier = links.iter().take(index);
        let place = earlier.filter(|other| other.driver == link.driver).count();
        let before = count_of(link.driver, links.len());
        (place, first(link.driver) + before + place)
    };
    let mut all = Vec::new();
    for (vm, draft) in drafts.iter().enumerate() {
        let mut shares = Shares {
            slots: draft.platform_slots(),
            back_ends: Vec::new(),
        };
        let mine = links.iter().enumerate();
        let mine = mine.filter(|(_, link)| link.client == vm);
        let virtio = own(vm).chain(mine.map(|(index, link)| {
            let slot = back(index, link).1 as u8;
            let vm = VmId::new(link.driver as u8);
            (link.kind, Some(Peer { vm, slot }))
        }));
        let mut fits = add_virtio(&mut shares.slots, virtio);
        for (index, link) in links
            .iter()
            .enumerate()
            .filter(|(_, link)| link.driver == vm)
        {
            let (place, slot) = back(index, link);
            let slot_of = DeviceSlot::back_end(place, front(index, link));
            fits &= slot_of.is_some_and(|slot| shares.slots.push(slot).is_ok());
            shares.back_ends.push(BackEnd {
                client: name_of(drafts, link.client),
                kind: link.kind,
                device: link.device,
                source: link.source.clone(),
                interface: link.interface.clone(),
                cid: link.cid,
                slot,
            });
        }
        if !fits {
            too_many(report, draft);
        }
        all.push(shares);
    }
    all
}

fn name_of(drafts: &[Draft], vm: usize) -> String {
    let name = drafts.get(vm).and_then(|draft| draft.name.as_ref());
    name.map(|name| name.value.clone()).unwrap_or_default()
}

fn too_many(report: &mut Report, draft: &Draft) {
    let what = "the VM has too many virtio devices, or serves too many";
    let why = format!(
        "it can have {} devices in all, and serve {}",
        hanok_config::MAX_SLOTS,
        platform::BACK_ENDS
    );
    report.refuse(&draft.span, Words::new(what, why, "divide them among VMs"));
}

fn links(report: &mut Report, drafts: &[Draft]) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    for (client, vm) in drafts.iter().enumerate() {
        for (number, draft) in vm.shared.iter().enumerate() {
            let Some(link) = link(report, drafts, (client, number), draft) else {
                continue;
            };
            let same = |other: &&Link| {
                other.driver == link.driver && other.device == link.device && link.device.is_some()
            };
            // A network has several VMs, and so has a screen, with its keyboard.
            let of_screen = |link: &Link| matches!(link.kind, VirtioKind::Input | VirtioKind::Gpu);
            let shared = |other: &Link| {
                let network = other.kind == link.kind && link.kind == VirtioKind::Network;
                network || of_screen(other) && of_screen(&link)
            };
            if let Some(other) = links.iter().find(|other| same(other) && !shared(other)) {
                served_twice(report, draft, &name_of(drafts, other.client));
                continue;
            }
            let twin = links.iter().find(|other| collide(other, &link));
            if let (Some(other), Some(source)) = (twin, &draft.source) {
                linux_sources::served_twice(report, source, &name_of(drafts, other.client));
                continue;
            }
            let mac = |link: &Link| Some((link.driver, link.interface.as_ref()?.mac));
            let twin = links.iter().find(|other| mac(other) == mac(&link));
            if let Some(other) = twin.filter(|_| link.interface.is_some()) {
                same_mac(report, draft, &name_of(drafts, other.client));
                continue;
            }
            let twin = links
                .iter()
                .find(|other| link.cid.is_some() && other.cid == link.cid);
            if let Some(other) = twin.filter(|other| other.driver == link.driver) {
                same_cid(report, draft, &name_of(drafts, other.client));
                continue;
            }
            if link.kind == VirtioKind::Network
                && has_no_place(report, drafts, &links, &link, draft)
            {
                continue;
            }
            links.push(link);
        }
    }
    links
}

/// Whether one VM cannot serve both, for what it has behind them.
fn collide(one: &Link, other: &Link) -> bool {
    let sources = one.source.as_ref().zip(other.source.as_ref());
    one.driver == other.driver && sources.is_some_and(|(one, other)| one.collides(other))
}

/// What comes of `draft`, the shared device number `number` of a VM.
fn link(
    report: &mut Report,
    drafts: &[Draft],
    (client, number): (usize, usize),
    draft: &SharedDraft,
) -> Option<Link> {
    let from = &draft.from.value;
    let named = |vm: &Draft| vm.name.as_ref().is_some_and(|name| name.value == *from);
    let Some(driver) = drafts.iter().position(named) else {
        unknown_vm(report, drafts, &draft.from);
        return None;
    };
    if driver == client {
        let what = "a VM is to serve its own device";
        let why = "who serves a device is another VM, which has the board's device";
        let remedy = "name that VM, or give this one the board's device alone";
        report.refuse(&draft.from.span, Words::new(what, why, remedy));
        return None;
    }
    let vm = drafts.get(driver)?;
    let devices = &vm.devices[..];
    if matches!(draft.kind, VirtioKind::Vsock | VirtioKind::Gpu) && !vm.trusted {
        not_trusted(report, draft);
        return None;
    }
    let source = match &draft.source {
        Some(source) => Some(image_rules::served(source, report, (from, vm))?),
        None => {
            image_rules::refuse_without_tap(report, draft, (from, vm))?;
            None
        }
    };
    let device = match &draft.device {
        Some(wanted) => Some(device_of(report, (from, devices), wanted)?),
        None => None,
    };
    let name = name_of(drafts, client);
    let interface = draft.interface.as_ref();
    Some(Link {
        kind: draft.kind,
        client,
        driver,
        device,
        source,
        interface: interface.map(|interface| interface.resolved(&name, number)),
        cid: draft.cid.as_ref().map(|at| at.value),
    })
}

/// The index of the device of this name among those that the VM `from` has.
fn device_of(
    report: &mut Report,
    (from, devices): (&str, &[At<DeviceRef>]),
    wanted: &At<String>,
) -> Option<usize> {
    let name = &wanted.value;
    let mut all = devices.iter();
    let device = all.position(|device| device.value.name == *name);
    if device.is_none() {
        let what = format!("VM {from} has no device \"{name}\"");
        let why = "who serves a device has the board's device behind it";
        let remedy = format!("write devices = [\"{name}\"] for VM {from}");
        report.refuse(&wanted.span, Words::new(what, why, remedy));
    }
    device
}

fn unknown_vm(report: &mut Report, drafts: &[Draft], from: &At<String>) {
    let names = drafts.iter().filter_map(|vm| vm.name.as_ref());
    let names = names.map(|name| name.value.as_str());
    let remedy = match nearest(&from.value, names) {
        Some(known) => format!("did you mean \"{known}\"?"),
        None => "name a [[vm]] of this file".to_owned(),
    };
    let what = format!("there is no VM \"{}\"", from.value);
    let why = "the VM that serves a device is one of the system's";
    report.refuse(&from.span, Words::new(what, why, remedy));
}

fn served_twice(report: &mut Report, draft: &SharedDraft, other: &str) {
    let device = draft.device.as_ref().map_or("", |at| &at.value);
    let what = format!("\"{device}\" is served twice");
    let why = format!("VM {other} has it, too, and neither would see what the other one writes");
    let noun = match draft.kind {
        VirtioKind::Console => "console",
        VirtioKind::Directory => "directory",
        _ => "disk",
    };
    report.refuse(
        &draft.span,
        Words::new(what, why, format!("give each VM a {noun} of its own")),
    );
}

fn same_mac(report: &mut Report, draft: &SharedDraft, other: &str) {
    let mac = draft.interface.as_ref().and_then(|own| own.mac.as_ref());
    let span = mac.map_or(&draft.span, |mac| &mac.span);
    let what = format!("the interface has the MAC address of one of VM {other}");
    let why = "frames for one of them would get to the other one";
    report.refuse(span, Words::new(what, why, "write another `mac`"));
}

fn same_cid(report: &mut Report, draft: &SharedDraft, other: &str) {
    let span = draft.cid.as_ref().map_or(&draft.span, |cid| &cid.span);
    let what = format!("VM {other} has the same CID");
    let why = "a CID is the address by which the others find one VM";
    report.refuse(span, Words::new(what, why, "write another `cid`"));
}

/// How many clients the networks of one `guest:driver` have, and to how many devices of the board they lead
/// (`guests/driver/service/src/memory.rs`: `PORTS`, `UPLINKS`).
const MOST_CLIENTS: usize = 8;
const MOST_UPLINKS: usize = 1;

/// Refuses a client of a network for which `guest:driver` has no place besides those of `links`. Returns whether it is refused.
fn has_no_place(
    report: &mut Report,
    drafts: &[Draft],
    links: &[Link],
    link: &Link,
    draft: &SharedDraft,
) -> bool {
    let driver = drafts.get(link.driver).and_then(|vm| vm.boot.as_ref());
    let is_ours = |boot: &At<Boot>| matches!(&boot.value, Boot::Kernel(KernelRef::Guest(program)) if program == "driver");
    if !driver.is_some_and(is_ours) {
        return false;
    }
    let served = |other: &&Link| other.driver == link.driver && other.kind == link.kind;
    let others = links.iter().filter(served);
    let mut devices: Vec<usize> = others.clone().filter_map(|other| other.device).collect();
    devices.extend(link.device);
    devices.sort_unstable();
    devices.dedup();
    let name = name_of(drafts, link.driver);
    let (what, why) = if others.count() >= MOST_CLIENTS {
        let what = format!("VM {name} has no place for one more network interface");
        let why = format!("\"guest:driver\" serves {MOST_CLIENTS} of them");
        (what, why)
    } else if devices.len() > MOST_UPLINKS {
        let what = format!("VM {name} has another network device already");
        let why = "\"guest:driver\" drives one network device of the board".to_owned();
        (what, why)
    } else {
        return false;
    };
    let remedy = "write one more [[vm]] with kernel = \"guest:driver\", and its name as `from`";
    report.refuse(&draft.from.span, Words::new(what, why, remedy));
    true
}

fn not_trusted(report: &mut Report, draft: &SharedDraft) {
    let from = &draft.from;
    let (served, why) = match draft.kind {
        VirtioKind::Gpu => (
            "a display of virtio's",
            "pictures are anywhere in the client's memory, which a VM may read that is trusted",
        ),
        _ => (
            "sockets",
            "packets get from one client to another by their addresses on the board, which a VM has that is trusted",
        ),
    };
    let what = format!("VM {} cannot serve {served}", from.value);
    let remedy = format!("write `trusted = true` for VM {}", from.value);
    report.refuse(&from.span, Words::new(what, why, remedy));
}
