//! Makes a system one that is admitted by a hair.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::check::{Checked, check};
use crate::system::System;

/// How often execution times are made shorter until a system is admitted.
const SHORTER: usize = 16;
/// How often those on a core are tried longer.
const LONGER: usize = 7;

/// A system with budgets that is admitted, and what was found of it.
pub struct Admitted {
    /// The system, with budgets.
    pub system: System,
    /// Its description.
    pub text: String,
    /// What `hanok sched check` says of that.
    pub checked: Checked,
}

/// `drawn` with the least budgets that the analysis finds, and the longest execution times on each
/// core that a few tries find; `None` where it admits not even short ones.
///
/// # Errors
/// The system is not admitted with the very budgets that were found for it, or has faults.
pub fn of(drawn: &System, boards: &Path) -> Result<Option<Admitted>> {
    let mut system = drawn.clone();
    let mut tries = 0;
    let mut found = loop {
        let checked = check(&system.description(), boards)?;
        if checked.kept {
            break checked;
        }
        tries += 1;
        if tries == SHORTER {
            return Ok(None);
        }
        for core in 0..system.cores.len() {
            system = scaled(&system, core as u8, 0.8);
        }
    };
    for core in 0..system.cores.len() as u8 {
        let mut step: f64 = 1.5;
        for _ in 0..LONGER {
            let longer = scaled(&system, core, step);
            let checked = check(&longer.description(), boards)?;
            if checked.kept {
                (system, found) = (longer, checked);
            } else {
                step = step.sqrt();
            }
        }
    }
    with_budgets(&mut system, &found);
    let text = system.description();
    let checked = check(&text, boards)?;
    ensure!(checked.kept, "what was found is not admitted:\n{text}");
    Ok(Some(Admitted {
        system,
        text,
        checked,
    }))
}

/// `system` with execution times on `core` multiplied by `factor`.
fn scaled(system: &System, core: u8, factor: f64) -> System {
    let mut system = system.clone();
    let here = system.vms.iter_mut().filter(|vm| vm.server.core == core);
    for task in here.flat_map(|vm| &mut vm.tasks) {
        let scaled = (task.execution as f64 * factor) as u64;
        let changed = if factor > 1.0 {
            scaled.max(task.execution + 1)
        } else {
            scaled
        };
        task.execution = changed.clamp(1, task.deadline);
    }
    system
}

/// Writes the interfaces that were found.
fn with_budgets(system: &mut System, found: &Checked) {
    let groups = system.groups.iter_mut().enumerate();
    let groups = groups.map(|(at, group)| (format!("g{at}"), group));
    let vms = system.vms.iter_mut().enumerate();
    let vms = vms.map(|(at, vm)| (format!("v{at}"), &mut vm.server));
    for (name, server) in groups.chain(vms) {
        if let Some(interface) = found.interface(&name) {
            server.budget = Some(interface.budget.get() / 1_000);
            server.deadline = Some(interface.deadline.get() / 1_000);
        }
    }
}
