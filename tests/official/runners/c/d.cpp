#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
TEST_CASE("adds & more") { SUBCASE("two numbers") { CHECK(1 + 1 == 2); CHECK(1 < 2); } SUBCASE("badly") { CHECK(1 + 1 == 3); } SUBCASE("nothing") {} }
TEST_CASE("plain") { CHECK(true); }
TEST_CASE("skipped" * doctest::skip()) { SUBCASE("x") { CHECK(false); } }
