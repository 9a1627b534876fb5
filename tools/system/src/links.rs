//! Who serves which virtio device for whom, and where both ends are.

use crate::diagnostic::{Report, Words, nearest};
use crate::draft::Draft;
use crate::shared::{BackEnd, SharedDraft, Shares};
use crate::table::At;
use hanok_config::{DeviceSlot, Peer, VirtioKind, add_virtio};
use hanok_types::{VmId, platform};

/// One device with its two ends.
struct Link {
    kind: VirtioKind,
    client: usize,
    driver: usize,
    /// The index of the board's device among the driver VM's.
    device: usize,
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
        for draft in &vm.shared {
            let Some(link) = link(report, drafts, client, draft) else {
                continue;
            };
            let same = |other: &Link| (other.driver, other.device) == (link.driver, link.device);
            if let Some(other) = links.iter().find(|other| same(other)) {
                served_twice(report, draft, &name_of(drafts, other.client));
                continue;
            }
            links.push(link);
        }
    }
    links
}

fn link(report: &mut Report, drafts: &[Draft], client: usize, draft: &SharedDraft) -> Option<Link> {
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
    let devices = drafts
        .get(driver)
        .map(|vm| &vm.devices[..])
        .unwrap_or_default();
    let wanted = &draft.device.value;
    let device = devices
        .iter()
        .position(|device| device.value.name == *wanted);
    if device.is_none() {
        let what = format!("VM {from} has no device \"{wanted}\"");
        let why = "who serves a device has the board's device behind it";
        let remedy = format!("write devices = [\"{wanted}\"] for VM {from}");
        report.refuse(&draft.device.span, Words::new(what, why, remedy));
    }
    Some(Link {
        kind: draft.kind,
        client,
        driver,
        device: device?,
    })
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
    let what = format!("\"{}\" is served twice", draft.device.value);
    let why = format!("VM {other} has it, too, and neither would see what the other one writes");
    report.refuse(
        &draft.span,
        Words::new(what, why, "give each VM a disk of its own"),
    );
}
