//! A bare client of the Chrome DevTools Protocol, apart from the service's own: calls, and events in order.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_util::task::TaskTracker;

use crate::process::Failure;

const CALL_LIMIT: Duration = Duration::from_secs(30);
const MAX_MESSAGE_BYTES: usize = 64 << 20;

struct Order {
    id: u64,
    text: String,
    /// None where nobody waits for the answer.
    reply: Option<oneshot::Sender<Result<Value, String>>>,
}

/// An open connection; clones share it.
#[derive(Clone)]
pub struct Cdp {
    orders: mpsc::UnboundedSender<Order>,
    next_id: Arc<AtomicU64>,
}

impl Cdp {
    /// Speaks WebSocket over a stream. Every `Fetch.requestPaused` is continued at once.
    pub async fn over<S>(stream: S, url: &str) -> Result<Self, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let (socket, _) = tokio_tungstenite::client_async_with_config(url, stream, Some(config)).await?;
        let (orders, queue) = mpsc::unbounded_channel();
        let cdp = Self { orders, next_id: Arc::new(AtomicU64::new(1)) };
        let weak = (cdp.orders.downgrade(), Arc::clone(&cdp.next_id));
        let _task = TaskTracker::new().spawn(pump(socket, queue, weak.0, weak.1));
        Ok(cdp)
    }

    pub async fn call(&self, session: Option<&str>, method: &str, params: Value) -> Result<Value, Failure> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        let order = Order { id, text: frame(id, session, method, &params), reply: Some(reply) };
        self.orders.send(order).map_err(|_| "the connection is closed")?;
        let answer = tokio::time::timeout(CALL_LIMIT, answer).await;
        let answer = answer.map_err(|_| format!("no answer to {method}"))?.map_err(|_| "the connection closed")?;
        answer.map_err(|error| format!("{method}: {error}").into())
    }
}

fn frame(id: u64, session: Option<&str>, method: &str, params: &Value) -> String {
    match session {
        Some(session) => json!({ "id": id, "method": method, "params": params, "sessionId": session }).to_string(),
        None => json!({ "id": id, "method": method, "params": params }).to_string(),
    }
}

/// Owns the socket until it closes or nobody holds the connection any more.
async fn pump<S>(
    mut socket: WebSocketStream<S>,
    mut queue: mpsc::UnboundedReceiver<Order>,
    orders: mpsc::WeakUnboundedSender<Order>,
    next_id: Arc<AtomicU64>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut waiting = HashMap::new();
    loop {
        tokio::select! {
            order = queue.recv() => {
                let Some(order) = order else { return };
                if let Some(reply) = order.reply {
                    waiting.insert(order.id, reply);
                }
                if socket.send(Message::text(order.text)).await.is_err() {
                    return;
                }
            }
            message = socket.next() => {
                let Some(Ok(message)) = message else { return };
                let Message::Text(text) = message else { continue };
                let Ok(mut incoming) = serde_json::from_str::<Value>(text.as_str()) else { return };
                if let Some(id) = incoming["id"].as_u64() {
                    if let Some(reply) = waiting.remove(&id) {
                        let _ = reply.send(match incoming.get("error") {
                            Some(error) => Err(error.to_string()),
                            None => Ok(incoming["result"].take()),
                        });
                    }
                } else if incoming["method"] == "Fetch.requestPaused" && let Some(orders) = orders.upgrade() {
                    let id = next_id.fetch_add(1, Ordering::Relaxed);
                    let params = json!({ "requestId": incoming["params"]["requestId"] });
                    let text = frame(id, incoming["sessionId"].as_str(), "Fetch.continueRequest", &params);
                    let _ = orders.send(Order { id, text, reply: None });
                }
            }
        }
    }
}
