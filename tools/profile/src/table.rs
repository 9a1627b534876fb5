//! A profile as text.

use crate::profile::{Exits, Node, Profile};
use crate::symbols::Line;

/// What is printed beside the totals, the exits and the functions.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// What counts are divided by.
    pub by: By,
    /// How many rows of each kind are printed.
    pub rows: usize,
    /// Whether lines of source are printed.
    pub lines: bool,
    /// Whether the tree of inlined functions is printed.
    pub tree: bool,
}

/// What counts are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By the number of rounds that were measured.
    Rounds(u64),
    /// By the number of exits.
    Exits,
    /// By nothing: the counts are those of a whole run.
    Nothing,
}

impl By {
    /// The divisor, and the heading of a column that is divided by it.
    fn of(self, profile: &Profile) -> (u64, &'static str) {
        let (number, name) = match self {
            Self::Rounds(rounds) => (rounds, "a round"),
            Self::Exits => (profile.total().exits, "an exit"),
            Self::Nothing => (1, "all"),
        };
        (number.max(1), name)
    }
}

/// `profile` as text.
pub fn text(profile: &Profile, shown: &Shown) -> String {
    let (divisor, name) = shown.by.of(profile);
    let mut page = Page {
        out: String::new(),
        profile,
        total: profile.total().hypervisor,
        divisor,
        name,
        rows: shown.rows,
    };
    page.totals();
    page.exits();
    page.functions();
    if shown.tree {
        page.tree();
    }
    if shown.lines {
        page.lines();
    }
    page.out
}

struct Page<'a> {
    out: String,
    profile: &'a Profile,
    total: u64,
    divisor: u64,
    name: &'static str,
    rows: usize,
}

impl Page<'_> {
    /// A line whose last cell is text; the other cells are right-aligned to `widths`.
    fn row(&mut self, widths: &[usize], cells: &[&str], text: &str) {
        let cells = widths.iter().zip(cells);
        let cells: String = cells
            .map(|(width, cell)| format!("{cell:>width$} "))
            .collect();
        self.out += format!("{cells} {text}").trim_end();
        self.out.push('\n');
    }

    fn totals(&mut self) {
        const WIDTHS: [usize; 3] = [14, 14, 9];
        self.row(&WIDTHS, &["hypervisor", "guest", "exits"], "");
        let mut cpus: Vec<_> = self.profile.cpus.iter().copied().enumerate().collect();
        // A CPU without counts is not printed.
        cpus.retain(|(_, cpu)| cpu.hypervisor + cpu.others > 0);
        let mut rows: Vec<_> = cpus
            .iter()
            .map(|(number, cpu)| (format!("CPU {number}"), *cpu))
            .collect();
        if rows.len() > 1 {
            rows.push(("all".to_owned(), self.profile.total()));
        }
        for (name, cpu) in rows {
            let cells = [cpu.hypervisor, cpu.others, cpu.exits].map(|count| count.to_string());
            self.row(&WIDTHS, &cells.each_ref().map(String::as_str), &name);
        }
    }

    fn exits(&mut self) {
        const WIDTHS: [usize; 6] = [9, 8, 8, 8, 14, 6];
        const TITLES: [&str; 6] = ["exits", "least", "median", "most", "together", "%"];
        self.out.push('\n');
        self.row(&WIDTHS, &TITLES, "why");
        let profile = self.profile;
        for exits in profile.exits.iter().take(self.rows) {
            let Exits { number, least, .. } = exits;
            let cells = [*number, *least, exits.median, exits.most, exits.total];
            let cells = cells.map(|count| count.to_string());
            let [number, least, median, most, total] = cells.each_ref().map(String::as_str);
            let percent = self.percent(exits.total);
            let cells = [number, least, median, most, total, &percent];
            self.row(&WIDTHS, &cells, &exits.reason);
        }
        self.left_out(profile.exits.len());
        let inside: u64 = profile.exits.iter().map(|exits| exits.total).sum();
        let outside = self.total.saturating_sub(inside);
        if outside > 0 {
            let (count, percent) = (outside.to_string(), self.percent(outside));
            let cells = ["", "", "", "", &count, &percent];
            self.row(&WIDTHS, &cells, "outside of an exit that was seen whole");
        }
    }

    fn functions(&mut self) {
        const WIDTHS: [usize; 4] = [11, 6, 6, 12];
        self.out.push('\n');
        self.row(
            &WIDTHS,
            &[self.name, "%", "sum %", "with inlined"],
            "function",
        );
        let profile = self.profile;
        let own: Vec<_> = profile.functions.iter().filter(|one| one.own > 0).collect();
        let mut sum = 0;
        for function in own.iter().take(self.rows) {
            sum += function.own;
            let cells = [
                self.each(function.own),
                self.percent(function.own),
                self.percent(sum),
                self.each(function.with_inlined),
            ];
            let place = function.place.as_ref().map(Line::to_string);
            let text = format!("{}  {}", function.name, place.unwrap_or_default());
            self.row(
                &WIDTHS,
                &cells.each_ref().map(String::as_str),
                text.trim_end(),
            );
        }
        self.left_out(own.len());
    }

    fn lines(&mut self) {
        const WIDTHS: [usize; 2] = [11, 6];
        self.out.push('\n');
        self.row(&WIDTHS, &[self.name, "%"], "line");
        let profile = self.profile;
        for (line, function, count) in profile.lines.iter().take(self.rows) {
            let cells = [self.each(*count), self.percent(*count)];
            let cells = cells.each_ref().map(String::as_str);
            self.row(&WIDTHS, &cells, &format!("{line}  {function}"));
        }
        self.left_out(profile.lines.len());
    }

    fn tree(&mut self) {
        self.out.push('\n');
        let title = "function, and what is inlined into it";
        self.row(&[11, 6], &[self.name, "%"], title);
        let profile = self.profile;
        self.branch(&profile.tree, 0);
    }

    /// Rows with less than a thousandth of the total are not printed.
    fn branch(&mut self, node: &Node, depth: usize) {
        let mut children: Vec<_> = node.inlined.iter().collect();
        children.sort_by_key(|(_, child)| std::cmp::Reverse(child.count));
        for (name, child) in children {
            if child.count.saturating_mul(1000) < self.total {
                break;
            }
            let cells = [self.each(child.count), self.percent(child.count)];
            let cells = cells.each_ref().map(String::as_str);
            self.row(&[11, 6], &cells, &format!("{:1$}{name}", "", 2 * depth));
            self.branch(child, depth + 1);
        }
    }

    fn left_out(&mut self, all: usize) {
        if let Some(more @ 1..) = all.checked_sub(self.rows) {
            self.out += &format!("{:>9}  more\n", more);
        }
    }

    fn percent(&self, part: u64) -> String {
        decimal(u128::from(part) * 100, self.total)
    }

    fn each(&self, count: u64) -> String {
        if self.divisor == 1 {
            return count.to_string();
        }
        decimal(u128::from(count), self.divisor)
    }
}

