//! `blocked-edges/*.yaml`: updates that are taken out of the graph, or that a risk is attached to.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use release::Version;
use release::update_graph::{RiskRule, UpdateRisk};
use serde_json::Value;

use crate::channel_file::first_line;
use crate::problem::{SourceProblem, chain};
use crate::yaml::yaml;

/// Folder of blocked edges.
pub const BLOCKED_EDGES: &str = "blocked-edges/";

/// Bytes that a compiled expression may take. The real ones are short.
const REGEX_BYTES: usize = 1 << 20;

/// Keys of a file that blocks silently; with these alone it has no risk.
const SILENT: [&str; 2] = ["from", "to"];

#[derive(Clone, Debug)]
pub struct BlockedEdge {
    /// The file, below the repository.
    pub file: String,
    /// The release that must not be reached: of all architectures, or of the one that its build
    /// metadata names.
    pub to: Version,
    /// From which releases: searched in the version with its architecture.
    pub from: Arc<Regex>,
    /// The risk, if the update is not blocked silently.
    pub risk: Option<UpdateRisk>,
    /// The first release without the risk.
    pub fixed_in: Option<String>,
}

/// Compiled expressions by text: a thousand files share a hundred of them.
#[derive(Debug, Default)]
pub(crate) struct Expressions(BTreeMap<String, Arc<Regex>>);

impl Expressions {
    fn compile(&mut self, text: &str) -> Result<Arc<Regex>, regex::Error> {
        if let Some(parsed) = self.0.get(text) {
            return Ok(Arc::clone(parsed));
        }
        let compiled = RegexBuilder::new(text).size_limit(REGEX_BYTES).build()?;
        let compiled = Arc::new(compiled);
        self.0.insert(text.to_owned(), Arc::clone(&compiled));
        Ok(compiled)
    }
}

impl BlockedEdge {
    /// Reads a file.
    ///
    /// # Errors
    /// What makes the file useless. What only breaks a rule of curators is listed instead.
    pub(crate) fn parse(
        file: &str,
        bytes: &[u8],
        expressions: &mut Expressions,
        problems: &mut Vec<SourceProblem>,
    ) -> Result<Self, SourceProblem> {
        let wire: BTreeMap<String, Value> = yaml(file, bytes)?;
        let failed = |field: &str, reason: String| {
            SourceProblem::new(file, field, format!("{reason}; the file is left out"))
        };
        let text = |field: &str| {
            let value = wire
                .get(field)
                .ok_or_else(|| failed(field, "it is missing".to_owned()))?;
            let text = value.as_str();
            text.ok_or_else(|| failed(field, format!("{value} is no text")))
        };
        let to: Version = text("to")?
            .parse()
            .map_err(|error| failed("to", chain(&error)))?;
        let from = expressions
            .compile(text("from")?)
            .map_err(|error| failed("from", first_line(&error)))?;
        let is_silent = wire.keys().all(|key| SILENT.contains(&key.as_str()));
        let risk = if is_silent {
            None
        } else {
            let rules = wire.get("matchingRules").and_then(Value::as_array);
            let rules = rules.ok_or_else(|| failed("matchingRules", "it is no list".to_owned()))?;
            let rules = rules.iter().enumerate().map(|(index, rule)| {
                let field = format!("matchingRules[{index}]");
                rule_of(rule).map_err(|error| failed(&field, error.to_string()))
            });
            let risk = UpdateRisk {
                url: text("url")?.to_owned(),
                name: text("name")?.to_owned(),
                message: text("message")?.to_owned(),
                rules: rules.collect::<Result<_, _>>()?,
            };
            Some(risk)
        };
        let edge = Self {
            file: file.to_owned(),
            to,
            from,
            risk,
            fixed_in: wire
                .get("fixedIn")
                .and_then(Value::as_str)
                .map(str::to_owned),
        };
        problems.extend(edge.broken_rules());
        Ok(edge)
    }

