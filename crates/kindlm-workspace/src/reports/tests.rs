//! Tests of each format with short reports, complete and damaged.

use proptest::prelude::*;

use super::*;

/// Returns one line per test, or the error.
///
/// A line has the status, the name, and the first line of the message.
fn shown(format: TestFormat, report: &str) -> String {
    let tests = match parse_tests(format, report, "/repo", |it| it.ends_with("exit.test.mjs")) {
        Ok(tests) => tests,
        Err(why) => return format!("error: {why}\n"),
    };
    let line = |it: &TestRan| {
        let message = it.message.as_deref().and_then(|it| it.lines().next());
        let message = message.map(|it| format!(": {it}")).unwrap_or_default();
        format!("{:?} {}{message}\n", it.status, it.name)
    };
    tests.iter().map(line).collect()
}

const VITEST: &str = include_str!("samples/vitest.json");
const NODE: &str = include_str!("samples/node.tap");
const JUNIT: &str = include_str!("samples/junit.xml");
const NEXTEST: &str = include_str!("samples/nextest.jsonl");
const CARGO: &str = include_str!("samples/cargo-test.txt");
const GO: &str = include_str!("samples/go.jsonl");
const NEXTEST_IGNORED: &str = include_str!("samples/nextest-ignored.jsonl");
const JEST_TODO: &str = include_str!("samples/jest-junit-todo.xml");
const PYTEST_EXIT: &str = include_str!("samples/pytest-exit.json");
const NODE_20_EXIT: &str = include_str!("samples/node-20-exit.tap");
const NODE_24_EXIT: &str = include_str!("samples/node-24-exit.tap");
const PYTEST: &str = include_str!("samples/pytest.json");

