//! How far a running job is, read from what its commands printed.

/// What a job's output is read as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Meter {
    /// Nothing is counted.
    #[default]
    Lines,
    /// Cargo's progress bar.
    Cargo,
    /// `go build -v` after a line `N packages`.
    Go,
    /// Debian packages that are unpacked and set up.
    Debian,
    /// Tests of libtest.
    Tests,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Units that are done.
    pub(crate) done: u32,
    /// Units in all; none where the output does not have the number.
    pub(crate) all: Option<u32>,
    /// What is under way.
    pub(crate) what: String,
}

impl Meter {
    /// Reads the output so far; none where it shows nothing yet.
    pub(crate) fn read(self, text: &str) -> Option<Progress> {
        match self {
            Self::Lines => {
                let what = pieces(text).last()?.to_owned();
                Some(Progress {
                    what,
                    ..Progress::default()
                })
            }
            Self::Cargo => cargo(text),
            Self::Go => go(text),
            Self::Debian => debian(text),
            Self::Tests => tests(text),
        }
    }
}

/// Lines, and what a carriage return ends, from which a bar is drawn again; none is empty.
fn pieces(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    let pieces = text.split(['\n', '\r']).map(str::trim);
    pieces.filter(|piece| !piece.is_empty())
}

/// What is not drawn again: lines for a person who looks for an error.
pub(crate) fn lasting(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| line.rsplit('\r').next());
    let lines = lines.map(|line| line.trim_start_matches("\u{1b}[K"));
    lines.filter(|line| !line.trim().is_empty()).collect()
}

/// `Building [====>    ] 12/460: serde, tokio(build)`
fn cargo(text: &str) -> Option<Progress> {
    for piece in pieces(text).rev() {
        let bar = piece.split_once("] ").and_then(|(head, rest)| {
            head.starts_with("Building [").then_some(rest)?;
            let (numbers, what) = rest.split_once(": ").unwrap_or((rest, ""));
            let (done, all) = numbers.trim().split_once('/')?;
            Some(Progress {
                done: done.parse().ok()?,
                all: Some(all.parse().ok()?),
                what: what.to_owned(),
            })
        });
        if bar.is_some() {
            return bar;
        }
    }
    // Before the first bar, packages are downloaded.
    let last = pieces(text).next_back()?;
    Some(Progress {
        what: last.to_owned(),
        ..Progress::default()
    })
}

fn go(text: &str) -> Option<Progress> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let mut last = None;
    let mut all = None;
    for line in lines.by_ref() {
        if let Some(count) = line.strip_suffix(" packages") {
            all = count.parse().ok();
            break;
        }
        last = Some(line);
    }
    let mut done = 0;
    // A message of the compiler has spaces, the path of a package has none.
    for line in lines.filter(|line| !line.contains(' ')) {
        done += 1;
        last = Some(line);
    }
    Some(Progress {
        done,
        all,
        what: last?.to_owned(),
    })
}

fn debian(text: &str) -> Option<Progress> {
    const STEPS: [&str; 4] = [
        "I: Extracting ",
        "I: Unpacking ",
        "Unpacking ",
        "Setting up ",
    ];
    let is_step = |line: &&str| STEPS.iter().any(|step| line.starts_with(step));
    Some(Progress {
        done: u32::try_from(text.lines().filter(is_step).count()).ok()?,
        all: None,
        what: pieces(text).next_back()?.to_owned(),
    })
}

fn tests(text: &str) -> Option<Progress> {
    let of = |line: &str| {
        line.strip_prefix("running ")?
            .split(' ')
            .next()?
            .parse()
            .ok()
    };
    let all = text.lines().find_map(of)?;
    // A test that runs has its line already, without a result.
    let line = |line: &str| line.strip_prefix("test ")?.split_once(" ... ").map(owned);
    let lines: Vec<_> = text.lines().filter_map(line).collect();
    let done = lines
        .iter()
        .filter(|(_, result)| !result.is_empty())
        .count();
    Some(Progress {
        done: u32::try_from(done).ok()?,
        all: Some(all),
        what: lines
            .last()
            .map_or_else(String::new, |(name, _)| name.clone()),
    })
}

fn owned((name, result): (&str, &str)) -> (String, String) {
    (name.to_owned(), result.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(done: u32, all: Option<u32>, what: &str) -> Progress {
        Progress {
            done,
            all,
            what: what.to_owned(),
        }
    }

    #[test]
    fn the_last_bar_of_cargo_counts() {
        let text = " Downloading crates ...\n  Downloaded serde v1\n   Compiling serde v1\n    \
            Building [=>   ] 1/460: serde\r    Building [===> ] 312/460: kube-client, tokio(build)\r";
        assert_eq!(
            Meter::Cargo.read(text),
            Some(progress(312, Some(460), "kube-client, tokio(build)"))
        );
        let mixed = format!("{text}\nwarning: unused variable [E1] 3/4: no bar\n");
        assert_eq!(Meter::Cargo.read(&mixed).unwrap().done, 312);
    }

    #[test]
    fn before_the_first_bar_downloads_are_shown() {
        let text = " Downloading crates ...\n  Downloaded serde v1.0\n";
        assert_eq!(
            Meter::Cargo.read(text),
            Some(progress(0, None, "Downloaded serde v1.0"))
        );
        assert_eq!(Meter::Cargo.read(""), None);
    }

    #[test]
    fn packages_of_go_are_counted_after_their_number() {
        let text = "go: downloading k8s.io/api v0.36\n1834 packages\nfmt\nk8s.io/api/core/v1\n\
            # k8s.io/api/core/v1\nx.go:1: a message\n";
        assert_eq!(
            Meter::Go.read(text),
            Some(progress(2, Some(1834), "k8s.io/api/core/v1"))
        );
        let early = "go: downloading k8s.io/api v0.36\n";
        let shown = "go: downloading k8s.io/api v0.36";
        assert_eq!(Meter::Go.read(early), Some(progress(0, None, shown)));
    }

    #[test]
    fn packages_of_debian_are_counted_when_unpacked_and_when_set_up() {
        let text = "tree: debootstrap bookworm\nI: Retrieving dpkg 1.21\nI: Extracting dpkg...\n\
            tree: packages\nUnpacking dracut (1) ...\nSetting up dracut (1) ...\n";
        assert_eq!(
            Meter::Debian.read(text),
            Some(progress(3, None, "Setting up dracut (1) ..."))
        );
    }

    #[test]
    fn results_of_tests_are_counted() {
        let text = "running 3 tests\ntest a::b ... ok\ntest c ... FAILED\n";
        assert_eq!(Meter::Tests.read(text), Some(progress(2, Some(3), "c")));
        let running = "running 1 test\ntest c ... ";
        assert_eq!(Meter::Tests.read(running), Some(progress(0, Some(1), "c")));
        assert_eq!(Meter::Tests.read("booting\n"), None);
    }

    #[test]
    fn bars_are_no_lasting_lines() {
        let text =
            "   Building [> ] 1/2: a\r   Building [=>] 2/2: b\r\u{1b}[Kerror: no\n\nnote: x\n";
        assert_eq!(lasting(text), ["error: no", "note: x"]);
    }
}
