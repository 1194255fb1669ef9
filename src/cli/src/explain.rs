//! `slipway explain`: what each reason, condition, phase, event and alert means, and what to do.
//!
//! - `alerts`, `control_plane_only`, `image_mode`, `node`, `pool`, `release`, `stop`, `upgrade`,
//!   `server`: the words, by where they are shown

mod alerts;
mod control_plane_only;
mod image_mode;
mod node;
mod pool;
mod release;
mod server;
mod stop;
mod upgrade;

use anyhow::bail;
use clap::Args;
use serde::Serialize;

use crate::decide::blocks::columns;
use crate::failure::Ending;
use crate::output::{ViewForm, show};

/// `slipway explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A reason, condition, phase, event, annotation or alert; case does not count [default: list
    /// all]
    #[arg(value_name = "REASON")]
    pub words: Vec<String>,
    /// Form
    #[arg(long, short = 'o', value_name = "FORM")]
    pub output: Option<ViewForm>,
}

/// What a word means where it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The word; `<…>` stands for text that differs.
    pub word: &'static str,
    pub place: &'static str,
    pub meaning: &'static str,
    /// What a person does about it.
    pub action: &'static str,
}

const fn of(
    word: &'static str,
    place: &'static str,
    meaning: &'static str,
    action: &'static str,
) -> Explanation {
    Explanation {
        word,
        place,
        meaning,
        action,
    }
}

/// All explanations, by where their words are shown.
pub fn all() -> impl Iterator<Item = &'static Explanation> {
    [
        node::WORDS,
        pool::WORDS,
        image_mode::WORDS,
        control_plane_only::WORDS,
        release::WORDS,
        upgrade::WORDS,
        stop::WORDS,
        server::WORDS,
        alerts::WORDS,
    ]
    .into_iter()
    .flatten()
}

/// The explanations of a word, as it is shown: exact ones; else those whose `<…>` stands for what
/// differs.
pub fn find(word: &str) -> Vec<&'static Explanation> {
    let exact: Vec<_> = all()
        .filter(|it| it.word.eq_ignore_ascii_case(word))
        .collect();
    if !exact.is_empty() {
        return exact;
    }
    all().filter(|it| is_form_of(it.word, word)).collect()
}

/// Whether a word has the form of one with `<…>`, which stands for at least one character.
fn is_form_of(form: &str, word: &str) -> bool {
    let word = word.to_lowercase();
    let form = form.to_lowercase();
    let Some((before, rest)) = form.split_once('<') else {
        return false;
    };
    let Some((_, after)) = rest.split_once('>') else {
        return false;
    };
    word.len() > before.len() + after.len() && word.starts_with(before) && word.ends_with(after)
}

/// Words that have the text in them, or that it has in it.
fn near(text: &str) -> Vec<&'static str> {
    let text = text.to_lowercase();
    let mut near: Vec<&str> = all()
        .map(|it| it.word)
        .filter(|word| {
            let word = word.to_lowercase();
            word.contains(&text) || text.contains(&word)
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near
}

pub(crate) fn run(arguments: &ExplainArgs) -> anyhow::Result<Ending> {
    let word = arguments.words.join(" ");
    let word = word.trim();
    if word.is_empty() {
        let words: Vec<&Explanation> = all().collect();
        show(arguments.output, &words, || list(&words))?;
        return Ok(Ending::Done);
    }
    let found = find(word);
    if found.is_empty() {
        match near(word).as_slice() {
            [] => bail!("{word:?} is no word of Slipway: `slipway explain` lists all"),
            near => bail!(
                "{word:?} is no word of Slipway; it is like {}",
                near.join(", ")
            ),
        }
    }
    show(arguments.output, &found, || text(&found))?;
    Ok(Ending::Done)
}

fn text(found: &[&Explanation]) -> String {
    let blocks: Vec<String> = found
        .iter()
        .map(|one| {
            format!(
                "{}: {}\n  {}\n  To do: {}\n",
                one.word, one.place, one.meaning, one.action
            )
        })
        .collect();
    blocks.join("\n")
}

fn list(words: &[&Explanation]) -> String {
    let mut rows = vec![vec!["WORD".to_owned(), "SHOWN AS".to_owned()]];
    rows.extend(
        words
            .iter()
            .map(|one| vec![one.word.to_owned(), one.place.to_owned()]),
    );
    columns(0, 3, 0, &rows)
}

#[cfg(test)]
mod tests;
