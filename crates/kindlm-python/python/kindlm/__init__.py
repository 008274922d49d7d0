"""Checks recorded outputs of models and agents.

An `Evaluator` has the checks. Its method `evaluate` takes records and returns their results:

    from kindlm import Evaluator

    evaluator = Evaluator({"output": {"contains": ["refund"]}})
    [result] = evaluator.evaluate([{"agent_output": "We refund you."}])
    assert result["outcome"] == "passed"
"""

from ._kindlm import Evaluator, KindlmError, __version__

__all__ = ["Evaluator", "KindlmError", "__version__"]
