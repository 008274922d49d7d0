//! The Rust computations of built-in modules: encodings, hashes, URLs.

use hmac::{Hmac, KeyInit as _, Mac as _};
use rquickjs::{ArrayBuffer, Ctx, Exception, Function, Object};
use sha2::Digest as _;
use url::{Url, form_urlencoded, quirks};

use crate::limits;

/// Returns a copy of a buffer's content; empty if the buffer is detached.
pub(crate) fn bytes_of(buffer: &ArrayBuffer<'_>) -> Vec<u8> {
    #[expect(
        unsafe_code,
        reason = "copied at once: no JavaScript runs that could change or detach the buffer"
    )]
    // SAFETY: the slice does not outlive this expression, and nothing else runs meanwhile.
    let bytes = unsafe { buffer.as_bytes() };
    bytes.unwrap_or_default().to_vec()
}

/// Adds the functions of this module to `native`.
pub(crate) fn add<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> rquickjs::Result<()> {
    let encode = |ctx: Ctx<'js>, text: String| ArrayBuffer::new_copy(ctx, text.as_bytes());
    native.set("utf8Encode", Function::new(ctx.clone(), encode)?)?;
    let decode = |bytes: ArrayBuffer<'js>, fatal: bool| -> Option<String> {
        match String::from_utf8(bytes_of(&bytes)) {
            Ok(text) => Some(text),
            Err(_) if fatal => None,
            Err(err) => Some(String::from_utf8_lossy(err.as_bytes()).into_owned()),
        }
    };
    native.set("utf8Decode", Function::new(ctx.clone(), decode)?)?;
    let latin1 = |bytes: ArrayBuffer<'js>| -> String {
        bytes_of(&bytes).into_iter().map(char::from).collect()
    };
    native.set("latin1Decode", Function::new(ctx.clone(), latin1)?)?;
    let hash =
        |ctx: Ctx<'js>, name: String, key: Option<ArrayBuffer<'js>>, data: ArrayBuffer<'js>| {
            let key = key.as_ref().map(bytes_of);
            match digest(&name, key.as_deref(), &bytes_of(&data)) {
                Some(digest) => ArrayBuffer::new_copy(ctx, digest),
                None => Err(Exception::throw_message(
                    &ctx,
                    &format!("Digest method not supported: {name}"),
                )),
            }
        };
    native.set("hash", Function::new(ctx.clone(), hash)?)?;
    let random = |ctx: Ctx<'js>, size: i32| {
        let size = usize::try_from(size).ok().filter(|size| *size <= limits::CONTENT);
        let Some(size) = size else {
            let most = limits::CONTENT >> 20;
            let message = format!("the sandbox gives at most {most} MiB of random bytes at once");
            return Err(Exception::throw_range(&ctx, &message));
        };
        let mut bytes = vec![0; size];
        if let Err(err) = getrandom::fill(&mut bytes) {
            return Err(Exception::throw_message(&ctx, &format!("random numbers: {err}")));
        }
        ArrayBuffer::new_copy(ctx, bytes)
    };
    native.set("randomBytes", Function::new(ctx.clone(), random)?)?;
    urls(ctx, native)
}

