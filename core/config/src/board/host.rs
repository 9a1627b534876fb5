//! Devices of the board, for the tool on the PC: what a VM must be given to have a device for
//! itself, and why it may not have another one.
//!
//! A VM gets whole pages and whole interrupt lines, so what is beside a device's registers matters
//! as much as the device. The trees of real boards are trusted: a device that a tree does not
//! mention cannot be found here.

use super::bridge::HostBridge;
use super::devices::{self, Line};
use super::line::HostLine;
use super::pcie;
use super::place::At;
use super::properties::{self, FixedClock};
use super::{BoardError, BoardTree};
use crate::model::{self, MAX_DEVICES, MAX_LINES, MAX_REGISTERS, PassThrough, Registers};
use crate::tree;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use hanok_types::{Address, Hpa, IntId, IntKind, Ipa, PAGE_SIZE, Span, platform};
use thiserror::Error;

/// A device of the board, with all that a VM's tree and configuration need of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDevice {
    /// Its node's name, unit address included.
    pub name: String,
    /// Its path in the board's tree.
    pub path: String,
    /// Its registers at the CPU's addresses, with the lengths of the tree; not whole pages.
    pub registers: Vec<Span<Hpa>>,
    /// Its interrupts.
    pub interrupts: Vec<HostLine>,
    /// Properties that have the same meaning in a guest's tree as in the board's.
    pub properties: Vec<(String, Vec<u8>)>,
    /// The clocks that it uses, if all of them have a fixed rate.
    pub clocks: Vec<FixedClock>,
    /// The reason why it may be a bus master, which could access all memory; `None` if it is known
    /// to be none.
    pub bus_master: Option<String>,
    /// Other devices in the same pages of registers.
    pub neighbours: Vec<Neighbour>,
    /// What a guest must know of it if it is a PCIe host bridge, whose devices an SMMU keeps to their VM's memory.
    pub bridge: Option<HostBridge>,
}

/// A device that shares a page of registers with another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its path.
    pub path: String,
    /// Whether it works, by the board's tree.
    pub works: bool,
    /// Whether it may be a bus master.
    pub is_bus_master: bool,
}

