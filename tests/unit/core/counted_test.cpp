#include "core/counted.h"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

TEST(Counted, OneThingIsNotSeveral) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(2, "rank"), "2 ranks");
  EXPECT_EQ(counted(1, "class", "classes"), "1 class");
  EXPECT_EQ(counted(21, "class", "classes"), "21 classes");
  EXPECT_EQ(counted(-1, "degree"), "-1 degrees");
}

}  // namespace
}  // namespace lockstep::core
