//! The page for people, as Chromium draws it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::interface::service;

/// The program of Debian's package `chromium-headless-shell`.
const CHROMIUM: &str = "chromium-headless-shell";

const SIZE: (u32, u32) = (720, 760);

/// Fontconfig's settings with the fonts of Debian's package `fonts-dejavu-core` alone. Any other
/// font of the machine would change the page.
const FONTS: &str = r#"<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir>/usr/share/fonts/truetype/dejavu</dir>
  <include>/etc/fonts/conf.d</include>
</fontconfig>
"#;

/// A channel of a pixel that differs by less is the same: font renderers round differently.
const TOLERANCE: u8 = 16;

/// One of so many pixels may differ.
const MAY_DIFFER: usize = 100;

/// A picture in RGB or RGBA, a row after the other.
#[derive(Debug)]
struct Picture {
    width: u32,
    height: u32,
    /// Bytes of a pixel.
    depth: usize,
    bytes: Vec<u8>,
}

impl Picture {
    fn read(path: &Path) -> Result<Self> {
        let file =
            std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut decoder = png::Decoder::new(std::io::BufReader::new(file));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info()?;
        let size = reader.output_buffer_size().context("picture too large")?;
        let mut bytes = vec![0; size];
        let frame = reader.next_frame(&mut bytes)?;
        bytes.truncate(frame.buffer_size());
        Ok(Self {
            width: frame.width,
            height: frame.height,
            depth: frame.color_type.samples(),
            bytes,
        })
    }

    /// Number of pixels that differ.
    fn different(&self, other: &Self) -> Result<usize> {
        ensure!(
            (self.width, self.height) == (other.width, other.height),
            "{}x{}, not {}x{}",
            self.width,
            self.height,
            other.width,
            other.height
        );
        let pixels = |picture: &Self| {
            picture
                .bytes
                .chunks(picture.depth)
                .map(<[u8]>::to_vec)
                .collect::<Vec<_>>()
        };
        let (own, others) = (pixels(self), pixels(other));
        // The depth of transparency, where there is one, is the same all over.
        let differ = |one: &[u8], other: &[u8]| {
            let mut channels = one.iter().zip(other).take(3);
            channels.any(|(one, other)| one.abs_diff(*other) > TOLERANCE)
        };
        let pairs = own.iter().zip(&others);
        Ok(pairs.filter(|(one, other)| differ(one, other)).count())
    }

    fn is_like(&self, other: &Self) -> Result<bool> {
        let all = usize::try_from(self.width)? * usize::try_from(self.height)?;
        Ok(self.different(other)? * MAY_DIFFER <= all)
    }
}

fn draw(url: &str, to: &Path) -> Result<Picture> {
    let home = tempfile::tempdir()?;
    let fonts = home.path().join("fonts.conf");
    std::fs::write(&fonts, FONTS)?;
    let (width, height) = SIZE;
    let drawn = Command::new(CHROMIUM)
        .env("FONTCONFIG_FILE", &fonts)
        .args([
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-proxy-server",
        ])
        .arg("--force-device-scale-factor=1")
        .arg(format!("--user-data-dir={}", home.path().display()))
        .arg(format!("--window-size={width},{height}"))
        .arg(format!("--screenshot={}", to.display()))
        .arg(url)
        .output()
        .with_context(|| format!("cannot run {CHROMIUM}"))?;
    let said = String::from_utf8_lossy(&drawn.stderr);
    ensure!(drawn.status.success(), "{CHROMIUM}: {said}");
    Picture::read(to).with_context(|| said.into_owned())
}

#[test]
#[ignore = "needs root and Chromium"]
fn the_page_looks_as_it_should() {
    let (service, _directory) = service("picture", "");
    service.ready().unwrap();
    let logs = testbed::logs::folder("update-service", "picture");
    let logs = logs.canonicalize().unwrap();
    let url = |query: &str| format!("http://{}/graph?{query}", service.address);
    let page = draw(&url("channel=fast-1&from=1.0.0"), &logs.join("page.png")).unwrap();
    let committed = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("flow/update_service/page.png");
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::copy(logs.join("page.png"), &committed).unwrap();
    }
    let expected = Picture::read(&committed).unwrap();
    let differ = page.different(&expected).unwrap();
    assert!(
        page.is_like(&expected).unwrap(),
        "{differ} pixels of {} differ from {}",
        logs.join("page.png").display(),
        committed.display()
    );
    // The comparison tells pages apart.
    let other = draw(&url("channel=fast-1&from=1.0.1"), &logs.join("other.png")).unwrap();
    assert!(!other.is_like(&expected).unwrap());
}