/// The reasons why no VM can have a device.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// There is no node with this name.
    #[error("the board has no device \"{0}\"")]
    Unknown(String),
    /// There are several nodes with this name.
    #[error("several nodes of the board's tree have this name: {}", .0.join(", "))]
    Ambiguous(Vec<String>),
    /// Its `status` says that it does not work.
    #[error("the board's tree says that it is switched off")]
    Off,
    /// The hypervisor uses it.
    #[error("it is {0}, which the hypervisor keeps for itself")]
    Own(&'static str),
    /// It shares a page with something that the hypervisor uses.
    #[error("its registers share a page of 4K with {0}, which the hypervisor keeps for itself")]
    Beside(&'static str),
    /// A CPU's loads and stores cannot reach it.
    #[error("its node has no registers that a CPU reaches")]
    NoRegisters,
    /// It has more ranges of registers than a VM has room for.
    #[error("it has more than {MAX_REGISTERS} ranges of registers")]
    ManyRegisters,
    /// It has more interrupts than a VM has room for.
    #[error("it has more than {MAX_LINES} interrupts")]
    ManyLines,
    /// This interrupt of it is not connected to the interrupt controller as an SPI.
    #[error("its interrupt {0} does not go to the GIC as a shared one (SPI)")]
    Line(usize),
    /// It is a PCIe host bridge whose devices nothing keeps to their VM's memory, or one of a kind that is not known.
    #[error("{0}")]
    Bridge(&'static str),
    /// The hypervisor needs this interrupt of it.
    #[error("its interrupt {0} is one that the hypervisor keeps for itself")]
    OwnLine(usize),
}

/// The board's tree, in which devices are looked up.
pub struct HostTree<'a> {
    board: BoardTree<'a>,
    root: At<'a>,
    gic: At<'a>,
    /// Every node below the root, in the tree's order.
    nodes: Vec<At<'a>>,
}

impl<'a> HostTree<'a> {
    /// Reads the tree at the start of `tree`.
    pub fn parse(tree: &'a [u8]) -> Result<Self, BoardError> {
        let board = BoardTree::parse(tree)?;
        let fdt = tree::open(tree)?;
        let root = At::root(&fdt);
        let gic = devices::find_gic(&root).ok_or(BoardError::NoGic)?;
        let mut nodes = Vec::new();
        collect(&root, &mut nodes);
        Ok(Self {
            board,
            root,
            gic,
            nodes,
        })
    }

    /// The part of the tree that the hypervisor uses.
    pub fn board(&self) -> &BoardTree<'a> {
        &self.board
    }

    /// The names of the nodes that have registers, for suggestions.
    pub fn names(&self) -> Vec<String> {
        let devices = self
            .nodes
            .iter()
            .filter(|at| registers(at).next().is_some());
        devices.map(|at| at.node().name().to_owned()).collect()
    }

    /// The device with this name: a node's name with or without its unit address, a path from the
    /// root, or an alias.
    pub fn device(&self, name: &str) -> Result<HostDevice, DeviceError> {
        let at = self.find(name)?;
        if let Some(what) = self.own(&at) {
            return Err(DeviceError::Own(what));
        }
        if !works(&at) {
            return Err(DeviceError::Off);
        }
        let is_bridge = pcie::is_bridge(&at);
        let bridge = is_bridge.then(|| self.bridge(&at)).transpose()?;
        let registers: Vec<Span<Hpa>> = match &bridge {
            Some(bridge) => bridge.registers().collect(),
            None => registers(&at).collect(),
        };
        let pages = pages(&registers);
        if let Some(what) = pages.iter().find_map(|span| self.board.owner(span)) {
            return Err(DeviceError::Beside(what));
        }
        match pages.len() {
            0 => return Err(DeviceError::NoRegisters),
            1..=MAX_REGISTERS => {}
            _ => return Err(DeviceError::ManyRegisters),
        }
        Ok(HostDevice {
            name: at.node().name().to_owned(),
            path: path(&at),
            interrupts: match &bridge {
                Some(bridge) => self.lines_of(bridge)?,
                None => self.interrupts(&at)?,
            },
            properties: properties::portable(&self.nodes, &at),
            clocks: properties::clocks(&self.nodes, &at),
            bus_master: match &bridge {
                Some(_) => None,
                None => properties::bus_master(at.node()),
            },
            neighbours: self.neighbours(&at, &registers),
            registers,
            bridge,
        })
    }

    fn find(&self, name: &str) -> Result<At<'a>, DeviceError> {
        let unknown = || DeviceError::Unknown(name.to_owned());
        if name.starts_with('/') {
            return self.root.follow(name).ok_or_else(unknown);
        }
        let named = |is: &dyn Fn(&At<'a>) -> bool| {
            let found = self.nodes.iter().filter(|at| is(at));
            let mut found: Vec<At<'a>> = found.cloned().collect();
            match found.len() {
                0 => Ok(None),
                1 => Ok(found.pop()),
                _ => Err(DeviceError::Ambiguous(found.iter().map(path).collect())),
            }
        };
        if let Some(at) = named(&|at| at.node().name() == name)? {
            return Ok(at);
        }
        if let Some(at) = devices::alias(&self.root, name) {
            return Ok(at);
        }
        named(&|at| at.node().name_without_address() == name)?.ok_or_else(unknown)
    }

    /// What the hypervisor uses the node for, if it uses it.
    fn own(&self, at: &At<'a>) -> Option<&'static str> {
        if self.gic.holds(at) {
            return Some("the interrupt controller");
        }
        let kinds = [
            ("arm,armv8-timer", "the timer"),
            ("arm,armv7-timer", "the timer"),
            ("arm,cortex-a9-global-timer", "the timer"),
            ("arm,cortex-a5-global-timer", "the timer"),
            ("arm,cortex-a9-twd-timer", "the timer"),
            ("arm,cortex-a5-twd-timer", "the timer"),
            ("arm,smmu-v3", "an SMMU"),
            ("arm,psci", "the power control"),
            ("arm,psci-0.2", "the power control"),
            ("arm,psci-1.0", "the power control"),
        ];
        let is = |kind: &&(&str, _)| tree::compatible(at.node(), kind.0);
        if let Some((_, what)) = kinds.iter().find(is) {
            return Some(what);
        }
        if tree::text(at.node(), "device_type") == Some("cpu") {
            return Some("a CPU");
        }
        registers(at).find_map(|span| self.board.owner_of_bytes(&span))
    }

    fn interrupts(&self, at: &At<'a>) -> Result<Vec<HostLine>, DeviceError> {
        let mut found: Vec<HostLine> = Vec::new();
        for index in 0.. {
            let (id, flags) = match devices::line(at, &self.gic, index) {
                Line::None => break,
                Line::Gic { id, flags } if id.kind() == IntKind::Spi => (id, flags),
                Line::Gic { .. } | Line::Other => return Err(DeviceError::Line(index)),
            };
            if self.board.owns_line(id) {
                return Err(DeviceError::OwnLine(index));
            }
            let trigger = flags & 0xf;
            found.push(HostLine { id, trigger });
            if index >= MAX_LINES {
                return Err(DeviceError::ManyLines);
            }
        }
        Ok(found)
    }

    /// What there is to know of a PCIe host bridge.
    fn bridge(&self, at: &At<'a>) -> Result<HostBridge, DeviceError> {
        // The hypervisor looks at the board's first bridge alone.
        let first = self
            .nodes
            .iter()
            .find(|at| pcie::is_bridge(at) && works(at));
        let is_first = first.is_some_and(|first| first.holds(at));
        if !is_first || pcie::smmu(at, &self.root, &self.gic).is_none() {
            return Err(DeviceError::Bridge(
                "its devices are bus masters, and no SMMUv3 of the board keeps those of its first bus from memory",
            ));
        }
        let unknown = "its node has not what a VM needs: a bus 0, a window of 32 bits, INTx interrupts of the GIC";
        HostBridge::read(at, &self.gic).ok_or(DeviceError::Bridge(unknown))
    }

    /// The interrupts of a bridge's devices.
    fn lines_of(&self, bridge: &HostBridge) -> Result<Vec<HostLine>, DeviceError> {
        let mut found: Vec<HostLine> = Vec::new();
        for (index, (_, _, line)) in bridge.interrupts.iter().enumerate() {
            if self.board.owns_line(line.id) {
                return Err(DeviceError::OwnLine(index));
            }
            if !found.contains(line) {
                found.push(*line);
            }
        }
        if found.len() > MAX_LINES {
            return Err(DeviceError::ManyLines);
        }
        Ok(found)
    }

    /// The devices in the same pages, except those that are inside the device or above it.
    fn neighbours(&self, device: &At<'a>, registers_of: &[Span<Hpa>]) -> Vec<Neighbour> {
        let pages = pages(registers_of);
        let beside = |at: &At<'a>| {
            let mut spans = registers(at);
            !at.holds(device)
                && !device.holds(at)
                && spans.any(|span| pages.iter().any(|page| page.overlaps(&span)))
        };
        let found = self
            .nodes
            .iter()
            .filter(|at| beside(at))
            .map(|at| Neighbour {
                path: path(at),
                works: works(at),
                is_bus_master: properties::bus_master(at.node()).is_some(),
            });
        found.collect()
    }
}

