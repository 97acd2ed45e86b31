//! How the server answers: documents, and in a document too what is wrong with a request.

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

use super::access::Denied;

/// Why a request is not answered with what it asked for.
#[derive(Debug)]
pub(super) struct Trouble {
    status: StatusCode,
    why: String,
}

/// The same as a document.
#[derive(Serialize)]
struct Document<'a> {
    /// In one sentence.
    error: &'a str,
}

impl Trouble {
    pub(super) fn new(status: StatusCode, why: impl ToString) -> Self {
        Self { status, why: why.to_string() }
    }

    pub(super) fn bad(why: impl ToString) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why)
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(Document { error: &self.why })).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Denied> for Trouble {
    fn from(denied: Denied) -> Self {
        Self::new(denied.status, denied.why)
    }
}

impl From<taketurns::Error> for Trouble {
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

impl From<QueryRejection> for Trouble {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}

impl From<JsonRejection> for Trouble {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}

/// What follows the `?`.
pub(super) struct Query<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Trouble> {
        let axum::extract::Query(query) =
            axum::extract::Query::from_request_parts(parts, state).await?;
        Ok(Self(query))
    }
}

/// A document.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Trouble;

    async fn from_request(request: Request, state: &S) -> Result<Self, Trouble> {
        let Json(body) = Json::from_request(request, state).await?;
        Ok(Self(body))
    }
}

/// A document, made of what may be borrowed.
pub(super) fn document(document: &impl Serialize) -> Result<Response, Trouble> {
    let text = serde_json::to_vec(document)
        .map_err(|error| Trouble::new(StatusCode::INTERNAL_SERVER_ERROR, error))?;
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}
