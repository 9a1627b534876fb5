//! Tests claims that are wrong in one respect alone, so that only one check rejects each of them.
//! Beside each is the same claim without the fault.

use crate::bounds::Job;
use crate::cores;
use crate::{Fault, Interfaces, Rejection, component, jobs, servers};
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use hanok_task_model::{
    Against, Component, ComponentId, ComponentProof, CoreId, CoreProof, Descent, Home, Member,
    Mode, Model, Nanos, Periods, Plan, Policy, Pool, PoolId, Proof, ResourceInterface, Server,
    SwitchCost, Tail, Task, TaskId, Vcpu, Window,
};

const POOL: Home = Home::Pool(PoolId(0));
const OUTER: ComponentId = ComponentId(0);
const INNER: ComponentId = ComponentId(1);

fn interface(period: u64, budget: u64, deadline: u64) -> ResourceInterface {
    ResourceInterface {
        period: Nanos::new(period),
        budget: Nanos::new(budget),
        deadline: Nanos::new(deadline),
    }
}

/// A component under fixed priorities, in ticks of a nanosecond.
fn alone(plan: Plan) -> Model {
    let mut model = Model::new(Nanos::new(1), vec![Pool::new("pool", [CoreId(0)])]);
    let mut vm = Component::new("vm", POOL, plan);
    vm.policy = Policy::RateMonotonic;
    model.add(vm);
    model
}

/// Such a component with one task.
fn with_task(plan: Plan, period: u64, execution: u64, deadline: u64) -> Model {
    let mut model = alone(plan);
    let mut task = Task::new("task", OUTER, Nanos::new(period), Nanos::new(execution));
    task.deadline = Nanos::new(deadline);
    model.add_task(task);
    model
}

/// Such a component with a component inside.
fn with_inner(plan: Plan, inner: ResourceInterface) -> (Model, Interfaces) {
    let mut model = alone(plan);
    let given = Plan::Given(inner);
    model.add(Component::new("inner", Home::Component(OUTER), given));
    (model, Interfaces::from([(INNER, inner)]))
}

fn claim(interface: ResourceInterface, proof: Proof) -> ComponentProof {
    ComponentProof {
        component: OUTER,
        interface,
        aligned: false,
        proof,
        least: None,
        exact: None,
    }
}

fn believed(model: &Model, inside: &Interfaces, claim: &ComponentProof) -> Result<(), Fault> {
    let members = model.members();
    component(model, claim, &members[0], inside)
}

/// From the start of a period on, 5 of each 10 are supplied after 10; from any instant on, after
/// 15.
#[test]
fn a_supply_begins_with_the_members_where_it_does_and_nowhere_else() {
    let given = interface(10, 5, 10);
    let plan = Plan::Given(given);
    let (from_start, from_anywhere) = (Proof::Fixed(vec![10]), Proof::Fixed(vec![15]));
    let aligned = |proof: &Proof| ComponentProof {
        aligned: true,
        ..claim(given, proof.clone())
    };
    let task = with_task(plan, 20, 5, 20);
    let (together, inside) = with_inner(plan, interface(20, 5, 20));
    let (apart, odd) = with_inner(plan, interface(25, 5, 25));
    let none = Interfaces::new();
    for (model, inside, begins_together) in [
        (&task, &none, false),
        (&together, &inside, true),
        (&apart, &odd, false),
    ] {
        let (as_aligned, as_any) = if begins_together {
            (Ok(()), Err(Fault::Aligned))
        } else {
            (Err(Fault::Aligned), Ok(()))
        };
        assert_eq!(believed(model, inside, &aligned(&from_start)), as_aligned);
        let any = claim(given, from_anywhere.clone());
        assert_eq!(believed(model, inside, &any), as_any);
    }
    // On several CPUs the supply never begins with the members' periods.
    let mut several = together;
    several.components[0].cpus = 2;
    for aligned in [false, true] {
        let claim = ComponentProof {
            aligned,
            ..claim(given, from_start.clone())
        };
        assert_eq!(believed(&several, &inside, &claim), Err(Fault::Aligned));
    }
}

