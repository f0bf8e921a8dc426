//! Measures the cost of sandboxes: `cargo bench -p proctor --bench sandboxes`.
//!
//! Every measurement alternates with its baseline (A B A B), so that the ratio remains valid if the
//! machine's speed drifts. The bench asserts no times.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "benchmarks print results and panic on errors"
)]

mod bare_docker;
mod figures;
mod sandboxes;

use figures::Figures;

#[tokio::main]
async fn main() {
    let mut figures = Figures::default();
    println!("agentd: {:.2} MB embedded in the runtime", sandboxes::agent_bytes() as f64 / 1e6);
    let cache = tempfile::tempdir().expect("a folder for layers");
    let native = sandboxes::native_opener(cache.path()).await;
    let docker = sandboxes::docker_opener().await;
    sandboxes::measure_start(&native, "native", &mut figures, 40).await;
    if let Some(docker) = &docker {
        let bare = bare_docker::BareDocker::connect(docker.image()).await;
        sandboxes::compare_start_with_bare(docker, &bare, &mut figures, 12).await;
        sandboxes::measure_steps(&native, docker, &bare, &mut figures).await;
        figures.add_ratio(
            "step: docker exec (CLI) / docker sandbox",
            "step, docker exec CLI",
            "step, docker sandbox",
        );
        figures.add_ratio(
            "step: docker exec (bollard) / docker sandbox",
            "step, docker exec bollard",
            "step, docker sandbox",
        );
        figures.add_ratio(
            "step: docker exec (CLI) / native sandbox",
            "step, docker exec CLI",
            "step, native sandbox",
        );
        figures.add_ratio(
            "step: docker exec (bollard) / native sandbox",
            "step, docker exec bollard",
            "step, native sandbox",
        );
        figures.add_ratio(
            "start: docker sandbox / bare create+start+exec",
            "start, docker sandbox",
            "start, bare docker",
        );
        figures.add_ratio(
            "start: bare create+start+exec / native sandbox",
            "start, bare docker",
            "start, native sandbox",
        );
    } else {
        println!("docker: NOT MEASURED: no engine responds");
        sandboxes::measure_native_steps(&native, &mut figures).await;
    }
    figures.print();
    sandboxes::measure_memory(&native, 20).await;
}
