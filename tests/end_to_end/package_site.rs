//! Creates a folder with the content of a package index, a file host and a Git server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::stage::repository_root;

/// Returns the folder of the package that the task is about.
pub fn numerals_folder() -> PathBuf {
    repository_root().join("configs/tasks/numerals")
}

pub fn run_shell(folder: &Path, line: &str) {
    let output = Command::new("sh").args(["-c", line]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Creates the folder. It contains two packages and two repositories.
pub fn create_site(folder: &Path) -> PathBuf {
    let www = folder.join("www");
    fs::create_dir_all(www.join("files")).unwrap();
    fs::write(
        folder.join("wheel.py"),
        "import sys, zipfile\n\
         name, path = sys.argv[1:]\n\
         info = f'{name}-1.0.dist-info'\n\
         with zipfile.ZipFile(f'{path}/{name}-1.0-py3-none-any.whl', 'w') as wheel:\n\
         \x20   wheel.writestr(f'{name}.py', 'made = True\\n')\n\
         \x20   wheel.writestr(f'{info}/METADATA', f'Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n')\n\
         \x20   wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
         \x20   wheel.writestr(f'{info}/RECORD', '')\n",
    )
    .unwrap();
    for name in ["gadget", "widget"] {
        fs::create_dir_all(www.join("simple").join(name)).unwrap();
        fs::create_dir_all(www.join("acme").join(name).join("archive")).unwrap();
        run_shell(folder, &format!("/usr/bin/python3 wheel.py {name} www/simple/{name}"));
        fs::write(www.join("acme").join(name).join("archive/main.zip"), "PK").unwrap();
        run_shell(
            folder,
            &format!(
                "git init -q -b main {name} && cd {name} && echo {name} > file && git add file && \
                 git -c user.name=t -c user.email=t@t commit -q -m {name} && \
                 git clone -q --bare . ../www/acme/{name}.git"
            ),
        );
    }
    fs::write(www.join("files/widget-1.0.tar.gz"), "sdist").unwrap();
    www
}
