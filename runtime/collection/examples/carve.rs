//! Carves objects out of a file in a source tree and prints the mask: `carve ROOT FILE PATH...`.

use std::{collections::BTreeMap, path::Path};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [root, file, paths @ ..] = &args[..] else {
        return Err("usage: carve ROOT FILE PATH...".into());
    };
    let wanted = BTreeMap::from([(file.clone(), paths.to_vec())]);
    let carving = proctor_collection::carve(Path::new(root), &wanted)?;
    for object in &carving.objects {
        eprintln!("# {} {:?}\n{}", object.path, object.kind, object.stub);
    }
    use std::io::Write;
    std::io::stdout().write_all(carving.mask().as_bytes())?;
    Ok(())
}