    /// Rules of curators that the file breaks. It counts all the same: leaving it out would allow
    /// the update.
    fn broken_rules(&self) -> Vec<SourceProblem> {
        let mut broken = Vec::new();
        let Some(risk) = &self.risk else {
            return broken;
        };
        let problem =
            |field: &str, reason: String| SourceProblem::new(self.file.as_str(), field, reason);
        let name = self.file.rsplit('/').next().unwrap_or_default();
        let rules = [
            (
                "to",
                name.starts_with(&self.to.to_string()),
                format!("the file's name does not begin with {}", self.to),
            ),
            (
                "url",
                risk.url.starts_with("https://"),
                format!("{:?} does not begin with https://", risk.url),
            ),
            (
                "name",
                is_risk_name(&risk.name),
                format!("{:?} does not match ^[A-Z][A-Za-z0-9_]*$", risk.name),
            ),
        ];
        for (field, is_kept, reason) in rules {
            if !is_kept {
                broken.push(problem(field, reason).into_remark());
            }
        }
        let mut add = |field: &str, reason: &str| broken.push(problem(field, reason.to_owned()));
        if risk.message.trim().is_empty() {
            add("message", "it is empty");
        }
        let count = |is: fn(&RiskRule) -> bool| risk.rules.iter().filter(|rule| is(rule)).count();
        let always = count(|rule| matches!(rule, RiskRule::Always));
        let queries = count(|rule| matches!(rule, RiskRule::PromQl(_)));
        if risk.rules.is_empty() {
            add("matchingRules", "it is empty: clients drop the update");
        }
        if always > 1 || queries > 1 {
            add("matchingRules", "a type is there twice");
        }
        broken
    }

    /// Whether the file is about this release, which has its architecture.
    pub fn is_about(&self, version: &Version) -> bool {
        self.to == *version || self.to == version.without_architecture()
    }
}

/// Why a rule cannot be followed.
#[derive(Debug, thiserror::Error)]
enum RuleError {
    #[error("promql is set for type Always")]
    QueryOfAlways,
    #[error("promql.promql is empty")]
    NoQuery,
    #[error("type {0:?} is neither Always nor PromQL")]
    UnknownType(String),
    #[error("type is missing")]
    NoType,
}

fn rule_of(rule: &Value) -> Result<RiskRule, RuleError> {
    let promql = rule.get("promql");
    match rule.get("type").and_then(Value::as_str) {
        Some("Always") if promql.is_none() => Ok(RiskRule::Always),
        Some("Always") => Err(RuleError::QueryOfAlways),
        Some("PromQL") => {
            let query = promql.and_then(|promql| promql.get("promql"));
            let query = query
                .and_then(Value::as_str)
                .filter(|query| !query.is_empty());
            let query = query.ok_or(RuleError::NoQuery)?;
            Ok(RiskRule::PromQl(query.to_owned()))
        }
        Some(other) => Err(RuleError::UnknownType(other.to_owned())),
        None => Err(RuleError::NoType),
    }
}

fn is_risk_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && text
            .chars()
            .all(|one| one.is_ascii_alphanumeric() || one == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Result<BlockedEdge, SourceProblem>, Vec<String>) {
        let mut problems = Vec::new();
        let file = "blocked-edges/4.1.0-A.yaml";
        let edge = BlockedEdge::parse(
            file,
            text.as_bytes(),
            &mut Expressions::default(),
            &mut problems,
        );
        let named = |problem: SourceProblem| {
            let mark = if problem.is_remark { " remark" } else { "" };
            format!("{}{mark}", problem.field)
        };
        (edge, problems.into_iter().map(named).collect())
    }

    #[test]
    fn the_keys_tell_a_silent_block_from_a_risk() {
        assert!(parse("to: 4.1.0\nfrom: .*\n").0.unwrap().risk.is_none());
        let risk = "to: 4.1.0\nfrom: .*\nurl: https://a\nname: A\nmessage: m\nmatchingRules: [{type: Always}]\n";
        assert!(parse(risk).0.unwrap().risk.is_some());
        assert_eq!(
            parse("to: 4.1.0\nfrom: .*\nname: A\n").0.unwrap_err().field,
            "matchingRules"
        );
    }

    #[test]
    fn an_unusable_file_names_its_field() {
        for (text, field) in [
            ("to: four\nfrom: .*\n", "to"),
            ("from: .*\n", "to"),
            ("to: 4.1.0\nfrom: '('\n", "from"),
            ("to: 4.1.0\nfrom: '(?=a)'\n", "from"),
            ("to: 4.1.0\nfrom: [a]\n", "from"),
            ("- a\n", ""),
            (
                "to: 4.1.0\nfrom: a\nurl: u\nname: A\nmessage: m\nmatchingRules: [{type: X}]\n",
                "matchingRules[0]",
            ),
        ] {
            assert_eq!(parse(text).0.unwrap_err().field, field, "{text}");
        }
    }

    #[test]
    fn a_broken_rule_of_curators_is_listed_and_the_block_counts() {
        let text = "to: 4.1.1\nfrom: .*\nurl: http://a\nname: a b\nmessage: m\nmatchingRules: [{type: Always}, {type: Always}]\n";
        let (edge, problems) = parse(text);
        assert!(edge.unwrap().risk.is_some());
        let expected = ["to remark", "url remark", "name remark", "matchingRules"];
        assert_eq!(problems, expected);
        // Names of files are a rule for risks.
        assert_eq!(parse("to: 4.1.1\nfrom: .*\n").1, [""; 0]);
    }
}
