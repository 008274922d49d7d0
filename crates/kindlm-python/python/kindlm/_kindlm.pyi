from . import Evaluator as Evaluator
from . import KindlmError as KindlmError
from . import __version__ as __version__

def script_worker() -> int: ...
