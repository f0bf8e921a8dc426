//! Finds mounts other than the root.

use proctor_wire::RawPath;

use super::paths::trim_slashes;

/// File systems that contain only kernel state.
const KERNEL_FILE_SYSTEMS: [&str; 11] = [
    "bpf",
    "cgroup",
    "cgroup2",
    "debugfs",
    "devpts",
    "devtmpfs",
    "proc",
    "pstore",
    "securityfs",
    "sysfs",
    "tracefs",
];

/// Returns the paths of all writable mounts except the root and kernel file systems.
pub(super) fn writable_mounts(mountinfo: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for line in mountinfo.split(|&byte| byte == b'\n') {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let Some(dash) = fields.iter().position(|field| *field == b"-") else { continue };
        let (Some(&at), Some(&own), Some(&kind), Some(&whole)) =
            (fields.get(4), fields.get(5), fields.get(dash + 1), fields.get(dash + 3))
        else {
            continue;
        };
        let is_writable =
            |options: &[u8]| options.split(|&byte| byte == b',').any(|option| option == b"rw");
        let of_the_kernel = KERNEL_FILE_SYSTEMS.iter().any(|name| name.as_bytes() == kind);
        let at = RawPath::from_mountinfo(at);
        let at = trim_slashes(at.as_bytes());
        if !at.is_empty() && is_writable(own) && is_writable(whole) && !of_the_kernel {
            found.push(at.to_vec());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::writable_mounts;

    #[test]
    fn writable_mounts_excludes_root_read_only_and_kernel_mounts() {
        let mountinfo = b"1 0 0:1 / / rw - overlay proctor rw\n\
            2 1 0:2 / /proc rw,nosuid - proc proctor rw\n\
            3 1 0:3 / /dev/shm rw,nosuid - tmpfs proctor rw,size=4k\n\
            4 1 0:4 / /usr ro - ext4 /dev/vda rw\n\
            5 1 0:5 / /opt rw - overlay overlay ro,lowerdir=/a\n\
            6 1 0:6 /v /my\\040data rw shared:2 - ext4 /dev/vda rw\n";
        assert_eq!(writable_mounts(mountinfo), [&b"dev/shm"[..], b"my data"]);
    }
}
