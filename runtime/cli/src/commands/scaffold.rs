//! `proctor scaffold`: lists the scaffolds and manages the bundles of those that run in the
//! sandbox.

use std::{fmt::Write as _, path::Path, process::ExitCode};

use comfy_table::{Cell, CellAlignment, Table, presets::NOTHING};
use proctor_bundles::{Bundle, BundleStore, VersionedRecipe};
use proctor_catalog::bundled::{self, BundledAgent};
use proctor_scaffold_api::ScaffoldSource as _;
use proctor_types::count_with_noun;

use crate::{
    args::ScaffoldAction,
    assemble, cache_dir,
    error::{CommandError, UserError},
    print::print_result,
};

pub async fn run_scaffold_action(action: ScaffoldAction) -> Result<ExitCode, CommandError> {
    let cache = cache_dir::default_cache_dir()?;
    let bundles = BundleStore::new(bundled::bundles_folder(&cache));
    match action {
        ScaffoldAction::List => print_scaffolds(&cache, &bundles)?,
        ScaffoldAction::Add { scaffold } => {
            cache_dir::lock_shared(&cache)?;
            let found = match split_unpinned_version(&cache, &scaffold)? {
                Some((name, version)) => fetch_version(&cache, &bundles, name, version).await?,
                None => bundled::find_agent(&cache, &scaffold)?,
            };
            let bundle = build_bundle(&bundles, &found).await?;
            print_result(&format!("{}\n", bundle_details(&bundle)))?;
        }
        ScaffoldAction::Show { scaffold, verify } => {
            let found = bundled::find_agent(&cache, &scaffold)?;
            print_manifest(&bundles, &found)?;
            if verify {
                verify_bundle(&bundles, &found)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Splits `requested` (`NAME@VERSION`) if it names a built-in agent in a version that is neither
/// pinned nor added yet. Otherwise returns `None`.
fn split_unpinned_version<'a>(
    cache: &Path,
    requested: &'a str,
) -> Result<Option<(&'a str, &'a str)>, UserError> {
    let Some((name, version)) = requested.rsplit_once('@') else { return Ok(None) };
    let known = proctor_external::names().contains(&name);
    if !known || version.is_empty() || bundled::find_added_manifest(cache, requested).is_some() {
        return Ok(None);
    }
    let is_pinned = bundled::find_agent(cache, name)?.version == version;
    Ok((!is_pinned).then_some((name, version)))
}

/// Writes the manifest of another version of an agent, with the registry's checksums.
async fn fetch_version(
    cache: &Path,
    bundles: &BundleStore,
    name: &str,
    version: &str,
) -> Result<BundledAgent, CommandError> {
    let pinned = bundled::find_agent(cache, name)?;
    let Some(recipe) = &pinned.recipe else {
        return Err(UserError::new(format!("`{name}` has no bundle")).into());
    };
    let VersionedRecipe { recipe, version, missing_dependencies: missing } =
        bundles.recipe_at_version(recipe, &pinned.version, version).await?;
    if version == pinned.version {
        return Ok(pinned);
    }
    for what in missing {
        tell!("warning: {what}; the agent may not start");
    }
    let loaded = proctor_external::manifest_for_version(name, &version, recipe);
    let Some(loaded) = loaded.map_err(bundled::to_user_error)? else {
        return Err(UserError::new(format!("unknown agent `{name}`")).into());
    };
    let asked = bundled::add_manifest(cache, name, &loaded)?;
    tell!("{name} {version} is untested; use it as `scaffold = \"{asked}\"`");
    Ok(bundled::find_agent(cache, &asked)?)
}

async fn build_bundle(bundles: &BundleStore, agent: &BundledAgent) -> Result<Bundle, CommandError> {
    let Some(recipe) = &agent.recipe else {
        let what =
            format!("`{}` has no bundle: its program is part of the task's image", agent.name);
        return Err(UserError::new(what).hint("you don't need to build anything").into());
    };
    let say = |line: String| tell!("{line}");
    let built =
        bundles.ensure_built(&agent.name, &agent.version, recipe, &agent.folder, &say).await;
    Ok(built?)
}

fn print_scaffolds(cache: &Path, bundles: &BundleStore) -> Result<(), CommandError> {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["scaffold", "version", "bundle"]);
    for name in assemble::scaffold_catalog()?.names().iter() {
        if proctor_external::names().contains(name) {
            continue;
        }
        table.add_row([name, "built in", ""]);
    }
    for found in bundled::shipped_agents()?.into_iter().chain(bundled::added_agents(cache)) {
        let bundle = match (&found.recipe, find_built_bundle(bundles, &found)) {
            (None, _) => "none: the program is in the image".to_owned(),
            (Some(_), None) => "not built".to_owned(),
            (Some(_), Some(bundle)) => format!("{:.0} MB", bundle.total_bytes as f64 / 1e6),
        };
        let bundle = if found.is_untested { format!("{bundle}, untested") } else { bundle };
        let size = Cell::new(bundle).set_alignment(CellAlignment::Left);
        // Show the name as it is written in configurations.
        table.add_row([Cell::new(&found.requested_name), Cell::new(&found.version), size]);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
    Ok(print_result(&format!("{}\n", lines.join("\n")))?)
}

fn find_built_bundle(bundles: &BundleStore, agent: &BundledAgent) -> Option<Bundle> {
    bundles.find_built(&agent.name, &agent.version, agent.recipe.as_ref()?, &agent.folder)
}

/// Prints the manifest, followed by build information as comments, so that the output is a valid
/// manifest.
fn print_manifest(bundles: &BundleStore, agent: &BundledAgent) -> Result<(), CommandError> {
    let mut text = agent.manifest_text.trim_end().to_owned();
    text.push('\n');
    match find_built_bundle(bundles, agent) {
        Some(bundle) => {
            for line in bundle_details(&bundle).lines() {
                let _ = writeln!(text, "# {line}");
            }
        }
        None if agent.recipe.is_some() => {
            let _ = writeln!(
                text,
                "# bundle    not built: `proctor scaffold add {}`",
                agent.requested_name
            );
        }
        None => text.push_str("# bundle    none: the program is in the task's image\n"),
    }
    Ok(print_result(&text)?)
}

fn bundle_details(bundle: &Bundle) -> String {
    let mut text = format!(
        "bundle    {}\nfolder    {}\nsize      {:.1} MB, {}\nbuilt in  {:.1} s\n",
        bundle.digest,
        bundle.folder.display(),
        bundle.total_bytes as f64 / 1e6,
        count_with_noun(bundle.file_count, "file"),
        bundle.build_seconds
    );
    for (name, version) in &bundle.versions {
        let _ = writeln!(text, "contains  {name} {version}");
    }
    if !bundle.python_packages.is_empty() {
        let _ = writeln!(text, "imports   {}", bundle.python_packages.join(" "));
    }
    text.trim_end().to_owned()
}

fn verify_bundle(bundles: &BundleStore, agent: &BundledAgent) -> Result<(), CommandError> {
    let Some(recipe) = &agent.recipe else { return Ok(()) };
    bundles.verify(&agent.name, &agent.version, recipe, &agent.folder)?;
    tell!("the bundle of {} {} is intact", agent.name, agent.version);
    Ok(())
}
