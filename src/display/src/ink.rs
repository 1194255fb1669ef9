//! Colours of a terminal, by what they mean.

use crate::plain::plain;

/// Whether the reader's terminal shows colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Coloured,
    /// It is a file or a pipe.
    Plain,
}

/// What a piece of text means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing in particular.
    #[default]
    Plain,
    Strong,
    Soft,
    /// Something is under way, and harms nothing.
    Busy,
    /// Something is under way, and is felt.
    Away,
    Good,
    /// Something needs a person.
    Bad,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "\x1b[1m",
            Self::Soft => "\x1b[2m",
            Self::Busy => "\x1b[36m",
            Self::Away => "\x1b[33m",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
        }
    }
}

impl Ink {
    /// The text in a tone. What steers a terminal is [`plain`] in it: the tone alone does.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let text = plain(text);
        match (self, tone.code()) {
            (Self::Plain, _) | (_, "") => text.into_owned(),
            (Self::Coloured, code) => format!("{code}{text}\x1b[0m"),
        }
    }
}

/// The text without what [`Ink::paint`] puts into it.
pub fn strip(painted: &str) -> String {
    let mut parts = painted.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    let text = parts.map(|part| part.split_once('m').map_or(part, |(_, text)| text));
    text.fold(first, |all, text| all + text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn painted_text_is_the_text_when_stripped() {
        let painted = Ink::Coloured.paint(Tone::Bad, "red");
        assert_eq!(painted, "\x1b[31mred\x1b[0m");
        assert_eq!(strip(&format!("a {painted} m")), "a red m");
        for plain in [
            Ink::Plain.paint(Tone::Bad, "red"),
            Ink::Coloured.paint(Tone::Plain, "red"),
        ] {
            assert_eq!(plain, "red");
        }
        for ink in [Ink::Coloured, Ink::Plain] {
            let painted = ink.paint(Tone::Bad, "a\x1b[2Jb");
            assert_eq!(strip(&painted), "a\u{fffd}[2Jb");
        }
    }
}
