//! Processors that images are made for.

use std::str::FromStr;

use anyhow::bail;
use images::image::Platform;

/// A processor, below Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Architecture {
    /// 64 bits of x86: what the lab runs.
    Amd64,
    /// 64 bits of Arm.
    Arm64,
}

impl Architecture {
    /// Its name in packages of Debian and in images, such as `amd64`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As Rust names the platform.
    pub const fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Its number in the headers of programs. Source: `elf.h`, `EM_X86_64` and `EM_AARCH64`.
    pub const fn machine(self) -> u16 {
        match self {
            Self::Amd64 => 62,
            Self::Arm64 => 183,
        }
    }

    /// Whether a file begins as a program for it.
    pub fn has_program(self, file: &[u8]) -> bool {
        let [low, high] = self.machine().to_le_bytes();
        file.starts_with(b"\x7fELF") && file.get(18..20) == Some([low, high].as_slice())
    }

    /// What stands in the configuration of its images.
    pub fn platform(self) -> Platform {
        Platform {
            os: "linux".to_owned(),
            architecture: self.name().to_owned(),
        }
    }
}

impl FromStr for Architecture {
    type Err = anyhow::Error;

    /// Reads a platform, such as `linux/arm64`.
    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text {
            "linux/amd64" => Ok(Self::Amd64),
            "linux/arm64" => Ok(Self::Arm64),
            _ => bail!("images are made for linux/amd64 and linux/arm64"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_are_known_by_name_and_by_their_programs() {
        for architecture in [Architecture::Amd64, Architecture::Arm64] {
            let platform = architecture.platform().to_string();
            assert_eq!(platform.parse::<Architecture>().unwrap(), architecture);
        }
        let mut header = *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0";
        assert!(Architecture::Amd64.has_program(&header));
        assert!(!Architecture::Arm64.has_program(&header));
        header[18] = 0xb7;
        assert!(Architecture::Arm64.has_program(&header));
        assert!(!Architecture::Arm64.has_program(&header[..19]));
        for other in ["", "amd64", "linux/s390x", "linux/arm64/v8"] {
            assert!(other.parse::<Architecture>().is_err(), "{other}");
        }
    }
}
