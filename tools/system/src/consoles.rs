//! Consoles of the board that QEMU is to make.

use crate::diagnostic::{Report, Words};
use crate::table::{self, At, Reader};
use crate::transports::{A_TRANSPORT, Transports};

const A_CHARDEV: &str =
    "QEMU's other end of it, such as \"pty\" or \"socket,path=console,server=on,wait=off\"";
/// Where a console leads for which nothing is written.
const CHARDEV: &str = "pty";
/// QEMU's kinds of other ends that are not for a console: they take the terminal that the board's own serial port has.
const TAKEN: [&str; 2] = ["stdio", "mon"];

/// A console of the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Console {
    /// The number of the virtio-mmio transport at which it is.
    pub transport: u64,
    /// Where it leads: the value of QEMU's `-chardev`, without an id.
    pub chardev: String,
}

/// A `[[console]]` as it is written.
pub(crate) struct ConsoleDraft {
    device: Option<At<String>>,
    chardev: Option<At<String>>,
}

impl ConsoleDraft {
    pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        Self {
            device: reader.require(report, "device", A_TRANSPORT, table::word),
            chardev: reader.get(report, "chardev", A_CHARDEV, table::word),
        }
    }
}

/// The consoles of the board, as far as nothing is wrong with them.
pub(crate) fn resolve(
    report: &mut Report,
    transports: &mut Transports<'_>,
    drafts: &[ConsoleDraft],
) -> Vec<Console> {
    let mut all: Vec<Console> = Vec::new();
    for draft in drafts {
        let Some(device) = &draft.device else {
            continue;
        };
        let chardev = draft.chardev.as_ref().map_or(CHARDEV, |at| &at.value);
        if !is_free(report, draft, &all) {
            continue;
        }
        let transport = transports.take(report, ("console", device));
        all.extend(transport.map(|transport| Console {
            transport,
            chardev: chardev.to_owned(),
        }));
    }
    all
}

/// Whether nobody else has the place to which the console leads.
fn is_free(report: &mut Report, draft: &ConsoleDraft, others: &[Console]) -> bool {
    let Some(chardev) = &draft.chardev else {
        return true;
    };
    let (kind, rest) = divided(&chardev.value);
    let remedy = format!("write {A_CHARDEV}");
    let refusal = if TAKEN.contains(&kind) {
        let what = format!("a console cannot lead to \"{kind}\"");
        let why = "the terminal shows the board's serial port";
        Some(Words::new(what, why, remedy))
    } else if !rest.is_empty() && others.iter().any(|other| other.chardev == chardev.value) {
        let what = "two consoles lead to the same place";
        let why = "what both write would be mixed, and only one can open it";
        Some(Words::new(
            what,
            why,
            "give each console a place of its own",
        ))
    } else {
        None
    };
    let is_free = refusal.is_none();
    if let Some(words) = refusal {
        report.refuse(&chardev.span, words);
    }
    is_free
}

/// The kind of a `-chardev`, and its options with their comma.
fn divided(chardev: &str) -> (&str, String) {
    match chardev.split_once(',') {
        Some((kind, rest)) => (kind, format!(",{rest}")),
        None => (chardev, String::new()),
    }
}

impl Console {
    /// The arguments by which QEMU makes the console number `index`.
    pub(crate) fn qemu_args(&self, index: usize) -> [String; 6] {
        let (kind, rest) = divided(&self.chardev);
        let bus = self.transport;
        [
            "-chardev".to_owned(),
            format!("{kind},id=console{index}{rest}"),
            "-device".to_owned(),
            format!("virtio-serial-device,id=serial{index},max_ports=1,bus=virtio-mmio-bus.{bus}"),
            "-device".to_owned(),
            format!("virtconsole,chardev=console{index},bus=serial{index}.0"),
        ]
    }
}
