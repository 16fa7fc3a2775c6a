// Runs the stages of one job under the WebAssembly build of MicroPython; see micropython_runner.py.
// The job is JSON on the standard input: {module, heapBytes, place, path, stages}.
import fs from "node:fs";
import { join } from "node:path";

const job = JSON.parse(fs.readFileSync(0, "utf8"));
const { loadMicroPython } = await import(job.module);
const interpreter = await loadMicroPython({
  heapsize: job.heapBytes,
  linebuffer: false,
  stdout: (bytes) => fs.writeSync(1, bytes),
  stderr: (bytes) => fs.writeSync(2, bytes),
});

// The interpreter sees a file system of its own: what it may read is copied into it.
function copyTree(source, target) {
  interpreter.FS.mkdir(target);
  for (const entry of fs.readdirSync(source, { withFileTypes: true })) {
    const from = join(source, entry.name);
    const to = `${target}/${entry.name}`;
    if (entry.isDirectory()) {
      if (entry.name !== "node_modules" && entry.name !== "__pycache__") copyTree(from, to);
    } else if (entry.isFile()) {
      interpreter.FS.writeFile(to, fs.readFileSync(from));
    }
  }
}

copyTree(job.place, "/work");
interpreter.FS.chdir("/work");
job.path.forEach((source, index) => copyTree(source, `/path${index}`));
const names = job.path.map((_, index) => `"/path${index}"`);
interpreter.runPython(`import sys\nsys.path.extend([${names.join(",")}])`);

try {
  for (const stage of job.stages) interpreter.runPython(stage);
} catch (error) {
  fs.writeSync(2, `${error.message ?? error}\n`);
  process.exitCode = 1;
}
