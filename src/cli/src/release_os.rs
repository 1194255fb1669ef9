//! The OS images of releases, for `slipway release info` and `slipway release diff`.

use anyhow::{Context as _, anyhow};
use images::Stores;

use crate::decide::os_images::{OsImages, OsPair, pairs};
use crate::failure::Several;
use crate::os_image::{OsImageReader, is_same};
use crate::output::{print, warn};
use crate::view::info::Info;
use crate::view::os;

/// Prints the packages of a release's OS images; of `only`, if it is a name of a tag.
///
/// # Errors
/// The release has no such image, and all images that cannot be read, after the others are printed.
pub(crate) async fn list(stores: &Stores, info: &Info, only: Option<&str>) -> anyhow::Result<()> {
    let Some(images) = of_release(info, only)? else {
        warn_of_no_os(info);
        return Ok(());
    };
    let mut reader = OsImageReader::new(stores)?;
    let mut errors = Vec::new();
    for (name, image) in images.iter() {
        match reader.read(image).await {
            Ok(read) => print(os::content(name, &read) + "\n")?,
            Err(error) => errors.push(failed(error, name)),
        }
    }
    end(errors)
}

/// Prints what changes in the OS images of two releases, likewise.
///
/// # Errors
/// As of [`list`].
pub(crate) async fn compare(
    stores: &Stores,
    from: &Info,
    to: &Info,
    only: Option<&str>,
) -> anyhow::Result<()> {
    let (before, after) = (of_release(from, only)?, of_release(to, only)?);
    for (release, images) in [(from, &before), (to, &after)] {
        if images.is_none() {
            warn_of_no_os(release);
        }
    }
    let (Some(before), Some(after)) = (before, after) else {
        return Ok(());
    };
    let mut reader = OsImageReader::new(stores)?;
    let mut errors = Vec::new();
    for OsPair {
        name,
        from: before,
        to: after,
    } in pairs(&before, &after)
    {
        let text = match (before, after) {
            (Some(before), Some(after)) => match reader.change(&before, &after).await {
                Ok(Some(change)) => os::change(&name, &change),
                Ok(None) => os::same(&name),
                Err(error) => {
                    errors.push(failed(error, &name));
                    continue;
                }
            },
            (Some(_), None) => os::only_in(&name, &from.version().to_string()),
            (None, _) => os::only_in(&name, &to.version().to_string()),
        };
        print(text + "\n")?;
    }
    end(errors)
}

/// Which OS images differ, as a block that names the option to compare them; empty where none does,
/// or where it cannot be known.
pub(crate) fn hint(from: &Info, to: &Info) -> String {
    let images = |info: &Info| OsImages::of_release(&info.payload).ok().flatten();
    let (Some(before), Some(after)) = (images(from), images(to)) else {
        return String::new();
    };
    let pairs = pairs(&before, &after).into_iter();
    let differing = pairs.filter(|pair| match (&pair.from, &pair.to) {
        (Some(from), Some(to)) => is_same(from, to).is_ok_and(|is_same| !is_same),
        (Some(_) | None, None) | (None, Some(_)) => false,
    });
    let names: Vec<String> = differing.map(|pair| pair.name).collect();
    if names.is_empty() {
        return String::new();
    }
    let names = names.join(", ");
    format!("OS Packages: --packages compares those of {names}\n\n")
}

fn of_release(info: &Info, only: Option<&str>) -> anyhow::Result<Option<OsImages>> {
    let version = info.version();
    if let Some(name) = only {
        let missing = || anyhow!("no image tag {name:?} exists in release {version}");
        return Ok(Some(OsImages::one(
            name,
            info.image(name).with_context(missing)?,
        )));
    }
    let images = OsImages::of_release(&info.payload);
    images.with_context(|| format!("release {version}"))
}

fn warn_of_no_os(release: &Info) {
    warn(&format!("release {} names no OS image", release.version()));
}

fn failed(error: anyhow::Error, name: &str) -> anyhow::Error {
    error.context(format!("OS {name}: its packages are not shown"))
}

fn end(errors: Vec<anyhow::Error>) -> anyhow::Result<()> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Several::new(errors).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::info::tests::{info, with_images};

    #[test]
    fn images_that_differ_are_named() {
        let from = info();
        assert_eq!(hint(&from, &from), "");
        let mut to = info();
        let os = to.payload.references.tags.get_mut("os").unwrap();
        let digest = release::ImageDigest::of(b"another");
        os.from = format!("registry.example/os@{digest}");
        let expected = "OS Packages: --packages compares those of os\n\n";
        assert_eq!(hint(&from, &to), expected);
        let none = with_images("1.0.2", &[("os", "9", "")]);
        assert_eq!(hint(&from, &none), "");
    }

    #[test]
    fn an_image_is_chosen_by_its_tag() {
        let info = info();
        let image = info.image("operator").unwrap();
        let chosen = of_release(&info, Some("operator")).unwrap();
        assert_eq!(chosen, Some(OsImages::one("operator", image)));
        let error = of_release(&info, Some("none")).unwrap_err().to_string();
        assert_eq!(error, "no image tag \"none\" exists in release 1.0.1");
    }
}
