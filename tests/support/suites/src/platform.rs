//! What programs are built for.

use std::path::PathBuf;

use anyhow::Result;

use crate::workspace::Workspace;

/// A platform of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platform {
    /// That of this machine, of the lab and of releases.
    Amd64,
    /// Built by the compiler that `prebuilt cross` makes.
    Arm64,
}

/// How another platform than this machine's is built.
#[derive(Clone, Debug)]
pub(crate) struct Cross {
    /// As Rust names the platform.
    pub(crate) triple: &'static str,
    /// What the names of its C compiler and `strip` begin with.
    pub(crate) prefix: &'static str,
    /// Runs a program of the platform.
    pub(crate) emulator: &'static str,
    /// Folder that `prebuilt cross` makes.
    folder: PathBuf,
}

impl Platform {
    /// The platform that OCI gives this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "linux/amd64" => Some(Self::Amd64),
            "linux/arm64" => Some(Self::Arm64),
            _ => None,
        }
    }

    /// Folder of its stripped programs.
    pub(crate) fn programs(self, workspace: &Workspace) -> PathBuf {
        match self {
            Self::Amd64 => workspace.programs(),
            Self::Arm64 => workspace.root.join("target/slipway-arm64"),
        }
    }

    /// Cargo's target directory. Another compiler has its own: that of this machine's is kept below
    /// a size.
    pub(crate) fn built(self, workspace: &Workspace) -> PathBuf {
        match self {
            Self::Amd64 => workspace.built(),
            Self::Arm64 => workspace.cache.join("target-arm64"),
        }
    }

    /// How it is built; none where it is this machine's.
    ///
    /// # Errors
    ///
    /// Its compiler cannot be made.
    pub(crate) fn cross(self, workspace: &Workspace) -> Result<Option<Cross>> {
        if self == Self::Amd64 {
            return Ok(None);
        }
        let maker = workspace.built().join("debug/prebuilt");
        let folder = workspace.output(&maker.to_string_lossy(), &["cross"])?;
        Ok(Some(Cross {
            triple: "aarch64-unknown-linux-gnu",
            prefix: "aarch64-linux-gnu-",
            emulator: "qemu-aarch64-static",
            folder: folder.into(),
        }))
    }
}

impl Cross {
    /// Libraries and headers of the platform.
    pub(crate) fn sysroot(&self) -> String {
        self.folder.join("sysroot").display().to_string()
    }

    /// What cargo, the C compiler and pkg-config read of the environment. Flags of the compilers
    /// are not among them.
    pub(crate) fn environment(&self) -> [(String, String); 8] {
        let (sysroot, compiler) = (self.sysroot(), format!("{}gcc", self.prefix));
        let below = self.triple.replace('-', "_");
        let linker = format!("CARGO_TARGET_{}_LINKER", below.to_uppercase());
        let packages = format!("{sysroot}/usr/lib/aarch64-linux-gnu/pkgconfig");
        let rustc = self.folder.join("rustc").display().to_string();
        [
            ("RUSTC".to_owned(), rustc),
            ("CARGO_BUILD_TARGET".to_owned(), self.triple.to_owned()),
            (linker, compiler.clone()),
            (format!("CC_{below}"), compiler),
            ("PKG_CONFIG_ALLOW_CROSS".to_owned(), "1".to_owned()),
            ("PKG_CONFIG_SYSROOT_DIR".to_owned(), sysroot),
            ("PKG_CONFIG_LIBDIR".to_owned(), packages),
            ("PKG_CONFIG_PATH".to_owned(), String::new()),
        ]
    }
}
