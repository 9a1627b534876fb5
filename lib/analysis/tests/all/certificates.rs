//! The checker believes the analysis's certificates, and no changed ones.

use crate::common::{Random, ns, random};
use hanok_analysis::analyse;
use hanok_certificate_checker::check;
use hanok_task_model::{Against, Certificate, CoreProof, Descent, Model, Nanos, Proof, Tail};

/// `wanted` models with their certificates.
fn certified(wanted: usize, seed: u64) -> Vec<(Model, Certificate)> {
    let mut random_ = Random(seed);
    let mut found = Vec::new();
    for _ in 0..100 * wanted {
        let model = random(&mut random_);
        let analysis = analyse(&model).unwrap();
        if let Some(certificate) = analysis.certificate() {
            found.push((model, certificate));
        }
        if found.len() == wanted {
            return found;
        }
    }
    panic!("{} of {wanted} models are admitted", found.len());
}

#[test]
fn the_analysis_s_certificates_are_believed() {
    let (mut fixed, mut global, mut aligned, mut exact) = (0, 0, 0, 0);
    for (model, certificate) in certified(150, 0x5eed) {
        assert_eq!(
            check(&model, &certificate),
            Ok(()),
            "{model:#?} {certificate:#?}"
        );
        for proof in &certificate.components {
            fixed += usize::from(matches!(proof.proof, Proof::Fixed(_)));
            global += usize::from(matches!(proof.proof, Proof::Global(_)));
            aligned += usize::from(proof.aligned);
            exact += usize::from(proof.exact.is_some());
        }
    }
    // Each kind of proof occurred.
    assert!(
        fixed > 20 && global > 20 && aligned > 5 && exact > 50,
        "{fixed} {global} {aligned} {exact}"
    );
}

#[test]
fn a_thousand_changed_certificates_are_rejected() {
    let mut random = Random(0xbad5eed);
    let certified = certified(50, 0xcafe);
    let mut kinds = [0; KINDS];
    let mut rejected = 0;
    while rejected < 1_000 {
        let (model, certificate) = &certified[random.below(certified.len() as u64) as usize];
        let mut changed = certificate.clone();
        let kind = random.below(KINDS as u64) as usize;
        change(&mut changed, model.tick, kind, &mut random);
        if changed == *certificate {
            continue;
        }
        let found = check(model, &changed);
        assert!(
            found.is_err(),
            "{kind}: {model:#?} {certificate:#?} {changed:#?}"
        );
        kinds[kind] += 1;
        rejected += 1;
    }
    assert!(kinds.iter().all(|count| *count > 10), "{kinds:?}");
}

const KINDS: usize = 18;

fn less(time: Nanos, by: Nanos) -> Nanos {
    time.saturating_sub(by)
}

/// Makes one change of the given kind; `None` where the certificate has nothing to change in this
/// way.
fn change(certificate: &mut Certificate, tick: Nanos, kind: usize, random: &mut Random) {
    let index = random.below(certificate.components.len() as u64) as usize;
    let component = &mut certificate.components[index];
    let interface = &mut component.interface;
    match kind {
        0 => interface.budget = less(interface.budget, tick),
        1 => interface.budget = interface.budget.saturating_add(tick),
        2 => interface.period = interface.period.saturating_add(tick),
        3 => interface.deadline = less(interface.deadline, tick),
        4 => component.aligned = !component.aligned,
        5 => damage(&mut component.proof, random),
        6 => {
            certificate.components.swap_remove(index);
        }
        7 => {
            let twice = component.clone();
            certificate.components.push(twice);
        }
        8 => component.proof = Proof::Idle,
        9 => against(&mut component.least, random),
        10..=12 => exact(component, kind, random),
        13 => {
            let core = random.below(certificate.cores.len() as u64) as usize;
            damage(&mut certificate.cores[core].proof, random);
        }
        14 => {
            certificate.cores.pop();
        }
        15 => {
            let core = with_vcpus(certificate, random);
            core.vcpus.pop();
        }
        16 => {
            let core = with_vcpus(certificate, random);
            let twice = core.vcpus[0];
            core.vcpus.push(twice);
        }
        _ => {
            let core = with_vcpus(certificate, random);
            core.vcpus[0].cpu += 1;
        }
    }
}

fn with_vcpus<'a>(certificate: &'a mut Certificate, random: &mut Random) -> &'a mut CoreProof {
    let mut full: Vec<_> = certificate
        .cores
        .iter_mut()
        .filter(|core| !core.vcpus.is_empty())
        .collect();
    let index = random.below(full.len() as u64) as usize;
    full.swap_remove(index)
}

fn exact(component: &mut hanok_task_model::ComponentProof, kind: usize, random: &mut Random) {
    let Some(exact) = &mut component.exact else {
        return;
    };
    match kind {
        10 => exact.budget.numerator += 1,
        11 => exact.budget.denominator += 1,
        _ => damage(&mut exact.proof, random),
    }
}

fn against(found: &mut Option<Against>, random: &mut Random) {
    match found {
        Some(Against::Instant(instant)) => *instant += 1 + random.below(3),
        Some(Against::Late { instants, .. }) => nudge(instants, random),
        Some(Against::Rate) => *found = Some(Against::Nothing),
        Some(Against::Nothing) => *found = Some(Against::Rate),
        None => {}
    }
}

/// Changes one number of a row, removes one, or doubles one.
fn nudge(row: &mut Vec<u64>, random: &mut Random) {
    let index = random.below(row.len() as u64) as usize;
    match random.below(4) {
        0 => row[index] += 1,
        1 => row[index] = row[index].saturating_sub(1),
        2 => {
            row.remove(index);
        }
        _ => row.insert(index, row[index]),
    }
}

fn damage(proof: &mut Proof, random: &mut Random) {
    match proof {
        Proof::Idle => *proof = Proof::Fixed(vec![1]),
        Proof::Edf(descent) => damage_descent(descent, random),
        Proof::Utilization => *proof = Proof::Fixed(vec![1]),
        Proof::Fixed(ends) => nudge(ends, random),
        Proof::Global(descents) => {
            let index = random.below(descents.len() as u64) as usize;
            match random.below(3) {
                0 => {
                    descents.remove(index);
                }
                _ => damage_descent(&mut descents[index], random),
            }
        }
    }
}

fn damage_descent(descent: &mut Descent, random: &mut Random) {
    match random.below(4) {
        0 => {
            descent.tail = match descent.tail {
                Tail::Lines => Tail::Repeats,
                Tail::Repeats => Tail::Lines,
            }
        }
        _ => nudge(&mut descent.instants, random),
    }
}

#[test]
fn another_model_s_certificate_is_rejected() {
    for (mut model, certificate) in certified(20, 0xfeed) {
        for task in &mut model.tasks {
            task.execution = task.execution.saturating_add(ns(40));
        }
        assert!(check(&model, &certificate).is_err());
    }
}
