//! What a script awaits, compared with what comes. It has no process and no clock of its own.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::demux::Channel;
use super::script::ScriptStep;

/// The number of bytes that are kept to find text that comes in pieces; older text can no longer be
/// awaited.
const KEPT: usize = 1 << 20;

/// The time from one attempt to the next.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(200);

/// Whether the awaited text has come.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// It has come.
    Came,
    /// It has not come yet.
    Missing,
}

/// The part of one channel's text in which nothing was found yet.
#[derive(Debug, Default)]
struct Stream {
    text: Vec<u8>,
    /// Whether anything came since the last question.
    news: bool,
    /// The awaited text was not found before this offset.
    searched: usize,
}

impl Stream {
    fn push(&mut self, bytes: &[u8]) {
        self.text.extend(bytes);
        self.news |= !bytes.is_empty();
        // Rarely, because all kept text is moved.
        if self.text.len() > 2 * KEPT {
            let surplus = self.text.len() - KEPT;
            self.text.drain(..surplus);
            self.searched = self.searched.saturating_sub(surplus);
        }
    }

    /// Looks for `wanted`. If it came, it and all text before it are used up.
    fn take(&mut self, wanted: &[u8]) -> Awaited {
        self.take_any([wanted].into_iter())
    }

    /// Looks for each of `wanted`. The one that is complete first, however the text is cut into pieces, and all text
    /// before its end are used up; what follows is there for the next question. None of no texts ever comes.
    fn take_any<'a>(&mut self, wanted: impl Iterator<Item = &'a [u8]> + Clone) -> Awaited {
        let from = self.searched.min(self.text.len());
        let unseen = &self.text[from..];
        let ends = wanted
            .clone()
            .filter_map(|text| Some(find(unseen, text)? + text.len()));
        match ends.min() {
            Some(end) => {
                self.text.drain(..from + end);
                self.searched = 0;
                Awaited::Came
            }
            None => {
                // The longest one may have begun earliest.
                let longest = wanted.map(<[u8]>::len).max().unwrap_or(0);
                self.searched = (self.text.len() + 1).saturating_sub(longest);
                Awaited::Missing
            }
        }
    }

    /// Whether nothing came since the last call. All that came is used up.
    fn take_silence(&mut self) -> bool {
        self.text.clear();
        self.searched = 0;
        !std::mem::take(&mut self.news)
    }

    /// Begins to look for another text.
    fn rewind(&mut self) {
        self.searched = 0;
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    match wanted {
        [] => Some(0),
        _ => text
            .windows(wanted.len())
            .position(|window| window == wanted),
    }
}

/// What the session is to do now.
#[derive(Debug, PartialEq, Eq)]
pub enum ScriptAction {
    /// Type `bytes` at this VM's console.
    Send(usize, Vec<u8>),
    /// Type `bytes` as the person at the terminal.
    Key(Vec<u8>),
    /// Put `bytes` on the line unframed.
    Raw(Vec<u8>),
    /// End with success: the awaited text has come.
    Succeed,
}

/// A script's progress, and the text that ends the run.
pub struct Watch {
    vms: Vec<String>,
    steps: VecDeque<ScriptStep>,
    until: Option<String>,
    /// The VM that the script speaks to.
    focus: usize,
    waiting: Option<Instant>,
    consoles: Vec<Stream>,
    log: Stream,
    reports: Stream,
    /// The same text again: `until` is looked for independently of the script.
    tails: Vec<Stream>,
}

impl Watch {
    /// Awaits `steps` in order and `until` anywhere, for VMs with these names.
    pub fn new(vms: &[String], steps: Vec<ScriptStep>, until: Option<String>) -> Self {
        let streams = |count| {
            std::iter::repeat_with(Stream::default)
                .take(count)
                .collect()
        };
        Self {
            vms: vms.to_vec(),
            steps: steps.into(),
            until,
            focus: 0,
            waiting: None,
            consoles: streams(vms.len()),
            log: Stream::default(),
            reports: Stream::default(),
            tails: streams(vms.len() + 1),
        }
    }

