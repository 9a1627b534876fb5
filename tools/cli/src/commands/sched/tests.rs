//! Tests the example in every form of the answer, and a refused one.

use std::path::{Path, PathBuf};

use hanok_analysis::{Analysis, analyse};
use hanok_certificate_checker::check;
use hanok_system::Schedule;
use hanok_task_model::Certificate;

use super::found::Found;
use super::paths::Late;
use super::{json, report, table};
use hanok_draw::labels::{Point, Rectangle};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The repository's example with `from` replaced by `to`.
fn example(from: &str, to: &str) -> (Schedule, Analysis) {
    let path = root().join("systems/schedule.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from}");
    let text = text.replacen(from, to, 1);
    let boards = root().join("boards");
    let schedule = hanok_system::parse_schedule(Path::new("systems/schedule.toml"), &text, &boards);
    let schedule = schedule.unwrap();
    let analysis = analyse(&schedule.model).unwrap();
    (schedule, analysis)
}

#[test]
fn the_example_is_admitted_in_every_form() {
    let (schedule, analysis) = example("", "");
    let found = Found::new(&schedule, &analysis);
    let text = table::lines(&found, Vec::new()).join("\n");
    assert!(text.contains("All deadlines are kept"), "{text}");
    assert!(text.contains("2     real-time  "), "{text}");
    let page = report::html(&found);
    // Five components have two drawings each, except Linux, whose periods have none; and three
    // bars.
    assert_eq!(page.matches("<svg").count(), 2 * 5 - 1 + 3);
    assert!(
        !page.contains("NaN") && !page.contains("inf"),
        "a place is no number"
    );
    assert!(page.contains("All deadlines are kept"));
}

#[test]
fn the_certificate_survives_json() {
    let (schedule, analysis) = example("", "");
    let found = Found::new(&schedule, &analysis);
    let text = json::text(&found, &Late::default()).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["admitted"], true);
    let certificate: Certificate = serde_json::from_value(answer["certificate"].clone()).unwrap();
    assert_eq!(check(&schedule.model, &certificate), Ok(()));
    assert_eq!(Some(certificate), found.certificate);
}

#[test]
fn a_refusal_says_who_when_how_much_and_what_helps() {
    let (schedule, analysis) = example("execution = \"14ms\"", "execution = \"46ms\"");
    let found = Found::new(&schedule, &analysis);
    assert!(found.certificate.is_none());
    let text = table::lines(&found, Vec::new()).join("\n");
    let sentence = "systems/schedule.toml:103: task frame of display misses its deadline: 100ms \
                    after the worst release, 102ms of CPU time are needed and 100ms there, 2ms \
                    short (display would be too much for a CPU of its own)";
    assert!(text.contains(sentence), "{text}");
    assert!(text.contains("would do: execution"), "{text}");
    assert!(
        text.contains("pool real-time: no answer: waits for display"),
        "{text}"
    );
    let answer: serde_json::Value =
        serde_json::from_str(&json::text(&found, &Late::default()).unwrap()).unwrap();
    assert_eq!(answer["admitted"], false);
    assert_eq!(answer["refutations"][0]["shortfall"], "2000000");
    let page = report::html(&found);
    assert!(
        page.contains("Not all deadlines are kept") && page.contains("2ms short"),
        "{page}"
    );
}

#[test]
fn a_given_budget_that_is_too_small_is_told_the_least() {
    let (schedule, analysis) = example(
        "period = [\"2ms\", \"30ms\"]",
        "period = \"10ms\"\nbudget = \"3ms\"",
    );
    let found = Found::new(&schedule, &analysis);
    let text = table::lines(&found, Vec::new()).join("\n");
    assert!(text.contains("display gives 3ms in 10ms"), "{text}");
    let change = text.split("would do: budget ").nth(1).unwrap();
    let budget = change.split(' ').next().unwrap();
    // With the proposed change, it is admitted.
    let given = format!("period = \"10ms\"\nbudget = \"{budget}\"");
    let (schedule, analysis) = example("period = [\"2ms\", \"30ms\"]", &given);
    assert!(
        Found::new(&schedule, &analysis).certificate.is_some(),
        "{budget}"
    );
}

#[test]
fn the_answer_as_comma_separated_values() {
    let (schedule, analysis) = example("", "");
    let found = Found::new(&schedule, &analysis);
    let text = super::csv::text(&found);
    let columns = |line: &str| line.split(',').count();
    let (tasks, components) = (schedule.model.tasks.len(), schedule.model.components.len());
    assert_eq!(text.matches("\r\n").count(), 1 + tasks + components);
    assert!(text.lines().all(|line| columns(line) == 13), "{text}");
    let drive = "component,drive,pool real-time,dm,1,2500000,840000,2500000,,,,proven,periodic";
    assert!(text.contains(drive), "{text}");
    // What is not proven has no figures.
    let (schedule, analysis) = example("execution = \"14ms\"", "execution = \"46ms\"");
    let found = Found::new(&schedule, &analysis);
    let text = super::csv::text(&found);
    let frame = text.lines().find(|line| line.starts_with("task,frame,"));
    assert!(
        frame.is_some_and(|line| line.ends_with(",,,not proven,")),
        "{text}"
    );
}

