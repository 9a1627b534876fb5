//! A display of virtio's that a client has in place of a frame buffer (virtio 1.2, 5.7, without 3D and EDID).
//!
//! The client names its own memory as a resource's backing, anywhere and in pieces; this VM reads it by the hypervisor
//! (`register::FETCH`). What a transfer names is copied into the client's picture at once, if the resource is the one that is
//! shown, and all of a resource as it becomes that; no other copy of a resource is kept. So there is nothing to do at a flush.
//!
//! What is known of resources is in memory behind the pictures, which outlives a reset of this VM: the client is not told of that,
//! and sends no resource a second time. It is forgotten when the client is reset. Each command can be done twice, as one is that this VM
//! had not answered before its reset.

use super::pixels::draw;
use super::resources::{Area, Resource, Resources, Shown};
use crate::back_end::{BackEnd, Offer, Room};
use crate::memory::{BOUNCE, DISPLAY_DESCRIPTORS, DISPLAY_PLACES, DisplayMemory, address};
use crate::wanted::{Wanted, WantedScreen};
use core::sync::atomic::Ordering::Relaxed;

/// Commands (5.7.6.7).
const GET_DISPLAY_INFO: u32 = 0x0100;
const CREATE: u32 = 0x0101;
const UNREF: u32 = 0x0102;
const SET_SCANOUT: u32 = 0x0103;
const FLUSH: u32 = 0x0104;
const TRANSFER: u32 = 0x0105;
const ATTACH: u32 = 0x0106;
const DETACH: u32 = 0x0107;
/// Answers.
const OK: u32 = 0x1100;
const OK_DISPLAY_INFO: u32 = 0x1101;
const NOT_DONE: u32 = 0x1200;
const NO_MEMORY: u32 = 0x1201;
const BAD_SCANOUT: u32 = 0x1202;
const BAD_RESOURCE: u32 = 0x1203;
const BAD_PARAMETER: u32 = 0x1205;
/// The formats whose pixels have blue in the lowest byte and red in the third one: with alpha, and without.
const FORMATS: [u32; 2] = [1, 2];
/// The words of a header: kind, flags, fence in two, context, ring.
const HEADER: usize = 6;
/// The flag by which a command asks for its fence in the answer (5.7.6.7).
const FENCE: u32 = 1;
/// The words of an answer with what displays there are: 16, of 6 words each.
const INFO: usize = HEADER + 96;
/// The most pixels in a line, and the most lines of a resource.
const MOST: u32 = 16384;
/// The most bytes that are copied in one go.
const PIECE: u32 = 64 << 10;
/// The flag of a descriptor that may be written, in its last word.
const WRITE: u32 = 2;
/// The words of a descriptor.
const DESCRIPTOR: usize = 4;

/// Lines on their way from a resource into the picture.
#[derive(Clone, Copy)]
struct Copy {
    head: u16,
    /// Where they come from; `None` if they become black.
    resource: Option<Resource>,
    /// What is left.
    area: Area,
    /// Where its first pixel is in the backing.
    from: u64,
    shown: Area,
    /// The piece of the backing that was used last, and where it begins there.
    place: (u32, u64),
}

/// What comes of a command.
enum Outcome {
    Answer(u32),
    Info,
    Copy(Copy),
}

/// The display of a client.
pub struct Display {
    client: BackEnd<2>,
    memory: &'static DisplayMemory,
    interrupt: u32,
    resets: u32,
    /// Whether the client may have been reset since the last look.
    may_be_reset: bool,
    resources: Resources,
    picture: u64,
    size: [u32; 2],
    stride: u32,
    copy: Option<Copy>,
    /// How many of the next commands an earlier life of this VM may have done.
    again: u32,
}

