use super::*;

struct World {
    reports: Reports,
    now: Instant,
}

impl World {
    fn new() -> Self {
        Self {
            reports: Reports::default(),
            now: Instant::now(),
        }
    }

    fn next(&mut self) -> Option<String> {
        self.reports.next(self.now)
    }

    /// What terminals get once the board has said these lines.
    fn said(&mut self, lines: &[&str]) -> Vec<(usize, String)> {
        let now = self.now;
        lines.iter().for_each(|line| self.reports.board(line, now));
        self.reports.answers(now)
    }
}

fn of(visitor: usize, lines: &[&str]) -> Vec<(usize, String)> {
    let lines = lines.iter();
    lines.map(|line| (visitor, (*line).to_owned())).collect()
}

#[test]
fn each_terminal_gets_its_own_answers_with_its_own_number() {
    let mut world = World::new();
    world.reports.ask(3, "report 7");
    world.reports.ask(4, "report 7");
    assert_eq!(world.next().as_deref(), Some("report 1"));
    assert_eq!(world.next(), None, "one at a time");
    let lines = ["board 1000 5 1 1 1", "core 0 turns - 5 1 1 1 1 1", "end 1"];
    let mine = ["board 1000 5 1 1 7", "core 0 turns - 5 1 1 1 1 7", "end 7"];
    assert_eq!(world.said(&lines), of(3, &mine));
    assert_eq!(world.next(), None, "a vCPU is missing");
    assert_eq!(world.said(&["vcpu 0 0 x 1"]), of(3, &["vcpu 0 0 x 7"]));
    assert_eq!(world.next().as_deref(), Some("report 2"));
    // A core that was late for the first report, and somebody's number that is nobody's.
    let late = ["ran 0 0 0 1 2 1", "ran 0 0 0 1 2 99", "nonsense"];
    assert_eq!(world.said(&late), of(3, &["ran 0 0 0 1 2 7"]));
    assert_eq!(world.said(&["end 2"]), of(4, &["end 7"]));
    world.reports.went(3);
    assert_eq!(world.said(&["ran 0 0 0 1 2 1"]), []);
}

#[test]
fn changes_go_before_reports_and_in_their_order() {
    let mut world = World::new();
    world.reports.ask(1, "report 1");
    world.reports.ask(1, "report 2");
    world.reports.ask(2, "change 0 0 5 1 5");
    world.reports.ask(3, "change 0 1 5 1 5");
    assert_eq!(world.next().as_deref(), Some("change 0 0 5 1 5"));
    assert_eq!(world.said(&["changed 0 1 9"]), [], "of an earlier one");
    assert_eq!(world.said(&["changed 0 0 9"]), of(2, &["changed 0 0 9"]));
    assert_eq!(world.next().as_deref(), Some("change 0 1 5 1 5"));
    let no = "refused 0 1 overload 1 2 3";
    assert_eq!(world.said(&[no]), of(3, &[no]));
    assert_eq!(world.next().as_deref(), Some("report 1"));
    assert_eq!(world.said(&["unknown report"]), of(1, &["unknown report"]));
    world.reports.ask(2, "what is this");
    assert_eq!(world.next().as_deref(), Some("what is this"));
    assert_eq!(world.said(&["unknown what"]), of(2, &["unknown what"]));
}

#[test]
fn a_board_that_does_not_answer_is_not_waited_for() {
    let mut world = World::new();
    world.reports.ask(1, "report 5");
    world.reports.ask(2, "weight 1 0 256 0");
    assert!(world.next().is_some_and(|line| line.starts_with("weight")));
    assert_eq!(world.reports.answers(world.now), []);
    world.now = world.reports.wake().unwrap();
    let no = "refused 1 0 unanswered 0 0 0";
    assert_eq!(world.reports.answers(world.now), of(2, &[no]));
    assert_eq!(world.next().as_deref(), Some("report 1"));
    world.now += PATIENCE;
    assert_eq!(world.reports.answers(world.now), of(1, &["unanswered 5"]));
    assert_eq!(world.reports.wake(), None);
    // A report of which a core is missing is over all the same, without a word: its reader counts.
    world.reports.ask(1, "report 6");
    world.next();
    let there = world.said(&["board 1 1 2 0 2", "core 0 - - 1 1 1 1 1 2", "end 2"]);
    assert_eq!(there.len(), 3);
    world.now += PATIENCE;
    assert_eq!(world.reports.answers(world.now), []);
    assert_eq!(world.next(), None);
    let late = world.said(&["core 1 - - 1 1 1 1 1 2"]);
    assert_eq!(late, of(1, &["core 1 - - 1 1 1 1 1 6"]));
}

#[test]
fn nobody_floods_the_board() {
    let mut world = World::new();
    for number in 0..MOST + 2 {
        world.reports.ask(1, &format!("report {number}"));
    }
    world.reports.ask(2, "report 1");
    let long = format!("change 0 0 {}", "9".repeat(200));
    world.reports.ask(2, &long);
    let refused = of(1, &["unanswered 4", "unanswered 5"]);
    let refused = [refused, of(2, &["refused 0 0 busy 0 0 0"])].concat();
    assert_eq!(world.reports.answers(world.now), refused);
    world.next();
    world.reports.went(1);
    let now = world.now + PATIENCE;
    world.reports.answers(now);
    assert_eq!(
        world.next().as_deref(),
        Some("report 2"),
        "of the other one"
    );
}
