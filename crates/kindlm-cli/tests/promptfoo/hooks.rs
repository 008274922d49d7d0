//! `extensions` that get the results of a run.

use kindlm_testing::installed;

use crate::ran::{CONFIG, folder, kindlm, rows};

const TESTS: &str = "prompts: ['{{x}}']\nproviders: [{ id: echo, label: e }]\ntests:\n\
    - { vars: { x: a }, assert: [{ type: equals, value: a, metric: same }] }\n\
    - { vars: { x: b }, assert: [{ type: equals, value: c }] }\n";

const HOOKS: &str = r"
module.exports.afterEach = ({ test, result }, { hookName }) => {
    console.log([hookName, test.vars.x, result.success, result.score, result.response.output].join(' '));
    return { test, result: { ...result, namedScores: { own: 1 } } };
};
module.exports.afterAll = ({ results, prompts, suite, config, evalId }, { hookName }) => {
    const { testPassCount, testFailCount, namedScores } = prompts[0].metrics;
    const failed = results.find(it => !it.success);
    console.log([hookName, results.length, testPassCount, testFailCount, namedScores.same, suite.tests.length].join(' '));
    console.log(['error', failed.error, failed.gradingResult.componentResults[0].assertion.type].join(': '));
    console.log(`known ${config.description} ${evalId.length > 0}`);
};
module.exports.every = (hookName, context) => { console.log(`every ${hookName} ${Object.keys(context)}`); };
module.exports.fails = (hookName) => { throw new Error(`no ${hookName}`); };
";

#[test]
fn hooks_after_a_run_get_its_results() {
    let config = format!(
        "description: d\nextensions: ['file://hooks.js:afterAll', 'file://hooks.js:afterEach', 'file://hooks.js:every']\n{TESTS}"
    );
    let folder = folder(&[(CONFIG, &config), ("hooks.js", HOOKS)]);
    let (ran, rows) = rows(folder.path(), CONFIG, &[]);
    assert_eq!((ran.code, rows.len()), (1, 2), "{ran:?}");
    let mut rest = ran.stderr.as_str();
    for expected in [
        "afterEach a true 1 a\n",
        "`hooks.js:afterEach` changed named scores or metadata of a result, which has no effect",
        "every afterEach test,result\n",
        "afterEach b false 0 b\n",
        "afterAll 2 1 1 1 2\n",
        "error: ",
        ": equals\n",
        "known d true\n",
        "every afterAll ",
    ] {
        let Some((_, after)) = rest.split_once(expected) else {
            panic!("{expected} is missing: {}", ran.stderr)
        };
        rest = after;
    }
    // The returned score has no effect.
    assert!(rows.iter().all(|it| it["namedScores"].get("own").is_none()), "{rows:?}");
}

#[test]
fn hooks_get_results_in_promptfoos_form() {
    let config = "extensions: ['file://hooks.js:afterEach']\nprompts: ['{{x}}']\n\
        providers: [{ id: echo, label: e }, { id: echo, label: f }]\ntests:\n\
        - { vars: { x: a }, threshold: 0.5, metadata: { team: t }, assert: [{ type: equals, value: a }, { type: equals, value: b }] }\n\
        - { vars: { x: b } }\n";
    let hooks = "module.exports.afterEach = ({ test, result }) => {\n\
        const { testIdx, promptIdx, score, error, gradingResult, metadata } = result;\n\
        console.log(['got', testIdx, promptIdx, score, `${error}`, gradingResult?.reason, test.threshold, metadata.team].join('|') + '|');\n\
        };\n";
    let folder = folder(&[(CONFIG, config), ("hooks.js", hooks)]);
    let (ran, rows) = rows(folder.path(), CONFIG, &[]);
    assert_eq!(rows.len(), 4, "{ran:?}");
    for expected in [
        "got|0|0|0.5|null|All assertions passed|0.5|t|\n",
        "got|0|1|0.5|null|All assertions passed|0.5|t|\n",
        "got|1|0|1|null||||\n",
        "got|1|1|1|null||||\n",
    ] {
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    }
}

#[test]
fn a_hook_that_fails_is_reported() {
    let config = format!("extensions: ['file://hooks.js:fails']\n{TESTS}");
    let folder = folder(&[(CONFIG, &config), ("hooks.js", HOOKS)]);
    // `beforeAll` fails first, while the config is read.
    let ran = kindlm(folder.path(), &["test", "-c", CONFIG, "-q"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let hooks = HOOKS.replace("throw", "if (hookName.startsWith('after')) throw");
    std::fs::write(folder.path().join("hooks.js"), hooks).unwrap();
    let (ran, rows) = rows(folder.path(), CONFIG, &[]);
    assert_eq!((ran.code, rows.len()), (2, 2), "{ran:?}");
    for expected in [
        "warning: `afterEach` of `hooks.js:fails` failed: it threw `no afterEach`",
        "warning: `afterEach` also failed 1 other time\n",
        "error: `afterAll` of `hooks.js:fails` failed: it threw `no afterAll`",
    ] {
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    }
}

#[test]
fn a_hook_may_be_a_python_function() {
    if !installed("python3") {
        return;
    }
    let config = format!("extensions: ['file://hooks.py:after']\n{TESTS}");
    let hooks = "def after(hook_name, context):\n    if hook_name == 'beforeAll':\n        context['suite']['defaultTest']['assert'].append({'type': 'not-contains', 'value': 'zzz'})\n    if hook_name == 'afterAll':\n        open('seen.txt', 'w').write(str(len(context['results'])))\n    return context\n";
    let folder = folder(&[(CONFIG, &config), ("hooks.py", hooks)]);
    let (ran, _) = rows(folder.path(), CONFIG, &[]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(std::fs::read_to_string(folder.path().join("seen.txt")).unwrap(), "2");
}

#[test]
fn an_imported_suite_keeps_its_hooks() {
    let config = format!("extensions: ['file://hooks.js:afterAll']\n{TESTS}");
    let folder = folder(&[(CONFIG, &config), ("hooks.js", HOOKS)]);
    let ran = kindlm(folder.path(), &["import", CONFIG, "--output", "kindlm.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let (ran, _) = rows(folder.path(), "kindlm.yaml", &[]);
    assert!(ran.stderr.contains("afterAll 2 1 1"), "{ran:?}");
}
