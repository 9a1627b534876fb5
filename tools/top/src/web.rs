//! The view in a browser: one page, served to this machine alone unless another address is asked for.
//!
//! Who may: whoever has the token, which is random, is in the address that the command prints, and from
//! then on in a cookie that no script and no other site gets. A request that names another host, or comes
//! from a page of another site, is refused whatever it has: so no page that a person has open elsewhere can
//! reach in, by a name of its own for this address or by a form. The page loads nothing from elsewhere, and
//! runs no script but its own.

mod answers;
mod events;
mod guard;
mod pages;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post};
use hanok_base::ui;
use hanok_system::Schedule;
use tokio::net::TcpListener;

use crate::state::{Shared, Status};
use answers::Tickets;
use guard::Guard;

/// The port where none is named.
pub const PORT: u16 = 8421;
/// The largest request in bytes.
const MOST: usize = 8 << 10;
/// How long pages may learn that the board is gone.
const FAREWELL: Duration = Duration::from_secs(2);

/// What all requests share.
#[derive(Clone)]
struct Site {
    shared: Shared,
    description: Option<Arc<Schedule>>,
    guard: Arc<Guard>,
    tickets: Arc<Tickets>,
}

/// A site that listens, and is not served yet.
pub struct Server {
    listener: TcpListener,
    site: Site,
    runtime: tokio::runtime::Runtime,
}

impl Server {
    /// Listens at `address`.
    pub fn open(
        shared: &Shared,
        description: Option<Arc<Schedule>>,
        address: SocketAddr,
    ) -> Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().build()?;
        let listener = runtime.block_on(TcpListener::bind(address));
        let listener = listener.with_context(|| {
            format!(
                "cannot listen at {address}\n  fix: name another address, as in --web 127.0.0.1:0"
            )
        })?;
        let site = Site {
            shared: shared.clone(),
            description,
            guard: Arc::new(Guard::new(listener.local_addr()?)?),
            tickets: Arc::default(),
        };
        Ok(Self {
            listener,
            site,
            runtime,
        })
    }

    /// The address to open, with the token.
    pub fn url(&self) -> String {
        self.site.guard.url()
    }

    /// Serves until the board is gone; the answer says why it is.
    pub fn serve(self) -> Result<Option<String>> {
        let Self {
            listener,
            site,
            runtime,
        } = self;
        let shared = site.shared.clone();
        let app = router(site);
        runtime.block_on(async {
            tokio::select! {
                ended = axum::serve(listener, app) => ended.context("the server failed").map(|()| None),
                why = gone(&shared) => Ok(Some(why)),
            }
        })
    }
}

/// Serves at `address`, and prints the address to open.
pub fn run(
    shared: &Shared,
    description: Option<Arc<Schedule>>,
    address: SocketAddr,
) -> Result<Option<String>> {
    let server = Server::open(shared, description, address)?;
    ui::line(format_args!("Open {}", server.url()));
    if !address.ip().is_loopback() {
        eprintln!(
            "{}",
            ui::red(
                "Others on the network see what passes here, the token too: nothing is encrypted."
            )
        );
    }
    server.serve()
}

fn router(site: Site) -> Router {
    let guard = Arc::clone(&site.guard);
    Router::new()
        .route("/", get(pages::page))
        .route("/top.js", get(pages::script))
        .route("/timeline.js", get(pages::timeline))
        .route("/change.js", get(pages::change))
        .route("/top.css", get(pages::style))
        .route("/events", get(events::events))
        .route("/preview", post(answers::preview))
        .route("/apply", post(answers::apply))
        .layer(DefaultBodyLimit::max(MOST))
        .layer(middleware::from_fn_with_state(guard, guard::guard))
        .with_state(site)
}

/// Waits until the board is gone, and pages have learnt of it.
async fn gone(shared: &Shared) -> String {
    loop {
        let status = shared.lock().status.clone();
        if let Status::Gone(why) = status {
            tokio::time::sleep(FAREWELL).await;
            return why;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[cfg(test)]
mod tests;
