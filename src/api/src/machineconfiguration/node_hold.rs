//! A node that an administrator keeps out of the rollout.

use std::fmt;

use crate::line::one_line;

/// Value of [`super::annotation::HOLD`].
///
/// Shape: the reason, for people. An empty one holds the node too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeHold(pub String);

impl fmt::Display for NodeHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match one_line(&self.0).as_str() {
            "" => f.write_str("on hold, without a reason"),
            reason => write!(f, "on hold: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_said_on_one_line_and_so_is_its_absence() {
        for (reason, said) in [
            ("disk is being replaced", "on hold: disk is being replaced"),
            ("until\nMonday", "on hold: until Monday"),
            ("", "on hold, without a reason"),
            (" \n", "on hold, without a reason"),
        ] {
            assert_eq!(NodeHold(reason.to_owned()).to_string(), said);
        }
    }
}