/// A supply of 5 within 9 of each 10 has given 5 after 14; within 10, after 15; within 11 it would
/// be after 16.
#[test]
fn a_longest_deadline_is_one_that_was_asked_for_and_could_be_longer() {
    let asked = Plan::Longest {
        period: Nanos::new(10),
        budget: Nanos::new(5),
    };
    let shorter = interface(10, 5, 9);
    let until = |instant| {
        Some(Against::Late {
            member: Member::Task(TaskId(0)),
            instants: vec![instant],
        })
    };
    let says = |plan, deadline: u64, interface: ResourceInterface, least| {
        let model = with_task(plan, 20, 5, deadline);
        let least_claim = ComponentProof {
            least,
            ..claim(interface, Proof::Fixed(vec![deadline]))
        };
        believed(&model, &Interfaces::new(), &least_claim)
    };
    // A tick more is the whole period, and too late.
    assert_eq!(says(asked, 14, shorter, None), Ok(()));
    assert_eq!(says(asked, 14, shorter, until(14)), Ok(()));
    for wrong in [until(13), until(15), Some(Against::Nothing)] {
        assert_eq!(says(asked, 14, shorter, wrong), Err(Fault::Least));
    }
    // No deadline is behind the period, whether or not it would be too late.
    let longest = interface(10, 5, 10);
    assert_eq!(says(asked, 15, longest, None), Ok(()));
    assert_eq!(says(asked, 15, longest, until(15)), Err(Fault::Least));
    // Nothing was asked for.
    let given = Plan::Given(shorter);
    assert_eq!(says(given, 14, shorter, None), Ok(()));
    assert_eq!(says(given, 14, shorter, until(14)), Err(Fault::Least));
}

#[test]
fn a_given_interface_is_the_one_that_was_given() {
    let model = with_task(Plan::Given(interface(10, 5, 10)), 20, 5, 20);
    let says = |interface, end| {
        let claim = claim(interface, Proof::Fixed(vec![end]));
        believed(&model, &Interfaces::new(), &claim)
    };
    assert_eq!(says(interface(10, 5, 10), 15), Ok(()));
    // Each of these would suffice as well.
    let others = [((10, 6, 10), 13), ((10, 5, 9), 14), ((5, 3, 5), 11)];
    for ((period, budget, deadline), end) in others {
        let other = interface(period, budget, deadline);
        assert_eq!(says(other, end), Err(Fault::Interface));
        let as_given = with_task(Plan::Given(other), 20, 5, 20);
        let claim = claim(other, Proof::Fixed(vec![end]));
        assert_eq!(believed(&as_given, &Interfaces::new(), &claim), Ok(()));
    }
}

/// For several CPUs it is not known that a budget is the least, even where it is one tick.
#[test]
fn nothing_is_claimed_of_less_on_several_cpus() {
    let find = Plan::Find {
        periods: Periods::One(Nanos::new(1_000)),
        window: Window::Period,
    };
    let mut model = with_task(find, 100_000, 1, 100_000);
    model.tick = Nanos::new(1_000);
    model.components[0].policy = Policy::Edf;
    model.components[0].cpus = 2;
    // Each CPU supplies 500 of each 1000, so that the first 500 are there after 1000.
    let descent = Descent {
        instants: vec![100_001, 1_001],
        tail: Tail::Lines,
    };
    let mut claim = claim(interface(1_000, 1_000, 1_000), Proof::Global(vec![descent]));
    assert_eq!(believed(&model, &Interfaces::new(), &claim), Ok(()));
    claim.least = Some(Against::Nothing);
    let found = believed(&model, &Interfaces::new(), &claim);
    assert_eq!(found, Err(Fault::Least));
}

