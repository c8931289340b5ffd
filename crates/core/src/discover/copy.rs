//! A workflow's file under another id.

use workrail_model::name::WorkflowId;

use crate::compile::authored_id;

/// The file with only its id replaced, comments included; `None` if it has no id that could
/// be replaced.
pub fn with_id(source: &[u8], id: &WorkflowId) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(source).ok()?;
    let quoted = format!("\"{}\"", authored_id(source)?);
    // The same words may occur in a prompt: the right occurrence is the one that changes the id.
    text.match_indices(&quoted).find_map(|(at, _)| {
        let changed = format!("{}\"{id}\"{}", &text[..at], &text[at + quoted.len()..]);
        (authored_id(changed.as_bytes()).as_ref() == Some(id)).then(|| changed.into_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_id_changes() {
        let source = br#"{ "about": "wr.review", // "id"
          "name": "wr.review", "id": "wr.review", "steps": [] }"#;
        let copy = WorkflowId::parse("team.review").unwrap();
        let changed = String::from_utf8(with_id(source, &copy).unwrap()).unwrap();
        assert_eq!(
            changed,
            String::from_utf8_lossy(source).replace("\"id\": \"wr.review\"", "\"id\": \"team.review\"")
        );
        assert_eq!(with_id(b"{}", &copy), None);
    }
}
