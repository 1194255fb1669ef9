//! A program, and what it needs to run: read from its ELF headers.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use image_builder::Architecture;
use object::LittleEndian;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _};

type Header = FileHeader64<LittleEndian>;

/// A built program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) bytes: Vec<u8>,
    pub(crate) architecture: Architecture,
    /// Debian's packages of the libraries that it needs, with the least version of each.
    pub(crate) libraries: BTreeMap<&'static str, LibraryVersion>,
}

/// Numbers of a version, compared one by one.
pub(crate) type LibraryVersion = Vec<u32>;

impl Program {
    /// Reads a program.
    ///
    /// # Errors
    /// The file is absent, no ELF file, of another architecture, not stripped, or needs an
    /// unexpected library.
    pub(crate) fn read(path: &Path, architecture: Architecture) -> anyhow::Result<Self> {
        let shown = path.display();
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
        ensure!(bytes.starts_with(b"\x7fELF"), "{shown} is no ELF program");
        let header = Header::parse(&*bytes);
        let header = header.with_context(|| format!("{shown} is no ELF program of 64 bits"))?;
        let machine = header.e_machine.get(LittleEndian);
        ensure!(
            machine == architecture.machine(),
            "{shown} is not for {}: its ELF machine is {machine}, not {}",
            architecture.name(),
            architecture.machine()
        );
        let libraries = libraries(header, &bytes).with_context(|| shown.to_string())?;
        Ok(Self {
            bytes,
            architecture,
            libraries,
        })
    }
}

/// Libraries by package; a program without a dynamic section has none.
fn libraries(
    header: &Header,
    data: &[u8],
) -> anyhow::Result<BTreeMap<&'static str, LibraryVersion>> {
    let sections = header.sections(LittleEndian, data)?;
    let symbols = sections.section_by_name(LittleEndian, b".symtab");
    ensure!(symbols.is_none(), "is not stripped");
    let mut all = BTreeMap::new();
    if let Some((entries, strings)) = sections.dynamic(LittleEndian, data)? {
        let strings = sections.strings(LittleEndian, data, strings)?;
        for entry in entries {
            if entry.d_tag(LittleEndian) == DT_NEEDED {
                let library = entry.string(LittleEndian, strings)?;
                let library = std::str::from_utf8(library)?;
                all.entry(package(library)?).or_default();
            }
        }
    }
    let Some((mut needs, strings)) = sections.gnu_verneed(LittleEndian, data)? else {
        return Ok(all);
    };
    let strings = sections.strings(LittleEndian, data, strings)?;
    while let Some((need, mut symbols)) = needs.next()? {
        let library = std::str::from_utf8(need.file(LittleEndian, strings)?)?;
        let least: &mut LibraryVersion = all.entry(package(library)?).or_default();
        while let Some(symbol) = symbols.next()? {
            let symbol = std::str::from_utf8(symbol.name(LittleEndian, strings)?)?;
            let version = version(symbol).with_context(|| {
                format!("{library}: version {symbol:?} of a symbol has no form")
            })?;
            if version > *least {
                *least = version;
            }
        }
    }
    Ok(all)
}

/// Debian's package of a library.
fn package(library: &str) -> anyhow::Result<&'static str> {
    Ok(match library {
        "libc.so.6"
        | "libm.so.6"
        | "libdl.so.2"
        | "libpthread.so.0"
        | "librt.so.1"
        | "ld-linux-x86-64.so.2"
        | "ld-linux-aarch64.so.1" => "libc6",
        "libgcc_s.so.1" => "libgcc-s1",
        _ => bail!("needs {library}: no package of this library is set"),
    })
}

/// The version of a library that first had symbols of this version: `GLIBC_2.34`, `GCC_4.2.0`.
fn version(symbol: &str) -> Option<LibraryVersion> {
    let numbers = (symbol.strip_prefix("GLIBC_")).or_else(|| symbol.strip_prefix("GCC_"))?;
    let numbers = numbers.split('.').map(str::parse);
    let mut numbers: LibraryVersion = numbers.collect::<Result<_, _>>().ok()?;
    // dpkg sorts 4.2 before 4.2.0, which is the same version of the library.
    while numbers.len() > 1 && numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_symbols_compare_by_number() {
        for (symbol, expected) in [
            ("GLIBC_2.2.5", Some(vec![2, 2, 5])),
            ("GLIBC_2.34", Some(vec![2, 34])),
            ("GCC_4.2.0", Some(vec![4, 2])),
            ("GLIBC_PRIVATE", None),
            ("OPENSSL_3.0.0", None),
        ] {
            assert_eq!(version(symbol), expected, "{symbol}");
        }
        assert!(version("GLIBC_2.34") > version("GLIBC_2.4"));
    }

    #[test]
    fn unexpected_libraries_are_named() {
        let error = package("libssl.so.3").unwrap_err().to_string();
        assert!(error.contains("libssl.so.3"), "{error}");
    }
}
