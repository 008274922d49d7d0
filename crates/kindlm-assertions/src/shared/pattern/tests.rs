//! Tests of matches against a table of results from Node.js 20.

use proptest::prelude::*;

use super::*;

#[rustfmt::skip]
const MATCHES: &[(&str, bool, &str, &[&str])] = &[
    ("\\d+", false, "a12b٣4", &["12", "4"]),
    ("\\w+", false, "naïve x_1", &["na", "ve", "x_1"]),
    ("\\W", false, "aé b", &["é", " "]),
    ("\\s", false, "a\u{a0}b\u{feff}c\u{2003}d e", &["\u{a0}", "\u{feff}", "\u{2003}", " "]),
    ("\\S+", false, "a\u{a0}bc", &["a", "bc"]),
    (".+", false, "ab\u{a}cd\u{2028}ef\u{d}gh", &["ab", "cd", "ef", "gh"]),
    ("\\bna\\b", false, "naïve na éna", &["na", "na", "na"]),
    ("\\Bb", false, "ab b éb", &["b"]),
    ("a*", false, "baaac", &["", "aaa", "", ""]),
    ("x*", false, "ab", &["", "", ""]),
    ("", false, "ab", &["", "", ""]),
    ("(a)\\1", false, "aa aA", &["aa"]),
    ("(a)\\1", true, "aA", &["aA"]),
    ("(a)?b\\1", false, "b ab aba", &["b", "b", "aba"]),
    ("\\2(a)", false, "a\u{2}a", &["\u{2}a"]),
    ("(?<y>\\d)-\\k<y>", false, "1-1 1-2", &["1-1"]),
    ("\\k<y>", false, "k<y>", &["k<y>"]),
    ("(?=a)a", false, "ba", &["a"]),
    ("a(?!b)", false, "ab ac", &["a"]),
    ("(?<=\\$)\\d+", false, "$12 13", &["12"]),
    ("(?<!\\$)\\b\\d+", false, "$12 13", &["13"]),
    ("(?<=a+)b", false, "aab b", &["b"]),
    ("a{2}", false, "aaaa", &["aa", "aa"]),
    ("a{2,}?", false, "aaaa", &["aa", "aa"]),
    ("a{1,3}", false, "aaaa", &["aaa", "a"]),
    ("a{", false, "a{", &["a{"]),
    ("a{,2}", false, "a{,2} aa", &["a{,2}"]),
    ("{}", false, "{}", &["{}"]),
    ("a{x}", false, "a{x}", &["a{x}"]),
    ("]", false, "]", &["]"]),
    ("}", false, "}", &["}"]),
    ("[a-z]+", true, "AbſK", &["Ab", "K"]),
    ("[^a-z]+", true, "AbſK1", &["ſ", "1"]),
    ("s", true, "sSſ", &["s", "S"]),
    ("ß", true, "ßẞSS", &["ß"]),
    ("σ", true, "σςΣ", &["σ", "ς", "Σ"]),
    ("é", true, "éÉ", &["é", "É"]),
    ("i", true, "iIİı", &["i", "I"]),
    ("\\u00e9", false, "é", &["é"]),
    ("\\u{41}", false, "uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu", &["uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu"]),
    ("\\p{L}", false, "p{L} é", &["p{L}"]),
    ("[\\w-x]+", false, "a-x", &["a-x"]),
    ("[a-\\d]+", false, "a-5z", &["a-5"]),
    ("[\\b]", false, "a\u{8}b", &["\u{8}"]),
    ("[]", false, "a", &[]),
    ("[^]", false, "\u{a}", &["\u{a}"]),
    ("[^]]", false, "a]", &["a]"]),
    ("[\\]]", false, "]", &["]"]),
    ("[a\\-z]+", false, "a-zb", &["a-z"]),
    ("[--/]+", false, "-./", &["-./"]),
    ("\\0", false, "a\u{0}", &["\u{0}"]),
    ("\\101", false, "A", &["A"]),
    ("\\8", false, "8", &["8"]),
    ("\\x41\\x4", false, "Ax4", &["Ax4"]),
    ("\\cA", false, "\u{1}", &["\u{1}"]),
    ("\\c1", false, "\\c1", &["\\c1"]),
    ("[\\c1]+", false, "\u{11}", &["\u{11}"]),
    ("[\\c*]+", false, "\\c*", &["\\c*"]),
    ("\\_\\-\\/\\@", false, "_-/@", &["_-/@"]),
    ("^a|b$", false, "ab ab", &["a", "b"]),
    ("(?:a|ab)(?:c|bcd)(d*)", false, "abcd", &["abcd"]),
    ("(a|b)*c", false, "abac", &["abac"]),
    ("a??b", false, "ab", &["ab"]),
    ("\\u", false, "u", &["u"]),
    ("\\ud83d\\ude00+", false, "😀", &["😀"]),
    ("😀", false, "x😀", &["😀"]),
    ("(\\d{3}){2}", false, "123456", &["123456"]),
    ("\\++", false, "++", &["++"]),
    ("#\\d~&", false, "#1~&", &["#1~&"]),
    ("a b", false, "a b", &["a b"]),
    ("\\t\\n\\v\\f\\r", false, "\u{9}\u{a}\u{b}\u{c}\u{d}", &["\u{9}\u{a}\u{b}\u{c}\u{d}"]),
    ("(?:)", false, "a", &["", ""]),
    ("x|", false, "ax", &["", "x", ""]),
    ("(?<=^|,)[^,]*", false, "a,,b", &["a", "", "b"]),
    ("\\b", false, "ab cd", &["", "", "", ""]),
    ("[\\s\\S]", false, "\u{a}", &["\u{a}"]),
    ("[\\D]+", false, "a1b", &["a", "b"]),
    ("$", false, "a", &[""]),
    ("[A-Z|a-z]{2,}", false, "a|B C", &["a|B"]),
    ("\\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\\.[A-Z|a-z]{2,}\\b", true, "x JANE@EXAMPLE.com, é@b.co", &["JANE@EXAMPLE.com"]),
];

