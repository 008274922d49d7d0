const { inspect, equal } = require("util");
class AssertionError extends Error {
  constructor({ message, actual, expected, operator } = {}) {
    super(message);
    this.generatedMessage = message === undefined;
    this.code = "ERR_ASSERTION";
    Object.assign(this, { actual, expected, operator });
  }
  get name() { return "AssertionError"; }
}
function fail(actual, expected, operator, given, text) {
  if (given instanceof Error) throw given;
  const error = new AssertionError({ message: given ?? text, actual, expected, operator });
  error.generatedMessage = given === undefined;
  throw error;
}
const pair = (a, b) => `\n\n${inspect(a)} !== ${inspect(b)}\n`;
const both = (a, b) => `\n+ actual - expected\n\n+ ${inspect(a).replaceAll("\n", "\n+ ")}\n- ${inspect(b).replaceAll("\n", "\n- ")}\n`;
const assert = (...args) => assert.ok(...args);
assert.ok = (...args) => {
  const [value, message] = args;
  if (!value) fail(value, true, "==", message, args.length ? "The expression evaluated to a falsy value" : "No value argument passed to `assert.ok()`");
};
assert.equal = (a, b, message) => {
  if (!(a == b || (Number.isNaN(a) && Number.isNaN(b)))) fail(a, b, "==", message, `${inspect(a)} == ${inspect(b)}`);
};
assert.notEqual = (a, b, message) => {
  if (a == b || (Number.isNaN(a) && Number.isNaN(b))) fail(a, b, "!=", message, `${inspect(a)} != ${inspect(b)}`);
};
assert.strictEqual = (a, b, message) => {
  const simple = (it) => it === null || (typeof it !== "object" && typeof it !== "function");
  if (!Object.is(a, b)) fail(a, b, "strictEqual", message, `Expected values to be strictly equal:${simple(a) && simple(b) ? pair(a, b) : both(a, b)}`);
};
assert.notStrictEqual = (a, b, message) => {
  if (Object.is(a, b)) fail(a, b, "notStrictEqual", message, `Expected "actual" to be strictly unequal to: ${inspect(b)}`);
};
assert.deepEqual = (a, b, message) => {
  if (!equal(a, b, false)) fail(a, b, "deepEqual", message, `Expected values to be loosely deep-equal:${both(a, b)}`);
};
assert.notDeepEqual = (a, b, message) => {
  if (equal(a, b, false)) fail(a, b, "notDeepEqual", message, `Expected "actual" not to be loosely deep-equal to: ${inspect(b)}`);
};
assert.deepStrictEqual = (a, b, message) => {
  if (!equal(a, b, true)) fail(a, b, "deepStrictEqual", message, `Expected values to be strictly deep-equal:${both(a, b)}`);
};
assert.notDeepStrictEqual = (a, b, message) => {
  if (equal(a, b, true)) fail(a, b, "notDeepStrictEqual", message, `Expected "actual" not to be strictly deep-equal to: ${inspect(b)}`);
};
assert.fail = (message = "Failed") => fail(undefined, undefined, "fail", message);
assert.ifError = (value) => {
  if (value !== null && value !== undefined) throw value instanceof Error ? value : new AssertionError({ message: `ifError got unwanted exception: ${inspect(value)}`, actual: value, expected: null, operator: "ifError" });
};
assert.match = (text, pattern, message) => {
  if (typeof text !== "string" || !pattern.test(text)) fail(text, pattern, "match", message, `The input did not match the regular expression ${pattern}. Input:\n\n${inspect(text)}\n`);
};
assert.doesNotMatch = (text, pattern, message) => {
  if (typeof text === "string" && pattern.test(text)) fail(text, pattern, "doesNotMatch", message, `The input was expected to not match the regular expression ${pattern}. Input:\n\n${inspect(text)}\n`);
};
// Returns if the thrown value is the expected one; otherwise throws an error.
function check(thrown, expected, message) {
  if (expected === undefined) return;
  if (typeof expected === "function") {
    if (expected.prototype !== undefined && thrown instanceof expected) return;
    if (Error.isPrototypeOf(expected) || expected === Error) throw thrown;
    if (expected(thrown) === true) return;
    fail(thrown, expected, "throws", message, "The validation function is expected to return \"true\".");
  } else if (expected instanceof RegExp) {
    if (!expected.test(String(thrown))) fail(thrown, expected, "throws", message, `The input did not match the regular expression ${expected}. Input:\n\n${inspect(String(thrown))}\n`);
  } else {
    for (const name of Object.keys(expected)) {
      const [is, should] = [thrown?.[name], expected[name]];
      if (!(should instanceof RegExp && typeof is === "string" ? should.test(is) : equal(is, should, true))) fail(thrown, expected, "throws", message, `Expected values to be strictly deep-equal:${both(is, should)}`);
    }
  }
}
const split = (expected, message) => (typeof expected === "string" ? [undefined, expected] : [expected, message]);
assert.throws = (fn, ...rest) => {
  const [expected, message] = split(...rest);
  try {
    fn();
  } catch (error) {
    return check(error, expected, message);
  }
  fail(undefined, expected, "throws", message, "Missing expected exception.");
};
assert.doesNotThrow = (fn, message) => {
  try {
    fn();
  } catch (error) {
    fail(error, undefined, "doesNotThrow", typeof message === "string" ? message : undefined, `Got unwanted exception.\nActual message: "${error?.message}"`);
  }
};
assert.rejects = async (work, ...rest) => {
  const [expected, message] = split(...rest);
  try {
    await (typeof work === "function" ? work() : work);
  } catch (error) {
    return check(error, expected, message);
  }
  fail(undefined, expected, "rejects", message, "Missing expected rejection.");
};
assert.doesNotReject = async (work, message) => {
  try {
    await (typeof work === "function" ? work() : work);
  } catch (error) {
    fail(error, undefined, "doesNotReject", typeof message === "string" ? message : undefined, `Got unwanted rejection.\nActual message: "${error?.message}"`);
  }
};
assert.AssertionError = AssertionError;
assert.strict = Object.assign((...args) => assert.ok(...args), assert, {
  equal: assert.strictEqual, notEqual: assert.notStrictEqual, deepEqual: assert.deepStrictEqual, notDeepEqual: assert.notDeepStrictEqual,
});
assert.strict.strict = assert.strict;
module.exports = assert;
