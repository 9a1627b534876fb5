//! Changes: what would follow first, and then the change.
//!
//! A preview has a ticket. Only what has one can be applied, once, and only as long as all promises are what
//! the preview was reckoned with: nobody applies what nobody has looked at.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::Site;
use crate::change::{Change, Promised};
use crate::protocol::VcpuId;
use crate::state::Status;
use crate::what_if::{self, Answer, Preview};

/// How many previews are kept.
const MOST: usize = 64;
/// How long the board's answer is awaited: the engine gives one sooner.
const PATIENCE: Duration = Duration::from_secs(20);

/// The previews that were shown.
pub(super) struct Tickets {
    shown: Mutex<(u64, BTreeMap<u64, Preview>)>,
    /// One analysis at a time: it may take all of a CPU.
    analysis: Semaphore,
    pages: Arc<()>,
}

impl Default for Tickets {
    fn default() -> Self {
        Self {
            shown: Mutex::default(),
            analysis: Semaphore::new(1),
            pages: Arc::default(),
        }
    }
}

impl Tickets {
    /// Counts a page as long as the answer is held.
    pub(super) fn page(&self) -> Arc<()> {
        Arc::clone(&self.pages)
    }

    fn keep(&self, preview: Preview) -> u64 {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, all) = &mut *shown;
        let ticket = *next;
        *next += 1;
        all.insert(ticket, preview);
        while all.len() > MOST {
            all.pop_first();
        }
        ticket
    }

    fn take(&self, ticket: u64) -> Option<Preview> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.1.remove(&ticket)
    }
}

/// A change that a page asks about.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    vm: u32,
    vcpu: u32,
    to: Promised,
}

/// What would follow, and its ticket.
#[derive(Serialize)]
struct Shown {
    ticket: u64,
    preview: Preview,
}

/// What a page wants applied.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Apply {
    ticket: u64,
    /// Although not every deadline is shown to be kept.
    anyway: bool,
}

fn no(status: StatusCode, why: &str) -> Response {
    #[derive(Serialize)]
    struct No<'a> {
        why: &'a str,
    }
    (status, Json(No { why })).into_response()
}

pub(super) async fn preview(State(site): State<Site>, Json(asked): Json<Asked>) -> Response {
    let Ok(_turn) = site.tickets.analysis.acquire().await else {
        return no(StatusCode::SERVICE_UNAVAILABLE, "the server ends");
    };
    let (view, report, status) = {
        let state = site.shared.lock();
        (
            Arc::clone(&state.view),
            Arc::clone(&state.report),
            state.status.clone(),
        )
    };
    if status != Status::Live {
        return no(StatusCode::CONFLICT, "the board does not answer now");
    }
    let id = VcpuId {
        vm: asked.vm,
        vcpu: asked.vcpu,
    };
    let change = Change { id, to: asked.to };
    let description = site.description.clone();
    let reckon = move || what_if::preview(description.as_deref(), &report, &view, change);
    match spawn_blocking(reckon).await {
        Ok(Ok(preview)) => {
            let ticket = site.tickets.keep(preview.clone());
            Json(Shown { ticket, preview }).into_response()
        }
        Ok(Err(why)) => no(StatusCode::UNPROCESSABLE_ENTITY, &why.to_string()),
        Err(_) => no(StatusCode::INTERNAL_SERVER_ERROR, "the analysis failed"),
    }
}

pub(super) async fn apply(State(site): State<Site>, Json(apply): Json<Apply>) -> Response {
    let Some(preview) = site.tickets.take(apply.ticket) else {
        return no(StatusCode::CONFLICT, "look again at what would follow");
    };
    if preview.answer == Answer::NotShown && !apply.anyway {
        return no(
            StatusCode::CONFLICT,
            "not every deadline is shown to be kept",
        );
    }
    let view = Arc::clone(&site.shared.lock().view);
    if !preview.is_current(&view) {
        let why = "promises have changed meanwhile: look again at what would follow";
        return no(StatusCode::CONFLICT, why);
    }
    let number = site.shared.change(preview.change);
    let shared = site.shared.clone();
    let wait = move || shared.wait(PATIENCE, |state| state.outcome(number).cloned());
    match spawn_blocking(wait).await {
        Ok(Some(outcome)) => Json(outcome).into_response(),
        _ => no(StatusCode::GATEWAY_TIMEOUT, "the board did not answer"),
    }
}
