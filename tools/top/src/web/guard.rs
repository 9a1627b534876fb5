//! Who may ask for what.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, LOCATION, ORIGIN, REFERRER_POLICY,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// What the page may load and do: only what is its own.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What a request is held against.
pub(super) struct Guard {
    address: SocketAddr,
    token: String,
}

impl Guard {
    /// For a server at `address`, with a new token.
    pub(super) fn new(address: SocketAddr) -> Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).context("this system gives no random numbers")?;
        let token = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { address, token })
    }

    pub(super) fn url(&self) -> String {
        let ip = self.address.ip();
        // One that stands for all addresses is none that a browser could open.
        let host = match ip {
            ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        format!(
            "http://{host}:{}/?token={}",
            self.address.port(),
            self.token
        )
    }

    /// A cookie knows no port: each server has one of its own.
    fn cookie(&self) -> String {
        format!("hanok-top-{}", self.address.port())
    }

    /// Whether a request names this server by an address, not by a name that somebody else may give to it.
    fn is_host(&self, host: &str) -> bool {
        if let Ok(named) = host.parse::<SocketAddr>() {
            return named.port() == self.address.port();
        }
        let port = self.address.port();
        host == format!("localhost:{port}")
            || port == 80 && (host == "localhost" || host.parse::<IpAddr>().is_ok())
    }

    fn is_token(&self, token: &str) -> bool {
        let (ours, theirs) = (self.token.as_bytes(), token.as_bytes());
        let differ = ours.iter().zip(theirs).fold(0, |all, (a, b)| all | (a ^ b));
        ours.len() == theirs.len() && differ == 0
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie();
        let cookies = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|cookies| cookies.split(';'));
        pairs.any(|pair| {
            let pair = pair.trim().split_once('=');
            pair.is_some_and(|(key, value)| key == name && self.is_token(value))
        })
    }

    /// Why a request is refused.
    fn refusal(&self, method: &Method, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
        let text = |name| {
            headers
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok())
        };
        let host = text(HOST).unwrap_or_default();
        if !self.is_host(host) {
            return Some((StatusCode::MISDIRECTED_REQUEST, "this is another host"));
        }
        let origin = text(ORIGIN);
        let own = format!("http://{host}");
        if headers.contains_key(ORIGIN) && origin != Some(own.as_str()) {
            return Some((StatusCode::FORBIDDEN, "this comes from another site"));
        }
        // Browsers say where a request that changes something comes from.
        if method != Method::GET && origin.is_none() {
            return Some((StatusCode::FORBIDDEN, "this comes from nowhere"));
        }
        if !self.has_cookie(headers) {
            let why = "open the address that `hanok top --web` has printed: its token is missing";
            return Some((StatusCode::UNAUTHORIZED, why));
        }
        None
    }

    /// The answer to whoever comes with the token: a cookie, and the address without it.
    fn admitted(&self, uri: &Uri, headers: &HeaderMap) -> Option<Response> {
        let host = headers.get(HOST)?.to_str().ok()?;
        let query = uri.query()?.split('&');
        let token = query
            .filter_map(|pair| pair.strip_prefix("token="))
            .next()?;
        if uri.path() != "/" || !self.is_host(host) || !self.is_token(token) {
            return None;
        }
        let cookie = format!(
            "{}={}; HttpOnly; SameSite=Strict; Path=/",
            self.cookie(),
            self.token
        );
        let headers = [(SET_COOKIE, cookie), (LOCATION, "/".to_owned())];
        Some((StatusCode::SEE_OTHER, headers).into_response())
    }
}

/// Lets pass what may, and forbids the browser what the page does not need.
pub(super) async fn guard(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let (method, headers) = (request.method(), request.headers());
    let mut response = if let Some(admitted) = guard.admitted(request.uri(), headers) {
        admitted
    } else if let Some((status, why)) = guard.refusal(method, headers) {
        (status, why).into_response()
    } else {
        next.run(request).await
    };
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}
