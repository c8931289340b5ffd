//! Where the agent works that reads a reply, and what its role allows: a reply suggests nothing that cannot work there.

use workrail_model::id::RunId;
use workrail_model::public_url::PublicUrl;
use workrail_model::team::{Act, Role};

use crate::access;

/// Where the agent works, as seen from the engine that answers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AgentSite {
    /// With the store: its files can be inspected, and its user decides with commands or in the local console.
    #[default]
    Local,
    /// Anywhere, through a team's server: its files are not inspected, and people decide in the team's console.
    Remote { console: PublicUrl },
}

impl AgentSite {
    /// The page in the team's console where people decide about a run; `None` where they use commands.
    pub fn run_page(&self, run: RunId) -> Option<String> {
        match self {
            Self::Local => None,
            Self::Remote { console } => Some(format!("{console}/run/{run}")),
        }
    }
}

/// What the reader of a reply may do with its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunRights {
    Work,
    /// The role only reads: it gets no token to work with and no call to make.
    ReadOnly {
        role: Role,
    },
}

impl RunRights {
    /// What a member's role allows; a caller without a role may work.
    pub fn of(role: Option<Role>) -> Self {
        match role {
            Some(role) if !access::allows(role, Act::Work) => Self::ReadOnly { role },
            Some(_) | None => Self::Work,
        }
    }

    /// Why no start is offered; `None` for a reader who may start runs.
    pub(crate) fn why_no_start(self) -> Option<String> {
        match self {
            Self::Work => None,
            Self::ReadOnly { role } => Some(format!(
                "Your role `{}` may not start runs. Starting a run needs a token of the role {}.",
                role.as_str(),
                roles_that_work()
            )),
        }
    }

    /// Why there is nothing to do in a reply; `None` for a reader who may work.
    pub fn why_read_only(self) -> Option<String> {
        match self {
            Self::Work => None,
            Self::ReadOnly { role } => Some(format!(
                "Your role `{}` may read this run but not work on it. Completing steps needs a token of the role {}.",
                role.as_str(),
                roles_that_work()
            )),
        }
    }
}

fn roles_that_work() -> String {
    let roles: Vec<String> =
        access::roles_allowed(Act::Work).map(|role| format!("`{}`", role.as_str())).collect();
    roles.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_roles_that_may_work_get_a_call() {
        assert_eq!(RunRights::of(None), RunRights::Work);
        for role in Role::ALL {
            let may_work = access::allows(role, Act::Work);
            assert_eq!(RunRights::of(Some(role)).why_read_only().is_none(), may_work, "{role:?}");
        }
        let why = RunRights::of(Some(Role::Viewer)).why_read_only().unwrap();
        assert!(why.contains("`viewer`") && why.contains("`agent` or `admin`"), "{why}");
    }
}
