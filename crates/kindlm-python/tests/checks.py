"""Checks the installed module: `python checks.py <path of the program kindlm>`.

`cargo test -p xtask --test wheel` builds the wheel and runs this. It needs pyarrow, and no network.
"""

import json
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa

from kindlm import Evaluator, KindlmError, __version__

EXPECT = {"output": {"contains": ["shipped"]}, "assert": [{"type": "javascript", "value": "output.length > 9"}]}
RECORDS = [
    {"id": "a", "agent_output": "Order 7 has shipped."},
    {"id": "b", "agent_output": "shipped"},
    {"id": "c", "agent_output": "I do not know.", "latency_ms": 12.5},
    {"id": "d", "agent_output": None},
    {"id": "e"},
    {"id": "f", "agent_output": {"state": "shipped", "text": "ä\u2028\U0001f600"}},
    {"agent_output": "shipped \ud800"},
    {"id": "h", "agent_output": "shipped today", "tool_calls": [{"name": "find", "arguments": {"id": 7}}]},
    {"id": "i", "agent_output": "shipped", "tool_calls": "find"},
]
KEY = "a-key-that-nothing-may-show"


def raises(kind, call, *texts):
    """Checks that a call raises an exception of exactly this type, whose message has these texts."""
    try:
        call()
    except BaseException as error:
        assert type(error) is kind, repr(error)
        for text in texts:
            assert text in str(error), (text, str(error))
    else:
        raise AssertionError(f"no {kind.__name__}")


def results_equal_those_of_the_program(program):
    lines = "\n".join(json.dumps({**record, "expect": EXPECT}) for record in RECORDS)
    command = [program, "evaluate", "--jsonl"]
    printed = subprocess.run(command, input=lines, capture_output=True, text=True, encoding="utf-8").stdout
    expected = [json.loads(line) for line in printed.split("\n") if line]
    assert len(expected) == len(RECORDS)
    for threads in (None, 1, 3):
        results = Evaluator(EXPECT, threads=threads).evaluate(RECORDS)
        assert results == expected, (results, expected)
    assert [it.get("outcome") for it in expected[:5]] == ["passed", "failed", "failed", None, None], expected
    # Without evidence there is an error, and no outcome.
    assert "agent_output" in expected[4]["error"] and expected[4]["line"] == 5


def expect_has_several_forms():
    record = {"agent_output": "shipped"}
    for expect, outcome in [
        ({"output": {"contains": ["shipped"]}}, "passed"),
        ({"output": {"contains": ["lost"]}}, "failed"),
        ([{"type": "contains", "value": "shipped"}], "passed"),
        ([{"type": "contains", "value": "lost"}], "failed"),
        ("output: { contains: [shipped] }", "passed"),
        ('{"output": {"contains": ["lost"]}}', "failed"),
        ("- { type: contains, value: lost }", "failed"),
        ({"expect": {"output": {"contains": ["shipped", "lost"]}}}, "failed"),
        ({"expect": {"output": {"contains": ["shipped", "lost"]}}, "threshold": 0.5}, "passed"),
    ]:
        [result] = Evaluator(expect).evaluate([record])
        assert result["outcome"] == outcome, (expect, result)
    assert Evaluator(EXPECT).evaluate([]) == []
    assert len(Evaluator(EXPECT).evaluate(iter(RECORDS))) == len(RECORDS)


