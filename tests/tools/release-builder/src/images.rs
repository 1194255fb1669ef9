//! Names of components' images in the texts of `deploy/`, and what stands for them in a release.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use image_builder::component::{COMPONENTS, Component};
use release::PullSpec;

/// What `deploy/cvo` has for the image that the version operator runs. A release puts its own in.
const RELEASE_IMAGE: &str = "{{.ReleaseImage}}";

/// The image that a release's image stands on.
const RELEASE_BASE: &str = "slipway-cvo";

/// The pull spec of a component.
///
/// # Errors
/// There is none.
pub(crate) fn of<'a>(
    images: &'a BTreeMap<&str, PullSpec>,
    component: &Component,
) -> Result<&'a PullSpec> {
    let name = component.name;
    images
        .get(name)
        .with_context(|| format!("no pull spec of image {name}"))
}

/// The repository of a pull spec, without tag and digest.
pub(crate) fn repository(image: &PullSpec) -> &str {
    let name = image.as_str().split('@').next().unwrap_or_default();
    // A colon before the last slash is that of a port.
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    }
}

/// The text with a component's name where `deploy/` has the placeholder of a release's image,
/// without the head comment that describes the placeholder.
pub(crate) fn without_placeholder(text: &str) -> String {
    if !text.contains(RELEASE_IMAGE) {
        return text.to_owned();
    }
    let is_head = |line: &&str| line.starts_with('#');
    let lines = text.split_inclusive('\n').skip_while(is_head);
    let text: String = lines.collect();
    text.replace(&format!("\"{RELEASE_IMAGE}\""), RELEASE_BASE)
        .replace(RELEASE_IMAGE, RELEASE_BASE)
}

/// The text with something else for each name of a component that stands alone: not as a part of a
/// longer name or of a repository.
pub(crate) fn replace(text: &str, with: impl Fn(&Component) -> Result<String>) -> Result<String> {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((begin, component)) = next(rest) {
        let (before, after) = rest.split_at(begin);
        replaced.push_str(before);
        replaced.push_str(&with(component)?);
        rest = after.strip_prefix(component.name).unwrap_or_default();
    }
    replaced.push_str(rest);
    Ok(replaced)
}

/// Names of components that stand alone in a text.
pub(crate) fn names(text: &str) -> Vec<&'static str> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some((begin, component)) = next(rest) {
        names.push(component.name);
        rest = rest.get(begin + component.name.len()..).unwrap_or_default();
    }
    names
}

/// The first name of a component that stands alone, and where it begins.
fn next(text: &str) -> Option<(usize, &'static Component)> {
    let places = COMPONENTS.iter().flat_map(|component| {
        let places = text.match_indices(component.name);
        places.map(move |(begin, _)| (begin, component))
    });
    places
        .filter(|(begin, component)| {
            let (before, after) = text.split_at(*begin);
            let after = after.strip_prefix(component.name).unwrap_or_default();
            !before.ends_with(is_of_name) && !after.starts_with(is_of_name)
        })
        .min_by_key(|(begin, _)| *begin)
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_./@:".contains(character)
}

/// Whether a line is a field `image` with nothing but a name, which kustomize replaces.
pub(crate) fn is_image_field(line: &str) -> bool {
    let field = line.trim_start().trim_start_matches("- ");
    field.starts_with("image: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_stand_alone_are_replaced() {
        let replaced = |text| replace(text, |component| Ok(component.name.to_uppercase())).unwrap();
        for (text, expected) in [
            ("image: slipway-mcc\n", "image: SLIPWAY-MCC\n"),
            (
                "--image=slipway-mcd --x=slipway-mcc",
                "--image=SLIPWAY-MCD --x=SLIPWAY-MCC",
            ),
            ("\"slipway-update-service\"", "\"SLIPWAY-UPDATE-SERVICE\""),
            ("name: slipway-mcc-view", "name: slipway-mcc-view"),
            ("q/slipway-mcc@sha256:0", "q/slipway-mcc@sha256:0"),
            ("slipway-upgrade", "slipway-upgrade"),
        ] {
            assert_eq!(replaced(text), expected);
        }
    }

    #[test]
    fn the_repository_has_neither_tag_nor_digest() {
        let digest = format!("sha256:{}", "0".repeat(64));
        for (name, expected) in [
            ("quay.io/slipway/slipway-mcc", "quay.io/slipway/slipway-mcc"),
            ("localhost:5000/mcc", "localhost:5000/mcc"),
            ("localhost:5000/mcc:v1", "localhost:5000/mcc"),
        ] {
            let image: PullSpec = format!("{name}@{digest}").parse().unwrap();
            assert_eq!(repository(&image), expected);
        }
    }

    #[test]
    fn the_placeholder_of_a_release_becomes_its_base() {
        let text = "# {{.ReleaseImage}} is\n# replaced\nimage: \"{{.ReleaseImage}}\"\n\
                    args: [\"--release-image={{.ReleaseImage}}\"]\n";
        assert_eq!(
            without_placeholder(text),
            "image: slipway-cvo\nargs: [\"--release-image=slipway-cvo\"]\n"
        );
    }
}
