//! Assigns vCPUs to cores. Sharing a core affects what a guest can promise, so it never happens by
//! default: a description that wants it has `cpus`.

use crate::board::Cores;
use crate::diagnostic::{Report, Words};
use crate::draft::Draft;
use hanok_sched::MAX_ENTITIES;
use hanok_types::MAX_VCPUS;
use std::ops::Range;

/// Checks the numbers of vCPUs, `most` at most, and the cores that VMs name. The answer has these for each VM, and
/// none where it names none; it is `None` where the number is wrong.
pub(crate) fn check(
    report: &mut Report,
    cores: Cores,
    most: usize,
    drafts: &[Draft],
) -> Vec<Option<Vec<u64>>> {
    let of = |draft| count_is_sound(report, draft, most).then(|| check_named(report, cores, draft));
    drafts.iter().map(of).collect()
}

/// The cores of each VM's vCPUs: those it names, which were checked; those that `placed` has for it; or the lowest
/// that no other VM has, and no pool. `pools` are the cores of the pools in which vCPUs move.
pub(crate) fn assign(
    report: &mut Report,
    cores: Cores,
    checked: Vec<Option<Vec<u64>>>,
    (placed, pools): (&[Option<Vec<u8>>], &[u64]),
    drafts: &[Draft],
) -> Vec<Vec<u8>> {
    let others = placed
        .iter()
        .flatten()
        .flatten()
        .map(|core| u64::from(*core));
    let named = drafts.iter().filter_map(|draft| draft.cpus.as_ref());
    let named = named.flat_map(|cpus| cpus.value.iter().copied());
    let taken: Vec<u64> = named.chain(others).chain(pools.iter().copied()).collect();
    let mut free: Vec<u64> = (0..cores.count)
        .filter(|core| !taken.contains(core))
        .collect();
    let mut all: Vec<Vec<u8>> = Vec::new();
    for ((index, draft), checked) in drafts.iter().enumerate().zip(checked) {
        let found = placed.get(index).and_then(Option::as_ref);
        all.push(match (checked, &draft.cpus, found) {
            (None, ..) => Vec::new(),
            (_, None, Some(found)) => found.clone(),
            (Some(named), Some(_), _) => named.into_iter().map(|core| core as u8).collect(),
            (_, None, None) => {
                let taken = take(report, cores, draft, &mut free).into_iter();
                taken.map(|core| core as u8).collect()
            }
        });
    }
    check_crowds(report, drafts, &all);
    all
}

/// Refuses the first VM by which a core has more vCPUs than it can choose among.
fn check_crowds(report: &mut Report, drafts: &[Draft], all: &[Vec<u8>]) {
    let mut counts = [0; 256];
    for (draft, cores) in drafts.iter().zip(all) {
        for core in cores {
            counts[usize::from(*core)] += 1;
            if counts[usize::from(*core)] == MAX_ENTITIES + 1 {
                let what = format!("more than {MAX_ENTITIES} vCPUs on core {core}");
                let why = "a core chooses among no more";
                let remedy = "give some of them other cores, or lower `vcpus`";
                report.refuse(count(draft).1, Words::new(what, why, remedy));
            }
        }
    }
}

/// The number of vCPUs, and the place of the key that says so.
fn count(draft: &Draft) -> (u64, &Range<usize>) {
    match (&draft.cpus, &draft.vcpus) {
        (Some(cpus), _) => (cpus.value.len() as u64, &cpus.span),
        (None, Some(vcpus)) => (vcpus.value, &vcpus.span),
        (None, None) => (1, &draft.span),
    }
}

fn count_is_sound(report: &mut Report, draft: &Draft, most: usize) -> bool {
    let (count, span) = count(draft);
    let sound = (1..=most as u64).contains(&count);
    if !sound {
        let what = format!("a VM cannot have {count} vCPUs");
        let gicv3_would_do = (1..=MAX_VCPUS as u64).contains(&count);
        let words = if gicv3_would_do {
            let why = format!("it has the board's GICv2, which reaches {most} CPUs");
            let remedy = format!("lower it to {most}, or choose a board with a GICv3");
            Words::new(what, why, remedy)
        } else {
            let why = format!("it has from 1 to {most}");
            Words::new(what, why, "choose a number in between")
        };
        report.refuse(span, words);
    }
    sound
}

/// The existing cores among those that a VM names.
fn check_named(report: &mut Report, cores: Cores, draft: &Draft) -> Vec<u64> {
    let Some(cpus) = &draft.cpus else {
        return Vec::new();
    };
    for core in cpus.value.iter().filter(|core| **core >= cores.count) {
        let what = format!("there is no core {core}");
        let why = format!("the board has cores 0 to {}", cores.count.saturating_sub(1));
        let remedy = cores.or_more("name one of these");
        report.refuse(&cpus.span, Words::new(what, why, remedy));
    }
    let vcpus = draft.vcpus.as_ref().map(|vcpus| vcpus.value);
    let named = cpus.value.len();
    if let Some(vcpus) = vcpus.filter(|vcpus| *vcpus != named as u64) {
        let what = format!("`vcpus` is {vcpus}, `cpus` names {named} cores");
        let why = "each vCPU runs on the core at its place in `cpus`";
        let remedy = "make them agree, or leave one out";
        report.refuse(&cpus.span, Words::new(what, why, remedy));
    }
    let there = cpus
        .value
        .iter()
        .copied()
        .filter(|core| *core < cores.count);
    there.collect()
}

/// Takes as many of the `free` cores as a VM has vCPUs.
fn take(report: &mut Report, cores: Cores, draft: &Draft, free: &mut Vec<u64>) -> Vec<u64> {
    let (count, span) = count(draft);
    let taken: Vec<u64> = free.drain(..(count as usize).min(free.len())).collect();
    if (taken.len() as u64) < count {
        let (found, all) = (taken.len(), cores.count);
        let what = format!("{count} vCPUs, but {found} of {all} cores free");
        let why = "without `cpus` each vCPU gets a core that nobody else has";
        let some = vec!["0"; (count as usize).min(MAX_VCPUS)].join(", ");
        let remedy = cores.or_more(&format!(
            "write cpus = [{some}] to share cores, or lower `vcpus`"
        ));
        report.refuse(span, Words::new(what, why, remedy));
    }
    taken
}
