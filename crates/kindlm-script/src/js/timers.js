module.exports = { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate };
module.exports.promises = {
  setTimeout: (delay, value) => new Promise((resolve) => setTimeout(resolve, delay, value)),
  setImmediate: (value) => new Promise((resolve) => setImmediate(resolve, value)),
};
