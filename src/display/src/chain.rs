//! An error with its causes.

use std::error::Error;
use std::fmt;

/// Displays an error and the chain of its sources, joined by `: `.
///
/// A cause whose text the line already has is left out: some libraries print their source in their
/// own message.
///
/// ```
/// # use display::Chain;
/// let error = std::io::Error::other("no route to host");
/// assert_eq!(Chain(&error).to_string(), "no route to host");
/// ```
#[derive(Clone, Copy)]
pub struct Chain<'a>(pub &'a (dyn Error + 'a));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chain = self.0.to_string();
        let mut next = self.0.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            if !chain.contains(&text) {
                chain.push_str(": ");
                chain.push_str(&text);
            }
            next = cause.source();
        }
        f.write_str(&chain)
    }
}

impl fmt::Debug for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Layer {
        #[error("cannot read {path}")]
        Quiet {
            path: &'static str,
            source: std::io::Error,
        },
        #[error("request failed: {source}")]
        Repeats { source: std::io::Error },
        #[error("cannot start")]
        Outer { source: Box<Self> },
    }

    #[test]
    fn walks_the_whole_chain() {
        let error = Layer::Outer {
            source: Box::new(Layer::Quiet {
                path: "/etc/x",
                source: std::io::Error::other("denied"),
            }),
        };
        assert_eq!(
            Chain(&error).to_string(),
            "cannot start: cannot read /etc/x: denied"
        );
    }

    #[test]
    fn a_cause_already_said_is_not_said_again() {
        let error = Layer::Repeats {
            source: std::io::Error::other("denied"),
        };
        assert_eq!(Chain(&error).to_string(), "request failed: denied");
    }
}
