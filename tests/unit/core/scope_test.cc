#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "core/frame_slab.h"
#include "core/task.h"
#include "tests/unit/core/pause.h"

namespace sluice {
namespace {

Task<void> Finish() { co_return; }

Task<void> WaitOn(Pause* pause) { co_await *pause; }

Task<void> Count(Pause* pause, int* ended) {
  co_await *pause;
  ++*ended;
}

Task<void> CloseThenSet(Scope* scope, bool* closed) {
  co_await scope->Close();
  *closed = true;
}

TEST(Scope, AFinishedTaskIsNotKept) {
  Scope scope;

  scope.Spawn(Finish());

  EXPECT_EQ(scope.size(), 0u);
}

TEST(Scope, TwoMillionFinishedTasksLeaveNothing) {
  Scope scope;
  const uint64_t before = FrameSlab::ThreadStats().live_frames;

  for (int i = 0; i < 2'000'000; ++i) scope.Spawn(Finish());

  EXPECT_EQ(scope.size(), 0u);
  EXPECT_EQ(FrameSlab::ThreadStats().live_frames, before);
}

TEST(Scope, AnEmptyOneClosesAtOnce) {
  Scope scope;
  bool closed = false;

  Task<void> closer = CloseThenSet(&scope, &closed);

  EXPECT_TRUE(closer.done());
}

TEST(Scope, CloseWaitsForTheLast) {
  std::vector<Pause> pauses(3);
  Scope scope;
  int ended = 0;
  bool closed = false;
  for (Pause& pause : pauses) scope.Spawn(Count(&pause, &ended));

  Task<void> closer = CloseThenSet(&scope, &closed);

  pauses[1].Resume();
  pauses[0].Resume();
  EXPECT_EQ(scope.size(), 1u);
  EXPECT_FALSE(closed);
  pauses[2].Resume();
  EXPECT_EQ(ended, 3);
  EXPECT_TRUE(closed);
}

// The frame is destroyed in its own final suspension: ASan watches.
TEST(Scope, AFrameDiesWhenItsTaskEnds) {
  Pause pause;
  Scope scope;
  auto owned = std::make_shared<int>(1);
  const uint64_t before = FrameSlab::ThreadStats().live_frames;
  scope.Spawn(WaitOn(&pause));
  EXPECT_EQ(FrameSlab::ThreadStats().live_frames, before + 1);

  pause.Resume();

  EXPECT_EQ(FrameSlab::ThreadStats().live_frames, before);
}

Task<void> HoldShared(std::shared_ptr<int> held, Pause* pause) {
  co_await *pause;
  ++*held;
}

TEST(Scope, ParametersDieBeforeTheCloserGoesOn) {
  Pause pause;
  Scope scope;
  auto shared = std::make_shared<int>(1);
  scope.Spawn(HoldShared(shared, &pause));
  EXPECT_EQ(shared.use_count(), 2);

  pause.Resume();

  EXPECT_EQ(shared.use_count(), 1);
  EXPECT_EQ(*shared, 2);
}

Task<void> SpawnMore(Scope* scope, Pause* first, Pause* second) {
  co_await *first;
  scope->Spawn(WaitOn(second));
}

TEST(Scope, TasksMaySpawnWhileItCloses) {
  Pause first;
  Pause second;
  Scope scope;
  bool closed = false;
  scope.Spawn(SpawnMore(&scope, &first, &second));
  Task<void> closer = CloseThenSet(&scope, &closed);

  first.Resume();
  EXPECT_FALSE(closed);
  second.Resume();

  EXPECT_TRUE(closed);
}

// The closer owns the scope and destroys it as soon as it is closed.
Task<void> OwnAScope(Pause* pause, int* ended, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    auto scope = std::make_unique<Scope>();
    scope->Spawn(Count(pause, ended));
    co_await scope->Close();
  }
}

TEST(Scope, MayDieAsSoonAsItIsClosed) {
  Pause pause;
  int ended = 0;

  Task<void> task = OwnAScope(&pause, &ended, 100'000);
  while (!task.done()) pause.Resume();

  EXPECT_EQ(ended, 100'000);
}

Task<void> CloseInner(Scope* inner, Scope* outer, Pause* pause) {
  outer->Spawn(WaitOn(pause));
  co_await inner->Close();
}

TEST(Scope, ATaskOfOneScopeMayCloseAnother) {
  Pause in_inner;
  Pause in_outer;
  Scope inner;
  Scope outer;
  bool closed = false;
  inner.Spawn(WaitOn(&in_inner));
  outer.Spawn(CloseInner(&inner, &outer, &in_outer));
  Task<void> closer = CloseThenSet(&outer, &closed);

  in_inner.Resume();
  EXPECT_FALSE(closed);
  in_outer.Resume();

  EXPECT_TRUE(closed);
}

TEST(ScopeDeathTest, DestroyingOneWithTasksInsideDies) {
  Pause pause;

  EXPECT_DEATH(
      {
        Scope scope;
        scope.Spawn(WaitOn(&pause));
      },
      "CHECK failed: size_ == 0");
}

TEST(ScopeDeathTest, TwoClosersDie) {
  Pause pause;
  bool closed = false;

  EXPECT_DEATH(
      {
        Scope scope;
        scope.Spawn(WaitOn(&pause));
        Task<void> first = CloseThenSet(&scope, &closed);
        Task<void> second = CloseThenSet(&scope, &closed);
      },
      "CHECK failed: !scope->closer_");
}

}  // namespace
}  // namespace sluice
