//! What the report will say of each case before its executions, kept outside of memory until it is written.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use kindlm_types::CaseResult;
use kindlm_types::wire::v1::CaseHead;

/// The heads of the cases that this process has finished, in a file without a name.
///
/// They only save work: what they say can be made again from the executions. After an error, do without them.
#[derive(Debug)]
pub struct Heads {
    file: BufWriter<File>,
    /// By position of the case: where its head is, and how many bytes it has.
    places: Vec<Option<(u64, u32)>>,
    end: u64,
    /// Whether the file stands where it was read, and not at its end.
    was_read: bool,
}

impl Heads {
    /// None yet; the file is in this folder.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 16, tempfile::tempfile_in(folder)?);
        Ok(Self { file, places: Vec::new(), end: 0, was_read: false })
    }

    /// Keeps the head of a case.
    pub fn keep(&mut self, position: usize, case: &CaseResult) -> io::Result<()> {
        let head = CaseHead::of(case)?;
        let bytes = head.as_str().as_bytes();
        let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        if std::mem::take(&mut self.was_read) {
            self.file.seek(SeekFrom::End(0))?;
        }
        self.file.write_all(bytes)?;
        if self.places.len() <= position {
            self.places.resize(position + 1, None);
        }
        if let Some(place) = self.places.get_mut(position) {
            *place = Some((self.end, len));
        }
        self.end += u64::from(len);
        Ok(())
    }

    /// The head of a case, if it was kept.
    pub fn read(&mut self, position: usize) -> io::Result<Option<CaseHead>> {
        let Some((offset, len)) = self.places.get(position).copied().flatten() else {
            return Ok(None);
        };
        self.file.flush()?;
        self.was_read = true;
        let mut file = self.file.get_ref();
        file.seek(SeekFrom::Start(offset))?;
        let mut text = String::with_capacity(len as usize);
        file.take(u64::from(len)).read_to_string(&mut text)?;
        Ok(Some(CaseHead::kept(text)))
    }
}

#[cfg(test)]
mod tests {
    use kindlm_types::{CheckCounts, Cost, Execution, ExecutionResult, Outcome, Usage, wire::v1};

    use super::*;

    fn case(name: &str, repeats: u32) -> CaseResult {
        let execution = |repeat| ExecutionResult {
            execution: Execution { case: name.to_owned(), repeat, ..Execution::default() },
            results: Vec::new(),
            outcome: Outcome::Passed,
            error: None,
            judge_cost_usd: None,
            judge_usage: Usage::default(),
        };
        CaseResult {
            case: name.to_owned(),
            model: "m \"ö\"".to_owned(),
            tags: vec!["a".to_owned()],
            digest: Some("0f".to_owned()),
            plan_index: None,
            outcome: Outcome::Passed,
            pass_rate: 1.0,
            repeats,
            errored_repeats: 0,
            scores: Vec::new(),
            failure_codes: Vec::new(),
            checks: CheckCounts::default(),
            latency_avg_ms: Some(0.1),
            cost: Cost::default(),
            total_tokens: 3,
            executions: (0..repeats).map(execution).collect(),
        }
    }

    #[test]
    fn a_head_around_its_executions_is_the_case_as_it_would_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut heads = Heads::new(folder.path()).unwrap();
        let cases = [case("a", 0), case("b", 1), case("c", 3)];
        let check = |heads: &mut Heads, at: usize| {
            let executions = cases[at].executions.iter().map(v1::Execution::from);
            let executions = executions.map(|it| serde_json::to_string(&it).unwrap());
            let whole = heads.read(at).unwrap().unwrap().around(executions);
            assert_eq!(whole, serde_json::to_string(&v1::Case::from(&cases[at])).unwrap());
        };
        heads.keep(2, &cases[2]).unwrap();
        heads.keep(0, &cases[0]).unwrap();
        check(&mut heads, 2);
        assert_eq!(heads.read(1).unwrap(), None);
        heads.keep(1, &cases[1]).unwrap();
        (0..3).for_each(|at| check(&mut heads, at));
        assert_eq!(heads.read(3).unwrap(), None);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the file has no name");
    }
}
