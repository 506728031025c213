// run-whisper.cjs [--leak] NPM MODEL: loads MODEL into @fugood's prebuilt whisper.cpp (CUDA 12) from the folder NPM and lets it
// listen to a second of silence. With --leak it exits with the model as it is.
"use strict";
const {createRequire} = require("node:module");
const path = require("node:path");

const args = process.argv.slice(2);
const leak = args[0] === "--leak" && args.shift() != null;
const [npm, model] = args;
if (model == null) {
    console.error("usage: run-whisper.cjs [--leak] NPM MODEL");
    process.exit(2);
}

const {WhisperContext} = createRequire(path.resolve(npm, "package.json"))("@fugood/node-whisper-linux-x64-cuda");

async function main() {
    const context = new WhisperContext({filePath: model, useGpu: true, useFlashAttn: false});
    const silence = new ArrayBuffer(16000 * 2); // 16 kHz, 16 bits
    const {promise} = context.transcribeData(silence, {language: "en", temperature: 0, temperatureInc: 0, maxThreads: 1});
    const {segments, language} = await promise;

    console.log(`whisper: ${language}: ${segments.length} segments`);
    if (leak)
        process.exit(0);
    await context.release();
}

main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
});
