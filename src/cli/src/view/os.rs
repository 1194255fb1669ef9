//! OS images: what one has, and what changes from one to another.

use os_packages::difference::{OnePackage, PackageChange, PackageDifference};

use super::parts::megabytes;
use super::table::table;
use crate::decide::os_change::{OsChange, OsImage};

/// Stands for what an image does not have.
const NONE: &str = "none";

/// How an OS changes: a block below its name.
pub(crate) fn change(name: &str, change: &OsChange) -> String {
    let mut rows: Vec<[String; 2]> = Vec::new();
    for it in &change.notable {
        let [from, to] = [&it.from, &it.to].map(|text| if text.is_empty() { NONE } else { text });
        let value = if from == to {
            to.to_owned()
        } else {
            format!("{from} -> {to}")
        };
        rows.push([label(it.what), value]);
    }
    let fetch = &change.to_fetch;
    rows.push([
        "To fetch:".to_owned(),
        format!(
            "{} of {} layers, {} MB",
            fetch.layers,
            fetch.of_layers,
            megabytes(fetch.bytes)
        ),
    ]);
    let packages = match (&change.packages, &change.without_packages) {
        (Some(packages), _) => counts(packages),
        (None, Some(why)) => format!("not compared: {why}"),
        (None, None) => "not compared".to_owned(),
    };
    rows.push(["Packages:".to_owned(), packages]);
    let mut text = format!("OS {name}:\n{}", table(2, &rows));
    if let Some(packages) = &change.packages {
        text.push_str(&lists(packages));
    }
    text
}

/// An OS that is the same in both.
pub(crate) fn same(name: &str) -> String {
    format!("OS {name}: the same image\n")
}

/// An OS that only one of two releases has.
pub(crate) fn only_in(name: &str, release: &str) -> String {
    format!("OS {name}: only in {release}\n")
}

/// What an OS image has, with all of its packages.
pub(crate) fn content(name: &str, image: &OsImage) -> String {
    let notable = image.content.notable().into_iter();
    let mut rows: Vec<[String; 2]> = notable
        .map(|(what, versions)| {
            let versions = versions.join(", ");
            let versions = if versions.is_empty() {
                NONE.to_owned()
            } else {
                versions
            };
            [label(what), versions]
        })
        .collect();
    let bytes = image.layers.iter().map(|layer| layer.bytes).sum();
    let size = format!("{} layers, {} MB", image.layers.len(), megabytes(bytes));
    rows.push(["Size:".to_owned(), size]);
    let count = match (&image.content.packages, &image.not_read) {
        (Some(list), _) => format!("{} of {}", list.packages().len(), list.manager),
        (None, Some(why)) => format!("not read: {why}"),
        (None, None) => "the image has no package database".to_owned(),
    };
    rows.push(["Packages:".to_owned(), count]);
    let packages = image.content.packages().iter();
    let packages = packages.map(|it| [&it.name, &it.version, &it.architecture]);
    let packages = table(4, &packages.collect::<Vec<_>>());
    format!("OS {name}:\n{}{packages}", table(2, &rows))
}

fn label(what: &str) -> String {
    let mut letters = what.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    // Names of programs keep their form.
    match what {
        "version" | "kernel" => first.into_iter().chain(letters).chain([':']).collect(),
        what => format!("{what}:"),
    }
}

fn counts(packages: &PackageDifference) -> String {
    let counts = [
        (packages.upgraded.len(), "upgraded"),
        (packages.downgraded.len(), "downgraded"),
        (packages.rebuilt.len(), "rebuilt"),
        (packages.added.len(), "added"),
        (packages.removed.len(), "removed"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, what)| format!("{count} {what}"));
    let same = format!("{} the same", packages.unchanged);
    counts.chain([same]).collect::<Vec<_>>().join(", ")
}

fn lists(packages: &PackageDifference) -> String {
    let mut text = String::new();
    for (title, changes) in [
        ("Upgraded", &packages.upgraded),
        ("Downgraded", &packages.downgraded),
        ("Rebuilt", &packages.rebuilt),
    ] {
        let row = |it: &PackageChange| [it.name.clone(), it.from.clone(), it.to.clone()];
        block(
            &mut text,
            title,
            &changes.iter().map(row).collect::<Vec<_>>(),
        );
    }
    for (title, packages) in [("Added", &packages.added), ("Removed", &packages.removed)] {
        let row = |it: &OnePackage| [it.name.clone(), it.version.clone()];
        block(
            &mut text,
            title,
            &packages.iter().map(row).collect::<Vec<_>>(),
        );
    }
    text
}

fn block<const COLUMNS: usize>(text: &mut String, title: &str, rows: &[[String; COLUMNS]]) {
    if !rows.is_empty() {
        text.extend(["  ", title, ":\n", &table(4, rows)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::os_change::tests::image;

    #[test]
    fn a_change_is_printed_as_a_block() {
        let from = image(
            "6.1.0-27-amd64",
            &["a 1.0", "b 1.0", "c 2.0", "gone 1", "systemd 252"],
            &[("x", 1_000_000), ("y", 2_000_000)],
        );
        let to = image(
            "6.1.0-28-amd64",
            &["a 1.0", "b 1.10", "c 1.0", "new 1", "systemd 252"],
            &[("x", 1_000_000), ("z", 2_345_678)],
        );
        let expected = "OS os:
  Version:   none
  Kernel:    6.1.0-27-amd64 -> 6.1.0-28-amd64
  libostree: none
  systemd:   252
  kubelet:   none
  CRI-O:     none
  To fetch:  1 of 2 layers, 2.3 MB
  Packages:  1 upgraded, 1 downgraded, 1 added, 1 removed, 2 the same
  Upgraded:
    b 1.0 1.10
  Downgraded:
    c 2.0 1.0
  Added:
    new 1
  Removed:
    gone 1
";
        assert_eq!(change("os", &OsChange::new(&from, &to)), expected);
        let none = OsImage {
            not_read: Some("x".to_owned()),
            ..OsImage::default()
        };
        let text = change("os", &OsChange::new(&from, &none));
        assert!(text.ends_with("  Packages:  not compared: x\n"), "{text}");
        assert!(
            text.contains("  Kernel:    6.1.0-27-amd64 -> none\n"),
            "{text}"
        );
    }

    #[test]
    fn an_image_is_printed_with_all_packages() {
        let one = image("6.1", &["b 2", "a-long-name 1"], &[("x", 1_000_000)]);
        let expected = "OS os:
  Version:   none
  Kernel:    6.1
  libostree: none
  systemd:   none
  kubelet:   none
  CRI-O:     none
  Size:      1 layers, 1.0 MB
  Packages:  2 of dpkg
    a-long-name 1 amd64
    b           2 amd64
";
        assert_eq!(content("os", &one), expected);
        let text = content("os", &OsImage::default());
        assert!(
            text.ends_with("Packages:  the image has no package database\n"),
            "{text}"
        );
    }
}
