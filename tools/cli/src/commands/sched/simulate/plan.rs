//! From a description and a command line to a simulation.

use std::collections::BTreeMap;

use hanok_analysis::{Analysis, Placement, analyse};
use hanok_simulator::{Execution, Interfaces, Jitter, Options, SimError, Supply, What};
use hanok_task_model::{ComponentId, Mode, Model, Nanos, ResourceInterface};

use super::super::times::readable;
use super::args::{Length, Release, Server, SimulateArgs, Source};
use hanok_base::exit::{Code, Failure, Outcome, failure};

/// The default limit of the time, in periods of the least frequent task.
const PERIODS: u64 = 200;

/// A simulation that is ready to begin.
pub struct Plan {
    pub options: Options,
    pub cores: Vec<String>,
    pub title: String,
}

/// The simulation that `args` ask for.
pub fn plan(model: &Model, args: &SimulateArgs) -> Outcome<Plan> {
    let analysis = analyse(model).map_err(|errors| refused(&SimError::Model(errors)))?;
    let interfaces = interfaces(model, &analysis);
    let what = what(model, args, &interfaces)?;
    let horizon = args.until.unwrap_or_else(|| horizon(model, &interfaces));
    let mut options = Options::new(what, horizon);
    options.placement = placement(&analysis);
    options.interfaces = interfaces;
    options.kind = args.server.map(Into::into);
    options.slack = args.slack.into();
    options.events = args.events;
    options.jitter = match args.jitter {
        Release::None => Jitter::None,
        Release::First => Jitter::First,
        Release::Random => Jitter::Random(args.seed),
    };
    options.execution = match args.execution {
        Length::Worst => Execution::Worst,
        Length::Random => Execution::Random(args.seed),
    };
    Ok(Plan {
        cores: cores(model, &options.what),
        title: title(model, &options),
        options,
    })
}

fn interfaces(model: &Model, analysis: &Analysis) -> Interfaces {
    let each = model.ids();
    let found = each.filter_map(|(id, _)| Some((id, analysis.interface(id)?)));
    found.collect()
}

/// The cores on which the analysis placed vCPUs.
fn placement(analysis: &Analysis) -> BTreeMap<(ComponentId, u32), hanok_task_model::CoreId> {
    let placed = analysis.pools.iter().filter_map(|pool| match pool {
        Placement::Placed(cores) => Some(cores),
        _ => None,
    });
    let mut all = BTreeMap::new();
    for proof in placed.flatten() {
        if let [core] = proof.cores[..] {
            let here = proof.vcpus.iter();
            all.extend(here.map(|vcpu| ((vcpu.component, vcpu.cpu), core)));
        }
    }
    all
}

fn what(model: &Model, args: &SimulateArgs, interfaces: &Interfaces) -> Outcome<What> {
    let Some(name) = &args.component else {
        return Ok(What::System);
    };
    let Some(id) = model.find(name) else {
        let known: Vec<_> = model.components.iter().map(|c| c.name.as_str()).collect();
        let known = known.join(", ");
        let text = format!("there is no component {name}; there are {known}");
        return Err(failure(Code::Usage, text));
    };
    let several = model
        .component(id)
        .is_some_and(|component| component.cpus > 1);
    if several {
        let text = format!("{name} has several CPUs: simulate it in the whole system");
        return Err(failure(Code::Usage, text));
    }
    let supply = match args.supply {
        Source::Full => Supply::Full,
        Source::Worst => {
            let interface = interfaces.get(&id).copied().or(given(model, id));
            let no_interface = || refused(&SimError::NoInterface(name.clone()));
            worst(model, id, args, interface.ok_or_else(no_interface)?)
        }
    };
    Ok(What::Component(id, supply))
}

/// The least supply for a component that begins to have work: a polling server may lose a budget
/// first, and one that pays for its switches has so much less of each, and may have paid all of one for wakes.
fn worst(
    model: &Model,
    id: ComponentId,
    args: &SimulateArgs,
    interface: ResourceInterface,
) -> Supply {
    let own = model.component(id).map(|component| component.server);
    let polls = match args.server {
        Some(server) => server == Server::Polling,
        None => own == Some(hanok_task_model::Server::Polling),
    };
    let paid = match (args.server, model.component(id)) {
        (None, Some(component)) => {
            let beyond = hanok_analysis::cost_beyond(model, component);
            model.cost.per_period().saturating_sub(beyond)
        }
        _ => Nanos::ZERO,
    };
    let left = interface.budget.saturating_sub(paid);
    let interface = if left.is_zero() {
        interface
    } else {
        ResourceInterface {
            budget: left,
            ..interface
        }
    };
    let polls = polls || !paid.is_zero();
    match Supply::worst(interface) {
        Supply::Periodic {
            first,
            length,
            period,
        } if polls => Supply::Periodic {
            first: first.saturating_add(length),
            length,
            period,
        },
        supply => supply,
    }
}

fn given(model: &Model, id: ComponentId) -> Option<ResourceInterface> {
    match model.component(id)?.plan {
        hanok_task_model::Plan::Given(interface) => Some(interface),
        hanok_task_model::Plan::Find { .. } | hanok_task_model::Plan::Longest { .. } => None,
    }
}

/// Twice the time after which everything repeats, or a number of periods, whichever is shorter.
fn horizon(model: &Model, interfaces: &Interfaces) -> u64 {
    let tasks = model.tasks.iter().map(|task| task.period.get());
    let longest = tasks.clone().max().unwrap_or(1);
    let servers = interfaces.values().map(|interface| interface.period.get());
    let all = tasks.chain(servers).try_fold(1u64, |all, period| {
        (all / gcd(all, period)).checked_mul(period)
    });
    let late = model
        .tasks
        .iter()
        .map(|task| task.offset.saturating_add(task.jitter).get());
    let start = late.max().unwrap_or(0);
    let twice = all.and_then(|all| all.checked_mul(2)?.checked_add(start));
    let most = longest.saturating_mul(PERIODS).saturating_add(start);
    twice.map_or(most, |twice| twice.min(most))
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a.max(1),
        b => gcd(b, a % b),
    }
}

fn cores(model: &Model, what: &What) -> Vec<String> {
    if let What::Component(..) = what {
        return vec!["CPU".to_owned()];
    }
    let of_pool = model.pools.iter().flat_map(|pool| {
        pool.cores.iter().map(move |core| match pool.mode {
            Mode::Global => format!("core {core} ({})", pool.name),
            Mode::Partitioned => format!("core {core}"),
        })
    });
    of_pool.collect()
}

fn title(model: &Model, options: &Options) -> String {
    let until = readable(options.horizon);
    match &options.what {
        What::System => format!("All components, {until}"),
        What::Component(id, supply) => {
            let name = model.component(*id).map_or("", |c| c.name.as_str());
            let supply = match supply {
                Supply::Full => "on a CPU for itself",
                _ => "with the worst supply of its interface",
            };
            format!("{name} {supply}, {until}")
        }
    }
}

/// Why there is no simulation, and the remedy.
pub fn refused(error: &SimError) -> Failure {
    let more = match error {
        SimError::NoInterface(_) => {
            ": its least interface was not found; `hanok sched check` says why".to_owned()
        }
        SimError::TooLong { .. } => " (--until, or more --events)".to_owned(),
        SimError::Model(faults) => {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            format!(": {}", faults.join("; "))
        }
        SimError::Interface(..) => {
            "; --server periodic keeps every interface that there can be".to_owned()
        }
        _ => String::new(),
    };
    failure(Code::Refused, format!("{error}{more}"))
}
