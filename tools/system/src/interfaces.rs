//! What a VM's network interface is besides who serves it: its address of the link layer, its VLAN, its address.

use crate::diagnostic::{Report, Words};
use crate::table::{self, At, Reader};
use std::net::Ipv4Addr;

const A_MAC: &str = "an address such as \"02:00:00:00:00:01\"";
const A_VLAN: &str = "a number from 1 to 4094";
const AN_ADDRESS: &str = "the guest's IPv4 address, such as \"10.0.2.20\"";

/// The network interface of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its MAC address. The VM's frames have no other one as their sender.
    pub mac: [u8; 6],
    /// Its VLAN (IEEE 802.1Q), 1 to 4094; `None` for frames without a tag.
    pub vlan: Option<u16>,
    /// The IPv4 address that the guest has, as far as somebody has to know it.
    pub address: Option<Ipv4Addr>,
}

/// An interface as it is written.
#[derive(Clone, Debug)]
pub(crate) struct InterfaceDraft {
    pub(crate) mac: Option<At<[u8; 6]>>,
    vlan: Option<u16>,
    address: Option<Ipv4Addr>,
}

impl InterfaceDraft {
    pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        let mac = reader.get(report, "mac", A_MAC, table::word);
        let vlan = reader.get(report, "vlan", A_VLAN, |value| {
            let number = u16::try_from(table::number(value)?).ok();
            number.filter(|number| (1..=4094).contains(number))
        });
        let address = reader.get(report, "address", AN_ADDRESS, |value| {
            table::word(value)?.parse().ok()
        });
        Self {
            mac: mac.and_then(|mac| mac.judged(report, mac_of)),
            vlan: vlan.map(|vlan| vlan.value),
            address: address.map(|address| address.value),
        }
    }

    /// The interface number `index` of the VM of this name.
    pub(crate) fn resolved(&self, vm: &str, index: usize) -> Interface {
        let own = || made_up(vm, index);
        Interface {
            mac: self.mac.as_ref().map_or_else(own, |mac| mac.value),
            vlan: self.vlan,
            address: self.address,
        }
    }
}

fn mac_of(text: String) -> Result<[u8; 6], Words> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    let pair = |part: Option<&str>| {
        let digits = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let part = part.filter(|part| part.len() == 2).filter(digits)?;
        u8::from_str_radix(part, 16).ok()
    };
    let whole = mac.iter_mut().all(|byte| match pair(parts.next()) {
        Some(value) => {
            *byte = value;
            true
        }
        None => false,
    });
    let what = || format!("\"{text}\" is no MAC address of an interface");
    let remedy = format!("write {A_MAC}");
    if !whole || parts.next().is_some() {
        return Err(Words::new(
            what(),
            "it is six pairs of hexadecimal digits",
            remedy,
        ));
    }
    if mac[0] & 1 != 0 || mac == [0; 6] {
        return Err(Words::new(
            what(),
            "it is that of a group, or of nobody",
            remedy,
        ));
    }
    Ok(mac)
}

/// An address that a VM has if none is written: the same for the same name each time, and one that is administered locally
/// (IEEE 802, 8.4: the second lowest bit of the first byte). By FNV-1a, whose last bytes are those that differ.
fn made_up(vm: &str, index: usize) -> [u8; 6] {
    let bytes = vm.bytes().chain([0, index as u8]);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let [.., a, b, c, d] = (hash ^ hash >> 32).to_be_bytes();
    [0x02, 0x68, a, b, c, d]
}
