//! `[[channel]]`: memory that several VMs share, with doorbells.

use crate::diagnostic::{Report, Words, nearest};
use crate::draft::Draft;
use crate::screen_members::Found;
use crate::screens::Screen;
use crate::size;
use crate::table::{self, At, Reader};
use crate::vm::Vm;
use hanok_config::{ChannelEnd, MAX_CHANNELS, MAX_MEMBERS, MAX_PEERS};
use hanok_types::{Address, Ipa, PAGE_SIZE, Span, platform};
use std::ops::Range;

/// The alignment of each channel's memory in the VMs' window: that of a block of stage 2.
const ALIGN: u64 = 2 << 20;

const A_NAME: &str = "a name of up to 31 letters, digits and dashes";
const A_SIZE: &str = "a size such as \"64K\", a multiple of 4K";
const SOME_VMS: &str = "a list of VMs' names, such as [\"linux\", \"rtos\"]";
const A_TRUTH: &str = "true or false";

/// A channel, as it was described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// The names of its members, by their index.
    pub members: Vec<String>,
    /// The members whose doorbell is an input event of Linux's.
    pub events: Vec<String>,
    /// The screen whose pictures its memory holds: that of each member but the first, one after the other.
    pub screen: Option<Screen>,
}

impl Channel {
    /// The names of its members, by their index.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.members.iter().map(String::as_str).collect()
    }
}

/// A `[[channel]]`, as it was written.
pub(crate) struct ChannelDraft {
    span: Range<usize>,
    name: Option<At<String>>,
    size: Option<At<u64>>,
    vms: Option<At<Vec<String>>>,
    read_only: Option<At<Vec<String>>>,
    events: Option<At<Vec<String>>>,
    cached: bool,
    screen: Option<Screen>,
}

impl ChannelDraft {
    /// The channel of a screen.
    pub(crate) fn of_screen(found: Found) -> Self {
        fn at<T>(span: &Range<usize>, value: T) -> Option<At<T>> {
            let span = span.clone();
            Some(At { value, span })
        }
        let Found {
            span,
            members,
            screen,
        } = found;
        let pictures = members.len().saturating_sub(1) as u64;
        Self {
            name: at(&span, format!("screen {}", screen.device)),
            size: at(&span, screen.memory(pictures)),
            vms: at(&span, members),
            read_only: None,
            events: None,
            cached: false,
            screen: Some(screen),
            span,
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        let names = |value: &toml::de::DeValue<'_>| table::list(value, table::word);
        let cached = reader.get(report, "cached", A_TRUTH, table::truth);
        Self {
            span: reader.span.clone(),
            name: reader.require(report, "name", A_NAME, crate::draft::vm_name),
            size: reader.require(report, "size", A_SIZE, table::size),
            vms: reader.require(report, "vms", SOME_VMS, names),
            read_only: reader.get(report, "read-only", SOME_VMS, names),
            events: reader.get(report, "events", SOME_VMS, names),
            cached: cached.is_some_and(|at| at.value),
            screen: None,
        }
    }

    /// The bytes of the board's memory that it takes.
    pub(crate) fn memory(&self) -> Option<(u64, &Range<usize>)> {
        self.size.as_ref().map(|size| (size.value, &size.span))
    }
}

/// Checks all channels. The VMs are those of `drafts`.
pub(crate) fn check(report: &mut Report, channels: &[ChannelDraft], drafts: &[Draft]) {
    if let Some(first) = channels.get(platform::CHANNELS) {
        let what = format!("more than {} channels", platform::CHANNELS);
        let why = "the virtual platform has no place for their registers";
        let words = Words::new(what, why, "remove those from here on");
        report.refuse(&first.span, words);
    }
    for (index, channel) in channels.iter().enumerate() {
        let mut earlier = channels.iter().take(index);
        let same = |other: &ChannelDraft| {
            let names = other.name.as_ref().zip(channel.name.as_ref());
            names.is_some_and(|(other, own)| other.value == own.value)
        };
        if let Some(name) = channel.name.as_ref().filter(|_| earlier.any(same)) {
            let what = format!("a second channel is called \"{}\"", name.value);
            let why = "guests find channels by their names";
            report.refuse(&name.span, Words::new(what, why, "give it another name"));
        }
        channel.check_size(report);
        channel.check_members(report, drafts);
    }
    check_window(report, channels);
    check_vms(report, channels, drafts);
}

/// Refuses what does not fit into the VMs' window for channels.
fn check_window(report: &mut Report, channels: &[ChannelDraft]) {
    let mut used: u64 = 0;
    for (size, span) in channels.iter().filter_map(ChannelDraft::memory) {
        let before = used;
        used = used.saturating_add(size.checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX));
        if used > platform::CHANNEL_MEMORY_SIZE {
            let what = format!("no place for a channel of {}", size::show(size));
            let room = size::show(platform::CHANNEL_MEMORY_SIZE);
            let why = format!(
                "all channels share a window of {room}, in which each takes whole blocks of 2M"
            );
            let left = size::show(platform::CHANNEL_MEMORY_SIZE.saturating_sub(before));
            let remedy = format!("{left} are left: make it smaller, or others before it");
            report.refuse(span, Words::new(what, why, remedy));
            return;
        }
    }
}

