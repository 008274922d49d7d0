import asyncio, importlib.util, inspect, json, os, sys
path, name, prompt = sys.argv[1:4]
options, context = (json.loads(it) for it in (sys.argv[4:6] + ["{}", "{}"])[:2])
sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
spec = importlib.util.spec_from_file_location("provider", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
answer = getattr(module, name)(prompt, options, context)
if inspect.isawaitable(answer):
    answer = asyncio.run(answer)
if isinstance(answer, dict) and answer.get("error"):
    sys.exit(str(answer["error"]))
output = answer.get("output") if isinstance(answer, dict) else answer
if output is None:
    sys.exit(path + " answered without an output")
if isinstance(output, str):
    sys.stdout.write(output)
else:
    print(json.dumps({"kindlm": "output_json", "data": output}))
