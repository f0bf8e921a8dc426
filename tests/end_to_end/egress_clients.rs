//! Tests common client programs behind a proxy that decrypts TLS. Without further configuration,
//! each program trusts the run's certificate authority and uses the proxy.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use fake_llm::FakeLlm;

use crate::not_run::not_run;
use crate::{
    package_site::{create_site, numerals_folder, run_shell},
    scripted_trial::{ScriptedTrial, script},
    stage::Stage,
    upstream::UpstreamServer,
};

/// A client program: its name, the command that must exist on the host, and the command line that
/// fetches `NAME` from `URL`.
struct Client {
    name: &'static str,
    required_command: &'static str,
    command_line: &'static str,
}

const CLIENTS: [Client; 10] = [
    Client { name: "curl", required_command: "curl", command_line: "curl -sSf URL/page/NAME" },
    Client {
        name: "pip",
        required_command: "python3",
        command_line: "/venv/bin/pip download -q --no-deps --no-cache-dir --disable-pip-version-check \
               --retries 0 -d /tmp/pip -i URL/simple/ NAME && ls /tmp/pip",
    },
    Client {
        name: "requests",
        required_command: "python3",
        command_line: "/venv/bin/python -c 'import requests; r = requests.get(\"URL/page/NAME\"); \
               r.raise_for_status(); print(r.text)'",
    },
    Client {
        name: "httpx",
        required_command: "python3",
        command_line: "/venv/bin/python -c 'import httpx; r = httpx.get(\"URL/page/NAME\"); \
               r.raise_for_status(); print(r.text)'",
    },
    Client {
        name: "urllib",
        required_command: "python3",
        command_line: "/venv/bin/python -c 'import urllib.request as u; \
               print(u.urlopen(\"URL/page/NAME\").read().decode())'",
    },
    Client {
        name: "git",
        required_command: "git",
        command_line: "git clone -q URL/acme/NAME.git /tmp/git-NAME && cat /tmp/git-NAME/file",
    },
    Client {
        name: "npm",
        required_command: "npm",
        command_line: "cd /tmp && npm pack --registry URL/npm/ NAME && tar -xzOf NAME-1.0.0.tgz package/file",
    },
    Client {
        name: "cargo",
        required_command: "tar",
        command_line: "mkdir -p /tmp/cargo-NAME/src && cd /tmp/cargo-NAME && touch src/lib.rs && \
               printf '[package]\\nname = \"x\"\\n[dependencies]\\nNAME = \"1\"\\n' > Cargo.toml && \
               /testbed/cargo generate-lockfile --config 'source.crates-io.replace-with=\"here\"' \
               --config 'source.here.registry=\"sparse+URL/cargo/\"' && grep NAME Cargo.lock",
    },
    Client {
        name: "node",
        required_command: "node",
        command_line: "/usr/bin/env node /testbed/fetch.js URL/page/NAME",
    },
    Client {
        name: "java",
        required_command: "javac",
        command_line: "java /testbed/Fetch.java URL/page/NAME 2>&1",
    },
];

/// Since Node 22.21, `fetch` uses the proxy in the environment. To support older versions, this
/// program opens the tunnel itself.
const FETCH_JS: &str = r#"
const http = require("http"), tls = require("tls");
const url = new URL(process.argv[2]), proxy = new URL(process.env.HTTPS_PROXY);
const tunnel = http.request({ host: proxy.hostname, port: proxy.port, method: "CONNECT", path: url.host });
tunnel.on("connect", (answer, socket) => {
  const secure = tls.connect({ socket, servername: url.hostname }, () => {
    secure.write(`GET ${url.pathname} HTTP/1.1\r\nHost: ${url.host}\r\nConnection: close\r\n\r\n`);
  });
  let text = "";
  secure.on("data", (data) => { text += data; });
  secure.on("end", () => { console.log(text.split("\r\n\r\n")[1]); });
  secure.on("error", (error) => { console.error(error.message); process.exit(1); });
});
tunnel.end();
"#;

const FETCH_JAVA: &str = r#"
import java.net.*;

public class Fetch {
    public static void main(String[] args) throws Exception {
        var connection = (HttpURLConnection) new URL(args[0]).openConnection();
        System.out.print(new String(connection.getInputStream().readAllBytes()));
    }
}
"#;

