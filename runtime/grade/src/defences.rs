//! Defines the defences of grading. Each can be disabled separately.

/// Which defences are active. Only the attack tests disable a defence, to show that an attack
/// succeeds without it.
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
    pub(crate) tell_failures: bool,
    pub(crate) follow_forks: bool,
    pub(crate) compare_snapshots: bool,
    pub(crate) compare_objects: bool,
    pub(crate) see_watchers: bool,
    pub(crate) see_openings: bool,
    pub(crate) see_readers: bool,
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
            tell_failures: true,
            follow_forks: true,
            compare_snapshots: true,
            compare_objects: true,
            see_watchers: true,
            see_openings: true,
            see_readers: true,
        }
    }
}

impl Defences {
    /// The names that [`Defences::without`] accepts, for tests.
    #[doc(hidden)]
    pub const NAMES: [&str; 21] = [
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
        "tell_failures",
        "follow_forks",
        "compare_snapshots",
        "compare_objects",
        "see_watchers",
        "see_openings",
        "see_readers",
    ];

    /// The optional checks that the `sight` package should run, by the names that it uses.
    pub(crate) fn sight_checks(self) -> Vec<&'static str> {
        let checks = [
            (self.tell_failures, "failures"),
            (self.follow_forks, "forks"),
            (self.compare_snapshots, "snapshots"),
            (self.compare_objects, "objects"),
            (self.see_watchers, "watchers"),
            (self.see_openings, "openings"),
            (self.see_readers, "readers"),
        ];
        checks.into_iter().filter(|(is_active, _)| *is_active).map(|(_, name)| name).collect()
    }

    /// Returns all defences except the named one, for tests.
    ///
    /// # Panics
    ///
    /// Panics if `name` is not a defence, so that a typo cannot make a test pass.
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
            "tell_failures" => &mut defences.tell_failures,
            "follow_forks" => &mut defences.follow_forks,
            "compare_snapshots" => &mut defences.compare_snapshots,
            "compare_objects" => &mut defences.compare_objects,
            "see_watchers" => &mut defences.see_watchers,
            "see_openings" => &mut defences.see_openings,
            "see_readers" => &mut defences.see_readers,
            _ => panic!("unknown defence {name}"),
        };
        *switch = false;
        defences
    }
}
