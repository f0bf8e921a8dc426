"""Writes `configs.json`: contents of `task.toml` files, each with the configuration that Harbor's package reads from it.

    V/bin/python tests/harbor/configs.py     (see digests.py)

`runtime/harbor/tests/all/configs.rs` compares Proctor's results with these. If Harbor rejects a text, `config` is null.
"""

import json
import warnings
from pathlib import Path

from harbor.models.task.config import TaskConfig

TEXTS = [
    "",
    'schema_version = "1.4"\n',
    'version = "1.0"\n[task]\nname = "o/n"\n',
    '[task]\nname = "o"\n',
    '[task]\nname = "o/.n"\n',
    '[task]\nname = "o/n..m"\n',
    "[agent]\ntimeout_sec = 900\n",
    '[agent]\ntimeout_sec = "900"\nuser = 1000\n',
    '[agent]\nuser = "dev"\n[verifier]\nuser = "root"\ntimeout_sec = 30.5\n',
    "[agent]\nuser = []\n",
    '[agent]\ntimeout_sec = "soon"\n',
    "[agent]\ntimeout_sec = []\n",
    '[agent]\nnetwork_mode = "public"\n',
    '[agent]\nnetwork_mode = "no-network"\n[verifier]\nnetwork_mode = "public"\n',
    '[agent]\nnetwork_mode = "open"\n',
    '[agent]\nallowed_hosts = ["a.b"]\n',
    '[agent]\nnetwork_mode = "public"\nallowed_hosts = ["a.b"]\n',
    '[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["A.b.", "*.c.d", "192.0.2.7"]\n',
    '[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["https://a.b"]\n',
    '[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["a.b:443"]\n',
    '[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["a.*.b"]\n',
    '[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = [""]\n',
    '[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["*."]\n',
    '[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["-a.b"]\n',
    '[environment]\nnetwork_mode = "no-network"\n',
    "[environment]\nallow_internet = false\n",
    "[environment]\nallow_internet = true\n",
    '[environment]\nallow_internet = false\nnetwork_mode = "public"\n',
    '[environment]\nallow_internet = "yes and no"\n',
    "[environment]\ncpus = 2\nmemory_mb = 2048\n",
    "[environment]\ncpus = 0.5\n",
    '[environment]\nmemory = "2G"\nstorage = "10G"\n',
    '[environment]\nmemory = "512M"\n',
    '[environment]\nmemory = "1.5G"\n',
    '[environment]\nmemory = "2T"\n',
    '[environment]\nmemory_mb = "many"\n',
    '[environment]\nmemory_mb = 1.5\n',
    '[environment]\ndocker_image = "debian:12"\nworkdir = "/w"\nos = "Linux"\n',
    '[environment]\nos = "beos"\n',
    '[environment.env]\nA = "1"\nB = "${B:-x}"\n',
    "[environment.env]\nA = 1\n",
    '[verifier]\nenv = { K = "v" }\n',
    "[verifier]\nenv = []\n",
    '[verifier]\nenvironment_mode = "shared"\n[verifier.environment]\ndocker_image = "x"\n',
    '[verifier]\nenvironment_mode = "other"\n',
    '[verifier]\nenvironment_mode = "separate"\n',
    '[verifier.environment]\ndocker_image = "x"\nworkdir = "/v"\nnetwork_mode = "no-network"\n',
    'artifacts = ["/a", { source = "b/c" }]\n',
    'artifacts = ["../a"]\n',
    "artifacts = [1]\n",
    'artifacts = "a"\n',
    '[solution]\nenv = { S = "1" }\n',
    '[metadata]\ncategory = "x"\nanything = [1, 2]\n',
    "unknown = 1\n[agent]\nunknwon = 2\n",
    "environment = 1\n",
    "a = \n",
    "[agent]\n[agent]\n",
]


def network(policy):
    if policy is None:
        return None
    return [policy.network_mode.value, policy.allowed_hosts]


def judged(text):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = TaskConfig.model_validate_toml(text)
    except Exception:
        return {"text": text, "config": None}
    environment, verifier, agent = config.environment, config.verifier, config.agent
    text_of = lambda user: None if user is None else str(user)
    return {"text": text, "config": {
        "name": config.task.name if config.task else None,
        "agent_seconds": agent.timeout_sec,
        "agent_user": text_of(agent.user),
        "agent_network": network(agent.explicit_phase_policy()),
        "verifier_seconds": verifier.timeout_sec,
        "verifier_user": text_of(verifier.user),
        "verifier_network": network(verifier.explicit_phase_policy()),
        "verifier_env": verifier.env,
        "network": network(environment.resolve_baseline()),
        "image": environment.docker_image,
        "cpus": environment.cpus,
        "memory_mb": environment.memory_mb,
        "env": environment.env,
        "workdir": environment.workdir,
        "solution_env": config.solution.env,
        "separate": (verifier.environment_mode.value == "separate") if verifier.environment_mode
        else verifier.environment is not None,
        "artifacts": [a if isinstance(a, str) else a.source for a in config.artifacts],
    }}


def main():
    table = [judged(text) for text in TEXTS]
    out = Path(__file__).with_name("configs.json")
    out.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(table)} texts, {sum(one['config'] is None for one in table)} rejected, in {out}")


main()
