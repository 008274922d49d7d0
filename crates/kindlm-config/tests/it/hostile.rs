//! Malicious and meaningless files.

use std::fmt::Write as _;

use kindlm_config::{Code, Loaded, MAX_BYTES, load};
use kindlm_types::NoFiles;
use proptest::prelude::*;

use crate::counted::allocated;
use crate::memory::{GOOD, load_text, with};

/// The maximum number of bytes that reading a file may allocate in total.
///
/// The first number is a base amount, and the second number is an amount per byte of the file.
const MOST: (u64, u64) = (32 << 20, 200);

fn load_bytes(bytes: &[u8]) -> Loaded {
    // Allocated memory measures the work independently of the machine's load.
    let (loaded, taken) = allocated(|| load("kindlm.yaml", bytes, &NoFiles, &|_| None));
    let most = MOST.0 + MOST.1 * bytes.len() as u64;
    assert!(taken < most, "{taken} bytes were taken, and at most {most} may be");
    for it in loaded.diagnostics.iter().take(50) {
        assert!(kindlm_config::render(it, false).len() < 20_000);
    }
    loaded
}

fn first(text: &str) -> (Code, String) {
    let loaded = load_bytes(text.as_bytes());
    let first = loaded.diagnostics.first().unwrap_or_else(|| panic!("nothing is wrong"));
    (first.code, first.message.clone())
}

#[test]
fn endless_expansion_is_stopped() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for it in 1..20 {
        let aliases = vec![format!("*a{}", it - 1); 10].join(", ");
        writeln!(bomb, "a{it}: &a{it} [{aliases}]").unwrap();
    }
    assert_eq!(
        first(&bomb),
        (Code::SYNTAX, "the aliases of this document expand to too many values".to_owned())
    );

    let mut merges = "a0: &a0 { k: v }\n".to_owned();
    for it in 1..60 {
        let before = it - 1;
        writeln!(
            merges,
            "a{it}: &a{it} {{ <<: *a{before}, x{it}: *a{before}, y{it}: *a{before} }}"
        )
        .unwrap();
    }
    assert_eq!(first(&merges).0, Code::SYNTAX);

    let text = format!("big: &big {}\nmany: [{}]", "x".repeat(1_000_000), "*big, ".repeat(100_000));
    assert_eq!(first(&text).0, Code::SYNTAX);
    assert_eq!(
        first("a: &a [*a]"),
        (Code::SYNTAX, "the alias refers to a value that contains it".to_owned())
    );
}

#[test]
fn nesting_is_limited_however_it_is_written() {
    let mut chain = format!("a0: &a0 {}x{}\n", "[".repeat(60), "]".repeat(60));
    for it in 1..1000 {
        writeln!(chain, "a{it}: &a{it} {}*a{}{}", "[".repeat(60), it - 1, "]".repeat(60)).unwrap();
    }
    for text in [
        "[".repeat(10_000),
        "{a: ".repeat(10_000),
        "- ".repeat(10_000),
        (0..10_000).fold(String::new(), |mut text, depth| {
            writeln!(text, "{}a:", " ".repeat(depth)).unwrap();
            text
        }),
        "? ".repeat(10_000),
        chain,
    ] {
        let (code, message) = first(&text);
        assert_eq!(code, Code::SYNTAX);
        assert!(message.contains("nested deeper than 128 levels"), "{message}: {}", &text[..40]);
    }
}

#[test]
fn large_files_are_read_or_refused() {
    let (code, message) = first(&format!("{GOOD}# {}", "x".repeat(MAX_BYTES)));
    assert_eq!(code, Code::TOO_LARGE);
    assert!(message.contains("67108864"), "{message}");
    assert!(load_bytes(format!("{GOOD}# {}", "x".repeat(5_000_000)).as_bytes()).suite.is_some());
    assert!(
        load_bytes(with("You are polite.", &"polite ".repeat(500_000)).as_bytes()).suite.is_some()
    );
    let (code, message) = first(&format!("list: [{}]", "x, ".repeat(1_100_000)));
    assert_eq!(code, Code::SYNTAX);
    assert!(message.contains("more than 1000000 keys and values"), "{message}");
}

