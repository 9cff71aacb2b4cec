//! The one table of codes: status, title, retry, exit of the command line, hint.

use std::fmt;

use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

/// With what the command line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    Ok = 0,
    Other = 1,
    Usage = 2,
    NavigationOrContent = 3,
    ApprovalOrRefusal = 4,
    CaptchaOrConsent = 5,
    EngineOrPool = 6,
    Deadline = 7,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct CodeRow {
    /// The code as it is written: stable, `snake_case`.
    pub code: &'static str,
    pub status: StatusCode,
    pub title: &'static str,
    /// The same request may succeed when it is repeated.
    pub retryable: bool,
    pub exit: ExitCode,
    /// What to do next, unless a problem knows better.
    pub hint: &'static str,
}

macro_rules! codes {
    ($($name:ident $code:literal $status:ident $title:literal $retryable:literal $exit:ident $hint:literal;)*) => {
        /// What a program decides by. There is another code only where a client would act differently.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Code {
            $($name,)*
        }

        impl Code {
            /// In the order of their statuses.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub const fn row(self) -> CodeRow {
                match self {
                    $(Self::$name => CodeRow {
                        code: $code,
                        status: StatusCode::$status,
                        title: $title,
                        retryable: $retryable,
                        exit: ExitCode::$exit,
                        hint: $hint,
                    },)*
                }
            }
        }
    };
}

codes! {
    InvalidRequest "invalid_request" BAD_REQUEST "Invalid request" false Usage
        "Correct the request; /openapi.json describes each call.";
    Unauthorized "unauthorized" UNAUTHORIZED "Token missing or wrong" false ApprovalOrRefusal
        "Send `Authorization: Bearer TOKEN`; `pandarium token` says where the token is kept.";
    Forbidden "forbidden" FORBIDDEN "Not allowed" false ApprovalOrRefusal
        "This call needs the approver token.";
    NetworkBlocked "network_blocked" FORBIDDEN "Address not allowed" false ApprovalOrRefusal
        "Only public http and https addresses may be opened; a person can exempt one host and port in the configuration.";
    HostNotAllowed "host_not_allowed" FORBIDDEN "Host header not allowed" false ApprovalOrRefusal
        "Use 127.0.0.1, [::1] or localhost with the service's port, or configure the name as an allowed host.";
    OriginNotAllowed "origin_not_allowed" FORBIDDEN "Cross-site request not allowed" false ApprovalOrRefusal
        "A web page of another origin may not call this service.";
    NotFound "not_found" NOT_FOUND "Not found" false Other
        "Check the path and the id; /openapi.json lists the paths.";
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED "Method not allowed" false Usage
        "The Allow header names the methods of this path.";
    TargetNotFound "target_not_found" CONFLICT "Target not found on the page" false NavigationOrContent
        "Nothing on the page matches; look at the page before choosing the selector.";
    PayloadTooLarge "payload_too_large" PAYLOAD_TOO_LARGE "Request body too large" false Usage
        "Send a smaller body.";
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE "Request body is not JSON" false Usage
        "Send the body with `Content-Type: application/json`.";
    UnsupportedContentType "unsupported_content_type" UNSUPPORTED_MEDIA_TYPE "Page cannot be read as text" false
        NavigationOrContent "The page's own type is in `content_type`; only text can be read.";
    InvalidField "invalid_field" UNPROCESSABLE_ENTITY "Invalid field" false Usage
        "Correct the field that `field` names.";
    ScriptError "script_error" UNPROCESSABLE_ENTITY "The script threw an error" false NavigationOrContent
        "Correct the script; the place of the error is in the answer.";
    TooManyRequests "too_many_requests" TOO_MANY_REQUESTS "Too many wrong tokens" true ApprovalOrRefusal
        "Wait as long as Retry-After says, then send the right token.";
    Internal "internal" INTERNAL_SERVER_ERROR "Internal error" false Other
        "This is a fault of the service; the log has it under the request id.";
    UnsupportedByEngine "unsupported_by_engine" NOT_IMPLEMENTED "Not supported by this engine" false EngineOrPool
        "Leave the option out, or name an engine that supports it.";
    NavigationFailed "navigation_failed" BAD_GATEWAY "The page could not be loaded" false NavigationOrContent
        "`reason` says what failed.";
    WorkerLost "worker_lost" BAD_GATEWAY "The browser process ended" true EngineOrPool
        "Repeat the call; the process is being replaced.";
    PoolExhausted "pool_exhausted" SERVICE_UNAVAILABLE "No capacity free" true EngineOrPool
        "Wait as long as Retry-After says, then repeat the call.";
    EngineUnavailable "engine_unavailable" SERVICE_UNAVAILABLE "The engine is not available" true EngineOrPool
        "/v1/status says why; `pandarium setup` installs the engine.";
    ShuttingDown "shutting_down" SERVICE_UNAVAILABLE "The service is stopping" true EngineOrPool
        "Repeat the call when the service runs again.";
    DeadlineExceeded "deadline_exceeded" GATEWAY_TIMEOUT "Deadline exceeded" true Deadline
        "Allow more time with `timeout_ms`, or wait for less.";
    StorageFull "storage_full" INSUFFICIENT_STORAGE "Storage is full" false Other
        "Delete artifacts or free disk space, then repeat the call.";
}

impl Code {
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.row().code == name)
    }

    /// Its answers carry `Retry-After`.
    pub fn asks_to_wait(self) -> bool {
        matches!(self.row().status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes, statuses and exits that outside clients are written against. Changing a line breaks them.
    const PROMISED: &str = "
        invalid_request 400 2
        unauthorized 401 4
        forbidden 403 4
        network_blocked 403 4
        host_not_allowed 403 4
        origin_not_allowed 403 4
        not_found 404 1
        method_not_allowed 405 2
        target_not_found 409 3
        payload_too_large 413 2
        unsupported_media_type 415 2
        unsupported_content_type 415 3
        invalid_field 422 2
        script_error 422 3
        too_many_requests 429 4
        internal 500 1
        unsupported_by_engine 501 6
        navigation_failed 502 3
        worker_lost 502 6
        pool_exhausted 503 6
        engine_unavailable 503 6
        shutting_down 503 6
        deadline_exceeded 504 7
        storage_full 507 1";

    #[test]
    fn the_table_is_what_clients_were_promised() {
        let table: Vec<String> = Code::ALL
            .iter()
            .map(|code| code.row())
            .map(|row| format!("{} {} {}", row.code, row.status.as_u16(), row.exit as u8))
            .collect();
        let promised: Vec<&str> = PROMISED.trim().lines().map(str::trim).collect();
        assert_eq!(table, promised);
    }

    #[test]
    fn a_code_is_written_as_it_serialises_and_is_found_by_its_name() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.to_string());
            assert_eq!(Code::from_name(code.row().code), Some(*code));
            assert!(!code.row().title.is_empty() && code.row().hint.ends_with('.'), "{code}");
        }
        assert_eq!(Code::from_name("nonsense"), None);
    }
}
