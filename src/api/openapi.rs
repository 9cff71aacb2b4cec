//! The OpenAPI document: collected from the routes, completed with what the frame does on each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Value, json};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::Header;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, ContentBuilder, InfoBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{PartialSchema, ToSchema};

use super::guard::needs_token;
use super::problem::{Code, MEDIA_TYPE, ProblemDocument};

/// Responses by status, as `utoipa` takes them.
pub type ResponseMap = BTreeMap<String, RefOr<Response>>;

/// Where a response keeps which codes it stands for.
const CODES: &str = "x-problem-codes";

const BEARER: &str = "bearer";

static DOCUMENT_JSON: LazyLock<String> = LazyLock::new(|| {
    let document = document().to_pretty_json().unwrap_or_default();
    document + "\n"
});

/// The text of `/openapi.json`, also kept in `openapi/openapi.json`.
pub fn document_json() -> &'static str {
    &DOCUMENT_JSON
}

/// The description of every route.
pub fn document() -> OpenApi {
    let mut document = super::routes().into_openapi();
    document.info = InfoBuilder::new()
        .title("pandarium")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("A browser over plain HTTP for agents and scripts."))
        .build();
    let mut schemas = vec![(ProblemDocument::name().into_owned(), ProblemDocument::schema())];
    ProblemDocument::schemas(&mut schemas);
    let components = document.components.get_or_insert_with(Components::new);
    components.schemas.extend(schemas);
    components
        .add_security_scheme(BEARER, SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()));
    for (path, item) in &mut document.paths.paths {
        for operation in operations(item) {
            complete(path, operation);
        }
    }
    document
}

/// One response for each status of `codes`. An operation lists its own codes so; the frame's come by themselves.
pub fn problem_responses(codes: &[Code]) -> ResponseMap {
    let mut by_status: BTreeMap<u16, BTreeSet<Code>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.row().status.as_u16()).or_default().insert(*code);
    }
    by_status.into_iter().map(|(status, codes)| (status.to_string(), problem_response(&codes).into())).collect()
}

fn problem_response(codes: &BTreeSet<Code>) -> Response {
    let names: Vec<&str> = codes.iter().map(|code| code.row().code).collect();
    let lines: Vec<String> = codes.iter().map(|code| format!("`{code}`: {}", code.row().title)).collect();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(ProblemDocument::name()))).build();
    let mut response = ResponseBuilder::new()
        .description(lines.join("; "))
        .content(MEDIA_TYPE, content)
        .extensions(Some(Extensions::from_iter([(CODES, json!(names))])));
    if codes.iter().any(|code| code.asks_to_wait()) {
        let seconds = Header::new(ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).build());
        response = response.header("Retry-After", seconds);
    }
    response.build()
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch].into_iter().flatten()
}

/// Adds what the frame may answer in front of the handler, and whether a token is needed.
fn complete(path: &str, operation: &mut Operation) {
    let responses = &mut operation.responses.responses;
    let mut codes: Vec<Code> = responses.values().flat_map(codes_of).collect();
    codes.extend(frame_codes(path));
    if operation.request_body.is_some() || operation.parameters.is_some() {
        codes.push(Code::InvalidField);
    }
    responses.extend(problem_responses(&codes));
    let security = if needs_token(path) {
        SecurityRequirement::new(BEARER, [] as [&str; 0])
    } else {
        SecurityRequirement::default()
    };
    operation.security = Some(vec![security]);
}

fn frame_codes(path: &str) -> Vec<Code> {
    let mut codes = vec![
        Code::InvalidRequest,
        Code::HostNotAllowed,
        Code::OriginNotAllowed,
        Code::PayloadTooLarge,
        Code::UnsupportedMediaType,
        Code::Internal,
    ];
    if needs_token(path) {
        codes.extend([Code::Unauthorized, Code::TooManyRequests]);
    }
    if path.starts_with("/v1/") {
        codes.push(Code::PoolExhausted);
    }
    codes
}

fn codes_of(response: &RefOr<Response>) -> Vec<Code> {
    let RefOr::T(response) = response else { return Vec::new() };
    let names = response.extensions.as_ref().and_then(|extensions| extensions.get(CODES)).and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).filter_map(Code::from_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_operations(document: &Value) -> Vec<(String, &Value)> {
        let paths = document["paths"].as_object().unwrap();
        let operations = paths.iter().flat_map(|(path, item)| {
            item.as_object().unwrap().iter().map(move |(method, operation)| (format!("{method} {path}"), operation))
        });
        operations.collect()
    }

    #[test]
    fn every_operation_lists_the_problems_of_the_frame() {
        let document = serde_json::to_value(document()).unwrap();
        let operations = all_operations(&document);
        assert!(operations.len() >= 5, "{operations:?}");
        for (name, operation) in operations {
            let responses = operation["responses"].as_object().unwrap();
            let path = name.split_once(' ').unwrap().1;
            let mut statuses = vec!["400", "403", "413", "415", "500"];
            if needs_token(path) {
                statuses.extend(["401", "429"]);
            }
            for status in statuses {
                let response = responses.get(status).unwrap_or_else(|| panic!("{name} lacks {status}"));
                let schema = &response["content"][MEDIA_TYPE]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/ProblemDocument", "{name} {status}");
                assert!(!response[CODES].as_array().unwrap().is_empty(), "{name} {status}");
            }
            assert!(responses.keys().any(|status| status.starts_with('2')), "{name} never succeeds");
            assert!(responses.values().all(|response| response["description"].is_string()), "{name}");
            assert_eq!(operation["security"][0].get(BEARER).is_some(), needs_token(path), "{name}");
        }
    }

    #[test]
    fn codes_of_one_status_share_its_response() {
        let responses =
            serde_json::to_value(problem_responses(&[Code::ShuttingDown, Code::EngineUnavailable])).unwrap();
        assert_eq!(responses["503"][CODES], json!(["engine_unavailable", "shutting_down"]));
        assert_eq!(responses["503"]["headers"]["Retry-After"]["schema"]["type"], "integer");
        assert_eq!(responses.as_object().unwrap().len(), 1);
    }

    #[test]
    fn an_operation_keeps_its_own_problems_beside_those_of_the_frame() {
        let document = serde_json::to_value(document()).unwrap();
        let ready = &document["paths"]["/readyz"]["get"]["responses"];
        assert_eq!(ready["503"][CODES], json!(["engine_unavailable", "shutting_down"]));
        assert_eq!(ready["403"][CODES], json!(["host_not_allowed", "origin_not_allowed"]));
    }

    #[test]
    fn every_schema_that_is_referred_to_is_there() {
        let document = serde_json::to_value(document()).unwrap();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(document.pointer(reference).is_some(), "{reference}");
        }
        let codes = document["components"]["schemas"]["Code"]["enum"].as_array().unwrap();
        assert_eq!(codes.len(), Code::ALL.len());
    }

    #[test]
    fn the_document_is_the_same_each_time() {
        let again = document().to_pretty_json().unwrap() + "\n";
        assert_eq!(again, document_json());
    }
}
