//! Objects in files that people write, read as the cluster's tools read them.
//!
//! - `members`: what of an object the API server would drop

mod members;

use std::path::Path;

use anyhow::{Context as _, bail};
use release::order::is_manifest_file;
use serde_json::Value;

pub(crate) use self::members::unknown_members;

/// Reads the objects of a file, or of the files of a directory that are named as YAML or JSON; what
/// else is in the directory, but for hidden files, is returned, with the reason.
///
/// # Errors
/// A file that cannot be read, or that is neither, by its path.
pub(crate) fn read(path: &Path, objects: &mut Vec<Value>) -> anyhow::Result<Vec<String>> {
    let failed = || format!("cannot read {}", path.display());
    if !path.is_dir() {
        let bytes = std::fs::read(path).with_context(failed)?;
        let parsed = parse(&bytes).with_context(|| format!("file {}", path.display()))?;
        objects.extend(parsed);
        return Ok(Vec::new());
    }
    let (mut files, mut left_out) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(path).with_context(failed)? {
        let file = entry.with_context(failed)?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let why = if file.is_dir() {
            Some("directories in a directory are not read")
        } else if is_manifest_file(&name) {
            None
        } else {
            Some("its name ends in neither .yaml nor .yml nor .json")
        };
        match why {
            None => files.push(file),
            Some(_) if name.starts_with('.') => {}
            Some(why) => left_out.push(format!("{} is left out: {why}", file.display())),
        }
    }
    files.sort_unstable();
    left_out.sort_unstable();
    for file in &files {
        read(file, objects)?;
    }
    Ok(left_out)
}

/// The objects of a text, with those of lists one by one.
///
/// Numbers with a leading zero are octal, as YAML 1.1 has them: `mode: 0644` is 420 to `oc apply`.
///
/// # Errors
/// A text that is neither YAML nor JSON, or a document that is no object.
pub(crate) fn parse(bytes: &[u8]) -> anyhow::Result<Vec<Value>> {
    let text = std::str::from_utf8(bytes).context("it is not UTF-8")?;
    let options = serde_saphyr::options! { with_snippet: false, legacy_octal_numbers: true };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
        .context("it is neither YAML nor JSON")?;
    let mut objects = Vec::new();
    for (number, document) in (1..).zip(documents) {
        match document.get("items").and_then(Value::as_array) {
            Some(items) => objects.extend(items.iter().cloned()),
            None if document.is_null() => {}
            None if document.is_object() => objects.push(document),
            None => bail!("document {number} is no object"),
        }
    }
    Ok(objects)
}

/// Whether an object is of a kind.
pub(crate) fn is_of(object: &Value, kind: &str) -> bool {
    object.get("kind").and_then(Value::as_str) == Some(kind)
}

/// Its name; empty where it has none.
pub(crate) fn name_of(object: &Value) -> &str {
    let name = object.pointer("/metadata/name");
    name.and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_with_a_leading_zero_are_octal() {
        let parsed = |text: &str| parse(text.as_bytes()).unwrap().remove(0);
        let modes = "a: 0644\nb: 0o644\nc: 420\nd: '0644'\ne: 0\nf: 0.5\ng: 10\n";
        let expected =
            json!({ "a": 420, "b": 420, "c": 420, "d": "0644", "e": 0, "f": 0.5, "g": 10 });
        assert_eq!(parsed(modes), expected);
        assert_eq!(parsed("{\"mode\": 420}"), json!({ "mode": 420 }));
    }

    #[test]
    fn what_is_no_object_is_named() {
        assert!(format!("{:#}", parse(b"- 1\n").unwrap_err()).contains("document 1 is no object"));
        assert!(format!("{:#}", parse(b"a: [").unwrap_err()).contains("neither YAML nor JSON"));
    }

    #[test]
    fn directories_are_read_by_their_yaml_and_json() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let write =
            |name: &str, text: &str| crate::output::write(&path.join(name), text.as_bytes());
        write("a.yaml", "kind: A\n---\nkind: B\n").unwrap();
        write(
            "b.json",
            "{\"kind\": \"List\", \"items\": [{\"kind\": \"C\"}]}",
        )
        .unwrap();
        write("notes.txt", "not: [read").unwrap();
        write("d.YAML", "not: [read").unwrap();
        write(".hidden", "").unwrap();
        std::fs::create_dir(path.join("more")).unwrap();
        let mut objects = Vec::new();
        let left_out = read(path, &mut objects).unwrap();
        let at = |name: &str| path.join(name).display().to_string();
        let ends = "its name ends in neither .yaml nor .yml nor .json";
        let expected = [
            format!("{} is left out: {ends}", at("d.YAML")),
            format!(
                "{} is left out: directories in a directory are not read",
                at("more")
            ),
            format!("{} is left out: {ends}", at("notes.txt")),
        ];
        assert_eq!(left_out, expected);
        let kinds: Vec<&str> = objects
            .iter()
            .filter_map(|one| one["kind"].as_str())
            .collect();
        assert_eq!(kinds, ["A", "B", "C"]);
        let error = read(&path.join("none.yaml"), &mut objects).unwrap_err();
        assert!(error.to_string().starts_with("cannot read "), "{error}");
    }
}
