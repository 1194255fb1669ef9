//! Kernel arguments: split, changed, compared, measured.
//!
//! An argument is one `key` or `key=value`, with the quotes it was written with: `rpm-ostree`, the
//! boot entry and `/proc/cmdline` all show them. Order and repeats matter: `console=` may repeat,
//! and `hugepages=` belongs to the `hugepagesz=` before it.
//!
//! Source: MachineConfig `spec.kernelArguments`; kernel documentation, "kernel-parameters";
//! `docs/reference/daemon.md`, "OS image and kernel arguments" and "Verification".

use std::fmt;

/// Bytes the kernel reads, with the final NUL (`COMMAND_LINE_SIZE` on x86-64, the smallest of those
/// supported).
pub const COMMAND_LINE_SIZE: usize = 2048;

/// Why arguments cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A double quote that does not end.
    #[error("spec.kernelArguments[{index}]: open quote in {item}")]
    Quote {
        /// Place in the list.
        index: usize,
        /// The item, by its name.
        item: Item,
    },
    /// A line break or another character that a boot entry cannot hold.
    #[error("spec.kernelArguments[{index}]: control character in {item}")]
    Control {
        /// Place in the list.
        index: usize,
        /// The item, by its name.
        item: Item,
    },
}

/// An item of a list as messages show it: by its first name, because values hold passwords too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item(String);

impl Item {
    fn of(written: &str) -> Self {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let name = written.split_once('=').map_or("", |(name, _)| name.trim());
        Self(if name.chars().all(is_name) { name } else { "" }.to_owned())
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            "" => f.write_str("the item"),
            name => write!(f, "the item {name}=…"),
        }
    }
}

/// A command line has more than the kernel reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the command line would have {bytes} bytes, the kernel reads {}",
    COMMAND_LINE_SIZE - 1
)]
pub struct TooLong {
    /// Bytes of the whole command line.
    pub bytes: usize,
}

/// Splits the items of a list as the kernel splits a line: at white space, unless double quotes
/// group.
///
/// Shape: an item may hold several arguments; the result holds one each, quotes kept.
///
/// # Errors
/// [`Error::Quote`] for an open quote, [`Error::Control`] for a character that a boot entry cannot
/// hold.
pub fn split<S: AsRef<str>>(items: &[S]) -> Result<Vec<String>, Error> {
    let mut arguments = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let item = item.as_ref();
        if !item.matches('"').count().is_multiple_of(2) {
            return Err(Error::Quote {
                index,
                item: Item::of(item),
            });
        }
        // White space of any kind separates; within quotes it is part of an argument.
        if tokens(item).any(|word| word.contains(|c: char| c.is_control() && c != '\t')) {
            return Err(Error::Control {
                index,
                item: Item::of(item),
            });
        }
        arguments.extend(tokens(item));
    }
    Ok(arguments)
}

/// Splits a line that is what it is, such as `/proc/cmdline`: an open quote groups to the end, as
/// in the kernel.
pub fn split_line(line: &str) -> Vec<String> {
    tokens(line).collect()
}

/// An argument without what only groups its words. A boot loader that reads quotes rewrites them
/// for the kernel, around the whole argument: `a="b c"` comes as `"a=b c"`, which the kernel takes
/// for the same.
///
/// Source: `next_arg` of the kernel, `grub_create_loader_cmdline` of GRUB.
pub fn unquoted(argument: &str) -> String {
    argument.replace(['"', '\\'], "")
}

fn tokens(line: &str) -> impl Iterator<Item = String> {
    let mut quoted = false;
    line.split(move |c: char| {
        quoted ^= c == '"';
        c.is_whitespace() && !quoted
    })
    .filter(|word| !word.is_empty())
    .map(ToOwned::to_owned)
}

/// The arguments after a change: each of `delete` loses one occurrence, the last, if it has one;
/// then `append` follows, in order.
///
/// The last, because what a configuration brought was appended: an equal argument that came with
/// the OS stays where it is.
pub fn change(present: &[String], delete: &[String], append: &[String]) -> Vec<String> {
    let mut changed = present.to_vec();
    for argument in delete {
        if let Some(at) = changed.iter().rposition(|present| present == argument) {
            changed.remove(at);
        }
    }
    changed.extend_from_slice(append);
    changed
}

/// Those of `wanted` that are not there, or not as often as wanted; in order.
pub fn missing(wanted: &[String], actual: &[String]) -> Vec<String> {
    let mut left = actual.to_vec();
    let mut missing = Vec::new();
    for argument in wanted {
        match left.iter().position(|actual| actual == argument) {
            Some(at) => drop(left.swap_remove(at)),
            None => missing.push(argument.clone()),
        }
    }
    missing
}

