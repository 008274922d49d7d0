//! The rules for following redirects.
//!
//! Requests contain a key and a private conversation. So a redirect is followed only to the same scheme, host and port.
//! The redirect must also keep the method and the body. With the statuses 307 and 308, the client repeats the request.
//! With 301, 302 and 303, a `POST` would become a `GET`, so these redirects are followed only for a `GET`.

use reqwest::header::LOCATION;
use reqwest::{StatusCode, Url};

use crate::Method;

/// The maximum number of redirects for one request.
pub(super) const MOST: usize = 5;

/// Returns true for a redirect status. The statuses 300 and 304 count as answers.
pub(super) fn is_one(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Returns the target of a redirect, or the reason why it is not followed.
pub(super) fn follow(
    from: &Url,
    method: Method,
    response: &reqwest::Response,
) -> Result<Url, String> {
    let location = response.headers().get(LOCATION).and_then(|it| it.to_str().ok());
    let Some(location) = location else {
        return Err("redirected without an address".to_owned());
    };
    let to = from.join(location).map_err(|_| "redirected to an invalid address".to_owned())?;
    if to.origin() != from.origin() {
        return Err(format!(
            "redirected to `{}`, another scheme, host or port, which is not followed because the request may contain a \
             key",
            to.origin().ascii_serialization(),
        ));
    }
    let keeps_method = matches!(response.status().as_u16(), 307 | 308) || method == Method::Get;
    if keeps_method {
        Ok(to)
    } else {
        Err(format!("redirected to `{}`, which would drop the request's body", to.path()))
    }
}