    /// Adds text that came, and looks for `until`.
    pub fn push(&mut self, channel: Channel, bytes: &[u8]) -> Awaited {
        let (stream, tail) = match channel {
            Channel::Log => (Some(&mut self.log), 0),
            Channel::Vm(vm) => (self.consoles.get_mut(vm), vm + 1),
            Channel::Report => {
                self.reports.push(bytes);
                return Awaited::Missing;
            }
        };
        if let Some(stream) = stream {
            stream.push(bytes);
        }
        match (&self.until, self.tails.get_mut(tail)) {
            (Some(until), Some(tail)) => {
                tail.push(bytes);
                tail.take(until.as_bytes())
            }
            _ => Awaited::Missing,
        }
    }

    /// Goes as many steps as can be gone at `now`.
    pub fn advance(&mut self, now: Instant) -> Vec<ScriptAction> {
        let mut todo = Vec::new();
        while let Some(step) = self.steps.front() {
            if !Self::ready(
                step,
                self.focus,
                &mut self.consoles,
                [&mut self.log, &mut self.reports],
                &mut self.waiting,
                now,
            ) {
                break;
            }
            self.consoles
                .iter_mut()
                .chain([&mut self.log, &mut self.reports])
                .for_each(Stream::rewind);
            match self.steps.pop_front() {
                Some(ScriptStep::Send(bytes)) => todo.push(ScriptAction::Send(self.focus, bytes)),
                Some(ScriptStep::Key(bytes)) => todo.push(ScriptAction::Key(bytes)),
                Some(ScriptStep::Raw(bytes)) => todo.push(ScriptAction::Raw(bytes)),
                Some(ScriptStep::Vm(name)) => self.focus = self.place(&name),
                Some(ScriptStep::End) => todo.push(ScriptAction::Succeed),
                _ => {}
            }
        }
        todo
    }

    fn ready(
        step: &ScriptStep,
        focus: usize,
        consoles: &mut [Stream],
        [log, reports]: [&mut Stream; 2],
        waiting: &mut Option<Instant>,
        now: Instant,
    ) -> bool {
        match step {
            ScriptStep::Expect(text) => consoles
                .get_mut(focus)
                .is_some_and(|stream| stream.take(text.as_bytes()) == Awaited::Came),
            ScriptStep::ExpectLog(text) => log.take(text.as_bytes()) == Awaited::Came,
            ScriptStep::ExpectReport(text) => reports.take(text.as_bytes()) == Awaited::Came,
            ScriptStep::ExpectAnyReport(texts) => {
                reports.take_any(texts.iter().map(String::as_bytes)) == Awaited::Came
            }
            ScriptStep::Wait(time) => {
                let over = *waiting.get_or_insert(now + *time) <= now;
                if over {
                    *waiting = None;
                }
                over
            }
            ScriptStep::Silence(time) => {
                let silent = consoles.get_mut(focus).is_none_or(Stream::take_silence);
                if !silent {
                    *waiting = None;
                }
                let over = *waiting.get_or_insert(now + *time) <= now;
                if over {
                    *waiting = None;
                }
                over
            }
            ScriptStep::Try(attempt) => {
                if waiting.is_some_and(|at| at > now) {
                    return false;
                }
                let done = attempt.is_done();
                *waiting = (!done).then(|| now + BETWEEN_ATTEMPTS);
                done
            }
            ScriptStep::Send(_)
            | ScriptStep::Key(_)
            | ScriptStep::Raw(_)
            | ScriptStep::Vm(_)
            | ScriptStep::End => true,
        }
    }

    fn place(&self, name: &str) -> usize {
        self.vms
            .iter()
            .position(|vm| vm == name)
            .unwrap_or(usize::MAX)
    }

    /// When to look again though nothing came.
    pub fn wake(&self, now: Instant) -> Option<Duration> {
        self.waiting.map(|at| at.saturating_duration_since(now))
    }

    /// The VM whose console the next step is about, if it is about one's.
    pub fn focus(&self) -> Option<usize> {
        match self.steps.front() {
            Some(ScriptStep::Expect(_) | ScriptStep::Silence(_)) => Some(self.focus),
            _ => None,
        }
    }

