//! The explanations of codes that do not belong to one assertion.

use kindlm_types::FailureCode;

/// The codes that any execution may give, with their explanations.
pub(super) const COMMON: [(FailureCode, &str); 8] = [
    (
        FailureCode::PROVIDER_TIMEOUT,
        "The provider or the command did not answer in time, or the answer took longer than `latency.maxMs`.",
    ),
    (
        FailureCode::PROVIDER_AUTH_FAILED,
        "The provider rejected the key, or its environment variable is not set.",
    ),
    (
        FailureCode::PROVIDER_ERROR,
        "The provider could not be reached, or answered with an error, also after retries.",
    ),
    (
        FailureCode::BUDGET_EXCEEDED,
        "A judge was not asked, because the rest of the run's budget (`gates.costMaxUsd`, `--budget-usd`) is less than the \
         highest cost of its answer. The model's output is stored: `kindlm test --resume` with a larger budget asks only \
         the judge.",
    ),
    (
        FailureCode::JUDGE_NOT_CONFIGURED,
        "A check needs a judge model, but none is configured: add one to `models`, or use `--judge provider:model` with \
         `kindlm evaluate`.",
    ),
    (
        FailureCode::UNDECIDED,
        "The repeats reached `repeat.max` before the test of their pass rate had decided, so the case does not pass. Its \
         true rate is probably between `repeat.fail` and `repeat.pass`.\n\nRaise `max`, move `fail` and `pass` apart, or \
         improve the agent. `kindlm validate` names numbers that fit each other.",
    ),
    (
        FailureCode::MAX_TURNS_EXCEEDED,
        "The conversation needed more requests than the test's `maxTurns` (10 by default), so it was ended and fails.\n\nA \
         model that calls tools without end is the usual cause: look at its tool calls in the report. If the task needs \
         more requests, raise `maxTurns`.",
    ),
    (FailureCode::INTERNAL_ERROR, "An internal error: a check has a bug."),
];

/// The codes of problems in files and of gates, with their explanations. Executions never have these codes.
pub(super) const OTHERS: [(&str, &str); 15] = [
    (
        "CONFIG_SYNTAX",
        "The file is not valid YAML, or it cannot be parsed safely. Common causes are an unclosed quote or bracket, a tab as \
         indentation, or an alias that grows without end.\n\nCheck the underlined position and the line before it. Put a \
         text with `: `, `#`, `{` or `[` in quotes.",
    ),
    (
        "CONFIG_TOO_LARGE",
        "A file, or the content of its aliases, is larger than the limit.\n\nSplit the tests into datasets: \
         `tests: \"file://cases/*.jsonl\"` reads many files.",
    ),
    (
        "CONFIG_UNKNOWN_KEY",
        "The key is unknown in this place. It is rejected, because an ignored key would check nothing.\n\nThe usual causes \
         are a typing error or wrong indentation. `kindlm schema config` lists every key, and an editor with this schema \
         completes them.",
    ),
    (
        "CONFIG_MISSING_KEY",
        "A required key is missing.\n\nThe message names the key, and the help describes its value. If the key seems to be \
         present, check its indentation: it may be in another block.",
    ),
    (
        "CONFIG_INVALID_VALUE",
        "A value has the wrong type, is out of range, or is not allowed.\n\nThe message shows the expected and the actual \
         value. Without quotes, YAML does not read `yes`, `1.0` or `null` as a text. A key without a value is `null`; to \
         omit a key, remove it.",
    ),
    (
        "CONFIG_UNKNOWN_REFERENCE",
        "The name of a prompt, a model, a provider or a tool is unknown.\n\nThe help lists the known names, or suggests one. \
         As a warning, it concerns a tool that the test expects but does not offer.",
    ),
    (
        "CONFIG_DUPLICATE",
        "A key, or the name of a test, a model or a turn, is a duplicate. The first of two equal keys would be lost, and \
         reports and baselines find results by name.\n\nRename or remove one of the two.",
    ),
    (
        "CONFIG_MISSING_VARIABLE",
        "A `{{variable}}` has no value in a test, or an `{{env.NAME}}` is not set.\n\nSet it under the test's `vars`, as \
         a column `vars.<name>` of a dataset, or in the environment.",
    ),
    (
        "CONFIG_UNSAFE_TEMPLATE",
        "A `{{variable}}` is in a place of a command line where its text could run as a program.\n\nPass it as a separate \
         argument, such as `./agent --input {{name}}`. KindLM quotes it.",
    ),
    (
        "CONFIG_FILE",
        "A file that the suite refers to cannot be used: it is missing, is outside the suite's folder, is not UTF-8 text, or \
         has the wrong content.\n\nPaths are relative to the folder of the config file. Files outside it are read only with \
         `--allow-outside`.",
    ),
    (
        "CONFIG_NO_EFFECT",
        "A part of the suite has no effect: a test that checks nothing, a text such as `{{ name }}` that is not a variable, \
         an unknown keyword of a JSON Schema, or a key that this kind of test does not use. This is a warning; the suite \
         runs.\n\nRemove or correct the part.",
    ),
    (
        "CONFIG_SELF_JUDGED",
        "The suite's judge rates answers of the same model. Models tend to prefer their own answers, so the verdicts are less \
         reliable. This is a warning; the suite runs.\n\nSet another model as `defaults.judge.model`. If it is intended, \
         set `model` on the check itself to remove the warning.",
    ),
    (
        "CONFIG_UNSUPPORTED",
        "The suite is a promptfoo config with a part that KindLM does not support. KindLM skips nothing silently, so nothing \
         ran.\n\nThe message names a replacement if there is one.",
    ),
    (
        "CONFIG_PROGRAM",
        "A program that generates a part of the suite (a prompt function, tests, variables, a filter of a promptfoo config) \
         did not run, or failed.\n\nThe message gives the reason. Programs run in a sandbox; the `scripts` block grants \
         permissions. With `validate` and `--dry-run`, `--allow-programs` lets them run outside the sandbox, if the suite \
         permits it.",
    ),
    (
        "GATE_VIOLATED",
        "A gate of the suite is violated: the measured value of the whole run is beyond its threshold. The exit code is \
         1.\n\nThe report shows the measured value and the threshold beside each gate. `kindlm explain gates` lists the \
         gates, `kindlm explain <gate>` shows the page of one, and `kindlm gate <report> --gate 90%` applies another \
         threshold without a new run.",
    ),
];