#[test]
fn thousands_of_problems_are_cut_short() {
    let mut keys = GOOD.to_owned();
    let mut tests = GOOD.to_owned();
    let mut duplicates = GOOD.to_owned();
    for it in 0..20_000 {
        writeln!(keys, "k{it}: 1").unwrap();
        writeln!(tests, "  - {{ name: {it}, promt: greet }}").unwrap();
        writeln!(duplicates, "project: {it}").unwrap();
    }
    for text in [keys, tests, duplicates] {
        let loaded = load_bytes(text.as_bytes());
        assert!((50..=510).contains(&loaded.diagnostics.len()), "{}", loaded.diagnostics.len());
    }
}

#[test]
fn odd_bytes_are_reported_at_their_place() {
    for (bytes, line, column) in [
        (&b"kindlm: 1\nproject: a\0"[..], 2, 11),
        (b"kindlm: 1\n\xC3\x28", 2, 1),
        (b"\xEF\xBB\xBFkindlm: \xFF", 1, 9),
    ] {
        let loaded = load_bytes(bytes);
        let place = loaded.diagnostics[0].position();
        assert_eq!((place.line, place.column), (line, column), "{bytes:?}");
    }
    assert!(!load_bytes(&vec![0xFF; 100_000]).diagnostics.is_empty());
    assert!(!load_bytes(&vec![0; 100_000]).diagnostics.is_empty());
}

#[test]
fn line_breaks_and_byte_order_marks_do_not_matter() {
    assert!(load_bytes(GOOD.replace('\n', "\r\n").as_bytes()).suite.is_some());
    assert!(load_bytes(format!("\u{feff}{GOOD}").as_bytes()).suite.is_some());
    assert!(load_bytes(format!("%YAML 1.2\n---\n{GOOD}...\n").as_bytes()).suite.is_some());
    let crlf = with("    prompt: greet\n", "    promt: greet\n").replace('\n', "\r\n");
    let place = load_bytes(crlf.as_bytes()).diagnostics[0].position();
    assert_eq!((place.line, place.column), (21, 5));
}

#[test]
fn words_that_were_booleans_are_texts() {
    for word in ["yes", "no", "on", "off", "y", "1_000", "017", "12:30"] {
        let loaded = load_text(&with("vars: { name: Ada }", &format!("vars: {{ name: {word} }}")));
        assert_eq!(loaded.suite.unwrap().cases[0].body.body().unwrap().vars["name"], word);
    }
}

/// Generates JSON values for a config file. All numbers are integers.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        "[a-z0-9 :#'\"{}\\[\\],&*!|>%@`.~éß🐎-]{0,12}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map("[a-z .:-]{1,6}", inner, 0..5)
                .prop_map(|it| serde_json::Value::Object(it.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = load_bytes(&bytes);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[\\PC\n\t:#&*!\\[\\]{},'\"|>-]{0,200}") {
        let _ = load_bytes(text.as_bytes());
    }

    #[test]
    fn no_damage_makes_it_panic(at in 0..GOOD.len(), by in "[\\[\\]{}:,'\"&*!#\n -]{0,3}", cut in 0..20_usize) {
        let mut text = GOOD.to_owned();
        if text.is_char_boundary(at) && text.is_char_boundary((at + cut).min(text.len())) {
            text.replace_range(at..(at + cut).min(GOOD.len()), &by);
        }
        let loaded = load_bytes(text.as_bytes());
        prop_assert_eq!(loaded.suite.is_none(), !loaded.diagnostics.is_empty());
    }

    #[test]
    fn written_yaml_is_read_back(value in json()) {
        for written in [serde_yaml::to_string(&value).unwrap(), value.to_string()] {
            let indented: String = written.lines().fold(String::new(), |text, it| text + "        " + it + "\n");
            let text = with("vars: { name: Ada }", &format!("vars:\n      name:\n{indented}"));
            let loaded = load_text(&text);
            // The value must be accepted, and read unchanged.
            if let Some(suite) = loaded.suite {
                prop_assert_eq!(&suite.cases[0].body.body().unwrap().vars["name"], &value, "{}", text);
            } else {
                prop_assert!(false, "{}\n{}", text, crate::memory::render_all(&loaded));
            }
        }
    }
}
