//! The page of an analysis: one file that needs no other.

use hanok_draw::markup::{Element, el, tell};
use hanok_task_model::{ComponentId, PoolId};

use super::found::{Found, exact, percent, policy, promise, server};
use super::{charts, cores};

/// The page's only style sheet.
const SHEET: &str = include_str!("report.css");

/// The number of components up to which each one has drawings. Of more, only the refused and the
/// first ones have.
const DRAWN: usize = 60;

/// The page.
pub fn html(found: &Found<'_>) -> String {
    let file = found.schedule.path.file_name().unwrap_or_default();
    let title = format!("Schedule of {}", file.to_string_lossy());
    let viewport = el("meta").attr("name", "viewport");
    let head = el("head")
        .child(el("meta").attr("charset", "utf-8"))
        .child(viewport.attr("content", "width=device-width, initial-scale=1"))
        .child(tell("title", title.clone()))
        .child(el("style").style(SHEET));
    let main = el("main")
        .child(verdict(found))
        .child(cores::section(found))
        .child(table(found))
        .child(tell("h2", "Each component"))
        .child(legend())
        .children(details(found));
    let header = el("header").child(tell("h1", title));
    let body = el("body").child(header).child(main);
    el("html")
        .attr("lang", "en")
        .child(head)
        .child(body)
        .document()
}

/// Whether all deadlines are kept, or what is refused.
fn verdict(found: &Found<'_>) -> Element {
    let model = found.model();
    let what = format!(
        "{}, {}, ticks of {}; a switch costs {} and {} of refill",
        counted(model.components.len(), "component"),
        counted(model.tasks.len(), "task"),
        model.tick,
        model.cost.switch,
        model.cost.refill,
    );
    if found.certificate.is_some() {
        return el("section")
            .class("verdict reached")
            .child(tell("p", "All deadlines are kept").class("big"))
            .child(tell(
                "p",
                "The certificate was checked by a program that shares no code with the analysis.",
            ))
            .child(tell("p", what).class("about"));
    }
    let mut list = el("ul");
    for refuted in &found.analysis.refutations {
        let changes = refuted
            .changes
            .iter()
            .map(|change| tell("li", found.change(*change)));
        let item = el("li").text(found.sentence(refuted));
        list = list.child(if refuted.changes.is_empty() {
            item
        } else {
            item.child(tell("p", "Would do:"))
                .child(el("ul").children(changes))
        });
    }
    for (id, component) in model.ids() {
        if let Some(why) = found.open(id) {
            list = list.child(tell("li", format!("{}: no answer: {why}", component.name)));
        }
    }
    for (id, pool) in (0..).map(PoolId).zip(&model.pools) {
        if let Some(why) = found.open_pool(id) {
            list = list.child(tell("li", format!("pool {}: no answer: {why}", pool.name)));
        }
    }
    el("section")
        .class("verdict short")
        .child(tell("p", "Not all deadlines are kept").class("big"))
        .child(list)
        .child(tell("p", what).class("about"))
}

fn counted(count: usize, what: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {what}{end}")
}

/// All components in one table.
fn table(found: &Found<'_>) -> Element {
    let heads = [
        "Component",
        "In",
        "Policy",
        "Server",
        "Interface",
        "Share",
        "Least budget",
    ];
    let head = el("tr").children(heads.map(|head| tell("th", head)));
    let mut body = el("tbody");
    for (id, component) in found.model().ids() {
        let proof = found.proof(id);
        let interface = match proof {
            Some(proof) => promise(&proof.interface),
            None => "none".to_owned(),
        };
        let share = proof.map(|proof| {
            percent(proof.interface.budget.get() as f64 / proof.interface.period.get() as f64)
        });
        let least = proof.and_then(|proof| proof.exact.as_ref().map(|found| exact(found.budget)));
        let cells = [
            component.name.clone(),
            found.home(component),
            policy(component.policy).to_owned(),
            server(component.server).to_owned(),
            interface,
            share.unwrap_or_default(),
            least.unwrap_or_default(),
        ];
        body = body.child(el("tr").children(cells.map(|cell| tell("td", cell))));
    }
    let whole = el("table").child(el("thead").child(head)).child(body);
    el("section")
        .child(tell("h2", "Components"))
        .child(el("div").class("wide").child(whole))
}

/// What the lines of the drawings mean.
fn legend() -> Element {
    let entry = |class: &str, words: &str| {
        el("span")
            .class("key")
            .child(el("span").class(format!("swatch {class}")))
            .text(words)
    };
    el("p")
        .class("legend")
        .child(entry("demand", "demand: what the members can need"))
        .child(entry(
            "supply",
            "least supply; on the right, the budget alone",
        ))
        .child(entry("cost", "the budget with what switching costs"))
        .child(entry("limit", "what the members use in the long run"))
}

fn details(found: &Found<'_>) -> Vec<Element> {
    let refused = |id: ComponentId| found.proof(id).is_none() && found.open(id).is_none();
    let ids = found.model().ids().enumerate();
    let drawn = ids.filter(|(index, (id, _))| *index < DRAWN || refused(*id));
    drawn
        .map(|(_, (id, component))| {
            let interface = match found.proof(id) {
                Some(proof) => promise(&proof.interface),
                None => found.open(id).unwrap_or_else(|| "refused".to_owned()),
            };
            let cpus = match component.cpus {
                1 => String::new(),
                cpus => format!(" on {cpus} CPUs"),
            };
            let kind = server(component.server);
            let drawings = [charts::demand(found, id), charts::bandwidth(found, id)];
            let cards = drawings.into_iter().flatten();
            let cards = cards.map(|svg| el("div").class("card").child(svg));
            el("section")
                .class("component")
                .child(
                    el("h3")
                        .text(component.name.clone())
                        .child(tell("span", format!(" {interface}{cpus}, {kind}")).class("about")),
                )
                .child(el("div").class("cards").children(cards))
                .child(tasks(found, id))
        })
        .collect()
}

/// The tasks of a component.
fn tasks(found: &Found<'_>, id: ComponentId) -> Element {
    let own = found
        .model()
        .tasks
        .iter()
        .filter(|task| task.component == id);
    let rows = own.map(|task| {
        let mut words = vec![
            format!("every {}", task.period),
            format!("runs {}", task.execution),
        ];
        if task.deadline != task.period {
            words.push(format!("due within {}", task.deadline));
        }
        if !task.jitter.is_zero() {
            words.push(format!("jitter {}", task.jitter));
        }
        if !task.offset.is_zero() {
            words.push(format!("from {}", task.offset));
        }
        el("li")
            .child(tell("strong", task.name.clone()))
            .text(format!(" {}", words.join(", ")))
    });
    el("ul").class("tasks").children(rows)
}
