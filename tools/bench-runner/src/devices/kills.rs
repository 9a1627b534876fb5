//! A driver VM that is killed under load: how long its client has no answer, and whether a request is lost, done for another one, or old.
//!
//! `guests/disk-work` does the requests and looks at them; the prompt's `restart drivers` kills. Time is the client's own, which is the
//! board's: an instruction is a nanosecond. Each kill waits until the one before is over.

use hanok_console::script::ScriptStep;

/// How long a client may be without an answer, in nanoseconds.
const LONGEST: u64 = 5_000_000;
/// The client's name in the description.
const CLIENT: &str = "linux";
/// What the person at the terminal types before a command to the prompt.
const ESCAPE: &str = "\u{1d}";

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kills {
    /// While blocks were read.
    pub reads: Gaps,
    /// While blocks were written and read, of a disk whose time is the PC's.
    pub blocks: Gaps,
    /// The requests of that time.
    pub requests: u64,
    /// Blocks that were not what had been written there.
    pub wrong: u64,
    /// Requests that were answered twice.
    pub doubled: u64,
}

/// Times without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gaps {
    /// How many.
    pub times: u64,
    /// In the mean, in nanoseconds.
    pub mean: u64,
    /// The longest one.
    pub longest: u64,
}

/// What is done to the board: half of the kills while blocks are read, half while they are written and read.
pub fn steps(kills: u32) -> Vec<ScriptStep> {
    let expect = |text: &str| ScriptStep::Expect(text.to_owned());
    let mut steps = vec![ScriptStep::Vm(CLIENT.to_owned())];
    let mut attached = false;
    for part in [kills / 2, kills - kills / 2] {
        steps.push(expect("kill work: at most "));
        for _ in 0..part {
            let escape = if attached { "" } else { ESCAPE };
            attached = true;
            let typed = format!("{escape}restart drivers\r");
            steps.push(ScriptStep::Key(typed.into_bytes()));
            steps.push(ScriptStep::ExpectLog("vm drivers: reset".to_owned()));
            steps.push(expect("kill work: no answer for "));
        }
        steps.push(ScriptStep::Send(b"\n".to_vec()));
        steps.push(expect("kill work: times "));
    }
    steps
}

/// What the client's console says; `None` if it does not say all.
pub fn read(console: &str) -> Option<Kills> {
    let lines = || console.lines().map(|line| numbers(line.trim()));
    let mut gaps = lines().filter_map(|line| match line[..] {
        [("times", times), ("mean", mean), ("longest", longest)] => Some(Gaps {
            times,
            mean,
            longest,
        }),
        _ => None,
    });
    let (reads, blocks) = (gaps.next()?, gaps.next()?);
    lines().find_map(|line| match line[..] {
        [
            ("requests", requests),
            ("wrong", wrong),
            ("doubled", doubled),
        ] => Some(Kills {
            reads,
            blocks,
            requests,
            wrong,
            doubled,
        }),
        _ => None,
    })
}

/// Names and numbers of a line of the program's.
fn numbers(line: &str) -> Vec<(&str, u64)> {
    let Some(rest) = line.strip_prefix("kill work: ") else {
        return Vec::new();
    };
    let words: Vec<_> = rest.split(' ').collect();
    let pairs = words.chunks(2).map(|pair| match pair {
        [name, number] => Some((*name, number.parse().ok()?)),
        _ => None,
    });
    pairs.collect::<Option<_>>().unwrap_or_default()
}

impl Kills {
    /// Lines for people.
    pub fn table(&self) -> String {
        let ms = |time: u64| time as f64 / 1e6;
        let short = |is_short: bool| if is_short { "*" } else { "" };
        let lost = if self.faults() == 0 { "" } else { "*" };
        format!(
            "driver VM killed, 32 reads of 4 KiB under way: {} times
  {:<42} {:<11} {:>9.2}{}
  {:<42} {:<11} {:>9.2}
driver VM killed, 32 writes and reads of 4 KiB under way: {} times, {} requests
  {:<42} {:<11} {:>9}{lost}
",
            self.reads.times,
            "longest time without an answer, ms",
            format!("{:.2}", ms(LONGEST)),
            ms(self.reads.longest),
            short(self.reads.longest > LONGEST),
            "mean",
            "",
            ms(self.reads.mean),
            self.blocks.times,
            self.requests,
            "blocks lost, old or doubled",
            "0",
            self.faults(),
        )
    }

    /// Lines for programs, as the table of rows has them: nothing is native.
    pub fn separated(&self) -> String {
        let line =
            |what: &str, goal: String, value: u64| format!("kill\t{what}\t{goal}\t{value}\n");
        [
            line(
                "longest time without an answer, ns",
                LONGEST.to_string(),
                self.reads.longest,
            ),
            line(
                "mean time without an answer, ns",
                String::new(),
                self.reads.mean,
            ),
            line("requests under kills", String::new(), self.requests),
            line("blocks lost, old or doubled", 0.to_string(), self.faults()),
        ]
        .concat()
    }

    /// What must be zero.
    pub const fn faults(&self) -> u64 {
        self.wrong + self.doubled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSOLE: &str = "kill work: at most 512 ns when calm, of 4096\r\n\
        kill work: no answer for 1900000\r\n\
        kill work: times 2 mean 1800000 longest 5900000\r\n\
        kill work: times 1 mean 7 longest 7\r\n\
        kill work: requests 123 wrong 1 doubled 2\r\n";

    #[test]
    fn what_the_client_says_is_read() {
        let kills = read(CONSOLE).unwrap();
        assert_eq!((kills.reads.times, kills.reads.longest), (2, 5_900_000));
        assert_eq!(
            (kills.blocks.mean, kills.requests, kills.faults()),
            (7, 123, 3)
        );
        let table = kills.table();
        assert!(table.contains("5.90*") && table.contains(" 3*"), "{table}");
        for cut in [60, 110, 150, 190] {
            assert_eq!(read(&CONSOLE[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn kills_are_divided_and_each_waits_for_the_one_before() {
        let steps = steps(5);
        let keys = steps.iter().filter_map(|step| match step {
            ScriptStep::Key(text) => Some(text.starts_with(ESCAPE.as_bytes())),
            _ => None,
        });
        assert_eq!(keys.collect::<Vec<_>>(), [true, false, false, false, false]);
        let ends = steps
            .iter()
            .filter(|step| matches!(step, ScriptStep::Send(_)));
        assert_eq!(ends.count(), 2);
    }
}
