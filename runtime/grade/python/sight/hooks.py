"""Observes pytest's plugins, hooks and objects, and who calls the recorder's own hooks."""

import sys
import types

import pytest

from .context import Observer
from .engine import IMPORTERS
from .values import NAME_OF, class_overrides, is_class, places, same, unwrapped

# Hooks that determine a test's reported result. They are checked after each phase.
DECISIVE = (
    "pytest_pyfunc_call",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtest_call",
    "pytest_runtest_teardown",
    "pytest_runtest_makereport",
    "pytest_runtest_logreport",
    "pytest_fixture_setup",
)
# Attributes that pluggy calls.
CALLED = ("_inner_hookexec", "_hookexec")


class Hooks(Observer):
    """Pytest's plugins, the hooks that they implement, and the objects that call them."""

    def __init__(self, context, locations):
        super().__init__(context)
        self._locations = locations
        self._finders = list(sys.meta_path), list(sys.path_hooks)
        self._pluggy = set(places(sys.modules["pluggy"].HookimplMarker)) if "pluggy" in sys.modules else set()
        self._config = self._decisive = None

    def configured(self, config):
        self._config = config
        self._locations.check_path()

    def is_ready(self):
        """Whether pytest has completed its configuration."""
        return self._config is not None

    def registered(self, plugin, manager):
        """Records a plugin. A plugin counts even if it is unregistered later."""
        try:
            name = manager.get_name(plugin) or type(plugin).__name__
        except Exception:
            name = type(plugin).__name__
        self._reports.report("plugins", name, places(plugin))
        self._locations.check_path()

    def check_plugins(self, recorder):
        manager = self._config.pluginmanager
        for name, plugin in manager.list_name_plugin():
            if plugin is not None and plugin is not recorder:
                self._reports.report("plugins", name, places(plugin))
        for caller in list(vars(self._config.hook).values()):
            for impl in self._impls(caller):
                if impl.plugin is not recorder:
                    self._reports.report("plugins", impl.plugin_name, self._engine.places(impl.function))

    @staticmethod
    def _impls(caller):
        try:
            return list(caller.get_hookimpls())
        except Exception:
            return []

    def _find_decisive(self):
        hooks = vars(self._config.hook)
        return [impl for name in DECISIVE for impl in self._impls(hooks.get(name))]

    def remember_decisive(self):
        self._decisive = self._find_decisive()

    def check_decisive(self, recorder):
        """Checks the plugins again if the hooks that determine a test's result have changed."""
        now = self._find_decisive()
        if self._decisive is not None and not same(now, self._decisive):
            self._decisive = now
            self.check_plugins(recorder)

    def check_objects(self):
        """Checks functions in an object's own dictionary, which take precedence over those of its class."""
        config, session = self._config, self._run.session
        manager = config.pluginmanager
        callers = [(name, caller) for name, caller in list(vars(config.hook).items()) if name.startswith("pytest_")]
        objects = [config, manager, config.hook, session, pytest.mark]
        objects += [getattr(session, "_setupstate", None), getattr(session, "_fixturemanager", None)]
        for thing in objects + [caller for _, caller in callers]:
            if thing is not None and not self._engine.is_own_class(type(thing)):
                self._reports.report_object("the class of %s" % NAME_OF(type(thing)), [""])
            for name in CALLED:
                called = getattr(thing, name, None)
                if called is not None:
                    self._check_called("%s.%s" % (NAME_OF(type(thing)), name), called)
        objects += list(sys.meta_path)
        for finder in list(sys.path_importer_cache.values()):
            if finder is not None:
                objects.append(finder)
                for part in [finder] + [loader for _, loader in getattr(finder, "_loaders", ())]:
                    kind = part if is_class(part) else type(part)
                    if kind not in IMPORTERS:
                        self._reports.report("patched", "an import hook", self._engine.places(kind))
        for thing in objects:
            if is_class(thing):
                continue
            for name, value in list(getattr(thing, "__dict__", {}).items()):
                label = "%s.%s" % (NAME_OF(type(thing)), name)
                if isinstance(unwrapped(value), types.FunctionType):
                    self._reports.report("patched", label, self._engine.places(value))
                elif thing is config.hook and name.startswith("pytest_"):
                    files = self._engine.places(value) + self._engine.places(getattr(value, "_hookexec", value))
                    if not self._pluggy.issuperset(files):
                        self._reports.report("patched", label, files)
            if any(thing is one for one in (config, manager, session)):
                for name, value in class_overrides(thing).items():
                    if not isinstance(unwrapped(value), types.FunctionType) and value is not None:
                        self._reports.report_object("%s.%s" % (NAME_OF(type(thing)), name), self._engine.places(value))
        for finder in self._preceding_import_hooks():
            self._reports.report("patched", "an import hook", self._engine.places(finder))

    def _check_called(self, label, called):
        bound = getattr(called, "__self__", None) if isinstance(called, types.MethodType) else None
        if not isinstance(unwrapped(called), types.FunctionType):
            self._reports.report_object(label, self._engine.places(called))
        elif bound is not None and not self._engine.is_own_class(type(bound)):
            self._reports.report_object(label, [""])
        elif self._engine.codes.get(id(unwrapped(called).__code__)) is None:
            self._reports.report_object(label, self._engine.places(called))

    def _preceding_import_hooks(self):
        """Yields import hooks that precede the interpreter's own. Later hooks are only used for modules that the
        interpreter's own hooks do not find."""
        for now, own in zip((list(sys.meta_path), list(sys.path_hooks)), self._finders):
            is_own = [any(finder is known for known in own) for finder in now]
            while is_own and not is_own[-1]:
                is_own.pop()
            for finder, known in zip(now, is_own):
                if not known:
                    yield finder


class Callers(Observer):
    """Only pytest may call the recorder's hooks. Other callers could forge a record or detect canaries."""

    def check_caller(self):
        if self._run.is_in_call:
            self._reports.report("patched", "a test that runs within another", [""])

    def check_reporter(self):
        # There are a hundred reports per second, and each check reads five frames.
        self._frames.unseen(self._check_reporter)

    def _check_reporter(self):
        frame = self._frames.frame_of(0)
        while frame is not None and frame.f_code.co_filename.startswith(self._paths.hook_folders):
            frame = frame.f_back
        file = "" if frame is None else frame.f_code.co_filename
        if file in self._engine.files or file in self._paths.watch:
            return
        paths = self._paths
        is_foreign = paths.is_code_under_test(file) or paths.is_standard(file) or paths.is_elsewhere(file)
        if file[:1] != "/" or is_foreign:
            self._reports.report("patched", "the report of a test", [file])
