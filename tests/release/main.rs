//! Releases: made of images, signed, read again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod upstream;
