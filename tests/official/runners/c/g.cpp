#include <gtest/gtest.h>
TEST(Calc, Adds) { EXPECT_EQ(1 + 1, 2); }
TEST(Calc, Bad) { EXPECT_EQ(1 + 1, 3); }
TEST(Calc, Skips) { GTEST_SKIP() << "later"; }
TEST(Other, Prints) { std::puts("[       OK ] Fake.Test (0 ms)"); }