/// Tasks beside components are charged with the switch to them and back, as the components are;
/// tasks among themselves are not.
#[test]
fn switching_is_charged_to_tasks_beside_components() {
    let of_time = interface(100, 100, 100);
    let inner = interface(100, 4, 100);
    let (mut model, inside) = with_inner(Plan::Given(of_time), inner);
    model.add_task(Task::new("task", OUTER, Nanos::new(50), Nanos::new(5)));
    model.cost = SwitchCost {
        switch: Nanos::new(1),
        refill: Nanos::new(2),
    };
    let executions = |inside: &[Member], interfaces| -> Vec<Job> {
        jobs(&model, &model.components[0], inside, interfaces).expect("all are there")
    };
    let members = model.members();
    let beside = executions(&members[0], &inside);
    let beside: Vec<_> = beside.iter().map(|job| job.execution.clone()).collect();
    assert_eq!(beside, [11.into(), 10.into()]);
    let tasks = executions(&[Member::Task(TaskId(0))], &inside);
    assert_eq!(tasks[0].execution, 5.into());

    let says = |ends: &[u64]| {
        believed(
            &model,
            &inside,
            &claim(of_time, Proof::Fixed(ends.to_vec())),
        )
    };
    assert_eq!(says(&[11, 21]), Ok(()));
    assert_eq!(says(&[5, 15]), Err(Fault::Late));
}

/// Two pools, of two cores and of one, and two components of the first, each with half a core's
/// worth. The second component has to be on the second core.
fn pools() -> (Model, Interfaces) {
    let first = Pool::new("first", [CoreId(0), CoreId(1)]);
    let pools = vec![first, Pool::new("second", [CoreId(2)])];
    let mut model = Model::new(Nanos::new(1), pools);
    let half = interface(10, 5, 10);
    model.add(Component::new("any", POOL, Plan::Given(half)));
    let mut bound = Component::new("bound", POOL, Plan::Given(half));
    bound.core = Some(CoreId(1));
    model.add(bound);
    (model, Interfaces::from([(OUTER, half), (INNER, half)]))
}

/// The claim that these cores of a pool run these vCPUs.
fn run(pool: u32, cores: &[u8], vcpus: &[(ComponentId, u32)]) -> CoreProof {
    let vcpu = |&(component, cpu): &(ComponentId, u32)| Vcpu { component, cpu };
    CoreProof {
        pool: PoolId(pool),
        cores: cores.iter().copied().map(CoreId).collect(),
        vcpus: vcpus.iter().map(vcpu).collect(),
        proof: if vcpus.is_empty() {
            Proof::Idle
        } else {
            Proof::Utilization
        },
    }
}

fn fault(found: Result<(), Rejection>) -> Result<(), Fault> {
    found.map_err(|rejection| rejection.fault)
}

#[test]
fn cores_run_the_vcpus_that_belong_on_them() {
    let (model, inside) = pools();
    let (any, bound) = ((OUTER, 0), (INNER, 0));
    let says = |proofs: &[CoreProof]| fault(cores::check(&model, proofs, &inside));
    let idle = run(1, &[2], &[]);
    let on_second = run(0, &[1], &[bound]);
    let right = [run(0, &[0], &[any]), on_second.clone(), idle.clone()];
    assert_eq!(says(&right), Ok(()));
    let both = [run(0, &[0], &[]), run(0, &[1], &[any, bound]), idle.clone()];
    assert_eq!(says(&both), Ok(()));
    // Not on the core that the model names.
    let elsewhere = [run(0, &[0], &[any, bound]), run(0, &[1], &[]), idle.clone()];
    assert_eq!(says(&elsewhere), Err(Fault::Placement));
    // In another pool.
    let foreign = [run(0, &[0], &[]), on_second.clone(), run(1, &[2], &[any])];
    assert_eq!(says(&foreign), Err(Fault::Placement));
    // A second vCPU of a component that has one.
    let more = run(0, &[0], &[any, (OUTER, 1)]);
    assert_eq!(says(&[more, on_second, idle]), Err(Fault::Placement));
}