/// A budget that is no whole nanosecond is rounded up, with the exact value beside it; programs get
/// the fraction.
#[test]
fn a_least_budget_is_a_time_and_no_fraction() {
    let (schedule, analysis) = example("", "");
    let found = Found::new(&schedule, &analysis);
    let written = "1.226ms (1225806 14/31 ns)";
    let text = table::lines(&found, Vec::new()).join("\n");
    assert!(text.contains(written), "{text}");
    assert!(report::html(&found).contains(written));
    let answer: serde_json::Value =
        serde_json::from_str(&json::text(&found, &Late::default()).unwrap()).unwrap();
    let exact = &answer["components"][4]["exact_budget"];
    assert_eq!(exact["numerator"], 38_000_000);
    assert_eq!(exact["denominator"], 31);
}

/// Every form of the answer has the kind of server in the description's word, proven or not.
#[test]
fn every_form_says_the_kind_of_server() {
    for kind in [
        "periodic",
        "polling",
        "deferrable",
        "bandwidth",
        "soft-bandwidth",
    ] {
        let given = format!("period = [\"2ms\", \"30ms\"]\nserver = \"{kind}\"");
        let (schedule, analysis) = example("period = [\"2ms\", \"30ms\"]", &given);
        let found = Found::new(&schedule, &analysis);
        let lines = table::lines(&found, Vec::new());
        let display = lines.iter().find(|line| line.starts_with("display "));
        let cells: Vec<_> = display.unwrap().split_whitespace().collect();
        assert_eq!(cells[4], kind, "{lines:?}");
        let answer: serde_json::Value =
            serde_json::from_str(&json::text(&found, &Late::default()).unwrap()).unwrap();
        assert_eq!(answer["components"][4]["server"], kind);
        let rows = super::csv::text(&found);
        let row = rows
            .lines()
            .find(|line| line.starts_with("component,display,"));
        assert!(
            row.is_some_and(|row| row.ends_with(&format!(",{kind}"))),
            "{rows}"
        );
        let page = report::html(&found);
        let cell = format!("<td>{kind}</td>");
        assert_eq!(
            page.matches(&cell).count(),
            if kind == "periodic" { 5 } else { 1 }
        );
    }
}

/// For each drawing, its curves and its label, as a browser would show them.
fn labels_and_curves(page: &str) -> Vec<(Rectangle, Vec<Vec<Point>>)> {
    let number = |node: roxmltree::Node<'_, '_>, name| node.attribute(name)?.parse::<f64>().ok();
    let points = |node: roxmltree::Node<'_, '_>| -> Vec<Point> {
        let pairs = node.attribute("points").unwrap_or_default().split(' ');
        let pairs = pairs.filter_map(|pair| pair.split_once(','));
        pairs
            .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
            .collect()
    };
    let of = |svg: roxmltree::Node<'_, '_>| {
        let halo = |node: &roxmltree::Node<'_, '_>| {
            node.attribute("class")
                .is_some_and(|class| class.contains("halo"))
        };
        let label = svg.descendants().find(halo)?;
        let (x, y) = (number(label, "x")?, number(label, "y")?);
        let length = label.text()?.chars().count() as f64;
        // The width and height of the label in DejaVu Sans Bold at 13 pixels.
        let covers = Rectangle {
            from: (x, y - 10.0),
            to: (x + 7.8 * length, y + 3.0),
        };
        let curves = svg
            .descendants()
            .filter(|node| node.has_tag_name("polyline"));
        Some((covers, curves.map(points).collect()))
    };
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    let tree = roxmltree::Document::parse_with_options(page, options).unwrap();
    let drawings = tree.descendants().filter(|node| node.has_tag_name("svg"));
    drawings.filter_map(of).collect()
}

#[test]
fn no_label_lies_on_a_curve() {
    for (from, to) in [
        ("", ""),
        ("execution = \"14ms\"", "execution = \"46ms\""),
        ("switch = \"4us\"", "switch = \"70us\""),
        (
            "period = [\"2ms\", \"30ms\"]",
            "period = [\"1ms\", \"900ms\"]",
        ),
        (
            "period = [\"2ms\", \"30ms\"]",
            "period = \"10ms\"\nserver = \"polling\"",
        ),
    ] {
        let (schedule, analysis) = example(from, to);
        let found = labels_and_curves(&report::html(&Found::new(&schedule, &analysis)));
        assert!(found.len() >= 6, "{to}: {}", found.len());
        for (label, curves) in found {
            let curves: Vec<&[Point]> = curves.iter().map(Vec::as_slice).collect();
            assert!(label.is_clear(&curves), "{to}: {label:?}");
        }
    }
}

/// `auto-fit` makes one drawing as wide as the page, with letters as large as headings.
#[test]
fn a_drawing_alone_is_no_larger_than_others() {
    let sheet = include_str!("report.css");
    assert!(sheet.contains("auto-fill") && !sheet.contains("auto-fit"));
}

/// The name is in the bar where it fits, else below it.
#[test]
fn every_vcpu_of_a_core_is_named() {
    let vm = "[[vm]]\nname = \"linux\"";
    let long = "the-watcher-that-looks-at-all-others";
    let small = format!("[[schedule.group]]\nname = \"{long}\"\npool = \"real-time\"\n");
    let small = small + "period = \"10ms\"\nbudget = \"100us\"\n\n" + vm;
    let (schedule, analysis) = example(vm, &small);
    let page = report::html(&Found::new(&schedule, &analysis));
    assert!(
        page.contains("class=\"on-part\">drive 35.20 %</text>"),
        "{page}"
    );
    let words = format!("without room for a name, from the left: {long} 1.40 %</p>");
    assert!(page.contains(&words), "{page}");
}