fn urls<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> rquickjs::Result<()> {
    let parse = |ctx: Ctx<'js>,
                 input: String,
                 base: Option<String>|
     -> rquickjs::Result<Option<Object<'js>>> {
        let url = match base {
            Some(base) => Url::parse(&base).and_then(|base| base.join(&input)),
            None => Url::parse(&input),
        };
        url.ok().map(|url| parts(&ctx, &url)).transpose()
    };
    native.set("urlParse", Function::new(ctx.clone(), parse)?)?;
    let set = |ctx: Ctx<'js>,
               href: String,
               part: String,
               value: String|
     -> rquickjs::Result<Option<Object<'js>>> {
        let changed = Url::parse(&href).ok().and_then(|url| change(url, &part, &value));
        changed.map(|url| parts(&ctx, &url)).transpose()
    };
    native.set("urlSet", Function::new(ctx.clone(), set)?)?;
    let query = |text: String| -> Vec<Vec<String>> {
        let pairs = form_urlencoded::parse(text.as_bytes());
        pairs.map(|(name, value)| vec![name.into_owned(), value.into_owned()]).collect()
    };
    native.set("queryParse", Function::new(ctx.clone(), query)?)?;
    let write = |pairs: Vec<Vec<String>>| -> String {
        let mut out = form_urlencoded::Serializer::new(String::new());
        for pair in &pairs {
            if let [name, value] = pair.as_slice() {
                out.append_pair(name, value);
            }
        }
        out.finish()
    };
    native.set("queryWrite", Function::new(ctx.clone(), write)?)?;
    Ok(())
}

/// Returns the parts of a URL, with their JavaScript names.
fn parts<'js>(ctx: &Ctx<'js>, url: &Url) -> rquickjs::Result<Object<'js>> {
    let parts = Object::new(ctx.clone())?;
    parts.set("href", quirks::href(url))?;
    parts.set("origin", quirks::origin(url))?;
    parts.set("protocol", quirks::protocol(url))?;
    parts.set("username", quirks::username(url))?;
    parts.set("password", quirks::password(url))?;
    parts.set("host", quirks::host(url))?;
    parts.set("hostname", quirks::hostname(url))?;
    parts.set("port", quirks::port(url))?;
    parts.set("pathname", quirks::pathname(url))?;
    parts.set("search", quirks::search(url))?;
    parts.set("hash", quirks::hash(url))?;
    Ok(parts)
}

/// Returns a URL with a changed part. Returns `None` if the change is invalid or the part is unknown.
fn change(mut url: Url, part: &str, value: &str) -> Option<Url> {
    let changed = match part {
        "href" => quirks::set_href(&mut url, value).is_ok(),
        "protocol" => quirks::set_protocol(&mut url, value).is_ok(),
        "username" => quirks::set_username(&mut url, value).is_ok(),
        "password" => quirks::set_password(&mut url, value).is_ok(),
        "host" => quirks::set_host(&mut url, value).is_ok(),
        "hostname" => quirks::set_hostname(&mut url, value).is_ok(),
        "port" => quirks::set_port(&mut url, value).is_ok(),
        "pathname" => {
            quirks::set_pathname(&mut url, value);
            true
        }
        "search" => {
            quirks::set_search(&mut url, value);
            true
        }
        "hash" => {
            quirks::set_hash(&mut url, value);
            true
        }
        _ => false,
    };
    changed.then_some(url)
}

/// Returns a digest, or an HMAC if a key is given. Returns `None` for unknown algorithms.
fn digest(name: &str, key: Option<&[u8]>, data: &[u8]) -> Option<Vec<u8>> {
    macro_rules! either {
        ($hash:ty) => {
            match key {
                None => <$hash>::digest(data).to_vec(),
                Some(key) => {
                    let mut mac = Hmac::<$hash>::new_from_slice(key).ok()?;
                    mac.update(data);
                    mac.finalize().into_bytes().to_vec()
                }
            }
        };
    }
    Some(match name {
        "md5" => either!(md5::Md5),
        "sha1" => either!(sha1::Sha1),
        "sha224" => either!(sha2::Sha224),
        "sha256" => either!(sha2::Sha256),
        "sha384" => either!(sha2::Sha384),
        "sha512" => either!(sha2::Sha512),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(digest: Option<Vec<u8>>) -> String {
        digest.unwrap().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }

    #[test]
    fn digests_agree_with_the_standards() {
        assert_eq!(hex(digest("md5", None, b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(digest("sha1", None, b"abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
        // RFC 4231, test case 2.
        assert_eq!(
            hex(digest("sha256", Some(b"Jefe"), b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