/// A quotient with one decimal, rounded.
fn decimal(count: u128, by: u64) -> String {
    let by = u128::from(by.max(1));
    let tenths = (count * 10 + by / 2) / by;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Function, Total};

    #[test]
    fn quotients_are_rounded() {
        assert_eq!(decimal(283 * 1024, 1024), "283.0");
        assert_eq!(decimal(2, 3), "0.7");
        assert_eq!(decimal(1, 20), "0.1");
        assert_eq!(decimal(7, 0), "7.0");
    }

    #[test]
    fn a_page_says_what_there_is() {
        let function = |name: &str, own, with_inlined| Function {
            name: name.to_owned(),
            place: Some(Line {
                file: "core/vm/src/call.rs".to_owned(),
                number: 58,
            }),
            own,
            with_inlined,
        };
        let mut profile = Profile {
            cpus: vec![Total {
                hypervisor: 300,
                others: 20,
                exits: 2,
            }],
            functions: vec![function("inner", 200, 200), function("outer", 100, 300)],
            exits: vec![Exits {
                reason: "HVC 0xc6000000".to_owned(),
                number: 2,
                total: 280,
                least: 130,
                median: 130,
                most: 150,
            }],
            ..Profile::default()
        };
        profile.tree.inlined.insert(
            "outer".to_owned(),
            Node {
                count: 300,
                ..Node::default()
            },
        );
        let shown = Shown {
            by: By::Rounds(10),
            rows: 1,
            lines: false,
            tree: true,
        };
        let expected = [
            "    hypervisor          guest     exits",
            "           300             20         2  CPU 0",
            "",
            "    exits    least   median     most       together      %  why",
            "        2      130      130      150            280   93.3  HVC 0xc6000000",
            "                                                 20    6.7  outside of an exit that was \
             seen whole",
            "",
            "    a round      %  sum % with inlined  function",
            "       20.0   66.7   66.7         20.0  inner  core/vm/src/call.rs:58",
            "        1  more",
            "",
            "    a round      %  function, and what is inlined into it",
            "       30.0  100.0  outer",
        ];
        assert_eq!(text(&profile, &shown).lines().collect::<Vec<_>>(), expected);
    }
}
