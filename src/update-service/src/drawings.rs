//! Channels drawn for people: made off the threads that answer, one at a time, and kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use release::Version;
use release::update_graph::UpdateGraph;
use tokio::sync::Semaphore;
use update_graph::drawing::layout::DrawingRequest;
use update_graph::drawing::page::ChannelPage;
use update_graph::drawing::{Drawing, dot, svg};

use crate::answers::{Answer, Answers};
use crate::request::{GraphForm, ServiceError};

/// Drawings that are made at once: each may take a processor for a second, and clusters ask for
/// JSON meanwhile.
const AT_ONCE: usize = 1;

/// Bytes of drawings that are kept, packed and unpacked: those that were made last. One of a large
/// channel has some 500 kB.
const KEPT_BYTES: usize = 8 << 20;

/// Which drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawingKey {
    /// The channel.
    pub channel: String,
    /// Its architecture.
    pub architecture: String,
    /// A form for people.
    pub form: GraphForm,
    /// The release that runs.
    pub from: Option<Version>,
    /// Where it is to get.
    pub to: Option<Version>,
    /// Whether updates that follow from others are drawn, too.
    pub all: bool,
}

/// A drawing in both encodings.
#[derive(Clone, Debug)]
pub struct KeptDrawing {
    /// Packed.
    pub answer: Answer,
    /// Unpacked.
    pub bytes: Bytes,
}

/// The drawings of one set of answers, the last ones first.
#[derive(Debug, Default)]
pub struct KeptDrawings(Mutex<VecDeque<(DrawingKey, KeptDrawing)>>);

/// The place where drawings are made.
#[derive(Debug)]
pub struct DrawingBoard {
    pub(crate) turns: Arc<Semaphore>,
}

impl Default for DrawingBoard {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }
}

impl DrawingBoard {
    /// A drawing that was kept, or a new one.
    ///
    /// # Errors
    /// [`ServiceError::Busy`] while another one is made.
    pub async fn draw(
        &self,
        answers: &Arc<Answers>,
        key: DrawingKey,
    ) -> Result<KeptDrawing, ServiceError> {
        if let Some(kept) = answers.drawings.find(&key) {
            return Ok(kept);
        }
        let turn = Arc::clone(&self.turns).try_acquire_owned();
        let turn = turn.map_err(|_| ServiceError::Busy)?;
        let answers = Arc::clone(answers);
        let work = move || {
            let made = key.draw(&answers);
            if let Ok(made) = &made {
                answers.drawings.keep(key, made.clone());
            }
            // Also where the client is gone already: the work goes on to its end.
            drop(turn);
            made
        };
        let internal = |error: &dyn std::fmt::Display| ServiceError::Internal(error.to_string());
        let made = tokio::task::spawn_blocking(work).await;
        let made = made.map_err(|error| internal(&error))?;
        made.map_err(|error| internal(&error))
    }
}

impl KeptDrawings {
    fn find(&self, key: &DrawingKey) -> Option<KeptDrawing> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = kept.iter().position(|(known, _)| known == key)?;
        let found = kept.remove(index)?;
        let drawing = found.1.clone();
        kept.push_front(found);
        Some(drawing)
    }

    fn keep(&self, key: DrawingKey, drawing: KeptDrawing) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front((key, drawing));
        let mut bytes = 0;
        let fits = |(_, drawing): &(DrawingKey, KeptDrawing)| {
            bytes += drawing.bytes.len() + drawing.answer.gzip.len();
            bytes <= KEPT_BYTES
        };
        let count = kept.iter().map(fits).take_while(|fits| *fits).count();
        kept.truncate(count);
    }
}

impl DrawingKey {
    fn draw(&self, answers: &Answers) -> std::io::Result<KeptDrawing> {
        let answer = answers.graph(&self.channel, &self.architecture);
        let bytes = answers.unpacked(answer)?;
        let graph = UpdateGraph::parse(&bytes).map_err(std::io::Error::other)?;
        let request = DrawingRequest {
            from: self.from.clone(),
            to: self.to.clone(),
            all: self.all,
        };
        let drawing = || Drawing::new(&graph, &answer.silenced, &request);
        let text = match self.form {
            GraphForm::Svg => svg::svg(&drawing()),
            GraphForm::Dot => dot::dot(&drawing()),
            GraphForm::Page | GraphForm::Vendor | GraphForm::Json => ChannelPage {
                channel: &self.channel,
                architecture: &self.architecture,
                channels: &answers.channels,
                graph: &graph,
                silenced: &answer.silenced,
                request: &request,
            }
            .html(),
        };
        Ok(KeptDrawing {
            answer: Answer::new(text.as_bytes(), Vec::new())?,
            bytes: text.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::tests::answers;

    fn key(from: &str, form: GraphForm) -> DrawingKey {
        DrawingKey {
            channel: "fast-1".to_owned(),
            architecture: "amd64".to_owned(),
            form,
            from: Some(from.parse().unwrap()),
            to: None,
            all: false,
        }
    }

    #[tokio::test]
    async fn one_drawing_is_made_at_a_time_and_kept_ones_need_no_turn() {
        let (board, answers) = (DrawingBoard::default(), Arc::new(answers()));
        let page = key("1.0.0", GraphForm::Page);
        let made = board.draw(&answers, page.clone()).await.unwrap();
        assert_eq!(made.answer.unpack().unwrap(), made.bytes);
        let turn = board.turns.acquire().await.unwrap();
        let kept = board.draw(&answers, page.clone()).await.unwrap();
        assert_eq!(kept.answer.tag, made.answer.tag);
        for other in [
            key("1.0.1", GraphForm::Page),
            key("1.0.0", GraphForm::Svg),
            DrawingKey {
                all: true,
                ..page.clone()
            },
            DrawingKey {
                to: page.from.clone(),
                ..page.clone()
            },
            DrawingKey {
                architecture: "arm64".to_owned(),
                ..page
            },
        ] {
            let refused = board.draw(&answers, other.clone()).await.err();
            assert_eq!(refused, Some(ServiceError::Busy), "{other:?}");
        }
        drop(turn);
        let other = key("1.0.1", GraphForm::Page);
        let other = board.draw(&answers, other).await.unwrap();
        assert_ne!(other.answer.tag, made.answer.tag);
    }

    #[test]
    fn drawings_that_were_used_last_are_kept() {
        let kept = KeptDrawings::default();
        let drawing = KeptDrawing {
            answer: Answer::new(b"", Vec::new()).unwrap(),
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
            answer: Answer::new(b"", Vec::new()).unwrap(),
            bytes: vec![0; KEPT_BYTES].into(),
        };
        kept.keep(key("1.0.3", GraphForm::Dot), large);
        assert!(kept.find(&key("1.0.3", GraphForm::Dot)).is_none());
    }
}
