//! Responses that many routes describe in the OpenAPI document.
#![expect(dead_code, reason = "used only by the OpenAPI document")]

/// The problems that reject a JSON body before it is decoded.
#[derive(utoipa::IntoResponses)]
pub(super) enum BodyErrors {
    #[response(
        status = 400,
        description = "The body is not valid JSON, is nested too deeply, or contains an integer beyond 64 bits"
    )]
    NoJson,
    #[response(status = 408, description = "The body was not received in time")]
    Late,
    #[response(status = 413, description = "The body is too large, or contains too many calls (`BATCH_TOO_LARGE`)")]
    TooLarge,
    #[response(status = 415, description = "The Content-Type is not JSON, or the body has a Content-Encoding")]
    OfAnotherType,
}

#[derive(utoipa::IntoResponses)]
#[response(status = 404, description = "Unknown call")]
pub(super) struct UnknownCall;

#[derive(utoipa::IntoResponses)]
#[response(status = 404, description = "Unknown server")]
pub(super) struct UnknownServer;

#[derive(utoipa::IntoResponses)]
#[response(status = 404, description = "Unknown session")]
pub(super) struct UnknownSession;

#[derive(utoipa::IntoResponses)]
#[response(status = 404, description = "Unknown tool")]
pub(super) struct UnknownTool;

#[derive(utoipa::IntoResponses)]
#[response(status = 422, description = "The body does not match the schema")]
pub(super) struct InvalidBody;

#[derive(utoipa::IntoResponses)]
#[response(status = 422, description = "A query parameter is invalid")]
pub(super) struct InvalidQuery;

#[derive(utoipa::IntoResponses)]
#[response(status = 503, description = "The database is unavailable")]
pub(super) struct Unavailable;