/// Checks that the kernel reads the whole line.
///
/// # Errors
/// [`TooLong`] beyond [`COMMAND_LINE_SIZE`] with the final NUL.
pub fn check_length(arguments: &[String]) -> Result<(), TooLong> {
    let blanks = arguments.len().saturating_sub(1);
    let bytes = arguments.iter().map(String::len).sum::<usize>() + blanks;
    if bytes < COMMAND_LINE_SIZE {
        Ok(())
    } else {
        Err(TooLong { bytes })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn list(line: &str) -> Vec<String> {
        split_line(line)
    }

    #[test]
    fn white_space_splits_unless_quoted() {
        for (items, arguments) in [
            (vec!["nosmt"], vec!["nosmt"]),
            (vec!["a  b\tc", "d=e"], vec!["a", "b", "c", "d=e"]),
            (
                vec!["dyndbg=\"file a +p; b\" x"],
                vec!["dyndbg=\"file a +p; b\"", "x"],
            ),
            (vec!["\"a b\"=c"], vec!["\"a b\"=c"]),
            (vec!["", " "], vec![]),
            (
                vec!["hugepagesz=2M hugepages=4", "hugepagesz=1G hugepages=4"],
                vec![
                    "hugepagesz=2M",
                    "hugepages=4",
                    "hugepagesz=1G",
                    "hugepages=4",
                ],
            ),
        ] {
            assert_eq!(split(&items).unwrap(), arguments);
        }
    }

    #[test]
    fn what_no_boot_entry_can_hold_is_refused_by_its_place() {
        assert_eq!(
            split(&["a", "b=\"c"]).unwrap_err().to_string(),
            "spec.kernelArguments[1]: open quote in the item b=…"
        );
        assert_eq!(
            split(&["a\u{1}b"]).unwrap_err().to_string(),
            "spec.kernelArguments[0]: control character in the item"
        );
        for secret in [
            "a \"hunter2",
            "key=\"hunter2",
            "\"hunter2=x",
            "key=hunter2\u{1}",
        ] {
            let error = split(&[secret]).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        assert!(split(&["a=\"b\nc\""]).is_err(), "within quotes");
        assert_eq!(split(&["a\nb\r\n"]).unwrap(), ["a", "b"]);
    }

    #[test]
    fn an_argument_of_the_os_outlives_an_equal_one_of_the_configuration() {
        let present = list("root=x console=ttyS0 quiet console=ttyS0 nosmt");
        let changed = change(
            &present,
            &list("console=ttyS0 nosmt"),
            &list("mitigations=off"),
        );
        assert_eq!(changed, list("root=x console=ttyS0 quiet mitigations=off"));
    }

    #[test]
    fn deleting_what_is_not_there_changes_nothing() {
        assert_eq!(change(&list("a b"), &list("c"), &[]), list("a b"));
    }

    #[test]
    fn repeats_are_counted_and_order_is_not() {
        assert_eq!(missing(&list("b a a"), &list("a x b")), list("a"));
        assert_eq!(missing(&list("a b"), &list("b a a")), [""; 0]);
    }

    #[test]
    fn the_line_must_leave_room_for_its_end() {
        let longest = vec!["a".repeat(COMMAND_LINE_SIZE - 3), "b".to_owned()];
        assert_eq!(check_length(&longest), Ok(()));
        let one_more = vec!["a".repeat(COMMAND_LINE_SIZE - 3), "bc".to_owned()];
        assert_eq!(
            check_length(&one_more),
            Err(TooLong {
                bytes: COMMAND_LINE_SIZE
            })
        );
        assert_eq!(check_length(&[]), Ok(()));
    }

    fn arguments() -> impl Strategy<Value = Vec<String>> {
        let words = ["a", "b", "c=1", "c=2", "d=\"x y\"", "console=ttyS0"];
        vec(select(words.map(ToOwned::to_owned).to_vec()), 0..8)
    }

    proptest! {
        #[test]
        fn splitting_a_joined_line_gives_it_back(list in arguments()) {
            prop_assert_eq!(&split(&[list.join(" ")]).unwrap(), &list);
            prop_assert_eq!(&split_line(&list.join("  ")), &list);
        }

        #[test]
        fn what_is_appended_is_not_missing(
            present in arguments(), old in arguments(), new in arguments(),
        ) {
            prop_assert_eq!(missing(&new, &change(&present, &old, &new)), Vec::<String>::new());
        }

        #[test]
        fn a_change_is_undone_by_deleting_what_it_appended(
            present in arguments(), new in arguments(),
        ) {
            let changed = change(&present, &[], &new);
            prop_assert_eq!(change(&changed, &new, &[]), present);
        }

        #[test]
        fn changing_to_what_is_there_changes_nothing(
            present in arguments(), old in arguments(), new in arguments(),
        ) {
            let changed = change(&present, &old, &new);
            prop_assert_eq!(change(&changed, &new, &new), changed);
        }
    }
}
