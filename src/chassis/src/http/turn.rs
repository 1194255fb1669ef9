//! Whether a connection has a request under way, from its headers to the last byte of its response.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::sync::Notify;

/// What a connection without a request under way waits for, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// It has sent no whole request since it was accepted.
    Silent(Instant),
    /// It may send another request since the last response was written.
    Idle(Instant),
}

/// What one connection does. Its clones are one.
#[derive(Debug, Clone)]
pub(super) struct Turn(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Called when the connection waits again.
    freed: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    under_way: usize,
    waiting: Waiting,
}

impl Turn {
    /// Of a connection that has just been accepted.
    pub(super) fn new(freed: Arc<Notify>) -> Self {
        let state = Mutex::new(State {
            under_way: 0,
            waiting: Waiting::Silent(Instant::now()),
        });
        Self(Arc::new(Shared { state, freed }))
    }

    /// What it waits for; nothing while it has a request under way.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        let state = self.state();
        (state.under_way == 0).then_some(state.waiting)
    }

    /// A request has come. It is under way until the value and its clones are gone.
    pub(super) fn begin(&self) -> Arc<UnderWay> {
        self.state().under_way += 1;
        Arc::new(UnderWay(self.clone()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(super) struct UnderWay(Turn);

impl Drop for UnderWay {
    fn drop(&mut self) {
        {
            let mut state = self.0.state();
            state.under_way -= 1;
            state.waiting = Waiting::Idle(Instant::now());
        }
        self.0.0.freed.notify_one();
    }
}

/// A body whose request is under way until its bytes are written, and not only taken over: a client
/// that reads slowly is still being served.
pub(super) struct ServedBody<B> {
    body: Pin<Box<B>>,
    under_way: Arc<UnderWay>,
}

impl<B> ServedBody<B> {
    pub(super) fn new(body: B, under_way: Arc<UnderWay>) -> Self {
        Self {
            body: Box::pin(body),
            under_way,
        }
    }
}

impl<B: HttpBody<Data = Bytes>> HttpBody for ServedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(self.body.as_mut().poll_frame(context));
        let keep = |bytes| {
            Bytes::from_owner(Part {
                bytes,
                _under_way: Arc::clone(&self.under_way),
            })
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(keep))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes of a response that are not written yet.
struct Part {
    bytes: Bytes,
    _under_way: Arc<UnderWay>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_waits_before_its_first_request_and_after_each_response() {
        let turn = Turn::new(Arc::default());
        assert!(matches!(turn.waiting(), Some(Waiting::Silent(_))));
        let first = turn.begin();
        let part = Bytes::from_owner(Part {
            bytes: Bytes::from_static(b"a"),
            _under_way: Arc::clone(&first),
        });
        assert_eq!(turn.waiting(), None);
        drop(first);
        assert_eq!(turn.waiting(), None);
        drop(part);
        assert!(matches!(turn.waiting(), Some(Waiting::Idle(_))));
    }
}
