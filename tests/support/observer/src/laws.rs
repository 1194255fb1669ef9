//! Laws: what must hold, whatever happens. A law is a value in the table of its storey; a new
//! storey is a module with a table, and a line of [`STOREYS`].
//!
//! - [`node`]: what an update does to a node
//! - [`pool`]: what a rollout does to its pool
//! - [`requests`]: what the programs ask of the API server

pub mod node;
pub mod pool;
pub mod requests;

use std::fmt;

use crate::run::Run;

/// A sentence that must hold, and how a run is judged by it.
#[derive(Clone, Copy)]
pub struct Law {
    /// Names its mutant and its recorded history.
    pub name: &'static str,
    /// Names it in a failure.
    pub sentence: &'static str,
    /// Where it did not hold, for people.
    judge: fn(&Run<'_>) -> Vec<String>,
}

/// Tables of laws, in the order in which a run is judged.
pub const STOREYS: [&[&Law]; 3] = [node::LAWS, pool::LAWS, requests::LAWS];

/// All laws.
pub fn all() -> impl Iterator<Item = &'static Law> {
    STOREYS.into_iter().flatten().copied()
}

impl Law {
    /// Judges a run. An empty list is a pass.
    pub(crate) fn judge(&'static self, run: &Run<'_>) -> Vec<Breach> {
        let found = (self.judge)(run).into_iter();
        found.map(|what| Breach { law: self, what }).collect()
    }
}

impl PartialEq for Law {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Law {}

impl fmt::Debug for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A law that did not hold, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which.
    pub law: &'static Law,
    /// What happened, for people.
    pub what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "law broken: {}: {}", self.law.sentence, self.what)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_law_has_a_name_and_a_sentence_of_its_own() {
        for of in [|law: &Law| law.name, |law: &Law| law.sentence] {
            let texts: BTreeSet<_> = all().map(of).collect();
            assert_eq!(texts.len(), all().count());
        }
    }
}
