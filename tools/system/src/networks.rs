//! Network interfaces of the board that QEMU is to make.

use crate::diagnostic::Report;
use crate::table::{self, At, Reader};
use crate::transports::{A_TRANSPORT, Transports};

const A_NETDEV: &str = "a network of QEMU's, such as \"user\" or \"tap,ifname=tap0,script=no\"";

/// A network interface of the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The number of the virtio-mmio transport at which it is.
    pub transport: u64,
    /// Where it leads: the value of QEMU's `-netdev`, without an id.
    pub netdev: String,
    /// What is led from the PC to VMs behind it, as further options of it.
    pub(crate) forwards: Vec<String>,
}

/// A `[[network]]` as it is written.
pub(crate) struct NetworkDraft {
    device: Option<At<String>>,
    netdev: Option<At<String>>,
}

impl NetworkDraft {
    pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        Self {
            device: reader.require(report, "device", A_TRANSPORT, table::word),
            netdev: reader.get(report, "netdev", A_NETDEV, table::word),
        }
    }
}

/// The networks of the board, as far as nothing is wrong with them.
pub(crate) fn resolve(
    report: &mut Report,
    transports: &mut Transports<'_>,
    drafts: &[NetworkDraft],
) -> Vec<Network> {
    let network = |draft: &NetworkDraft| {
        let transport = transports.take(report, ("network", draft.device.as_ref()?))?;
        let netdev = draft.netdev.as_ref().map_or("user", |at| &at.value);
        Some(Network {
            transport,
            netdev: netdev.to_owned(),
            forwards: Vec::new(),
        })
    };
    drafts.iter().filter_map(network).collect()
}

impl Network {
    /// The arguments by which QEMU makes the network number `index`.
    pub(crate) fn qemu_args(&self, index: usize) -> [String; 4] {
        let (kind, rest) = match self.netdev.split_once(',') {
            Some((kind, rest)) => (kind, format!(",{rest}")),
            None => (&self.netdev[..], String::new()),
        };
        let forwards = self.forwards.concat();
        let bus = self.transport;
        [
            "-netdev".to_owned(),
            format!("{kind},id=net{index}{rest}{forwards}"),
            "-device".to_owned(),
            format!("virtio-net-device,netdev=net{index},bus=virtio-mmio-bus.{bus}"),
        ]
    }
}