/// Adds pages, an npm package and the client programs' source files to the site.
fn add_pages(folder: &Path, www: &Path, index: &str) {
    fs::create_dir_all(www.join("page")).unwrap();
    fs::create_dir_all(www.join("npm")).unwrap();
    fs::create_dir_all(www.join("cargo")).unwrap();
    let config = serde_json::json!({"dl": format!("{index}/files/{{crate}}.crate")});
    fs::write(www.join("cargo/config.json"), config.to_string()).unwrap();
    for name in ["gadget", "widget"] {
        fs::write(www.join("page").join(name), format!("{name}\n")).unwrap();
        let shelf = www.join("cargo").join(&name[..2]).join(&name[2..4]);
        fs::create_dir_all(&shelf).unwrap();
        let line = serde_json::json!({"name": name, "vers": "1.0.0", "deps": [], "features": {},
            "cksum": "0".repeat(64), "yanked": false});
        fs::write(shelf.join(name), format!("{line}\n")).unwrap();
        let package = folder.join(format!("npm-{name}/package"));
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("file"), format!("{name}\n")).unwrap();
        let manifest = serde_json::json!({"name": name, "version": "1.0.0"});
        fs::write(package.join("package.json"), manifest.to_string()).unwrap();
        let tarball = format!("{name}-1.0.0.tgz");
        run_shell(folder, &format!("tar -czf www/files/{tarball} -C npm-{name} package"));
        let dist = serde_json::json!({"tarball": format!("{index}/files/{tarball}")});
        let version = serde_json::json!({"name": name, "version": "1.0.0", "dist": dist});
        let page = serde_json::json!({"name": name, "dist-tags": {"latest": "1.0.0"},
            "versions": {"1.0.0": version}});
        fs::write(www.join("npm").join(name), page.to_string()).unwrap();
    }
}

/// Creates a copy of the demo's package, with the source files of the client programs next to it.
/// Also copies cargo, because rustup installs it in a home directory.
fn create_source(folder: &Path) -> PathBuf {
    let source = folder.join("source");
    run_shell(folder, &format!("cp -r '{}' source", numerals_folder().display()));
    fs::write(source.join("fetch.js"), FETCH_JS).unwrap();
    fs::write(source.join("Fetch.java"), FETCH_JAVA).unwrap();
    fs::copy(env!("CARGO"), source.join("cargo")).unwrap();
    source
}

fn has_command(command: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {command}")])
        .output()
        .unwrap()
        .status
        .success()
}

#[test]
fn known_clients_trust_the_proxy() {
    let here: Vec<_> =
        CLIENTS.iter().filter(|client| has_command(client.required_command)).collect();
    for client in CLIENTS.iter().filter(|client| !has_command(client.required_command)) {
        let why = format!("no {}, which {} needs", client.required_command, client.name);
        not_run("known_clients_trust_the_proxy", "CLIENTS", why);
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stage = Stage::new();
    let www = create_site(stage.dir.path());
    let upstream = runtime.block_on(UpstreamServer::start(&["index.test"], &www));
    let index = format!("https://index.test:{}", upstream.port());
    add_pages(stage.dir.path(), &www, &index);
    stage.write_file("own-mirror.pem", &upstream.ca_certificate);
    let line = |client: &Client, name: &str| {
        client.command_line.replace("URL", &index).replace("NAME", name)
    };
    let commands: Vec<_> = ["gadget", "widget"]
        .iter()
        .flat_map(|name| here.iter().map(move |client| line(client, name)))
        .collect();
    let fake = runtime.block_on(FakeLlm::start(script(&commands))).unwrap();
    let network = format!(
        "mode = \"allow\"\n\
         allow = [\"{index}/**\"]\n\
         deny = [\"{index}/page/widget\", \"{index}/npm/widget\", \"{index}/cargo/wi/**\"]\n\
         private = [\"index.test=127.0.0.1:{}\"]\n\
         ca_file = \"own-mirror.pem\"",
        upstream.port()
    );
    let source = create_source(stage.dir.path());
    let setup = vec!["/venv/bin/pip install -q requests httpx".to_owned()];
    let trial = ScriptedTrial {
        stage,
        fake,
        commands,
        network_lines: network,
        model_lines: String::new(),
        setup_lines: setup,
        source,
    };
    let (shown, ledger) = trial.run(&runtime, "native");
    for (at, client) in here.iter().enumerate() {
        let (first, second) = (at as u64 + 1, (at + here.len()) as u64 + 1);
        let (got, refused) = (&shown[at], &shown[at + here.len()]);
        let name = client.name;
        assert!(got.contains("gadget") && !got.contains("[exit status"), "{name}: {got}");
        let allowed =
            ledger.get(&first).unwrap_or_else(|| panic!("{name} bypassed the proxy: {got}"));
        assert!(allowed.iter().all(|line| line["decision"] == "allowed"), "{name}: {allowed:#?}");
        let denied = ledger.get(&second).unwrap_or_else(|| panic!("{name}: not asked: {refused}"));
        assert!(denied.iter().any(|line| line["decision"] == "denied"), "{name}: {denied:#?}");
        let told = ["403", "Blocked by the egress proxy", "No matching distribution"];
        assert!(told.iter().any(|text| refused.contains(text)), "{name}: {refused}");
    }
}