fn found<'t>(pattern: &Pattern, text: &'t str) -> Vec<&'t str> {
    pattern.find_iter(text).map(|range| &text[range.unwrap()]).collect()
}

#[test]
fn matches_like_javascript() {
    for &(source, ignore_case, text, expected) in MATCHES {
        let pattern = Pattern::new(source, Flags { ignore_case })
            .unwrap_or_else(|err| panic!("{source}: {err}"));
        assert_eq!(found(&pattern, text), expected, "{source} in {text:?}");
        assert_eq!(pattern.is_match(text), Ok(!expected.is_empty()), "{source} in {text:?}");
    }
}

#[test]
fn refuses_the_same_patterns_as_javascript() {
    for source in [
        "(?i)a",
        "[",
        "a{2}+",
        "a**",
        "(",
        "a)",
        "*a",
        "(?<n",
        "(?<1>a)",
        "[b-a]",
        "a{2,1}",
        "\\",
        "(?P<n>a)",
        "a++",
        "(?>a)",
        "(?#c)",
        "{1}",
        "^*",
        "\\b+",
        "(?<=a)*",
        "(?<a>x)(?<a>y)",
        "(?<a>.)\\k<b>",
        "(?<a>.)\\k",
    ] {
        let err = Pattern::compile(source).expect_err(source);
        assert!(matches!(err, PatternError::Syntax { .. }), "{source}: {err:?}");
    }
}

#[test]
fn inline_flags_get_advice() {
    let ignoring = Flags { ignore_case: true };
    for (source, flags, help) in [
        ("(?i)secret", ignoring, "matching ignores case already: remove `(?i)`"),
        (
            "(?i)secret",
            Flags::default(),
            "JavaScript has no inline flags such as `(?i)`: remove them",
        ),
        ("(?im)x", ignoring, "JavaScript has no inline flags such as `(?im)`: remove them"),
        ("[", ignoring, "patterns are written as in JavaScript, without `/` around them"),
    ] {
        let problem = Pattern::new(source, flags).unwrap_err().problem("/0");
        assert_eq!(problem.help.as_deref(), Some(help), "{source}");
        assert_eq!(problem.pointer, "/0");
    }
}

#[test]
fn exponential_patterns_stay_linear_or_are_given_up() {
    let text = "a".repeat(5_000) + "!";
    for source in ["(a|aa)+$", "(a+)+$", "(.*a){12}$", r"(\d{3}){2}x|(a*)*b"] {
        assert_eq!(Pattern::compile(source).unwrap().is_match(&text), Ok(false), "{source}");
    }
    for source in [r"(a|aa)+\1!!$", r"(?=(a+)+$)\1b"] {
        let pattern = Pattern::compile(source).unwrap();
        let err = pattern.is_match(&text).unwrap_err();
        assert_eq!(err.source_text, source);
        assert_eq!(pattern.find_iter(&text).collect::<Vec<_>>(), [Err(err)], "{source}");
    }
}

#[test]
fn huge_and_deep_patterns_are_errors_not_crashes() {
    for source in [
        "((a{1000}){1000}){1000}".to_owned(),
        "(".repeat(20_000) + &")".repeat(20_000),
        "(?:".repeat(900) + &")".repeat(900),
    ] {
        if let Err(err) = Pattern::compile(&source) {
            assert!(err.problem("").help.is_some());
        }
    }
    assert!(Pattern::compile("((a{1000}){1000}){1000}").is_err());
}

proptest! {
    #[test]
    fn any_text_is_a_pattern_or_a_problem(source in r"[a-z0-9\\\[\](){}?*+.^$|,:<>=!é😀-]{0,24}", text in ".{0,12}") {
        for ignore_case in [false, true] {
            if let Ok(pattern) = Pattern::new(&source, Flags { ignore_case }) {
                for range in pattern.find_iter(&text).flatten() {
                    prop_assert!(text.get(range).is_some());
                }
            }
        }
    }
}
