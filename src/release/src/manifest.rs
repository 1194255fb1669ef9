//! Manifests: the objects that a file describes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use serde_json::Value;
use serde_saphyr::UserMessageFormatter;

use crate::json;
use crate::selection::Selection;

/// Annotation of an object that the release removes.
pub const DELETE: &str = "release.openshift.io/delete";

/// An object that a file describes.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub file: String,
    /// Which document of the file it is, from 1; empty ones do not count.
    pub document: usize,
    pub id: ObjectId,
    /// Version of its API, without the group.
    pub api_version: String,
    pub object: Value,
    /// Its text, where its file is JSON.
    pub(crate) json: Option<Box<str>>,
}

/// What tells one object of a cluster from all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// API group; empty for the core group.
    pub group: String,
    pub kind: String,
    /// Namespace; empty for objects of the cluster.
    pub namespace: String,
    pub name: String,
}

/// Why a file's content is not a list of manifests.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it is not UTF-8")]
    Utf8(#[source] std::str::Utf8Error),
    /// It is not YAML, or not JSON if the file is named so.
    #[error("line {line}: {message}")]
    Syntax {
        /// Line, from 1; 0 where it is undetermined.
        line: u64,
        message: String,
    },
    /// A document is no map.
    #[error("document {document} is no object")]
    NoObject { document: usize },
    /// A document lacks a field that each manifest has, or it is no text, or empty.
    #[error("document {document}: field {field} is missing or no text")]
    Field {
        document: usize,
        /// Path of the field.
        field: &'static str,
    },
    /// Two documents describe one object.
    #[error("documents {first} and {second} both describe {id}")]
    Twice {
        first: usize,
        second: usize,
        id: Box<ObjectId>,
    },
}

impl Manifest {
    /// Reads the manifests of a file, in its order. Empty documents and `null` are passed over.
    ///
    /// Shape: YAML, or JSON where the name ends in `.json`, with any number of documents. Each
    /// has `apiVersion`, `kind` and `metadata.name`. Plain `yes`, `no`, `on` and `off` are
    /// booleans, as Kubernetes reads YAML.
    ///
    /// # Errors
    /// [`Error`], of the first document that is wrong.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Vec<Self>, Error> {
        let text = std::str::from_utf8(bytes).map_err(Error::Utf8)?;
        let mut manifests: Vec<Self> = Vec::new();
        for (index, (object, json)) in documents(file, text)?.into_iter().enumerate() {
            let document = index + 1;
            let mut manifest = Self::read(file, document, object)?;
            manifest.json = json;
            if let Some(first) = manifests.iter().find(|other| other.id == manifest.id) {
                return Err(Error::Twice {
                    first: first.document,
                    second: document,
                    id: Box::new(manifest.id),
                });
            }
            manifests.push(manifest);
        }
        Ok(manifests)
    }

    fn read(file: &str, document: usize, object: Value) -> Result<Self, Error> {
        if !object.is_object() {
            return Err(Error::NoObject { document });
        }
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let required = |pointer, field| {
            text(pointer)
                .filter(|text| !text.is_empty())
                .ok_or(Error::Field { document, field })
        };
        let api_version = required("/apiVersion", "apiVersion")?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let id = ObjectId {
            group: group.to_owned(),
            kind: required("/kind", "kind")?.to_owned(),
            namespace: text("/metadata/namespace").unwrap_or_default().to_owned(),
            name: required("/metadata/name", "metadata.name")?.to_owned(),
        };
        Ok(Self {
            file: file.to_owned(),
            document,
            id,
            api_version: version.to_owned(),
            object,
            json: None,
        })
    }

    /// Its JSON, by which releases are compared: keys in order and the characters `<`, `>` and `&`
    /// escaped, as Go prints YAML; the text itself where the file is JSON.
    pub fn raw(&self) -> Cow<'_, str> {
        match &self.json {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(json::print_as_go(&self.object)),
        }
    }

    /// `apiVersion` of the object.
    pub fn full_api_version(&self) -> String {
        let Self {
            id, api_version, ..
        } = self;
        if id.group.is_empty() {
            api_version.clone()
        } else {
            format!("{}/{api_version}", id.group)
        }
    }

    /// A text at this place of the object, such as `/data/key`.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.object.pointer(pointer)?.as_str()
    }

    /// Its annotations, as far as they are texts.
    pub fn annotations(&self) -> BTreeMap<&str, &str> {
        let annotations = self.object.pointer("/metadata/annotations");
        let all = annotations.and_then(Value::as_object).into_iter().flatten();
        all.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
            .collect()
    }

    /// Which clusters it is for.
    pub fn selection(&self) -> Selection<'_> {
        Selection::of(&self.annotations())
    }
}

fn is_json(file: &str) -> bool {
    Path::new(file).extension() == Some(OsStr::new("json"))
}

/// A document, and its own text where the file is JSON.
type Document = (Value, Option<Box<str>>);

/// The documents of a text that are not empty.
fn documents(file: &str, text: &str) -> Result<Vec<Document>, Error> {
    if is_json(file) {
        return json_documents(text);
    }
    // The API's tools read YAML 1.1, where numbers with a leading zero are octal: modes.
    let options = serde_saphyr::options! { with_snippet: false, legacy_octal_numbers: true };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| Error::Syntax {
            line: error.location().map_or(0, |location| location.line()),
            message: error.render_with_formatter(&UserMessageFormatter),
        })?;
    Ok(documents
        .into_iter()
        .map(|document| (document, None))
        .collect())
}

fn json_documents(text: &str) -> Result<Vec<Document>, Error> {
    let mut documents = Vec::new();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut begin = 0;
    while let Some(value) = values.next() {
        let value = value.map_err(|error| Error::Syntax {
            line: error.line() as u64,
            message: error.to_string(),
        })?;
        let end = values.byte_offset();
        if !value.is_null() {
            let own = text.get(begin..end).unwrap_or_default();
            documents.push((value, Some(own.trim().into())));
        }
        begin = end;
    }
    Ok(documents)
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            kind,
            namespace,
            name,
        } = self;
        f.write_str(kind)?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if namespace.is_empty() {
            write!(f, " {name}")
        } else {
            write!(f, " {namespace}/{name}")
        }
    }
}

#[cfg(test)]
mod tests;
