//! Compares a commit with another: what got worse.
//!
//! Figures are compared in their own terms (a cost in multiples of native, an excess over native,
//! or a value), so that a newer emulator or kernel, which changes native as well, does not look
//! like a change of ours. Where the machines differ all the same, the comparison names the
//! differences.

use crate::figure::Figure;
use crate::figures::figures_on;
use crate::history::Entry;
use crate::machine::{Machine, Side};
use crate::verdict::quantity;

/// One figure at two commits, in the figure's terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The figure.
    pub figure: &'static Figure,
    /// At the older commit, if it was measured.
    pub before: Option<f64>,
    /// At the newer commit, if it was measured.
    pub now: Option<f64>,
}

impl Change {
    /// The fraction of `before` by which it is worse now; negative is better. `None` where either
    /// was not measured. An increase from zero is infinite.
    pub fn worse_by(&self) -> Option<f64> {
        let (before, now) = (self.before?, self.now?);
        if now.total_cmp(&before).is_eq() {
            Some(0.0)
        } else if before > 0.0 {
            Some((now - before) / before)
        } else {
            Some(f64::INFINITY.copysign(now - before))
        }
    }

    /// Whether it is worse by more than `tolerance`. A figure that is no longer measured is not: a
    /// run may have only some figures, and reports its own failures.
    pub fn is_worse(&self, tolerance: f64) -> bool {
        self.worse_by().is_some_and(|by| by > tolerance)
    }

    /// Whether it was measured before and is not now.
    pub fn is_gone(&self) -> bool {
        self.before.is_some() && self.now.is_none()
    }

    pub(crate) fn word(&self, tolerance: f64) -> &'static str {
        match (self.before, self.worse_by()) {
            (None, _) => "new",
            (_, Some(by)) if by > tolerance => "worse",
            (_, Some(by)) if by < -tolerance => "better",
            _ => "",
        }
    }
}

/// Two commits on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The machine.
    pub machine: String,
    /// The older commit.
    pub from: String,
    /// The newer commit.
    pub to: String,
    /// In what the machines differ: such differences may explain a change.
    pub differences: Vec<String>,
    /// Worse by no more than this fraction counts as unchanged.
    pub tolerance: f64,
    /// Every figure that either commit has.
    pub changes: Vec<Change>,
}

impl Comparison {
    /// Hanok's figures of `new` against those of `old`.
    pub fn of(old: &Entry, new: &Entry, tolerance: f64) -> Self {
        let (before, now) = (old.run(), new.run());
        let of = |run, figure| Some(quantity(figure, run, Side::Hanok).ok()?.median);
        // As they are judged on that machine.
        let figures = figures_on(new.machine.extensions);
        let all = figures.iter().map(|figure| Change {
            figure,
            before: of(&before, figure),
            now: of(&now, figure),
        });
        Self {
            machine: new.machine.title(),
            from: old.short_commit(),
            to: new.short_commit(),
            differences: differences(&old.machine, &new.machine),
            tolerance,
            changes: all
                .filter(|change| change.before.is_some() || change.now.is_some())
                .collect(),
        }
    }

    /// The figures that got worse by more than the tolerance.
    pub fn worse(&self) -> impl Iterator<Item = &Change> {
        let changes = self.changes.iter();
        changes.filter(|change| change.is_worse(self.tolerance))
    }
}

fn differences(old: &Machine, new: &Machine) -> Vec<String> {
    let memory = |machine: &Machine| format!("{} MiB", machine.memory_mib);
    let mut found = Vec::new();
    for (what, before, now) in [
        ("CPU", old.cpu.clone(), new.cpu.clone()),
        ("GIC", old.gic.title().into(), new.gic.title().into()),
        ("memory", memory(old), memory(new)),
        ("QEMU", old.qemu.clone(), new.qemu.clone()),
        ("kernel", old.kernel.clone(), new.kernel.clone()),
        ("lmbench", old.lmbench.clone(), new.lmbench.clone()),
        ("settings", old.settings.join("; "), new.settings.join("; ")),
    ] {
        if before != now {
            found.push(format!("{what} was {before:?}, is {now:?}"));
        }
    }
    found
}
