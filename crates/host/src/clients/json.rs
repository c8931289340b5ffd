//! Clients' JSON files, with or without comments: reading them strictly, and comparing and removing parts of them.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};

/// Comments and trailing commas are common in these files; anything looser is an error.
fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        ..ParseOptions::default()
    }
}

/// The file's root object; an empty file is an empty object.
pub(super) fn parsed(text: &str) -> Result<(CstRootNode, CstObject), String> {
    let root = CstRootNode::parse(text, &options()).map_err(|error| error.to_string())?;
    let object = root.object_value_or_create().ok_or("it is not a JSON object")?;
    unambiguous(&object, "the file")?;
    Ok((root, object))
}

/// Refuses duplicate keys: there would be no single place to edit.
pub(super) fn unambiguous(object: &CstObject, what: &str) -> Result<(), String> {
    let mut names: Vec<String> =
        object.properties().iter().filter_map(jsonc_parser::cst::CstObjectProp::decoded_name).collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("{what} has `{}` twice", pair[0])),
        None => Ok(()),
    }
}

/// A member that is an object; `None` if there is no such member.
pub(super) fn object_in(object: &CstObject, key: &str) -> Result<Option<CstObject>, String> {
    match object.get(key) {
        None => Ok(None),
        Some(property) => {
            let inner = property.object_value().ok_or_else(|| format!("`{key}` is not an object"))?;
            unambiguous(&inner, &format!("`{key}`"))?;
            Ok(Some(inner))
        }
    }
}

/// A member that is a list.
pub(super) fn array_in(object: &CstObject, key: &str) -> Result<Option<CstArray>, String> {
    match object.get(key) {
        None => Ok(None),
        Some(property) => property.array_value().map(Some).ok_or_else(|| format!("`{key}` is not a list")),
    }
}

pub(super) fn string(text: &str) -> CstInputValue {
    CstInputValue::String(text.to_owned())
}

pub(super) fn text_in(object: &CstObject, member: &str) -> Option<String> {
    object.get(member)?.value()?.as_string_lit()?.decoded_value().ok()
}

/// Whether a node has the same value, regardless of spacing.
pub(super) fn same(node: &CstNode, value: &CstInputValue) -> bool {
    match value {
        CstInputValue::Null => node.as_null_keyword().is_some(),
        CstInputValue::Bool(wanted) => {
            node.as_boolean_lit().is_some_and(|literal| literal.value() == *wanted)
        }
        CstInputValue::Number(wanted) => {
            node.as_number_lit().is_some_and(|literal| literal.to_string() == *wanted)
        }
        CstInputValue::String(wanted) => {
            node.as_string_lit().and_then(|literal| literal.decoded_value().ok()).as_deref() == Some(wanted)
        }
        CstInputValue::Array(wanted) => node.as_array().is_some_and(|array| {
            let elements = array.elements();
            elements.len() == wanted.len()
                && elements.iter().zip(wanted).all(|(element, wanted)| same(element, wanted))
        }),
        CstInputValue::Object(wanted) => node.as_object().is_some_and(|object| {
            object.properties().len() == wanted.len()
                && wanted.iter().all(|(key, wanted)| member_is(&object, key, wanted))
        }),
    }
}

pub(super) fn member_is(object: &CstObject, key: &str, wanted: &CstInputValue) -> bool {
    object.get(key).and_then(|property| property.value()).is_some_and(|value| same(&value, wanted))
}

/// Sets a member only if it differs, so that nothing is reformatted needlessly.
pub(super) fn put(object: &CstObject, key: &str, value: CstInputValue) {
    match object.get(key) {
        Some(_) if member_is(object, key, &value) => {}
        Some(property) => property.set_value(value),
        None => drop(object.append(key, value)),
    }
}

/// Removes a member if it is an empty list or object.
pub(super) fn prune(object: &CstObject, key: &str) {
    let Some(property) = object.get(key) else { return };
    let is_empty = property.array_value().is_some_and(|array| array.elements().is_empty())
        || property.object_value().is_some_and(|object| object.properties().is_empty());
    if is_empty {
        property.remove();
    }
}

pub(super) fn ended(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Adds the missing texts to a list at the end of a path of objects.
pub(super) fn add_to_list(text: &str, path: &[&str], entries: &[String]) -> Result<String, String> {
    let (root, mut object) = parsed(text)?;
    let Some((last, above)) = path.split_last() else { return Ok(text.to_owned()) };
    for key in above {
        object = match object_in(&object, key)? {
            Some(inner) => inner,
            None => object.object_value_or_set(key),
        };
    }
    let list = match array_in(&object, last)? {
        Some(list) => list,
        None => object.array_value_or_set(last),
    };
    let is_there = |entry: &str| list.elements().iter().any(|element| same(element, &string(entry)));
    let missing: Vec<&String> = entries.iter().filter(|entry| !is_there(entry)).collect();
    if missing.is_empty() {
        return Ok(text.to_owned());
    }
    list.ensure_multiline();
    for entry in missing {
        list.append(string(entry));
    }
    Ok(ended(root.to_string()))
}

/// Removes these texts from a list, and whatever is then empty.
pub(super) fn remove_from_list(text: &str, path: &[&str], entries: &[String]) -> Result<String, String> {
    let (root, object) = parsed(text)?;
    let Some((last, above)) = path.split_last() else { return Ok(text.to_owned()) };
    let mut objects = vec![object];
    for key in above {
        let Some(last) = objects.last() else { break };
        match object_in(last, key)? {
            Some(inner) => objects.push(inner),
            None => return Ok(text.to_owned()),
        }
    }
    let Some(holder) = objects.last() else { return Ok(text.to_owned()) };
    let Some(list) = array_in(holder, last)? else { return Ok(text.to_owned()) };
    let found: Vec<CstNode> = list
        .elements()
        .into_iter()
        .filter(|node| entries.iter().any(|entry| same(node, &string(entry))))
        .collect();
    if found.is_empty() {
        return Ok(text.to_owned());
    }
    for node in found {
        node.remove();
    }
    for (object, key) in objects.iter().zip(path).rev() {
        prune(object, key);
    }
    Ok(root.to_string())
}

/// A boolean at the end of a path of objects.
pub(super) fn boolean(text: &str, path: &[&str]) -> Option<bool> {
    let (_, mut object) = parsed(text).ok()?;
    let (last, above) = path.split_last()?;
    for key in above {
        object = object_in(&object, key).ok()??;
    }
    object.get(last)?.value()?.as_boolean_lit().map(|literal| literal.value())
}
