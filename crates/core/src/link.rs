//! References to a node that stay valid for as long as the session exists: `workrail://session/ID/node/ID`.

use std::fmt;

use workrail_model::id::{NodeId, SessionId};

const SCHEME: &str = "workrail://session/";

/// The text is not a reference to a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reference to a node reads workrail://session/SESSION/node/NODE")]
pub struct LinkError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeLink {
    pub session: SessionId,
    pub node: NodeId,
}

impl NodeLink {
    /// Whether a text is meant as a reference, valid or not.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("workrail:")
    }

    /// Parses exactly what `Display` writes.
    pub fn parse(text: &str) -> Result<Self, LinkError> {
        let rest = text.strip_prefix(SCHEME).ok_or(LinkError)?;
        let (session, node) = rest.split_once("/node/").ok_or(LinkError)?;
        let session = SessionId::parse(session).map_err(|_| LinkError)?;
        Ok(Self { session, node: NodeId::parse(node).map_err(|_| LinkError)? })
    }
}

impl fmt::Display for NodeLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/node/{}", self.session, self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_displayed_link_is_parsed() {
        let link = NodeLink { session: SessionId::from_bits([1; 10]), node: NodeId::from_bits([2; 10]) };
        assert_eq!(NodeLink::parse(&link.to_string()), Ok(link));
        for bad in ["", "workrail://session/", &format!("{link}x"), &link.to_string().to_uppercase()] {
            assert_eq!(NodeLink::parse(bad), Err(LinkError), "{bad}");
        }
    }
}
