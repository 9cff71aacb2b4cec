//! `/docs`: the OpenAPI document as a page, from assets in the binary; and the list of error codes.

use std::fmt::Write;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::middleware::map_response;
use axum::response::{Html, Response};
use axum::routing::get;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::problem::Code;

/// All from here. The UI sets styles from its script, and its icons are `data:` URLs.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    // The UI would else send the document's address to an outside validator.
    let config = Config::new(["/openapi.json"]).validator_url("none");
    let ui: Router<S> = SwaggerUi::new("/docs").config(config).into();
    ui.route("/docs/errors", get(errors)).layer(map_response(with_policy))
}

async fn with_policy(mut response: Response) -> Response {
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, POLICY);
    response
}

/// What the `type` of a problem points to.
async fn errors() -> Html<String> {
    Html(errors_page())
}

fn errors_page() -> String {
    let mut rows = String::new();
    for row in Code::ALL.iter().map(|code| code.row()) {
        let (code, status, title, hint) = (row.code, row.status.as_u16(), row.title, row.hint);
        let retry = if row.retryable { "yes" } else { "no" };
        let exit = row.exit as u8;
        // Writing to a string cannot fail.
        let _ = writeln!(
            rows,
            "<tr id=\"{code}\"><td><code>{code}</code></td><td>{status}</td><td>{title}</td>\
             <td>{retry}</td><td>{exit}</td><td>{hint}</td></tr>"
        );
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>pandarium: errors</title>\
         <style>body{{font-family:sans-serif;margin:2rem}}td,th{{text-align:left;vertical-align:top;\
         padding:.25rem .75rem}}tr:target{{background:#ffc}}</style></head>\n<body><h1>Errors</h1>\n\
         <p>Every error answer is <code>application/problem+json</code>. A program decides by <code>code</code>.</p>\n\
         <table><thead><tr><th>code</th><th>HTTP status</th><th>title</th><th>worth a second try</th>\
         <th>exit of the command line</th><th>what to do</th></tr></thead>\n<tbody>\n{rows}</tbody></table>\n\
         </body></html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_anchor() {
        let page = errors_page();
        for code in Code::ALL {
            assert!(page.contains(&format!("<tr id=\"{code}\">")), "{code}");
            assert!(!code.row().hint.contains(['<', '&']) && !code.row().title.contains(['<', '&']), "{code}");
        }
    }
}
