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

/// What the driver VM says when it is back: of the disk that it offers last.
const SERVES: &str = "driver: a disk for linux, 128 MiB";

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kills {
    /// The time without an answer of each kill while blocks were read, in nanoseconds.
    pub reads: Vec<u64>,
    /// The kills while blocks were written and read.
    pub blocks: u32,
    /// The requests of that time.
    pub requests: u64,
    /// Blocks that were not what had been written there.
    pub wrong: u64,
    /// Requests that were answered twice.
    pub doubled: u64,
}

/// The kills while blocks are read, and those while they are written and read.
const fn parts(kills: u32) -> [u32; 2] {
    [kills.div_ceil(2), kills / 2]
}

/// What is done to the board: half of the kills while blocks are read, half while they are written and read.
pub fn steps(kills: u32) -> Vec<ScriptStep> {
    let expect = |text: &str| ScriptStep::Expect(text.to_owned());
    let mut steps = vec![
        ScriptStep::Vm("drivers".to_owned()),
        expect(SERVES),
        ScriptStep::Vm(CLIENT.to_owned()),
    ];
    let mut attached = false;
    for part in parts(kills) {
        steps.push(expect("kill work: at most "));
        for _ in 0..part {
            let escape = if attached { "" } else { ESCAPE };
            attached = true;
            let typed = format!("{escape}restart drivers\r");
            steps.push(ScriptStep::Key(typed.into_bytes()));
            steps.push(ScriptStep::Vm("drivers".to_owned()));
            steps.push(expect(SERVES));
            steps.push(ScriptStep::Vm(CLIENT.to_owned()));
            steps.push(expect("kill work: without "));
        }
        steps.push(ScriptStep::Send(b"\n".to_vec()));
        steps.push(expect("kill work: the end of "));
    }
    steps
}

/// What the client's console says of so many kills; `None` if it does not say all.
pub fn read(console: &str, kills: u32) -> Option<Kills> {
    let [reads, blocks] = parts(kills);
    let lines = || console.lines().map(|line| numbers(line.trim()));
    let all = lines().filter_map(|line| match line[..] {
        [("without", time)] => Some(time),
        _ => None,
    });
    // What comes after the last kill is that the program is told to stop, for which Linux lets others run.
    let reads: Vec<_> = all.take(reads as usize).collect();
    if reads.len() < parts(kills)[0] as usize {
        return None;
    }
    lines().find_map(|line| match line[..] {
        [
            ("requests", requests),
            ("wrong", wrong),
            ("doubled", doubled),
        ] => Some(Kills {
            reads: reads.clone(),
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
        let short = if self.longest() > LONGEST { "*" } else { "" };
        let lost = if self.faults() == 0 { "" } else { "*" };
        format!(
            "driver VM killed, 32 reads of 4 KiB under way: {} times
  {:<42} {:<11} {:>9.2}{short}
  {:<42} {:<11} {:>9.2}
driver VM killed, 32 writes and reads of 4 KiB under way: {} times, {} requests
  {:<42} {:<11} {:>9}{lost}
",
            self.reads.len(),
            "longest time without an answer, ms",
            format!("{:.2}", ms(LONGEST)),
            ms(self.longest()),
            "mean",
            "",
            ms(self.mean()),
            self.blocks,
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
                self.longest(),
            ),
            line(
                "mean time without an answer, ns",
                String::new(),
                self.mean(),
            ),
            line("requests under kills", String::new(), self.requests),
            line("blocks lost, old or doubled", 0.to_string(), self.faults()),
        ]
        .concat()
    }

    fn longest(&self) -> u64 {
        self.reads.iter().copied().max().unwrap_or_default()
    }

    fn mean(&self) -> u64 {
        self.reads.iter().sum::<u64>() / self.reads.len().max(1) as u64
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
        kill work: without 1900000\r\n\
        kill work: without 5900000\r\n\
        kill work: without 9900000\r\n\
        kill work: reads end\r\n\
        kill work: requests 123 wrong 1 doubled 2\r\n";

    #[test]
    fn what_the_client_says_is_read() {
        let kills = read(CONSOLE, 4).unwrap();
        assert_eq!(
            (&kills.reads[..], kills.blocks),
            (&[1_900_000, 5_900_000][..], 2)
        );
        assert_eq!(
            (kills.mean(), kills.requests, kills.faults()),
            (3_900_000, 123, 3)
        );
        let table = kills.table();
        assert!(table.contains("5.90*") && table.contains(" 3*"), "{table}");
        assert_eq!(read(&CONSOLE[..150], 4), None);
        assert_eq!(read(CONSOLE, 8), None);
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
