//! Checks by a board's own tree whether the hypervisor can run on the board at all: it must have
//! drivers for the interrupt controller and for a serial port, and a way to start each CPU. On any
//! other board it would refuse to start, and without a serial port it would do so silently.

use crate::description::Description;
use crate::diagnostic::{Diagnostic, Words};
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use hanok_config::{BoardError, BoardTree, Enable};

/// The remedy of each of these refusals.
const REMEDY: &str = "choose another board, or write the driver: docs/port-a-board.md";

/// Everything that keeps the hypervisor from running `description` on the board with this tree.
pub fn check_board_tree(description: &Description, tree: &[u8]) -> Vec<Diagnostic> {
    let words = match BoardTree::parse(tree) {
        Ok(board) => unusable(description, &board, tree),
        Err(BoardError::NoGic) => vec![no_driver(
            "interrupt controller",
            "a GICv2, a GICv3 and an Allwinner A10's",
            &named(tree, &|node| has(node, "interrupt-controller")),
        )],
        Err(error) => vec![Words::new(
            "the board's tree cannot be used",
            error.to_string(),
            "give the tree that the board's firmware hands over",
        )],
    };
    let of_file = |words| Diagnostic::of_file(&description.path, words);
    words.into_iter().map(of_file).collect()
}

fn unusable(description: &Description, board: &BoardTree<'_>, tree: &[u8]) -> Vec<Words> {
    let mut found = Vec::new();
    if board.console.is_none() {
        let is_port = |node: &FdtNode<'_>| {
            let name = node.name_without_address();
            ["serial", "uart"].contains(&name) && has(node, "compatible")
        };
        found.push(no_driver(
            "serial port",
            "a PL011 or a 16550 with `reg-shift = <2>`",
            &named(tree, &is_port),
        ));
    }
    let cores = description.cores as usize;
    let others = board.cpus.iter().enumerate().take(cores).skip(1);
    for (index, _) in others.filter(|(_, cpu)| cpu.enable == Enable::Unknown) {
        found.push(Words::new(
            format!("CPU {index} of the board cannot be started"),
            "its node has no `enable-method` that is known, and the tree no /psci",
            "write `cores = 1`, or complete the tree: \"psci\" and \"spin-table\" are known",
        ));
    }
    found
}

/// The refusal of a board whose `what` is one of `there`, while the hypervisor only has drivers for
/// `known`.
fn no_driver(what: &str, known: &str, there: &[String]) -> Words {
    let there = match there {
        [] => "nothing that is one".to_owned(),
        names => names.join(", "),
    };
    Words::new(
        format!("the board's {what} has no driver"),
        format!("the hypervisor knows {known}; the board's tree has {there}"),
        REMEDY,
    )
}

/// The path and the first `compatible` of each node of a valid tree for which `wanted` is true.
fn named(tree: &[u8], wanted: &dyn Fn(&FdtNode<'_>) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(fdt) = Fdt::new(tree) {
        collect(fdt.root(), "", wanted, &mut found);
    }
    found
}

fn collect(
    node: FdtNode<'_>,
    path: &str,
    wanted: &dyn Fn(&FdtNode<'_>) -> bool,
    found: &mut Vec<String>,
) {
    for child in node.children() {
        let path = format!("{path}/{}", child.name());
        if wanted(&child) {
            let compatible = value(&child, "compatible").unwrap_or_default();
            let first = compatible
                .split(|byte| *byte == 0)
                .next()
                .unwrap_or_default();
            found.push(format!("{path} ({})", String::from_utf8_lossy(first)));
        }
        collect(child, &path, wanted, found);
    }
}

fn has(node: &FdtNode<'_>, name: &str) -> bool {
    value(node, name).is_some()
}

fn value<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a [u8]> {
    let property = node.properties().find(|property| property.name() == name)?;
    property.value_as().ok()
}