#[test]
#[expect(clippy::too_many_lines, reason = "a table of reports")]
fn every_test_of_a_report_is_read() {
    for (format, report, expected) in [
        (
            TestFormat::Vitest,
            VITEST,
            "Passed EVAL.ts > cart > adds\n\
             Failed EVAL.ts > cart > rounds: AssertionError: expected 0.30000000000000004 to be 0.3 // Object.is equality\n\
             Skipped EVAL.ts > cart > taxes\n\
             Skipped EVAL.ts > cart > ships\n",
        ),
        (
            TestFormat::Tap,
            NODE,
            "Passed cart > adds\nFailed cart > rounds: duration_ms: 34.458245\n\
             Skipped cart > taxes\nSkipped cart > ships\nPassed alone\n",
        ),
        (
            TestFormat::Junit,
            JUNIT,
            "Passed tests.cart.Cart > adds\n\
             Failed tests.cart.Cart > rounds: assert 0.30000000000000004 == 0.3\n\
             Skipped tests.cart.Cart > taxes\nFailed ships: boom\n",
        ),
        (
            TestFormat::CargoNextest,
            NEXTEST,
            "Passed shop::shop > cart::adds\n\
             Failed shop::shop > cart::rounds: assertion `left == right` failed\n\
             Skipped shop::shop > cart::taxes\n",
        ),
        (
            TestFormat::Junit,
            "<testsuites tests='6'><testcase name='a'/><testsuite tests='5'>\
             <testcase name='b' status='run' result='completed'/><testcase name='c' status='notrun'/>\
             <testcase name='d' status='run' result='suppressed'/><testcase name='e' status='fail'/>\
             <testcase name='f' status='Disabled'><failure message='x'/></testcase></testsuite></testsuites>",
            "Passed a\nPassed b\nSkipped c\nSkipped d\nFailed e\nFailed f: x\n",
        ),
        (TestFormat::CargoNextest, "<testsuite><testcase name='a'/></testsuite>", "Passed a\n"),
        // A suite ends and starts again. Its ignored tests are counted twice, or have no event for their end.
        (
            TestFormat::CargoNextest,
            NEXTEST_IGNORED,
            "Passed shop::shop > t::u\nSkipped shop::eval > ig\n\
             Failed shop::eval > f: thread 'f' panicked at tests/eval.rs:3:17:\n\
             Passed shop::eval > sp\nPassed shop::eval > p\nSkipped shop::shop > t::uig\n",
        ),
        // Jest lists a `todo` in the same way as a passed test, but does not count it.
        (
            TestFormat::Junit,
            JEST_TODO,
            "Passed  p\nSkipped  s\nSkipped  t\nSkipped d n\n\
             Passed undefined: 2 of 3 tests that took no time\n",
        ),
        (
            TestFormat::Junit,
            "<testsuite tests='1'><testcase name='a' time='0.1'/><testcase name='t' time='0'/></testsuite>",
            "Passed a\nSkipped t\n",
        ),
        (
            TestFormat::PytestJson,
            "{\"exitcode\":0,\"summary\":{\"total\":1,\"collected\":1},\"tests\":[{\"nodeid\":\"t.py::a\",\
             \"outcome\":\"passed\",\"setup\":{\"outcome\":\"passed\"}}]}",
            "Failed t.py > a: it was set up, but not called before the session ended\n",
        ),
        // The temporary folder is removed from names.
        (
            TestFormat::Tap,
            "# Subtest: /repo/a.mjs\nnot ok 1 - /repo/a.mjs\n1..1\n",
            "Failed a.mjs\n",
        ),
        (
            TestFormat::CargoTest,
            CARGO,
            "Passed cart::adds\nPassed cart::overflows\nSkipped cart::taxes\n\
             Failed cart::rounds: thread 'cart::rounds' panicked at src/lib.rs:12:9:\n\
             Passed src/lib.rs - cart::total (line 3)\n",
        ),
        (
            TestFormat::GoTestJson,
            GO,
            "Passed shop > TestCart > adds\nFailed shop > TestCart > rounds: cart_test.go:9: got 119, want \
             120\nSkipped shop > TestTax\nFailed shop > TestHangs: it was started, but did not end\nFailed \
             shop/broken: broken/a.go:3:1: syntax error\n",
        ),
        (
            TestFormat::GoTestJson,
            "FAIL\tshop/q [build failed]\n{\"Action\":\"run\",\"Package\":\"p\",\"Test\":\"A\"}\n\
             {\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"A\"}\n{\"Action\":\"pass\",\"Package\":\"p\"}\n",
            "Failed shop/q: FAIL\tshop/q [build failed]\nPassed p > A\n",
        ),
        (
            TestFormat::PytestJson,
            PYTEST,
            "Failed tests/broken.py: SyntaxError: invalid syntax\n\
             Passed tests/test_cart.py > TestCart > test_adds\n\
             Failed tests/test_cart.py > TestCart > test_rounds: E   assert 119 == 120\n\
             Skipped tests/test_cart.py > test_taxes\n\
             Failed tests/test_cart.py > test_ships: E   fixture 'x' not found\n",
        ),
    ] {
        assert_eq!(shown(format, report), expected, "{format:?}");
    }
}

