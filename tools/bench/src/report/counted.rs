//! What was counted beside the figures, and what that may cost on a CPU.

use crate::model::Run;
use crate::operations;
use hanok_draw::markup::{Element, el, tell};

/// The tables of counts, of the estimate, and of the model; empty where nothing was counted.
pub(super) fn section(run: &Run) -> Vec<Element> {
    let counts = operations::counts(run);
    if counts.is_empty() {
        return Vec::new();
    }
    let header = |titles: Vec<&str>| titles.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let costs = operations::costs().into_iter().map(Vec::from).collect();
    let model = el("details")
        .child(tell("summary", "The cost model and its sources"))
        .child(table(header(operations::COSTS_HEADER.into()), costs))
        .child(el("ul").children(operations::sources().into_iter().map(|one| tell("li", one))));
    vec![
        tell("h3", "What the emulator does not show"),
        tell("p", operations::COUNTED),
        table(header(operations::counted_header()), counts),
        tell("h3", "An estimate of it"),
        tell("p", operations::ESTIMATE),
        table(operations::estimated_header(), operations::estimates(run)),
        model,
    ]
}

fn table(header: Vec<String>, rows: Vec<Vec<String>>) -> Element {
    let head = header
        .into_iter()
        .map(|title| tell("th", title).attr("scope", "col"));
    let body = rows.into_iter().map(|row| {
        let mut cells = row.into_iter();
        let title = cells
            .next()
            .map(|title| tell("th", title).attr("scope", "row"));
        el("tr")
            .children(title)
            .children(cells.map(|cell| tell("td", cell)))
    });
    let table = el("table")
        .class("counted")
        .child(el("thead").child(el("tr").children(head)))
        .child(el("tbody").children(body));
    el("div").class("wide").child(table)
}