def tables_have_the_results_of_lists():
    evaluator = Evaluator(EXPECT)
    records = [
        {"id": number, "agent_output": output, "vars": {"n": number}, "tool_calls": output and [{"name": "find"}]}
        for number, output in enumerate(["Order 7 has shipped.", "shipped", None, "lost"])
    ]
    table = pa.Table.from_pylist(records)
    expected = evaluator.evaluate([{k: v for k, v in it.items() if v is not None} for it in records])

    def check(results):
        rows = results.to_pylist()
        for row, result in zip(rows, expected, strict=True):
            for key in ("id", "outcome", "score", "passed", "failed", "total", "error"):
                assert row[key] == result.get(key), (key, row, result)
            checks = result.get("results")
            assert (row["results"] is None) == (checks is None)
            for column, check in zip(row["results"] or [], checks or [], strict=True):
                for key, value in column.items():
                    assert value == check.get(key), (key, column, check)
        assert [row["outcome"] for row in rows] == ["passed", "failed", None, "failed"]
        assert rows[2]["score"] is None and rows[2]["passed"] is None and "agent_output" in rows[2]["error"]
        assert results.schema.field("id").type == table.schema.field("id").type

    results = evaluator.evaluate(table)
    assert type(results) is pa.Table
    check(results)
    parts = pa.concat_tables([table.slice(0, 1), table.slice(1, 3)])
    check(evaluator.evaluate(parts))
    assert evaluator.evaluate(parts).column("id").num_chunks == 2
    [batch] = table.to_batches()
    results = evaluator.evaluate(batch)
    assert type(results) is pa.RecordBatch
    check(results)
    check(evaluator.evaluate(batch.slice(0)))
    assert evaluator.evaluate(batch.slice(2, 2)).column("id").to_pylist() == [2, 3]

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    check(evaluator.evaluate(Stream()))
    empty = evaluator.evaluate(table.slice(0, 0))
    assert empty.num_rows == 0 and empty.schema == results.schema
    for kind in (pa.string(), pa.large_string(), pa.int32(), pa.uint64()):
        ids = table.column("id").cast(kind)
        column = evaluator.evaluate(table.set_column(0, "id", ids)).column("id")
        assert column.type == kind and column.to_pylist() == ids.to_pylist()
    nameless = evaluator.evaluate(table.drop_columns(["id"]))
    assert nameless.schema.names == results.schema.names and nameless.column("id").null_count == 4


def errors_say_the_place_and_the_advice():
    raises(KindlmError, lambda: Evaluator({"output": {"containz": ["a"]}}), "`/expect/output", "contains")
    raises(KindlmError, lambda: Evaluator({"assert": [{"type": "contians", "value": "a"}]}), "`/expect/assert/0", "contains")
    raises(KindlmError, lambda: Evaluator({}), "no checks")
    raises(KindlmError, lambda: Evaluator(None), "`expect`")
    raises(KindlmError, lambda: Evaluator("output: ["), "`expect`: not valid YAML", "expect:1:9", "not closed")
    raises(KindlmError, lambda: Evaluator('{"output": {}, "output": {"contains": ["a"]}}'), "output` is a duplicate key")
    raises(KindlmError, lambda: Evaluator("output: {}\noutput: { contains: [a] }"), "expect:2:1", "duplicate key `output`")
    raises(KindlmError, lambda: Evaluator({"output": {"contains": [object()]}}), "`expect`")
    raises(KindlmError, lambda: Evaluator({"expect": EXPECT, "output": {}}), "unknown key \"output\"")
    raises(KindlmError, lambda: Evaluator(EXPECT, "missing.yaml"), "missing.yaml")
    raises(TypeError, lambda: Evaluator(EXPECT, threads="two"))
    evaluator = Evaluator(EXPECT)
    for wrong in (None, 7, "text", {"agent_output": ["a"]}):
        raises(TypeError, lambda wrong=wrong: evaluator.evaluate(wrong), "`records`: expected a list of dicts")
    raises(TypeError, lambda: evaluator.evaluate([{}, "text"]), "records[1]: expected a dict, got str")
    raises(KindlmError, lambda: evaluator.evaluate([{"latency_ms": float("nan")}]), "records[0]: not JSON")
    raises(KindlmError, lambda: evaluator.evaluate([{"agent_output": object()}]), "records[0]: not JSON")
    raises(KindlmError, lambda: evaluator.evaluate([{"expect": {}}]), "records[0] has `expect`")
    raises(KindlmError, lambda: evaluator.evaluate(pa.table({"threshold": [1]})), "the table has `threshold`")
    judged = Evaluator({"judge": [{"criteria": "Is polite"}]})
    raises(KindlmError, lambda: judged.evaluate([{"agent_output": "a"}]), "judge model", "`config`")
    # An exception does not end the evaluator.
    assert len(evaluator.evaluate(RECORDS)) == len(RECORDS)


def pickled_evaluators_are_equal():
    os.environ["SOME_API_KEY"] = KEY
    for evaluator in (Evaluator(EXPECT), Evaluator(EXPECT, threads=2)):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            copied = pickle.dumps(evaluator, protocol)
            assert KEY.encode() not in copied
            assert pickle.loads(copied).evaluate(RECORDS) == evaluator.evaluate(RECORDS)
    assert pickle.loads(pickle.dumps(evaluator)).__getnewargs_ex__()[1] == {"threads": 2}


def several_threads_share_an_evaluator():
    evaluator = Evaluator(EXPECT, threads=2)
    expected, found = evaluator.evaluate(RECORDS * 20), {}

    def work(number):
        found[number] = evaluator.evaluate(RECORDS * 20)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == [expected] * 8


