//! The Chrome DevTools Protocol over one WebSocket: framing, call ids, deadlines. Nothing about pages.
//!
//! One [`Connection`] is one task that owns the socket. Commands go in through an unbounded channel and are matched to
//! their answers by id; events leave through an unbounded channel of their own in the order of the wire, so a paused
//! request can never be lost to a slow reader. A call that is dropped, timed out or cancelled takes its entry along.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chromiumoxide::types::Command;
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message, protocol::WebSocketConfig};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::deadline::Deadline;

/// How long a close of the socket may take before the task gives up on it.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// A call over the protocol did not give a result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CdpError {
    #[error("could not reach the engine's DevTools endpoint: {0}")]
    Connect(String),
    #[error("the engine closed the DevTools connection")]
    Closed,
    #[error("the engine did not answer {method} in time")]
    TimedOut { method: String },
    #[error("the engine refused {method}: {message} ({code})")]
    Refused { method: String, code: i64, message: String },
    #[error("the engine's answer to {method} was not understood: {reason}")]
    Malformed { method: String, reason: String },
}

/// What the reader of a connection's events gets.
#[derive(Debug)]
pub enum Notice {
    Event(Event),
    /// All that came before this was asked for has been read: see [`Connection::events_read`].
    Read(oneshot::Sender<()>),
}

/// A message that answers no call.
#[derive(Debug, Clone)]
pub struct Event {
    pub method: String,
    /// The target session that it belongs to; none for the browser itself.
    pub session: Option<String>,
    pub params: Value,
}

/// What the socket carries in.
#[derive(Deserialize)]
struct Incoming {
    id: Option<u64>,
    method: Option<String>,
    #[serde(rename = "sessionId")]
    session: Option<String>,
    #[serde(default)]
    params: Value,
    result: Option<Value>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    code: i64,
    #[serde(default)]
    message: String,
}

type Answer = Result<Value, (i64, String)>;
/// The calls that wait for an answer, by id.
type Waiting = HashMap<u64, oneshot::Sender<Answer>>;

enum Order {
    Send { id: u64, text: String, reply: Option<oneshot::Sender<Answer>> },
    Forget { id: u64 },
    Notify(oneshot::Sender<()>),
}

/// One open connection. Clones share it; when `cut` is called, or the last clone is dropped, the socket is dropped
/// without a closing handshake, because an engine stuck in a script notices only that.
#[derive(Clone)]
pub struct Connection {
    orders: mpsc::UnboundedSender<Order>,
    next_id: Arc<AtomicU64>,
    closed: CancellationToken,
}

impl Connection {
    /// Connects over a Unix socket. Events come out of the receiver until the connection ends.
    pub async fn open(
        socket: &Path,
        max_message_bytes: usize,
        tracker: &TaskTracker,
        deadline: Deadline,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Notice>), CdpError> {
        let config = WebSocketConfig::default()
            .max_message_size(Some(max_message_bytes))
            .max_frame_size(Some(max_message_bytes));
        let connect = async {
            let stream = UnixStream::connect(socket).await.map_err(|error| CdpError::Connect(error.to_string()))?;
            let request = "ws://localhost/".into_client_request().map_err(connect_error)?;
            let (socket, _) = tokio_tungstenite::client_async_with_config(request, stream, Some(config))
                .await
                .map_err(connect_error)?;
            Ok(socket)
        };
        let limit = deadline.min_after(HANDSHAKE_LIMIT);
        let socket = tokio::time::timeout_at(limit.at().into(), connect)
            .await
            .map_err(|_| CdpError::TimedOut { method: "the WebSocket handshake".to_owned() })??;
        Ok(Self::run(socket, tracker))
    }

    fn run<S>(socket: WebSocketStream<S>, tracker: &TaskTracker) -> (Self, mpsc::UnboundedReceiver<Notice>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (orders, order_queue) = mpsc::unbounded_channel();
        let (events, event_queue) = mpsc::unbounded_channel();
        let closed = CancellationToken::new();
        let connection = Self { orders, next_id: Arc::new(AtomicU64::new(1)), closed: closed.clone() };
        let _task = tracker.spawn(pump(socket, order_queue, events, closed));
        (connection, event_queue)
    }