/// Adds every node below `at`, in the tree's order.
fn collect<'a>(at: &At<'a>, nodes: &mut Vec<At<'a>>) {
    for child in at.children() {
        nodes.push(child.clone());
        collect(&child, nodes);
    }
}

/// Whether the node and every bus above it work.
fn works(at: &At<'_>) -> bool {
    let is_okay = |node| matches!(tree::text(node, "status"), None | Some("okay" | "ok"));
    at.upwards().all(is_okay)
}

/// The ranges of `reg` that a CPU can reach.
fn registers<'a>(at: &At<'a>) -> impl Iterator<Item = Span<Hpa>> + use<'a> {
    at.spans().flatten().filter(|span| !span.is_empty())
}

fn path(at: &At<'_>) -> String {
    let mut names: Vec<&str> = at.upwards().map(|node| node.name()).collect();
    names.pop(); // the root's, which is empty
    names.reverse();
    format!("/{}", names.join("/"))
}

/// The whole pages that contain `spans`. Ranges that share a page are joined.
fn pages(spans: &[Span<Hpa>]) -> Vec<Span<Hpa>> {
    let page = |span: &Span<Hpa>| {
        let start = span.start().align_down(PAGE_SIZE);
        let end = span.end().align_up(PAGE_SIZE)?;
        Some((start.get(), end.get()))
    };
    let mut pages: Vec<(u64, u64)> = spans.iter().filter_map(page).collect();
    pages.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (start, end) in pages {
        match merged.last_mut() {
            Some(last) if start < last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    let span = |(start, end): (u64, u64)| Span::new(Hpa::new(start), end - start);
    merged.into_iter().filter_map(span).collect()
}

// There are as many interrupts as all devices of a VM can have.
const _: () = assert!(MAX_DEVICES * MAX_LINES <= platform::PASS_THROUGH_IRQS as usize);

/// Assigns `devices`, at most [`MAX_DEVICES`], to a VM: addresses for their registers and
/// interrupts on the virtual platform, one device after the other. `None` if there is not enough
/// room.
pub fn assign(devices: &[HostDevice]) -> Option<heapless::Vec<PassThrough, MAX_DEVICES>> {
    let mut at = platform::PASS_THROUGH.get();
    let mut line = platform::PASS_THROUGH_IRQ.get();
    let mut given = heapless::Vec::new();
    for device in devices {
        let mut registers = heapless::Vec::new();
        for page in pages(&device.registers) {
            // A window keeps the alignment that the registers of its devices have on the bus.
            if page.len() >= pcie::LARGE {
                at = at.next_multiple_of(page.len().next_power_of_two());
            }
            let (ipa, host, len) = (Ipa::new(at), page.start(), page.len());
            registers.push(Registers { ipa, host, len }).ok()?;
            at = at.checked_add(len)?;
        }
        let mut interrupts: heapless::Vec<model::Line, MAX_LINES> = heapless::Vec::new();
        for interrupt in &device.interrupts {
            if interrupts.iter().any(|other| other.board == interrupt.id) {
                continue;
            }
            let (guest, board, edge) = (IntId::new(line), interrupt.id, interrupt.is_edge());
            interrupts.push(model::Line { guest, board, edge }).ok()?;
            line += 1;
        }
        let name = label(&device.name);
        let device = PassThrough {
            name,
            registers,
            interrupts,
            trapped: false,
        };
        given.push(device).ok()?;
    }
    let window = Span::new(platform::PASS_THROUGH, platform::PASS_THROUGH_SIZE)?;
    (at <= window.end().get()).then_some(given)
}

/// As much of a node's name as fits.
fn label(name: &str) -> heapless::String<{ model::MAX_NAME }> {
    let mut label = heapless::String::new();
    for c in name.chars().filter(char::is_ascii_graphic) {
        if label.push(c).is_err() {
            break;
        }
    }
    label
}
