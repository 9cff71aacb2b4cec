//! One page over the protocol: what both engines are driven with.

use serde_json::{Value, json};

use crate::cdp::Cdp;
use crate::process::Failure;

/// What is taken from a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// The engine's own Markdown (Lightpanda).
    Markdown,
    Html,
    /// As [`Take::Html`], with every document request and response of the page paused and continued at once.
    GatedHtml,
}

/// Resolves to true when the late list is there, without polling; to false in the page before the navigation.
const LATE: &str = "new Promise((resolve) => {
  if (location.protocol === 'about:') { resolve(false); return; }
  const isLate = () => globalThis.isLate === true;
  if (isLate()) { resolve(true); return; }
  const observer = new MutationObserver(() => {
    queueMicrotask(() => { if (isLate()) { observer.disconnect(); resolve(true); } });
  });
  observer.observe(document, { childList: true, subtree: true });
})";

/// Loads the page in an attached target and takes its content once the late list is there.
pub async fn read(cdp: &Cdp, session: &str, url: &str, take: Take) -> Result<String, Failure> {
    let session = Some(session);
    let navigated = cdp.call(session, "Page.navigate", json!({ "url": url })).await?;
    if let Some(error) = navigated["errorText"].as_str().filter(|text| !text.is_empty()) {
        return Err(format!("{url}: {error}").into());
    }
    while !is_late(cdp, session).await? {}
    if take == Take::Markdown {
        let answer = cdp.call(session, "LP.getMarkdown", json!({})).await?;
        return text(&answer["markdown"]);
    }
    let expression = json!({ "expression": "document.documentElement.outerHTML", "returnByValue": true });
    let answer = cdp.call(session, "Runtime.evaluate", expression).await?;
    text(&answer["result"]["value"])
}

async fn is_late(cdp: &Cdp, session: Option<&str>) -> Result<bool, Failure> {
    let expression = json!({ "expression": LATE, "awaitPromise": true, "returnByValue": true });
    match cdp.call(session, "Runtime.evaluate", expression).await {
        Ok(answer) => Ok(answer["result"]["value"] == true),
        // The promise was made in the page that the navigation has left.
        Err(error) if error.to_string().contains("context was destroyed") => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a target and attaches to it: the ids of the target and of the session.
pub async fn open(cdp: &Cdp, context: Option<&str>, take: Take) -> Result<(String, String), Failure> {
    let mut params = json!({ "url": "about:blank" });
    if let Some(context) = context {
        params["browserContextId"] = context.into();
    }
    let target = text(&cdp.call(None, "Target.createTarget", params).await?["targetId"])?;
    let attach = json!({ "targetId": target, "flatten": true });
    let session = text(&cdp.call(None, "Target.attachToTarget", attach).await?["sessionId"])?;
    if take == Take::GatedHtml {
        let stages = ["Request", "Response"];
        let patterns = stages.map(|stage| json!({ "resourceType": "Document", "requestStage": stage }));
        cdp.call(Some(&session), "Fetch.enable", json!({ "patterns": patterns })).await?;
    }
    cdp.call(Some(&session), "Page.enable", json!({})).await?;
    Ok((target, session))
}

pub fn text(value: &Value) -> Result<String, Failure> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("expected a text, got {value}").into())
}
