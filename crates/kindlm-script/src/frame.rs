//! The protocol between the host and a worker: frames on the worker's stdin and stdout.
//!
//! A frame is its length, then a JSON header, then byte strings; each part has its length before it (32 bits,
//! little-endian). Sources, arguments and results travel as byte strings, so that they are neither escaped nor
//! parsed on the way.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest frame, in bytes. A worker that sends more is broken or hostile.
pub(crate) const MAX_FRAME: usize = 256 << 20;

/// From the host to a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(crate) enum ToWorker {
    /// The place of the worker; the first message.
    Hello {
        /// The root folder, absolute.
        root: String,
        /// The command that makes JavaScript out of TypeScript: it is given a path as its last argument, and the text on
        /// its stdin. For interpreters, which do not read it themselves.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        typescript: Vec<String>,
    },
    /// Run something. Byte strings: the code (for a body), then the arguments as JSON.
    Call(Call),
    /// The answer to [`FromWorker::Ask`]. Byte string: the requested data, if there is any.
    Reply {
        /// Of the question.
        id: u64,
        /// Why there is no answer.
        error: Option<Refusal>,
        /// The data that belongs to the byte string.
        #[serde(default)]
        facts: serde_json::Value,
    },
}

/// A call of a script.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Of the call; the answer carries it.
    pub(crate) id: u64,
    /// The code to run.
    pub(crate) what: What,
    /// Only compile it: run nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) compile_only: bool,
    /// The time in milliseconds after which it is interrupted.
    pub(crate) soft_ms: u64,
    /// Which set of readable folders holds: resolved files are remembered for each.
    pub(crate) scope: u64,
    /// The variables of `process.env`.
    pub(crate) env: BTreeMap<String, String>,
    /// True if `fetch` may be requested at all.
    pub(crate) net: bool,
    /// True if files may be requested at all.
    pub(crate) read: bool,
}

/// The code that a call runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "w", rename_all = "snake_case")]
pub(crate) enum What {
    /// The body of an asynchronous function.
    Body {
        /// Names of the parameters.
        params: Vec<String>,
    },
    /// A function of a file.
    File {
        /// Relative to the root folder.
        path: String,
        /// Which function.
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
    /// It is a function, which is called.
    #[default]
    Call,
    /// A function is called; anything else is the result.
    Value,
    /// A class is constructed with the first argument, and its `callApi` called with the others.
    Provider,
}

impl Usage {
    /// Its name on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Value => "value",
            Self::Provider => "provider",
        }
    }
}

/// From a worker to the host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(crate) enum FromWorker {
    /// The worker has started.
    Ready,
    /// The ending of a call. Byte string: the value as JSON, for [`Ending::Json`].
    Answer {
        /// Of the call.
        id: u64,
        /// The ending.
        ending: Ending,
        /// The lines written to the console.
        console: Vec<String>,
        /// The worker holds much memory and wants to be replaced.
        retire: bool,
    },
    /// Something that only the host can do. Byte string: a request's body, for [`Ask::Fetch`].
    Ask {
        /// Of the question.
        id: u64,
        /// The request.
        ask: Ask,
    },
}

/// The ending of a call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "e", rename_all = "snake_case")]
pub(crate) enum Ending {
    /// It returned nothing.
    Undefined,
    /// It returned a number, written as Rust writes it: `NaN` and `inf` are not JSON.
    Number { text: String },
    /// It returned the value in the byte string.
    Json,
    /// It returned a value that is not data.
    Opaque { type_name: String, text: String },
    /// It threw.
    Threw { message: Option<String>, stack: String, thrown: String },
    /// It was stopped before its end.
    Stopped { why: Stop, message: String },
}

/// Why a call was stopped before its end.
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

/// A request from a worker to the host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "a", rename_all = "snake_case")]
pub(crate) enum Ask {
    /// A module. Facts: [`Loaded`]; byte string: its source.
    Load {
        /// The file that asks, absolute; absent for the file of the call.
        from: Option<String>,
        /// The specifier that is requested.
        specifier: String,
    },
    /// A look at the disk. Byte string: the file's content.
    Look { op: Look, path: String },
    /// A request. Facts: [`Fetched`]; byte string: the body.
    Fetch { url: String, method: String, headers: Vec<(String, String)> },
    /// To be woken.
    Sleep { ms: u64 },
}

/// A way in which a worker may look at the disk.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Look {
    /// The content.
    Read,
    /// The names in a folder, as a JSON list of `[name, is a folder]`.
    List,
    /// `{exists, file, folder, size, modified_ms}`.
    Stat,
}

/// Which module was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Loaded {
    /// Its absolute path, `/` between folders.
    pub(crate) path: String,
    /// The format that follows from its name and the nearest `package.json`.
    pub(crate) format: Format,
}

/// The format in which a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    /// CommonJS.
    Commonjs,
    /// An ES module.
    Module,
    /// Either: the code decides.
    Either,
    /// Data.
    Json,
}

/// The response to a request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Fetched {
    pub(crate) status: u16,
    pub(crate) status_text: String,
    pub(crate) url: String,
    pub(crate) redirected: bool,
    pub(crate) headers: Vec<(String, String)>,
}

/// Why the host refuses a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Refusal {
    /// A code as Node has them: `ENOENT`, `MODULE_NOT_FOUND`.
    pub(crate) code: String,
    /// The refusal, the reason, and the advice.
    pub(crate) message: String,
}

/// A frame that was read.
#[derive(Debug)]
pub(crate) struct Frame<H> {
    /// The header.
    pub(crate) header: H,
    /// The byte strings that belong to it.
    pub(crate) parts: Vec<Vec<u8>>,
}

/// Writes a frame as bytes.
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

/// Reads the output of [`encode`], without the total length.
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

/// Reads the bytes of one frame; `None` at the end of the stream.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
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

/// Writes bytes that [`encode`] made.
pub(crate) fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}