impl Display {
    /// Offers it to client number `index` of the screen.
    pub fn start(
        wanted: &Wanted,
        screen: &WantedScreen,
        index: usize,
        memory: &'static DisplayMemory,
    ) -> Result<Self, &'static str> {
        let resources = screen.display_state(index);
        let resources = resources.ok_or("there is no memory for its resources")?;
        // No events; one display.
        let config: [u8; 16] = core::array::from_fn(|at| u8::from(at == 8));
        let offer = Offer {
            features: 0,
            config: &config,
            size: DISPLAY_PLACES as u16,
            head: 0,
            is_direct: false,
            needs_direct: false,
            mode: 0,
        };
        let [control, cursor] = &memory.rings;
        let rooms = [
            Room::new(control, &memory.commands, DISPLAY_DESCRIPTORS),
            Room::new(cursor, &memory.cursors, DISPLAY_DESCRIPTORS),
        ];
        let client = BackEnd::start(wanted.registers, rooms, &offer)?;
        client.listen(wanted.interrupt);
        println!("driver: a display for {}", wanted.client);
        let resets = client.resets();
        Ok(Self {
            again: client.again(0),
            client,
            memory,
            interrupt: wanted.interrupt,
            resets,
            may_be_reset: true,
            resources: Resources::of(resources, resets),
            picture: screen.frames + index as u64 * screen.picture(),
            size: [screen.width, screen.height],
            stride: screen.stride,
            copy: None,
        })
    }

    /// Interrupt `id` has come.
    pub fn interrupted(&mut self, id: u32) {
        if id == self.interrupt {
            self.may_be_reset |= self.client.acknowledge();
        }
    }

    /// Does what there is to do, or a piece of it. Returns whether there was nothing, and the client will interrupt.
    pub fn work(&mut self) -> bool {
        if core::mem::take(&mut self.may_be_reset) {
            self.look_for_reset();
        }
        let [_, cursors] = &mut self.client.queues;
        // Cursors are not shown.
        while let Some((head, _)) = cursors.next_request() {
            cursors.answer(head, 0);
        }
        cursors.tell();
        let listening = cursors.listen();
        if let Some(copy) = self.copy.take() {
            self.go_on(copy);
            return false;
        }
        let [commands, _] = &mut self.client.queues;
        let Some((head, bytes)) = commands.next_request() else {
            return commands.listen() && listening;
        };
        match self.command(head, bytes) {
            Outcome::Copy(copy) => self.copy = Some(copy),
            Outcome::Answer(kind) => self.answer(head, bytes, kind),
            Outcome::Info => self.answer(head, bytes, OK_DISPLAY_INFO),
        }
        false
    }

    /// Forgets everything if the client has.
    fn look_for_reset(&mut self) {
        let (resets, is_ready) = self.client.client();
        if resets == self.resets {
            return;
        }
        self.resets = resets;
        self.resources.clear(resets);
        self.again = 0;
        let [commands, _] = &mut self.client.queues;
        if let Some(copy) = self.copy.take() {
            commands.answer(copy.head, 0);
        }
        // If it is ready again, some of them are new. Those of before are done, too, and harm nobody.
        while !is_ready && let Some((head, _)) = commands.next_request() {
            commands.answer(head, 0);
        }
        commands.tell();
    }

    /// A word of a slot.
    fn slot(&self, head: u16, word: usize) -> u32 {
        let slot = self.memory.commands.get(usize::from(head));
        let word = slot.and_then(|slot| slot.get(word));
        word.map_or(0, |word| word.load(Relaxed))
    }

    /// Where the command's words are in its slot, how many there are, and how many bytes its answer may have.
    fn extent(&self, head: u16, table: u64) -> (usize, usize, u32) {
        let count = (table as usize / 16).min(DISPLAY_DESCRIPTORS);
        let (mut bytes, mut room) = (0_u32, None);
        for index in 0..count {
            let len = self.slot(head, DESCRIPTOR * index + 2);
            if self.slot(head, DESCRIPTOR * index + 3) & WRITE == 0 {
                bytes = bytes.saturating_add(len);
            } else if room.is_none() && self.slot(head, DESCRIPTOR * index) != 0 {
                room = Some(len);
            }
        }
        let start = DESCRIPTOR * DISPLAY_DESCRIPTORS;
        // The answer's place is behind the command. Where that is not of whole words, there is none.
        let whole = bytes.is_multiple_of(4);
        (
            start,
            bytes as usize / 4,
            room.filter(|_| whole).unwrap_or(0),
        )
    }

    /// Answers a command.
    fn answer(&mut self, head: u16, table: u64, kind: u32) {
        self.again = self.again.saturating_sub(1);
        let (start, words, room) = self.extent(head, table);
        let header: [u32; HEADER] = core::array::from_fn(|word| self.slot(head, start + word));
        let [_, flags, fence @ .., _] = header;
        let fenced = words >= HEADER && flags & FENCE != 0;
        let fence = if fenced { fence } else { [0; 3] };
        let [width, height] = self.size;
        let answer = [kind, u32::from(fenced) * FENCE]
            .into_iter()
            .chain(fence)
            .chain([0])
            .chain([0, 0, width, height, 1, 0])
            .chain(core::iter::repeat(0));
        let len = if kind == OK_DISPLAY_INFO {
            INFO
        } else {
            HEADER
        };
        let fits = room >= 4 * len as u32;
        let slot = self.memory.commands.get(usize::from(head));
        let place = slot.and_then(|slot| slot.get(start + words..)?.get(..len));
        let written = match place.filter(|_| fits) {
            Some(place) => {
                let words = place.iter().zip(answer);
                words.for_each(|(word, value)| word.store(value, Relaxed));
                4 * len as u32
            }
            None => 0,
        };
        let [commands, _] = &mut self.client.queues;
        commands.answer(head, written);
        commands.tell();
    }

    /// Carries a command out.
    fn command(&mut self, head: u16, table: u64) -> Outcome {
        let (start, words, _) = self.extent(head, table);
        let known = |word: usize| {
            if word < words {
                self.slot(head, start + word)
            } else {
                0
            }
        };
        // A missing word is zero, and no resource has that number.
        let parameters: [u32; 8] = core::array::from_fn(|word| known(HEADER + word));
        let kind = known(0);
        let [a, b, c, d, e, f, g, _] = parameters;
        let area = Area::of([a, b, c, d]);
        match kind {
            GET_DISPLAY_INFO => Outcome::Info,
            CREATE => Outcome::Answer(self.create([a, b, c, d])),
            UNREF | DETACH => Outcome::Answer(self.forget(a, kind == UNREF)),
            SET_SCANOUT => self.set_scanout(head, area, (e, f)),
            FLUSH => Outcome::Answer(self.check(e, area).map_or_else(|bad| bad, |_| OK)),
            TRANSFER => self.transfer(head, area, (g, u64::from(e) | u64::from(f) << 32)),
            ATTACH => Outcome::Answer(self.attach(head, (a, b), (start, words))),
            _ => Outcome::Answer(NOT_DONE),
        }
    }

    fn create(&self, [id, format, width, height]: [u32; 4]) -> u32 {
        let sizes = 1..=MOST;
        if !FORMATS.contains(&format) || !sizes.contains(&width) || !sizes.contains(&height) {
            return BAD_PARAMETER;
        }
        if id == 0 || self.again == 0 && self.resources.find(id).is_some() {
            return BAD_RESOURCE;
        }
        match self.resources.add(id, [width, height]) {
            Some(()) => OK,
            None => NO_MEMORY,
        }
    }

    /// Forgets a resource, or its backing.
    fn forget(&self, id: u32, whole: bool) -> u32 {
        match self.resources.find(id) {
            Some(resource) => {
                resource.forget(whole);
                if whole && self.resources.shown().id == id {
                    self.resources.show(Shown::default());
                }
                OK
            }
            None if self.again > 0 => OK,
            None => BAD_RESOURCE,
        }
    }

    fn attach(&self, head: u16, (id, count): (u32, u32), (start, words): (usize, usize)) -> u32 {
        let Some(resource) = self.resources.find(id) else {
            return BAD_RESOURCE;
        };
        let first = HEADER + 2;
        let has_all = words.saturating_sub(first) / 4 >= count as usize;
        let pieces = (0..count as usize).map(|piece| {
            let at = start + first + 4 * piece;
            let word = |word| self.slot(head, at + word);
            (u64::from(word(0)) | u64::from(word(1)) << 32, word(2))
        });
        if !has_all {
            return BAD_PARAMETER;
        }
        match resource.attach(pieces) {
            Some(()) => OK,
            None => NO_MEMORY,
        }
    }

    /// The resource, of which `area` is a part.
    fn check(&self, id: u32, area: Area) -> Result<Resource, u32> {
        let resource = self.resources.find(id).ok_or(BAD_RESOURCE)?;
        let [width, height] = resource.size();
        if area.is_within(width, height) {
            Ok(resource)
        } else {
            Err(BAD_PARAMETER)
        }
    }

    fn set_scanout(&self, head: u16, area: Area, (scanout, id): (u32, u32)) -> Outcome {
        if scanout != 0 {
            return Outcome::Answer(BAD_SCANOUT);
        }
        let [width, height] = self.size;
        if id == 0 {
            self.resources.show(Shown::default());
            let area = Area::of([0, 0, width, height]);
            return Outcome::Copy(Copy {
                head,
                resource: None,
                area,
                from: 0,
                shown: area,
                place: (0, 0),
            });
        }
        let resource = match self.check(id, area) {
            Ok(resource) if area.width <= width && area.height <= height => resource,
            Ok(_) => return Outcome::Answer(BAD_PARAMETER),
            Err(bad) => return Outcome::Answer(bad),
        };
        let shown = Shown { id, area };
        if self.again == 0 && self.resources.shown() == shown {
            return Outcome::Answer(OK);
        }
        self.resources.show(shown);
        if !resource.has_backing() {
            return Outcome::Answer(OK);
        }
        let [across, _] = resource.size();
        let first = u64::from(area.y) * u64::from(across) + u64::from(area.x);
        Outcome::Copy(Copy {
            head,
            resource: Some(resource),
            area,
            from: 4 * first,
            shown: area,
            place: (0, 0),
        })
    }

    fn transfer(&self, head: u16, area: Area, (id, offset): (u32, u64)) -> Outcome {
        let resource = match self.check(id, area) {
            Ok(resource) => resource,
            Err(bad) => return Outcome::Answer(bad),
        };
        if !resource.has_backing() || offset > u32::MAX.into() {
            return Outcome::Answer(BAD_PARAMETER);
        }
        let shown = self.resources.shown();
        if shown.id != id {
            return Outcome::Answer(OK);
        }
        let part = area.common(&shown.area);
        if part.width == 0 || part.height == 0 {
            return Outcome::Answer(OK);
        }
        let [across, _] = resource.size();
        let lines = u64::from(part.y - area.y) * u64::from(across);
        Outcome::Copy(Copy {
            head,
            resource: Some(resource),
            area: part,
            from: offset + 4 * (lines + u64::from(part.x - area.x)),
            shown: shown.area,
            place: (0, 0),
        })
    }

    /// Copies a piece, and answers the command after the last one.
    fn go_on(&mut self, mut copy: Copy) {
        let mut left = PIECE;
        while left > 0 && copy.area.height > 0 {
            let Some(bytes) = self.copy_lines(&mut copy) else {
                return self.end(&copy, BAD_PARAMETER);
            };
            left = left.saturating_sub(bytes);
        }
        if copy.area.height == 0 {
            self.end(&copy, OK);
        } else {
            self.copy = Some(copy);
        }
    }

    fn end(&mut self, copy: &Copy, kind: u32) {
        let table = self.memory.rings[0].table.get(usize::from(copy.head));
        let table = table.map_or(0, |entry| entry.rest.load(Relaxed) & 0xffff_ffff);
        self.answer(copy.head, table, kind);
    }

    /// Copies as many whole lines as there is room for. Returns their bytes; `None` if the client has no memory there.
    fn copy_lines(&self, copy: &mut Copy) -> Option<u32> {
        let area = copy.area;
        let resource = copy.resource;
        let across = resource.map_or(area.width, |resource| resource.size()[0]);
        let line = 4 * area.width;
        // Whole lines lie one behind the other.
        let most = if across == area.width {
            4 * BOUNCE as u32 / line
        } else {
            1
        };
        let lines = area.height.min(most).max(1);
        let bytes = line * lines;
        match resource {
            Some(resource) => self.fetch(&resource, copy, bytes)?,
            None => {
                let words = self.memory.bounce.iter().take(bytes as usize / 4);
                words.for_each(|word| word.store(0, Relaxed));
            }
        }
        let each = u64::from(self.stride / self.size[0]);
        let mut words = self.memory.bounce.iter();
        for line in 0..lines {
            let y = u64::from(area.y - copy.shown.y + line) * u64::from(self.stride);
            let x = area.x - copy.shown.x;
            draw(
                self.picture + y + each * u64::from(x),
                each,
                words.by_ref().take(area.width as usize),
            );
        }
        copy.area.y += lines;
        copy.area.height -= lines;
        copy.from += u64::from(4 * across) * u64::from(lines);
        Some(bytes)
    }

    /// Fetches bytes of the backing.
    fn fetch(&self, resource: &Resource, copy: &mut Copy, bytes: u32) -> Option<()> {
        let mut to = address(&self.memory.bounce);
        let (mut from, mut left) = (copy.from, bytes);
        while left > 0 {
            let (number, start) = copy.place;
            let (at, len) = resource.piece(number)?;
            let offset = from.checked_sub(start)?;
            if offset >= len.into() {
                copy.place = (number + 1, start + u64::from(len));
                continue;
            }
            let part = left.min(len - offset as u32);
            if !self.client.fetch(at.checked_add(offset)?, to, part) {
                return None;
            }
            (from, to, left) = (from + u64::from(part), to + u64::from(part), left - part);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
