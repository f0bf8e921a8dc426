//! What a room costs: `cargo bench -p proctor --bench rooms`.
//!
//! Every figure stands beside its alternative, measured in the same run and in turn (A B A B), so
//! that the ratio holds when the machine's speed drifts. Nothing here asserts a time.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench prints, and stops at the first thing that is not there"
)]

mod bare;
mod figures;
mod rooms;

use figures::Figures;

#[tokio::main]
async fn main() {
    let mut figures = Figures::default();
    println!("agentd: {:.2} MB carried in the runtime", rooms::agent_bytes() as f64 / 1e6);
    let cache = tempfile::tempdir().expect("a folder for layers");
    let native = rooms::native(cache.path()).await;
    let docker = rooms::docker().await;
    rooms::start(&native, "native", &mut figures, 40).await;
    if let Some(docker) = &docker {
        let bare = bare::Bare::connect(docker.image()).await;
        rooms::start_against_bare(docker, &bare, &mut figures, 12).await;
        rooms::steps(&native, docker, &bare, &mut figures).await;
        figures.ratio(
            "step: docker exec (CLI) / docker room",
            "step, docker exec CLI",
            "step, docker room",
        );
        figures.ratio(
            "step: docker exec (bollard) / docker room",
            "step, docker exec bollard",
            "step, docker room",
        );
        figures.ratio(
            "step: docker exec (CLI) / native room",
            "step, docker exec CLI",
            "step, native room",
        );
        figures.ratio(
            "step: docker exec (bollard) / native room",
            "step, docker exec bollard",
            "step, native room",
        );
        figures.ratio(
            "start: docker room / bare create+start+exec",
            "start, docker room",
            "start, bare docker",
        );
        figures.ratio(
            "start: bare create+start+exec / native room",
            "start, bare docker",
            "start, native room",
        );
    } else {
        println!("docker: NOT MEASURED: no engine answers");
        rooms::steps_native(&native, &mut figures).await;
    }
    figures.print();
    rooms::memory(&native, 20).await;
}
