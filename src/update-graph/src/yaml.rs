//! A YAML file of a source.

use serde::de::DeserializeOwned;

use crate::problem::SourceProblem;

pub(crate) fn yaml<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T, SourceProblem> {
    let failed = |reason: String| {
        let reason = reason.lines().next().unwrap_or_default().to_owned();
        SourceProblem::new(file, "", format!("{reason}; the file is left out"))
    };
    let text = std::str::from_utf8(bytes).map_err(|error| failed(error.to_string()))?;
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| failed(error.to_string()))
}
