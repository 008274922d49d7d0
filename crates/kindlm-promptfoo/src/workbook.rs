//! Tests in an Excel file (`.xlsx`, `.xls`): a sheet is read like a CSV file.

use kindlm_source::{Node, Span};

use super::Translator;

/// The maximum size of an Excel file, in bytes.
const MAX_BYTES: u64 = 32 << 20;

/// Splits the path of an Excel file from the name or number of its sheet: `tests.xlsx#2`.
///
/// Returns `None` for other files.
pub(super) fn split(written: &str) -> Option<(&str, Option<&str>)> {
    let (file, sheet) = match written.split_once('#') {
        // promptfoo reads the first sheet if nothing follows the `#`.
        Some((file, sheet)) => (file, Some(sheet).filter(|it| !it.is_empty())),
        None => (written, None),
    };
    let (_, ending) = file.rsplit_once('.')?;
    let is_workbook = ["xlsx", "xls"].iter().any(|it| ending.eq_ignore_ascii_case(it));
    is_workbook.then_some((file, sheet))
}

impl Translator<'_> {
    /// Reads the tests of a sheet. Returns no tests after an error, which is reported.
    pub(super) fn tests_of_workbook(
        &mut self,
        span: Span,
        (file, sheet): (&str, Option<&str>),
    ) -> Vec<Node> {
        let bytes = match self.inputs.files.read_bytes(file, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(err) => {
                self.file_error(span, err.to_string(), "the path is relative to the config file");
                return Vec::new();
            }
        };
        match sheet_as_csv(&bytes, sheet) {
            Ok(content) => self.table(span, (file, &content)),
            Err(why) => {
                let help = "save the sheet as CSV, and name that file";
                self.file_error(span, format!("`{file}` cannot be read: {why}"), help);
                Vec::new()
            }
        }
    }
}

/// Returns the reason why this build cannot read Excel files.
#[cfg(not(feature = "xlsx"))]
fn sheet_as_csv(_bytes: &[u8], _sheet: Option<&str>) -> Result<String, String> {
    let how = "`cargo install --path crates/kindlm-cli --features full` builds one that can";
    Err(format!("this build of KindLM cannot read Excel files; {how}"))
}

#[cfg(feature = "xlsx")]
use reading::sheet_as_csv;

#[cfg(feature = "xlsx")]
mod reading {
    use std::collections::BTreeMap;
    use std::io::Cursor;

    use calamine::{Data, Reader, Sheets};
    use csv::{QuoteStyle, WriterBuilder};
    use kindlm_types::ecma;

    /// The maximum number of cells of a sheet, including empty cells.
    const MAX_CELLS: u64 = 4_000_000;

    /// The texts of the cells that are not empty, by row and column.
    type Cells = BTreeMap<(u32, u32), String>;

    /// Returns the cells of a sheet as CSV, with the texts that promptfoo reads.
    ///
    /// `sheet` is a name, or a number from 1; `None` is the first sheet.
    pub(super) fn sheet_as_csv(bytes: &[u8], sheet: Option<&str>) -> Result<String, String> {
        let mut book = calamine::open_workbook_auto_from_rs(Cursor::new(bytes))
            .map_err(|err| format!("it is not an Excel file: {err}"))?;
        let name = sheet_name(&book.sheet_names(), sheet)?;
        let cells = cells(&mut book, &name)?;
        written(&name, &cells)
    }

    pub(super) fn sheet_name(names: &[String], sheet: Option<&str>) -> Result<String, String> {
        let number = match sheet {
            None => Some(1),
            Some(sheet) => sheet.trim().parse::<usize>().ok(),
        };
        let found = match number {
            Some(number) => number.checked_sub(1).and_then(|it| names.get(it)),
            None => names.iter().find(|it| Some(it.as_str()) == sheet),
        };
        found.cloned().ok_or_else(|| {
            let all = names.join("`, `");
            format!("it has no sheet `{}`; its sheets are `{all}`", sheet.unwrap_or("1"))
        })
    }

    /// Reads the cells of a sheet. Empty cells take no memory.
    fn cells(book: &mut Sheets<Cursor<&[u8]>>, sheet: &str) -> Result<Cells, String> {
        let mut cells = Cells::new();
        let mut insert = |place: (u32, u32), cell: Data| -> Result<(), String> {
            let text = text(sheet, &cell, place)?;
            if !text.is_empty() {
                cells.insert(place, text);
            }
            Ok(())
        };
        if let Sheets::Xlsx(book) = book {
            let mut reader = book.worksheet_cells_reader(sheet).map_err(|err| err.to_string())?;
            while let Some(cell) = reader.next_cell().map_err(|err| err.to_string())? {
                insert(cell.get_position(), Data::from(cell.get_value().clone()))?;
            }
        } else {
            let range = book.worksheet_range(sheet).map_err(|err| err.to_string())?;
            let (row, column) = range.start().unwrap_or_default();
            for (below, beside, cell) in range.used_cells() {
                let below = u32::try_from(below).map_err(|err| err.to_string())?;
                let beside = u32::try_from(beside).map_err(|err| err.to_string())?;
                insert((row + below, column + beside), cell.clone())?;
            }
        }
        Ok(cells)
    }

