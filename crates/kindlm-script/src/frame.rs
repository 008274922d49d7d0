//! The protocol between the host and a worker: frames on the worker's stdin and stdout.
//!
//! A frame is its total length, then a JSON header, then byte strings. The header and each byte string are prefixed
//! with their length. All lengths have 32 bits, little-endian. Sources, arguments and results are sent as byte strings,
//! to avoid escaping and parsing them.

use std::collections::BTreeMap;
use std::io;
#[cfg(feature = "javascript")]
use std::io::{Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The maximum length of a frame, in bytes. A worker that sends a longer frame is broken or hostile.
pub(crate) const MAX_FRAME: usize = 256 << 20;

/// A message from the host to a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(crate) enum ToWorker {
    /// The first message: the root folder, and the command that converts TypeScript.
    Hello {
        /// The absolute path of the root folder.
        root: String,
        /// The command that converts TypeScript to JavaScript; empty if the runtime is not Node.js. The worker appends
        /// the path of the file as the last argument, and writes the source to the stdin of the command.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        typescript: Vec<String>,
    },
    /// A call to run. Byte strings: the code, if the call has a body, then the arguments as JSON.
    Call(Call),
    /// The answer to [`FromWorker::Ask`]. Byte string: the requested data; empty without data.
    Reply {
        /// The id of the question.
        id: u64,
        /// The refusal of the question; `None` if the question is answered.
        error: Option<Refusal>,
        /// The JSON data of the answer, such as [`Loaded`]; the byte string has the other data.
        #[serde(default)]
        facts: serde_json::Value,
    },
}

/// A call of a script.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    /// The id of the call; the answer repeats it.
    pub(crate) id: u64,
    /// The code to run or compile.
    pub(crate) what: CallCode,
    /// True to compile the code without running it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) compile_only: bool,
    /// The time until the call is interrupted, in milliseconds.
    pub(crate) soft_ms: u64,
    /// The id of the set of readable folders. Resolved files are cached separately for each set.
    pub(crate) scope: u64,
    /// The variables of `process.env`.
    pub(crate) env: BTreeMap<String, String>,
    /// True if the script may use `fetch`.
    pub(crate) net: bool,
    /// True if the script may read files.
    pub(crate) read: bool,
}

/// The code that a call runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "w", rename_all = "snake_case")]
pub(crate) enum CallCode {
    /// The body of an async function.
    Body {
        /// The names of the parameters.
        params: Vec<String>,
    },
    /// A function in a file.
    File {
        /// The path, relative to the root folder.
        path: String,
        /// The name of the function; the default export if absent.
        function: Option<String>,
        /// The use of the file's export.
        #[serde(rename = "use", default)]
        usage: Usage,
    },
}

/// The use of a file's export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Usage {
    /// The export is a function, which is called.
    #[default]
    Call,
    /// A function is called; any other export is the result.
    Value,
    /// The export is a provider; see [`ExportUse::Provider`](kindlm_types::script::ExportUse::Provider).
    Provider,
}

#[cfg(feature = "javascript")]
impl Usage {
    /// Returns the name in the protocol.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Value => "value",
            Self::Provider => "provider",
        }
    }
}

/// A message from a worker to the host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(crate) enum FromWorker {
    /// The worker has started.
    Ready,
    /// The outcome of a call. Byte string: the value as JSON, for [`Ending::Json`].
    Answer {
        /// The id of the call.
        id: u64,
        /// The end of the call. The value of [`Ending::Json`] is in the byte string.
        ending: Ending,
        /// The lines that the script wrote to the console.
        console: Vec<String>,
        /// True if the worker uses so much memory that it should be replaced.
        retire: bool,
    },
    /// A question to the host. Byte string: the body of an HTTP request, for [`Ask::Fetch`].
    Ask {
        /// The id of the question.
        id: u64,
        /// The request to the host.
        ask: Ask,
    },
}

/// The outcome of a call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "e", rename_all = "snake_case")]
pub(crate) enum Ending {
    /// The script returned `undefined`.
    Undefined,
    /// The script returned a number. The text is in Rust's notation, because `NaN` and `inf` are not JSON.
    Number { text: String },
    /// The script returned the value in the byte string.
    Json,
    /// The script returned a value that is not data, such as a function.
    Opaque { type_name: String, text: String },
    /// The script threw a value.
    Threw { message: Option<String>, stack: String, thrown: String },
    /// The call was stopped early.
    Stopped { why: Stop, message: String },
}

/// The reason why a call was stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stop {
    Timeout,
    Memory,
    NeverResolved,
    Exited,
    Load,
    Internal,
}

