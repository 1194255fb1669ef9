//! The status file of dpkg: a paragraph for each package, fields as in a control file.
//!
//! Source: `dpkg-query(1)`, field `Status`; deb822(5). Distroless images have a file for each
//! package in `status.d` instead, and these paragraphs have no `Status`.

use crate::package::OsPackage;

/// Whether paragraphs have a field `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusField {
    /// A package without it is not taken for installed.
    Required,
    /// What is there is installed: a file of `status.d`.
    Absent,
}

/// Why a status file cannot be read. Lines count from 1.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DpkgError {
    #[error("line {line}: it is neither a field nor the rest of one")]
    NoField { line: usize },
    #[error("line {line}: the paragraph has no field Package")]
    NoName {
        /// Where the paragraph begins.
        line: usize,
    },
    #[error("package {name}: it has no field {field}")]
    MissingField { name: String, field: &'static str },
}

/// States of a package whose files are all in place. The last two wait for triggers of others.
const INSTALLED: [&str; 3] = ["installed", "triggers-awaited", "triggers-pending"];

/// Reads the packages that are installed; others, such as those of which only settings are left,
/// are passed over.
///
/// Shape: `Status` has three words, what is wanted, an error flag and the state; a package on hold
/// is installed, too.
///
/// # Errors
/// [`DpkgError`], with the first one.
pub fn installed(text: &[u8], status: StatusField) -> Result<Vec<OsPackage>, DpkgError> {
    // Only names of people are of other encodings, and they are not read.
    let text = String::from_utf8_lossy(text);
    let mut packages = Vec::new();
    let mut paragraph = Paragraph::default();
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() {
            packages.extend(std::mem::take(&mut paragraph).package(status)?);
        } else if !text.starts_with([' ', '\t']) {
            let (name, value) = text.split_once(':').ok_or(DpkgError::NoField { line })?;
            paragraph.take(line, name, value.trim());
        } else if paragraph.line == 0 {
            return Err(DpkgError::NoField { line });
        }
    }
    packages.extend(paragraph.package(status)?);
    Ok(packages)
}

/// The fields that are read.
#[derive(Debug, Default)]
struct Paragraph {
    /// Where it begins; 0 while it is empty.
    line: usize,
    package: String,
    status: Option<String>,
    version: String,
    architecture: String,
}

impl Paragraph {
    fn take(&mut self, line: usize, name: &str, value: &str) {
        if self.line == 0 {
            self.line = line;
        }
        let value = value.to_owned();
        match name.to_ascii_lowercase().as_str() {
            "package" => self.package = value,
            "status" => self.status = Some(value),
            "version" => self.version = value,
            "architecture" => self.architecture = value,
            _ => {}
        }
    }

    fn package(self, status: StatusField) -> Result<Option<OsPackage>, DpkgError> {
        if self.line == 0 {
            return Ok(None);
        }
        if self.package.is_empty() {
            return Err(DpkgError::NoName { line: self.line });
        }
        let is_installed = match (status, &self.status) {
            (StatusField::Absent, None) => true,
            (StatusField::Required, None) => {
                return Err(DpkgError::MissingField {
                    name: self.package,
                    field: "Status",
                });
            }
            (StatusField::Absent | StatusField::Required, Some(text)) => {
                let state = text.split_whitespace().nth(2);
                state.is_some_and(|state| INSTALLED.contains(&state))
            }
        };
        if !is_installed {
            return Ok(None);
        }
        for (field, value) in [
            ("Version", &self.version),
            ("Architecture", &self.architecture),
        ] {
            if value.is_empty() {
                return Err(DpkgError::MissingField {
                    name: self.package,
                    field,
                });
            }
        }
        Ok(Some(OsPackage {
            name: self.package,
            version: self.version,
            architecture: self.architecture,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, status: StatusField) -> Result<Vec<String>, DpkgError> {
        let packages = installed(text.as_bytes(), status)?;
        let line = |it: OsPackage| format!("{} {} {}", it.name, it.version, it.architecture);
        Ok(packages.into_iter().map(line).collect())
    }

    fn paragraph(name: &str, status: &str) -> String {
        format!(
            "Package: {name}\nStatus: {status}\nMaintainer: x\nArchitecture: amd64\nConffiles:\n \
             /etc/a 1\nVersion: 1:2.0-3+b1\nDescription: a\n .\n Version: of the text\n"
        )
    }

    #[test]
    fn what_is_installed_is_read() {
        for (status, is_there) in [
            ("install ok installed", true),
            ("hold ok installed", true),
            ("install ok triggers-pending", true),
            ("install ok triggers-awaited", true),
            ("deinstall ok config-files", false),
            ("install ok half-configured", false),
            ("install reinstreq half-installed", false),
            ("install ok unpacked", false),
            ("install ok", false),
            ("", false),
        ] {
            let expected: &[&str] = if is_there {
                &["a 1:2.0-3+b1 amd64"]
            } else {
                &[]
            };
            let read = read(&paragraph("a", status), StatusField::Required);
            assert_eq!(read.unwrap(), expected, "{status}");
        }
    }

    #[test]
    fn paragraphs_end_at_empty_lines() {
        let ok = "install ok installed";
        let text = format!(
            "\n\n{}\n\n \n{}",
            paragraph("a", ok),
            paragraph("b", ok).trim_end()
        );
        let read = read(&text, StatusField::Required).unwrap();
        assert_eq!(read, ["a 1:2.0-3+b1 amd64", "b 1:2.0-3+b1 amd64"]);
        let mut bytes = paragraph("a", ok).into_bytes();
        bytes.extend(b"Maintainer: M\xfcller\n");
        assert_eq!(installed(&bytes, StatusField::Required).unwrap().len(), 1);
        assert_eq!(installed(b"", StatusField::Required), Ok(vec![]));
    }

    #[test]
    fn a_file_of_one_package_needs_no_status() {
        let text = "Package: base-files\nVersion: 12.4\nArchitecture: all\n";
        let absent = read(text, StatusField::Absent).unwrap();
        assert_eq!(absent, ["base-files 12.4 all"]);
        let error = read(text, StatusField::Required).unwrap_err();
        assert_eq!(
            error.to_string(),
            "package base-files: it has no field Status"
        );
        let removed = paragraph("a", "deinstall ok config-files");
        assert!(read(&removed, StatusField::Absent).unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            (
                "Package a\n",
                "line 1: it is neither a field nor the rest of one",
            ),
            (
                " rest\n",
                "line 1: it is neither a field nor the rest of one",
            ),
            (
                "\nVersion: 1\n\n",
                "line 2: the paragraph has no field Package",
            ),
            (
                "Package: a\nStatus: install ok installed\nArchitecture: all\n",
                "package a: it has no field Version",
            ),
            (
                "Package: a\nStatus: install ok installed\nVersion: 1\n",
                "package a: it has no field Architecture",
            ),
        ] {
            let error = read(text, StatusField::Required).unwrap_err();
            assert_eq!(error.to_string(), expected, "{text}");
        }
    }
}
