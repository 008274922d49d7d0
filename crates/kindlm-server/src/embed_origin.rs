//! The origin of a site that may show the panel: [`EmbedOrigin`].

use std::fmt;
use std::str::FromStr;

use url::Url;

/// The origin of a site: a scheme and a host, with a port unless it is the default port of the scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbedOrigin(String);

impl EmbedOrigin {
    /// Returns the origin as browsers write it, which is a valid source of a `Content-Security-Policy`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text is not an origin.
#[derive(Debug, thiserror::Error)]
#[error("expected the origin of a site, such as `https://builder.example.com`, without a path")]
pub struct NotAnOrigin;

impl FromStr for EmbedOrigin {
    type Err = NotAnOrigin;

    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        let text = text.to_ascii_lowercase();
        let url = Url::parse(&text).map_err(|_| NotAnOrigin)?;
        // In the content security policy, a `;` or `,` would end the source, and a `*` would permit other hosts.
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "-.:/[]".contains(it);
        let is_site = ["http", "https"].contains(&url.scheme());
        if !is_site || !text.chars().all(is_plain) || url.origin().ascii_serialization() != text {
            return Err(NotAnOrigin);
        }
        Ok(Self(text))
    }
}

impl fmt::Display for EmbedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_origins_are_accepted() {
        for text in ["https://a.example.com", "http://localhost:5173", "http://[::1]:8080"] {
            assert_eq!(text.parse::<EmbedOrigin>().unwrap().as_str(), text);
        }
        for text in [
            "",
            "*",
            "a.example.com",
            "https://*.example.com",
            "https://a.example.com/",
            "https://a.example.com/x",
            "https://a.example.com:443",
            "https://ann@a.example.com",
            "https://a.example.com;script-src",
            "data:text",
            "http://localhost:80a",
            "null",
        ] {
            assert!(text.parse::<EmbedOrigin>().is_err(), "{text}");
        }
    }
}
