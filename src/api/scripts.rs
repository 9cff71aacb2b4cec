//! `/v1/scripts`: trusted programs that drive an engine of their own.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::ApiState;
use super::extract::ApiJson;
use super::openapi::{ResponseMap, problem_responses};
use super::problem::{Code, Problem};
use crate::app::scripts::ScriptsError;
use crate::browser::script::{ConsoleLine, Ending, Finished, MAX_PRINTED_BYTES, Omitted, Script, Stop};
use crate::domain::deadline::Deadline;

const MAX_SCRIPT_BYTES: usize = 1024 * 1024;
const DEFAULT_OUTPUT_BYTES: usize = 1_000_000;
const MAX_OUTPUT_BYTES: usize = 10_000_000;

/// What a caller may leave out, and how far it may go.
#[derive(Debug, Clone)]
pub struct ScriptLimits {
    pub timeout: Duration,
    pub max_timeout: Duration,
}

/// A PandaScript.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "script": "const page = new Page();\nawait page.goto(\"https://example.com/\");\nreturn page.extract({ heading: \"h1\" });" }))]
pub struct ScriptRequest {
    /// The body of an asynchronous function. It has ECMAScript, `console` and `Page`, and what it returns is the result.
    #[schema(min_length = 1, max_length = 1048576)]
    pub script: String,
    /// How long the call may last, in milliseconds. Default 30,000, at most 600,000.
    #[schema(minimum = 1)]
    pub timeout_ms: Option<u64>,
    /// How much of the console is kept, and again of the result as JSON, in bytes. Default 1,000,000.
    #[schema(minimum = 1, maximum = 10000000)]
    pub max_output_bytes: Option<usize>,
}

/// What a script returned and what it said.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ScriptDocument {
    pub ok: bool,
    /// As JSON; `BigInt`, `NaN` and infinities are strings. Null where nothing was returned, or more than
    /// `max_output_bytes`.
    pub result: Value,
    /// What it wrote to the console, oldest first.
    pub output: Vec<ConsoleLine>,
    /// Something was left out: `omitted` says what.
    pub truncated: bool,
    pub omitted: Omitted,
    /// The last lines of the engine's standard error.
    pub stderr: Vec<String>,
    /// Of the process.
    pub exit_code: Option<i32>,
    pub elapsed_ms: u64,
    pub timeout_ms: u64,
}

struct ScriptProblems;

impl utoipa::IntoResponses for ScriptProblems {
    fn responses() -> ResponseMap {
        problem_responses(&[
            Code::Forbidden,
            Code::InvalidField,
            Code::ScriptError,
            Code::WorkerLost,
            Code::PoolExhausted,
            Code::EngineUnavailable,
            Code::ShuttingDown,
            Code::DeadlineExceeded,
        ])
    }
}

/// Run a PandaScript in an engine process of its own
///
/// Off until the configuration has `scripts = true`. The script may open what any page of this service may, and shares
/// nothing with sessions or with other scripts. An error that it does not catch is `script_error` with `message`, and
/// `line` and `column` where they are known; so is a page that could not be loaded, as the engine does not tell the two
/// apart. Problems of a script that did run have its `output` and `stderr` as well.
#[utoipa::path(
    post, path = "/v1/scripts/run", tag = "scripts", request_body = ScriptRequest,
    responses((status = 200, description = "What the script returned", body = ScriptDocument), ScriptProblems)
)]
pub async fn run(
    State(state): State<Arc<ApiState>>,
    ApiJson(request): ApiJson<ScriptRequest>,
) -> Result<Json<ScriptDocument>, Problem> {
    let limits = &state.script_limits;
    check(&request, limits)?;
    let deadline = Deadline::after(request.timeout_ms.map_or(limits.timeout, Duration::from_millis));
    let max_output_bytes = request.max_output_bytes.unwrap_or(DEFAULT_OUTPUT_BYTES);
    let script = Script { source: request.script, max_output_bytes };
    let finished = state.scripts.run(&script, deadline).await?;
    answer(finished, deadline).map(Json)
}

/// The first field that cannot be used, as a problem that names it.
fn check(request: &ScriptRequest, limits: &ScriptLimits) -> Result<(), Problem> {
    let invalid = |field: &str, what: String| {
        Err(Problem::new(Code::InvalidField, format!("`{field}` must {what}.")).with("field", field))
    };
    if !(1..=MAX_SCRIPT_BYTES).contains(&request.script.len()) {
        return invalid("script", format!("have from 1 to {MAX_SCRIPT_BYTES} bytes"));
    }
    let max_timeout_ms = milliseconds(limits.max_timeout);
    if request.timeout_ms.is_some_and(|timeout| !(1..=max_timeout_ms).contains(&timeout)) {
        return invalid("timeout_ms", format!("be from 1 to {max_timeout_ms}"));
    }
    if request.max_output_bytes.is_some_and(|bytes| !(1..=MAX_OUTPUT_BYTES).contains(&bytes)) {
        return invalid("max_output_bytes", format!("be from 1 to {MAX_OUTPUT_BYTES}"));
    }
    Ok(())
}

fn answer(finished: Finished, deadline: Deadline) -> Result<ScriptDocument, Problem> {
    let Finished { ending, output, omitted, stderr, exit_code } = finished;
    let problem = match ending {
        Ending::Returned(result) => {
            let truncated = omitted != Omitted::default();
            let (elapsed_ms, timeout_ms) = (milliseconds(deadline.elapsed()), milliseconds(deadline.timeout()));
            let ok = true;
            return Ok(ScriptDocument {
                ok,
                result,
                output,
                truncated,
                omitted,
                stderr,
                exit_code,
                elapsed_ms,
                timeout_ms,
            });
        }
        Ending::Threw(thrown) => {
            Problem::new(Code::ScriptError, "The script threw an error; `message` is its own text.")
                .with("message", thrown.message)
                .with("line", thrown.line)
                .with("column", thrown.column)
        }
        Ending::Stopped(stop) => stopped(stop),
    };
    Err(problem
        .with("output", json!(output))
        .with("omitted", json!(omitted))
        .with("stderr", json!(stderr))
        .with("exit_code", exit_code))
}

fn stopped(stop: Stop) -> Problem {
    match stop {
        Stop::Deadline => Problem::new(Code::DeadlineExceeded, "The time was up while the script ran; it was ended."),
        Stop::Engine => {
            let detail = "The script ended without a result: it waited for what could not come any more, or the engine \
                          stopped it.";
            Problem::new(Code::ScriptError, detail).hint("`stderr` has the engine's last words, if there were any.")
        }
        Stop::Printed => {
            let detail = format!("The script was ended: it printed more than {MAX_PRINTED_BYTES} bytes.");
            Problem::new(Code::ScriptError, detail).hint("Return what is needed in place of printing it.")
        }
        Stop::Memory => Problem::new(Code::ScriptError, "The script was ended: its process used too much memory.")
            .hint("Do less in one script, or raise `page_heap_mb` in the configuration."),
    }
}

impl From<ScriptsError> for Problem {
    fn from(error: ScriptsError) -> Self {
        match error {
            ScriptsError::Off => Self::new(Code::Forbidden, "Scripts are off in the configuration.").hint(
                "A person can turn them on for trusted scripts: `scripts = true` in the configuration file, \
                 PANDARIUM_SCRIPTS=true, or --scripts true.",
            ),
            ScriptsError::TooMany { limit } => {
                Self::new(Code::PoolExhausted, format!("{limit} scripts are running, which is the limit."))
            }
            ScriptsError::Browser(error) => error.into(),
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
