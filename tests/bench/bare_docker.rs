//! The baseline: plain containers and `docker exec`, in the way that other harnesses use them.

use std::time::{Duration, Instant};

use bollard::{
    Docker,
    exec::{StartExecOptions, StartExecResults},
    models::{ContainerCreateBody, ExecConfig, HostConfig},
    query_parameters::{CreateContainerOptions, RemoveContainerOptions, StartContainerOptions},
};
use futures_util::StreamExt;

pub struct BareDocker {
    docker: Docker,
    image: String,
}

impl BareDocker {
    pub async fn connect(image: String) -> Self {
        let docker = Docker::connect_with_local_defaults().expect("a Docker socket");
        let docker = docker.negotiate_version().await.expect("a Docker engine");
        Self { docker, image }
    }

    /// Creates and starts a container that sleeps.
    pub async fn start_container(&self) -> String {
        let body = ContainerCreateBody {
            image: Some(self.image.clone()),
            // The image may be a sandbox's layer, whose entrypoint is the sandbox agent, so
            // override it.
            entrypoint: Some(vec!["sleep".into()]),
            cmd: Some(vec!["600".into()]),
            host_config: Some(HostConfig {
                network_mode: Some("none".into()),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let created = self
            .docker
            .create_container(None::<CreateContainerOptions>, body)
            .await
            .expect("a container");
        self.docker
            .start_container(&created.id, None::<StartContainerOptions>)
            .await
            .expect("a started container");
        created.id
    }

    /// Runs `docker exec` through the engine's API and waits for the exit status.
    pub async fn exec(&self, id: &str) -> Duration {
        let begun = Instant::now();
        let config = ExecConfig {
            cmd: Some(vec!["/bin/true".into()]),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..ExecConfig::default()
        };
        let exec = self.docker.create_exec(id, config).await.expect("an exec");
        let started =
            self.docker.start_exec(&exec.id, None::<StartExecOptions>).await.expect("a command");
        if let StartExecResults::Attached { mut output, .. } = started {
            while output.next().await.is_some() {}
        }
        let inspected = self.docker.inspect_exec(&exec.id).await.expect("an exit status");
        assert_eq!(inspected.exit_code, Some(0));
        begun.elapsed()
    }

    /// Runs `docker exec` with the `docker` command.
    pub async fn time_exec_cli(&self, id: &str) -> Duration {
        let begun = Instant::now();
        let status = tokio::process::Command::new("docker")
            .args(["exec", id, "/bin/true"])
            .status()
            .await
            .expect("the docker command");
        assert!(status.success());
        begun.elapsed()
    }

    pub async fn remove_container(&self, id: &str) {
        let options = RemoveContainerOptions { force: true, ..RemoveContainerOptions::default() };
        self.docker.remove_container(id, Some(options)).await.expect("the container's removal");
    }
}