/// Refuses a VM with too many channels, or too many peers.
fn check_vms(report: &mut Report, channels: &[ChannelDraft], drafts: &[Draft]) {
    for name in drafts.iter().filter_map(|draft| draft.name.as_ref()) {
        let (mut own, mut peers) = (0, 0);
        for vms in channels.iter().filter_map(|channel| channel.vms.as_ref()) {
            if !vms.value.contains(&name.value) {
                continue;
            }
            own += 1;
            peers += vms.value.len().saturating_sub(1);
            let (what, why) = if own > MAX_CHANNELS {
                let what = format!("VM {} has more than {MAX_CHANNELS} channels", name.value);
                (what, "the hypervisor has no room for them")
            } else if peers > MAX_PEERS {
                let what = format!(
                    "VM {} has more than {MAX_PEERS} peers on its channels",
                    name.value
                );
                (
                    what,
                    "when it ends, all are told at once, which must not take long",
                )
            } else {
                continue;
            };
            let remedy = "remove the VM from here, or from another channel";
            report.refuse(&vms.span, Words::new(what, why, remedy));
            break;
        }
    }
}

impl ChannelDraft {
    fn check_size(&self, report: &mut Report) {
        let Some(size) = &self.size else { return };
        if size.value != 0 && size.value.is_multiple_of(PAGE_SIZE) {
            return;
        }
        let what = format!("a channel cannot have {} bytes", size.value);
        let why = "its memory is mapped in pages of 4K";
        let next = size.value.max(1).checked_next_multiple_of(PAGE_SIZE);
        let remedy = format!("make it \"{}K\"", next.unwrap_or(PAGE_SIZE) >> 10);
        report.refuse(&size.span, Words::new(what, why, remedy));
    }

    fn check_members(&self, report: &mut Report, drafts: &[Draft]) {
        let Some(vms) = &self.vms else { return };
        let known = || drafts.iter().filter_map(|draft| draft.name.as_ref());
        for (index, vm) in vms.value.iter().enumerate() {
            if !known().any(|name| name.value == *vm) {
                let what = format!("there is no VM \"{vm}\"");
                let names: Vec<_> = known().map(|name| name.value.as_str()).collect();
                let why = format!("the system has {}", names.join(", "));
                let remedy = match nearest(vm, names) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => "name one of them".to_owned(),
                };
                report.refuse(&vms.span, Words::new(what, why, remedy));
            }
            if vms.value[..index].contains(vm) {
                let what = format!("VM \"{vm}\" is on the channel twice");
                let why = "a member has one index, by which its peers know it";
                report.refuse(&vms.span, Words::new(what, why, "name it once"));
            }
        }
        let count = vms.value.len();
        if !(2..=MAX_MEMBERS).contains(&count) {
            let what = format!(
                "a channel of {count} VM{}",
                if count == 1 { "" } else { "s" }
            );
            let why = format!("a channel has from 2 to {MAX_MEMBERS} members");
            let remedy = "name those that share its memory";
            report.refuse(&vms.span, Words::new(what, why, remedy));
        }
        self.check_lists(report, vms);
    }

    fn check_lists(&self, report: &mut Report, vms: &At<Vec<String>>) {
        let lists = [("read-only", &self.read_only), ("events", &self.events)];
        for (key, list) in lists {
            let Some(list) = list else { continue };
            let mut others = list.value.iter().filter(|vm| !vms.value.contains(vm));
            if let Some(vm) = others.next() {
                let what = format!("`{key}` names \"{vm}\", which is not on the channel");
                let why = "it says what members may do";
                let remedy = "add the VM to `vms`, or remove it here";
                report.refuse(&list.span, Words::new(what, why, remedy));
            }
        }
        if let Some(list) = &self.read_only
            && vms.value.iter().all(|vm| list.value.contains(vm))
        {
            let what = "nobody may write to the channel";
            let why = "its memory would stay zero for ever";
            let remedy = "leave the VM that writes out of `read-only`";
            report.refuse(&list.span, Words::new(what, why, remedy));
        }
    }
}

/// Gives the VMs their ends of the channels. What is wrong has been refused.
pub(crate) fn assign(channels: Vec<ChannelDraft>, vms: &mut [Vm]) -> Vec<Channel> {
    let mut at = platform::CHANNEL_MEMORY;
    let mut assigned = Vec::new();
    for (number, draft) in channels.into_iter().enumerate() {
        let made = draft.assign((number, at), vms);
        let Some((channel, next)) = made else { break };
        assigned.push(channel);
        at = next;
    }
    assigned
}

impl ChannelDraft {
    /// Gives the members their ends of channel `number`, whose memory is `at`. Also answers where the next one's is.
    fn assign(self, (number, at): (usize, Ipa), vms: &mut [Vm]) -> Option<(Channel, Ipa)> {
        let memory = Span::new(at, self.size?.value)?;
        let next = memory.end().align_up(ALIGN)?;
        let members = self.vms?.value;
        let read_only = self.read_only.map(|at| at.value).unwrap_or_default();
        for (index, name) in members.iter().enumerate() {
            let part = self.screen.as_ref().zip(index.checked_sub(1));
            let part = part.map(|(screen, before)| (screen.picture(), before as u64));
            let end = ChannelEnd {
                number: number.try_into().ok()?,
                index: index.try_into().ok()?,
                memory: match part {
                    Some((len, before)) => Span::new(at.checked_add(len * before)?, len)?,
                    None => memory,
                },
                read_only: read_only.contains(name),
                cached: self.cached,
            };
            let vm = vms.iter_mut().find(|vm| vm.name() == name)?;
            vm.config.channels.push(end).ok()?;
            vm.config.slots.push(end.slot()?).ok()?;
        }
        let channel = Channel {
            name: self.name?.value,
            members,
            events: self.events.map(|at| at.value).unwrap_or_default(),
            screen: self.screen,
        };
        Some((channel, next))
    }
}
