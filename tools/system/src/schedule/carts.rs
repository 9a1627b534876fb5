//! Reads systems in the XML format of the analysis tool CARTS.
//!
//! `<system os_scheduler=... period=...>` holds `<component name=... scheduler=... period=...>`,
//! which hold components or `<task name=... p=... d=... e=...>`: period, deadline, execution time.
//! Instead of `period` there may be `min_period` and `max_period`. The schedulers that are read are
//! EDF, RM and DM. Times have no unit and may have decimals; a unit is taken as a millisecond.
//! Whatever is not understood is refused, also an overhead (`delta_...`) that is not zero: an
//! answer that ignored it would be wrong.

use super::build::{Spans, refuse};
use super::model::Schedule;
use crate::diagnostic::{Diagnostic, Report, Words};
use crate::time;
use hanok_task_model::{
    Component, ComponentId, CoreId, Home, Model, Nanos, Periods, Plan, Policy, Pool, PoolId, Task,
    Window,
};
use roxmltree::{Document, Node};
use std::path::Path;

/// Nanoseconds in one unit of a file's times.
const UNIT: u64 = 1_000_000;
/// The tick to which budgets are rounded.
const TICK: Nanos = Nanos::from_micros(1);
/// The largest depth of components inside one another.
const DEPTH: usize = 100;

/// The schedule in `text`, which is reported as the content of `path`. The error has all faults.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Schedule, Vec<Diagnostic>> {
    let mut report = Report::new(path, text);
    let schedule = match Document::parse(text) {
        Ok(document) => system(&mut report, document.root_element()),
        Err(error) => {
            let before = error.pos().row.saturating_sub(1) as usize;
            let start: usize = text.split_inclusive('\n').take(before).map(str::len).sum();
            let what = format!("it is no XML: {error}");
            let why = "a file whose name ends in .xml is read as CARTS has it";
            let words = Words::new(what, why, "mend it, or describe it in TOML");
            report.refuse(&(start..start), words);
            None
        }
    };
    match schedule {
        Some(schedule) if report.found.is_empty() => Ok(schedule),
        _ => Err(report.found),
    }
}

fn system(report: &mut Report, root: Node<'_, '_>) -> Option<Schedule> {
    if root.tag_name().name() != "system" {
        unknown(report, root, "the outermost element is <system>");
        return None;
    }
    let mut reading = Reading {
        report,
        model: Model::new(TICK, vec![Pool::new("cores", [CoreId(0)])]),
        spans: Spans::default(),
    };
    reading.spans.pools.push(root.range());
    let policy = reading.policy(root, "os_scheduler")?;
    if let Some(pool) = reading.model.pools.first_mut() {
        pool.policy = policy;
    }
    // With a period the system itself gets an interface.
    let home = if ["period", "min_period"]
        .iter()
        .any(|key| root.has_attribute(*key))
    {
        Home::Component(reading.add(root, "system", policy, Home::Pool(PoolId(0)))?)
    } else {
        Home::Pool(PoolId(0))
    };
    reading.attributes(
        root,
        &["os_scheduler", "period", "min_period", "max_period"],
    );
    reading.inside(root, home, 0);
    let Reading {
        report,
        model,
        spans,
    } = reading;
    refuse(report, &model, &spans, &root.range())?;
    Some(Schedule {
        path: report.path.clone(),
        marks: spans.marks(report),
        model,
    })
}

fn unknown(report: &mut Report, node: Node<'_, '_>, why: &str) {
    let what = format!("<{}> is not understood here", node.tag_name().name());
    let remedy = "write <system>, in it <component>s, in these <task>s or <component>s";
    report.refuse(&node.range(), Words::new(what, why, remedy));
}

struct Reading<'a> {
    report: &'a mut Report,
    model: Model,
    spans: Spans,
}

