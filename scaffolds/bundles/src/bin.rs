//! Makes the programs in a bundle available as `/agent/bin/NAME`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{BundleError, MOUNT, SHELL, npm, python, recipe::is_entry_point, unpack};

/// Creates `bin/NAME`: a symlink to a file, or a short script that imports a Python function.
pub(crate) fn install_program(tree: &Path, name: &str, target: &str) -> Result<(), BundleError> {
    let at = tree.join("bin").join(name);
    if is_entry_point(target) {
        let (module, function) = target.split_once(':').unwrap_or((target, "main"));
        let root = function.split('.').next().unwrap_or(function);
        let text = format!(
            "#!{MOUNT}/{} -I\nimport sys\nfrom {module} import {root}\nsys.exit({function}())\n",
            python::INTERPRETER_PATH
        );
        return unpack::write_file(&at, &mut text.as_bytes(), true);
    }
    let path = tree.join(target);
    if !path.is_file() {
        return Err(BundleError::new(format!("bin.{name}: the bundle has no file {target}")).hint(
            "paths are relative to the bundle's root; npm packages are in lib/node_modules",
        ));
    }
    make_runnable(tree, &path)?;
    unpack::create_symlink(&Path::new("..").join(target), &at)
}

/// Makes a file in the bundle executable. If the file is a script, changes its first line to start
/// the bundle's own interpreter, because the usual first line requires `env`, which an image may
/// not have.
fn make_runnable(tree: &Path, path: &Path) -> Result<(), BundleError> {
    use std::os::unix::fs::PermissionsExt;
    let io = |error: std::io::Error| BundleError::io(path, &error);
    let bytes = fs::read(path).map_err(io)?;
    if let Some(line) = first_line(&bytes)
        && let Some(own) = bundled_shebang(tree, &line)
    {
        let mut text = own.into_bytes();
        text.extend_from_slice(&bytes[line.len()..]);
        fs::write(path, text).map_err(io)?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(io)
}

fn first_line(bytes: &[u8]) -> Option<String> {
    let end =
        bytes.iter().take(512).position(|byte| *byte == b'\n').unwrap_or(bytes.len().min(512));
    let line = std::str::from_utf8(&bytes[..end]).ok()?;
    line.starts_with("#!").then(|| line.to_owned())
}

/// Returns a script's first line with the bundle's interpreter in place of the image's. Returns
/// `None` if the bundle does not have the interpreter.
fn bundled_shebang(tree: &Path, line: &str) -> Option<String> {
    let mut words = line.trim_start_matches("#!").split_whitespace().peekable();
    let mut program = words.next()?;
    if Path::new(program).file_name()? == "env" {
        words.next_if_eq(&"-S");
        program = words.next()?;
    }
    let carried = match Path::new(program).file_name()?.to_str()? {
        "node" => PathBuf::from(MOUNT).join(npm::NODE_PATH),
        "python3" | "python" => PathBuf::from(MOUNT).join(python::INTERPRETER_PATH),
        shell @ ("bash" | "sh") => Path::new(SHELL).join(shell),
        _ => return None,
    };
    if !tree.join(carried.strip_prefix(MOUNT).ok()?).exists() {
        return None;
    }
    let rest: Vec<&str> = words.collect();
    let rest = if rest.is_empty() { String::new() } else { format!(" {}", rest.join(" ")) };
    Some(format!("#!{}{rest}", carried.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bin_script_uses_the_bundled_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        for file in [npm::NODE_PATH, "sh/bash"] {
            unpack::write_file(&tree.join(file), &mut &b""[..], true).unwrap();
        }
        let cases = [
            ("#!/usr/bin/env node", Some("#!/agent/libexec/node")),
            ("#!/usr/bin/env -S node --no-warnings", Some("#!/agent/libexec/node --no-warnings")),
            ("#! /bin/bash -e", Some("#!/agent/sh/bash -e")),
            // The bundle does not have these interpreters, or they are unknown.
            ("#!/usr/bin/python3", None),
            ("#!/usr/bin/perl", None),
        ];
        for (line, wanted) in cases {
            assert_eq!(bundled_shebang(tree, line).as_deref(), wanted, "{line}");
        }
        unpack::write_file(
            &tree.join("lib/x.js"),
            &mut &b"#!/usr/bin/env node\nrun()\n"[..],
            false,
        )
        .unwrap();
        install_program(tree, "x", "lib/x.js").unwrap();
        let text = fs::read_to_string(tree.join("bin/x")).unwrap();
        assert_eq!(text, "#!/agent/libexec/node\nrun()\n");
        install_program(tree, "y", "pack.main:cli.app").unwrap();
        let text = fs::read_to_string(tree.join("bin/y")).unwrap();
        assert!(text.ends_with("from pack.main import cli\nsys.exit(cli.app())\n"), "{text}");
        let error = install_program(tree, "z", "lib/none.js").unwrap_err();
        assert!(error.problem.contains("bin.z: the bundle has no file lib/none.js"), "{error}");
    }
}
