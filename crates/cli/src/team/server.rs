//! `workrail serve`: agents and people of a team, through one listener, on whichever store the settings name (G115).

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use workrail_engine::AccessRefusal;
use workrail_mcp::metrics::Metrics;
use workrail_mcp::team::{self, Members, NotLetIn};
use workrail_model::loopback::ListenerNames;
use workrail_model::public_url::{PublicUrl, Scheme};
use workrail_model::server::Transport;
use workrail_model::team::Caller;

use crate::outcome::{self, Failure, Format};
use crate::output;
use crate::serve::{Served, served};
use crate::wiring::AnyEngine;

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// The address to listen on. Port 0 picks a free port.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// The address that clients and browsers use. Needed unless the listener is on loopback.
    #[arg(long, value_name = "URL")]
    public_url: Option<PublicUrl>,
    /// A proxy in front of this server ends TLS. Only the proxy may reach the listener.
    #[arg(long)]
    behind_proxy: bool,
}

/// How the server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Site {
    listen: SocketAddr,
    /// Absent on loopback: then its own addresses are its names.
    url: Option<PublicUrl>,
}

impl Site {
    /// Refuses what would send tokens in the clear to other machines.
    fn of(arguments: &ServeArguments) -> Result<Self, String> {
        let ServeArguments { listen, public_url, behind_proxy } = arguments;
        let is_local = listen.ip().is_loopback();
        let scheme = public_url.as_ref().map(PublicUrl::scheme);
        match (is_local, behind_proxy, scheme) {
            (false, _, None) => Err(
                "Other machines reach this address, so say which name they use: --public-url https://HOST.".to_owned(),
            ),
            (false, false, Some(_)) => Err(
                "Other machines reach this address, and tokens would be sent to it unencrypted. End TLS in a proxy \
                 in front of it and say so with --behind-proxy."
                    .to_owned(),
            ),
            (_, true, None | Some(Scheme::Http)) => Err(
                "With --behind-proxy, give the address of the proxy: --public-url https://HOST.".to_owned(),
            ),
            (true, false, Some(Scheme::Https)) => Err(
                "The server speaks plain HTTP here. If a proxy ends TLS in front of it, add --behind-proxy.".to_owned(),
            ),
            (true, false, None | Some(Scheme::Http)) | (_, true, Some(Scheme::Https)) => {
                Ok(Self { listen: *listen, url: public_url.clone() })
            }
        }
    }

    fn names(&self, bound: SocketAddr) -> ListenerNames {
        self.url.as_ref().map_or_else(|| ListenerNames::of(bound), PublicUrl::names)
    }

    fn shown(&self, bound: SocketAddr) -> String {
        self.url.as_ref().map_or_else(|| format!("http://{bound}"), ToString::to_string)
    }
}

pub(crate) fn run(arguments: &ServeArguments) -> ExitCode {
    let ended = Site::of(arguments).map_err(Failure::Call).and_then(|site| serve(&site));
    outcome::finish(ended, Format::Text)
}

fn serve(site: &Site) -> Result<(), Failure> {
    let metrics = Arc::new(Metrics::default());
    let (served, _store) = served(Transport::Http)?;
    let served: Arc<Served> = Arc::new(served.remote(Arc::clone(&metrics)));
    let members = Arc::new(TeamMembers { engine: served.engine().clone() });
    let ended = team::serve(
        site.listen,
        |bound, _ending| team::routes(served, site.names(bound), members, metrics),
        |bound| {
            output::notice(&format!("listening on http://{bound}/mcp"));
            output::notice(&format!(
                "Clients use {}. Every request needs a token: `workrail team token create` makes one.",
                site.shown(bound)
            ));
        },
    );
    ended.map_err(|error| Failure::Environment(format!("The server on {} ended: {error}.", site.listen)))
}

struct TeamMembers {
    engine: AnyEngine,
}

impl Members for TeamMembers {
    fn caller(&self, token: &str) -> Result<Caller, NotLetIn> {
        self.engine.authenticate(token).map_err(|refusal| match refusal {
            AccessRefusal::Unknown | AccessRefusal::Expired | AccessRefusal::Revoked => {
                tracing::info!(?refusal, "a token was refused");
                NotLetIn::Stranger
            }
            AccessRefusal::Store(error) => {
                tracing::warn!(code = error.code.as_str(), "whose token it is cannot be told");
                NotLetIn::Unavailable
            }
        })
    }

    fn is_ready(&self) -> bool {
        self.engine.is_ready()
    }
}