def forked_process_evaluates():
    if sys.platform != "linux":
        return
    evaluator = Evaluator(EXPECT)
    expected = evaluator.evaluate(RECORDS)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(evaluator.evaluate, [RECORDS] * 4) == [expected] * 4
        # The method is pickled for the pool. A copy that the fork made must work too.
        global copied
        copied = evaluator
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(evaluate_copied, [RECORDS] * 4) == [expected] * 4


def evaluate_copied(records):
    return copied.evaluate(records)


def checks_may_read_files_of_the_folder():
    Path("check.js").write_text("module.exports = (output) => output === 'shipped';")
    evaluator = Evaluator([{"type": "javascript", "value": "file://check.js"}])
    outcomes = [it["outcome"] for it in evaluator.evaluate([{"agent_output": "shipped"}, {"agent_output": "lost"}])]
    assert outcomes == ["passed", "failed"], outcomes
    raises(KindlmError, lambda: Evaluator([{"type": "javascript", "value": "file://missing.js"}]), "missing.js")


class Judge(BaseHTTPRequestHandler):
    """A judge that runs in a thread of this process, so it only answers while `evaluate` lets Python run."""

    asked, release = threading.Event(), threading.Event()
    keys = []

    def do_POST(self):
        question = self.rfile.read(int(self.headers["content-length"])).decode()
        Judge.keys.append(self.headers["authorization"])
        Judge.asked.set()
        Judge.release.wait()
        mark = re.search(r"BEGIN output (\w+)", question).group(1)
        verdict = json.dumps({"mark": mark, "score": 1, "reasoning": f"polite, and the key is {KEY}"})
        message = {"message": {"role": "assistant", "content": verdict}, "finish_reason": "stop"}
        body = json.dumps({"choices": [message], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def python_runs_while_records_wait_for_a_judge():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Path("kindlm.yaml").write_text(
        "kindlm: 1\nproject: p\nsuite: { name: s }\n"
        f"providers: {{ openai: {{ apiKeyEnv: JUDGE_KEY, baseUrl: 'http://127.0.0.1:{server.server_port}' }} }}\n"
        "models: [{ id: judge, provider: openai, model: own }]\n"
    )
    os.environ["JUDGE_KEY"] = KEY
    judged = Evaluator({"judge": [{"criteria": "Is polite"}]}, Path("kindlm.yaml"))
    assert KEY.encode() not in pickle.dumps(judged)

    # Ctrl-C ends a call that waits. The signal is sent when the judge was asked. A shell that started the test in the
    # background has told it to ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    def interrupt():
        Judge.asked.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    raises(KeyboardInterrupt, lambda: judged.evaluate([{"agent_output": "waits"}]))
    Judge.release.set()

    for evaluator in (judged, pickle.loads(pickle.dumps(judged))):
        [result] = evaluator.evaluate([{"agent_output": "Thank you."}])
        assert result["outcome"] == "passed", result
        assert "polite" in json.dumps(result) and KEY not in json.dumps(result), result
    assert set(Judge.keys) == {f"Bearer {KEY}"}
    server.shutdown()


def examples_of_the_pages_run():
    root = Path(__file__).resolve().parents[3]
    Path("kindlm.yaml").write_text(
        "kindlm: 1\nproject: p\nsuite: { name: s }\nproviders: { openai: { apiKeyEnv: JUDGE_KEY } }\n"
        "models: [{ id: judge, provider: openai, model: own }]\n"
    )
    for page, count in (("docs/python.md", 4), ("crates/kindlm-python/README.md", 1)):
        blocks = re.findall(r"^```python\n(.*?)^```$", (root / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
        # Ray and Spark are too large for a test.
        blocks = [it for it in blocks if "import ray" not in it and "spark" not in it]
        assert len(blocks) == count, page
        names = {}
        for block in blocks:
            exec(compile(block, page, "exec"), names)


def main():
    program = str(Path(sys.argv[1]).resolve())
    printed = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    assert printed == f"kindlm {__version__}\n", printed
    for check in (
        expect_has_several_forms,
        tables_have_the_results_of_lists,
        errors_say_the_place_and_the_advice,
        pickled_evaluators_are_equal,
        several_threads_share_an_evaluator,
        forked_process_evaluates,
        checks_may_read_files_of_the_folder,
        python_runs_while_records_wait_for_a_judge,
        examples_of_the_pages_run,
        partial(results_equal_those_of_the_program, program),
    ):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            check()
            os.chdir("/")
    print("all checks hold")


if __name__ == "__main__":
    main()
