//! What a translation table should say, as runs of pages with equal attributes.

use hanok_types::{Address, Hpa, Ipa, Span};

/// A range of input addresses and the output address of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run<A> {
    pub(crate) input: Span<Ipa>,
    pub(crate) output: Hpa,
    pub(crate) attributes: A,
}

/// Runs, sorted; neighbours that could be one run are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Runs<A>(Vec<Run<A>>);

impl<A: Copy + PartialEq> Run<A> {
    /// The part inside `span`.
    fn within(&self, span: &Span<Ipa>) -> Option<Self> {
        let start = self.input.start().max(span.start());
        let end = self.input.end().min(span.end());
        let len = end.get().checked_sub(start.get()).filter(|len| *len > 0)?;
        Some(Self {
            input: Span::new(start, len)?,
            output: self
                .output
                .checked_add(start.get() - self.input.start().get())?,
            ..*self
        })
    }

    fn goes_on_as(&self, next: &Self) -> bool {
        self.input.end() == next.input.start()
            && self.output.get() + self.input.len() == next.output.get()
            && self.attributes == next.attributes
    }
}

impl<A: Copy + PartialEq> Runs<A> {
    /// Builds it from runs in any order that do not overlap.
    pub(crate) fn new(mut runs: Vec<Run<A>>) -> Self {
        runs.sort_by_key(|run| run.input.start());
        let mut joined: Vec<Run<A>> = Vec::new();
        for run in runs {
            match joined.last_mut().filter(|last| last.goes_on_as(&run)) {
                Some(last) => {
                    let len = last.input.len() + run.input.len();
                    last.input = Span::new(last.input.start(), len).expect("no wrap");
                }
                None => joined.push(run),
            }
        }
        Self(joined)
    }

    /// The first address of `span` that is mapped.
    pub(crate) fn first_in(&self, span: &Span<Ipa>) -> Option<Ipa> {
        let mut parts = self.0.iter().filter_map(|run| run.within(span));
        parts.next().map(|run| run.input.start())
    }

    /// The first address of `span` that is not mapped.
    pub(crate) fn hole_in(&self, span: &Span<Ipa>) -> Option<Ipa> {
        let mut at = span.start();
        for run in self.0.iter().filter(|run| run.input.overlaps(span)) {
            if run.input.start() > at {
                break;
            }
            at = run.input.end();
        }
        (at < span.end()).then_some(at)
    }

    pub(crate) fn add(&mut self, run: Run<A>) {
        if !run.input.is_empty() {
            let mut runs = std::mem::take(&mut self.0);
            runs.push(run);
            *self = Self::new(runs);
        }
    }

    /// Removes the part in `span` and returns it.
    pub(crate) fn cut(&mut self, span: &Span<Ipa>) -> Vec<Run<A>> {
        let before = Span::new(Ipa::new(0), span.start().get()).expect("from zero");
        let after = Span::new(span.end(), u64::MAX - span.end().get()).expect("to the top");
        let runs = std::mem::take(&mut self.0);
        let parts = |part: &Span<Ipa>| runs.iter().filter_map(|run| run.within(part)).collect();
        let (mut left, right): (Vec<_>, Vec<_>) = (parts(&before), parts(&after));
        left.extend(right);
        let cut = parts(span);
        *self = Self::new(left);
        cut
    }
}
