//! The console: pages in a browser that show every run, and forms that steer one.
//!
//! Every page is rendered here from the engine's queries and works without script; our own script adds live updates
//! and the keyboard. A page can write only through the use cases of the command line. The console keeps no state
//! except a list that it can rebuild and deletions that can still be undone.
//!
//! Code map: `guard` decides which requests are answered (G94), `entry` logs visitors in (G125), `quota` limits what
//! one member uses at once, `target` parses addresses, `pages/` renders, `forms` changes, `live` sends what changed,
//! `routes` puts them together.

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
mod quota;
mod request;
mod routes;
mod state;
mod target;
mod use_cases;

pub use administration::{
    Administration, ChecksInfo, ClientInfo, ClientState, DoctorFindingView, DoctorLevel, GitInfo, NewSource,
    OfferedCheck, SourceInfo, SourceProblemView,
};
pub use entry::{LoggedIn, Logins, NotLoggedIn};
pub use guard::{Secrets, TeamSite};
pub use routes::{open_address, router, team_router};
pub use use_cases::{Environment, UseCases};