    /// Sends a typed command and waits for its typed answer.
    pub async fn call<C: Command>(
        &self,
        session: Option<&str>,
        command: C,
        deadline: Deadline,
    ) -> Result<C::Response, CdpError> {
        let method = command.identifier().into_owned();
        let params = to_params(&method, &command)?;
        let result = self.call_raw(session, &method, params, deadline).await?;
        C::response_from_value(result).map_err(|error| CdpError::Malformed { method, reason: error.to_string() })
    }

    /// Sends a command that has no generated type, such as Lightpanda's own `LP.*`.
    pub async fn call_raw(
        &self,
        session: Option<&str>,
        method: &str,
        params: Value,
        deadline: Deadline,
    ) -> Result<Value, CdpError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        let order = Order::Send { id, text: frame(id, session, method, params), reply: Some(reply) };
        self.orders.send(order).map_err(|_| CdpError::Closed)?;
        let mut forget = Forget { connection: self, id: Some(id) };
        let answered = tokio::time::timeout_at(deadline.at().into(), answer).await;
        if answered.is_ok() {
            forget.id = None;
        }
        match answered {
            Err(_) => Err(CdpError::TimedOut { method: method.to_owned() }),
            Ok(Err(_)) => Err(CdpError::Closed),
            Ok(Ok(Ok(result))) => Ok(result),
            Ok(Ok(Err((code, message)))) => Err(CdpError::Refused { method: method.to_owned(), code, message }),
        }
    }

    /// Sends a typed command whose answer nobody needs.
    pub fn tell<C: Command>(&self, session: Option<&str>, command: &C) -> Result<(), CdpError> {
        let method = command.identifier().into_owned();
        let params = to_params(&method, command)?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let text = frame(id, session, &method, params);
        self.orders.send(Order::Send { id, text, reply: None }).map_err(|_| CdpError::Closed)
    }

    /// Waits until the reader of the events has dealt with all that came before now. An answer overtakes the events that
    /// came before it, since another task reads those.
    pub async fn events_read(&self, deadline: Deadline) {
        let (read, is_read) = oneshot::channel();
        if self.orders.send(Order::Notify(read)).is_ok() {
            // Without a reader there is nothing to wait for.
            let _ = tokio::time::timeout_at(deadline.at().into(), is_read).await;
        }
    }

    /// Drops the socket at once.
    pub fn cut(&self) {
        self.closed.cancel();
    }

    pub fn is_closed(&self) -> bool {
        self.closed.is_cancelled() || self.orders.is_closed()
    }
}

/// Takes a call's entry along when its future is dropped before the answer came.
struct Forget<'a> {
    connection: &'a Connection,
    /// None once the answer is there.
    id: Option<u64>,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // The task may be gone, and then so is the entry.
            let _ = self.connection.orders.send(Order::Forget { id });
        }
    }
}

fn connect_error(error: tungstenite::Error) -> CdpError {
    CdpError::Connect(error.to_string())
}

fn to_params<C: serde::Serialize>(method: &str, command: &C) -> Result<Value, CdpError> {
    serde_json::to_value(command)
        .map_err(|error| CdpError::Malformed { method: method.to_owned(), reason: error.to_string() })
}

fn frame(id: u64, session: Option<&str>, method: &str, params: Value) -> String {
    match session {
        Some(session) => json!({ "id": id, "method": method, "params": params, "sessionId": session }),
        None => json!({ "id": id, "method": method, "params": params }),
    }
    .to_string()
}

/// Owns the socket until it closes, is cut, or nobody holds the connection any more.
async fn pump<S>(
    mut socket: WebSocketStream<S>,
    mut orders: mpsc::UnboundedReceiver<Order>,
    events: mpsc::UnboundedSender<Notice>,
    closed: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut waiting: Waiting = HashMap::new();
    let mut outgoing = Vec::new();
    loop {
        tokio::select! {
            () = closed.cancelled() => break,
            order = orders.recv() => {
                let Some(order) = order else { break };
                take_orders(order, &mut orders, &mut waiting, &mut outgoing, &events);
                // A write that the engine does not take must not stop `cut` from working.
                let sent = tokio::select! {
                    () = closed.cancelled() => break,
                    sent = send_all(&mut socket, &mut outgoing) => sent,
                };
                if sent.is_err() { break; }
            }
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => deliver(text.as_str(), &mut waiting, &events),
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                Some(Ok(_)) => {}
            },
        }
    }
    closed.cancel();
}

