//! How fast nodes fetch before their turn.

use std::num::NonZeroU64;

use api::{IntOrString, quantity};

use super::{InvalidPolicy, PolicyFault};

/// The slowest limit, in bytes a second: what one pipe of the kernel holds. Below it a registry
/// cannot send for so long at a time that it, or a proxy, takes the node for gone and disconnects.
const SLOWEST: u64 = 64 << 10;

/// Reads a limit. A number that is too large for one limits nothing.
pub(super) fn parse(written: &IntOrString) -> Result<NonZeroU64, InvalidPolicy> {
    let invalid = |fault| InvalidPolicy {
        field: "spec.prefetchBytesPerSecond".to_owned(),
        fault,
    };
    let bytes = match written {
        IntOrString::Int(number) => Some(i128::from(*number)),
        IntOrString::String(text) => quantity::bytes(text),
    };
    let bytes = bytes.ok_or_else(|| invalid(PolicyFault::NoBytes(written.clone())))?;
    let bytes = u64::try_from(bytes.max(0)).unwrap_or(u64::MAX);
    let limit = NonZeroU64::new(bytes).filter(|limit| limit.get() >= SLOWEST);
    limit.ok_or_else(|| invalid(PolicyFault::TooSlow(written.clone())))
}