/// A question from a worker to the host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "a", rename_all = "snake_case")]
pub(crate) enum Ask {
    /// Loads a module. The reply has [`Loaded`] as `facts`, and the source of the module as its byte string.
    Load {
        /// The absolute path of the importing file; `None` for the file of the call.
        from: Option<String>,
        /// The module specifier.
        specifier: String,
    },
    /// Reads from the disk. The reply to [`Look::Read`] has the file's content as its byte string.
    Look { op: Look, path: String },
    /// Sends an HTTP request. The reply has [`Fetched`] as `facts`, and the body of the response as its byte string.
    Fetch { url: String, method: String, headers: Vec<(String, String)> },
    /// Waits for `ms` milliseconds.
    Sleep { ms: u64 },
}

/// A disk operation of a worker.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Look {
    /// Reads the content of a file.
    Read,
    /// Lists a folder. The `facts` of the reply are `{names}`: a list of `[name, is a folder]`.
    List,
    /// Describes a path. The `facts` of the reply are `{exists, file, folder, size, modified_ms}`, or `{exists}` for a
    /// missing path.
    Stat,
}

/// A module that the host found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Loaded {
    /// The absolute path, with `/` as the separator.
    pub(crate) path: String,
    /// The format, which the file name determines.
    pub(crate) format: Format,
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    /// CommonJS.
    Commonjs,
    /// An ES module.
    Module,
    /// CommonJS or an ES module, which the code determines.
    Either,
    /// JSON data.
    Json,
}

/// The response to an HTTP request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Fetched {
    pub(crate) status: u16,
    pub(crate) status_text: String,
    pub(crate) url: String,
    pub(crate) redirected: bool,
    pub(crate) headers: Vec<(String, String)>,
}

/// The refusal of a question by the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Refusal {
    /// The error code in Node's style, such as `ENOENT` or `MODULE_NOT_FOUND`.
    pub(crate) code: String,
    /// The error message, with the reason and advice.
    pub(crate) message: String,
    /// The host that the script must not reach; `None` for other reasons.
    #[serde(default)]
    pub(crate) host: Option<String>,
}

impl Refusal {
    /// Creates a refusal without a forbidden host.
    pub(crate) fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), host: None }
    }
}

/// A decoded frame.
#[derive(Debug)]
pub(crate) struct Frame<H> {
    /// The decoded JSON header.
    pub(crate) header: H,
    /// The byte strings after the header, in order.
    pub(crate) parts: Vec<Vec<u8>>,
}

/// Encodes a frame. Fails if the header cannot be written as JSON, or if a length exceeds [`MAX_FRAME`].
pub(crate) fn encode<H: Serialize>(header: &H, parts: &[&[u8]]) -> io::Result<Vec<u8>> {
    let body: usize = parts.iter().map(|part| part.len() + 4).sum();
    let mut bytes = Vec::with_capacity(512 + body);
    bytes.extend_from_slice(&[0; 8]);
    serde_json::to_writer(&mut bytes, header)?;
    let header = length(bytes.len() - 8)?;
    for part in parts {
        bytes.extend_from_slice(&length(part.len())?);
        bytes.extend_from_slice(part);
    }
    let total = length(bytes.len() - 4)?;
    bytes[..4].copy_from_slice(&total);
    bytes[4..8].copy_from_slice(&header);
    Ok(bytes)
}

fn length(of: usize) -> io::Result<[u8; 4]> {
    match u32::try_from(of) {
        Ok(length) if of <= MAX_FRAME => Ok(length.to_le_bytes()),
        _ => Err(io::Error::other(format!(
            "{of} bytes do not fit into a message of at most {} MiB",
            MAX_FRAME >> 20
        ))),
    }
}

/// Decodes the bytes of a frame after its total length. Fails if the frame is malformed.
pub(crate) fn decode<H: DeserializeOwned>(bytes: &[u8]) -> io::Result<Frame<H>> {
    let mut rest = bytes;
    let header = serde_json::from_slice(part(&mut rest)?)?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        parts.push(part(&mut rest)?.to_vec());
    }
    Ok(Frame { header, parts })
}

fn part<'a>(rest: &mut &'a [u8]) -> io::Result<&'a [u8]> {
    let torn = || io::Error::new(io::ErrorKind::InvalidData, "a torn message");
    let (length, after) = rest.split_first_chunk::<4>().ok_or_else(torn)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (part, after) = after.split_at_checked(length).ok_or_else(torn)?;
    *rest = after;
    Ok(part)
}

/// Reads the bytes of one frame, without the total length. Returns `None` at the end of the stream. Fails if the frame
/// is too long, incomplete or unreadable.
#[cfg(feature = "javascript")]
pub(crate) fn read_frame(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Ok(()) => {}
        Err(err) if err.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(err) => return Err(err),
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message longer than is allowed"));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}

/// Writes an encoded frame.
#[cfg(feature = "javascript")]
pub(crate) fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}
