//! Environment variables and files that tell programs in the sandbox how to find and trust the
//! proxy.

use std::net::SocketAddr;

use crate::settings::Settings;

/// Files to write into the sandbox, as absolute path and content. They must be outside the work
/// directory and readable by all users.
pub struct ClientFiles(pub Vec<(String, Vec<u8>)>);

/// Returns the environment variables for every command that the scaffold runs. `proxy` is the
/// proxy's address inside the sandbox.
pub fn client_env(proxy: SocketAddr) -> Result<Vec<(String, String)>, String> {
    let client = &Settings::shipped()?.client;
    let url = format!("http://{proxy}");
    let bundle = format!("{}/{}", client.folder, client.bundle_file);
    let filled = |text: &str| {
        text.replace("{host}", &proxy.ip().to_string())
            .replace("{port}", &proxy.port().to_string())
            .replace("{folder}", &client.folder)
    };
    let all = |names: &[String], value: &str| {
        names.iter().map(|name| (name.clone(), value.to_owned())).collect::<Vec<_>>()
    };
    let mut variables = all(&client.proxy, &url);
    variables.extend(all(&client.no_proxy, &client.no_proxy_hosts));
    variables.extend(all(&client.bundle, &bundle));
    variables.extend(client.other.iter().map(|(name, value)| (name.clone(), filled(value))));
    Ok(variables)
}

pub(crate) fn client_files(bundle: Vec<u8>, keystore: Vec<u8>) -> Result<ClientFiles, String> {
    let client = &Settings::shipped()?.client;
    Ok(ClientFiles(vec![
        (format!("{}/{}", client.folder, client.bundle_file), bundle),
        (format!("{}/{}", client.folder, client.keystore_file), keystore),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_env_points_to_the_proxy_and_its_certificates() {
        let variables = client_env("127.0.0.1:3128".parse().unwrap()).unwrap();
        let value = |name: &str| {
            variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
        };
        for name in ["HTTP_PROXY", "https_proxy", "ALL_PROXY"] {
            assert_eq!(value(name), Some("http://127.0.0.1:3128"));
        }
        assert_eq!(value("no_proxy"), Some("127.0.0.1,localhost,::1"));
        assert_eq!(value("PIP_CERT"), Some("/run/proctor-egress/ca-bundle.pem"));
        assert!(value("JAVA_TOOL_OPTIONS").unwrap().contains("-Dhttps.proxyPort=3128"));
        let files = client_files(vec![1], vec![2]).unwrap().0;
        assert!(files.iter().any(|(path, _)| Some(path.as_str()) == value("SSL_CERT_FILE")));
        assert!(files.iter().any(|(path, _)| value("JAVA_TOOL_OPTIONS").unwrap().contains(path)));
    }
}
