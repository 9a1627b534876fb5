//! The board's virtio-mmio transports, at which QEMU is to make devices: each has one.

use crate::board::Board;
use crate::diagnostic::{Report, Words};
use crate::table::At;

pub(crate) const A_TRANSPORT: &str =
    "a virtio device of the board, such as \"virtio_mmio@a003e00\"";
/// The bytes of a transport's registers, and the number of transports.
const STRIDE: u64 = 0x200;
const TRANSPORTS: u64 = 32;

/// The transports of a board, and which of them have a device.
pub(crate) struct Transports<'a> {
    board: &'a Board,
    used: Vec<u64>,
}

impl<'a> Transports<'a> {
    /// Those of `board`, at which nothing is.
    pub(crate) fn of(board: &'a Board) -> Self {
        let used = Vec::new();
        Self { board, used }
    }

    /// Whether the device is the board's slot for an SD card.
    pub(crate) fn is_card(&self, device: &At<String>) -> bool {
        self.board.qemu.sd_card.as_ref() == Some(&device.value)
    }

    /// The number of the transport of this name, at which `what` ("disk") is from now on.
    pub(crate) fn take(
        &mut self,
        report: &mut Report,
        (what, device): (&str, &At<String>),
    ) -> Option<u64> {
        let Some(transport) = self.number(&device.value) else {
            self.refuse(report, what, device);
            return None;
        };
        if self.used.contains(&transport) {
            let what = format!("a second device at \"{}\"", device.value);
            let words = Words::new(what, "a transport has one device", "choose another one");
            report.refuse(&device.span, words);
            return None;
        }
        self.used.push(transport);
        Some(transport)
    }

    fn refuse(&self, report: &mut Report, what: &str, device: &At<String>) {
        let card = self.board.qemu.sd_card.as_ref().filter(|_| what == "disk");
        let (why, remedy) = match (self.board.qemu.virtio_mmio, card) {
            (Some(first), _) => (
                "it is none of the board's virtio-mmio transports".to_owned(),
                format!("choose one, such as \"virtio_mmio@{:x}\"", last(first)),
            ),
            (None, Some(card)) => (
                format!(
                    "board {} has one place for a disk, its slot for an SD card",
                    self.board.name
                ),
                format!("write \"{card}\""),
            ),
            (None, None) => (
                format!("board {} has no virtio-mmio transports", self.board.name),
                format!("remove the [[{what}]], or choose another board"),
            ),
        };
        let what = format!("QEMU makes no {what} at \"{}\"", device.value);
        report.refuse(&device.span, Words::new(what, why, remedy));
    }

    fn number(&self, name: &str) -> Option<u64> {
        number(self.board, name)
    }
}

/// The number of the transport of this name.
pub(crate) fn number(board: &Board, name: &str) -> Option<u64> {
    let first = board.qemu.virtio_mmio?;
    let at = u64::from_str_radix(name.strip_prefix("virtio_mmio@")?, 16).ok()?;
    let offset = at.checked_sub(first)?;
    (at <= last(first) && offset.is_multiple_of(STRIDE)).then_some(offset / STRIDE)
}

/// The address of the last transport.
fn last(first: u64) -> u64 {
    first + (TRANSPORTS - 1) * STRIDE
}
