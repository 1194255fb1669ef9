//! Upgrades on a date.
//!
//! - [`request`]: what is changed, or why it is refused
//! - [`view`]: plan and status

pub(crate) mod request;
pub(crate) mod view;
