//! The page that takes a token (G125).

use maud::{Markup, html};

use super::layout::bare;
use super::ticked;
use crate::guard::LOGIN_PATH;

/// Asks for a token. `back` is the requested page; `reason` is why the token is asked for again.
pub(crate) fn login(back: Option<&str>, reason: Option<&str>) -> Markup {
    let body = html! {
        @if let Some(reason) = reason { p.warn role="alert" { (reason) } }
        form.login method="post" action=(LOGIN_PATH) {
            @if let Some(back) = back { input type="hidden" name="back" value=(back); }
            label for="access-token" { "Access token" }
            input id="access-token" name="access-token" type="password" autocomplete="current-password" required autofocus;
            button.primary type="submit" { "Log in" }
        }
        p.meta { (ticked("An administrator makes tokens with `workrail team token create NAME --role ROLE`.")) }
    };
    bare("Log in", &body)
}