    /// What is still awaited, for people; `None` when nothing is.
    pub fn awaited(&self) -> Option<String> {
        let step = match self.steps.front() {
            Some(ScriptStep::Expect(text)) => match self.vms.get(self.focus) {
                Some(vm) => format!("{text:?} on the console of {vm}"),
                None => format!("{text:?} on the console"),
            },
            Some(ScriptStep::ExpectLog(text)) => format!("{text:?} from the hypervisor"),
            Some(ScriptStep::ExpectReport(text)) => format!("{text:?} on the report channel"),
            Some(ScriptStep::ExpectAnyReport(texts)) => {
                format!("one of {texts:?} on the report channel")
            }
            Some(step) => format!("the step {step:?}"),
            None => format!("{:?}", self.until.as_ref()?),
        };
        Some(step)
    }
}

/// The first name in `steps` that no VM has.
pub fn unknown_vm<'a>(steps: &'a [ScriptStep], vms: &[String]) -> Option<&'a str> {
    let names = steps.iter().filter_map(|step| match step {
        ScriptStep::Vm(name) => Some(name.as_str()),
        _ => None,
    });
    names
        .into_iter()
        .find(|name| !vms.iter().any(|vm| vm == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VM: Channel = Channel::Vm(0);

    fn watch(steps: Vec<ScriptStep>, until: Option<&str>) -> Watch {
        Watch::new(&["a".into(), "b".into()], steps, until.map(str::to_owned))
    }

    #[test]
    fn answers_of_the_report_channel_are_no_text_of_the_hypervisor() {
        let steps = vec![ScriptStep::ExpectReport("end 1\n".into()), ScriptStep::End];
        let mut watch = watch(steps, None);
        let now = Instant::now();
        _ = watch.push(Channel::Log, b"end 1\n");
        _ = watch.push(Channel::Report, b"board 1\nen");
        assert_eq!(watch.advance(now), []);
        assert!(watch.awaited().unwrap().contains("report channel"));
        _ = watch.push(Channel::Report, b"d 1\n");
        assert_eq!(watch.advance(now), [ScriptAction::Succeed]);
    }

    fn any(texts: &[&str]) -> ScriptStep {
        ScriptStep::ExpectAnyReport(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    /// However the text is cut, two answers are taken one after the other, each by what comes first of it.
    #[test]
    fn of_several_texts_the_first_is_taken_and_what_follows_is_kept() {
        let text = b"changed 1 0 7\nrefused 1 0 busy\nchanged 1 0 8\nend 3\n";
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let answer = any(&["refused 1 0 ", "changed 1 0 "]);
                let line = ScriptStep::ExpectReport("\n".into());
                let steps = vec![answer.clone(), line.clone(), answer.clone(), line.clone()];
                let steps = [
                    steps,
                    vec![answer, line, any(&["end 3\n"]), ScriptStep::End],
                ];
                let mut watch = watch(steps.concat(), None);
                let now = Instant::now();
                let mut done = Vec::new();
                for piece in [&text[..first], &text[first..second], &text[second..]] {
                    _ = watch.push(Channel::Report, piece);
                    done.extend(watch.advance(now));
                }
                assert_eq!(done, [ScriptAction::Succeed], "cut at {first} and {second}");
            }
        }
    }

    /// One that ends first is the first, also inside another one, as it is seen before the other one's end has come.
    #[test]
    fn which_text_is_taken_is_no_matter_of_pieces() {
        let text = b"--abcd--d";
        for cut in 0..=text.len() {
            let mut stream = Stream::default();
            let wanted: [&[u8]; 3] = [b"abcd", b"bc", b"x"];
            stream.push(&text[..cut]);
            let early = stream.take_any(wanted.into_iter());
            stream.push(&text[cut..]);
            if early == Awaited::Missing {
                assert_eq!(stream.take_any(wanted.into_iter()), Awaited::Came);
            }
            assert_eq!(stream.text, b"d--d", "cut at {cut}");
            assert_eq!(stream.take_any(wanted.into_iter()), Awaited::Missing);
            assert_eq!(stream.take_any([].into_iter()), Awaited::Missing);
            stream.rewind();
            assert_eq!(stream.take(b"--d"), Awaited::Came);
        }
    }

    #[test]
    fn what_none_of_several_texts_is_holds_the_script() {
        let mut watch = watch(
            vec![any(&["changed 0", "refused 0"]), ScriptStep::End],
            None,
        );
        let now = Instant::now();
        for piece in [&b"changed 1 0 5\nrefuse"[..], b"d 1 0\nunknown request\n"] {
            _ = watch.push(Channel::Report, piece);
            _ = watch.push(Channel::Log, b"changed 0");
            assert_eq!(watch.advance(now), []);
        }
        let awaited = watch.awaited().unwrap();
        assert!(awaited.contains("one of") && awaited.contains("refused 0"));
        _ = watch.push(Channel::Report, b"refused 0");
        assert_eq!(watch.advance(now), [ScriptAction::Succeed]);
    }

    #[test]
    fn text_is_found_across_pieces_and_used_up() {
        let steps = vec![
            ScriptStep::Expect("login:".into()),
            ScriptStep::Send(b"x".into()),
            ScriptStep::Expect("login:".into()),
        ];
        let mut watch = watch(steps, None);
        let now = Instant::now();
        _ = watch.push(VM, b"boot log");
        assert_eq!(watch.advance(now), []);
        _ = watch.push(VM, b"in:");
        assert_eq!(watch.advance(now), [ScriptAction::Send(0, b"x".to_vec())]);
        assert!(
            watch.awaited().is_some(),
            "the same text does not count twice"
        );
        _ = watch.push(VM, b" login: ");
        watch.advance(now);
        assert_eq!(watch.awaited(), None);
    }

    #[test]
    fn text_that_came_before_its_step_counts() {
        let mut watch = watch(
            vec![
                ScriptStep::Expect("b".into()),
                ScriptStep::Expect("c".into()),
            ],
            None,
        );
        _ = watch.push(VM, b"abc");
        watch.advance(Instant::now());
        assert_eq!(watch.awaited(), None);
    }

    #[test]
    fn until_is_seen_on_any_channel_independently() {
        let mut watch = watch(vec![ScriptStep::Expect("never".into())], Some("off"));
        assert_eq!(watch.push(VM, b"of"), Awaited::Missing);
        assert_eq!(
            watch.push(Channel::Log, b"f"),
            Awaited::Missing,
            "channels are not mixed"
        );
        assert_eq!(watch.push(VM, b"f"), Awaited::Came);
        assert_eq!(watch.push(Channel::Vm(1), b"powered off"), Awaited::Came);
    }

    #[test]
    fn waiting_takes_its_time() {
        let mut watch = watch(
            vec![ScriptStep::Wait(Duration::from_secs(2)), ScriptStep::End],
            None,
        );
        let now = Instant::now();
        assert_eq!(watch.advance(now), []);
        assert_eq!(watch.wake(now), Some(Duration::from_secs(2)));
        assert_eq!(
            watch.advance(now + Duration::from_secs(2)),
            [ScriptAction::Succeed]
        );
    }

    #[test]
    fn silence_begins_anew_with_each_text() {
        let second = Duration::from_secs(1);
        let steps = vec![
            ScriptStep::Silence(2 * second),
            ScriptStep::Expect("a".into()),
            ScriptStep::End,
        ];
        let mut watch = watch(steps, None);
        let now = Instant::now();
        _ = watch.push(VM, b"a");
        assert_eq!(watch.advance(now), []);
        _ = watch.push(VM, b"a");
        _ = watch.push(Channel::Log, b"another's");
        assert_eq!(watch.advance(now + second), []);
        assert_eq!(watch.advance(now + 2 * second), []);
        _ = watch.push(Channel::Log, b"another's");
        assert_eq!(watch.wake(now + 2 * second), Some(second));
        assert_eq!(watch.advance(now + 3 * second), []);
        assert!(watch.awaited().is_some_and(|what| what.contains("\"a\"")));
        _ = watch.push(VM, b"a");
        assert_eq!(watch.advance(now + 3 * second), [ScriptAction::Succeed]);
    }

    #[test]
    fn another_vm_is_spoken_to() {
        let mut watch = watch(
            vec![ScriptStep::Vm("b".into()), ScriptStep::Send(b"x".into())],
            None,
        );
        assert_eq!(
            watch.advance(Instant::now()),
            [ScriptAction::Send(1, b"x".to_vec())]
        );
        assert_eq!(
            unknown_vm(&[ScriptStep::Vm("c".into())], &["a".into()]),
            Some("c")
        );
    }
}
