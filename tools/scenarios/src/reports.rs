//! A report of a board comes whole, however often one is asked for, while the VMs of its core are busy: a line or 32 bytes
//! a piece, each of which follows when it is due (core/pcpu/src/report.rs).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::reported::{boot_within, read, request};
use crate::step::{Tally, TestStep};
use hanok_base::repo;
use hanok_console::script::ScriptStep;

/// The steps.
pub const STEPS: &[TestStep] = &[
    TestStep {
        name: "reports-gicv3",
        run: |root| Tally::told(bounded(root, "qemu-virt")),
    },
    TestStep {
        name: "reports-gicv2",
        run: |root| Tally::told(bounded(root, "qemu-virt-gicv2")),
    },
    TestStep {
        name: "reports-arm",
        run: |root| Tally::told(bounded(root, "qemu-virt-arm")),
    },
];

/// How many reports are asked for.
const REPORTS: usize = 60;
/// Before each of them, by the PC's clock, as many of it as there were reports: so they begin anywhere in a period.
const PAUSE: Duration = Duration::from_micros(370);
/// All of them have come by then, on however slow a PC.
const PATIENCE: Duration = Duration::from_secs(120);
/// The vCPUs of each VM.
const VCPUS: [usize; 4] = [1, 1, 4, 1];

/// One core with a VM that uses up its budget, one that is busy without a promise, one that never boots, and one whose
/// task wakes every millisecond.
fn described(board: &str) -> String {
    let mut text = format!(
        "board = \"{board}\"\ncores = 1\nmemory = \"1G\"\n[schedule]\nenforce = true\nswitch = \"1us\"\n"
    );
    let budget = "[vm.schedule]\nperiod = \"5ms\"\nbudget = \"1ms\"\n";
    for (vm, (kernel, cmdline, rest)) in [
        (
            "rtos",
            "rtos.tasks=hog:1000000:3000000 rtos.seconds=0",
            budget,
        ),
        ("rtos", "rtos.tasks=hog:1000000:3000000 rtos.seconds=0", ""),
        ("conformance", "conformance.run=exit", "autostart = false\n"),
        ("rtos", "rtos.tasks=sleep:1000:5 rtos.seconds=0", budget),
    ]
    .into_iter()
    .enumerate()
    {
        let _ = write!(
            text,
            "[[vm]]\nname = \"v{vm}\"\nkernel = \"guest:{kernel}\"\nmemory = \"32M\"\ncmdline = \"{cmdline}\"\n\
             cpus = {:?}\n{rest}",
            vec![0; VCPUS[vm]]
        );
    }
    text
}

/// Asks for reports, and looks whether each is whole.
fn bounded(root: &Path, board: &str) -> Result<String> {
    let dir = repo::target_dir(root).join(format!("hanok/test/reports/{board}"));
    std::fs::create_dir_all(&dir)?;
    let mut steps = Vec::new();
    for number in 1..=REPORTS {
        steps.push(request(&format!("report {number}")));
        steps.push(ScriptStep::ExpectReport(format!("end {number}\n")));
        steps.push(ScriptStep::Wait(PAUSE * number as u32));
    }
    steps.push(ScriptStep::End);
    boot_within(root, &dir, &described(board), steps, &[], PATIENCE)?;
    let text = read(&dir.join("reports"))?;
    let mut lines = 0;
    for number in 1..=REPORTS {
        lines += whole(&text, number).with_context(|| format!("report {number} of {board}"))?;
    }
    let busy = used(&text, REPORTS)? - used(&text, 2)?;
    ensure!(busy > 0, "the VM was never busy");
    Ok(format!("{REPORTS} reports, {lines} lines"))
}

/// The lines of a report, without its number: from its first line to its end, with no line of another among them.
fn of(text: &str, number: usize) -> Result<Vec<Vec<&str>>> {
    let all: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let own = number.to_string();
    let mine = |fields: &Vec<&str>| fields.last() == Some(&own.as_str());
    let first = all.iter().position(mine).context("no line of it")?;
    let length = all[first..]
        .iter()
        .take_while(|fields| mine(fields))
        .count();
    let total = all.iter().filter(|fields| mine(fields)).count();
    ensure!(length == total, "lines of others among its {total}");
    Ok(all[first..first + length].to_vec())
}

/// The number of a report's lines; an error says what of it has not come.
fn whole(text: &str, number: usize) -> Result<usize> {
    let lines = of(text, number)?;
    let first = lines.first().map(|fields| fields[0]);
    ensure!(first == Some("board"), "it begins with {first:?}");
    let last = lines.last().map(|fields| fields[0]);
    ensure!(last == Some("end"), "it ends with {last:?}");
    let of_word = |word: &str| -> Vec<&Vec<&str>> {
        lines.iter().filter(|fields| fields[0] == word).collect()
    };
    ensure!(of_word("board").len() == 1 && of_word("end").len() == 1);
    let cores = of_word("core");
    ensure!(cores.len() == 1, "{} cores", cores.len());
    ensure!(cores[0].len() == 10, "a core's line: {:?}", cores[0]);
    ensure!(
        of_word("vm").len() == VCPUS.len(),
        "{} VMs",
        of_word("vm").len()
    );
    let expected: BTreeSet<(String, String)> = VCPUS
        .iter()
        .enumerate()
        .flat_map(|(vm, vcpus)| (0..*vcpus).map(move |vcpu| (vm.to_string(), vcpu.to_string())))
        .collect();
    let vcpus = of_word("vcpu");
    ensure!(vcpus.iter().all(|fields| fields.len() == 19), "{vcpus:?}");
    let told: BTreeSet<(String, String)> = vcpus
        .iter()
        .map(|fields| (fields[1].to_owned(), fields[2].to_owned()))
        .collect();
    ensure!(
        told == expected && vcpus.len() == expected.len(),
        "vCPUs {told:?}"
    );
    ensure!(!of_word("ran").is_empty(), "no turn is told");
    Ok(lines.len())
}

/// What the busy VM has used by a report, in ticks.
fn used(text: &str, number: usize) -> Result<u64> {
    let lines = of(text, number)?;
    let own = lines
        .iter()
        .find(|fields| fields[..3] == ["vcpu", "0", "0"])
        .context("no busy vCPU")?;
    Ok(own[12].parse()?)
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn a_report_that_is_cut_is_not_whole() {
        let mut text = "board 1 2 1 7 3\n".to_owned();
        for (vm, vcpus) in super::VCPUS.into_iter().enumerate() {
            text += &format!("vm {vm} v{vm} 3\n");
            for vcpu in 0..vcpus {
                text += &format!("vcpu {vm} {vcpu} 0 - runs turn 0 0 0 0 0 1 2 3 4 5 6 3\n");
            }
        }
        text += "core 0 deadline idle 1 2 3 4 5 3\nran 0 1 0 5 6 3\nend 3\n";
        assert!(whole(&text, 3).is_ok(), "{:?}", whole(&text, 3));
        assert!(whole(&text, 4).is_err());
        for line in text.lines() {
            assert!(
                whole(&text.replace(&format!("{line}\n"), ""), 3).is_err(),
                "{line}"
            );
            let other = format!("{line}\nunknown request\n");
            let spoiled = text.replace(&format!("{line}\n"), &other);
            assert!(line == "end 3" || whole(&spoiled, 3).is_err(), "{line}");
        }
    }
}
