// run-llama.mjs [--leak] NPM MODEL: loads MODEL into node-llama-cpp's prebuilt CUDA build (CUDA 13) from the folder NPM,
// all layers on the GPU, generates a few tokens and disposes of everything; with --leak it disposes of nothing.
// Never builds or downloads llama.cpp. Exits 0 only when the tokens came and the backend was CUDA.
import childProcess from "node:child_process";
import {createRequire, syncBuiltinESMExports} from "node:module";
import path from "node:path";
import {pathToFileURL} from "node:url";

const TOKENS = 16;
const args = process.argv.slice(2);
const leak = args[0] === "--leak" && args.shift() != null;
const [npm, modelPath] = args;
if (modelPath == null) {
    console.error("usage: run-llama.mjs [--leak] NPM MODEL");
    process.exit(2);
}

// node-llama-cpp first tries the binary in a child process. That one is no part of the run: it gets neither the preload
// nor the simulator's log.
const {fork} = childProcess;
childProcess.fork = (file, forkArgs, options) => {
    const {LD_PRELOAD: _preload, SIMCUDA_LOG: _log, ...env} = options.env;
    return fork(file, forkArgs, {...options, env});
};
syncBuiltinESMExports();

const {resolve} = createRequire(path.resolve(npm, "package.json"));
const {getLlama} = await import(pathToFileURL(resolve("node-llama-cpp")).href);

async function generate(context) {
    const {model} = context;
    const sequence = context.getSequence();
    const tokens = [];

    for await (const token of sequence.evaluate(model.tokenize("one two the sea"), {temperature: 0, yieldEogToken: true})) {
        tokens.push(token);
        if (tokens.length === TOKENS)
            break;
    }
    return tokens;
}

const llama = await getLlama({gpu: "cuda", build: "never", skipDownload: true, logLevel: process.env.LLAMA_LOG ?? "warn"});
if (llama.gpu !== "cuda")
    throw new Error(`the backend is ${llama.gpu}, not CUDA`);
const model = await llama.loadModel({modelPath, gpuLayers: "max"});
const context = await model.createContext({contextSize: 256});
const tokens = await generate(context);
console.log(`llama: ${(await llama.getGpuDeviceNames()).join(", ")}: ${model.gpuLayers} layers, ` +
    `tokens ${tokens.join(" ")}`);
if (tokens.length !== TOKENS)
    throw new Error(`${tokens.length} tokens came, not ${TOKENS}`);
if (leak)
    process.exit(0); // the model, its context and the backend stay as they are
await context.dispose();
await model.dispose();
await llama.dispose();
