//! What a page is told as it comes, by server-sent events.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;

use super::Site;
use crate::state::{self, Said, Shared, Status};
use crate::view::View;

/// How long the state is left alone between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// The most pages at a time.
const MOST: usize = 16;
/// The most turns of a core, and lines of the log, that one event has.
const MOST_TURNS: usize = 4000;
const MOST_LINES: usize = 200;

/// A turn as the page has it: the VM and the vCPU, or twice -1, and from when to when.
type TurnRow = (i64, i64, u64, u64);

/// One event.
#[derive(Serialize)]
struct Update {
    title: String,
    status: Status,
    garbled: u64,
    view: Arc<View>,
    /// What has come of each core's timeline since the event before.
    turns: BTreeMap<u32, Vec<TurnRow>>,
    log: Vec<Said>,
}

/// What one page has been told.
struct Told {
    shared: Shared,
    generation: Option<u64>,
    until: BTreeMap<u32, u64>,
    line: u64,
    /// Counts this page while it is there.
    _one: Arc<()>,
}

pub(super) async fn events(State(site): State<Site>) -> Response {
    let one = site.tickets.page();
    if Arc::strong_count(&one) > MOST + 1 {
        let why = "too many pages are open";
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    }
    let told = Told {
        shared: site.shared,
        generation: None,
        until: BTreeMap::new(),
        line: 0,
        _one: one,
    };
    let events = stream::unfold(told, |mut told| async {
        loop {
            if let Some(update) = told.next() {
                let data = serde_json::to_string(&update).unwrap_or_default();
                let event = Ok::<_, Infallible>(Event::default().data(data));
                return Some((event, told));
            }
            tokio::time::sleep(LOOK).await;
        }
    });
    Sse::new(events)
        .keep_alive(KeepAlive::default())
        .into_response()
}

impl Told {
    fn next(&mut self) -> Option<Update> {
        let generation = self.shared.generation();
        if self.generation == Some(generation) {
            return None;
        }
        self.generation = Some(generation);
        let shared = self.shared.clone();
        let state = shared.lock();
        let update = Update {
            title: state.title.clone(),
            status: state.status.clone(),
            garbled: state.garbled,
            view: Arc::clone(&state.view),
            turns: self.turns(&state),
            log: self.lines(&state),
        };
        Some(update)
    }

    fn turns(&mut self, state: &state::State) -> BTreeMap<u32, Vec<TurnRow>> {
        let mut all = BTreeMap::new();
        for core in &state.view.cores {
            let until = self.until.entry(core.cpu).or_default();
            let end = state.timeline.end(core.cpu).unwrap_or(0);
            // A board that began anew has a smaller counter.
            if end < *until {
                *until = 0;
            }
            let new = state.timeline.since(core.cpu, *until);
            let mut rows: Vec<TurnRow> = new
                .map(|turn| {
                    let (vm, vcpu) = turn
                        .who
                        .map_or((-1, -1), |id| (i64::from(id.vm), i64::from(id.vcpu)));
                    (vm, vcpu, turn.since.max(*until), turn.until)
                })
                .collect();
            let surplus = rows.len().saturating_sub(MOST_TURNS);
            rows.drain(..surplus);
            *until = end;
            if !rows.is_empty() {
                all.insert(core.cpu, rows);
            }
        }
        all
    }

    fn lines(&mut self, state: &state::State) -> Vec<Said> {
        let new: Vec<_> = state.log.since(self.line).cloned().collect();
        self.line = state.log.next();
        let surplus = new.len().saturating_sub(MOST_LINES);
        new.into_iter().skip(surplus).collect()
    }
}
