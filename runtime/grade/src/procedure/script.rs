//! Creates the scripts that run a task's tests between the harness's markers.

use proctor_official::OfficialPolicy;

/// Lines that the harness removes from every script and then puts at its start.
const SCRIPT_HEAD: [&str; 2] = ["#!/bin/bash", "set -uxo pipefail"];

/// Returns the row's own script as the harness runs it: the script saves the tests' exit status
/// before the line with the end marker, and prints the status after that line. Without an end
/// marker, only [`SCRIPT_HEAD`] is normalized.
pub(super) fn row_script(script: &str, status: &str, policy: &OfficialPolicy) -> String {
    let mut lines: Vec<String> = SCRIPT_HEAD.map(str::to_owned).into();
    let end = policy.log.markers.as_ref().map(|markers| markers.end.as_str());
    let mut kept = false;
    for line in script.trim().split('\n').filter(|line| !SCRIPT_HEAD.contains(line)) {
        let ends = !kept && end.is_some_and(|end| line.contains(end));
        match policy.log.exit_marker.as_ref().filter(|_| ends) {
            Some(marker) => {
                kept = true;
                lines.push(format!("{status}=$?"));
                lines.push(line.to_owned());
                lines.push(format!("echo \"{marker}: ${status}\""));
            }
            None => lines.push(line.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}

/// Returns a generated script that runs one command, for rows without a script.
pub(super) fn command_script(command: &str, workdir: &str, prelude: &str) -> String {
    format!(
        "exec 2>&1\n{prelude}\ncd {workdir}\nset -x\n: '>>>>> Start Test Output'\n{command}\n\
         PROCTOR_STATUS=$?\n: '>>>>> End Test Output'\n\
         echo \">>>>> Test Exit Code: $PROCTOR_STATUS\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_script_saves_the_status_at_the_first_end_marker_only() {
        let all = OfficialPolicy::all().unwrap();
        let policy =
            all.iter().find(|one| one.benchmark == "swe-bench" && one.version == "5.0.2").unwrap();
        let script = "#!/bin/bash\nset -uxo pipefail\ncd /testbed\n: '>>>>> Start Test Output'\n\
                      pytest -rA t.py\n: '>>>>> End Test Output'\ngit checkout abc t.py\n";
        let expected = "#!/bin/bash\nset -uxo pipefail\ncd /testbed\n: '>>>>> Start Test Output'\n\
                        pytest -rA t.py\nS=$?\n: '>>>>> End Test Output'\n\
                        echo \">>>>> Test Exit Code: $S\"\ngit checkout abc t.py\n";
        assert_eq!(row_script(script, "S", policy), expected);
        assert_eq!(
            row_script("echo a\necho b", "S", policy),
            "#!/bin/bash\nset -uxo pipefail\necho a\necho b\n"
        );
    }
}
