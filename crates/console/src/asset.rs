//! The style, the script and the icon of the console, by their names.

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use workrail_engine::html::STYLE;

use crate::guard::ASSETS;

const OWN_STYLE: &str = include_str!("assets/console.css");
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// One of our files that a page loads, by its name beneath `/assets/`.
fn asset_named(name: &str) -> Option<(&'static str, String)> {
    let script = |text: &'static str| (JAVASCRIPT, text.to_owned());
    Some(match name {
        "console.css" => ("text/css; charset=utf-8", format!("{STYLE}\n{OWN_STYLE}")),
        "console.js" => script(include_str!("assets/console.js")),
        "live.js" => script(include_str!("assets/live.js")),
        "keys.js" => script(include_str!("assets/keys.js")),
        "decide.js" => script(include_str!("assets/decide.js")),
        "prepare.js" => script(include_str!("assets/prepare.js")),
        "pan.js" => script(include_str!("assets/pan.js")),
        "passkey.js" => script(include_str!("assets/passkey.js")),
        "edit.js" => script(include_str!("assets/edit.js")),
        "notify.js" => script(include_str!("assets/notify.js")),
        "icon.svg" => ("image/svg+xml", include_str!("assets/icon.svg").to_owned()),
        _ => return None,
    })
}

pub(crate) fn asset(path: &str) -> Option<Response> {
    let (media_type, text) = path.strip_prefix(ASSETS).and_then(asset_named)?;
    Some(([(header::CONTENT_TYPE, media_type)], text).into_response())
}
