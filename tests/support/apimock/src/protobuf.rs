//! What the API server sends in the protobuf form.
//!
//! Source: `generated.proto` of `k8s.io/apimachinery`; fields with a length are all that is needed.

/// A field with a length: a message, a text or bytes. Both numbers are small.
pub fn field(number: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 0x7f {
        bytes.push(lowest(length) | 0x80);
        length >>= 7;
    }
    bytes.push(lowest(length));
    bytes.extend_from_slice(content);
    bytes
}

const fn lowest(number: usize) -> u8 {
    let [byte, ..] = number.to_le_bytes();
    byte
}

/// The metadata of an object with this version.
pub fn versioned(version: &str) -> Vec<u8> {
    field(1, field(6, version))
}

/// An object with what is around each.
pub fn object(raw: &[u8]) -> Vec<u8> {
    [b"k8s\0".to_vec(), field(2, raw)].concat()
}

/// A page of a list.
pub fn list(version: &str, next: &str, items: &[&[u8]]) -> Vec<u8> {
    let metadata = [field(2, version), field(3, next)].concat();
    let items = items.iter().map(|item| field(2, item));
    let parts = std::iter::once(field(1, metadata)).chain(items);
    object(&parts.collect::<Vec<_>>().concat())
}

/// An event of a watch, in its frame.
pub fn event(kind: &str, raw: &[u8]) -> Vec<u8> {
    let event = [field(1, kind), field(2, field(1, object(raw)))].concat();
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
    [length.to_be_bytes().to_vec(), event].concat()
}