impl Reading<'_> {
    /// Reads the content of `node`, which gets its CPU time from `home`.
    fn inside(&mut self, node: Node<'_, '_>, home: Home, depth: usize) {
        for child in node.children().filter(Node::is_element) {
            match (child.tag_name().name(), home) {
                ("component", _) if depth < DEPTH => self.component(child, home, depth),
                ("task", Home::Component(component)) => self.task(child, component),
                ("task", Home::Pool(_)) => {
                    unknown(
                        self.report,
                        child,
                        "the system has no `period`, so no tasks",
                    );
                }
                _ => unknown(
                    self.report,
                    child,
                    "there are tasks and components, a hundred deep",
                ),
            }
        }
    }

    fn component(&mut self, node: Node<'_, '_>, home: Home, depth: usize) {
        let known = [
            "name",
            "scheduler",
            "subtype",
            "period",
            "min_period",
            "max_period",
        ];
        self.attributes(node, &known);
        let name = self.text(node, "name").map(str::to_owned);
        let policy = self.policy(node, "scheduler");
        if let (Some(name), Some(policy)) = (name, policy)
            && let Some(id) = self.add(node, &name, policy, home)
        {
            self.inside(node, Home::Component(id), depth + 1);
        }
    }

    /// Adds a component with the periods of `node`.
    fn add(
        &mut self,
        node: Node<'_, '_>,
        name: &str,
        policy: Policy,
        home: Home,
    ) -> Option<ComponentId> {
        let periods = if node.has_attribute("period") {
            Periods::One(self.time(node, "period")?)
        } else {
            Periods::Range {
                least: self.time(node, "min_period")?,
                most: self.time(node, "max_period")?,
            }
        };
        let window = Window::Period;
        let mut component = Component::new(name, home, Plan::Find { periods, window });
        component.policy = policy;
        self.spans.components.push(node.range());
        Some(self.model.add(component))
    }

    fn task(&mut self, node: Node<'_, '_>, component: ComponentId) {
        self.attributes(node, &["name", "p", "d", "e"]);
        let name = self.text(node, "name").map(str::to_owned);
        let times = (
            self.time(node, "p"),
            self.time(node, "d"),
            self.time(node, "e"),
        );
        if let (Some(name), (Some(period), Some(deadline), Some(execution))) = (name, times) {
            let mut task = Task::new(name, component, period, execution);
            task.deadline = deadline;
            self.model.add_task(task);
            self.spans.tasks.push(node.range());
        }
    }

    /// Refuses attributes that are not `known`.
    fn attributes(&mut self, node: Node<'_, '_>, known: &[&str]) {
        let nothing = |value: &str| time::decimal(value, UNIT) == Some(0);
        let others = node.attributes().filter(|one| !known.contains(&one.name()));
        for other in others.filter(|one| !nothing(one.value())) {
            let what = format!("`{}` is not understood", other.name());
            let why = "what it means would be missing in the answer";
            let remedy = "remove it, or describe the system in TOML";
            self.report
                .refuse(&node.range(), Words::new(what, why, remedy));
        }
    }

    fn text<'i>(&mut self, node: Node<'i, '_>, key: &str) -> Option<&'i str> {
        let found = node.attribute(key);
        if found.is_none() {
            let what = format!("<{}> has no `{key}`", node.tag_name().name());
            let remedy = format!("add {key}=\"...\"");
            self.report
                .refuse(&node.range(), Words::new(what, "it has no default", remedy));
        }
        found
    }

    fn time(&mut self, node: Node<'_, '_>, key: &str) -> Option<Nanos> {
        let text = self.text(node, key)?;
        let found = time::decimal(text.trim(), UNIT);
        if found.is_none() {
            let what = format!("`{key}` is no time: \"{text}\"");
            let why = "times are numbers from 0, of milliseconds";
            self.report
                .refuse(&node.range(), Words::new(what, why, "write a number"));
        }
        found.map(Nanos::new)
    }

    fn policy(&mut self, node: Node<'_, '_>, key: &str) -> Option<Policy> {
        match self.text(node, key)? {
            "EDF" => Some(Policy::Edf),
            "RM" => Some(Policy::RateMonotonic),
            "DM" => Some(Policy::DeadlineMonotonic),
            other => {
                let what = format!("no scheduler \"{other}\"");
                let why = "on one CPU there are EDF, RM and DM; how many CPUs there are is not said \
                           in such a file";
                let remedy = "for several CPUs, describe the system in TOML";
                self.report
                    .refuse(&node.range(), Words::new(what, why, remedy));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"<?xml version="1.0"?>
<system os_scheduler="EDF" period="5">
  <component name="c1" scheduler="DM" min_period="1" max_period="10">
    <task name="t1" p="50.0" d="50.0" e="7" delta_rel="0" delta_sch="0.0"></task>
    <task name="t2" p="75" d="60.5" e="9"/>
  </component>
  <component name="c2" scheduler="EDF" period="10">
    <component name="c3" scheduler="RM" period="20"><task name="t1" p="100" d="100" e="1"/></component>
  </component>
</system>"#;

    fn read(text: &str) -> Result<Schedule, Vec<Diagnostic>> {
        parse(Path::new("system.xml"), text)
    }

    #[test]
    fn a_system_is_read() {
        let schedule = read(EXAMPLE).unwrap();
        let model = &schedule.model;
        let names: Vec<_> = model
            .components
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(names, ["system", "c1", "c2", "c3"]);
        let homes: Vec<_> = model.components.iter().map(|one| one.home).collect();
        let system = Home::Component(ComponentId(0));
        let inner = Home::Component(ComponentId(2));
        assert_eq!(homes, [Home::Pool(PoolId(0)), system, system, inner]);
        assert_eq!(model.components[1].policy, Policy::DeadlineMonotonic);
        let second = &model.tasks[1];
        let [period, deadline] = [75_000, 60_500].map(Nanos::from_micros);
        assert_eq!((second.period, second.deadline), (period, deadline));
        assert_eq!(schedule.line_of_task(hanok_task_model::TaskId(1)), Some(5));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        for (from, to, line) in [
            ("delta_rel=\"0\"", "delta_rel=\"0.1\"", 4),
            ("scheduler=\"DM\"", "scheduler=\"gEDF\"", 3),
            ("e=\"9\"", "e=\"nine\"", 5),
            ("e=\"9\"", "e=\"-9\"", 5),
            (" p=\"75\"", "", 5),
            (" period=\"10\"", "", 7),
            ("<task name=\"t2\"", "<job name=\"t2\"", 5),
            ("name=\"c2\"", "name=\"c1\"", 7),
            ("d=\"60.5\"", "d=\"0\"", 5),
        ] {
            assert!(EXAMPLE.contains(from), "{from}");
            let found = read(&EXAMPLE.replacen(from, to, 1)).unwrap_err();
            assert_eq!(found[0].line, line, "{to}: {found:?}");
        }
        assert_eq!(
            read("<system>\n<component\n</system>").unwrap_err()[0].line,
            3
        );
        assert!(read("<tasks/>").is_err());
    }

    #[test]
    fn depth_is_bounded() {
        let open = "<component name=\"c\" scheduler=\"EDF\" period=\"5\">";
        let text = |depth: usize| {
            let (open, close) = (open.repeat(depth), "</component>".repeat(depth));
            format!("<system os_scheduler=\"EDF\">{open}{close}</system>")
        };
        let found = read(&text(DEPTH + 1)).unwrap_err();
        assert!(found[0].what.contains("not understood"), "{found:?}");
    }
}
