//! Defines the defenses of grading. Each can be disabled separately.

/// Which defenses are active. Only the attack tests disable a defense, to show that an attack
/// succeeds without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defenses {
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

impl Default for Defenses {
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

impl Defenses {
    /// The names that [`Defenses::without`] accepts, for tests.
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

    /// Returns all defenses except the named one, for tests.
    ///
    /// # Panics
    ///
    /// Panics if `name` is not a defense, so that a typo cannot make a test pass.
    #[doc(hidden)]
    #[must_use]
    pub fn without(self, name: &str) -> Self {
        let mut defenses = self;
        let switch = match name {
            "restore_tests" => &mut defenses.restore_tests,
            "restore_config" => &mut defenses.restore_config,
            "remove_self_loading" => &mut defenses.remove_self_loading,
            "remove_shadowing" => &mut defenses.remove_shadowing,
            "remove_bytecode" => &mut defenses.remove_bytecode,
            "freeze_plugins" => &mut defenses.freeze_plugins,
            "authenticate" => &mut defenses.authenticate,
            "require_end" => &mut defenses.require_end,
            "canaries" => &mut defenses.canaries,
            "fingerprints" => &mut defenses.fingerprints,
            "guard_original" => &mut defenses.guard_original,
            "guard_roots" => &mut defenses.guard_roots,
            "watch_content" => &mut defenses.watch_content,
            "screen_patch" => &mut defenses.screen_patch,
            "tell_failures" => &mut defenses.tell_failures,
            "follow_forks" => &mut defenses.follow_forks,
            "compare_snapshots" => &mut defenses.compare_snapshots,
            "compare_objects" => &mut defenses.compare_objects,
            "see_watchers" => &mut defenses.see_watchers,
            "see_openings" => &mut defenses.see_openings,
            "see_readers" => &mut defenses.see_readers,
            _ => panic!("unknown defense {name}"),
        };
        *switch = false;
        defenses
    }
}