/// Takes an order, and all that have come in meanwhile: what is sent together costs one write.
fn take_orders(
    first: Order,
    orders: &mut mpsc::UnboundedReceiver<Order>,
    waiting: &mut Waiting,
    outgoing: &mut Vec<String>,
    events: &mpsc::UnboundedSender<Notice>,
) {
    for order in std::iter::once(first).chain(std::iter::from_fn(|| orders.try_recv().ok())) {
        match order {
            Order::Forget { id } => drop(waiting.remove(&id)),
            // Without a reader there is nobody to wait for: the sender of the answer goes with it.
            Order::Notify(read) => drop(events.send(Notice::Read(read))),
            Order::Send { id, text, reply } => {
                waiting.extend(reply.map(|reply| (id, reply)));
                outgoing.push(text);
            }
        }
    }
}

async fn send_all<S>(socket: &mut WebSocketStream<S>, outgoing: &mut Vec<String>) -> Result<(), tungstenite::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if outgoing.is_empty() {
        return Ok(());
    }
    for text in outgoing.drain(..) {
        socket.feed(Message::text(text)).await?;
    }
    socket.flush().await
}

/// Hands an answer to its call and an event to the reader. What fits neither is counted and dropped.
fn deliver(text: &str, waiting: &mut Waiting, events: &mpsc::UnboundedSender<Notice>) {
    let Some(message) = decode::<Incoming>(text) else {
        metrics::counter!("pandarium_cdp_unreadable_messages_total").increment(1);
        return;
    };
    if let Some(method) = message.method {
        // Nobody reads events while a connection lies idle; the receiver is then gone, and so are they.
        let event = Event { method, session: message.session, params: message.params };
        let _ = events.send(Notice::Event(event));
        return;
    }
    let Some(reply) = message.id.and_then(|id| waiting.remove(&id)) else {
        metrics::counter!("pandarium_cdp_unmatched_answers_total").increment(1);
        return;
    };
    let answer = match message.error {
        Some(refusal) => Err((refusal.code, refusal.message)),
        None => Ok(message.result.unwrap_or(Value::Null)),
    };
    // The caller may have left in this very moment.
    let _ = reply.send(answer);
}

/// JSON of an engine.
pub(super) fn decode<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&replace_lone_surrogates(text)).ok())
}

/// Engines pass on half a surrogate pair as it is (`\ud83d` alone), which is not Unicode and which `serde_json`
/// refuses. Browsers show U+FFFD for it.
fn replace_lone_surrogates(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        out.push_str(plain);
        let taken = match (surrogate(escape), escape.get(6..).and_then(surrogate)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(_), _) => {
                out.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            // Any other escape is two bytes here; the digits of a `\u` follow as plain text.
            (None, _) => escape.char_indices().nth(2).map_or(escape.len(), |(index, _)| index),
        };
        out.push_str(&escape[..taken]);
        rest = &escape[taken..];
    }
    out.push_str(rest);
    out
}

/// The code unit of a `\uXXXX` at the start of the text, if it is a surrogate.
fn surrogate(escape: &str) -> Option<u32> {
    let digits = escape.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok().filter(|unit| (0xD800..=0xDFFF).contains(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_surrogate_pair_becomes_the_replacement_character() {
        for (given, wanted) in [
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""a\ude00b""#, "a\u{fffd}b"),
            (r#""\ud83d\ude00""#, "😀"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""é\n\ud83dé""#, "é\n\u{fffd}é"),
        ] {
            let text: String = serde_json::from_str(&replace_lone_surrogates(given)).unwrap();
            assert_eq!(text, wanted, "{given}");
        }
    }

    #[test]
    fn a_frame_with_half_a_pair_still_answers_its_call() {
        let (reply, mut answer) = oneshot::channel();
        let (events, _kept) = mpsc::unbounded_channel();
        let mut waiting = HashMap::from([(7, reply)]);
        deliver(r#"{"id":7,"result":{"value":"x\ud83d"}}"#, &mut waiting, &events);
        assert_eq!(answer.try_recv().unwrap().unwrap(), json!({ "value": "x\u{fffd}" }));
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_foreign_or_late_answer_reaches_no_call() {
        let (reply, mut answer) = oneshot::channel();
        let (events, _kept) = mpsc::unbounded_channel();
        let mut waiting = HashMap::from([(7, reply)]);
        for text in [r#"{"id":8,"result":{}}"#, r#"{"result":{}}"#, "not json", r#"{"id":"7","result":{}}"#] {
            deliver(text, &mut waiting, &events);
        }
        assert!(answer.try_recv().is_err());
        assert_eq!(waiting.len(), 1);
    }
}
