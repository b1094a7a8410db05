// node compile.cjs NODE_MODULES SOURCE...: compiles contracts with the solc of NODE_MODULES, and prints the creation
// code of each as JSON. A relative SOURCE, and every import, is a path in NODE_MODULES.
"use strict";
const { readFileSync } = require("node:fs");
const { resolve } = require("node:path");

const [modules, ...sources] = process.argv.slice(2);
const solc = require(resolve(modules, "solc"));
const read = (path) => readFileSync(resolve(modules, path), "utf8");
const input = {
  language: "Solidity",
  sources: Object.fromEntries(sources.map((path) => [path, { content: read(path) }])),
  settings: {
    evmVersion: "cancun",
    optimizer: { enabled: true, runs: 200 },
    outputSelection: { "*": { "*": ["evm.bytecode.object"] } },
  },
};
const found = (path) => {
  try {
    return { contents: read(path) };
  } catch (error) {
    return { error: String(error) };
  }
};
const output = JSON.parse(solc.compile(JSON.stringify(input), { import: found }));
const errors = (output.errors ?? []).filter((each) => each.severity === "error");
if (errors.length > 0) {
  console.error(errors.map((each) => each.formattedMessage).join("\n"));
  process.exit(1);
}
const contracts = Object.assign({}, ...sources.map((path) => output.contracts[path]));
const codes = Object.entries(contracts).map(([name, contract]) => [name, contract.evm.bytecode.object]);
console.log(JSON.stringify(Object.fromEntries(codes)));
