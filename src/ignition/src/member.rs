//! Members of a printed configuration.

/// Whether a member holds nothing and is left out when printed.
pub(super) fn is_empty<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
