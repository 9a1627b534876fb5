//! The page and what belongs to it, which are parts of this program.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

pub(super) async fn page() -> impl IntoResponse {
    ([(CONTENT_TYPE, HTML)], include_str!("page/index.html"))
}

pub(super) async fn script() -> impl IntoResponse {
    ([(CONTENT_TYPE, SCRIPT)], include_str!("page/top.js"))
}

pub(super) async fn timeline() -> impl IntoResponse {
    ([(CONTENT_TYPE, SCRIPT)], include_str!("page/timeline.js"))
}

pub(super) async fn change() -> impl IntoResponse {
    ([(CONTENT_TYPE, SCRIPT)], include_str!("page/change.js"))
}

pub(super) async fn style() -> impl IntoResponse {
    ([(CONTENT_TYPE, STYLE)], include_str!("page/top.css"))
}
