//! Image names, taken from the row or derived by a rule.

use super::shape::ImageRules;

/// The variables of a template.
pub(crate) struct ImageVariables<'a> {
    pub id: &'a str,
    pub repo: &'a str,
    /// The row's own image or the derived one.
    pub image: &'a str,
}

/// Fills `{id}`, `{repo}`, `{owner}`, `{name}` and `{image}`.
pub(crate) fn fill_template(template: &str, variables: &ImageVariables<'_>) -> String {
    let (owner, name) = variables.repo.split_once('/').unwrap_or(("", variables.repo));
    template
        .replace("{id}", variables.id)
        .replace("{repo}", variables.repo)
        .replace("{owner}", owner)
        .replace("{name}", name)
        .replace("{image}", variables.image)
}

/// Returns the image of a row: the row's own, or else the one derived by the rule. The name is in
/// lower case, as registries require.
pub(crate) fn resolve_image(
    row_image: Option<&str>,
    rule: &ImageRules,
    id: &str,
    repo: &str,
) -> Option<String> {
    if let Some(given) = row_image.map(str::trim).filter(|given| !given.is_empty()) {
        return Some(lowercase_repository(given));
    }
    if rule.name.is_empty() {
        return None;
    }
    let id = match &rule.separator {
        Some(separator) => id.replace("__", separator),
        None => id.to_owned(),
    };
    Some(lowercase_repository(&fill_template(
        &rule.name,
        &ImageVariables { id: &id, repo, image: "" },
    )))
}

/// Converts the repository to lower case. Tags and digests keep their case.
fn lowercase_repository(name: &str) -> String {
    let repository = name.rfind('/').map_or(0, |slash| slash + 1);
    let end = name[repository..].find([':', '@']).map_or(name.len(), |at| repository + at);
    format!("{}{}", name[..end].to_lowercase(), &name[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolve_image_derives_registry_image_names() {
        let rule = ImageRules {
            name: "swebench/sweb.eval.x86_64.{id}:latest".into(),
            separator: Some("_1776_".into()),
            ..ImageRules::default()
        };
        assert_eq!(
            resolve_image(None, &rule, "Django__django-1", "django/django").unwrap(),
            "swebench/sweb.eval.x86_64.django_1776_django-1:latest"
        );
        assert_eq!(
            resolve_image(Some("Reg:5000/A/B:Tag"), &rule, "x", "y").unwrap(),
            "reg:5000/a/b:Tag"
        );
        assert_eq!(resolve_image(Some(" "), &ImageRules::default(), "x", "y"), None);
    }
}
