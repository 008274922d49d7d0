# A worker that runs scripts in Python, without a sandbox. It uses the same frames as the sandbox's worker.
import asyncio, importlib.util, inspect, json, math, os, struct, sys, textwrap, traceback

LINES, BYTES, MOST = 200, 64 * 1024, 16 << 20
source = os.fdopen(os.dup(0), "rb")
sink = os.fdopen(os.dup(1), "wb")
# Redirect stdout, so that printed text does not get between the frames.
os.dup2(2, 1)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


class Console:
    """Stores the printed lines of a call, up to the limits."""

    encoding = "utf-8"

    def __init__(self):
        self.lines, self.part, self.room, self.dropped = [], "", BYTES, 0

    def write(self, text):
        *lines, self.part = (self.part + text).split("\n")
        for line in lines:
            self.line(line)
        return len(text)

    def line(self, line):
        size = len(line.encode(errors="replace"))
        if len(self.lines) >= LINES or self.room <= 0:
            self.dropped += 1
            return
        cut = line if size <= self.room else f"{line[: self.room]}… ({size - self.room} bytes more)"
        self.lines.append(cut.encode(errors="replace").decode())
        self.room -= size + 1

    def take(self):
        if self.part:
            self.line(self.part)
        if self.dropped:
            self.lines.append(f"… ({self.dropped} lines more)")
        return self.lines

    def flush(self):
        pass

    def isatty(self):
        return False


def read_frame():
    head = source.read(4)
    if len(head) < 4:
        return None
    frame = source.read(struct.unpack("<I", head)[0])
    parts, at = [], 0
    while at < len(frame):
        (size,) = struct.unpack_from("<I", frame, at)
        parts.append(frame[at + 4 : at + 4 + size])
        at += 4 + size
    return json.loads(parts[0]), parts[1:]


def send(header, part=None):
    head = json.dumps(header).encode()
    body = struct.pack("<I", len(head)) + head
    if part is not None:
        body += struct.pack("<I", len(part)) + part
    sink.write(struct.pack("<I", len(body)) + body)
    sink.flush()


class Stopped(Exception):
    def __init__(self, why, message):
        self.why, self.message = why, message


modules, bodies = {}, {}


def load(root, path):
    full = os.path.abspath(os.path.join(root, path))
    if full not in modules:
        if not os.path.isfile(full):
            raise Stopped("load", f"there is no file `{path}`")
        folder = os.path.dirname(full)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        spec = importlib.util.spec_from_file_location(f"kindlm_script_{len(modules)}", full)
        if spec is None or spec.loader is None:
            raise Stopped("load", f"`{path}` is not a Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        modules[full] = module
    return modules[full]


def body(params, code):
    text = f"def script({', '.join(params)}):\n" + textwrap.indent(code, "    ") + "\n    pass\n"
    return compile(text, "script", "exec")


def compile_only(call, parts, root):
    """Reports syntax errors, and runs nothing."""
    what = call["what"]
    try:
        if what["w"] == "body":
            body(what["params"], parts[0].decode())
        else:
            with open(os.path.join(root, what["path"]), "rb") as file:
                compile(file.read(), what["path"], "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return {"e": "stopped", "why": "load", "message": f"{type(error).__name__}: {error}"}, None
    except OSError as error:
        return {"e": "stopped", "why": "load", "message": f"`{what['path']}`: {error.strerror}"}, None
    return {"e": "undefined"}, None


def function(call, parts, root):
    what = call["what"]
    if what["w"] == "body":
        key = (tuple(what["params"]), parts.pop(0).decode())
        if key not in bodies:
            space = {"__name__": "script", "json": json}
            exec(body(*key), space)
            bodies[key] = space["script"]
        return bodies[key]
    name = what["function"] or "get_assert"
    found = load(root, what["path"])
    for step in name.split("."):
        found = getattr(found, step, None)
    if not callable(found):
        names = [it for it in vars(load(root, what["path"])) if not it.startswith("_")]
        raise Stopped("load", f"`{what['path']}` has no function `{name}`; it has {', '.join(names) or 'nothing'}")
    return found


def plain(value):
    """Converts a value to JSON data. NaN and infinities become objects with `$num`."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$num": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {key if isinstance(key, str) else json.dumps(key): plain(it) for key, it in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(it) for it in value]
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if hasattr(value, "__dict__"):
        return plain(vars(value))
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def ending(value):
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
        return {"e": "number", "text": repr(number).replace("nan", "NaN")}, None
    if callable(value):
        return {"e": "opaque", "type_name": "function", "text": repr(value)}, None
    text = json.dumps(plain(value), ensure_ascii=True).encode()
    if len(text) > MOST:
        raise Stopped("memory", f"its result is {len(text) >> 20} MiB of JSON; at most {MOST >> 20} MiB are taken: return less")
    return {"e": "json"}, text


def revive(value):
    """Converts JSON to a context. Unknown values become None, and `provider.id` becomes a text."""
    for key in ("prompt", "logProbs", "provider") if isinstance(value, dict) else ():
        if isinstance(value.get(key), dict) and value[key].get("$undefined") is True:
            value[key] = None
    provider = value.get("provider") if isinstance(value, dict) else None
    if isinstance(provider, dict) and isinstance(provider.get("id"), dict) and "$returns" in provider["id"]:
        provider["id"] = provider["id"]["$returns"]
    return value


base_env = dict(os.environ)


def run(call, parts, root):
    os.environ.clear()
    os.environ.update(base_env)
    os.environ.update(call["env"])
    try:
        try:
            fn = function(call, parts, root)
        except SyntaxError as error:
            raise Stopped("load", f"SyntaxError: {error}") from None
        except ImportError as error:
            raise Stopped("load", f"{type(error).__name__}: {error}") from None
        value = fn(*(revive(json.loads(part)) for part in parts))
        if inspect.isawaitable(value):

            async def wait():
                return await value

            value = asyncio.run(wait())
        return ending(value)
    except Stopped as stopped:
        return {"e": "stopped", "why": stopped.why, "message": stopped.message}, None
    except SystemExit as error:
        return {"e": "stopped", "why": "exited", "message": f"it called `exit({error.code})`: return a result, or raise an error"}, None
    except MemoryError:
        return {"e": "stopped", "why": "memory", "message": "it used more memory than there is"}, None
    except BaseException as error:
        frames = "".join(traceback.format_exception(error))
        return {"e": "threw", "message": str(error), "stack": frames, "thrown": f"{type(error).__name__}: {error}"}, None


root = os.getcwd()
send({"t": "ready"})
while True:
    frame = read_frame()
    if frame is None:
        os._exit(0)
    header, parts = frame
    if header["t"] == "hello":
        root = header["root"]
        sys.path.insert(0, root)
    elif header["t"] == "call":
        console = Console()
        sys.stdout = sys.stderr = console
        serve = compile_only if header.get("compile_only") else run
        result, part = serve(header, parts, root)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        send({"t": "answer", "id": header["id"], "ending": result, "console": console.take(), "retire": False}, part)
