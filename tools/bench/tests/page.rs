//! The page: well-formed, complete, in need of nothing, and unmoved by hostile text.

mod common;

use hanok_bench::{FIGURES, History, Results, Side, html};
use roxmltree::{Document, Node, ParsingOptions};

fn history() -> History {
    let mut history = History::default();
    for (day, (commit, worse)) in [
        ("aa01", 0.09),
        ("bb02", 0.05),
        ("cc03", 0.06),
        ("dd04", 0.01),
    ]
    .into_iter()
    .enumerate()
    {
        let date = format!("2026-11-1{day}T00:00:00Z");
        history.add(&common::results_of(&commit.repeat(10), &date, worse));
    }
    history
}

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).expect("well-formed")
}

fn named<'a>(document: &'a Document, name: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    let all = document.descendants();
    all.filter(move |node| node.has_tag_name(name) || node.tag_name().name() == name)
}

#[test]
fn the_page_is_well_formed_and_complete() {
    let page = html(&common::results(), &history());
    // For a person to look at.
    let kept = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.html");
    std::fs::write(kept, &page).unwrap();
    let document = parsed(&page);
    let drawings = named(&document, "svg").count();
    // Of both machines lmbench's rows, of one eight mechanisms; each figure over commits.
    assert_eq!(drawings, 2 + 8 + (8 + 30) + 29);
    // Operations were counted of one machine: the counts, the estimate and the model.
    let counted = |node: &Node| node.attribute("class") == Some("counted");
    assert_eq!(named(&document, "table").filter(counted).count(), 3);
    for figure in FIGURES {
        let titled = |node: Node| node.text().map(str::trim) == Some(figure.title);
        assert!(
            named(&document, "th").any(titled),
            "{} has no row",
            figure.id
        );
    }
    for id in ["cortex-a57-gicv3", "cortex-a57-gicv2", "history", "rules"] {
        let section = |node: Node| node.attribute("id") == Some(id);
        assert!(document.descendants().any(section), "{id}");
        let link = format!("#{id}");
        assert!(named(&document, "a").any(|node| node.attribute("href") == Some(&*link)));
    }
}

#[test]
fn the_page_needs_nothing_else() {
    let page = html(&common::results(), &history());
    let document = parsed(&page);
    for node in document.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        assert!(
            !["script", "link", "img", "iframe", "object"].contains(&name),
            "{name}"
        );
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(name != "src" && !name.starts_with("on"), "{name}");
            assert!(name != "href" || value.starts_with('#'), "{value}");
            assert!(!value.contains("url("), "{value}");
        }
    }
    let sheet = named(&document, "style")
        .next()
        .and_then(|node| node.text());
    let sheet = sheet.expect("a style sheet");
    assert!(!sheet.contains("url(") && !sheet.contains("@import"));
    assert!(sheet.contains("prefers-color-scheme: dark") && sheet.contains("@media print"));
}

#[test]
fn every_drawing_tells_what_it_is() {
    let page = html(&common::results(), &history());
    let document = parsed(&page);
    for svg in named(&document, "svg") {
        assert_eq!(svg.attribute("role"), Some("img"));
        assert!(
            svg.attribute("aria-label")
                .is_some_and(|label| label.len() > 10)
        );
        for node in svg.descendants().filter(Node::is_element) {
            for name in [
                "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height",
            ] {
                let Some(value) = node.attribute(name) else {
                    continue;
                };
                let number: f64 = value.parse().expect("a number");
                assert!(
                    number.is_finite() && (-1.0..=1200.0).contains(&number),
                    "{name} {value}"
                );
            }
        }
    }
    assert_eq!(
        named(&document, "html").next().unwrap().attribute("lang"),
        Some("en")
    );
}

/// Text from outside, in every place where it can stand, stays text.
#[test]
fn hostile_text_stays_text() {
    let plain = html(&common::results(), &History::default());
    let mut results = common::results();
    results.commit = common::HOSTILE.into();
    results.date = common::HOSTILE.into();
    for run in &mut results.runs {
        let machine = &mut run.machine;
        for text in [
            &mut machine.qemu,
            &mut machine.kernel,
            &mut machine.lmbench,
            &mut machine.cpu,
        ] {
            *text = common::HOSTILE.into();
        }
        machine.peers.insert(Side::Xen, common::HOSTILE.into());
        machine.settings = vec![common::HOSTILE.into(); 3];
        for one in &mut run.measurements {
            one.note = Some(common::HOSTILE.into());
        }
        for failure in &mut run.failures {
            failure.why = common::HOSTILE.into();
        }
    }
    let hostile = html(&results, &History::default());
    let elements = |page: &str| {
        let document = parsed(page);
        let all = document.descendants().filter(Node::is_element);
        all.map(|node| node.tag_name().name().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(elements(&plain), elements(&hostile));
    assert!(!hostile.contains("<script") && !hostile.contains('\u{1b}'));
}

#[test]
fn the_same_results_give_the_same_page() {
    assert_eq!(
        html(&common::results(), &history()),
        html(&common::results(), &history())
    );
}

/// Whoever has measured nothing, or one side, still gets a page.
#[test]
fn holes_are_borne() {
    let empty = html(&Results::new("c0ffee"), &History::default());
    parsed(&empty);
    for keep in Side::ALL {
        let mut results = common::results();
        for run in &mut results.runs {
            run.measurements.retain(|one| one.side == keep);
        }
        parsed(&html(&results, &history()));
    }
    let mut zeros = common::results();
    for one in zeros.runs.iter_mut().flat_map(|run| &mut run.measurements) {
        one.values = vec![0.0];
    }
    let page = html(&zeros, &History::default());
    parsed(&page);
    assert!(!page.contains("NaN"));
}

/// Each instruction of a profile is in a row, also those that no function has.
#[test]
fn a_profile_leaves_nothing_out() {
    let page = html(&common::results(), &History::default());
    let document = parsed(&page);
    let table = named(&document, "table").find(|node| node.attribute("class") == Some("profile"));
    let rows = table
        .unwrap()
        .descendants()
        .filter(|node| node.has_tag_name("tr"));
    let texts = |row: Node| {
        let all = row
            .descendants()
            .filter(Node::is_text)
            .map(|node| node.text());
        all.flatten().map(str::to_owned).collect::<Vec<_>>()
    };
    let rows: Vec<_> = rows.map(texts).collect();
    assert_eq!(rows[1][1..], ["52", "44.1 %", "44.1 %"]);
    assert_eq!(
        rows.last().unwrap()[..],
        ["(not attributed)", "3", "2.5 %", "100.0 %"]
    );
    let each = rows
        .iter()
        .skip(1)
        .map(|row| row[1].parse::<f64>().unwrap());
    assert_eq!(each.sum::<f64>(), 118.0);
}
