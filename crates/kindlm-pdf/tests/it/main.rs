//! Tests of the PDF: its standard, its texts, its size.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use kindlm_pdf::{Pdf, PdfError, pdf};
use kindlm_reporters::{Style, find};
use kindlm_testing::sample_report;
use kindlm_types::Report;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns the text of the reporter `compliance-pdf`.
fn source(report: &Report) -> String {
    let mut source = String::new();
    (find("compliance-pdf").unwrap().render)(report, &Style::default(), &mut source).unwrap();
    source
}

/// Returns a document with every kind of block, and with the text in every place.
fn every_block(text: &str) -> String {
    let mut blocks: Vec<Value> = ["paragraph", "strong", "law", "alert", "quote"]
        .iter()
        .map(|is| json!({"is": is, "text": text}))
        .collect();
    blocks.extend((2..=4).map(|level| json!({"is": "heading", "level": level, "text": text})));
    blocks.push(json!({"is": "code", "lines": [text, ""]}));
    blocks.push(json!({"is": "list", "items": [{"strong": text, "text": text}, {"strong": "", "text": text}]}));
    for columns in [1, 2, 5, 9] {
        let row = vec![json!({"text": text}); columns - 1];
        let row: Vec<Value> = std::iter::once(json!({"code": text})).chain(row).collect();
        let columns = vec![text; columns];
        blocks.push(json!({"is": "table", "columns": columns, "rows": [row, row]}));
    }
    let document = json!({
        "title": format!("t {text}"), "run": text, "started": "2026-11-25T10:00:00Z", "creator": text,
        "blocks": blocks, "is_complete": true,
    });
    document.to_string()
}

/// Returns true if the bytes contain the text.
fn contains(pdf: &Pdf, text: &str) -> bool {
    pdf.bytes.windows(text.len()).any(|it| it == text.as_bytes())
}

#[test]
fn the_sample_is_a_tagged_pdf_a() {
    let pdf = pdf(&source(&sample_report())).unwrap();
    assert!(pdf.bytes.starts_with(b"%PDF-1.7"));
    for part in ["<pdfaid:part>2</pdfaid:part>", "<pdfaid:conformance>A</pdfaid:conformance>"] {
        assert!(contains(&pdf, part), "{part}");
    }
    for part in ["/StructTreeRoot", "/MarkInfo", "/Lang", "/FontFile2", "/OutputIntents"] {
        assert!(contains(&pdf, part), "{part}");
    }
    // The file has no scripts, program starts, attachments, links or forms.
    for part in ["/JavaScript", "/Launch", "/EmbeddedFile", "/URI", "/AcroForm"] {
        assert!(!contains(&pdf, part), "{part}");
    }
}

#[test]
fn the_same_report_gives_the_same_bytes() {
    let report = sample_report();
    let first = pdf(&source(&report)).unwrap();
    assert!(first == pdf(&source(&report)).unwrap());
    let mut other = report;
    other.cases[0].case.push('!');
    assert!(first != pdf(&source(&other)).unwrap());
}

#[test]
fn no_text_acts_as_markup() {
    for text in [
        "#panic(\"acted\")",
        "#read(\"/etc/passwd\")",
        "*a _b `c $d <e> @f = g [h] \\ / // /* -- ~ https://a.example",
        "= heading\n- item\n+ item\n/ term: x",
        "]#import \"x.typ\"[",
        "\"); panic(\"acted",
        "$ x^2 $ #(1/0) ${y} {{z}}",
    ] {
        let pdf = pdf(&every_block(text)).unwrap();
        assert_eq!(pdf.replaced, 0, "{text}");
        assert!(!contains(&pdf, "/URI"), "{text}");
    }
}

#[test]
fn a_character_without_a_glyph_is_shown_and_counted() {
    let document = |text: &str| {
        let block = json!({"is": "paragraph", "text": text});
        json!({"title": "t", "run": "r", "started": "2026-11-25T10:00:00Z", "creator": "c", "blocks": [block],
            "is_complete": true})
        .to_string()
    };
    for (text, replaced) in [
        ("plain, é, Ж, λ, → ✓ – …", 0),
        ("日本", 2),
        ("👩\u{200d}🚀", 2),
        ("\u{e000}\u{0}\u{10ffff}", 3),
        ("العربية עברית", 0),
    ] {
        assert_eq!(pdf(&document(text)).unwrap().replaced, replaced, "{text}");
    }
    // The document also states the number of replaced characters, so it is larger than a document that already contains
    // the codes.
    let written = pdf(&document("\\u{65e5}\\u{672c}")).unwrap();
    assert!(pdf(&document("日本")).unwrap().bytes.len() > written.bytes.len());
}

#[test]
fn an_incomplete_source_is_rejected() {
    let whole = source(&sample_report());
    for end in [0, 1, whole.len() / 2, whole.len() - 3] {
        let end = (0..=end).rev().find(|it| whole.is_char_boundary(*it)).unwrap();
        assert!(matches!(pdf(&whole[..end]), Err(PdfError::Source(_))), "{end}");
    }
    let open = whole.replace("\"is_complete\":true", "\"is_complete\":false");
    assert!(matches!(pdf(&open), Err(PdfError::Source(_))));
}

#[test]
fn a_run_without_a_time_has_no_pdf() {
    let mut report = sample_report();
    report.run.started_at = "yesterday".to_owned();
    let err = pdf(&source(&report)).unwrap_err();
    assert_eq!(
        err.to_string(),
        "the run started at `yesterday`, which is not a time; a PDF/A needs a date"
    );
}

/// Returns texts of all scripts, with marks that combine, join and change the direction.
fn any_text() -> impl Strategy<Value = String> {
    let range = |from: char, to: char| proptest::char::range(from, to).prop_map(String::from);
    let part = prop_oneof![
        any::<char>().prop_map(String::from),
        range('\u{20}', '\u{7e}'),
        range('\u{a0}', '\u{24f}'),
        range('\u{300}', '\u{36f}'),
        range('\u{370}', '\u{58f}'),
        range('\u{590}', '\u{7ff}'),
        range('\u{900}', '\u{1fff}'),
        range('\u{2000}', '\u{2fff}'),
        range('\u{a000}', '\u{abff}'),
        range('\u{f000}', '\u{ffff}'),
        range('\u{1d400}', '\u{1f9ff}'),
        prop::sample::select(vec![
            "\n",
            "    ",
            "ffi",
            "\u{200d}",
            "\u{fe0f}",
            "\u{feff}",
            "#[",
            "WWWWWWWWWWWWWWWWWWWWWWWWWWW"
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn any_text_can_be_written(text in any_text()) {
        pdf(&every_block(&text)).unwrap();
        let mut report = sample_report();
        report.suite.name.clone_from(&text);
        report.suite.files[0].path.clone_from(&text);
        report.cases[0].case.clone_from(&text);
        report.cases[1].executions[0].execution.output.clone_from(&text);
        report.warnings.push(text);
        pdf(&source(&report)).unwrap();
    }
}