#[test]
fn a_pool_has_its_own_cores_one_by_one_or_all_together() {
    let (mut model, inside) = pools();
    let (any, bound) = ((OUTER, 0), (INNER, 0));
    let idle = run(1, &[2], &[]);
    // The other pool's core, which no other proof needs.
    let foreign = [
        run(0, &[0], &[]),
        run(0, &[1], &[bound]),
        run(0, &[2], &[any]),
    ];
    let found = cores::check(&model, &foreign, &inside);
    assert_eq!(fault(found), Err(Fault::Incomplete));
    // Two cores, taken for one that is twice as fast.
    model.pools[0].policy = Policy::RateMonotonic;
    let mut double = run(0, &[0, 1], &[any, bound]);
    double.proof = Proof::Fixed(vec![3, 5]);
    let found = cores::check(&model, &[double, idle.clone()], &inside);
    assert_eq!(fault(found), Err(Fault::Incomplete));
    // A global pool's cores, one by one.
    model.pools[0].policy = Policy::Edf;
    model.pools[0].mode = Mode::Global;
    model.components[1].core = None;
    let apart = [run(0, &[0], &[any]), run(0, &[1], &[bound]), idle];
    let found = cores::check(&model, &apart, &inside);
    assert_eq!(fault(found), Err(Fault::Incomplete));
}

/// A component with this kind of server, on `cpus` CPUs, in this place, with switches that are free
/// or not.
fn server_at(server: Server, cpus: u32, at: (bool, Mode, Policy, Server), free: bool) -> Model {
    let (in_group, mode, policy, outer) = at;
    let mut pool = Pool::new("pool", [CoreId(0), CoreId(1)]);
    let mut model = Model::new(Nanos::new(1), Vec::new());
    let given = Plan::Given(interface(10, 5, 10));
    let mut group = Component::new("group", POOL, given);
    group.server = outer;
    if in_group {
        group.policy = policy;
    } else {
        (pool.policy, pool.mode) = (policy, mode);
    }
    model.pools.push(pool);
    model.add(group);
    let home = if in_group {
        Home::Component(OUTER)
    } else {
        POOL
    };
    let mut inner = Component::new(cpus.to_string(), home, given);
    (inner.server, inner.cpus) = (server, cpus);
    model.add(inner);
    model.cost.refill = Nanos::new(u64::from(!free));
    model
}

#[test]
fn servers_are_known_where_there_is_a_proof_of_them() {
    use Server::{ConstantBandwidth, Deferrable, Periodic, Polling, SoftBandwidth};
    let servers = [
        Periodic,
        Polling,
        Deferrable,
        ConstantBandwidth,
        SoftBandwidth,
    ];
    let mut places = Vec::new();
    for policy in [Policy::Edf, Policy::RateMonotonic] {
        places.push((false, Mode::Partitioned, policy, Periodic));
        places.push((false, Mode::Global, policy, Periodic));
        places.extend(servers.map(|outer| (true, Mode::Partitioned, policy, outer)));
    }
    for (server, cpus, free) in servers
        .into_iter()
        .flat_map(|server| [(server, 1), (server, 2)])
        .flat_map(|(server, cpus)| [(server, cpus, true), (server, cpus, false)])
    {
        for at in &places {
            let (in_group, mode, policy, outer) = *at;
            let alone = cpus == 1 && (in_group || mode == Mode::Partitioned);
            let wanted = match server {
                Periodic => !in_group || outer == Periodic,
                Polling => alone,
                Deferrable => alone,
                ConstantBandwidth => alone && policy == Policy::Edf,
                SoftBandwidth => false,
            };
            let model = server_at(server, cpus, *at, free);
            let component = &model.components[1];
            let known = |jobs: &[Job], budget| {
                servers::known(&model, component, jobs, &interface(10, budget, 10)).is_ok()
            };
            let what = format!("{server:?} {cpus} {at:?} {free}");
            assert_eq!(known(&[], 3), wanted, "{what}");
            // A switch there and one back, which take 2, are all of the budget.
            let pays = !free && !matches!(server, Periodic | Polling);
            assert_eq!(known(&[], 2), wanted && !pays, "{what}");
            // A group of one.
            let promise = interface(10, 1, 10);
            let inside = (OUTER, &model.components[0]);
            let inside = Job::of_interface(&model, inside, policy, &promise, promise.budget);
            assert_eq!(known(&[inside], 3), wanted && !pays, "{what}");
        }
    }
}
