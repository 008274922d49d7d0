//! HTTP requests of users' scripts: one attempt, without keys or redirects.

use std::time::Duration;

use super::HttpTransport;
use super::fault::causes;

/// The response to a script's request: status, headers in order, and body.
pub type Fetched = (u16, Vec<(String, String)>, Vec<u8>);

impl HttpTransport {
    /// Sends one request, without a key, without retries, and without following redirects.
    ///
    /// `timeout` covers everything up to the last byte of the response. The body may have at most `max_body` bytes. The
    /// error is a message for the user.
    pub async fn fetch(
        &self,
        (method, url): (&str, &str),
        headers: &[(String, String)],
        body: Vec<u8>,
        timeout: Duration,
        max_body: usize,
    ) -> Result<Fetched, String> {
        let mut response = self.send_once((method, url), headers, body, timeout).await?;
        let status = response.status().as_u16();
        let headers = response.headers().iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let headers = headers.collect();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(in_words)? {
            if body.len() + chunk.len() > max_body {
                return Err(format!("the answer has more than {max_body} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((status, headers, body))
    }

    /// Sends one request as [`fetch`](Self::fetch) does, and returns its status. The body of the response is not read.
    pub async fn fetch_status(
        &self,
        request: (&str, &str),
        headers: &[(String, String)],
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<u16, String> {
        Ok(self.send_once(request, headers, body, timeout).await?.status().as_u16())
    }

    /// Sends one request, and returns the response without its body. The error does not show the address.
    async fn send_once(
        &self,
        (method, url): (&str, &str),
        headers: &[(String, String)],
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<reqwest::Response, String> {
        // Scripts always use the shared client. A provider named `scripts` may have certificates, which are not for
        // scripts.
        let client = self.shared_client("scripts").map_err(|err| err.to_string())?;
        let method = reqwest::Method::from_bytes(method.as_bytes())
            .map_err(|_| format!("`{method}` is not an HTTP method"))?;
        let mut request = client.request(method, url).timeout(timeout);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.body(body).send().await.map_err(in_words)
    }
}

/// Returns the text of an error without the address, which may contain a key.
fn in_words(err: reqwest::Error) -> String {
    let err = err.without_url();
    causes(std::error::Error::source(&err))
        .last()
        .map_or_else(|| err.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::Arc;

    use super::*;
    use crate::options::TransportOptions;

    #[tokio::test]
    async fn errors_do_not_show_the_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/?key=secret", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").unwrap();
        });
        let env: crate::options::Env = Arc::new(|_| None);
        let options = TransportOptions { system_proxy: false, ..TransportOptions::new(env) };
        let transport = HttpTransport::new(options).unwrap();
        let sent = transport.send_once(("GET", &url), &[], Vec::new(), Duration::from_mins(1));
        // This error has no cause, so its own text is shown.
        let err = sent.await.unwrap().error_for_status().unwrap_err();
        assert!(err.to_string().contains("secret"), "{err}");
        let words = in_words(err);
        assert!(words.contains("404") && !words.contains("secret"), "{words}");
        server.join().unwrap();
    }
}
