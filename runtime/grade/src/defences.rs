//! The defences, each with its switch.

/// Which defences are up. All of them, always: a single one is taken down only by the attack tests,
/// to show that its attack succeeds without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defences {
    pub(crate) restore_tests: bool,
    pub(crate) restore_config: bool,
    pub(crate) remove_self_loading: bool,
    pub(crate) remove_shadowing: bool,
    pub(crate) remove_bytecode: bool,
    pub(crate) freeze_plugins: bool,
    pub(crate) authenticate: bool,
    pub(crate) require_end: bool,
    pub(crate) canaries: bool,
    pub(crate) fingerprints: bool,
    pub(crate) guard_original: bool,
    pub(crate) guard_roots: bool,
    pub(crate) watch_content: bool,
    pub(crate) screen_patch: bool,
}

impl Default for Defences {
    fn default() -> Self {
        Self {
            restore_tests: true,
            restore_config: true,
            remove_self_loading: true,
            remove_shadowing: true,
            remove_bytecode: true,
            freeze_plugins: true,
            authenticate: true,
            require_end: true,
            canaries: true,
            fingerprints: true,
            guard_original: true,
            guard_roots: true,
            watch_content: true,
            screen_patch: true,
        }
    }
}

impl Defences {
    /// Their names, as [`Defences::without`] takes them. For tests.
    #[doc(hidden)]
    pub const NAMES: [&str; 14] = [
        "restore_tests",
        "restore_config",
        "remove_self_loading",
        "remove_shadowing",
        "remove_bytecode",
        "freeze_plugins",
        "authenticate",
        "require_end",
        "canaries",
        "fingerprints",
        "guard_original",
        "guard_roots",
        "watch_content",
        "screen_patch",
    ];

    /// All but the named one. For tests.
    ///
    /// # Panics
    ///
    /// On a name that is no defence, so that a test cannot pass by a slip of the pen.
    #[doc(hidden)]
    #[must_use]
    pub fn without(self, name: &str) -> Self {
        let mut defences = self;
        let switch = match name {
            "restore_tests" => &mut defences.restore_tests,
            "restore_config" => &mut defences.restore_config,
            "remove_self_loading" => &mut defences.remove_self_loading,
            "remove_shadowing" => &mut defences.remove_shadowing,
            "remove_bytecode" => &mut defences.remove_bytecode,
            "freeze_plugins" => &mut defences.freeze_plugins,
            "authenticate" => &mut defences.authenticate,
            "require_end" => &mut defences.require_end,
            "canaries" => &mut defences.canaries,
            "fingerprints" => &mut defences.fingerprints,
            "guard_original" => &mut defences.guard_original,
            "guard_roots" => &mut defences.guard_roots,
            "watch_content" => &mut defences.watch_content,
            "screen_patch" => &mut defences.screen_patch,
            _ => panic!("no defence is named {name}"),
        };
        *switch = false;
        defences
    }
}
