//! Ways from the PC to a VM behind a network interface that QEMU makes.

use crate::description::Description;
use crate::networks::Network;
use crate::shared::BackEnd;
use crate::transports;
use std::fmt;
use std::str::FromStr;

/// The address that QEMU's own network ("user") gives the first that asks.
const FIRST_ADDRESS: &str = "10.0.2.15";

/// A way from a port of the PC, on its loopback interface, to a TCP port of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The port of the PC.
    pub host: u16,
    /// The VM's name.
    pub vm: String,
    /// The VM's port.
    pub port: u16,
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let port = |text: &str| text.parse().ok().filter(|port| *port != 0);
        let parsed = match parts[..] {
            [host, vm, to] if !vm.is_empty() => port(host).zip(port(to)).map(|ports| (ports, vm)),
            _ => None,
        };
        let ((host, port), vm) =
            parsed.ok_or("it is HOSTPORT:VM:PORT, such as 2222:linux:22".to_owned())?;
        let vm = vm.to_owned();
        Ok(Self { host, vm, port })
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.host, self.vm, self.port)
    }
}

impl Description {
    /// Has QEMU's own network lead connections with a port of the PC to a port of a VM.
    ///
    /// # Errors
    /// There is no such VM, it has no network that leads to QEMU's own, or nobody knows its address there. The text says what to do.
    pub fn forward(&mut self, forward: &Forward) -> Result<(), String> {
        let name = &forward.vm;
        if !self.vms.iter().any(|vm| vm.name() == name) {
            return Err(format!("there is no VM \"{name}\""));
        }
        let served = self.vms.iter().flat_map(|vm| {
            let device = |end: &BackEnd| Some(vm.devices.get(end.device?)?.name.clone());
            vm.back_ends.iter().map(move |end| (end, device(end)))
        });
        let served: Vec<_> = served.collect();
        let mine = served.iter().filter(|(end, _)| end.client == *name);
        let mut ways = mine.filter_map(|(end, device)| {
            let interface = end.interface.as_ref()?;
            let transport = transports::number(&self.board, device.as_ref()?)?;
            let user = |network: &Network| {
                network.transport == transport && network.netdev.split(',').next() == Some("user")
            };
            let index = self.networks.iter().position(user)?;
            Some((index, interface.address, device.clone()))
        });
        let Some((index, address, device)) = ways.next() else {
            return Err(format!(
                "VM {name} has no way to QEMU's network: give it a [[vm.network]] whose device a [[network]] \
                 without `netdev` makes"
            ));
        };
        let shares = served.iter().filter(|(_, other)| *other == device).count() > 1;
        let address = match address {
            Some(address) => address.to_string(),
            None if shares => {
                return Err(format!(
                    "the network of VM {name} is shared, and its address is not known: write \
                     `address = \"10.0.2.20\"` for its [[vm.network]], and let the guest have that"
                ));
            }
            None => FIRST_ADDRESS.to_owned(),
        };
        let (host, port) = (forward.host, forward.port);
        let way = format!(",hostfwd=tcp:127.0.0.1:{host}-{address}:{port}");
        if let Some(network) = self.networks.get_mut(index) {
            network.forwards.push(way);
        }
        Ok(())
    }
}
