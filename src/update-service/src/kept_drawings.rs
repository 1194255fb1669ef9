//! Drawings that are kept: those that were used last.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use release::Version;

use crate::body::PackedBody;
use crate::request::GraphForm;

/// Bytes of drawings that are kept, packed and unpacked: those that were made last. One of a large
/// channel has some 500 kB.
const KEPT_BYTES: usize = 8 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawingKey {
    pub channel: String,
    pub architecture: String,
    pub form: GraphForm,
    pub from: Option<Version>,
    /// Where it is to get.
    pub to: Option<Version>,
    /// Whether updates that follow from others are drawn, too.
    pub all: bool,
}

/// A drawing in both encodings.
#[derive(Clone, Debug)]
pub struct KeptDrawing {
    pub body: PackedBody,
    pub bytes: Bytes,
}

/// The drawings of one scrape, the last ones first.
#[derive(Debug, Default)]
pub struct KeptDrawings(Mutex<VecDeque<(DrawingKey, KeptDrawing)>>);

impl KeptDrawings {
    pub(crate) fn find(&self, key: &DrawingKey) -> Option<KeptDrawing> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = kept.iter().position(|(kept, _)| kept == key)?;
        let found = kept.remove(index)?;
        let drawing = found.1.clone();
        kept.push_front(found);
        Some(drawing)
    }

    pub(crate) fn keep(&self, key: DrawingKey, drawing: KeptDrawing) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front((key, drawing));
        let mut bytes = 0;
        let fits = |(_, drawing): &(DrawingKey, KeptDrawing)| {
            bytes += drawing.bytes.len() + drawing.body.gzip.len();
            bytes <= KEPT_BYTES
        };
        let count = kept.iter().map(fits).take_while(|fits| *fits).count();
        kept.truncate(count);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn key(from: &str, form: GraphForm) -> DrawingKey {
        DrawingKey {
            channel: "fast-1".to_owned(),
            architecture: "amd64".to_owned(),
            form,
            from: Some(from.parse().unwrap()),
            to: None,
            all: false,
        }
    }

    #[test]
    fn drawings_that_were_used_last_are_kept() {
        let kept = KeptDrawings::default();
        let drawing = KeptDrawing {
            body: PackedBody::new(b"", Vec::new()).unwrap(),
            bytes: vec![0; KEPT_BYTES / 3].into(),
        };
        let keys = ["1.0.0", "1.0.1", "1.0.2"].map(|from| key(from, GraphForm::Dot));
        kept.keep(keys[0].clone(), drawing.clone());
        kept.keep(keys[1].clone(), drawing.clone());
        assert!(kept.find(&keys[0]).is_some());
        kept.keep(keys[2].clone(), drawing);
        let found = keys.map(|key| kept.find(&key).is_some());
        assert_eq!(found, [true, false, true]);
        let large = KeptDrawing {
            body: PackedBody::new(b"", Vec::new()).unwrap(),
            bytes: vec![0; KEPT_BYTES].into(),
        };
        kept.keep(key("1.0.3", GraphForm::Dot), large);
        assert!(kept.find(&key("1.0.3", GraphForm::Dot)).is_none());
    }
}
