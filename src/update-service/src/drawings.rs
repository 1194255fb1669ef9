//! Channels drawn for people: drawn off the threads that serve, one at a time, and kept.

use std::sync::Arc;

use release::update_graph::UpdateGraph;
use tokio::sync::Semaphore;
use update_graph::drawing::layout::DrawingRequest;
use update_graph::drawing::page::ChannelPage;
use update_graph::drawing::{Drawing, dot, svg};

use crate::body::PackedBody;
use crate::kept_drawings::{DrawingKey, KeptDrawing};
use crate::request::{GraphForm, ServiceError};
use crate::responses::GraphResponses;

/// Drawings that are made at once: each may take a processor for a second, and clusters ask for
/// JSON meanwhile.
const AT_ONCE: usize = 1;

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
        responses: &Arc<GraphResponses>,
        key: DrawingKey,
    ) -> Result<KeptDrawing, ServiceError> {
        if let Some(kept) = responses.drawings.find(&key) {
            return Ok(kept);
        }
        let turn = Arc::clone(&self.turns).try_acquire_owned();
        let turn = turn.map_err(|_| ServiceError::Busy)?;
        let responses = Arc::clone(responses);
        let work = move || {
            let made = draw(&key, &responses);
            if let Ok(made) = &made {
                responses.drawings.keep(key, made.clone());
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

/// Draws a channel of `responses` in the form that the key names.
fn draw(key: &DrawingKey, responses: &GraphResponses) -> std::io::Result<KeptDrawing> {
    let body = responses.graph(&key.channel, &key.architecture);
    let bytes = responses.unpacked(body)?;
    let graph = UpdateGraph::parse(&bytes).map_err(std::io::Error::other)?;
    let request = DrawingRequest {
        from: key.from.clone(),
        to: key.to.clone(),
        all: key.all,
    };
    let drawing = || Drawing::new(&graph, &body.silenced, &request);
    let text = match key.form {
        GraphForm::Svg => svg::svg(&drawing()),
        GraphForm::Dot => dot::dot(&drawing()),
        GraphForm::Page | GraphForm::Vendor | GraphForm::Json => ChannelPage {
            channel: &key.channel,
            architecture: &key.architecture,
            channels: &responses.channels,
            graph: &graph,
            silenced: &body.silenced,
            request: &request,
        }
        .html(),
    };
    Ok(KeptDrawing {
        body: PackedBody::new(text.as_bytes(), Vec::new())?,
        bytes: text.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept_drawings::tests::key;
    use crate::responses::tests::responses;

    #[tokio::test]
    async fn one_drawing_is_made_at_a_time_and_kept_ones_need_no_turn() {
        let (board, responses) = (DrawingBoard::default(), Arc::new(responses()));
        let page = key("1.0.0", GraphForm::Page);
        let made = board.draw(&responses, page.clone()).await.unwrap();
        assert_eq!(made.body.unpack().unwrap(), made.bytes);
        let turn = board.turns.acquire().await.unwrap();
        let kept = board.draw(&responses, page.clone()).await.unwrap();
        assert_eq!(kept.body.tag, made.body.tag);
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
            let refused = board.draw(&responses, other.clone()).await.err();
            assert_eq!(refused, Some(ServiceError::Busy), "{other:?}");
        }
        drop(turn);
        let other = key("1.0.1", GraphForm::Page);
        let other = board.draw(&responses, other).await.unwrap();
        assert_ne!(other.body.tag, made.body.tag);
    }
}
