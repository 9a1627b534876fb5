//! Assigns vCPUs to cores. Sharing a core affects what a guest can promise, so it never happens by
//! default: a description that wants it has `cpus`.

use crate::board::Cores;
use crate::diagnostic::{Report, Words};
use crate::draft::Draft;
use hanok_sched::MAX_ENTITIES;
use hanok_types::MAX_VCPUS;
use std::ops::Range;

/// The cores of each VM's vCPUs, `most` at most: those it names, those of its global pool, on which they
/// begin, or the lowest that nobody names.
pub(crate) fn assign(
    report: &mut Report,
    cores: Cores,
    most: usize,
    drafts: &[Draft],
    pools: &Pools,
) -> Vec<Vec<u8>> {
    let named = |core: &u64| {
        let mut lists = drafts.iter().filter_map(|draft| draft.cpus.as_ref());
        lists.any(|cpus| cpus.value.contains(core))
    };
    let mut free: Vec<u64> = (0..cores.count)
        .filter(|core| !named(core) && !pools.cores.contains(core))
        .collect();
    let of = |(index, draft): (usize, &Draft)| {
        if !count_is_sound(report, draft, most) {
            return Vec::new();
        }
        let pooled = pools.first.get(index).and_then(Option::as_ref);
        let taken = match (&draft.cpus, pooled) {
            (Some(_), _) => check_named(report, cores, draft),
            (None, Some(first)) => return first.clone(),
            (None, None) => take(report, cores, draft, &mut free),
        };
        taken.into_iter().map(|core| core as u8).collect()
    };
    let all: Vec<Vec<u8>> = drafts.iter().enumerate().map(of).collect();
    check_crowds(report, drafts, &all);
    all
}

/// What global pools that the board enforces say about cores.
#[derive(Default)]
pub(crate) struct Pools {
    /// The cores on which each VM's vCPUs begin that is in one.
    pub first: Vec<Option<Vec<u8>>>,
    /// All cores of these pools.
    pub cores: Vec<u64>,
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
