//! The minimal system that a command sees.

use crate::protocol::{INSIDE_HOME, INSIDE_ID};

/// Top-level directories of the system: shown read-only, or copied when they are links (`/bin -> usr/bin`).
pub(crate) const TOP: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Directories of `/etc` that programs need and that hold no secrets.
pub(crate) const ETC_DIRS: [&str; 13] = [
    "ssl/certs",
    "ca-certificates",
    "pki/tls/certs",
    "pki/ca-trust",
    "alternatives",
    "fonts",
    "ld.so.conf.d",
    "terminfo",
    "perl",
    "python3",
    "ImageMagick-6",
    "ImageMagick-7",
    "java-17-openjdk",
];
/// Files of `/etc`, copied.
pub(crate) const ETC_FILES: [&str; 16] = [
    "ld.so.cache",
    "ld.so.conf",
    "localtime",
    "timezone",
    "mime.types",
    "magic",
    "magic.mime",
    "protocols",
    "services",
    "shells",
    "inputrc",
    "bash.bashrc",
    "os-release",
    "debian_version",
    "ssl/openssl.cnf",
    "papersize",
];

/// Files of `/etc` that are written, not taken from the host.
pub(crate) fn etc_generated() -> Vec<(&'static str, String)> {
    let id = INSIDE_ID;
    vec![
        (
            "passwd",
            format!(
                "root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:{id}:{id}:agent:{INSIDE_HOME}:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
            ),
        ),
        ("group", format!("root:x:0:\nagent:x:{id}:\nnogroup:x:65534:\n")),
        ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n".to_owned()),
        ("hostname", "sandbox\n".to_owned()),
        (
            "nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n".to_owned(),
        ),
        ("resolv.conf", "# no network\n".to_owned()),
    ]
}
