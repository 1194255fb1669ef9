//! Reading of fields that may be written as `null`.

use serde::{Deserialize, Deserializer};

/// Reads `null` as the type's default. With `#[serde(default)]` an absent field reads the same.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
