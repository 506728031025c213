// run-llama-12.cjs [--leak] NPM MODEL: the same as run-llama.mjs with @fugood's prebuilt build (CUDA 12),
// whose own log, which nothing turns off, goes to standard error.
"use strict";
const {createRequire} = require("node:module");
const path = require("node:path");

const TOKENS = 16;
const args = process.argv.slice(2);
const leak = args[0] === "--leak" && args.shift() != null;
const [npm, model] = args;
if (model == null) {
    console.error("usage: run-llama-12.cjs [--leak] NPM MODEL");
    process.exit(2);
}

const {LlamaContext} = createRequire(path.resolve(npm, "package.json"))("@fugood/node-llama-linux-x64-cuda");

async function main() {
    const context = new LlamaContext({model, n_ctx: 256, n_gpu_layers: 99, n_parallel: 1, n_threads: 1});
    const devices = context.getUsedDevices();

    if (!devices.some((device) => device.startsWith("CUDA")))
        throw new Error(`the devices are ${devices.join(", ") || "none"}, not CUDA`);
    const {tokens_predicted: tokens, text} = await context.completion(
        {prompt: "one two the sea", n_predict: TOKENS, temperature: 0, ignore_eos: true}, () => {});
    console.log(`llama: ${devices.join(", ")}: ${tokens} tokens: ${JSON.stringify(text)}`);
    if (tokens < TOKENS - 1) // it counts those after the prompt's own
        throw new Error(`${tokens} tokens came, not ${TOKENS}`);
    if (leak)
        process.exit(0); // the model and its context stay as they are
    await context.release();
}

main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
});