/// Returns a Vitest report with one passed test. `more` has additional keys, each with a comma after its value.
fn passed_in_vitest(more: &str) -> String {
    format!(
        r#"{{{more}"numTotalTests":1,"testResults":[{{"name":"A","status":"passed","assertionResults":[{{"title":"a","status":"passed"}}]}}]}}"#
    )
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of reports")]
fn missing_parts_of_a_report_are_noticed() {
    let without = |report: &str, what: &str| report.replacen(what, "", 1);
    for (format, report, why) in [
        (TestFormat::Vitest, String::new(), "there is no report"),
        (TestFormat::Vitest, " \n".to_owned(), "there is no report"),
        (TestFormat::Vitest, "Error: no such file".to_owned(), "not a readable `vitest`"),
        (TestFormat::Vitest, "{}".to_owned(), "missing field `numTotalTests`"),
        (
            TestFormat::Vitest,
            VITEST.replace("\"numTotalTests\": 4", "\"numTotalTests\": 5"),
            "`numTotalTests` is 5, but 4 are listed",
        ),
        (TestFormat::Vitest, VITEST[..VITEST.len() - 20].to_owned(), "EOF"),
        (TestFormat::Tap, without(NODE, "\n1..2\n"), "there is no plan"),
        (TestFormat::Tap, NODE.replace("\n1..2\n", "\n1..3\n"), "the plan is 1..3, but 2 tests"),
        (TestFormat::Tap, format!("{NODE}1..2\n"), "there are two plans"),
        (TestFormat::Tap, "1..2\nok 1 - a\nok 1 - a\n".to_owned(), "test 1 is a duplicate"),
        (TestFormat::Tap, "1..2\nok 1\nok 3\n".to_owned(), "the plan is 1..2, but there is a test 3"),
        (TestFormat::Tap, "1..1\n    ok 1 - a\n    ok 1 - b\n    1..2\nok 1 - c\n".to_owned(), "test 1 is a duplicate"),
        (TestFormat::Tap, "1..2\nok 1\nBail out! no disk\n".to_owned(), "aborted: no disk"),
        (TestFormat::Tap, "    ok 1 - a\n1..0\n".to_owned(), "no parent test"),
        (TestFormat::Tap, "1..1\nok 1 - a\n# tests 1\n# fail 1\n".to_owned(), "ends with `# fail 1`"),
        (
            TestFormat::Junit,
            JUNIT.replace("tests=\"4\"", "tests=\"9\""),
            "declares 9 tests",
        ),
        (
            TestFormat::Junit,
            "<testsuites tests='2'><testcase name='a'/></testsuites>".to_owned(),
            "declares 2 tests, but 1 are listed",
        ),
        (
            TestFormat::Junit,
            "<testsuite><testcase name='a' status='perhaps'/></testsuite>".to_owned(),
            "a `testcase` has the status `perhaps`",
        ),
        (TestFormat::Junit, JUNIT.replace("</testsuites>", ""), "not a readable `junit`"),
        (TestFormat::Junit, "<html/>".to_owned(), "the root element is `html`"),
        (
            TestFormat::CargoNextest,
            without(NEXTEST, "\"failed\":1,"),
            "count 0 failed tests, but 1 are listed",
        ),
        (
            TestFormat::CargoNextest,
            NEXTEST.lines().take(3).collect::<Vec<_>>().join("\n"),
            "1 suites were started, but 0",
        ),
        (
            TestFormat::CargoNextest,
            "error: could not compile `shop`".to_owned(),
            "0 suites were started",
        ),
        (TestFormat::CargoTest, without(CARGO, "test cart::adds ... ok\n"), "counts other tests"),
        (
            TestFormat::CargoTest,
            CARGO.replace("running 4 tests", "running 5 tests"),
            "counts other tests",
        ),
        (TestFormat::CargoTest, CARGO[..60].to_owned(), "1 test runs were started, but 0"),
        (
            TestFormat::CargoTest,
            "error[E0308]: mismatched types".to_owned(),
            "0 test runs were started",
        ),
        (
            TestFormat::Vitest,
            VITEST.replace("\"numFailedTests\": 1", "\"numFailedTests\": 2"),
            "`numFailedTests` is 2, but 1 failed tests are listed",
        ),
        (TestFormat::Vitest, VITEST.replace("\"success\": false", "\"success\": true"), "`success` is true"),
        (
            TestFormat::Vitest,
            passed_in_vitest(r#""success":false,"#),
            "`success` is false, but nothing failed",
        ),
        (
            TestFormat::Vitest,
            passed_in_vitest(r#""success":true,"numFailedTestSuites":1,"#),
            "`numFailedTestSuites` is 1, but nothing",
        ),
        (
            TestFormat::Vitest,
            format!("{}\n{VITEST}", passed_in_vitest("")),
            "there is more than one report",
        ),
        (
            TestFormat::Junit,
            "<testsuites failures='1'><testsuite name='s' tests='1'><testcase name='a'/></testsuite></testsuites>"
                .to_owned(),
            "the suite `` counts 1 failures and errors, but 0 are listed",
        ),
        (TestFormat::Junit, JUNIT.replace("errors=\"1\" skipped", "errors=\"2\" skipped"), "counts 3 failures"),
        (
            TestFormat::Junit,
            "<testsuite name='s'><testcase name='a'><Failure/></testcase></testsuite>".to_owned(),
            "the test `a` has an unsupported element `Failure`",
        ),
        (
            TestFormat::CargoNextest,
            "{\"type\":\"suite\",\"event\":\"started\",\"test_count\":3}\n{\"type\":\"test\",\"event\":\"ok\",\"name\":\"a\"}\n{\"type\":\"suite\",\"event\":\"ok\",\"passed\":1,\"filtered_out\":1}".to_owned(),
            "the suites have 2 tests, but 1 are listed",
        ),
        (
            TestFormat::CargoNextest,
            NEXTEST.replacen(
                '\n',
                "\n{\"type\":\"test\",\"event\":\"started\",\"name\":\"shop::shop$hangs\"}\n",
                1,
            ),
            "the test `shop::shop$hangs` was started, but did not end",
        ),
        (
            TestFormat::PytestJson,
            PYTEST_EXIT.to_owned(),
            "3 tests were collected, and the session ended after 2 of them",
        ),
        (TestFormat::Tap, NODE_20_EXIT.to_owned(), "no test ran in the file `exit.test.mjs`"),
        (TestFormat::Tap, NODE_24_EXIT.to_owned(), "no test ran in the file `exit.test.mjs`"),
        (
            TestFormat::Tap,
            NODE_24_EXIT.replace("exit.test.mjs", "my tests/exit.test.mjs"),
            "no test ran in the file `my tests/exit.test.mjs`",
        ),
        (
            TestFormat::GoTestJson,
            without(GO, "{\"Action\":\"fail\",\"Package\":\"shop\",\"Elapsed\":0.02}\n"),
            "the package `shop` was started, but did not end",
        ),
        (
            TestFormat::PytestJson,
            PYTEST.replace("\"exitcode\": 1", "\"exitcode\": 3"),
            "`exitcode` is 3, but of 4 listed tests 2 failed",
        ),
        (
            TestFormat::PytestJson,
            PYTEST.replace("\"exitcode\": 1", "\"exitcode\": 0"),
            "`exitcode` is 0",
        ),
        (
            TestFormat::PytestJson,
            PYTEST.replace("\"failed\": 1", "\"failed\": 2"),
            "`summary.failed` is 2, but 1 are listed",
        ),
        (TestFormat::GoTestJson, "no go files".to_owned(), "no line of it is JSON"),
        (
            TestFormat::PytestJson,
            PYTEST.replace("\"total\": 4", "\"total\": 3"),
            "`summary.total` is 3, but 4",
        ),
    ] {
        let read = shown(format, &report);
        assert!(read.starts_with("error: ") && read.contains(why), "{format:?}: {read}\n{report}");
    }
}

#[test]
fn a_differing_exit_code_is_a_contradiction() {
    let of = |statuses: &[TestStatus]| -> Vec<TestRan> {
        statuses.iter().map(|it| test("a".to_owned(), *it, None, None)).collect()
    };
    let (passed, failed, skipped) = (TestStatus::Passed, TestStatus::Failed, TestStatus::Skipped);
    for (exit_code, statuses, why) in [
        (Some(0), &[passed, skipped][..], None),
        (Some(1), &[passed, failed], None),
        (Some(0), &[], Some("no test was run: the report lists none")),
        (Some(1), &[], Some("no test was run: the report lists none")),
        (Some(0), &[skipped, skipped], Some("no test was run: all 2 in the report were skipped")),
        (
            Some(0),
            &[passed, failed],
            Some("the exit code is 0, but the report lists 1 failed tests"),
        ),
        (Some(3), &[passed], Some("the exit code is 3, but the report lists no failed test")),
    ] {
        let tests = of(statuses);
        assert_eq!(contradiction(exit_code, &tests).as_deref(), why, "{exit_code:?} {statuses:?}");
    }
}

#[test]
fn a_report_after_other_output_is_found_and_names_stay_apart() {
    let noisy = format!("starting\n{{\"not\": \"it\"}}\n{VITEST}\ndone\n");
    assert_eq!(shown(TestFormat::Vitest, &noisy), shown(TestFormat::Vitest, VITEST));
    let twice = "1..3\nok 1 - a\nok 2 - a\nok 3 - b # 2 items\n";
    assert_eq!(shown(TestFormat::Tap, twice), "Passed a\nPassed a (2)\nPassed b # 2 items\n");
    let like_a_number = "1..4\nok 1 - a\nok 2 - a\nok 3 - a (2)\nok 4 - a\n";
    assert_eq!(
        shown(TestFormat::Tap, like_a_number),
        "Passed a\nPassed a (3)\nPassed a (2)\nPassed a (4)\n"
    );
    // Only a whole word, such as `TODO`, excuses a failure. A comment before the last test is not the summary.
    let excused = "1..6\n# fail 1\nnot ok 1 - a # TODOlist\nnot ok 2 - b # TODO: later\nok 3 - c #skip\n\
                   ok 4 # Skipped for now\nnot ok 5 - see #12\nnot ok 6 - e # skipping\n# fail 3\n";
    assert_eq!(
        shown(TestFormat::Tap, excused),
        "Failed a # TODOlist\nSkipped b\nSkipped c\nSkipped test 4\nFailed see #12\nFailed e # skipping\n"
    );
    // An error in the setup of a suite belongs to no test, but the suite must not pass.
    for (attributes, bad) in [
        ("", "<error message='no database'/>"),
        ("tests='1' errors='1'", "<error message='no database'/>"),
        ("tests='2' failures='1'", "<failure>no database</failure>"),
    ] {
        let suite = format!(
            "<testsuites><testsuite name='shop' {attributes}>{bad}<testcase name='a'/></testsuite></testsuites>"
        );
        let expected = "Passed a\nFailed shop: no database\n";
        assert_eq!(shown(TestFormat::Junit, &suite), expected, "{attributes}");
    }
    let alone = "<testsuite><error message='m'/></testsuite>";
    assert_eq!(shown(TestFormat::Junit, alone), "Failed testsuite: m\n");
    let suite = r#"{"numTotalTests":0,"testResults":[{"name":"/repo/EVAL.ts","status":"failed","message":"SyntaxError","assertionResults":[]}]}"#;
    assert_eq!(shown(TestFormat::Vitest, suite), "Failed EVAL.ts: SyntaxError\n");
}

proptest! {
    /// Parsing ends without a panic for any text.
    #[test]
    fn any_text_can_be_read(text in "[ -~\n]{0,200}", at in 0_usize..3000) {
        let formats = [
            (TestFormat::Vitest, VITEST), (TestFormat::Tap, NODE), (TestFormat::Junit, JUNIT),
            (TestFormat::CargoNextest, NEXTEST), (TestFormat::CargoTest, CARGO),
            (TestFormat::GoTestJson, GO), (TestFormat::PytestJson, PYTEST),
        ];
        for (format, sample) in formats {
            let _ = parse_tests(format, &text, "/repo", |_| true);
            let at = sample.floor_char_boundary(at);
            let damaged = format!("{}{text}{}", &sample[..at], &sample[at..]);
            let _ = parse_tests(format, &damaged, "/repo", |_| true);
        }
    }
}

#[test]
fn a_test_may_have_the_name_of_a_file_that_is_not_there() {
    let tap = "TAP version 13\n# Subtest: cart.ts\nok 1 - cart.ts\n1..1\n# fail 0\n";
    assert_eq!(shown(TestFormat::Tap, tap), "Passed cart.ts\n");
}

#[test]
fn similar_folders_keep_their_paths() {
    let suite = r#"{"numTotalTests":0,"testResults":[{"name":"/repo2/EVAL.ts","status":"failed","message":"m","assertionResults":[]}]}"#;
    assert_eq!(shown(TestFormat::Vitest, suite), "Failed /repo2/EVAL.ts: m\n");
    assert_eq!(below("/repo/a.ts", "/repo"), "a.ts");
    assert_eq!(below("/repo2/a.ts", "/repo"), "/repo2/a.ts");
}

#[test]
fn json_that_tests_print_is_no_event() {
    let printed = NEXTEST.replacen('\n', "\n{\"a\": 1}\n{ half\n", 1);
    assert_eq!(shown(TestFormat::CargoNextest, &printed), shown(TestFormat::CargoNextest, NEXTEST));
    assert!(!shown(TestFormat::CargoNextest, NEXTEST).contains("error"));
}

#[test]
fn pytest_fails_if_its_clean_up_fails() {
    let report = r#"{"exitcode": 1, "summary": {"collected": 1, "total": 1, "passed": 1, "error": 1}, "tests": [
        {"nodeid": "a.py::t", "outcome": "passed", "setup": {"duration": 0, "outcome": "passed"},
         "call": {"duration": 0, "outcome": "passed"}, "teardown": {"duration": 0, "outcome": "failed", "longrepr": "no"}}]}"#;
    let shown = shown(TestFormat::PytestJson, report);
    assert!(!shown.contains("Passed"), "{shown}");
}
