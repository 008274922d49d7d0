//! Reads spans from files.

use std::fs;
use std::path::PathBuf;

use kindlm_otlp::{Received, decode_file};

use super::GatheredTraces;
use crate::{Failure, World};

/// The maximum size of a file in bytes, before and after decompression: 256 MiB.
const MAX_FILE: usize = 256 * 1024 * 1024;

/// Reads the spans of all files as one sequence.
///
/// Fails if a file cannot be read or decoded, or is too large, or if the files have no spans.
pub(crate) fn read_files(world: &World, files: &[PathBuf]) -> Result<GatheredTraces, Failure> {
    let mut received = Received::default();
    let (mut rejected, mut notes) = (Vec::new(), Vec::new());
    for file in files {
        let name = file.display();
        let failed = |why: &str| Failure::input(format!("cannot read traces from `{name}`: {why}"));
        let path = world.working_dir.join(file);
        let size = fs::metadata(&path)
            .map_err(|err| failed(&kindlm_store::describe_io_error(&err)))?
            .len();
        if size > MAX_FILE as u64 {
            return Err(failed(&format!("it is larger than {} MiB", MAX_FILE >> 20)));
        }
        let bytes =
            fs::read(&path).map_err(|err| failed(&kindlm_store::describe_io_error(&err)))?;
        let decoded = decode_file(&bytes, MAX_FILE).map_err(|err| {
            failed(&err.to_string()).with_help(
                "it takes OTLP JSON, JSON lines as the collector's file exporter writes them, or OTLP protobuf, gzipped or not",
            )
        })?;
        let count = decoded.passed_over;
        if count > 0 {
            let s = if count == 1 { "" } else { "s" };
            notes.push(format!("`{name}`: {count} export{s} of other signals ignored"));
        }
        rejected.extend(received.add(decoded).into_iter().map(|why| format!("{name}: {why}")));
    }
    if received.spans() == 0 {
        let names: Vec<String> = files.iter().map(|it| format!("`{}`", it.display())).collect();
        let gathered =
            [vec![format!("there are no spans in {}", names.join(", "))], notes].concat();
        let message = gathered.join("; ");
        return Err(Failure::input(message)
            .with_help("nothing was judged: without spans there is no evidence of the agent"));
    }
    let lost = rejected.first().map(|why| format!("a part could not be read ({why})"));
    Ok(GatheredTraces {
        traces: received.into_traces(),
        rejected,
        lost,
        notes,
        ..GatheredTraces::default()
    })
}