    pub(super) fn written(sheet: &str, cells: &Cells) -> Result<String, String> {
        let last_row = cells.keys().map(|(row, _)| *row).max().unwrap_or_default();
        // A column without a name is left out, because nothing can refer to it.
        let columns: Vec<u32> =
            cells.range((0, 0)..(1, 0)).map(|((_, column), _)| *column).collect();
        if columns.is_empty() || last_row == 0 {
            return Err(format!(
                "the sheet `{sheet}` needs the names of the columns in its first row, and tests below"
            ));
        }
        if (u64::from(last_row) + 1) * columns.len() as u64 > MAX_CELLS {
            return Err(format!("the sheet `{sheet}` has more than {MAX_CELLS} cells"));
        }
        let mut writer =
            WriterBuilder::new().quote_style(QuoteStyle::Always).from_writer(Vec::new());
        for row in 0..=last_row {
            let texts =
                columns.iter().map(|column| cells.get(&(row, *column)).map_or("", String::as_str));
            writer.write_record(texts).map_err(|err| err.to_string())?;
        }
        let bytes = writer.into_inner().map_err(|err| err.to_string())?;
        String::from_utf8(bytes).map_err(|err| err.to_string())
    }

    /// Returns the text of a cell. Fails for an error value, a date or a duration. The text of a date or duration
    /// depends on the time zone or on a format.
    pub(super) fn text(
        sheet: &str,
        cell: &Data,
        (row, column): (u32, u32),
    ) -> Result<String, String> {
        let what = match cell {
            Data::Empty => return Ok(String::new()),
            Data::String(text) => return Ok(text.trim().to_owned()),
            Data::Int(number) => return Ok(number.to_string()),
            Data::Float(number) => return Ok(ecma::number(*number)),
            Data::Bool(value) => return Ok(value.to_string()),
            Data::Error(err) => format!("the error `{err}`"),
            Data::DateTime(_) | Data::DateTimeIso(_) | Data::DurationIso(_) => {
                "a date or a duration; format the cell as text".to_owned()
            }
        };
        Err(format!("the sheet `{sheet}` has in row {}, column {}: {what}", row + 1, column + 1))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_sheet_is_found_by_name_or_number() {
            let names = ["First".to_owned(), "Second".to_owned()];
            for (sheet, expected) in [
                (None, Ok("First")),
                (Some("2"), Ok("Second")),
                (Some("Second"), Ok("Second")),
                (Some("3"), Err("it has no sheet `3`; its sheets are `First`, `Second`")),
                (Some("0"), Err("it has no sheet `0`; its sheets are `First`, `Second`")),
            ] {
                let found = sheet_name(&names, sheet);
                let expected = expected.map(str::to_owned).map_err(str::to_owned);
                assert_eq!(found, expected, "{sheet:?}");
            }
        }

        #[test]
        fn cells_become_texts() {
            for (cell, expected) in [
                (Data::String(" a ".to_owned()), Some("a")),
                (Data::Float(2.0), Some("2")),
                (Data::Float(0.5), Some("0.5")),
                (Data::Bool(true), Some("true")),
                (Data::Empty, Some("")),
                (Data::DateTimeIso("2026-01-01".to_owned()), None),
            ] {
                let read = text("s", &cell, (1, 2));
                assert_eq!(read.as_deref().ok(), expected, "{cell:?}");
            }
        }

        #[test]
        fn empty_cells_and_unnamed_columns_become_csv() {
            let cell = |row, column, text: &str| ((row, column), text.to_owned());
            for (cells, expected) in [
                (
                    vec![
                        cell(0, 0, "q"),
                        cell(0, 2, "r"),
                        cell(1, 1, "unnamed"),
                        cell(2, 2, "a,b"),
                    ],
                    Some("\"q\",\"r\"\n\"\",\"\"\n\"\",\"a,b\"\n"),
                ),
                (vec![cell(0, 0, "q")], None),
                (vec![cell(1, 0, "q")], None),
                (vec![cell(0, 0, "q"), cell(4_000_000, 0, "r")], None),
            ] {
                let read = written("s", &cells.clone().into_iter().collect());
                assert_eq!(read.as_deref().ok(), expected, "{cells:?}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_is_named_behind_the_file() {
        for (written, expected) in [
            ("a.xlsx", Some(("a.xlsx", None))),
            ("a/b.XLS#Sheet 2", Some(("a/b.XLS", Some("Sheet 2")))),
            ("a.xlsx#", Some(("a.xlsx", None))),
            ("a.csv", None),
            ("xlsx", None),
        ] {
            assert_eq!(split(written), expected, "{written}");
        }
    }
}
