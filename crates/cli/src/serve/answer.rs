//! Responses: JSON documents, and errors as JSON documents too.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use taketurns::ErrorKind;

use super::access::Denial;

/// The response to a request that failed.
#[derive(Debug)]
pub(super) struct ErrorResponse {
    status: StatusCode,
    why: String,
}

/// The body of an error response.
#[derive(Serialize)]
struct ErrorJson<'a> {
    /// In one sentence.
    error: &'a str,
}

impl ErrorResponse {
    pub(super) fn new(status: StatusCode, why: impl ToString) -> Self {
        Self { status, why: why.to_string() }
    }

    pub(super) fn bad(why: impl ToString) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why)
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorJson { error: &self.why })).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Denial> for ErrorResponse {
    fn from(denied: Denial) -> Self {
        Self::new(denied.status, denied.why)
    }
}

impl From<taketurns::Error> for ErrorResponse {
    fn from(error: taketurns::Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Unreachable | ErrorKind::NoQuorum | ErrorKind::Indeterminate => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            ErrorKind::InvalidName => StatusCode::BAD_REQUEST,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self::new(status, error)
    }
}

impl From<QueryRejection> for ErrorResponse {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}

impl From<JsonRejection> for ErrorResponse {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}

/// The parsed query string.
pub(super) struct QueryParams<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ErrorResponse> {
        let axum::extract::Query(query) =
            axum::extract::Query::from_request_parts(parts, state).await?;
        Ok(Self(query))
    }
}

/// The parsed JSON body of a request.
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, state: &S) -> Result<Self, ErrorResponse> {
        let Json(body) = Json::from_request(request, state).await?;
        Ok(Self(body))
    }
}

/// A document, made of what may be borrowed.
pub(super) fn document(document: &impl Serialize) -> Result<Response, ErrorResponse> {
    let text = serde_json::to_vec(document)
        .map_err(|error| ErrorResponse::new(StatusCode::INTERNAL_SERVER_ERROR, error))?;
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}
