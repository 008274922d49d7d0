# A worker that runs scripts in Ruby, without a sandbox. It uses the same frames as the sandbox's worker.
require "json"
require "stringio"

SOURCE = $stdin.dup.binmode
SINK = $stdout.dup.binmode
# Redirect stdout, so that printed text does not get between the frames.
STDOUT.reopen(STDERR)
STDIN.reopen(File::NULL)
LINES = 200
BYTES = 64 * 1024
MOST = 16 << 20

class KindlmStopped < StandardError
  attr_reader :why

  def initialize(why, message)
    super(message)
    @why = why
  end
end

def kindlm_read
  head = SOURCE.read(4)
  return nil if head.nil? || head.bytesize < 4

  frame = SOURCE.read(head.unpack1("V"))
  parts = []
  at = 0
  while at < frame.bytesize
    size = frame.byteslice(at, 4).unpack1("V")
    parts << frame.byteslice(at + 4, size).force_encoding("UTF-8")
    at += 4 + size
  end
  [JSON.parse(parts.shift), parts]
end

def kindlm_send(header, part = nil)
  head = JSON.generate(header).b
  body = [head.bytesize].pack("V") + head
  body += [part.bytesize].pack("V") + part.b if part
  SINK.write([body.bytesize].pack("V") + body)
  SINK.flush
end

def kindlm_console(text)
  room = BYTES
  lines = text.scrub.lines(chomp: true)
  kept = lines.first(LINES).take_while { |line| (room -= line.bytesize + 1) > -line.bytesize }
  dropped = lines.size - kept.size
  kept[-1] = kept[-1].byteslice(0, BYTES).scrub("") if kept.any? && kept[-1].bytesize > BYTES
  dropped.positive? ? kept + ["… (#{dropped} lines more)"] : kept
end

def kindlm_plain(value)
  case value
  when Float
    return value if value.finite?

    { "$num" => value.nan? ? "NaN" : value.positive? ? "Infinity" : "-Infinity" }
  when Hash then value.to_h { |key, it| [key.to_s, kindlm_plain(it)] }
  when Array then value.map { |it| kindlm_plain(it) }
  when Symbol then value.to_s
  when nil, true, false, Integer, String then value
  else value.respond_to?(:to_h) ? kindlm_plain(value.to_h) : value.to_s
  end
end

def kindlm_ending(value)
  return [{ e: "number", text: value.to_f.to_s.sub("Infinity", "inf") }, nil] if value.is_a?(Numeric)
  return [{ e: "opaque", type_name: "function", text: value.inspect }, nil] if value.is_a?(Proc) || value.is_a?(Method)

  text = JSON.generate(kindlm_plain(value))
  if text.bytesize > MOST
    raise KindlmStopped.new("memory", "its result is #{text.bytesize >> 20} MiB of JSON; at most #{MOST >> 20} MiB are taken: return less")
  end
  [{ e: "json" }, text]
end

KINDLM_BODIES = {}
KINDLM_LOADED = {}

def kindlm_function(what, parts, root)
  if what["w"] == "body"
    key = [what["params"], parts.shift]
    return KINDLM_BODIES[key] ||= eval("lambda { |#{key[0].join(', ')}|\n#{key[1]}\n}", TOPLEVEL_BINDING.dup, "script", 0)
  end
  file = File.expand_path(what["path"], root)
  raise KindlmStopped.new("load", "there is no file `#{what['path']}`") unless File.file?(file)

  KINDLM_LOADED[file] ||= load(file)
  name = what["function"] || "get_assert"
  main = TOPLEVEL_BINDING.receiver
  unless main.respond_to?(name, true)
    raise KindlmStopped.new("load", "`#{what['path']}` has no method `#{name}`")
  end
  main.method(name)
end

# Converts JSON to a context. Unknown values become nil. `provider.id` becomes a text; in JavaScript, it is a function.
def kindlm_revive(value)
  %w[prompt logProbs provider].each do |key|
    value[key] = nil if value.is_a?(Hash) && value[key].is_a?(Hash) && value[key]["$undefined"] == true
  end
  id = value["provider"]["id"] if value.is_a?(Hash) && value["provider"].is_a?(Hash)
  value["provider"]["id"] = id["$returns"] if id.is_a?(Hash) && id.key?("$returns")
  value
end

KINDLM_ENV = ENV.to_h
def kindlm_run(call, parts, root)
  ENV.replace(KINDLM_ENV.merge(call["env"]))
  begin
    function = kindlm_function(call["what"], parts, root)
  rescue LoadError, SyntaxError => e
    raise KindlmStopped.new("load", "#{e.class}: #{e.message}")
  end
  kindlm_ending(function.call(*parts.map { |part| kindlm_revive(JSON.parse(part)) }))
rescue KindlmStopped => e
  [{ e: "stopped", why: e.why, message: e.message }, nil]
rescue SystemExit => e
  [{ e: "stopped", why: "exited", message: "it called `exit(#{e.status})`: return a result, or raise an error" }, nil]
rescue NoMemoryError, SystemStackError => e
  [{ e: "stopped", why: "memory", message: "#{e.class}: #{e.message}" }, nil]
rescue Exception => e # rubocop:disable Lint/RescueException
  [{ e: "threw", message: e.message, stack: e.full_message(highlight: false), thrown: "#{e.class}: #{e.message}" }, nil]
end

root = Dir.pwd
kindlm_send({ t: "ready" })
while (frame = kindlm_read)
  header, parts = frame
  case header["t"]
  when "hello"
    root = header["root"]
    $LOAD_PATH.unshift(root)
  when "call"
    printed = StringIO.new
    $stdout = $stderr = printed
    ending, part = kindlm_run(header, parts, root)
    $stdout = STDOUT
    $stderr = STDERR
    kindlm_send({ t: "answer", id: header["id"], ending: ending, console: kindlm_console(printed.string), retire: false }, part)
  end
end
exit!(0)
