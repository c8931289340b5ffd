//! How people view it: pages in a browser that show every run, and the forms that steer one.
//!
//! Every page is rendered here from the engine's queries and works without script; the script of our own adds live
//! updates and the keyboard. Nothing a page does can write except through the use cases that the command line has. The
//! console keeps no state beside a list that it can make again and deletions that can still be undone.
//!
//! Code map: `guard` decides who is answered (G94), `entry` lets them in (G125), `target` parses addresses, `pages/` renders, `forms` changes,
//! `live` sends what changed, `routes` puts them together.

mod administration;
mod asset;
mod changes;
mod edit;
mod entry;
mod files;
mod forms;
mod guard;
mod held;
mod live;
mod pages;
mod passkeys;
mod routes;
mod state;
mod target;
mod use_cases;

pub use administration::{
    Administration, ClientInfo, ClientState, Finding, GitInfo, Level, NewSource, SourceInfo, SourceProblem,
};
pub use entry::{LoggedIn, Logins, NotLoggedIn};
pub use guard::{Secrets, TeamSite};
pub use routes::{open_address, router, team_router};
pub use use_cases::{Environment, UseCases};
