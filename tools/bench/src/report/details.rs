//! The details of the figures: failures, profiles, raw values, and the rules.

use crate::figure::Figure;
use crate::format;
use crate::model::{Failure, FunctionCost, Measurement, Profile, Run};
use hanok_draw::markup::{Element, el, tell};

/// A side that failed, with its console's last lines.
pub(super) fn failure(failure: &Failure) -> Element {
    let told = el("div")
        .class("failure")
        .attr("role", "note")
        .child(tell("h3", format!("{} failed", failure.side.title())))
        .child(tell("p", &failure.why));
    if failure.console.is_empty() {
        return told;
    }
    let console = tell("pre", failure.console.join("\n")).attr("tabindex", 0);
    let details = el("details")
        .child(tell("summary", "The console's last lines"))
        .child(console);
    told.child(details)
}

/// Where the instructions of a figure went.
pub(super) fn profile(profile: &Profile) -> Element {
    let title = Figure::find(&profile.figure).map_or(&*profile.figure, |figure| figure.title);
    let round = each(profile.total, profile);
    let mut functions = profile.functions.clone();
    functions.sort_by(|a, b| {
        b.instructions
            .cmp(&a.instructions)
            .then_with(|| a.name.cmp(&b.name))
    });
    functions.extend(rest(profile));
    let mut before = 0;
    let rows = functions.iter().map(|one| {
        before += one.instructions;
        cost(one, before, profile)
    });
    let head = el("tr")
        .child(tell("th", "Function").attr("scope", "col"))
        .child(
            tell("th", "Instructions")
                .attr("scope", "col")
                .class("number"),
        )
        .child(tell("th", "Share").attr("scope", "col").class("number"))
        .child(
            tell("th", "Up to here")
                .attr("scope", "col")
                .class("number"),
        )
        .child(
            tell("th", "")
                .attr("scope", "col")
                .attr("aria-hidden", "true"),
        );
    let table = el("table")
        .class("profile")
        .child(el("thead").child(head))
        .child(el("tbody").children(rows));
    el("div")
        .child(tell("h3", format!("{title}: where each instruction goes")))
        .child(tell(
            "p",
            format!(
                "{round} instructions of the hypervisor a time, over {} times.",
                profile.rounds
            ),
        ))
        .child(el("div").class("wide").child(table))
}

/// What no function has.
fn rest(profile: &Profile) -> Option<FunctionCost> {
    let known = profile.functions.iter();
    let known: u64 = known.map(|one| one.instructions).sum();
    let instructions = profile.total.checked_sub(known)?;
    (instructions > 0).then(|| FunctionCost {
        name: "(not attributed)".to_owned(),
        instructions,
    })
}

fn cost(one: &FunctionCost, before: u64, profile: &Profile) -> Element {
    let share = |count: u64| match profile.total {
        0 => 0.0,
        total => count as f64 / total as f64,
    };
    let percent = |part: f64| format!("{:.1} %", part * 100.0);
    let width = format!("width:{:.1}%", share(one.instructions) * 100.0);
    let bar = el("td")
        .class("share")
        .attr("aria-hidden", "true")
        .child(el("span").attr("style", width));
    el("tr")
        .child(el("th").attr("scope", "row").child(tell("code", &one.name)))
        .child(tell("td", each(one.instructions, profile)).class("number"))
        .child(tell("td", percent(share(one.instructions))).class("number"))
        .child(tell("td", percent(share(before))).class("number"))
        .child(bar)
}

/// So many instructions of all rounds, for one.
fn each(instructions: u64, profile: &Profile) -> String {
    format::number(instructions as f64 / profile.rounds.max(1) as f64)
}

/// Every value as it was read.
pub(super) fn raw(run: &Run) -> Element {
    let column = |title: &str| tell("th", title).attr("scope", "col");
    let head = el("tr").children(["Figure", "Side", "Unit", "Each repeat", "Note"].map(column));
    let table = el("table")
        .class("raw")
        .child(el("thead").child(head))
        .child(el("tbody").children(run.measurements.iter().map(values)));
    el("details")
        .class("raw-values")
        .child(tell("summary", "All raw values"))
        .child(el("div").class("wide").child(table))
}

fn values(one: &Measurement) -> Element {
    let each = one.values.iter().map(f64::to_string);
    let each = each.collect::<Vec<_>>().join("  ");
    el("tr")
        .child(
            el("th")
                .attr("scope", "row")
                .child(tell("code", &one.figure)),
        )
        .child(tell("td", one.side.id()))
        .child(tell("td", one.unit.name()))
        .child(el("td").child(tell("code", each)))
        .child(tell("td", one.note.as_deref().unwrap_or_default()))
}

/// How the figures were measured, for readers who doubt them.
pub(super) fn rules() -> Element {
    const RULES: [(&str, &str); 7] = [
        (
            "Time is instructions.",
            "The emulator executes one instruction in one virtual nanosecond (-icount shift=0), \
             so a ratio of virtualized to native is exact and the same on any PC. Caches, TLBs \
             and pipelines are not in it: these figures compare software paths. The PC's own \
             clock is in none of them.",
        ),
        (
            "One core runs.",
            "With two busy cores the emulator lets one stand still for milliseconds of virtual \
             time. Figures come from one core; what needs two is counted for each core by a \
             plugin of the emulator.",
        ),
        (
            "All sides run the same.",
            "The same kernel, userland, memory size, and seeds; no address randomization and no \
             mitigations on any side, since a guest otherwise chooses others than native does.",
        ),
        (
            "Repeats are shown.",
            "The verdict is by the median. Where repeats differ, the greatest distance from the \
             median is told, and a verdict that some repeats would turn is marked.",
        ),
        (
            "Cost is for the same work.",
            "Of a latency the time over native's, of a bandwidth the time for a byte over \
             native's: 1.010x is one percent worse in either.",
        ),
        (
            "Beyond native is the hypervisor's.",
            "Where the guest's own instructions are part of a figure, the same work natively is \
             taken off, and what is left is judged.",
        ),
        (
            "Published values are of others.",
            "They were measured by their authors or on the same emulator earlier, under the \
             conditions that their tips tell. They are shown beside ours; no verdict uses them.",
        ),
    ];
    let items = RULES.map(|(rule, why)| {
        let rule = tell("strong", rule);
        el("li").child(rule).text(format!(" {why}"))
    });
    el("section")
        .attr("id", "rules")
        .child(tell("h2", "How it was measured"))
        .child(el("ul").class("rules").children(items))
}
